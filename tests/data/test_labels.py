from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bombs
from attack.attempts import Attempts
from hodgeformer.base.errors import DataError
from hodgeformer.data.census import take_census
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.label_files import label_files, read_labels, read_numbers
from hodgeformer.data.labels import Codes, LabelFile, ValueFile, WholeMesh
from hodgeformer.mesh.io import load_mesh, save_mesh
from hodgeformer.mesh.mesh import Mesh
from meshes import icosphere


@pytest.mark.parametrize("text", ["1\n2\n-1\n", "1 2 -1", "1,2,-1\n", "1.0\n2.000e+00\n-1.0\n"])
def test_integers_in_any_spelling(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert read_labels(path).values.tolist() == [1, 2, -1]


def test_numpy_files(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([[3], [4]], dtype=np.uint8))
    assert read_labels(path).values.tolist() == [3, 4]
    np.save(path, np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(DataError, match=r"a\.npy"):
        read_labels(path)


@pytest.mark.parametrize(
    ("text", "message"), [("1\nx\n", "value 1 is not a number: 'x'"), ("1\n1.5\n", "1.5 at element 1")]
)
def test_bad_text_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.seg"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_labels(path)


@pytest.mark.parametrize("label", [2**63, 2**64 - 1, 10**30, -(10**30)])
def test_labels_that_no_integer_holds_are_refused(tmp_path: Path, label: int) -> None:
    """A cast would make them negative, and negative is unlabeled."""
    path = tmp_path / "a.txt"
    path.write_text(f"1\n{label}\n")
    with pytest.raises(DataError, match=r"a\.txt: label .* at element 1 is .* too large"):
        read_labels(path)
    np.save(tmp_path / "a.npy", np.array([1, 2**63], dtype=np.uint64))
    with pytest.raises(DataError, match=r"a\.npy: label 9223372036854775808 at element 1"):
        read_labels(tmp_path / "a.npy")


@pytest.mark.parametrize("label", [1.5, 1e30, float("nan")])
def test_labels_of_a_mesh_file_are_whole(strip: Mesh, label: float) -> None:
    mesh = replace(strip, attributes={"face_labels": np.array([1.0, 1.0, label, 1.0])})
    with pytest.raises(DataError, match="at element 2 is not an integer"):
        LabelFile(Path("a.ply"), "f", "f", Codes.counted_from(1, 2), "ply:label").read(mesh)


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(10000000000000000000000000000000,)", "(-1,)", "(4,", "('a',)"])
def test_numpy_headers_that_lie(tmp_path: Path, shape: str) -> None:
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(32))
    with pytest.raises(DataError, match=r"a\.npy"):
        read_labels(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes")
def test_a_pipe_is_no_label_file(tmp_path: Path) -> None:
    for name in ("a.txt", "a.npy"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(DataError, match=f"{name}: not a regular file"):
            read_labels(tmp_path / name)


def test_codes_renumber_and_keep_unlabeled() -> None:
    codes = Codes((4, 9, 7))
    assert codes.decode(np.array([7, 4, -1, 9, -5]), "here").tolist() == [2, 0, -1, 1, -1]
    with pytest.raises(DataError, match=r"here: label 5 at element 1 .*4\.\.9"):
        codes.decode(np.array([4, 5]), "here")


def test_labels_that_count_from_one(strip: Mesh, tmp_path: Path) -> None:
    path = tmp_path / "strip.txt"
    path.write_text("1 1 2 2")
    source = LabelFile(path, "f", "f", Codes.counted_from(1, 2))
    assert source.read(strip).tolist() == [0, 0, 1, 1]
    path.write_text("0 1 2 2")
    with pytest.raises(DataError, match="label 0 at element 0"):
        source.read(strip)


def test_a_wrong_count_hints_at_the_right_element(strip: Mesh, tmp_path: Path) -> None:
    path = tmp_path / "strip.txt"
    path.write_text("0 " * 9)
    with pytest.raises(DataError, match=r"9 labels for mesh 'strip', which has 4 face .*one per edge"):
        LabelFile(path, "f", "f", Codes.counted_from(0, 2)).read(strip)


def test_a_missing_file_is_named(strip: Mesh, tmp_path: Path) -> None:
    for name in ("strip.txt", "strip.npy"):
        with pytest.raises(DataError, match=rf"{name}: the label file is missing"):
            LabelFile(tmp_path / name, "f", "f", Codes.counted_from(0, 2)).read(strip)


def test_labels_of_quads_are_carried_to_their_triangles(tmp_path: Path) -> None:
    path = tmp_path / "quads.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 2 0 0\nv 2 1 0\nf 1 2 3 4\nf 2 5 6 3\n")
    labels = tmp_path / "quads.txt"
    labels.write_text("0\n1\n")
    read = LabelFile(labels, "f", "f", Codes.counted_from(0, 2)).read(load_mesh(path))
    assert read.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(("kind", "n"), [("f", 4), ("v", 6)])
def test_labels_inside_the_mesh_file(strip: Mesh, tmp_path: Path, kind: str, n: int) -> None:
    path = tmp_path / "strip.ply"
    labels = np.arange(n) % 2 + 1
    save_mesh(strip, path, **{"face_labels" if kind == "f" else "vertex_labels": labels})
    source = LabelFile(path, "f", kind, Codes.counted_from(1, 2), "ply:label")
    assert source.read(load_mesh(path)).tolist() == (labels - 1).tolist()
    with pytest.raises(DataError, match="property 'label'"):
        source.read(strip)


def test_values_and_whole_meshes(strip: Mesh, tmp_path: Path) -> None:
    path = tmp_path / "strip.txt"
    path.write_text("0.5 1\n1.5 2\n2.5 3\n3.5 4\n")
    assert ValueFile(path, "f").read(strip).tolist() == [[0.5, 1], [1.5, 2], [2.5, 3], [3.5, 4]]
    assert WholeMesh(2).read(strip).tolist() == [2]
    assert WholeMesh((0.5,)).read(strip).tolist() == [[0.5]]
    path.write_text("0.5\nnan\n")
    with pytest.raises(DataError, match="element 1 is not finite"):
        read_numbers(path)
    path.write_text("0.5\n1 2\n")
    with pytest.raises(DataError, match="same number of values"):
        read_numbers(path)


def test_label_files_are_found_by_path_then_stem(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.1.npy").touch()
    (tmp_path / "y.eseg").touch()
    (tmp_path / "a" / "x.1.eseg").touch()
    (tmp_path / "notes.md").touch()
    (tmp_path / "z_labels.txt").touch()
    found = label_files(tmp_path)
    assert found.pop("z") == found.pop("z_labels") == tmp_path / "z_labels.txt"
    assert found == {"a/x.1": tmp_path / "a" / "x.1.npy", "y": tmp_path / "y.eseg"}


PARTS = ("head", "upper arm")
FORMATS = {
    "a.txt": "0\n0\n1\n1\n",
    "names.txt": "head\nhead\nupper arm\nupper arm\n",
    "headed.csv": "label\n0\n0\n1\n1\n",
    "names.csv": "label\nhead\nhead\nupper arm\nupper arm\n",
    "plain_names.csv": "head\nhead\nupper arm\nupper arm\n",
    "numbered.csv": "face,label\n3,1\n0,0\n2,1\n1,0\n",
    "from_one.csv": "index;class\n4;upper arm\n1;head\n3;upper arm\n2;head\n",
    "no_header.csv": "1,head\n2,head\n3,upper arm\n4,upper arm\n",
    "wide.csv": 'face_id,area,"label"\n0,0.5,head\n1,0.5,head\n2,0.25,upper arm\n3,0.1,upper arm\n',
    "list.json": "[0, 0, 1, 1]",
    "names.json": '["head", "head", "upper arm", "upper arm"]',
    "other_order.json": '{"labels": [1, 1, 0, 0], "classes": ["upper arm", "head"]}',
    "princeton_labels.txt": "head\n2 1\nupper arm\n3 4\n",
    "per_vertex.json": '{"labels": [0, 0, 0, 1, 1, 1], "element": "vertex"}',
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_spelling_says_the_same(strip: Mesh, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(FORMATS[name])
    labels = LabelFile(path, "f", "f", Codes.counted_from(0, 2, PARTS)).read(strip)
    assert labels.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("head\n1 2\nupper arm\n2 3 4\n", "the number of every element once"),
        ("head\n1 2\nupper arm\n3 999999999999\n", "the number of every element once"),
        ("head\n1 2\nupper arm\n3 x\n", "part 'upper arm': value 1 is not a number: 'x'"),
        ("head\n1 2\nupper_arm\n3 4\n", "unknown class 'upper_arm'; did you mean 'upper arm'"),
    ],
)
def test_parts_that_do_not_cover_the_mesh_are_refused(strip: Mesh, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        LabelFile(tmp_path / "a.txt", "f", "f", Codes.counted_from(0, 2, PARTS)).read(strip)


@pytest.mark.parametrize("arrays", [{"labels": [0, 0, 1, 1]}, {"seg": ["head", "head", "upper arm", "upper arm"]}])
def test_numpy_archives(strip: Mesh, tmp_path: Path, arrays: dict[str, list[int | str]]) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    source = LabelFile(tmp_path / "a.npz", "f", "f", Codes.counted_from(0, 2, PARTS))
    assert source.read(strip).tolist() == [0, 0, 1, 1]
    np.savez(tmp_path / "a.npz", one=[1], two=[2])
    with pytest.raises(DataError, match=r"a\.npz: expected an array `labels`; found one, two"):
        source.read(strip)
    np.savez(tmp_path / "a.npz", **{"o" * 5000: [1], "two": [2]})
    with pytest.raises(DataError, match=r"`labels`; found o{200}$"):
        source.read(strip)
    np.savez(tmp_path / "a.npz", labels=np.zeros(4, dtype=[(f"column {i}", "i4") for i in range(300)]))
    with pytest.raises(DataError, match=r"numbers or names, found .{200}$"):
        source.read(strip)


def test_archives_that_unpack_to_much_are_not_unpacked(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", labels=np.zeros(100 << 20, dtype=np.uint8))
    assert (tmp_path / "a.npz").stat().st_size < 1 << 20
    with pytest.raises(DataError, match=r"a\.npz: .* unpack to 104,857,728, which is too much"):
        read_labels(tmp_path / "a.npz")


@pytest.mark.parametrize("letter", [0x12000000, 0xCA9A3B, 0xD800])
def test_letters_that_are_none(letter: int, tmp_path: Path) -> None:
    names = np.array(["head", "arm"])
    names.view(np.uint32)[0] = letter
    np.save(tmp_path / "a.npy", names)
    with pytest.raises(DataError, match=r"a\.npy: the names in this file are not valid text"):
        read_labels(tmp_path / "a.npy")


def test_what_has_no_label_is_marked_in_any_spelling(strip: Mesh, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('["head", null, "unlabelled", "upper arm"]')
    assert LabelFile(path, "f", "f", Codes.counted_from(0, 2, PARTS)).read(strip).tolist() == [0, -1, -1, 1]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "face,label\n0,0\n0,1\n2,0\n3,1\n", "column 'face' must contain the number of every element once"),
        ("a.csv", "face,label\n0,0\n1\n", "row 3 has 1 columns, expected 2"),
        ("a.txt", "hed\nhead\nhead\nhead\n", "unknown class 'hed'; did you mean 'head'"),
        ("a.json", '{"faces": []}', r"an object with `labels`; found \['faces'\]"),
        ("a.json", f'{{"{"labe" * 1000}": []}}', r"an object with `labels`; found \['labe"),
        ("a.csv", f"face {'x' * 5000},label\n5,1\n", "column 'face x+' must contain"),
        ("a.json", '{"labels": [[0, 1]]}', "one label per element in `labels`"),
        ("a.json", "[0, 1.5, 1, 1]", "label 1.5 at element 1"),
        ("a.json", "[0, 1", "not a JSON file"),
        ("a.txt", "head\n" * 3 + "h" * 2000, "label 3 has 2,000 characters"),
        ("a.txt", "0.5 0 0 1\n" * 3 + "inf 0 0 1\n", "must be finite"),
        ("a.xml", "<labels/>", r"unsupported label format '\.xml'; supported: \.txt, .*\.json"),
    ],
)
def test_a_file_that_cannot_be_understood_says_why(
    strip: Mesh, tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message) as refused:
        LabelFile(tmp_path / name, "f", "f", Codes.counted_from(0, 2, PARTS)).read(strip)
    assert str(refused.value).startswith(str(tmp_path / name)) and len(str(refused.value)) < 1000


def test_points_with_labels(strip: Mesh, tmp_path: Path) -> None:
    """As ShapeNet has them: x y z, a normal, a label; or points and labels in two files."""
    centers = strip.vertices[strip.faces].mean(axis=1) + 0.01
    rows = np.column_stack([np.repeat(centers, 2, axis=0), np.ones((8, 3)), np.repeat([1, 1, 2, 2], 2)])
    np.savetxt(tmp_path / "strip.txt", rows)
    source = LabelFile(tmp_path / "strip.txt", "f", "f", Codes.counted_from(1, 2))
    assert source.read(strip).tolist() == [0, 0, 1, 1]
    np.savetxt(tmp_path / "strip.txt", rows + np.array([5, 5, 5, 0, 0, 0, 0]))
    with pytest.raises(DataError, match="8 points are not on mesh 'strip'"):
        source.read(strip)
    for folder in ("points", "points_label"):
        (tmp_path / folder).mkdir()
    np.savetxt(tmp_path / "points" / "strip.pts", rows[:, :3])
    np.savetxt(tmp_path / "points_label" / "strip.seg", rows[:, -1], fmt="%d")
    source = LabelFile(tmp_path / "points_label" / "strip.seg", "f", "f", Codes.counted_from(1, 2))
    assert source.read(strip).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("kind", ["face", "vertex"])
def test_colors_stand_for_classes(strip: Mesh, tmp_path: Path, kind: str) -> None:
    codes = Codes.counted_from(0, 2, PARTS, ((255, 0, 0), (0, 0, 250)))
    labels = np.array([0, 0, 1, 1] if kind == "face" else [0, 0, 0, 1, 1, 1])
    colors = np.array(codes.colors)[labels]
    colors[0] -= (3, 0, 0)  # what another program rounded
    save_mesh(strip, tmp_path / "strip.ply", **{f"{kind}_colors": colors})
    inside = LabelFile(tmp_path / "strip.ply", "f", "f", codes, "ply:color").read(load_mesh(tmp_path / "strip.ply"))
    beside = LabelFile(tmp_path / "strip.ply", "f", "f", codes).read(strip)
    assert inside.tolist() == beside.tolist() == [0, 0, 1, 1]
    colors[1] = 90, 90, 90
    save_mesh(strip, tmp_path / "strip.ply", **{f"{kind}_colors": colors})
    with pytest.raises(DataError, match=r"no class has the color #5a5a5a .*#ff0000, #0000fa"):
        LabelFile(tmp_path / "strip.ply", "f", "f", codes, "ply:color").read(load_mesh(tmp_path / "strip.ply"))


def test_few_stray_colors_get_the_nearest_class(tmp_path: Path) -> None:
    """Scans painted by hand have shades in between on a few faces."""
    mesh = icosphere(2)
    codes = Codes.counted_from(0, 2, PARTS, ((255, 0, 0), (0, 0, 250)))
    labels = np.arange(mesh.n_faces) % 2
    colors = np.array(codes.colors)[labels]
    colors[3] = 40, 0, 190
    save_mesh(mesh, tmp_path / "a.ply", face_colors=colors)
    source = LabelFile(tmp_path / "a.ply", "f", "f", codes, "ply:color")
    dataset = DataSet("painted", "segmentation", "face", {"train": (Sample("a", tmp_path / "a.ply", source),)}, PARTS)
    assert dataset.load(dataset.samples[0])[1].tolist() == labels.tolist()
    warning = "elements with a color of no class get the class of the nearest color: a (1)"
    assert warning in take_census(dataset).warnings
    colors[:20] = 40, 0, 190
    save_mesh(mesh, tmp_path / "a.ply", face_colors=colors)
    with pytest.raises(DataError, match=r"no class has the color #2800be \(and 20 of 320 elements"):
        dataset.load(dataset.samples[0])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory as Linux counts it")
def test_large_files_take_memory_in_proportion(tmp_path: Path) -> None:
    """At most 300 MB and twenty times their bytes, and ten seconds; `make attack` measures more of them."""
    paths = [bombs.bomb(name, tmp_path) for name in ("lines.txt", "numbers.json")]
    with Attempts("attack.test_bombs:read") as reader:
        assert list(reader.attempts(paths)) == ["accepted"] * len(paths)
    for path in paths:
        path.unlink()


def test_one_long_name_does_not_make_all_labels_long(tmp_path: Path) -> None:
    """An array of names takes as much for each as for the longest."""
    (tmp_path / "labels.txt").write_text("arm\n" * 200_000 + "l" * 900 + "\n")
    with pytest.raises(DataError, match="use shorter names, or numbers"):
        read_labels(tmp_path / "labels.txt")

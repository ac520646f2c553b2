from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from clock import at_most
from hodgeformer.base.errors import DataError, HodgeFormerError
from hodgeformer.base.palette import class_colors
from hodgeformer.cli import app
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.folder import open_folder, write_folder
from hodgeformer.data.open import open_dataset
from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.mesh import Mesh


def edit(root: Path, old: str, new: str) -> None:
    path = root / "dataset.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def assert_same(a: DataSet, b: DataSet) -> None:
    assert (a.task, a.element, a.classes, a.colors, a.name) == (b.task, b.element, b.classes, b.colors, b.name)
    assert list(a.splits) == list(b.splits)
    for x, y in zip(a.samples, b.samples, strict=True):
        assert x.name == y.name
        (mesh, target), (other, other_target) = a.load(x), b.load(y)
        assert np.array_equal(mesh.faces, other.faces)
        assert np.allclose(mesh.vertices, other.vertices, atol=1e-6)
        assert np.array_equal(target, other_target)
        assert target.dtype == other_target.dtype


def test_meshes_and_labels_in_linked_folders_are_found(figures: DataSet, tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_folder(figures, root)
    for name in ("meshes", "labels"):
        (root / name).rename(tmp_path / name)
        (root / name).mkdir()
        (root / name / "linked").symlink_to(tmp_path / name)
    names = {sample.name for sample in open_dataset(root).samples}
    assert names == {f"linked/{sample.name}" for sample in figures.samples}


def test_what_is_written_is_read_back(figures: DataSet, cubes: DataSet, tmp_path: Path) -> None:
    for number, dataset in enumerate((figures, cubes)):
        root = tmp_path / str(number)
        write_folder(dataset, root)
        assert_same(dataset, open_dataset(root))
    with pytest.raises(DataError, match="already contains a data set"):
        write_folder(figures, root)


def test_fractions_cover_everything_once(figure_folder: Path) -> None:
    text = (figure_folder / "dataset.toml").read_text().split("[split]")[0]
    (figure_folder / "dataset.toml").write_text(text + "[split]\ntrain = 0.5\nval = 0.2\ntest = 0.3\nseed = 3\n")
    dataset = open_folder(figure_folder)
    assert {split: len(samples) for split, samples in dataset.splits.items()} == {"train": 5, "val": 2, "test": 3}
    assert len({sample.name for sample in dataset.samples}) == 10


def test_of_two_meshes_one_is_for_testing(octahedron: Mesh, tmp_path: Path) -> None:
    (tmp_path / "meshes").mkdir()
    for name in ("a", "b"):
        save_mesh(octahedron, tmp_path / "meshes" / f"{name}.obj", face_labels=np.arange(8) % 2)
    toml = 'task = "segmentation"\nclasses = ["even", "odd"]\nlabels = "ply:label"\n'
    (tmp_path / "dataset.toml").write_text(toml)
    assert {split: len(samples) for split, samples in open_folder(tmp_path).splits.items()} == {"train": 1, "test": 1}
    (tmp_path / "meshes" / "b.obj").unlink()
    with pytest.raises(DataError, match=r"contains no meshes; add meshes, or set `\[split\] train = 1.0`"):
        open_folder(tmp_path)
    (tmp_path / "dataset.toml").write_text(f"{toml}[split]\ntrain = 1.0\n")
    assert list(open_folder(tmp_path).splits) == ["train"]


def test_splits_by_pattern(figure_folder: Path) -> None:
    text = (figure_folder / "dataset.toml").read_text().split("[split]")[0]
    (figure_folder / "dataset.toml").write_text(
        text + '[split]\ntrain = ["*_train_*"]\ntest = ["figure_test_0001.ply"]\n'
    )
    dataset = open_folder(figure_folder)
    assert [len(samples) for samples in dataset.splits.values()] == [5, 1]


def test_class_by_folder_in_both_nestings(cubes: DataSet, tmp_path: Path) -> None:
    for sample in cubes.samples:
        glyph, split, stem = sample.name.split("/")
        for path in (tmp_path / "a" / "meshes" / glyph / split, tmp_path / "b" / "meshes" / split / glyph):
            path.mkdir(parents=True, exist_ok=True)
            save_mesh(cubes.load(sample)[0], path / f"{stem}.ply")
    for root in (tmp_path / "a", tmp_path / "b"):
        (root / "dataset.toml").write_text('task = "classification"\n[split]\ntrain = "train"\ntest = "test"\n')
        dataset = open_folder(root)
        assert set(dataset.classes) == set(cubes.classes)
        assert [len(samples) for samples in dataset.splits.values()] == [9, 6]
        for sample in dataset.samples:
            assert dataset.classes[dataset.load(sample)[1][0]] in sample.name
    (root / "dataset.toml").write_text('task = "classification"\n')
    assert list(open_folder(root).splits) == ["train", "test"]
    (root / "dataset.toml").write_text('task = "classification"\nclasses = ["disc", "ring"]\n')
    with pytest.raises(DataError, match="class 'cross' is not one of disc, ring"):
        open_folder(root)


def test_a_stratified_split_takes_of_every_class(cubes: DataSet, tmp_path: Path) -> None:
    write_folder(cubes, tmp_path / "c")
    text = (tmp_path / "c" / "dataset.toml").read_text().split("[split]")[0]
    (tmp_path / "c" / "dataset.toml").write_text(text + "[split]\ntrain = 0.8\ntest = 0.2\n")
    dataset = open_folder(tmp_path / "c")
    assert sorted(dataset.load(sample)[1][0] for sample in dataset.split("test")) == [0, 1, 2]


def test_table_of_classes_in_place(octahedron: Mesh, tmp_path: Path) -> None:
    (tmp_path / "meshes").mkdir()
    for name in ("a", "b"):
        save_mesh(octahedron, tmp_path / "meshes" / f"{name}.obj")
    toml = 'task = "classification"\n[labels]\na = "x"\n"b.obj" = "y"\n[split]\ntrain = 1.0\n'
    (tmp_path / "dataset.toml").write_text(toml)
    dataset = open_folder(tmp_path)
    assert [int(dataset.load(sample)[1][0]) for sample in dataset.samples] == [0, 1]
    (tmp_path / "dataset.toml").write_text(toml.replace('"b.obj" = "y"\n', ""))
    with pytest.raises(DataError, match="no entry for mesh 'b'"):
        open_folder(tmp_path)


@pytest.mark.parametrize("element", ["mesh", "face"])
def test_regression(octahedron: Mesh, tmp_path: Path, element: str) -> None:
    (tmp_path / "meshes").mkdir()
    (tmp_path / "labels").mkdir()
    save_mesh(octahedron, tmp_path / "meshes" / "a.obj")
    labels = '"table.csv"' if element == "mesh" else '"labels"'
    (tmp_path / "table.csv").write_text("a,0.5,2\n")
    np.save(tmp_path / "labels" / "a.npy", np.arange(16).reshape(8, 2) / 2)
    (tmp_path / "dataset.toml").write_text(
        f'task = "regression"\nelement = "{element}"\nlabels = {labels}\n[split]\ntrain = 1.0\n'
    )
    dataset = open_folder(tmp_path)
    target = dataset.load(dataset.samples[0])[1]
    assert dataset.n_outputs == 2
    assert target.dtype == np.float32
    assert target.shape == ((1, 2) if element == "mesh" else (8, 2))
    write_folder(dataset, tmp_path / "again")
    assert_same(dataset, open_folder(tmp_path / "again"))


def test_labels_in_the_mesh_files(figures: DataSet, tmp_path: Path) -> None:
    (tmp_path / "meshes").mkdir()
    for sample in figures.samples:
        mesh, target = figures.load(sample)
        save_mesh(mesh, tmp_path / "meshes" / f"{sample.name}.ply", face_labels=target + 1)
    classes = list(figures.classes)
    (tmp_path / "dataset.toml").write_text(
        f'task = "segmentation"\nclasses = {classes}\nlabels = "ply:label"\nfirst_label = 1\n'
    )
    dataset = open_folder(tmp_path)
    for sample, own in zip(
        sorted(figures.samples, key=lambda s: s.name), sorted(dataset.samples, key=lambda s: s.name), strict=True
    ):
        assert np.array_equal(figures.load(sample)[1], dataset.load(own)[1])


OBJ = """\
v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 2 0 0\nv 2 1 0
f 1 2 3
o whole
g body
usemtl skin
f 1 3 4
g head
usemtl hair
f 2 5 6 3
"""


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        ("obj:material", ["hair", "skin"], [-1, 1, 0, 0]),
        ("obj:group", ["body", "head"], [-1, 0, 1, 1]),
        ("obj:object", ["whole", "other"], [-1, 0, 0, 0]),
    ],
)
def test_names_in_obj_files(tmp_path: Path, labels: str, classes: list[str], expected: list[int]) -> None:
    """A polygon gives its name to all of its triangles."""
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "a.obj").write_text(OBJ)
    toml = f'task = "segmentation"\nclasses = {classes}\nlabels = "{labels}"\n[split]\ntrain = 1.0\n'
    (tmp_path / "dataset.toml").write_text(toml)
    dataset = open_folder(tmp_path)
    assert dataset.load(dataset.samples[0])[1].tolist() == expected
    (tmp_path / "meshes" / "a.obj").write_text(OBJ.replace("usemtl", "#").replace("g ", "#").replace("o ", "#"))
    with pytest.raises(DataError, match="its faces have no names"):
        dataset.load(dataset.samples[0])


def test_numbers_with_gaps_beside_the_meshes(octahedron: Mesh, tmp_path: Path) -> None:
    """The layout of Teeth3DS: JSON files with the FDI number of the tooth of every vertex, 0 for the gum."""
    (tmp_path / "lower" / "ann").mkdir(parents=True)
    save_mesh(octahedron, tmp_path / "lower" / "ann" / "ann_lower.obj")
    content = {"id_patient": "ann", "jaw": "lower", "labels": [0, 0, 48, 48, 31, 0], "instances": [0, 0, 1, 1, 2, 0]}
    (tmp_path / "lower" / "ann" / "ann_lower.json").write_text(json.dumps(content))
    toml = 'task = "segmentation"\nelement = "vertex"\nclasses = ["gum", "31", "48"]\nnumbers = [0, 31, 48]\n'
    (tmp_path / "dataset.toml").write_text(toml + 'meshes = "**/*.obj"\nlabels = "."\n[split]\ntrain = 1.0\n')
    dataset = open_folder(tmp_path)
    assert dataset.load(dataset.samples[0])[1].tolist() == [0, 0, 2, 2, 1, 0]


def test_colors_from_the_file(figure_folder: Path) -> None:
    assert open_folder(figure_folder).colors == class_colors(8)
    edit(figure_folder, '"#0072b2"', '"#ff0000"')
    assert open_folder(figure_folder).colors[0] == (255, 0, 0)
    edit(figure_folder, '"#ff0000"', '"red"')
    with pytest.raises(DataError, match="expected a color such as"):
        open_folder(figure_folder)
    edit(figure_folder, '"red"', "[300, 0, 0]")
    with pytest.raises(DataError, match="0 to 255"):
        open_folder(figure_folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('task = "segmentation"', "", "'task' is missing"),
        ('element = "face"', 'elment = "face"', "did you mean 'element'"),
        ('element = "face"', 'element = "corner"', "element"),
        ('task = "segmentation"', 'task = "classification"', "classification the label belongs to the mesh"),
        ('meshes = "meshes"', 'meshes = "nowhere"', "does not exist"),
        ('meshes = "meshes"', 'meshes = "meshes/***"', r"meshes = 'meshes/\*\*\*' is not a valid pattern"),
        ('meshes = "meshes"', f'meshes = "{"m" * 300}"', "dataset.toml: File name too long|does not exist"),
        ('meshes = "meshes"', f'meshes = "meshes/{"[" * 10**5}"', "meshes: must have at most 1000 char"),
        ('labels = "labels"', 'labels = "nowhere"', "the folder of labels"),
        ('test = [\n    "figure', 'test = [\n    "fugure', "no mesh has this name"),
        ('test = [\n    "figure', f'test = [\n    "{"[" * 10**5}', r"test\.0: must have at most 1000 char"),
        ('val = [\n    "figure_val_0000', 'val = [\n    "figure_train_0000', "occurs twice"),
        ("[split]", "[split", "not a TOML file"),
        ('labels = "labels"', 'labels = "ply:label"\nfirst_label = -1', "first_label"),
        ('labels = "labels"', 'labels = "labels"\nnumbers = [0, 11, 12]', "`numbers` needs 8 different numbers"),
        ('"head",', '"head", "head",', "class names must be unique"),
        ('colors = [\n    "#', f'colors = [\n    "#{"{" * 5000}', r"expected a color such as .* '#\{{300,400} "),
    ],
)
def test_mistakes_in_the_file(figure_folder: Path, old: str, new: str, message: str) -> None:
    if 'task = "classification"' in new:
        edit(figure_folder, 'labels = "labels"', 'labels = "labels.csv"')
        names = [path.stem for path in (figure_folder / "meshes").iterdir()]
        (figure_folder / "labels.csv").write_text("".join(f"{name},head\n" for name in names))
    edit(figure_folder, old, new)
    with pytest.raises(DataError, match=message) as raised:
        open_folder(figure_folder)
    assert str(figure_folder) in str(raised.value)


def test_an_empty_split(figure_folder: Path) -> None:
    text = (figure_folder / "dataset.toml").read_text().split("[split]")[0]
    (figure_folder / "dataset.toml").write_text(text + "[split]\ntrain = 1.0\ntest = 0.0\n")
    with pytest.raises(DataError, match=r"split 'test' = 0\.0 contains no meshes"):
        open_folder(figure_folder)
    (figure_folder / "dataset.toml").write_text(text + "[split]\ntrain = 1.0\nval = 0.5\n")
    with pytest.raises(DataError, match="at most 1"):
        open_folder(figure_folder)


def test_a_folder_without_description_shows_one(octahedron: Mesh, tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    save_mesh(octahedron, tmp_path / "cats" / "a.obj")
    with pytest.raises(HodgeFormerError, match='task = "segmentation"'):
        open_dataset(tmp_path)
    with pytest.raises(DataError, match="did you mean 'shrec11'"):
        open_dataset("shrec1")


def test_a_tenth_validates_where_enough_train(tmp_path: Path) -> None:
    names = [f"walk_{i:02d}" for i in range(30)]
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    (tmp_path / "meshes").mkdir()
    (tmp_path / "labels").mkdir()
    for i, name in enumerate(names):
        save_mesh(
            Mesh(np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, i]], dtype=float), faces),
            tmp_path / f"meshes/{name}.ply",
        )
        (tmp_path / f"labels/{name}.txt").write_text("0\n1\n")
    spec = 'task = "segmentation"\nclasses = ["a", "b"]\n[split]\ntrain = 1.0\n'
    (tmp_path / "dataset.toml").write_text(spec)
    dataset = open_folder(tmp_path)
    held = [sample.name for sample in dataset.split("val")]
    at = names.index(held[0])
    assert held == names[at : at + 3], "neighbors by name, which are often nearly copies"
    assert len(dataset.split("train")) == 27
    (tmp_path / "dataset.toml").write_text('groups = "^walk_[0-9]"\n' + spec)
    assert set(open_folder(tmp_path).splits) == {"train"}, "the three of a tenth are some of ten of one source"
    pairs = ", ".join(f'{name} = "{i // 2}"' for i, name in enumerate(names))
    (tmp_path / "dataset.toml").write_text(f"groups = {{ {pairs} }}\n" + spec)
    sides = [{sample.source for sample in members} for members in open_folder(tmp_path).splits.values()]
    assert not set.intersection(*sides) and sum(map(len, sides)) == 15
    (tmp_path / "dataset.toml").write_text(spec + "val = 0\n")
    assert set(open_folder(tmp_path).splits) == {"train"}


def test_many_files_are_listed_in_seconds(tmp_path: Path) -> None:
    """A folder is walked once, not once for every mesh and suffix."""
    (tmp_path / "dataset.toml").write_text('task = "segmentation"\nclasses = ["a", "b"]\n[split]\ntrain = 1.0\n')
    for kind, suffix in (("meshes", ".ply"), ("labels", ".eseg")):
        (tmp_path / kind).mkdir()
        for i in range(5000):
            (tmp_path / kind / f"{i}{suffix}").touch()
    with at_most(1.5):
        assert len(open_folder(tmp_path).samples) == 5000


def test_the_example_of_the_error_can_be_pasted(figures: DataSet, tmp_path: Path) -> None:
    """From the screen, as the command line shows it."""
    for sample in figures.samples[:4]:
        mesh, target = figures.load(sample)
        for folder in ("meshes", "labels"):
            (tmp_path / folder).mkdir(exist_ok=True)
        save_mesh(mesh, tmp_path / "meshes" / f"{sample.name}.obj")
        np.savetxt(tmp_path / "labels" / f"{sample.name}.txt", target > 0, fmt="%d")
    shown = CliRunner().invoke(app, ["train", str(tmp_path), "--dry-run"])
    assert shown.exit_code == 2 and "has no dataset.toml" in shown.output
    (tmp_path / "dataset.toml").write_text(shown.output.split("\n\n", 1)[1])
    dataset = open_dataset(tmp_path)
    assert dataset.classes == ("head", "torso") and [len(split) for split in dataset.splits.values()] == [3, 1]
    assert all(dataset.load(sample)[1].max() == 1 for sample in dataset.samples)


def test_a_label_file_of_an_unknown_kind_is_named(figure_folder: Path) -> None:
    found = sorted((figure_folder / "labels").rglob("*.txt"))[0]
    found.rename(found.with_suffix(".xml"))
    dataset = open_folder(figure_folder)
    sample = next(sample for sample in dataset.samples if sample.name.endswith(found.stem))
    with pytest.raises(DataError, match=rf"{found.stem}\.xml: unsupported label format '\.xml'; supported: "):
        dataset.load(sample)

"""The adapters of public benchmarks, on small files in their layouts and, where they are at hand, on the real ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hodgeformer.base.errors import ConfigError, DataError
from hodgeformer.data.benchmarks import human_family, human_person, open_coseg
from hodgeformer.data.census import take_census
from hodgeformer.data.open import DataConfig, open_dataset
from hodgeformer.mesh.elements import convert_labels
from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.mesh import Mesh


def write_labels(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, values, fmt="%d")


def write_mesh(mesh: Mesh, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_mesh(mesh, path)


@pytest.fixture
def class_folders(octahedron: Mesh, tmp_path: Path) -> Path:
    for glyph in ("ants", "bird"):
        for i in range(6):
            scaled = octahedron.with_vertices(octahedron.vertices * [1, 1 + i, 1])
            write_mesh(scaled, tmp_path / "shrec_16" / glyph / ("train" if i < 4 else "test") / f"T{i}.obj")
    return tmp_path / "shrec_16"


@pytest.fixture
def bodies(octahedron: Mesh, tmp_path: Path) -> Path:
    root = tmp_path / "human_seg"
    for name in ("scape__mesh000", "faust__tr_reg_000", "MIT_animation__meshes_crane__meshes__mesh_0000", "shrec__1"):
        write_mesh(octahedron, root / ("test" if name == "shrec__1" else "train") / f"{name}.obj")
        write_labels(root / "seg" / f"{name}.eseg", np.arange(12) % 4 + 1)
    return root


def test_split_n_takes_n_of_every_class(class_folders: Path) -> None:
    def names(**options: int) -> dict[str, list[str]]:
        config = DataConfig(name="shrec11", path=class_folders, **options)
        return {split: [s.name for s in samples] for split, samples in open_dataset(config).splits.items()}

    splits = names(train_per_class=4, val_fraction=0.25, seed=1)
    assert {split: len(members) for split, members in splits.items()} == {"train": 6, "val": 2, "test": 4}
    assert len({name for members in splits.values() for name in members}) == 12
    assert sum(name.startswith("ants/") for name in splits["train"]) == 3
    assert splits == names(train_per_class=4, val_fraction=0.25, seed=1)
    assert splits != names(train_per_class=4, val_fraction=0.25, seed=2)
    assert [len(members) for members in names(train_per_class=0).values()] == [8, 4]
    with pytest.raises(DataError, match="use fewer per class"):
        names(train_per_class=6)


def test_class_folders_are_recognized(class_folders: Path) -> None:
    dataset = open_dataset(class_folders)
    assert dataset.classes == ("ants", "bird")
    assert {split: len(members) for split, members in dataset.splits.items()} == {"train": 8, "test": 4}


def test_cube_engraving_can_validate(class_folders: Path) -> None:
    dataset = open_dataset(DataConfig(name="cubes", path=class_folders, val_fraction=0.25))
    assert {split: len(members) for split, members in dataset.splits.items()} == {"train": 6, "test": 4, "val": 2}


def test_labels_of_faces_come_before_those_of_edges(bodies: Path, octahedron: Mesh) -> None:
    as_faces = convert_labels(np.arange(12) % 4, octahedron, source="e", to="f")
    dataset = open_dataset(DataConfig(name="human", path=bodies))
    assert dataset.load(dataset.samples[0])[1].tolist() == as_faces.tolist()
    write_labels(bodies / "fseg" / "faust__tr_reg_000.fseg", np.full(8, 8))
    dataset = open_dataset(DataConfig(name="human", path=bodies))
    sample = next(s for s in dataset.samples if s.name.startswith("faust"))
    assert dataset.load(sample)[1].tolist() == [7] * 8
    assert open_dataset(bodies).classes == dataset.classes


def test_human_families_validate(bodies: Path) -> None:
    assert human_family("MIT_animation__meshes_crane__meshes__mesh_0000") == "MIT_animation"
    dataset = open_dataset(DataConfig(name="human", path=bodies, hold_out=("scape", "faust")))
    assert {split: len(members) for split, members in dataset.splits.items()} == {"train": 1, "test": 1, "val": 2}
    with pytest.raises(DataError, match="matches 0 of 3"):
        open_dataset(DataConfig(name="human", path=bodies, hold_out=("nobody",)))


def test_the_person_is_known_from_the_name_of_a_mesh() -> None:
    names = [f"scape__mesh{i:03}" for i in range(16)] + [f"faust__tr_reg_{i:03}" for i in range(10, 14)] + ["adobe__A"]
    names += ["MIT_animation__meshes_crane__meshes__mesh_0000"]
    people = Counter(human_person(name) for name in names)
    assert people == {"scape": 16, "faust 1": 4, "adobe__A": 1, "meshes_crane": 1}


@pytest.mark.parametrize("layout", ["edges", "faces"])
def test_coseg_layouts(octahedron: Mesh, tmp_path: Path, layout: str) -> None:
    root = tmp_path / "coseg" / "coseg_chairs"
    for i in range(8):
        folder = "train" if i < 6 or layout == "faces" else "test"
        write_mesh(octahedron, root / folder / f"{i}.obj")
        if layout == "edges":
            write_labels(root / "seg" / f"{i}.eseg", np.arange(12) % 3 + 1)
            write_labels(root / "sseg" / f"{i}.seseg", np.zeros(12))
        else:
            write_labels(root / "seg" / f"{i}.txt", np.arange(8) % 3 + 1)
    part = DataConfig(name="coseg", path=tmp_path / "coseg", part="chairs", test_fraction=0.25)
    for dataset in (open_dataset(part), open_dataset(root)):
        assert len(dataset.classes) == 3
        assert sum(map(len, dataset.splits.values())) == 8
        assert "test" in dataset.splits
        assert take_census(dataset).problems == ()
    with pytest.raises(DataError, match="one of vases, chairs, aliens"):
        open_coseg(tmp_path / "coseg")


@pytest.fixture
def dual_labels(octahedron: Mesh, tmp_path: Path) -> Path:
    """PLY meshes, and in `seg/` files called .eseg with one label per face, counted from zero."""
    root = tmp_path / "coseg_vases"
    for i in range(20):
        write_mesh(octahedron, root / ("train" if i < 14 else "test") / f"{i}.ply")
        write_labels(root / "seg" / f"{i}.eseg", (np.arange(8) + i) % (3 if i else 4))
    return root


def test_face_labels_by_the_name_of_edge_labels(dual_labels: Path) -> None:
    dataset = open_dataset(dual_labels)
    sample = next(sample for sample in dataset.samples if sample.name == "2")
    assert dataset.load(sample)[1].tolist() == [2, 0, 1, 2, 0, 1, 2, 0]
    assert take_census(dataset).problems == ()


def test_a_description_wins_over_suffix_and_layout(dual_labels: Path) -> None:
    (dual_labels / "dataset.toml").write_text(
        'task = "segmentation"\nelement = "face"\nfirst_label = 0\nclasses = ["a", "b", "c", "d"]\n'
        'meshes = "."\nlabels = "seg"\n'
    )
    dataset = open_dataset(dual_labels)
    assert dataset.classes == ("a", "b", "c", "d")
    assert {split: len(members) for split, members in dataset.splits.items()} == {"train": 14, "test": 6}
    assert all(dataset.load(sample)[1].tolist().count(-1) == 0 for sample in dataset.samples)
    write_labels(dual_labels / "seg" / "3.eseg", np.zeros(7))
    with pytest.raises(DataError, match=r"3\.eseg: 7 labels for mesh 'train/3', which has 12 edge elements .*8 faces"):
        dataset.load(next(sample for sample in dataset.samples if sample.name == "train/3"))


def test_a_test_share_pools_all_folders(dual_labels: Path) -> None:
    def names(seed: int, **options: float) -> dict[str, set[str]]:
        config = DataConfig(name="coseg", path=dual_labels, part="vases", seed=seed, **options)
        return {split: {s.name for s in samples} for split, samples in open_dataset(config).splits.items()}

    as_distributed = names(0)
    assert as_distributed == names(1) and len(as_distributed["test"]) == 6
    drawn = names(0, test_fraction=0.15)
    assert {split: len(members) for split, members in drawn.items()} == {"train": 17, "test": 3}
    assert drawn["test"] != names(1, test_fraction=0.15)["test"]
    assert set.union(*drawn.values()) == set.union(*as_distributed.values())
    assert {split: len(members) for split, members in names(0, test_fraction=0.15, val_fraction=0.1).items()} == {
        "train": 15, "test": 3, "val": 2,
    }  # fmt: skip


def test_classes_that_are_missing_are_told(class_folders: Path) -> None:
    config = DataConfig(name="cubes", path=class_folders)
    note = f"found 2 of the 22 classes of Cube Engraving in {class_folders}"
    assert note in take_census(open_dataset(config)).warnings
    assert open_dataset(class_folders).notes == ()


def test_rna_numbers_become_classes(octahedron: Mesh, tmp_path: Path) -> None:
    for i in range(5):
        write_mesh(octahedron, tmp_path / "off" / f"m{i}.off")
        write_labels(tmp_path / "labels" / f"m{i}.txt", np.array([207, 12, -1, 207, 40 + i, 12]))
    (tmp_path / "train.txt").write_text("\n".join(f"m{i}.off" for i in range(5)))
    dataset = open_dataset(tmp_path)
    assert dataset.classes == ("12", "40", "41", "42", "43", "44", "207")
    assert {split: len(members) for split, members in dataset.splits.items()} == {"train": 4, "test": 1}
    sample = next(s for s in dataset.samples if s.name == "m1")
    assert dataset.load(sample)[1].tolist() == [6, 0, -1, 6, 2, 0]
    report = take_census(dataset)
    assert sum(report.unlabeled.values()) == 5
    # All five are the same octahedron: copies, and because they are spread over splits a leak.
    assert len(report.leaks) == 1


def test_names_without_folders_and_options_without_meaning(class_folders: Path, monkeypatch) -> None:
    monkeypatch.delenv("HODGEFORMER_DATA", raising=False)
    with pytest.raises(DataError, match=r"set data\.path, or HODGEFORMER_DATA"):
        open_dataset("shrec11")
    monkeypatch.setenv("HODGEFORMER_DATA", str(class_folders.parent))
    assert open_dataset(DataConfig(name="shrec11", train_per_class=2)).name == "SHREC11"
    with pytest.raises(ConfigError, match=r"data\.hold_out is not supported by 'shrec11'"):
        open_dataset(DataConfig(name="shrec11", hold_out=("a",)))
    assert open_dataset(DataConfig(name="figures", n_train=1, n_test=1, n_faces=400)).task == "segmentation"


@pytest.mark.real_data
@pytest.mark.parametrize("folder", ["shrec_16", "human_seg", "rna_sample", "cubes_2_classes"])
def test_the_real_ones(real_data: Path, folder: str) -> None:
    dataset = open_dataset(real_data / folder)
    thin = {split: samples[:: max(1, len(samples) // 2)] for split, samples in dataset.splits.items()}
    report = take_census(dataset.with_splits(thin))
    assert report.problems == ()
    assert report.leaks == ()

"""Damaged labels, settings, rows, models, and meshes in memory: each is read or an error of ours, soon and in little
memory."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import meshes
from attack.mutate import FEW, PART, assert_all_are_answered
from hodgeformer.base.errors import HodgeFormerError
from hodgeformer.data.census import take_census
from hodgeformer.data.dataset import DataSet
from hodgeformer.data.folder import open_folder, write_folder
from hodgeformer.data.label_files import LABEL_SUFFIXES
from hodgeformer.data.labels import Codes, LabelFile, ValueFile
from hodgeformer.data.shards import write_shards
from hodgeformer.export.export import export
from hodgeformer.mesh.adapters import from_memory
from hodgeformer.mesh.io import save_mesh
from hodgeformer.predict.checkpoint import load_checkpoint
from hodgeformer.predict.exported import load_exported
from hodgeformer.predict.member import Member
from hodgeformer.predict.predictor import Predictor
from hodgeformer.training.config import read_config
from hodgeformer.training.run_folder import RunFolder
from tiny_models import tiny_checkpoint, write_tiny
from tiny_sets import parts

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory as Linux counts it")

BALL = meshes.icosphere(1)
NAMES = ("head", "torso", "arm", "leg")
CODES = Codes.counted_from(0, 4, NAMES)


def use(path: Path) -> None:
    """What training, checking and predicting do with files that are no meshes."""
    if path.suffix in LABEL_SUFFIXES:
        LabelFile(path, "e", "f", CODES).read(BALL)
    elif path.suffix == ".pts":
        ValueFile(path, "f").read(BALL)
    elif path.suffix == ".toml":
        root = path.parent / "set"
        shutil.copy(path, root / "dataset.toml")
        use_all(open_folder(root))
    elif path.suffix in (".index", ".tar"):
        # All but the one file is whole: beside what the last attempt left, nothing would be accepted.
        root = Path(shutil.copytree(path.parent / "shards", path.parent / "damaged", dirs_exist_ok=True))
        if path.read_bytes()[:1] == b"{":
            pack_index(path, root / "index.npz")
        else:
            shutil.copy(path, root / ("index.npz" if path.suffix == ".index" else "shards/00000.tar"))
        use_all(open_folder(root))
    elif path.suffix == ".run":
        read_config(Path(shutil.copy(path, path.with_suffix(".run.toml"))))
    elif path.suffix == ".rows":
        shutil.copy(path, path.parent / "metrics.csv")
        RunFolder(path.parent).rows()
    elif path.suffix == ".held":
        use_held(path.read_bytes())
    elif path.suffix == ".onnx":
        Predictor(Member(*load_exported(path))).predict(BALL)
    else:
        load_checkpoint(path)


def use_all(dataset: DataSet) -> None:
    """What `hodgeformer check` does; the first mesh that cannot be used is told."""
    census = take_census(dataset, again=True)
    if any("unexpected" in problem.message for problem in census.problems):
        raise AssertionError(census.problems[0].message)
    census.usable(skip_bad=False)


def use_held(text: bytes) -> None:
    """A mesh in memory whose content is written as JSON."""
    try:
        held = json.loads(text)
        way, vertices, faces = held["way"], held["vertices"], held["faces"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise HodgeFormerError("not even the means of this attack") from None
    from_memory(ways_to_hold(vertices, faces)[way] if isinstance(way, str) and way in WAYS else (vertices, faces))


WAYS = ("tuple", "trimesh", "meshio", "pyg")


def ways_to_hold(vertices: Any, faces: Any) -> dict[str, Any]:
    """As the objects of other packages are built."""
    try:
        columns = np.array(faces).T
    except (ValueError, OverflowError, TypeError):
        columns = faces
    cells = [SimpleNamespace(type="triangle", data=faces)]
    ways = (
        (vertices, faces),
        SimpleNamespace(vertices=vertices, faces=faces),
        SimpleNamespace(points=vertices, cells=cells),
        SimpleNamespace(pos=vertices, face=columns),
    )
    return dict(zip(WAYS, ways, strict=True))


def whole_files(folder: Path) -> dict[str, list[bytes]]:
    """Files of every kind with all that can be in them."""
    write_folder(parts(n_train=2, n_test=1), folder / "set")
    write_shards(parts(n_train=2, n_test=1), folder / "shards")
    index = folder / "shards" / "index.npz"
    export(tiny_checkpoint(blocks="HD"), folder / "tiny.onnx")
    settings = Path(__file__).parents[2] / "configs"
    return {
        **label_files(folder),
        ".pts": [b"0.25 -1e3 7\n" * 80],
        ".toml": [(folder / "set" / "dataset.toml").read_bytes()],
        ".index": [index.read_bytes(), unpacked_index(index)],
        ".tar": [(folder / "shards" / "shards" / "00000.tar").read_bytes()],
        ".run": [path.read_bytes() for path in sorted(settings.glob("*.toml"))],
        ".rows": [b"epoch,train_loss,seconds\n1,0.5,2\n2,0.25,4\n"],
        ".held": held_meshes(),
        ".safetensors": [write_tiny(folder).read_bytes()],
        ".onnx": [(folder / "tiny.onnx").read_bytes()],
    }


def unpacked_index(index: Path) -> bytes:
    """Its columns as text: damage to what is packed hardly ever gets behind its checksum."""
    with np.load(index) as stored:
        columns = {
            key: stored[key].astype("U" if stored[key].dtype.kind == "S" else stored[key].dtype) for key in stored
        }
    return json.dumps({key: column.tolist() for key, column in columns.items()}).encode()


def pack_index(path: Path, index: Path) -> None:
    """The way back, with the types of the index that is there."""
    with np.load(index) as stored:
        types = {key: stored[key].dtype for key in stored}
    try:
        told = json.loads(path.read_bytes())
        columns = {key: np.array(told[key], dtype=types[key]) for key in types}
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise HodgeFormerError("not even the means of this attack") from None
    np.savez(index, **columns)


def label_files(folder: Path) -> dict[str, list[bytes]]:
    faces = np.arange(80) % 4
    words = [NAMES[label] for label in faces]
    lines, spoken = "\n".join(map(str, faces)).encode(), "\n".join(words).encode()
    numbered = "".join(f"{i},{word}\n" for i, word in enumerate(words)).encode()
    centers = BALL.vertices[BALL.faces].mean(axis=1).tolist()
    points = "".join(f"{x} {y} {z} {label}\n" for (x, y, z), label in zip(centers, faces, strict=True)).encode()
    told = {"labels": faces.tolist(), "classes": NAMES, "element": "face"}
    arrays = [npy(values) for values in (faces, faces.astype(np.uint8)[:, None], faces.astype(">f8"), np.array(words))]
    save_mesh(BALL, folder / "colors.ply", face_colors=np.array(CODES.colors)[faces])
    save_mesh(BALL, folder / "numbers.ply", face_labels=faces)
    return {
        ".txt": [lines, lines.replace(b"\n", b" "), b"\xef\xbb\xbf" + lines, spoken, points],
        ".csv": [lines.replace(b"\n", b","), lines, b"face,label\n" + numbered, numbered, b"label\n" + spoken],
        ".json": [json.dumps(given).encode() for given in (told, faces.tolist(), words)],
        ".npy": arrays,
        ".npz": [npz(np.savez, faces), npz(np.savez_compressed, faces)],
        ".ply": [(folder / name).read_bytes() for name in ("colors.ply", "numbers.ply")],
        ".eseg": [b"1 2 3 0\n" * 30],
    }


def npy(values: np.ndarray[Any, Any]) -> bytes:
    np.save(file := io.BytesIO(), values)
    return file.getvalue()


def npz(save: Any, labels: np.ndarray[Any, Any]) -> bytes:
    save(file := io.BytesIO(), labels=labels, classes=np.array(NAMES))
    return file.getvalue()


def held_meshes() -> list[bytes]:
    vertices, faces = BALL.vertices.tolist(), BALL.faces.tolist()
    held = [(way, faces) for way in WAYS]
    held.append(("tuple", [[*face, face[0]] for face in faces]))
    return [json.dumps({"way": way, "vertices": vertices, "faces": given}).encode() for way, given in held]


@pytest.mark.parametrize(
    ("n", "part"), [(FEW, 0), *(pytest.param(PART, i, marks=pytest.mark.attack(minutes=1)) for i in range(1, 3))]
)
def test_damaged_labels_settings_and_models(n: int, part: int, tmp_path: Path) -> None:
    assert_all_are_answered("attack.test_other_files:use", whole_files(tmp_path), n, tmp_path, part)

"""A data set in a few large archives: tar files with meshes and targets, and an index of where each of them is.

Any number of meshes becomes a handful of files, on disk or at a URL. Each mesh is still read separately, so order,
splits and resuming are those of a folder.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

import numpy as np
import tomli_w
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from hodgeformer.base.containers import PerElement
from hodgeformer.base.errors import DataError
from hodgeformer.base.files import place, read_range, write_atomically
from hodgeformer.data.census import QUANTILES, Census, take_census
from hodgeformer.data.dataset import SPLITS, CountedMesh, DataSet, Sample
from hodgeformer.data.folder_spec import FILE_NAME, FolderSpec, described
from hodgeformer.data.label_files import check_unpacked
from hodgeformer.data.labels import WholeMesh
from hodgeformer.data.measured import from_bytes, to_bytes
from hodgeformer.mesh.elements import UNLABELED
from hodgeformer.mesh.formats.ply import ply_bytes
from hodgeformer.mesh.mesh import Mesh

_INDEX = "index.npz"
_LOCK = ".writing.lock"
_MOST_UNPACKED = 4 << 20  # bytes, and some for each byte on disk: numbers of meshes hardly shrink
_COUNTED = ("n", "labels", "n_unlabelled", "shares", "radius", "edge_lengths", "asymmetry", "shape")
_OPTIONAL = ("group", "columns")
_FARTHEST = 1 << 48  # bytes in an archive, or elements of a mesh
_HEADER = (slice(0, 100), slice(124, 136), slice(345, 500))  # of a tar file: name, size, and the name's first part
_NO_GROUPS = (
    "the index of the shards has no groups, as older versions wrote it: folds may divide meshes of one source, and the "
    "scores are then too optimistic; write the shards again"
)


@dataclass(frozen=True, slots=True)
class Part:
    """A file within a shard, with what `load_mesh` needs of a path."""

    shard: Path
    name: str
    offset: int
    size: int

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem

    def read_bytes(self) -> bytes:
        """Its bytes, checked against the header: the index may be wrong, or the archive newer than the index."""
        found = read_range(self.shard, self.offset - tarfile.BLOCKSIZE, tarfile.BLOCKSIZE + self.size)
        about = tarfile.TarInfo(self.name)
        about.size = self.size
        header = about.tobuf()[-tarfile.BLOCKSIZE :]
        if len(found) != tarfile.BLOCKSIZE + self.size or any(found[part] != header[part] for part in _HEADER):
            raise DataError(f"{self}: the archive contains another file at this position; write the shards again")
        return found[tarfile.BLOCKSIZE :]

    def __str__(self) -> str:
        return f"{self.shard}: {self.name}"


@dataclass(frozen=True, slots=True)
class StoredTarget:
    """A target as an array within a shard."""

    part: Part

    def read(self, mesh: Mesh) -> NDArray[Any]:
        try:
            target: NDArray[Any] = np.load(io.BytesIO(self.part.read_bytes()), allow_pickle=False)
        except Exception as error:  # NumPy raises many different errors for damaged files
            raise DataError(f"{self.part}: the target cannot be read ({error}); write the shards again") from None
        return target


@dataclass(frozen=True)
class StoredClass(WholeMesh):
    """The class according to the index, which balances folds; training reads the target in the archive."""

    part: Part

    def read(self, mesh: Mesh) -> NDArray[Any]:
        return StoredTarget(self.part).read(mesh)


class _Writer:
    """Archives of about `most_bytes`, in memory until they are full."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.places: dict[str, tuple[int, int, int, int, int]] = {}
        self._folder, self._most_bytes = folder, most_bytes
        self._number = 0
        self._open()

    def add(self, sample: Sample, mesh: Mesh, target: NDArray[Any]) -> None:
        array = io.BytesIO()
        np.save(array, target, allow_pickle=False)
        mesh_place = self._write(f"{sample.name}.ply", ply_bytes(mesh, mesh.own_colors))
        target_place = self._write(f"{sample.name}.npy", array.getvalue())
        self.places[sample.name] = (self._number, *mesh_place, *target_place)
        if self._archive.offset >= self._most_bytes:
            self.finish()
            self._number += 1
            self._open()

    def finish(self) -> None:
        self._archive.close()
        write_atomically(self._folder / _shard_name(self._number), self._content.getvalue(), DataError)

    def _open(self) -> None:
        self._content = io.BytesIO()
        self._archive = tarfile.TarFile(fileobj=self._content, mode="w")

    def _write(self, name: str, content: bytes) -> tuple[int, int]:
        about = tarfile.TarInfo(name)
        about.size = len(content)
        self._archive.addfile(about, io.BytesIO(content))
        blocks = -(-len(content) // tarfile.BLOCKSIZE)
        return self._archive.offset - blocks * tarfile.BLOCKSIZE, len(content)


def write_shards(
    dataset: DataSet,
    root: Path,
    *,
    shards: str = "shards",
    most_bytes: int = 256 << 20,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Census:
    """Write a data set as archives of about `most_bytes` each, which `open_dataset(root)` reads back unchanged.

    `shards` is their folder, relative to `root`, or a URL such as s3://bucket/scans. The index stores what the census
    found, so that training does not need to read all meshes first. Meshes that cannot be used are left out; the census
    that is returned names them.
    """
    root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(root / _LOCK, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise DataError(f"{root}: another process is writing shards there; use an empty folder") from None
    try:
        if (root / FILE_NAME).exists():
            raise DataError(f"{root} already contains a data set; use an empty folder")
        return _write(dataset, root, shards, most_bytes, progress)
    finally:
        (root / _LOCK).unlink(missing_ok=True)
        lock.release()


def _write(dataset: DataSet, root: Path, shards: str, most_bytes: int, progress: Callable[[int, int], None]) -> Census:
    folder = _folder(root, shards)
    folder.mkdir(parents=True, exist_ok=True)
    writer = _Writer(folder, most_bytes)
    census = take_census(dataset, progress=progress, visit=writer.add)
    writer.finish()
    if not census.meshes:
        raise DataError(f"{dataset.name}: no mesh can be used; the first: {census.problems[0].message}")
    columns: dict[str, Any] = {key: [getattr(mesh, key) for mesh in census.meshes] for key in _COUNTED}
    columns["n"] = [tuple(mesh.n) for mesh in census.meshes]
    columns["shape"] = np.array(columns["shape"], dtype="S")
    columns["split"] = np.array([SPLITS.index(mesh.split) for mesh in census.meshes], dtype=np.int8)
    columns["place"] = [writer.places[mesh.name] for mesh in census.meshes]
    columns["name"] = _joined(mesh.name for mesh in census.meshes)
    groups = {sample.name: sample.group for sample in dataset.samples}
    columns["group"] = _joined(groups[mesh.name] for mesh in census.meshes)
    if any(mesh.columns for mesh in census.meshes):
        columns["columns"] = to_bytes(mesh.columns for mesh in census.meshes)
    index = io.BytesIO()
    np.savez_compressed(index, **columns)
    write_atomically(root / _INDEX, index.getvalue(), DataError)
    spec = described(dataset) | {"shards": shards}
    write_atomically(root / FILE_NAME, tomli_w.dumps(spec).encode(), DataError)
    return census


def open_shards(root: Path, spec: FolderSpec, *, allow_remote: bool = False) -> DataSet:
    """The data set whose `dataset.toml` names shards. Only its index is read."""
    shards = str(spec.shards)
    if "://" in shards and not allow_remote:
        raise DataError(
            f"the shards are at {shards}, and a data set may not choose a URL; if you trust it, add --allow-remote or "
            "set data.allow_remote=true"
        )
    if extra := spec.model_fields_set & {"meshes", "labels", "groups", "split", "first_label"}:
        raise DataError(f"remove `{min(extra)}`: `shards` contain meshes, labels, groups and splits")
    columns = _read_index(root / _INDEX, spec)
    folder = _folder(root, shards)
    paths = {number: folder / _shard_name(number) for number in np.unique(columns["place"][:, 0]).tolist()}
    splits: dict[str, list[Sample]] = {}
    counted: dict[str, CountedMesh] = {}
    groups = columns["group"] or [""] * len(columns["name"])
    for i, (name, group) in enumerate(zip(columns["name"], groups, strict=True)):
        number, *places = columns["place"][i].tolist()
        mesh = cast(Path, Part(paths[number], f"{name}.ply", *places[:2]))
        target: StoredTarget | StoredClass = StoredTarget(Part(paths[number], f"{name}.npy", *places[2:]))
        if spec.task == "classification":
            counts = columns["labels"][i]
            target = StoredClass(int(counts.argmax()) if counts.any() else UNLABELED, target.part)
        split = SPLITS[columns["split"][i]]
        splits.setdefault(split, []).append(Sample(name, mesh, target, group))
        measured = {key: columns[key][i] for key in (*_COUNTED, "columns")}
        counted[name] = CountedMesh(name=name, split=split, **measured)
    n_values = 1 if spec.task != "regression" else columns["labels"].shape[-1]
    return DataSet(
        spec.name or root.resolve().name,
        spec.task,
        spec.target_element,
        {split: tuple(samples) for split, samples in splits.items()},
        spec.classes,
        spec.colors,
        n_values,
        notes=(_NO_GROUPS,) if columns["group"] is None else (),
        counted=counted,
    )


def _read_index(path: Path, spec: FolderSpec) -> dict[str, Any]:
    """The columns of the index, each with an entry for every mesh; `group` is None in older ones."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            check_unpacked(stored.zip.infolist(), path, most=_MOST_UNPACKED)
            needed = (*_COUNTED, "split", "place", "name", *(key for key in stored if key in _OPTIONAL))
            columns: dict[str, Any] = {key: stored[key] for key in needed}
        _check_index(columns, spec)
        numbers = {key: columns[key].tolist() for key in ("n", "n_unlabelled", "radius", "asymmetry", "shape")}
        n = [PerElement(*row) for row in numbers["n"]]
        columns |= numbers | {"n": n, "shape": [shape.decode() for shape in numbers["shape"]]}
        columns["columns"] = from_bytes(columns["columns"], len(n)) if "columns" in columns else [{}] * len(n)
        columns |= {key: _divided(columns[key]) if key in columns else None for key in ("name", "group")}
    except Exception as error:  # NumPy raises many different errors for damaged files
        raise DataError(
            f"{path}: the index of the shards cannot be read ({error!s:.200}); write the shards again"
        ) from None
    return columns


def _check_index(columns: Mapping[str, NDArray[Any]], spec: FolderSpec) -> None:
    """Check that every column has a row for each mesh, with the type and range that reading relies on."""
    n, n_classes, is_regression = len(columns["split"]), len(spec.classes), spec.task == "regression"
    n_values = columns["labels"].shape[-1]
    expected: dict[str, tuple[str, tuple[int, ...]]] = {  # kinds of numbers, and the shape of a row
        "n": ("iu", (3,)),
        "place": ("iu", (5,)),
        "split": ("iu", ()),
        "n_unlabelled": ("iu", ()),
        "labels": ("f", (3, n_values)) if is_regression else ("iu", (n_classes,)),
        "shares": ("f", (n_classes,) if spec.task == "segmentation" else (1,)),
        "radius": ("f", ()),
        "edge_lengths": ("f", (len(QUANTILES),)),
        "asymmetry": ("f", ()),
        "shape": ("S", ()),
    }
    for key, (kinds, row) in expected.items():
        column = columns[key]
        if column.shape != (n, *row) or column.dtype.kind not in kinds:
            raise DataError(f"'{key}' is {column.dtype} of shape {column.shape}, for {n} meshes")
        is_signed = is_regression and key == "labels"
        if kinds != "S" and not (np.isfinite(column).all() and (is_signed or (column >= 0).all())):
            raise DataError(f"'{key}' has negative values, or some that are not finite")
    for key in columns.keys() & {"name", "group"}:
        if columns[key].dtype != np.uint8 or columns[key].ndim != 1 or np.count_nonzero(columns[key] == 0) != n - 1:
            raise DataError(f"'{key}' does not contain {n} names")
    place = columns["place"]
    if n == 0 or columns["split"].max() >= len(SPLITS) or place[:, (1, 3)].min() < tarfile.BLOCKSIZE:
        raise DataError("'split' or 'place' is out of range")
    if max(place.max(), columns["n"].max()) >= _FARTHEST:
        raise DataError("'place' or 'n' is out of range")


def _joined(words: Iterable[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\0".join(words).encode(), dtype=np.uint8)


def _divided(text: NDArray[np.uint8]) -> list[str]:
    return text.tobytes().decode().split("\0")


def _folder(root: Path, shards: str) -> Path:
    return place(shards) if "://" in shards else root / shards


def _shard_name(number: int) -> str:
    return f"{number:05d}.tar"

"""Read label files of every format: numbers, names or colors, of elements or of points."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import ZipInfo

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.containers import ELEMENT_NAMES, KIND_OF, ElementKind
from hodgeformer.base.errors import DataError, MeshError
from hodgeformer.base.files import files_below
from hodgeformer.data.numbers import first_line, is_number, lines_of, numbers, rows_of_numbers, table_rows, words_of
from hodgeformer.mesh.elements import UNLABELED
from hodgeformer.mesh.formats.obj import face_names
from hodgeformer.mesh.formats.source import Source
from hodgeformer.mesh.io import load_mesh
from hodgeformer.mesh.mesh import Attribute, FloatArray, IntArray, Mesh

COUNTED: dict[str, ElementKind] = {".eseg": "e", ".fseg": "f"}
"""The elements of a label file, by its suffix."""
INSIDE = {"ply:label": "labels", "obj:material": "usemtl", "obj:group": "g", "obj:object": "o", "ply:color": "colors"}
"""Labels in the mesh files themselves: an attribute of the mesh, or the keyword before names in an OBJ file."""
_LARGEST = 1 << 53  # from it on, floating-point numbers skip integers
_LONGEST_ROW = 1 << 16  # characters: no row of a table, but a list of labels
_LONGEST_NAME = 1000  # in an array of names, each needs as much memory as the longest
_MOST_UNPACKED, _TIMES_PACKED = 64 << 20, 20  # the unpacked size of an .npz file: bytes, plus times its own size
_LABEL_COLUMNS = ("label", "labels", "class", "part", "segment", "category")
_POINT_COLUMNS = (4, 7)  # x y z label, or with a normal before the label


@dataclass(frozen=True, eq=False)
class RawLabels:
    """The content of a label file, before its labels become class numbers.

    `values` are integers or names (n,), or colors (n, 3). If the file contains them, `kind` is the labeled element and
    `classes` are the names of its numbers, which then count from 0. `points` (n, 3) are given if the labels belong to
    points instead of elements.
    """

    values: NDArray[Any]
    kind: ElementKind | None = None
    classes: tuple[str, ...] = ()
    points: FloatArray | None = None


def read_labels(path: Path) -> RawLabels:
    """The labels of a file in any format of `LABEL_SUFFIXES`."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: unsupported label format '{path.suffix}'; supported: {', '.join(LABEL_SUFFIXES)}")
    _check_file(path)
    return reader(path)


def labels_inside(path: Path, mesh: Mesh | None, place: str, kind: ElementKind = "f") -> RawLabels:
    """The labels in a mesh file at a place of `INSIDE`; of several, those of elements of this kind.

    Without its `mesh`, the file is read.
    """
    if place.startswith("obj:"):
        return _obj_names(path, INSIDE[place])
    mesh = load_mesh(path) if mesh is None else mesh
    found = stored_in(mesh, INSIDE[place], kind)
    if found is None:
        others = ", ".join(mesh.attributes) or "none"
        raise DataError(
            f"{path}: the mesh file has no {ELEMENT_NAMES[kind]} {INSIDE[place]} (found: {others}); add an integer "
            "property 'label' to that element, or set `labels` to a folder of label files"
        )
    return found


def _obj_names(path: Path, keyword: str) -> RawLabels:
    """The names of the materials, groups or objects of the polygons of an OBJ file."""
    if path.suffix.lower() == ".obj":
        try:
            names, places = face_names(Source.open(path), keyword)
        except MeshError as error:
            raise DataError(str(error)) from None
        if names:
            return RawLabels(places, "f", tuple(names))
    raise DataError(f"{path}: the file has no line '{keyword} NAME', so its faces have no names")


def read_numbers(path: Path) -> NDArray[np.float32]:
    """(n, columns) finite numbers: one row per line of a text file, or the `values` of a NumPy or JSON file."""
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        values = _arrays(path, "values")["values"]
    elif suffix == ".json":
        try:
            values = np.array(_json_content(path).get("values"), dtype=np.float64)
        except (ValueError, TypeError):
            raise DataError(f"{path}: expected rows of numbers, in a list or as `values` of an object") from None
    else:
        values = rows_of_numbers(read_text(path), path)
    if values.dtype.kind not in "biuf":
        raise DataError(f"{path}: expected an array of numbers, found {values.dtype}")
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinite
        values = values.reshape(len(values), -1 if values.size else 0).astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        raise DataError(f"{path}: the value at element {bad[0]} is not finite ({bad.size} such values)")
    return values


def label_files(folder: Path) -> dict[str, Path]:
    """The label files in a folder by their paths without suffix ("part/scan_1"); of several, the first suffix."""
    found = [path for path in files_below(folder) if path.suffix.lower() in LABEL_SUFFIXES]
    found.sort(key=lambda path: LABEL_SUFFIXES.index(path.suffix.lower()), reverse=True)
    names = {path: path.relative_to(folder).with_suffix("").as_posix() for path in found}
    # NAME_labels.txt is for the mesh NAME, unless that has its own file.
    stripped = {name.removesuffix("_labels"): path for path, name in names.items()}
    return stripped | {name: path for path, name in names.items()}


def points_beside(path: Path) -> FloatArray | None:
    """The points of a label file, as in ShapeNet: NAME.pts beside it, or in the folder `points`."""
    for file in (path.with_suffix(".pts"), path.parent.parent / "points" / f"{path.stem}.pts"):
        if file.is_file():
            return read_numbers(file)[:, :3].astype(np.float64)
    return None


def stored_in(mesh: Mesh, what: str, kind: ElementKind) -> RawLabels | None:
    """The `labels` or `colors` in a mesh file for elements of a kind, or else for the other kind."""
    names: dict[ElementKind, Attribute] = {"f": f"face_{what}", "v": f"vertex_{what}"}  # type: ignore[dict-item]
    for own in sorted(names, key=lambda own: own != kind):
        if names[own] in mesh.attributes:
            values = np.asarray(mesh.attributes[names[own]])
            return RawLabels(values[:, :3] if what == "colors" else whole(values, mesh.name), own)
    return None


def whole(values: NDArray[Any], where: str) -> IntArray:
    """Numbers as int64; an error if they are not integers, or too large to be exact."""
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(np.isfinite(values) & (values == np.round(values)) & (abs(values) < _LARGEST)))
    if bad.size:
        raise DataError(f"{where}: label {values[bad[0]]} at element {bad[0]} is not an integer, or too large")
    return values.astype(np.int64)


def read_text(path: Path) -> str:
    """The text of a label file or table."""
    _check_file(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: the label file cannot be read as text ({error})") from None


def _text(path: Path) -> RawLabels:
    """Numbers separated by spaces, commas or line breaks; names, one per line; parts; or points with their labels."""
    text = read_text(path)
    first = first_line(text)
    n_columns = len(words_of(first)) if len(first) < _LONGEST_ROW else 0
    if n_columns and not any(map(is_number, words_of(first))):
        lines = lines_of(text)
        return _parts(lines, path) or _column(lines, path)
    values = numbers(text, str(path))
    if n_columns in _POINT_COLUMNS and len(values) == n_columns * sum(bool(line.strip()) for line in io.StringIO(text)):
        rows = values.reshape(-1, n_columns)
        if not np.isfinite(rows).all():
            raise DataError(f"{path}: points and their labels must be finite numbers")
        if not (rows[:, :3] == np.round(rows[:, :3])).all():
            return RawLabels(whole(rows[:, -1], str(path)), points=rows[:, :3])
    return RawLabels(whole(values, str(path)))


def _csv(path: Path) -> RawLabels:
    """One column of labels, with or without a header; or several, with one for labels and one for element numbers."""
    text = read_text(path)
    if len(first_line(text)) > _LONGEST_ROW:
        return _text(path)
    first = next(table_rows(text, path), [])
    n_columns = len(first)
    is_headed = bool(first) and not any(map(is_number, first))
    if n_columns < 2 and is_headed:
        return _column([row[0] for row in table_rows(text, path)], path)
    is_named = n_columns == 2 and all(len(row) == 2 and not is_number(row[1]) for row in table_rows(text, path))
    if not (is_headed or is_named):
        return _text(path)
    head = [cell.lower() for cell in first] if is_headed else ["", "label"]

    def column(at: int) -> Iterator[str]:
        for i, row in enumerate(islice(table_rows(text, path), is_headed, None), 1 + is_headed):
            if len(row) != n_columns:
                raise DataError(f"{path}: row {i} has {len(row)} columns, expected {n_columns}")
            yield row[at]

    at = next((head.index(name) for name in _LABEL_COLUMNS if name in head), n_columns - 1)
    labels = _labels([sys.intern(word) for word in column(at)], path)
    numbered = next((i for i, name in enumerate(head) if i != at and (n_columns == 2 or _element(name))), None)
    if numbered is None:
        return RawLabels(labels)
    index = whole(numbers(" ".join(column(numbered)), str(path)), str(path))
    return RawLabels(labels[_order(index, f"{path}: the column '{head[numbered]:.40}'")], _element(head[numbered]))


def _order(index: IntArray, where: str) -> IntArray:
    """The positions of the elements in a list of their numbers."""
    order = np.argsort(index, kind="stable")
    if len(index) and not np.array_equal(index[order], np.arange(len(index)) + min(max(index.min(), 0), 1)):
        raise DataError(
            f"{where} must contain the number of every element once, from 0 or from 1; "
            "use label -1 for unlabeled elements"
        )
    return order


def _parts(lines: Sequence[str], path: Path) -> RawLabels | None:
    """The Princeton benchmark: a line with the name of a part, then one with the numbers of its faces, from 1."""
    names, rows = lines[::2], lines[1::2]
    if len(names) != len(rows) or (len(rows) == 1 and is_number(rows[0])) or any(map(is_number, names)):
        return None
    if not all(is_number(row.split(maxsplit=1)[0]) for row in rows):
        return None
    faces = [whole(numbers(row, f"{path}: part '{name}'"), str(path)) for name, row in zip(names, rows, strict=True)]
    places = np.repeat(np.arange(len(faces)), list(map(len, faces)))
    return RawLabels(places[_order(np.concatenate(faces), f"{path}: the parts")], "f", tuple(names))


def _column(lines: Sequence[str], path: Path) -> RawLabels:
    """Names, or a header and the labels below it."""
    is_headed = lines[0].lower() in _LABEL_COLUMNS or (len(lines) > 1 and is_number(lines[1]))
    return RawLabels(_labels(lines[is_headed:], path))


def _element(name: str) -> ElementKind | None:
    """The element that a column such as `face`, `vertex_id` or `Edge index` refers to."""
    return next((kind for element, kind in KIND_OF.items() if name.lower().startswith(element)), None)


def _json(path: Path) -> RawLabels:
    content = _json_content(path)
    if "labels" not in content:
        found = f"{list(content)[:9]!s:.200}"
        raise DataError(f"{path}: expected a list of labels, or an object with `labels`; found {found}")
    given, classes = content["labels"], content.get("classes")
    if not isinstance(given, list) or any(isinstance(label, list | dict) for label in given):
        raise DataError(f"{path}: expected one label per element in `labels`")
    labels = _labels(given, path)
    kind = next((kind for element, kind in KIND_OF.items() if element == content.get("element")), None)
    return RawLabels(labels, kind, tuple(map(str, classes)) if isinstance(classes, list) else ())


def _json_content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a JSON file ({error})") from None
    if isinstance(content, list):
        return {"labels": content, "values": content}
    return content if isinstance(content, dict) else {}


def _numpy(path: Path) -> RawLabels:
    arrays = _arrays(path, "labels", "classes")
    labels = arrays["labels"]
    labels = labels.reshape(-1) if labels.ndim == 2 and 1 in labels.shape else labels
    if labels.ndim != 1:
        raise DataError(f"{path}: expected one label per element, found an array of shape {labels.shape!s:.200}")
    if not all(map(_is_text, arrays.values())):
        raise DataError(f"{path}: the names in this file are not valid text; write it again")
    classes = tuple(map(str, arrays["classes"].tolist())) if "classes" in arrays else ()
    return RawLabels(labels if labels.dtype.kind == "U" else whole(labels, str(path)), classes=classes)


def _is_text(array: NDArray[Any]) -> bool:
    """Whether the characters of an array are valid: NumPy accepts any numbers."""
    if array.dtype.kind != "U" or not array.dtype.itemsize:
        return True
    letters = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).view(np.uint32)
    return bool(((letters < 0xD800) | (letters > 0xDFFF) & (letters <= 0x10FFFF)).all())


def _arrays(path: Path, name: str, *others: str) -> dict[str, NDArray[Any]]:
    """The arrays with these names in a NumPy file; a single array of any name is used for the first."""
    _check_file(path)
    try:
        # Memory-mapped, so that a wrong header does not allocate more than the file contains.
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(found, np.ndarray):
            arrays = {name: np.array(found)}
        else:
            with found:
                check_unpacked(found.zip.infolist(), path)
                only = found.files[0] if len(found.files) == 1 else name
                arrays = {key: found[only if key == name else key] for key in (name, *others) if key in found.files}
                arrays |= {name: found[only]} if only in found.files else {}
                listed = ", ".join(found.files)
    except DataError:
        raise
    except Exception as error:  # NumPy raises many different errors for damaged headers
        raise DataError(f"{path}: the label file cannot be read as a NumPy array ({error!s:.200})") from None
    if name not in arrays:
        raise DataError(f"{path}: expected an array `{name}`; found {listed or 'none':.200}")
    if arrays[name].dtype.kind not in "biufU":
        raise DataError(f"{path}: expected an array of numbers or names, found {arrays[name].dtype!s:.200}")
    return arrays


def check_unpacked(members: Sequence[ZipInfo], path: Path, most: int = _MOST_UNPACKED) -> None:
    """Refuse a small file that unpacks to many times its size."""
    unpacked = sum(member.file_size for member in members)
    packed = path.stat().st_size
    if unpacked > most + _TIMES_PACKED * packed:
        raise DataError(f"{path}: {packed:,} bytes unpack to {unpacked:,}, which is too much; save arrays as .npy")


def _mesh(path: Path) -> RawLabels:
    """A mesh file that contains the labels of another mesh, as numbers or as colors."""
    try:
        mesh = load_mesh(path)
    except MeshError as error:
        raise DataError(str(error)) from None
    found = stored_in(mesh, "labels", "f") or stored_in(mesh, "colors", "f")
    if found is None:
        raise DataError(f"{path}: the mesh file contains no labels: no property 'label' and no colors")
    return found


_READERS: dict[str, Callable[[Path], RawLabels]] = {
    **dict.fromkeys((".txt", ".npy", ".seg", ".eseg", ".fseg"), _text),
    ".npy": _numpy,
    ".csv": _csv,
    ".npz": _numpy,
    ".json": _json,
    ".ply": _mesh,
}
LABEL_SUFFIXES = tuple(_READERS)


def _check_file(path: Path) -> None:
    if not path.exists():
        raise DataError(f"{path}: the label file is missing; add it or remove its mesh from the data set")
    if not path.is_file():  # a pipe would never end
        raise DataError(f"{path}: not a regular file")


def _labels(given: Sequence[Any], path: Path) -> NDArray[Any]:
    """Integers, or names if any of the labels is not a number."""
    if all(is_number(_word(label)) for label in given):
        return whole(np.fromiter(map(float, map(_word, given)), np.float64, len(given)), str(path))
    words = [_word(label) for label in given]
    long = next((i for i, word in enumerate(words) if len(word) > _LONGEST_NAME), None)
    if long is not None:
        raise DataError(f"{path}: label {long} has {len(words[long]):,} characters, which is too long for a name")
    n_bytes = 4 * len(words) * max(map(len, words), default=0)
    if n_bytes > _MOST_UNPACKED + _TIMES_PACKED * sum(map(len, words)):
        raise DataError(f"{path}: {len(words):,} names would need {n_bytes >> 20:,} MB; use shorter names, or numbers")
    return np.array(words, dtype=np.str_)


def _word(label: Any) -> str:
    return str(UNLABELED if label is None else label)

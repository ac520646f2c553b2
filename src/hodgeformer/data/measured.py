"""The shape and the columns of a mesh in a few numbers: to recognize copies, and to standardize columns."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hodgeformer.base.containers import PartElement
from hodgeformer.base.errors import DataError
from hodgeformer.mesh.features import GROUPS, OWN, own_parts
from hodgeformer.mesh.geometry import face_vectors, in_range, norms
from hodgeformer.mesh.mesh import COLOR, COLOR_PARTS, IntArray, Mesh, listed, parts_of
from hodgeformer.mesh.order import canonical_faces
from hodgeformer.mesh.pose import principal_axes
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.mesh.topology import repeats_a_vertex

_POINTS = 2000  # that represent a surface


class Measured(NamedTuple):
    """A column of a mesh: number, mean and variance of its finite values, and a hash that numbering does not change.

    `n_bad` values are infinite or NaN.
    """

    element: PartElement
    n: int
    n_bad: int
    mean: float
    variance: float
    digest: str


MeasuredColumns = Mapping[str, Measured]


def shape_hash(mesh: Mesh) -> str:
    """Equal for copies of a mesh that are renumbered, moved or scaled (but not rotated)."""
    faces, places, number = _on_grid(mesh)
    digest = hashlib.sha256(places.tobytes())
    if len(faces):
        digest.update(canonical_faces(number[faces])[0].tobytes())
    return digest.hexdigest()


def asymmetry(mesh: Mesh) -> float:
    """The distance of the surface from its mirror image in the best of three principal planes.

    A mean distance in units of the root mean square radius, between points spread evenly over the area; their own
    spacing is 0.03 to 0.05.
    """
    vertices, faces = in_range(mesh).vertices, mesh.faces
    areas = np.cumsum(norms(face_vectors(vertices, faces)))
    if areas[-1] == 0:
        return 0.0
    number = np.arange(_POINTS)
    chosen = vertices[faces[np.searchsorted(areas, (number + 0.5) * areas[-1] / _POINTS)]]
    # Two irrational steps cover a triangle evenly.
    first, second = np.sqrt(number * 0.7548776662 % 1), number * 0.5698402910 % 1
    corners = np.stack([1 - first, first * (1 - second), first * second], axis=1)
    points = np.einsum("nc,ncd->nd", corners, chosen)
    points = (points - points.mean(axis=0)) @ principal_axes(vertices, faces)
    points /= np.sqrt((points**2).sum(axis=1).mean())
    tree = cKDTree(points)
    return min(float(tree.query(points * plane)[0].mean()) for plane in 1 - 2 * np.eye(3))


def measured_columns(mesh: Mesh) -> dict[str, Measured]:
    """All columns of a mesh, the colors of its file among them."""
    found = mesh.found_columns
    if not found:
        return {}
    faces, _, number = _on_grid(mesh)
    kept = np.flatnonzero(~repeats_a_vertex(mesh.faces))
    used = np.flatnonzero(number >= 0)
    rows: dict[str, tuple[IntArray, IntArray]] = {"vertex": (used, number[used, None]), "face": (kept, number[faces])}
    if any(element == "edge" for element, _ in found.values()):
        edges = mesh.topology.edges
        rows["edge"] = np.arange(len(edges)), number[edges]
    return {name: _measured(element, values, *rows[element]) for name, (element, values) in found.items()}


def _measured(element: PartElement, values: NDArray[Any], rows: IntArray, places: IntArray) -> Measured:
    chosen = values[rows].astype(np.float64)
    # In the order of their places, and by value where places coincide.
    order = np.lexsort((chosen, *np.sort(places, axis=1).T))
    with np.errstate(over="ignore"):
        digest = hashlib.sha256(chosen[order].astype(np.float32).tobytes()).hexdigest()[:16]
        finite = chosen[np.isfinite(chosen)]
        mean, variance = (float(finite.mean()), float(finite.var())) if finite.size else (0.0, 0.0)
    return Measured(element, len(finite), int((~np.isfinite(values)).sum()), mean, variance, digest)


def identity(shape: str, columns: MeasuredColumns, names: Iterable[str]) -> str:
    """Equal for copies: the hash of the shape, with those of the columns that a model reads, if it reads any."""
    read = [columns[part].digest for name in names for part in parts_of(name, columns)]
    return hashlib.sha256(" ".join([shape, *read]).encode()).hexdigest() if read else shape


def unfit(columns: MeasuredColumns, names: Iterable[str]) -> str:
    """Why a model cannot read these columns; empty if it can."""
    for name in names:
        parts = parts_of(name, columns)
        if not parts:
            return f"the column '{name}' is missing; found: {listed(columns)}"
        if n := sum(columns[part].n_bad for part in parts):
            return f"column '{name}' has {n} values that are not finite; replace them with numbers"
    return ""


def column_counts(meshes: Iterable[MeasuredColumns]) -> dict[str, int]:
    """The columns that meshes have, colors among them, and the number of meshes that have each."""
    named = [{COLOR if part in COLOR_PARTS else part for part in columns} for columns in meshes]
    return dict(sorted(Counter(name for names in named for name in names).items()))


def scaled(prepare: PrepareConfig, meshes: Sequence[MeasuredColumns]) -> PrepareConfig:
    """The preparation with the scales of its columns, measured on these meshes if they are not given.

    A column of several values becomes one feature for each of them.
    """
    if not prepare.own_columns:
        return prepare
    features: list[str] = []
    for feature in prepare.features:
        is_plain = feature in (*GROUPS, COLOR)
        parts = () if is_plain else parts_of(feature.removeprefix(OWN), meshes[0])
        features += [OWN + part for part in parts] or [feature]
    missing = [part for part in own_parts(tuple(features)) if part not in prepare.column_scales]
    scales = {part: _scale([columns[part] for columns in meshes]) for part in missing}
    return prepare.replace(features=tuple(features), column_scales={**prepare.column_scales, **scales})


def _scale(columns: Sequence[Measured]) -> tuple[float, float]:
    """Mean and deviation over all elements; a column that is constant has a deviation of one."""
    n, means, variances = (np.array([getattr(column, key) for column in columns]) for key in ("n", "mean", "variance"))
    shares = n / max(n.sum(), 1)
    mean = float(shares @ means)
    deviation = float(np.sqrt(shares @ (variances + (means - mean) ** 2)))
    return mean, deviation if deviation > 1e-9 * max(abs(mean), 1e-30) else 1.0


def to_bytes(meshes: Iterable[MeasuredColumns]) -> NDArray[np.uint8]:
    """For the index of shards."""
    content = [{name: list(column) for name, column in columns.items()} for columns in meshes]
    return np.frombuffer(json.dumps(content).encode(), dtype=np.uint8)


def from_bytes(stored: NDArray[np.uint8], n: int) -> list[dict[str, Measured]]:
    """What `to_bytes` stored for n meshes; an error if it is anything else."""
    content = json.loads(stored.tobytes())
    meshes = [{name: Measured(*column) for name, column in columns.items()} for columns in content]
    for column in (column for columns in meshes for column in columns.values()):
        numbers = np.array([column.mean, column.n, column.n_bad, column.variance], dtype=np.float64)
        is_fine = np.isfinite(numbers).all() and (numbers[1:] >= 0).all() and isinstance(column.digest, str)
        if not is_fine or column.element not in get_args(PartElement):
            raise DataError("'columns' has values that are not finite")
    if len(meshes) != n:
        raise DataError(f"'columns' has {len(meshes)} rows, for {n} meshes")
    return meshes


def _on_grid(mesh: Mesh) -> tuple[IntArray, IntArray, IntArray]:
    """Faces with three different corners, the places of their corners on a grid, and the place of each vertex; -1 for
    a vertex that they do not use."""
    faces = mesh.faces[~repeats_a_vertex(mesh.faces)]
    used = np.unique(faces)
    points = mesh.vertices[used]
    low = points.min(axis=0) if len(points) else np.zeros(3)
    extent = float((points - low).max()) if len(points) else 0.0
    grid = np.rint((points - low) / (extent or 1.0) * 1e5).astype(np.int64)
    places, place = np.unique(grid, axis=0, return_inverse=True)
    number = np.full(mesh.n_vertices, -1)
    number[used] = place.reshape(-1)
    return faces, places, number

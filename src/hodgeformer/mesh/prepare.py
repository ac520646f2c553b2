"""From a mesh to everything the model needs, the same in training and prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, PositiveFloat, field_validator

from hodgeformer.base.containers import KIND_OF, KINDS, ElementKind, PerElement, SparsityPattern
from hodgeformer.base.errors import BatchError
from hodgeformer.base.machine import thread_count
from hodgeformer.base.settings import Faces, Settings
from hodgeformer.mesh.features import (
    PAPER_GROUPS,
    OnElements,
    canonical_features,
    feature_widths,
    input_features,
    own_names,
    own_parts,
    reversed_edge_columns,
)
from hodgeformer.mesh.geometry import face_centers, in_range, nearest_rows, to_disk_area, to_unit_sphere, without_spikes
from hodgeformer.mesh.io import MeshLike, as_mesh
from hodgeformer.mesh.mesh import Column, FloatArray, IntArray, Mesh
from hodgeformer.mesh.order import canonical_faces, canonical_order, file_edge_order, outward
from hodgeformer.mesh.patterns import Pattern, Patterns, sparsity_pattern
from hodgeformer.mesh.pose import PoseName, posed
from hodgeformer.mesh.topology import MeshComplex, inverse_permutation

Count = Annotated[int, Field(ge=1)]
Counts = dict[ElementKind, Count]
SizeName = Literal["sphere", "area"]
WindingName = Literal["file", "outward"]
DEFAULT_CAPS: Counts = {"v": 64, "e": 96, "f": 96}


class PrepareConfig(Settings):
    """How a mesh becomes input. Stored in every checkpoint, because a model fits only the input it was trained on."""

    retired: ClassVar = {"order": ("morton",)}

    faces: Faces = Field(
        default="original",
        description="Meshes with more faces are simplified to this number; original keeps them as they are, and auto "
        "lets the plan decide.",
    )
    least_faces: int = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="Meshes with less than half this number of faces are subdivided; 0 subdivides none.",
    )
    n_neighbors: Literal["sqrt"] | Count | Counts = Field(
        default="sqrt",
        description="Entries per row of the attention patterns: sqrt (the root of the number of elements), one number, "
        'or one per kind, such as {"v": 32, "e": 48, "f": 32}.',
    )
    max_neighbors: Counts | None = Field(
        default_factory=lambda: dict(DEFAULT_CAPS),
        description="The upper limit of n_neighbors = sqrt, per kind of element; none for no limit.",
    )
    random_share: float = Field(
        default=0.2,
        ge=0.0,
        lt=1.0,
        description="The share of each row that connects to random elements instead of near ones.",
    )
    features: tuple[str, ...] = Field(
        default=PAPER_GROUPS,
        description="The input features. coords, normals and areas are those of the paper; add distances along the "
        "surface if the same shape occurs in different poses, color for the colors of the mesh, and ply:NAME for a "
        "column of the mesh, such as a property of a PLY file.",
    )
    column_scales: dict[str, tuple[FiniteFloat, PositiveFloat]] = Field(
        default_factory=dict,
        description="Mean and standard deviation of each own column; measured on the training meshes.",
    )
    pose: PoseName = Field(
        default="file",
        description="file keeps the pose of the file, frame aligns meshes to their principal axes, and frame_average "
        "also averages over the four orientations of these axes. upright_y keeps the axis y of the file, which points "
        "up or down in all meshes, and turns them about it; upright_x and upright_z likewise.",
    )
    size: SizeName = Field(
        default="sphere",
        description="Scale meshes to fit the unit sphere, or to the area of the unit disk. The area stays the same "
        "when a limb moves.",
    )
    winding: WindingName = Field(
        default="file",
        description="file keeps the orientation of faces; outward makes normals point outward, so that an inside-out "
        "file gives the same answer.",
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="The seed for random connections.")

    @field_validator("features")
    @classmethod
    def _canonical_features(cls, features: tuple[str, ...]) -> tuple[str, ...]:
        return canonical_features(features)

    @property
    def most_faces(self) -> int | None:
        """The number of faces that meshes are simplified to; None for no limit."""
        return self.faces if isinstance(self.faces, int) else None

    def working(self, n: PerElement[int]) -> PerElement[int]:
        """The approximate number of elements of a mesh at the working resolution."""
        share = min(1.0, (self.most_faces or n.f) / max(n.f, 1))
        return PerElement.build(lambda kind: round(share * n[kind]))

    @property
    def widths(self) -> PerElement[int]:
        """Columns of x_in."""
        return feature_widths(self.features)

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The names of the columns of a mesh that are read."""
        return own_names(self.features)

    @property
    def scales(self) -> dict[str, tuple[float, float]]:
        """Mean and deviation of all columns that are read; a color has three."""
        return {part: self.column_scales.get(part, (0.0, 1.0)) for part in own_parts(self.features)}

    def typical_columns(self, n: int, rng: np.random.Generator) -> dict[str, Column]:
        """Random columns of n vertices, as in the training meshes, to try a model on a mesh that has none."""
        return {part: Column("vertex", rng.normal(*scale, n)) for part, scale in self.scales.items()}

    @property
    def edge_reversal(self) -> tuple[int, ...]:
        """The order of the columns of an edge once its direction is reversed."""
        return tuple(reversed_edge_columns(self.features))

    def row_sizes(self, n: PerElement[int]) -> PerElement[tuple[int, int]]:
        """(local, random) entries per row of the patterns of a mesh with n elements."""
        fixed = dict.fromkeys(KINDS, self.n_neighbors) if isinstance(self.n_neighbors, int) else self.n_neighbors

        def sizes(kind: ElementKind) -> tuple[int, int]:
            size = None if isinstance(fixed, str) else fixed.get(kind)
            if size is None:
                root = max(1, round(math.sqrt(n[kind])))
                size = min(root, (self.max_neighbors or {}).get(kind, root))
            size = min(size, n[kind])
            n_random = min(round(self.random_share * size), size - 1)
            return size - n_random, n_random

        return PerElement.build(sizes)


@dataclass(frozen=True, eq=False)
class PreparedMesh:
    """A mesh in canonical order with everything the model reads.

    `order.v[i]` is the number in the file of vertex i; `order.f` and `order.e` likewise (edges of the file are numbered
    by first appearance). `face_source[j]` is the prepared face whose answer is used for face j of the file: the same
    face, or the nearest one if it repeats a vertex. `positions` are the normalized vertices.
    """

    topology: MeshComplex
    x_in: PerElement[NDArray[np.float32]]
    patterns: Patterns
    positions: FloatArray
    order: PerElement[IntArray]
    face_source: IntArray
    target: NDArray[Any] | None = None
    name: str = "mesh"

    @property
    def n(self) -> PerElement[int]:
        return self.topology.n

    def to_file_order(self, values: NDArray[Any], kind: ElementKind) -> NDArray[Any]:
        """Reorder values of the prepared elements to the order of the file."""
        self._check_length(len(values), self.n[kind], kind)
        return values[self.face_source] if kind == "f" else values[inverse_permutation(self.order[kind])]

    def from_file_order(self, values: NDArray[Any], kind: ElementKind) -> NDArray[Any]:
        """Reorder values of the elements of the file (such as labels) to the prepared order."""
        self._check_length(len(values), len(self.face_source) if kind == "f" else self.n[kind], kind)
        return values[self.order[kind]]

    def with_target(self, target: NDArray[Any] | None) -> PreparedMesh:
        return replace(self, target=target)

    def _check_length(self, found: int, expected: int, kind: ElementKind) -> None:
        if found != expected:
            raise BatchError(f"{self.name}: expected {expected} values of kind '{kind}', got {found}")


def prepare(
    mesh: MeshLike,
    config: PrepareConfig | None = None,
    *,
    seed: int | None = None,
    frame: int = 0,
    embedded: tuple[ElementKind, ...] = KINDS,
    patterned: tuple[ElementKind, ...] = KINDS,
    n_threads: int | None = None,
) -> PreparedMesh:
    """Pose, canonical order, unit sphere, complex, input features and sparsity patterns of a mesh.

    `seed` replaces the configured seed of the random connections; `frame` chooses one of the frames of a pose that has
    several. `embedded` and `patterned` are the kinds that get features and patterns, if the model reads no
    others.
    """
    config = PrepareConfig() if config is None else config
    mesh = as_mesh(mesh).with_only_columns(config.own_columns)
    seed = config.seed if seed is None else seed
    faces = mesh.faces[mesh.proper_faces]
    vertices = without_spikes(in_range(mesh).vertices, faces)
    if config.winding == "outward":
        faces = outward(vertices, faces)
    vertices, faces, order_v, face_order = _canonical(vertices, faces, config, frame)
    vertices = to_size(vertices, faces, config.size)
    topology = MeshComplex.from_faces(faces, mesh.n_vertices)
    order_f = mesh.proper_faces[face_order]
    order_e = file_edge_order(topology, mesh.faces, order_v, order_f)
    order = PerElement(order_v, order_e, order_f)
    sizes = config.row_sizes(topology.n)

    def pattern(kind: ElementKind) -> Pattern:
        if kind not in patterned:
            return SparsityPattern(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32))
        threads = thread_count() if n_threads is None else n_threads
        return sparsity_pattern(kind, topology, vertices, size=sizes[kind], seed=seed, n_threads=threads)

    return PreparedMesh(
        topology=topology,
        x_in=input_features(vertices, topology, config.features, embedded, _standardized(mesh, config, order)),
        patterns=PerElement.build(pattern),
        positions=vertices,
        order=order,
        face_source=_face_source(topology, vertices, mesh, order),
        name=mesh.name,
    )


def _standardized(mesh: Mesh, config: PrepareConfig, order: PerElement[IntArray]) -> list[OnElements]:
    """The columns that the model reads, in canonical order, with a mean of zero and a deviation of one in training."""
    found = []
    for name, (mean, scale) in config.scales.items():
        element, values = mesh.columns[name]
        found.append((KIND_OF[element], (values[order[KIND_OF[element]]].astype(np.float64) - mean) / scale))
    return found


def to_size(vertices: FloatArray, faces: IntArray, size: SizeName) -> FloatArray:
    """The vertices scaled as for the model."""
    vertices = to_unit_sphere(vertices, faces)
    return to_disk_area(vertices, faces) if size == "area" else vertices


def _canonical(
    vertices: FloatArray, faces: IntArray, config: PrepareConfig, frame: int
) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
    """Vertices and faces in canonical order, and the orders of both.

    Every sum is computed in an order that does not depend on the file; otherwise rounding would. A frame, whose moments
    are sums, therefore needs a canonical order before it and another one after it.
    """
    order_v, face_order = np.arange(len(vertices)), np.arange(len(faces))
    poses: tuple[PoseName, ...] = ("file",) if config.pose == "file" else ("file", config.pose)
    for pose in poses:
        vertices = posed(vertices, faces, pose, frame)
        step = canonical_order(vertices, faces)
        faces, face_step = canonical_faces(inverse_permutation(step)[faces])
        vertices, order_v, face_order = vertices[step], order_v[step], face_order[face_step]
    return vertices, faces, order_v, face_order


def _face_source(topology: MeshComplex, vertices: FloatArray, mesh: Mesh, order: PerElement[IntArray]) -> IntArray:
    source = np.full(mesh.n_faces, -1)
    source[order.f] = np.arange(topology.n.f)
    set_aside = np.flatnonzero(source < 0)
    if set_aside.size:
        # Corners sorted, so that rounding does not depend on their order in the file.
        corners = np.sort(inverse_permutation(order.v)[mesh.faces[set_aside]], axis=1)
        source[set_aside] = nearest_rows(face_centers(vertices, corners), face_centers(vertices, topology.faces))
    return source

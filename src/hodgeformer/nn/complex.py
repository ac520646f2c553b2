"""The complex of all meshes of a batch: d0, d1, their adjoints, and averages between neighboring elements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from hodgeformer.base.containers import KINDS, ElementKind, PerElement, SparsityPattern
from hodgeformer.kernels.incidence import Incidence, curl, gradient
from hodgeformer.kernels.rows import TensorFields
from hodgeformer.kernels.spreading import Surface
from hodgeformer.mesh.geometry import LEAST_SINE
from hodgeformer.nn.metric import Metric, measured_surface


@dataclass(frozen=True, eq=False)
class PackedComplex(TensorFields):
    """One block-diagonal complex: mesh b owns the elements `offsets[kind][b] : offsets[kind][b + 1]`.

    `edges` are (tail, head); `face_edges` are the sides of `faces`, whose `face_signs` are +1 where a face traverses
    them from tail to head, else -1. Incidences are computed once, on first use: few models read all of them.
    `positions` are read by the classical stars and by D blocks only.
    """

    n: PerElement[int]
    offsets: PerElement[tuple[int, ...]]
    patterns: PerElement[SparsityPattern[Tensor]]
    positions: Float[Tensor, "n_v 3"]
    edges: Int[Tensor, "n_e 2"]
    faces: Int[Tensor, "n_f 3"]
    face_edges: Int[Tensor, "n_f 3"]
    face_signs: Int[Tensor, "n_f 3"]

    @cached_property
    def gradient(self) -> Incidence:
        """d0 (n_e, n_v), with signs."""
        return gradient(self.edges, self.n.v)

    @cached_property
    def curl(self) -> Incidence:
        """d1 (n_f, n_e), with signs."""
        return curl(self.face_edges, self.face_signs, self.n.e)

    @cached_property
    def face_corners(self) -> Incidence:
        """A face from its three vertices, without signs."""
        return Incidence.from_rows(self.faces, torch.ones_like(self.face_signs), self.n.v)

    @cached_property
    def edge_ends(self) -> Incidence:
        """An edge from its two vertices, without signs."""
        return self.gradient.unsigned()

    @cached_property
    def face_sides(self) -> Incidence:
        """A face from its three edges, without signs."""
        return self.curl.unsigned()

    def d0(self, x: Float[Tensor, "n_v d"]) -> Float[Tensor, "n_e d"]:
        """(d0 x)_e = x_head - x_tail."""
        return self.gradient.apply(x)

    def d0_t(self, y: Float[Tensor, "n_e d"]) -> Float[Tensor, "n_v d"]:
        """The adjoint of d0: edges that arrive at a vertex minus edges that leave it."""
        return self.gradient.apply_t(y)

    def d1(self, x: Float[Tensor, "n_e d"]) -> Float[Tensor, "n_f d"]:
        """The sum around each face, edges against their direction with a minus."""
        return self.curl.apply(x)

    def d1_t(self, y: Float[Tensor, "n_f d"]) -> Float[Tensor, "n_e d"]:
        """The adjoint of d1."""
        return self.curl.apply_t(y)

    def carry(
        self, x: Float[Tensor, "n_from d"], *, source: ElementKind, target: ElementKind
    ) -> Float[Tensor, "n_to d"]:
        """For each target element the mean of x over the incident source elements; zero where none is."""
        if source == target:
            return x
        upward = KINDS.index(source) < KINDS.index(target)
        names = {"ve": "edge_ends", "vf": "face_corners", "ef": "face_sides"}
        incidence: Incidence = getattr(self, names[source + target if upward else target + source])
        if upward:
            return incidence.apply(x) / (2 if target == "e" else 3)
        return incidence.apply_t(x) / _counts(incidence, x).clamp(min=1)

    def neighbor_mean(self, x: Float[Tensor, "n d"], kind: ElementKind) -> Float[Tensor, "n d"]:
        """For each element the mean of x over the adjacent ones; zero where there is none.

        Vertices are adjacent over an edge, edges at a vertex, faces over an edge. Sums go through the shared
        element, so the cost of a vertex with 100,000 edges is that of its edges, not of their square. A neighbor
        counts once for each element shared with it: that is once, except between two faces with the same
        three corners, which share three edges.
        """
        if kind == "v":
            count = _counts(self.edge_ends, x)
            total = self.edge_ends.apply_t(self.edge_ends.apply(x)) - count * x
        else:
            incidence, shared = (self.edge_ends, 2) if kind == "e" else (self.face_sides, 3)
            count = incidence.apply(_counts(incidence, x)) - shared
            total = incidence.apply(incidence.apply_t(x)) - shared * x
        return total / count.clamp(min=1)

    @cached_property
    def edge_directions(self) -> Float[Tensor, "n_e 3"]:
        """From tail to head, of length one; zero where an edge has no length."""
        ends = self.positions[self.edges.long()]
        return functional.normalize(ends[:, 1] - ends[:, 0], dim=1)

    @cached_property
    def face_normals(self) -> Float[Tensor, "n_f 3"]:
        """Of length one, by the winding; zero where a face has no area."""
        a, b, c = self.positions.double()[self.faces.long()].unbind(1)
        normals = torch.linalg.cross(b - a, c - a)
        # For a face without area, rounding leaves some direction, a different one on every machine.
        flat = normals.norm(dim=1) <= LEAST_SINE * (b - a).norm(dim=1) * (c - a).norm(dim=1)
        return functional.normalize(normals.masked_fill(flat[:, None], 0.0), dim=1).to(self.positions)

    @cached_property
    def metric(self) -> Metric:
        """Lengths and areas of these positions; computed once, on first use."""
        return Metric.measure(
            positions=self.positions,
            edges=self.edges.long(),
            faces=self.faces.long(),
            face_edges=self.face_edges.long(),
            face_signs=self.face_signs,
            mesh_of_vertex=self.mesh_of("v"),
        )

    @cached_property
    def surface(self) -> Surface:
        """What D blocks read, from these positions; computed once, on first use."""
        return measured_surface(
            self.positions,
            edges=self.edges,
            faces=self.faces,
            face_edges=self.face_edges,
            offsets=self.offsets,
        )

    def mesh_of(self, kind: ElementKind) -> Int[Tensor, " n"]:
        """The number, within the batch, of the mesh that each element belongs to."""
        offsets = torch.tensor(self.offsets[kind], device=self.edges.device)
        meshes = torch.arange(len(offsets) - 1, device=offsets.device)
        return torch.repeat_interleave(meshes, offsets.diff(), output_size=self.n[kind])


def _counts(incidence: Incidence, like: Tensor) -> Tensor:
    """How many rows touch each column."""
    return incidence.apply_t(like.new_ones(incidence.n_out, 1))

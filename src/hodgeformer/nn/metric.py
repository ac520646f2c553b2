"""What follows from positions of a packed complex: the classical Hodge stars, and the surface that D blocks read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from hodgeformer.base.containers import PerElement
from hodgeformer.kernels.elimination import Elimination, Laplacian
from hodgeformer.kernels.spreading import Neighborhoods, Surface
from hodgeformer.mesh.topology import opposite_sides

SMALLEST = 1e-12
"""A length or area below this, in units of the mean, counts as zero, and so does its inverse."""


@dataclass(frozen=True, eq=False)
class Metric:
    """Diagonal stars of the barycentric dual, and the mass matrix of Whitney 1-forms, face by face.

    `star0` dual area of a vertex; `star1` length of the dual edge over that of the edge; `star2` one over the
    area of a face. `whitney[f]` (3, 3) couples the edges `face_edges[f]`, in their own orientation; the Galerkin
    star1 is the sum over faces. Lengths are measured, mesh by mesh, in the unit that makes the mean vertex area
    one, so that the Laplacian of a fine mesh is not larger than that of a coarse one.
    """

    star0: Float[Tensor, " n_v"]
    star1: Float[Tensor, " n_e"]
    star2: Float[Tensor, " n_f"]
    whitney: Float[Tensor, "n_f 3 3"]
    face_edges: Int[Tensor, "n_f 3"]

    @classmethod
    def measure(
        cls,
        *,
        positions: Float[Tensor, "n_v 3"],
        edges: Int[Tensor, "n_e 2"],
        faces: Int[Tensor, "n_f 3"],
        face_edges: Int[Tensor, "n_f 3"],
        face_signs: Int[Tensor, "n_f 3"],
        mesh_of_vertex: Int[Tensor, " n_v"],
    ) -> Metric:
        positions = positions / _unit_length(positions, faces, mesh_of_vertex)[mesh_of_vertex, None]
        corners = positions[faces]
        areas = _areas(corners)
        middles = (corners + corners.roll(-1, dims=1)) / 2
        to_center = torch.linalg.vector_norm(middles - corners.mean(dim=1, keepdim=True), dim=2)
        lengths = torch.linalg.vector_norm(positions[edges[:, 1]] - positions[edges[:, 0]], dim=1)
        return cls(
            star0=_sums(areas[:, None].expand(-1, 3) / 3, faces, len(positions)),
            star1=_sums(to_center, face_edges, len(edges)) * inverse(lengths),
            star2=inverse(areas),
            whitney=_whitney(corners, areas) * face_signs[:, :, None] * face_signs[:, None, :],
            face_edges=face_edges,
        )

    def galerkin_star1(self, y: Float[Tensor, "n_e d"]) -> Float[Tensor, "n_e d"]:
        """M y, M_ij the integral of the product of the Whitney forms of edges i and j; M is never formed."""
        coupled = torch.einsum("fij,fjd->fid", self.whitney.to(y.dtype), y[self.face_edges])
        return torch.zeros_like(y).index_add(0, self.face_edges.flatten(), coupled.flatten(0, 1))


def inverse(x: Tensor) -> Tensor:
    """1 / x, and zero where x counts as zero."""
    return torch.where(x > SMALLEST, 1 / x.clamp(min=SMALLEST), 0)


def _unit_length(positions: Tensor, faces: Tensor, mesh_of_vertex: Tensor) -> Tensor:
    """The square root of the mean vertex area of each mesh; one where a mesh has no area."""
    n_meshes = int(mesh_of_vertex[-1]) + 1
    mesh_of_face = mesh_of_vertex[faces[:, 0]]
    areas = _areas(positions[faces])
    total = areas.new_zeros(n_meshes).index_add(0, mesh_of_face, areas)
    mean = total / torch.bincount(mesh_of_vertex, minlength=n_meshes)
    return torch.where(mean > 0, mean.sqrt(), 1)


def _areas(corners: Float[Tensor, "n_f 3 3"]) -> Float[Tensor, " n_f"]:
    a, b, c = corners.unbind(dim=1)
    double: Tensor = torch.linalg.vector_norm(torch.linalg.cross(b - a, c - a), dim=1)
    return double / 2


def _sums(values: Tensor, members: Tensor, n: int) -> Tensor:
    return values.new_zeros(n).index_add(0, members.flatten(), values.flatten())


def _whitney(corners: Float[Tensor, "n_f 3 3"], areas: Float[Tensor, " n_f"]) -> Float[Tensor, "n_f 3 3"]:
    """Mass matrix of the forms l_i dl_j - l_j dl_i of the sides (0, 1), (1, 2), (2, 0).

    l are the barycentric coordinates. The integral of l_i l_j over a face is area (1 + [i = j]) / 12. The
    gradients of l are the opposite sides turned by a right angle over twice the area, so
    dl_i . dl_j = side_i . side_j / (4 area^2).
    """
    opposite = corners.roll(-2, dims=1) - corners.roll(-1, dims=1)
    slopes = torch.einsum("fid,fjd->fij", opposite, opposite) * (inverse(areas) ** 2)[:, None, None] / 4
    products = (1 + torch.eye(3, dtype=areas.dtype, device=areas.device)) / 12 * areas[:, None, None]
    start, end = torch.tensor([0, 1, 2], device=areas.device), torch.tensor([1, 2, 0], device=areas.device)

    def term(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        """The integral of l_a l_c times dl_b . dl_d, for all pairs of sides."""
        return products[:, a[:, None], c[None, :]] * slopes[:, b[:, None], d[None, :]]

    return (
        term(start, end, start, end) - term(start, end, end, start)
        - term(end, start, start, end) + term(end, start, end, start)
    )  # fmt: skip


def measured_surface(
    positions: Float[Tensor, "n_v 3"],
    *,
    edges: Int[Tensor, "n_e 2"],
    faces: Int[Tensor, "n_f 3"],
    face_edges: Int[Tensor, "n_f 3"],
    offsets: PerElement[tuple[int, ...]],
) -> Surface:
    """What D blocks read. Meshes are measured and ordered one by one, independent of the rest of the batch."""
    first = offsets.map(list)
    parts = zip(
        _parts(positions.double(), first.v, [0] * len(first.v)),
        _parts(faces.long(), first.f, first.v),
        _parts(edges.long(), first.e, first.v),
        _parts(face_edges.long(), first.f, first.e),
        strict=True,
    )
    laplacians = [Laplacian.from_surface(*part) for part in parts]
    eliminations = [Elimination.of(laplacian) for laplacian in laplacians]
    corner_offsets, corners = opposite_sides(faces.cpu().numpy(), len(positions))

    def real(arrays: Sequence[NDArray[Any]]) -> Tensor:
        return torch.from_numpy(np.concatenate(arrays)).to(positions)

    def whole(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(positions.device)

    def shifted(arrays: Iterable[NDArray[Any]], shifts: list[int]) -> Tensor:
        return whole(concatenated(list(arrays), shifts))

    def joined(offsets: Iterable[NDArray[Any]]) -> Tensor:
        return whole(joined_offsets(list(offsets)))

    entries = [0, *accumulate(len(elimination.rows) for elimination in eliminations)]
    return Surface(
        star0=real([laplacian.masses for laplacian in laplacians]),
        star1=real([laplacian.edge_weights for laplacian in laplacians]),
        edges=edges,
        bounds=whole(np.array(offsets.v)),
        sizes=tuple(zip(np.diff(first.v).tolist(), np.diff(first.e).tolist(), strict=True)),
        neighborhoods=Neighborhoods(
            edge_offsets=joined(laplacian.offsets for laplacian in laplacians),
            neighbors=shifted((laplacian.neighbors for laplacian in laplacians), first.v),
            edge_numbers=shifted((laplacian.edges for laplacian in laplacians), first.e),
            face_offsets=whole(corner_offsets),
            sides=whole(corners),
        ),
        elimination=(
            shifted((elimination.order for elimination in eliminations), first.v),
            shifted((elimination.position for elimination in eliminations), first.v),
            joined(elimination.offsets for elimination in eliminations),
            shifted((elimination.rows for elimination in eliminations), first.v),
            joined(elimination.row_offsets for elimination in eliminations),
            shifted((elimination.columns for elimination in eliminations), first.v),
            shifted((elimination.places for elimination in eliminations), entries),
        ),
    )


def _parts(values: Tensor, bounds: list[int], shifts: list[int]) -> list[NDArray[Any]]:
    """The rows of each mesh, numbered as in that mesh alone."""
    array = values.cpu().numpy()
    return [array[start:end] - shift for start, end, shift in zip(bounds, bounds[1:], shifts, strict=False)]


def concatenated(arrays: list[NDArray[Any]], shifts: list[int]) -> NDArray[Any]:
    """Concatenate arrays, and add its shift to each, without a second copy."""
    joined = np.concatenate(arrays)
    first = 0
    for array, shift in zip(arrays, shifts, strict=False):
        joined[first : first + len(array)] += shift
        first += len(array)
    return joined


def joined_offsets(offsets: list[NDArray[Any]]) -> NDArray[Any]:
    """Offsets of concatenated lists: the leading zero once."""
    ends = [0, *accumulate(int(array[-1]) for array in offsets)]
    return concatenated([offsets[0], *(array[1:] for array in offsets[1:])], ends)

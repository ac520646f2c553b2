"""The surface of a packed complex as D blocks read it: what spreading solves with, and what surrounds each vertex."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from hodgeformer.containers import PerElement
from hodgeformer.mesh.elimination import Elimination, Laplacian
from hodgeformer.ops.spread import Factor
from hodgeformer.ops.spreading import Rings

TIMES = np.geomspace(3e-4, 1.0, 8)
"""Times of the heat steps in units of the whole area: from the ring around a vertex to the whole body."""
N_TIMES = len(TIMES)


@dataclass(frozen=True, eq=False)
class Surface:
    """One block-diagonal Laplacian. Meshes are measured and eliminated one by one, so company changes nothing."""

    factor: Factor
    rings: Rings

    @classmethod
    def measure(
        cls,
        positions: Float[Tensor, "n_v 3"],
        *,
        edges: Int[Tensor, "n_e 2"],
        faces: Int[Tensor, "n_f 3"],
        face_edges: Int[Tensor, "n_f 3"],
        offsets: PerElement[Int[Tensor, " meshes_and_one"]],
    ) -> Surface:
        first = offsets.map(lambda numbers: numbers.tolist())
        parts = zip(
            _parts(positions.double(), first.v, [0] * len(first.v)),
            _parts(faces.long(), first.f, first.v),
            _parts(edges.long(), first.e, first.v),
            _parts(face_edges.long(), first.f, first.e),
            strict=True,
        )
        laplacians = [Laplacian.from_surface(*part) for part in parts]
        dtype = np.float64 if positions.dtype == torch.float64 else np.float32
        eliminations = [Elimination.of(laplacian, TIMES, dtype) for laplacian in laplacians]
        corner_offsets, corners = _corners(faces.cpu().numpy(), len(positions))

        def real(arrays: Sequence[NDArray[Any]]) -> Tensor:
            return torch.from_numpy(np.concatenate(arrays)).to(positions)

        def whole(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(array).to(positions.device)

        return cls(
            factor=Factor(
                masses=real([laplacian.masses for laplacian in laplacians]),
                order=whole(_shifted([e.order for e in eliminations], first.v)),
                offsets=whole(_joined([e.offsets for e in eliminations])),
                rows=whole(_shifted([e.rows for e in eliminations], first.v)),
                values=real([e.values for e in eliminations]),
                pivots=real([e.pivots for e in eliminations]),
            ),
            rings=Rings(
                edge_offsets=whole(_joined([laplacian.offsets for laplacian in laplacians])),
                neighbors=whole(_shifted([laplacian.neighbors for laplacian in laplacians], first.v)),
                weights=real([laplacian.weights for laplacian in laplacians]),
                face_offsets=whole(corner_offsets),
                sides=whole(corners),
                inverse_masses=real([1 / laplacian.masses for laplacian in laplacians]),
            ),
        )


def _parts(values: Tensor, bounds: list[int], shifts: list[int]) -> list[NDArray[Any]]:
    """The rows of each mesh, counted as if it were alone."""
    array = values.cpu().numpy()
    return [array[start:end] - shift for start, end, shift in zip(bounds, bounds[1:], shifts, strict=False)]


def _shifted(arrays: list[NDArray[Any]], shifts: list[int]) -> NDArray[Any]:
    return np.concatenate([array + array.dtype.type(shift) for array, shift in zip(arrays, shifts, strict=False)])


def _joined(offsets: list[NDArray[Any]]) -> NDArray[Any]:
    """Offsets of concatenated lists: the leading zero once."""
    ends = [0, *accumulate(int(array[-1]) for array in offsets)]
    return _shifted([offsets[0], *(array[1:] for array in offsets[1:])], ends)


def _corners(faces: NDArray[np.int32], n_vertices: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """For each vertex the sides (a, b) of its faces (i, a, b): where they begin, and the sides."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(faces.ravel(), minlength=n_vertices))])
    place = np.argsort(faces.ravel(), kind="stable")
    far = np.stack([np.roll(faces, -1, axis=1).ravel(), np.roll(faces, -2, axis=1).ravel()], axis=1)
    return offsets, np.ascontiguousarray(far[place])

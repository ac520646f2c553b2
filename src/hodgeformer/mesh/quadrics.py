"""The quadric of each vertex: the squared distance to the planes of its part of the surface, and, with a much smaller
weight, to its points.

The planes keep the shape, the points keep triangles even and the minimum unique (probabilistic quadrics, Trettner and
Kobbelt 2020).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.mesh.geometry import cross, face_vectors, norms, unit, vertex_sums
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.topology import MeshComplex

_RIM_WEIGHT = 1.0  # of the planes perpendicular to the surface at boundary edges


def vertex_quadrics(
    points: FloatArray, topology: MeshComplex, is_rim: NDArray[np.bool_], evenness: float
) -> FloatArray:
    """For each vertex xᵀA x + 2 bᵀx + c as ten numbers: the rows of the upper triangle of A, b, c."""
    normal = face_vectors(points, topology.faces)
    area = norms(normal) / 2
    normal = unit(normal)
    offset = -np.einsum("ij,ij->i", normal, points[topology.faces[:, 0]])
    quadrics = vertex_sums(_of_planes(normal, offset, area / 3), topology.faces, len(points))
    ends = topology.edges[is_rim]
    if len(ends):
        of_edge = np.empty(topology.n.e, dtype=np.int64)
        of_edge[topology.face_edges.ravel()] = np.repeat(np.arange(topology.n.f), 3)
        along = points[ends[:, 1]] - points[ends[:, 0]]
        wall = unit(cross(along, normal[of_edge[is_rim]]))
        offset = -np.einsum("ij,ij->i", wall, points[ends[:, 0]])
        planes = _of_planes(wall, offset, _RIM_WEIGHT / 2 * norms(along) ** 2)
        quadrics += vertex_sums(planes, ends, len(points))
    # In proportion to the planes, so that the minimum is well conditioned; not zero even without area.
    size = quadrics[:, [0, 3, 5]].sum(axis=1)
    weight = evenness * (size + max(1e-6 * size.sum() / topology.n.f, 1e-15))
    quadrics[:, [0, 3, 5]] += weight[:, None]
    quadrics[:, 6:9] -= weight[:, None] * points
    quadrics[:, 9] += weight * np.einsum("ij,ij->i", points, points)
    return quadrics


def _of_planes(normals: FloatArray, offsets: FloatArray, weights: FloatArray) -> FloatArray:
    """The quadrics (n, 10) of weighted planes."""
    plane = np.column_stack([normals, offsets])
    return weights[:, None] * plane[:, [0, 0, 0, 1, 1, 2, 3, 3, 3, 3]] * plane[:, [0, 1, 2, 1, 2, 2, 0, 1, 2, 3]]


@njit(cache=True, nogil=True)
def minimum(q: FloatArray, r: FloatArray, at: FloatArray) -> float:
    """The minimum of the sum of two quadrics; its position is written to `at`."""
    xx, xy, xz, yy, yz, zz = q[0] + r[0], q[1] + r[1], q[2] + r[2], q[3] + r[3], q[4] + r[4], q[5] + r[5]
    bx, by, bz = q[6] + r[6], q[7] + r[7], q[8] + r[8]
    # Cofactors; the matrix is positive definite.
    cxx, cxy, cxz = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    cyy, cyz, czz = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    scale = -1.0 / (xx * cxx + xy * cxy + xz * cxz)
    at[0] = scale * (cxx * bx + cxy * by + cxz * bz)
    at[1] = scale * (cxy * bx + cyy * by + cyz * bz)
    at[2] = scale * (cxz * bx + cyz * by + czz * bz)
    least: float = max(0.0, q[9] + r[9] + bx * at[0] + by * at[1] + bz * at[2])
    return least

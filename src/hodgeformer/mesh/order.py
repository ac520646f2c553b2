"""A canonical numbering and winding of a mesh, which depend on its shape and not on the file.

The learned operators depend on the orientation of single edges, which follows the numbering of the vertices. Sorting
the vertices along a space-filling curve makes the numbering, and with it every result, a property of the shape; it
also puts neighbors close to each other in memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.geometry import face_centers, face_vectors, norms
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import (
    MeshComplex,
    component_numbers,
    edges_by_first_appearance,
    inverse_permutation,
    is_used,
    sorted_by,
)

_BITS = 21  # three axes fill 63 bits
_GAPS = (
    (32, 0x1F00000000FFFF),
    (16, 0x1F0000FF0000FF),
    (8, 0x100F00F00F00F00F),
    (4, 0x10C30C30C30C30C3),
    (2, 0x1249249249249249),
)
"""The steps that insert two zero bits after each of 21 bits."""
_MAX_SPLITS = 64
_HOLLOW = 1e-3  # volume over area ** 1.5; below this a piece encloses nothing


def canonical_faces(faces: IntArray) -> tuple[IntArray, IntArray]:
    """Faces rotated so that the smallest corner comes first, with the same winding, and sorted; and their order."""
    order, n_vertices = np.arange(len(faces)), int(faces.max()) + 1
    turned = np.take_along_axis(faces, (faces.argmin(axis=1)[:, None] + np.arange(3)) % 3, axis=1)
    for corner in range(2, -1, -1):
        order = order[sorted_by(turned[order, corner], n_vertices)[1]]
    return turned[order], order


def canonical_order(vertices: FloatArray, faces: IntArray) -> IntArray:
    """`order[i]` is the number in the file of vertex i in canonical order."""
    codes = morton_codes(vertices, faces)
    order = np.argsort(codes)
    sorted_codes = codes[order]
    if (sorted_codes[1:] != sorted_codes[:-1]).all():
        return order
    order = np.lexsort((*vertices.T[::-1], codes))
    same = (vertices[order[1:]] == vertices[order[:-1]]).all(axis=1)
    if not same.any():
        return order
    rank = np.empty(len(vertices), dtype=np.int64)
    rank[order] = np.concatenate([[0], np.cumsum(~same)])
    return _order_coincident(rank, faces)


def morton_codes(vertices: FloatArray, faces: IntArray) -> NDArray[np.uint64]:
    """Position along the space-filling curve in the bounding box of all used vertices."""
    used = vertices[is_used(faces, len(vertices))].T.copy()  # along rows, reductions are several times as fast
    low = used.min(axis=1)
    extent = (used.max(axis=1) - low).max()
    # The grid is shifted by an irregular amount, so that planes of symmetry do not coincide with cell borders, where
    # rounding would decide on which side a vertex is.
    places = (0.0618034 + 0.9 * ((vertices - low) / (extent if extent > 0 else 1.0))) * (1 << _BITS)
    cells = np.clip(places, 0, (1 << _BITS) - 1).astype(np.uint64)
    for shift, mask in _GAPS:
        cells = (cells | (cells << np.uint64(shift))) & np.uint64(mask)
    x, y, z = cells.T
    return np.asarray(x | (y << np.uint64(1)) | (z << np.uint64(2)))


def _order_coincident(rank: IntArray, faces: IntArray) -> IntArray:
    """Order vertices at the same position by the faces around them, so that the numbering of the file does not matter.

    `rank` is shared by vertices at one position. It is refined by the ranks of the neighbors in each face until nothing
    changes; remaining ties are broken by connected component, then one vertex at a time. Vertices that are still equal
    are mirror copies of each other, for which either order gives the same mesh.
    """
    rank = _refined(rank, faces)
    rank = _refined(_dense_rank(rank, component_numbers(faces, len(rank))), faces)
    for _ in range(_MAX_SPLITS):
        order = np.argsort(rank, kind="stable")
        tied = np.flatnonzero(rank[order[1:]] == rank[order[:-1]])
        if not tied.size:
            break
        chosen = np.ones(len(rank), dtype=np.int64)
        chosen[order[tied[0]]] = 0
        rank = _refined(_dense_rank(rank, chosen), faces)
    return np.argsort(rank, kind="stable")


def _refined(rank: IntArray, faces: IntArray) -> IntArray:
    n_classes = rank.max() + 1
    while True:
        signature = np.zeros(len(rank), dtype=np.uint64)
        for corner in range(3):
            following, last = (rank[faces[:, (corner + i) % 3]].astype(np.uint64) for i in (1, 2))
            np.add.at(signature, faces[:, corner], _mixed(_mixed(following) + last))
        refined = _dense_rank(rank, signature)
        if refined.max() + 1 == n_classes:
            return rank
        rank, n_classes = refined, refined.max() + 1


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijective hash of 64-bit integers (splitmix64), so that sums of it distinguish multisets."""
    values = (values + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _dense_rank(first: IntArray, second: NDArray[np.int64] | NDArray[np.uint64]) -> IntArray:
    order = np.lexsort((second, first))
    new = (first[order[1:]] != first[order[:-1]]) | (second[order[1:]] != second[order[:-1]])
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.concatenate([[0], np.cumsum(new)])
    return rank


def file_edge_order(topology: MeshComplex, file_faces: IntArray, order_v: IntArray, order_f: IntArray) -> IntArray:
    """The number in the file, by first appearance, of each prepared edge."""
    # A side is opposite a corner, whichever corner comes first in the file and whichever way the face winds.
    opposite = np.roll(inverse_permutation(order_v)[file_faces[order_f]], 1, axis=1)
    _, second, third = np.split(topology.faces, 3, axis=1)
    corner = np.where(opposite == second, 1, np.where(opposite == third, 2, 0))
    face_edges = np.take_along_axis(topology.face_edges, (corner + 1) % 3, axis=1)
    return inverse_permutation(edges_by_first_appearance(face_edges[np.argsort(order_f)], topology.n.e))


def outward(vertices: FloatArray, faces: IntArray) -> IntArray:
    """Faces flipped so that neighbors agree and normals point outward, piece by piece, across edges with two faces.

    Outward means that the volume about the center of the piece is positive, even if the piece is open. A piece that
    encloses nothing keeps the winding of most of its area; one that cannot be oriented keeps that of the file.
    """
    piece, turned, orientable = _agreeing(MeshComplex.from_faces(faces, len(vertices)))
    vectors, centers = face_vectors(vertices, faces), face_centers(vertices, faces)
    areas = norms(vectors) / 2
    area = np.bincount(piece, areas)
    moment = np.stack([np.bincount(piece, areas * along) for along in centers.T], axis=1)
    heights = centers - (moment / np.where(area > 0, area, 1.0)[:, None])[piece]
    volume = np.bincount(piece, np.einsum("fi,fi->f", heights, vectors) / np.where(turned, -6, 6))
    hollow = np.abs(volume) > _HOLLOW * area**1.5
    inside_out = np.where(hollow, volume < 0, np.bincount(piece, areas * turned) > area / 2)
    flipped = orientable & (turned != inside_out[piece])
    return np.where(flipped[:, None], faces[:, [0, 2, 1]], faces)


def _agreeing(topology: MeshComplex) -> tuple[IntArray, NDArray[np.bool_], NDArray[np.bool_]]:
    """For each face its piece, whether it must be flipped to agree with the first face, and whether that is possible.

    Each face counts twice, as it is and flipped, and is connected to the form of its neighbor that agrees with it. A
    piece that cannot be oriented is then connected to its own flipped form.
    """
    n, signs, (one, other) = topology.n.f, topology.face_signs.ravel(), topology.paired_sides()
    f, g, flip = one // 3, other // 3, n * (signs[one] == signs[other])
    links = np.stack([np.concatenate([f, f + n]), np.concatenate([g + flip, g + n - flip])], axis=1)
    as_is, flipped = component_numbers(links, 2 * n).reshape(2, n)
    piece = np.unique(np.minimum(as_is, flipped), return_inverse=True)[1]
    return piece, as_is > flipped, as_is != flipped

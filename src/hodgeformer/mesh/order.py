"""A canonical numbering and winding of a mesh, which depend on its shape and not on the file.

The learned operators depend on the orientation of single edges, which follows the numbering of the vertices. Sorting
the vertices along a space-filling curve makes the numbering, and with it every result, a property of the shape; it
also puts neighbors close to each other in memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.compiled import njit
from hodgeformer.mesh.geometry import face_vector
from hodgeformer.mesh.mesh import FloatArray, IntArray
from hodgeformer.mesh.topology import MeshComplex, pieces, sorted_by

_BITS = 21  # three axes fill 63 bits
_MAX_SPLITS = 64
_HOLLOW = 1e-3  # volume over area ** 1.5; below this a piece encloses nothing


def canonical_faces(faces: IntArray) -> tuple[IntArray, IntArray]:
    """Faces rotated so that the smallest corner comes first, with the same winding, and sorted; and their order."""
    turned, order, n_vertices = np.empty_like(faces), np.arange(len(faces)), int(faces.max()) + 1
    _turn(faces, turned)
    for corner in range(2, -1, -1):
        order = order[sorted_by(turned[order, corner], n_vertices)[1]]
    return turned[order], order


@njit(cache=True, nogil=True)
def _turn(faces: IntArray, turned: IntArray) -> None:
    for f in range(len(faces)):
        a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
        first = 0 if a <= b and a <= c else 1 if b <= c else 2
        for corner in range(3):
            turned[f, corner] = faces[f, (first + corner) % 3]


def inverse(order: IntArray) -> IntArray:
    """The permutation that undoes `order`."""
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return back


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
    codes = np.zeros(len(vertices), np.uint64)
    _fill_codes(vertices, faces, codes, np.full(3, np.inf), np.full(3, -np.inf))
    return codes


@njit(cache=True, nogil=True)
def _fill_codes(
    vertices: FloatArray, faces: IntArray, codes: NDArray[np.uint64], low: FloatArray, high: FloatArray
) -> None:
    for f in range(len(faces)):
        for corner in range(3):
            for axis in range(3):
                at = vertices[faces[f, corner], axis]
                low[axis] = min(low[axis], at)
                high[axis] = max(high[axis], at)
    extent = max(high[0] - low[0], high[1] - low[1], high[2] - low[2])
    for v in range(len(vertices)):
        for axis in range(3):
            scaled = (vertices[v, axis] - low[axis]) / (extent if extent > 0 else 1.0)
            # The grid is shifted by an irregular amount, so that planes of symmetry do not coincide with cell borders,
            # where rounding would decide on which side a vertex is.
            cell = min(max((0.0618034 + 0.9 * scaled) * (1 << _BITS), 0.0), (1 << _BITS) - 1.0)
            codes[v] |= _spread(np.uint64(cell)) << np.uint64(axis)


@njit(cache=True, nogil=True)
def _spread(bits: np.uint64) -> np.uint64:
    """Insert two zero bits after each of 21 bits."""
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        bits = (bits | (bits << np.uint64(shift))) & np.uint64(mask)
    return bits


def _order_coincident(rank: IntArray, faces: IntArray) -> IntArray:
    """Order vertices at the same position by the faces around them, so that the numbering of the file does not matter.

    `rank` is shared by vertices at one position. It is refined by the ranks of the neighbors in each face until nothing
    changes; remaining ties are broken by connected component, then one vertex at a time. Vertices that are still equal
    are mirror copies of each other, for which either order gives the same mesh.
    """
    rank = _refined(rank, faces)
    rank = _refined(_dense_rank(rank, pieces(faces, len(rank))), faces)
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


def file_edge_order(
    faces: IntArray, face_edges: IntArray, n_edges: int, file_faces: IntArray, order_v: IntArray, order_f: IntArray
) -> IntArray:
    """The number in the file, by first appearance, of each prepared edge."""
    here, numbers = np.full(len(file_faces), -1), np.full(n_edges, -1)
    here[order_f] = np.arange(len(order_f))
    _meet(here, faces, face_edges, file_faces, order_v, numbers)
    return numbers


@njit(cache=True, nogil=True)
def _meet(
    here: IntArray, faces: IntArray, face_edges: IntArray, file_faces: IntArray, order_v: IntArray, numbers: IntArray
) -> None:
    n_met = 0
    for row in range(len(here)):
        f = here[row]
        if f < 0:
            continue
        turn = 0
        # In the file its sides start at another corner, and if it was flipped outward they are in reverse order.
        while file_faces[row, turn] != order_v[faces[f, 0]]:
            turn += 1
        ahead = file_faces[row, (turn + 1) % 3] == order_v[faces[f, 1]]
        for step in range(3):
            edge = face_edges[f, (step - turn if ahead else turn - 1 - step) % 3]
            if numbers[edge] < 0:
                numbers[edge] = n_met
                n_met += 1


def outward(vertices: FloatArray, faces: IntArray) -> IntArray:
    """Faces flipped so that neighbors agree and normals point outward, piece by piece, across edges with two faces.

    Outward means that the volume about the center of the piece is positive, even if the piece is open. A piece that
    encloses nothing keeps the winding of most of its area; one that cannot be oriented keeps that of the file.
    """
    topology = MeshComplex.from_faces(faces, len(vertices))
    turned = _inside_out(vertices, faces, *_agreeing(topology.face_edges, topology.face_signs, topology.n.e))
    return np.where(turned[:, None], faces[:, [0, 2, 1]], faces)


@njit(cache=True, nogil=True)
def _inside_out(
    vertices: FloatArray, faces: IntArray, piece: IntArray, turned: NDArray[np.bool_], orientable: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The faces to flip: `turned`, or in some pieces all the others."""
    n = len(orientable)
    area, turned_area, moment, volume = np.zeros(n), np.zeros(n), np.zeros((n, 3)), np.zeros(n)
    vectors, centers = np.empty((len(faces), 3)), np.zeros((len(faces), 3))
    for f in range(len(faces)):
        x, y, z = face_vector(vertices, faces[f])
        vectors[f, 0], vectors[f, 1], vectors[f, 2] = x, y, z
        share = np.sqrt(x * x + y * y + z * z) / 2
        area[piece[f]] += share
        turned_area[piece[f]] += share * turned[f]
        for axis in range(3):
            for corner in faces[f]:
                centers[f, axis] += vertices[corner, axis] / 3
            moment[piece[f], axis] += share * centers[f, axis]
    for f in range(len(faces)):
        p = piece[f]
        for axis in range(3):
            height = centers[f, axis] - (moment[p, axis] / area[p] if area[p] > 0 else 0.0)
            volume[p] += height * vectors[f, axis] / (-6 if turned[f] else 6)
    out = np.empty(len(faces), dtype=np.bool_)
    for f in range(len(faces)):
        p = piece[f]
        hollow = abs(volume[p]) > _HOLLOW * area[p] ** 1.5
        inside_out = volume[p] < 0 if hollow else turned_area[p] > area[p] / 2
        out[f] = orientable[p] and turned[f] != inside_out
    return out


@njit(cache=True, nogil=True)
def _agreeing(
    face_edges: IntArray, face_signs: NDArray[np.int8], n_edges: int
) -> tuple[IntArray, NDArray[np.bool_], NDArray[np.bool_]]:
    """The piece of each face, whether it must be flipped to agree with the first, and which pieces are orientable."""
    n = len(face_edges)
    count, pair = np.zeros(n_edges, dtype=np.int64), np.zeros((n_edges, 2), dtype=np.int64)
    for f in range(n):
        for side in range(3):
            e = face_edges[f, side]
            if count[e] < 2:
                pair[e, count[e]] = 3 * f + side
            count[e] += 1
    piece, turned = np.full(n, -1), np.zeros(n, dtype=np.bool_)
    orientable, stack = np.ones(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    n_pieces = 0
    for start in range(n):
        if piece[start] >= 0:
            continue
        piece[start] = n_pieces
        stack[0], height = start, 1
        while height > 0:
            height -= 1
            f = stack[height]
            for side in range(3):
                e = face_edges[f, side]
                if count[e] != 2:
                    continue
                other = pair[e, 0] if pair[e, 1] == 3 * f + side else pair[e, 1]
                g = other // 3
                turn = turned[f] ^ (face_signs[f, side] == face_signs[g, other % 3])
                if piece[g] < 0:
                    piece[g], turned[g] = n_pieces, turn
                    stack[height] = g
                    height += 1
                elif turned[g] != turn:
                    orientable[n_pieces] = False
        n_pieces += 1
    return piece, turned, orientable[:n_pieces]

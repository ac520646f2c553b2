"""Random changes of shape that leave parts what they are: slides within the surface, warps, bent limbs, clothes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.features import EdgeGraph
from hodgeformer.mesh.geometry import face_centers, face_vectors, norms, unit, vertex_sums
from hodgeformer.mesh.mesh import FloatArray, IntArray

_TIPS = 8  # ends of limbs that are looked for
_REACH = (0.05, 0.5)  # of the farthest surface distance: how much of a body turns about a joint
_JOINT = 0.5  # of that reach: the width of the belt in which the turn sets in
_WAVES = 4
_LONGEST, _SHORTEST = 2.0, 0.5  # wave lengths in sizes of the body
_FOLDS, _FOLD_LENGTHS = 6, (0.09, 0.43)  # waves of the surface along its normals


def slide_along_edges(
    vertices: FloatArray, faces: IntArray, share: float, rng: np.random.Generator, *, back: bool = False
) -> FloatArray:
    """Each vertex moves towards (with `back` also from) a random neighbor by up to `share` of the edge between them."""
    start, end = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    start, end = np.concatenate([start, end]), np.concatenate([end, start])
    neighbor = np.arange(len(vertices))
    order = rng.permutation(len(start))
    neighbor[start[order]] = end[order]  # the last write wins, which after a shuffle is any neighbor
    amount = rng.uniform(-share if back else 0.0, share, (len(vertices), 1))
    return vertices + amount * (vertices[neighbor] - vertices)


def add_noise(vertices: FloatArray, faces: IntArray, deviation: float, rng: np.random.Generator) -> FloatArray:
    """Gaussian noise with a standard deviation in mean edge lengths."""
    sides = vertices[np.roll(faces, -1, axis=1)] - vertices[faces]
    mean_edge = norms(sides.reshape(-1, 3)).mean()
    noisy: FloatArray = vertices + deviation * mean_edge * rng.standard_normal(vertices.shape)
    return noisy


def warp(vertices: FloatArray, strength: float, rng: np.random.Generator) -> FloatArray:
    """Space moves in a few long waves; `strength` is the standard deviation in sizes of the body."""
    size = _size(vertices)
    directions = rng.standard_normal((_WAVES, 3))
    lengths = rng.uniform(_SHORTEST, _LONGEST, (_WAVES, 1))
    waves = 2 * np.pi / (size * lengths) * directions / norms(directions)[:, None]
    phases = rng.uniform(0, 2 * np.pi, _WAVES)
    amplitudes = strength * size * np.sqrt(2 / _WAVES) * rng.standard_normal((_WAVES, 3))
    moved: FloatArray = vertices + np.sin(vertices @ waves.T + phases) @ amplitudes
    return moved


def swell(vertices: FloatArray, faces: IntArray, strength: float, rng: np.random.Generator) -> FloatArray:
    """The surface moves along its normals in waves, as muscles and clothes do.

    Up to `strength`, the standard deviation in sizes of the body.
    """
    size = _size(vertices)
    directions = rng.standard_normal((_FOLDS, 3))
    lengths = rng.uniform(*_FOLD_LENGTHS, (_FOLDS, 1))
    waves = 2 * np.pi / (size * lengths) * directions / norms(directions)[:, None]
    phases, amplitudes = rng.uniform(0, 2 * np.pi, _FOLDS), rng.standard_normal(_FOLDS)
    height = np.sqrt(2 / _FOLDS) * np.sin(vertices @ waves.T + phases) @ amplitudes
    normals = unit(vertex_sums(face_vectors(vertices, faces), faces, len(vertices)))
    swollen: FloatArray = vertices + rng.uniform(0, strength) * size * height[:, None] * normals
    return swollen


def beyond_plane(vertices: FloatArray, faces: IntArray, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The faces that a plane in a random direction cuts off: up to `share` of them, never all."""
    along = face_centers(vertices, faces) @ rng.standard_normal(3)
    result: NDArray[np.bool_] = along > np.quantile(along, 1 - rng.uniform(0, share))
    return result


def bend(vertices: FloatArray, faces: IntArray, degrees: float, n_joints: int, rng: np.random.Generator) -> FloatArray:
    """Parts turn about joints by up to `degrees`; the turn fades out over the belt at the end of the part."""
    for distance in _from_tips(vertices, faces, n_joints, rng):
        reach = rng.uniform(*_REACH) * distance[np.isfinite(distance)].max()
        axis = rng.standard_normal(3)
        angle = np.radians(rng.uniform(0, degrees))
        share, pivot = _part(vertices, distance, reach)
        if pivot is not None:
            vertices = pivot + _turned(vertices - pivot, axis / np.linalg.norm(axis), angle * share)
    return vertices


def grow(vertices: FloatArray, faces: IntArray, strength: float, n_parts: int, rng: np.random.Generator) -> FloatArray:
    """Parts grow or shrink about their joints by up to a factor exp(strength): other proportions, another person."""
    for distance in _from_tips(vertices, faces, n_parts, rng):
        reach = rng.uniform(*_REACH) * distance[np.isfinite(distance)].max()
        factor = np.exp(rng.uniform(-strength, strength))
        share, pivot = _part(vertices, distance, reach)
        if pivot is not None:
            vertices = pivot + (1 + (factor - 1) * share)[:, None] * (vertices - pivot)
    return vertices


def _from_tips(vertices: FloatArray, faces: IntArray, n_parts: int, rng: np.random.Generator) -> FloatArray:
    """Distances along the surface from a few ends of limbs, one row each.

    Points far from each other are the ends of limbs; the first is where the search began.
    """
    graph = EdgeGraph.from_edges(vertices, faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2))
    tips = graph.spread_points(int(rng.integers(len(vertices))), 1 + _TIPS)[1][1:]
    return rng.permutation(tips)[:n_parts]


def _part(vertices: FloatArray, distance: FloatArray, reach: float) -> tuple[FloatArray, FloatArray | None]:
    """How much each vertex belongs to the part within `reach` of a tip, a hand, an arm or a tail, and its joint.

    The joint is the middle of the belt at its end; None where the mesh is too coarse for one.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip((reach - distance) / (_JOINT * reach), 0, 1)
    share = share * share * (3 - 2 * share)
    belt = share * (1 - share)
    return share, belt @ vertices / belt.sum() if belt.sum() > 0 else None


def _turned(points: FloatArray, axis: FloatArray, angles: FloatArray) -> FloatArray:
    """Each point turned about an axis through the origin by its own angle (Rodrigues)."""
    cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
    along = (points @ axis)[:, None] * axis
    return along + cosine * (points - along) + sine * np.cross(axis, points)


def _size(vertices: FloatArray) -> float:
    return float(np.linalg.norm(np.ptp(vertices, axis=0))) or 1.0

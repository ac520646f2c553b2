"""Engraved cubes: a cube with one of several signs cut into, or raised from, one of its sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.simplify import simplify

_STEPS = 28  # grid cells along a side of the cube before decimation


def _polygon(u: FloatArray, v: FloatArray, corners: list[tuple[float, float]]) -> FloatArray:
    """Signed distance to a closed polygon, negative inside."""
    ends = np.array(corners)
    distance = np.full(u.shape, np.inf)
    inside = np.zeros(u.shape, dtype=bool)
    for (x0, y0), (x1, y1) in zip(ends, np.roll(ends, -1, axis=0), strict=True):
        along = np.clip(((u - x0) * (x1 - x0) + (v - y0) * (y1 - y0)) / ((x1 - x0) ** 2 + (y1 - y0) ** 2), 0, 1)
        distance = np.minimum(distance, np.hypot(u - x0 - along * (x1 - x0), v - y0 - along * (y1 - y0)))
        if y0 != y1:
            inside ^= ((y0 > v) != (y1 > v)) & (u < x0 + (v - y0) * (x1 - x0) / (y1 - y0))
    return np.where(inside, -distance, distance)


def _regular(n: int, radii: tuple[float, ...]) -> list[tuple[float, float]]:
    angles = np.pi / 2 + 2 * np.pi * np.arange(n) / n
    return [(radii[i % len(radii)] * np.cos(a), radii[i % len(radii)] * np.sin(a)) for i, a in enumerate(angles)]


# Signed distances in the square [-1, 1] x [-1, 1].
GLYPHS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "disc": lambda u, v: np.hypot(u, v) - 0.85,
    "cross": lambda u, v: np.minimum(
        np.maximum(abs(u) - 0.9, abs(v) - 0.28), np.maximum(abs(u) - 0.28, abs(v) - 0.9)
    ),
    "ring": lambda u, v: abs(np.hypot(u, v) - 0.65) - 0.23,
    "triangle": lambda u, v: _polygon(u, v, _regular(3, (1.05,))),
    "star": lambda u, v: _polygon(u, v, _regular(10, (1.05, 0.45))),
    "bar": lambda u, v: np.maximum(abs(u) - 1.0, abs(v) - 0.26),
    "square": lambda u, v: np.maximum(abs(u), abs(v)) - 0.72,
    "moon": lambda u, v: np.maximum(np.hypot(u, v) - 0.95, 0.75 - np.hypot(u - 0.5, v)),
    "corner": lambda u, v: _polygon(
        u, v, [(-0.9, -0.9), (0.9, -0.9), (0.9, -0.3), (-0.3, -0.3), (-0.3, 0.9), (-0.9, 0.9)]
    ),
    "hourglass": lambda u, v: _polygon(u, v, [(-0.8, -0.9), (0.8, -0.9), (0.2, 0), (0.8, 0.9), (-0.8, 0.9), (-0.2, 0)]),
}  # fmt: skip


def engraved_cube(
    rng: np.random.Generator, glyph: str, *, n_faces: int, raised: bool = False, name: str = "cube"
) -> Mesh:
    """A cube of about n_faces faces with a glyph, turned, sized and placed at random, on a random side."""
    points, faces = _grid_cube(_STEPS)
    axis, sign = int(rng.integers(3)), float(rng.choice([-1.0, 1.0]))
    u, v = points[:, (axis + 1) % 3], points[:, (axis + 2) % 3]
    angle, size = rng.uniform(0, 2 * np.pi), rng.uniform(0.5, 0.62)
    room = 0.92 - size * 1.05
    shift = rng.uniform(-room, room, 2)
    u, v = (u - shift[0]) / size, (v - shift[1]) / size
    distance = GLYPHS[glyph](np.cos(angle) * u + np.sin(angle) * v, np.cos(angle) * v - np.sin(angle) * u)
    on_side = points[:, axis] == sign
    # The wall of the engraving is as wide as one grid cell, so that it stays a wall after decimation.
    depth = np.clip(0.5 - distance * size * _STEPS / 2, 0, 1) * rng.uniform(0.16, 0.26)
    moved = points * (1 + rng.uniform(0.03, 0.08) * _pillow(points))[:, None]
    moved[on_side, axis] += sign * (depth[on_side] if raised else -depth[on_side])
    small = simplify(Mesh(moved, faces, name=name), n_faces).mesh
    return replace(small, notes=())


def _pillow(points: FloatArray) -> FloatArray:
    """A bulge of every side that vanishes on the edges. Exactly flat sides would decimate into slivers."""
    low, middle, _ = np.sort(abs(points), axis=1).T
    return np.asarray((1 - low**2) * (1 - middle**2), np.float64)


def _grid_cube(n: int) -> tuple[FloatArray, IntArray]:
    """The surface of the cube [-1, 1]^3 with n x n cells per side, two triangles each, normals outward."""
    low = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=-1).reshape(-1, 2)
    quads = []
    for axis in range(3):
        for level in (0, n):
            corners = np.full((len(low), 4, 3), level)
            for corner, offset in enumerate(((0, 0), (1, 0), (1, 1), (0, 1))):
                corners[:, corner, (axis + 1) % 3] = low[:, 0] + offset[0]
                corners[:, corner, (axis + 2) % 3] = low[:, 1] + offset[1]
            quads.append(corners if level else corners[:, ::-1])
    grid: NDArray[np.int64] = np.concatenate(quads).reshape(-1, 3)
    keys, index = np.unique(grid @ np.array([(n + 1) ** 2, n + 1, 1]), return_inverse=True)
    points: FloatArray = np.stack(np.unravel_index(keys, (n + 1,) * 3), axis=1).astype(np.float64) * (2.0 / n) - 1.0
    quad = index.reshape(-1, 4)
    return points, np.concatenate([quad[:, [0, 1, 2]], quad[:, [0, 2, 3]]]).astype(np.int64)

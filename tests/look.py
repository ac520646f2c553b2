"""What the shared look promises: the color of a sphere under the lights of look.json."""

from __future__ import annotations

import numpy as np

from hodgeformer.draw.colormap import LOOK
from hodgeformer.mesh.mesh import Mesh
from meshes import icosphere


def round_ball() -> Mesh:
    ball = icosphere(4)
    return ball.with_vertices(ball.vertices / np.linalg.norm(ball.vertices, axis=1, keepdims=True))


def lit(color: tuple[int, ...], normal: np.ndarray) -> np.ndarray:
    """A color under the lights, for a normal in the frame of the eye."""
    ambient, key, fill, gloss = (np.array(LOOK[name]) for name in ("ambient", "key", "fill", "gloss"))
    light = ambient[3] + ambient[:3] @ normal
    light += sum(lamp[3] * max(0.0, lamp[:3] @ normal) for lamp in (key, fill))
    shine = gloss[3] * max(0.0, gloss[:3] @ normal) ** 2 ** LOOK["gloss_doublings"]
    return np.minimum(255, light * np.array(color) + 255 * shine)


def assert_lit(
    pixels: np.ndarray, color: tuple[int, ...], middle: tuple[float, float], radius: float, *, distance: float
) -> None:
    """The sphere around that column and row is lit as it should be for an eye so many of its radii away."""
    for right, up in ((0, 0), (-0.4, 0.4), (0.4, 0.4), (0.4, -0.4), (-0.4, -0.4)):
        seen = pixels[round(middle[1] - radius * up), round(middle[0] + radius * right)]
        normal = _met(np.array([right, up]) / np.sqrt(distance**2 - 1), distance)
        np.testing.assert_allclose(seen, lit(color, normal), atol=4)


def _met(slope: np.ndarray, distance: float) -> np.ndarray:
    """Where a line of sight meets the unit sphere: (0, 0, distance) + t (slope, -1), the nearer one."""
    a, b = 1 + slope @ slope, distance
    t = (b - np.sqrt(b**2 - a * (distance**2 - 1))) / a
    return np.array([*(t * slope), distance - t])

"""How a mesh is turned before anything is measured: as in the file, or in the frame of its principal axes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from hodgeformer.errors import MeshError
from hodgeformer.mesh.geometry import face_centers, face_vectors, norms
from hodgeformer.mesh.mesh import FloatArray, IntArray

PoseName = Literal["file", "frame", "frame_average"]

# The proper sign choices of two principal axes; the third axis follows as their cross product.
_SIGNS = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))


def n_frames(pose: PoseName) -> int:
    """How many frames a prediction is averaged over."""
    return len(_SIGNS) if pose == "frame_average" else 1


def posed(vertices: FloatArray, faces: IntArray, pose: PoseName, frame: int = 0) -> FloatArray:
    """Vertices turned into the chosen pose."""
    if pose == "file":
        return vertices
    if not 0 <= frame < len(_SIGNS):
        raise MeshError(f"frame must be 0, 1, 2 or 3, got {frame}")
    return vertices @ principal_axes(vertices, faces, frame)


def principal_axes(vertices: FloatArray, faces: IntArray, frame: int = 0) -> FloatArray:
    """A rotation whose columns are the principal axes of the surface, widest first.

    Moments are integrals over the surface, so the frame does not depend on how finely parts are meshed. In frame 0
    the first two axes point to where the surface reaches farther (positive third moment).
    """
    weights = norms(face_vectors(vertices, faces))
    if weights.sum() == 0:
        weights = np.ones(len(faces))
    weights = weights / weights.sum()
    centered = vertices - weights @ face_centers(vertices, faces)
    corners = centered[faces]
    # Over a triangle, the integral of x xᵀ is area / 12 (sum of corner xᵢ xᵢᵀ + s sᵀ), s the sum of its corners.
    sums = corners.sum(axis=1)
    moment = np.einsum("f,fci,fcj->ij", weights, corners, corners) + np.einsum("f,fi,fj->ij", weights, sums, sums)
    _, axes = np.linalg.eigh(moment)
    axes = axes[:, ::-1]
    along = face_centers(centered, faces) @ axes[:, :2]
    skew = weights @ along**3
    signs = np.where(skew < 0, -1.0, 1.0) * _SIGNS[frame]
    first, second = axes[:, 0] * signs[0], axes[:, 1] * signs[1]
    return np.stack([first, second, np.cross(first, second)], axis=1)


def random_rotation(rng: np.random.Generator) -> FloatArray:
    """Uniform on SO(3): a normalized Gaussian quaternion."""
    w, x, y, z = (q := rng.standard_normal(4)) / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def rotation_about(axis: FloatArray, angle: float) -> FloatArray:
    """exp(angle [axis]_x) for a unit axis."""
    x, y, z = axis
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    result: FloatArray = np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * (k @ k)
    return result


def random_turns(n: int, axis: FloatArray | None, *, seed: int = 0) -> tuple[FloatArray, ...]:
    """n rotations about an axis, or any; the same whatever they are for."""
    rng = np.random.default_rng(seed)
    return tuple(
        random_rotation(rng) if axis is None else rotation_about(axis, rng.uniform(0, 2 * np.pi)) for _ in range(n)
    )

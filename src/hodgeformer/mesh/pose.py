"""The rotation of a mesh: as in the file, aligned to its principal axes, upright, or random."""

from __future__ import annotations

from typing import Literal

import numpy as np

from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.geometry import area_shares, face_centers, vertex_sums
from hodgeformer.mesh.mesh import FloatArray, IntArray

PoseName = Literal["file", "frame", "frame_average", "upright_x", "upright_y", "upright_z"]
UP_AXES: dict[str, tuple[int, int, int]] = {
    "y": (0, 1, 0), "z": (0, 0, 1), "x": (1, 0, 0), "-y": (0, -1, 0), "-z": (0, 0, -1), "-x": (-1, 0, 0),
}  # fmt: skip
"""Directions that may be up in a file, the most common first."""


# The proper sign choices of two principal axes; the third axis follows as their cross product.
_SIGNS = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))
_UPRIGHT_SIGNS = ((1.0, 1.0), (-1.0, 1.0))  # the second axis points up


def n_frames(pose: PoseName) -> int:
    """The number of frames that a prediction is averaged over."""
    return len(_signs(pose)) if pose != "frame" else 1


def _signs(pose: PoseName) -> tuple[tuple[float, float], ...]:
    if pose == "file":
        return _SIGNS[:1]
    return _UPRIGHT_SIGNS if up_axis(pose) is not None else _SIGNS


def up_axis(pose: PoseName) -> FloatArray | None:
    """The axis of the file that a pose keeps up, if it keeps one."""
    name, _, axis = pose.partition("_")
    return np.array(UP_AXES[axis], dtype=np.float64) if name == "upright" else None


def frame_signs(pose: PoseName, frame: int) -> FloatArray:
    """Factors that convert coordinates in frame 0 to those in another frame: exactly half a turn about an axis."""
    first, second = _signs(pose)[frame]
    return np.array([first, second, first * second])


def posed(vertices: FloatArray, faces: IntArray, pose: PoseName, frame: int = 0) -> FloatArray:
    """Vertices rotated into the chosen pose."""
    if pose == "file":
        return vertices
    if not 0 <= frame < len(signs := _signs(pose)):
        raise MeshError(f"frame must be below {len(signs)}, got {frame}")
    up = up_axis(pose)
    if up is None:
        return vertices @ principal_axes(vertices, faces, frame)
    return vertices @ upright_axes(vertices, faces, up) * frame_signs(pose, frame)


def upright_axes(vertices: FloatArray, faces: IntArray, up: FloatArray) -> FloatArray:
    """A rotation whose second column is `up`; the first is the direction across it in which the surface is widest.

    As in `principal_axes`, that points to the side on which the surface extends farther.
    """
    shares, middles, moment = _moments(vertices, faces)
    across = np.eye(3)[:, up == 0]
    widest = across @ np.linalg.eigh(across.T @ moment @ across)[1][:, -1]
    if _skew(shares, middles, widest[:, None])[0] < 0:
        widest = -widest
    return np.stack([widest, up, np.cross(widest, up)], axis=1)


def upright(up: FloatArray, wanted: FloatArray) -> FloatArray:
    """A rotation of vectors that turns one axis of the file to another."""
    if (up == wanted).all():
        return np.eye(3)
    axis = np.cross(up, wanted)
    if not axis.any():  # upside down
        return rotation_about(np.roll(np.abs(up), 1), np.pi)
    return rotation_about(axis, np.pi / 2)


def principal_axes(vertices: FloatArray, faces: IntArray, frame: int = 0) -> FloatArray:
    """A rotation whose columns are the principal axes of the surface, widest first.

    Moments are integrals over the surface, so the frame does not depend on how finely parts are meshed. In frame 0
    the first two axes point to the side on which the surface extends farther (positive third moment).
    """
    shares, middles, moment = _moments(vertices, faces)
    widest = np.linalg.eigh(moment)[1][:, :0:-1].copy()
    skew = _skew(shares, middles, widest)
    (x, y, z), (u, v, w) = (widest * np.where(skew < 0, -1.0, 1.0) * _SIGNS[frame]).T.tolist()
    return np.array([[x, u, y * w - z * v], [y, v, z * u - x * w], [z, w, x * v - y * u]])


def _moments(vertices: FloatArray, faces: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """About the center of the surface: the shares of faces in its area, their centers, and its second moments.

    Over a triangle, the integral of x xᵀ is area / 12 (sum of corner xᵢ xᵢᵀ + s sᵀ), s the sum of its corners.
    """
    shares, center = area_shares(vertices, faces)[1:]
    middles, shifted = face_centers(vertices, faces) - center, vertices - center
    of_vertices = vertex_sums(shares[:, None], faces, len(vertices))
    corners = np.einsum("vi,vj->ij", of_vertices * shifted, shifted)
    sums = np.einsum("fi,fj->ij", 9 * shares[:, None] * middles, middles)
    return shares, middles, corners + sums


def _skew(shares: FloatArray, middles: FloatArray, axes: FloatArray) -> FloatArray:
    """The third moment of the centers of faces along each axis."""
    along = middles @ axes
    return np.asarray(np.einsum("f,fi->i", shares, along * along * along))


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
    return np.asarray(np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * (k @ k))


def random_turns(n: int, axis: FloatArray | None, *, seed: int = 0) -> tuple[FloatArray, ...]:
    """n random rotations, about an axis if one is given."""
    rng = np.random.default_rng(seed)
    turns = (
        random_rotation(rng) if axis is None else rotation_about(axis, rng.uniform(0, 2 * np.pi)) for _ in range(n)
    )
    return tuple(turns)


def roundness(vertices: FloatArray, faces: IntArray) -> float:
    """The smallest over the largest extent, as roots of the second moments; about 1 for a cube or a ball."""
    least, *_, most = np.linalg.eigvalsh(_moments(vertices, faces)[2])
    return float(np.sqrt(max(least, 0.0) / most)) if most > 0 else 1.0

"""Which direction of a file points up: guessed from the shape, or from where its parts usually are."""

from __future__ import annotations

import numpy as np

from hodgeformer.mesh.geometry import face_centers, face_vectors, in_range, norms
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import UP_AXES

_BASE = 0.03  # of the height: points this near to the ground touch it
_ROUNDS = 5
_LEAST_FIT = 0.3  # the correlation with the usual heights that a direction needs
_SNAP = np.cos(np.radians(30))  # up is usually an axis of the file, even if a body bends


def up_from_shape(mesh: Mesh) -> FloatArray:
    """The first of y, z and x along which the mesh stands stably; y if there is none.

    The opposite directions are not tried: few files are upside down, but many shapes could stand upside down.
    """
    mesh = in_range(mesh)
    axes = [np.array(UP_AXES[name], dtype=np.float64) for name in "yzx"]
    double_areas = norms(face_vectors(mesh.vertices, mesh.faces))
    if not double_areas.any():
        return axes[0]
    center = double_areas / double_areas.sum() @ face_centers(mesh.vertices, mesh.faces)
    points = mesh.vertices[np.unique(mesh.faces)] - center
    return next((axis for axis in axes if _stands(points, axis)), axes[0])


def _stands(points: FloatArray, up: FloatArray) -> bool:
    """Whether the origin, the center of the mesh, is over the convex hull of the points that touch the ground."""
    from scipy.spatial import ConvexHull, QhullError

    height = points @ up
    base = points[height < height.min() + _BASE * np.ptp(height)]
    flat = base[:, np.abs(up) < 0.5]
    try:
        hull = ConvexHull(flat)
    except (QhullError, ValueError):  # too few points, or all on a line
        return False
    return bool((hull.equations[:, -1] < 0).all())


def part_centers(mesh: Mesh, labels: IntArray, n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Centers of the parts (n_classes, 3), in units of the root of the area around the center, and area shares.

    `labels` are those of the faces; labels below zero are ignored.
    """
    mesh = in_range(mesh)
    areas = norms(face_vectors(mesh.vertices, mesh.faces)) / 2
    centers = face_centers(mesh.vertices, mesh.faces)
    total = areas.sum() or 1.0
    known = labels >= 0
    shares = np.bincount(labels[known], areas[known], n_classes) / total
    sums = [np.bincount(labels[known], (areas * column)[known], n_classes) / total for column in centers.T]
    middle = areas @ centers / total
    found = np.stack(sums, axis=1) / np.where(shares > 0, shares, 1)[:, None]
    return np.where(shares[:, None] > 0, (found - middle) / np.sqrt(total), 0.0), shares


def usual_heights(centers: FloatArray, shares: FloatArray, ups: FloatArray) -> FloatArray:
    """The usual height of each part over the center, (n_classes,), over the meshes of a data set.

    `centers` (n, n_classes, 3) and `shares` (n, n_classes) are those of `part_centers`, `ups` (n, 3) a first guess.
    Meshes that lie down or are upside down are rotated to agree with the others.
    """
    for _ in range(_ROUNDS):
        heights = mean_heights(centers, shares, ups)
        each = zip(centers, shares, ups, strict=True)
        ups = np.stack([up_from_parts(at, share, heights, otherwise=up) for at, share, up in each])
    return mean_heights(centers, shares, ups)


def up_from_parts(centers: FloatArray, shares: FloatArray, heights: FloatArray, *, otherwise: FloatArray) -> FloatArray:
    """The direction along which the parts have their usual heights; `otherwise` if there is none.

    An axis of the file is used if it is near.
    """
    weights = shares / (shares.sum() or 1.0)
    offsets, wanted = centers - weights @ centers, heights - weights @ heights
    # The direction in which heights rise, not a least-squares fit: a few parts may be almost collinear.
    direction: FloatArray = (weights * wanted) @ offsets
    length = np.linalg.norm(direction)
    if length == 0:
        return otherwise
    direction = direction / length
    along = offsets @ direction
    fit = (weights @ (along * wanted)) / np.sqrt(float(weights @ along**2) * float(weights @ wanted**2) + 1e-24)
    if fit < _LEAST_FIT:
        return otherwise
    axes = np.array(list(UP_AXES.values()), dtype=np.float64)
    nearest = axes[np.argmax(axes @ direction)]
    return np.asarray(nearest if nearest @ direction > _SNAP else direction)


def mean_heights(centers: FloatArray, shares: FloatArray, ups: FloatArray) -> FloatArray:
    """The mean height of each part over the meshes that have it."""
    heights = np.einsum("nci,ni->nc", centers, ups)
    present = shares > 0
    return np.asarray((heights * present).sum(axis=0) / np.maximum(present.sum(axis=0), 1))

"""Render pictures of a mesh without a display: several shaded views side by side, with title and legend."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import uniform_filter

from hodgeformer.base.errors import ConfigError, MeshError
from hodgeformer.base.files import place, write_atomically
from hodgeformer.base.machine import for_row_ranges, thread_count
from hodgeformer.base.palette import parse_color
from hodgeformer.draw.camera import Up, View, projected, rotation, upright
from hodgeformer.draw.colormap import LOOK
from hodgeformer.draw.lettering import ColorBar, Legend, Picture, key_band, title_band
from hodgeformer.draw.raster import Floats, corner_normals, rasterize, shade
from hodgeformer.mesh.geometry import face_vectors, in_range
from hodgeformer.mesh.mesh import FloatArray, Mesh

_PLAIN = parse_color(LOOK["plain"])
_LAMPS = np.array([LOOK[lamp] for lamp in ("ambient", "key", "fill", "gloss")], dtype=np.float32)
_MARGIN = 0.05  # between views and around them, as a share of the width
_TALLEST = 0.9
_MOST_SAMPLES = 3


def render(
    mesh: Mesh,
    *,
    face_colors: ArrayLike | None = None,
    vertex_colors: ArrayLike | None = None,
    blend: bool = True,
    views: Sequence[View] | int = 4,
    width: int = 1600,
    up: Up = "auto",
    title: str = "",
    key: Legend | ColorBar | None = None,
    edges: float = 0.0,
) -> Picture:
    """Views of the mesh side by side on white, (height, width, 3) uint8.

    Colors are (n, 3) integers 0..255; those of vertices are interpolated, or for labels, with `blend` false, each pixel
    has the color of the nearest vertex. A number of `views` means equal angles around the mesh. `up` is an axis such as
    "z" or "-y", a direction, or "auto". `edges` from 0 to 1 darkens the edges of the triangles. The colors of the `key`
    are not shaded.
    """
    mesh = in_range(mesh)
    chosen = [View(20 + 360 * i / views) for i in range(views)] if isinstance(views, int) else views
    if not chosen or width < 64 * len(chosen):
        raise ConfigError(f"a picture needs a width of at least 64 for each view, got {width} for {len(chosen)} views")
    colors = _corner_colors(mesh, face_colors, vertex_colors)
    panels = _panels(mesh, chosen, width, upright(mesh, up), colors, blend, edges)
    size = max(11, round(width / 75))
    bands = [title_band(title, width, round(1.25 * size))] if title else []
    bands.append(np.concatenate(panels, axis=1))
    if key is not None:
        bands.append(key_band(key, width, size))
    return np.concatenate(bands)


def save_png(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Write a picture (height, width, 3) uint8 as PNG."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, format="PNG")
    write_atomically(place(path), stream.getvalue())


def stacked(pictures: Sequence[Picture]) -> Picture:
    """Stack pictures vertically; narrower ones are padded with white."""
    width = max(picture.shape[1] for picture in pictures)
    right = (((0, 0), (0, width - picture.shape[1]), (0, 0)) for picture in pictures)
    return np.concatenate([np.pad(*each, constant_values=255) for each in zip(pictures, right, strict=True)])


def _corner_colors(mesh: Mesh, face_colors: ArrayLike | None, vertex_colors: ArrayLike | None) -> Floats:
    if face_colors is not None and vertex_colors is not None:
        raise MeshError(f"{mesh.name}: pass face_colors or vertex_colors, not both")
    given, n = (face_colors, mesh.n_faces) if vertex_colors is None else (vertex_colors, mesh.n_vertices)
    colors = np.full((n, 3), _PLAIN) if given is None else np.asarray(given)
    if colors.shape != (n, 3):
        raise MeshError(f"{mesh.name}: colors must have shape ({n}, 3), got {colors.shape}")
    scaled = (colors / 255).astype(np.float32)
    return np.repeat(scaled[:, None], 3, axis=1) if vertex_colors is None else scaled[mesh.faces]


def _panels(
    mesh: Mesh, views: Sequence[View], width: int, front: FloatArray, colors: Floats, blend: bool, edges: float
) -> list[Picture]:
    """One picture per view with the same height and scale, each as wide as its view needs, `width` in total."""
    screens = projected(mesh, views, front)
    extents = 2 * np.abs(screens[:, np.unique(mesh.faces), :2]).max(axis=1)  # width and height in each view
    scale, height = _layout(extents, width)
    left_over = width - scale * extents[:, 0].sum()
    ends = np.round(np.cumsum(scale * extents[:, 0] + left_over / len(views))).astype(int)
    widths = np.diff(ends, prepend=0)
    samples = _MOST_SAMPLES if width * height < 4_000_000 else 2
    normals = corner_normals(mesh.vertices, mesh.faces, LOOK["crease"])
    panels: list[Picture] = [np.empty(0, dtype=np.uint8)] * len(views)

    def draw(first: int, last: int) -> None:
        for i in range(first, last):
            turned = (normals.reshape(-1, 3) @ rotation(views[i], front).T.astype(np.float32)).reshape(normals.shape)
            shape = (height, int(widths[i]))
            panels[i] = _panel(screens[i], mesh, turned, colors, shape, scale, samples, blend, edges)

    for_row_ranges(draw, len(views), n_threads=thread_count(), min_rows=1)
    return panels


def _layout(extents: FloatArray, width: int) -> tuple[float, int]:
    """Pixels per radius of the mesh, and the height: as large as the width allows, but not too tall."""
    margin = _MARGIN * width
    # A point has no size but that of rounding.
    across, tall = max(float(extents[:, 0].sum()), 1e-3), max(float(extents[:, 1].max()), 1e-3)
    scale = (width - margin * (len(extents) + 1) / 2) / across
    scale = min(scale, (_TALLEST * width / len(extents) ** 0.5 - margin) / tall)
    return scale, round(scale * tall + margin)


def _panel(
    screen: FloatArray,
    mesh: Mesh,
    normals: Floats,
    colors: Floats,
    shape: tuple[int, int],
    scale: float,
    samples: int,
    blend: bool,
    edges: float,
) -> Picture:
    height, width = shape
    points = np.empty(screen.shape, dtype=np.float32)
    points[:, 0] = (width / 2 + scale * screen[:, 0]) * samples
    points[:, 1] = (height / 2 - scale * screen[:, 1]) * samples
    points[:, 2] = screen[:, 2]
    fine = (height * samples, width * samples)
    owner = np.full(fine, -1, dtype=np.int32)
    depth = np.full(fine, -np.inf, dtype=np.float32)
    weights = np.zeros((*fine, 2), dtype=np.float32)
    rasterize(points, mesh.faces, owner, depth, weights)
    flat = points.astype(np.float64)
    flat[:, 2] = 0
    double_areas = -face_vectors(flat, mesh.faces)[:, 2]  # rows grow downward
    facing = np.where(double_areas < 0, -1, 1).astype(np.float32)
    heights = _heights(flat, mesh, np.abs(double_areas)) if edges > 0 else np.zeros((1, 3), dtype=np.float32)
    total = np.zeros((height, width, 3), dtype=np.float32)
    lit = np.zeros((height, width), dtype=np.float32)
    doublings = LOOK["gloss_doublings"]
    shade(owner, weights, normals, colors, facing, _LAMPS, doublings, heights, edges, not blend, samples, total, lit)
    covered = lit / samples**2
    middle = depth[samples // 2 :: samples, samples // 2 :: samples]
    light = _openness(middle, radius=scale)[..., None]
    squared = total / samples**2 * light**2 + (1 - covered)[..., None]
    return np.asarray(255 * np.sqrt(np.clip(squared, 0, 1)) + 0.5).astype(np.uint8)


def _heights(flat: FloatArray, mesh: Mesh, double_areas: FloatArray) -> Floats:
    """The height of each corner over the opposite side, in pixels."""
    corners = flat[mesh.faces]
    sides = np.linalg.norm(np.roll(corners, -1, axis=1) - np.roll(corners, -2, axis=1), axis=2)
    return np.asarray(double_areas[:, None] / np.maximum(sides, 1e-9), np.float32)


def _openness(nearness: Floats, radius: float) -> NDArray[np.float32]:
    """How much light reaches a pixel, at most 1: less if its surroundings are closer to the camera."""
    covered = np.isfinite(nearness)
    height = np.where(covered, nearness, 0).astype(np.float32)
    mask = covered.astype(np.float32)
    light = np.ones_like(mask)
    for reach, strength in ((0.03, 2.2), (0.10, 1.3)):
        size = 2 * max(1, round(reach * radius)) + 1
        around = _blurred(height, size) / np.maximum(_blurred(mask, size), 1e-6)
        light -= strength * np.clip(around - height - 0.004, 0, 0.15) * mask
    return np.clip(light, 0.45, 1)


def _blurred(image: Floats, size: int) -> Floats:
    """Two box filters: close to a Gaussian, at a cost that does not depend on the width."""
    return np.asarray(uniform_filter(uniform_filter(image, size, mode="constant"), size, mode="constant"))

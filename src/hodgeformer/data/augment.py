"""Random changes of training meshes that keep the labels valid: sliding vertices, warps, bent limbs, mirror images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hodgeformer.base.containers import ElementKind
from hodgeformer.base.settings import Settings
from hodgeformer.mesh.elements import edge_rows, mirrored_edge_order, selected
from hodgeformer.mesh.features import EdgeGraph
from hodgeformer.mesh.geometry import around_vertices, face_centers, norms
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import random_rotation, rotation_about
from hodgeformer.mesh.topology import unique_edges

_TIPS = 8  # ends of limbs to find
_REACH = (0.05, 0.5)  # of the largest surface distance: how much of a body moves about a joint
_JOINT = 0.5  # of that reach: the width of the belt in which the movement fades
_PARTS = 3  # that bend or grow
_FOLDS, _FOLD_LENGTHS = 6, (0.09, 0.43)  # waves of the surface along its normals, relative to the size of the body
_CUT = 0.2  # the probability of a cut


class AugmentConfig(Settings):
    """How a training mesh is changed at random, each time it is used.

    First its shape: resolution, bend, grow, swell, slide, noise, cut. Then prepare.pose applies, and in that pose
    scale, mirror, rotation and tilt.
    """

    retired: ClassVar = {
        "warp": (0,),
        "joints": (_PARTS,),
        "cut_chance": (_CUT,),
        "mirror_axis": ("x",),
        "swap": ((), []),
    }

    resolution: float = Field(
        default=1.0,
        ge=1.0,
        le=100.0,
        description="Simplify meshes that are finer than prepare.faces to that number times a random factor between "
        "1 / resolution and resolution.",
    )
    bend: float = Field(
        default=0.0, ge=0.0, le=180.0, description="Turn parts of the surface by up to this many degrees, like limbs."
    )
    grow: float = Field(
        default=0.0, ge=0.0, le=10.0, description="Enlarge or shrink parts by a factor of up to exp(grow)."
    )
    swell: float = Field(
        default=0.0,
        ge=0.0,
        le=10.0,
        description="Move the surface along its normals in waves of up to this standard deviation, in units of the "
        "size of the mesh.",
    )
    rotation: Literal["none", "so3", "axis"] = Field(
        default="so3", description="Rotate meshes not at all, by any rotation (so3), or about one axis."
    )
    axis: Literal["x", "y", "z"] = Field(default="y", description="The axis of rotation = axis.")
    tilt: float = Field(
        default=0.0, ge=0.0, le=180.0, description="Then tilt by up to this many degrees about a random axis."
    )
    slide: float = Field(
        default=0.1,
        ge=0.0,
        le=0.5,
        description="Move vertices along a random edge by up to this share of its length.",
    )
    slide_back: bool = Field(
        default=False, description="Let vertices slide in both directions of the edge, not only toward its other end."
    )
    scale: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="Scale each axis of the pose by a random factor between 1 - scale and 1 + scale.",
    )
    mirror: float = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="The probability of using the mirror image. Not for classes such as left and right.",
    )
    noise: float = Field(
        default=0.0,
        ge=0.0,
        le=10.0,
        description="Add noise of up to this standard deviation to vertices, in units of the mean edge length.",
    )
    cut: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="Cut off up to this share of the faces of every fifth mesh with a random plane.",
    )


def deformed(
    mesh: Mesh,
    target: NDArray[Any],
    config: AugmentConfig,
    rng: np.random.Generator,
    *,
    kind: ElementKind | None,
) -> tuple[Mesh, NDArray[Any]]:
    """The mesh with another shape, before it is aligned, and its target.

    Every change has its own random stream, so that one setting does not affect the random numbers of another.
    """
    stream = np.random.default_rng
    bends, _, slides, noises = _seeds_below(rng, 4)  # the second was for a change that is no longer made
    swells, cuts, grows = slides.spawn(3)
    vertices, faces = mesh.vertices, mesh.faces
    if config.bend:
        vertices = bend(vertices, faces, config.bend, _PARTS, stream(bends))
    if config.grow:
        vertices = grow(vertices, faces, config.grow, _PARTS, stream(grows))
    if config.swell:
        vertices = swell(vertices, faces, config.swell, stream(swells))
    if config.slide:
        vertices = slide_along_edges(vertices, faces, config.slide, stream(slides), back=config.slide_back)
    if config.noise:
        noise = stream(noises)
        vertices = add_noise(vertices, faces, noise.uniform(0, config.noise), noise)
    mesh = mesh.with_vertices(vertices)
    if config.cut and (cut := stream(cuts)).random() < _CUT:
        return _cut(mesh, target, beyond_plane(vertices, faces, config.cut, cut), kind)
    return mesh, target


def _seeds_below(rng: np.random.Generator, n: int) -> list[np.random.SeedSequence]:
    """The seeds of rng.spawn(n); creating a stream is slow, and most settings are zero."""
    seed: Any = rng.bit_generator.seed_seq
    return list(seed.spawn(n))


def _cut(
    mesh: Mesh, target: NDArray[Any], removed: NDArray[np.bool_], kind: ElementKind | None
) -> tuple[Mesh, NDArray[Any]]:
    """The mesh without the removed faces and their vertices."""
    faces = mesh.faces[~removed]
    used = np.unique(faces)
    number = np.full(mesh.n_vertices, -1)
    number[used] = np.arange(len(used))
    left = selected(mesh, used, number[faces], np.flatnonzero(~removed))
    if kind == "e":
        return left, target[edge_rows(mesh, used[left.topology.edges])]
    return left, target if kind is None else target[used if kind == "v" else ~removed]


def augmented(
    mesh: Mesh,
    target: NDArray[Any],
    config: AugmentConfig,
    rng: np.random.Generator,
    *,
    kind: ElementKind | None,
) -> tuple[Mesh, NDArray[Any]]:
    """The mesh scaled, mirrored and rotated, and its target; `kind` is that of the target, None for the whole mesh."""
    stream = np.random.default_rng
    scales, mirrors, turns = _seeds_below(rng, 3)
    vertices, faces = mesh.vertices, mesh.faces
    if config.scale:
        vertices = vertices * stream(scales).uniform(1 - config.scale, 1 + config.scale, 3)
    if config.mirror and stream(mirrors).random() < config.mirror:
        vertices = vertices * [-1.0, 1.0, 1.0]
        faces = faces[:, [0, 2, 1]]
        target = target[mirrored_edge_order(mesh)] if kind == "e" else target
        mesh = selected(mesh, np.arange(mesh.n_vertices), faces, np.arange(mesh.n_faces))
    vertices = vertices @ _rotation(config, stream(turns)).T
    return replace(mesh, vertices=vertices, faces=faces), target


def _rotation(config: AugmentConfig, rng: np.random.Generator) -> FloatArray:
    turn = np.eye(3)
    if config.rotation == "so3":
        turn = random_rotation(rng)
    elif config.rotation == "axis":
        turn = rotation_about(np.eye(3)["xyz".index(config.axis)], rng.uniform(0, 2 * np.pi))
    if config.tilt:
        axis = rng.standard_normal(3)
        turn = rotation_about(axis / np.linalg.norm(axis), np.radians(rng.uniform(0, config.tilt))) @ turn
    return turn


def slide_along_edges(
    vertices: FloatArray, faces: IntArray, share: float, rng: np.random.Generator, *, back: bool = False
) -> FloatArray:
    """Move each vertex toward (with `back` also away from) a random neighbor by up to `share` of the edge length."""
    order = rng.permutation(2 * faces.size)
    starts, ends = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    neighbor = np.arange(len(vertices))
    # Of several neighbors the last one stays, which is random since sides are shuffled.
    neighbor[np.concatenate([starts, ends])[order]] = np.concatenate([ends, starts])[order]
    amount = rng.uniform(-share if back else 0.0, share, (len(vertices), 1))
    return vertices + amount * (vertices[neighbor] - vertices)


def add_noise(vertices: FloatArray, faces: IntArray, deviation: float, rng: np.random.Generator) -> FloatArray:
    """Add Gaussian noise with a standard deviation in units of the mean edge length."""
    side = norms((vertices[np.roll(faces, -1, axis=1)] - vertices[faces]).reshape(-1, 3)).mean()
    moved: FloatArray = vertices + deviation * side * rng.standard_normal(vertices.shape)
    return moved


def swell(vertices: FloatArray, faces: IntArray, strength: float, rng: np.random.Generator) -> FloatArray:
    """Move the surface along its normals in waves, like muscles and clothes.

    `strength` is the largest standard deviation, relative to the size of the body.
    """
    size = float(np.linalg.norm(np.ptp(vertices, axis=0))) or 1.0
    directions = rng.standard_normal((_FOLDS, 3))
    lengths = rng.uniform(*_FOLD_LENGTHS, (_FOLDS, 1))
    waves = 2 * np.pi / (size * lengths) * directions / norms(directions)[:, None]
    folds = np.sin(vertices @ waves.T + rng.uniform(0, 2 * np.pi, _FOLDS))
    height = np.sqrt(2 / _FOLDS) * folds @ rng.standard_normal(_FOLDS)
    _, _, normals = around_vertices(vertices, faces)
    swollen: FloatArray = vertices + rng.uniform(0, strength) * size * height[:, None] * normals
    return swollen


def beyond_plane(vertices: FloatArray, faces: IntArray, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The faces that a plane in a random direction cuts off: up to `share` of them, never all."""
    along = face_centers(vertices, faces) @ rng.standard_normal(3)
    result: NDArray[np.bool_] = along > np.quantile(along, 1 - rng.uniform(0, share))
    return result


def bend(vertices: FloatArray, faces: IntArray, degrees: float, n_joints: int, rng: np.random.Generator) -> FloatArray:
    """Rotate parts about joints by up to `degrees`; the rotation fades out over the belt at the end of the part."""
    for distance in _from_tips(vertices, faces, n_joints, rng):
        reach, axis = rng.uniform(*_REACH), rng.standard_normal(3)
        angle = np.radians(rng.uniform(0, degrees))
        vertices = _with_part_moved(vertices, distance, reach, axis / np.linalg.norm(axis), angle, 1.0)
    return vertices


def grow(vertices: FloatArray, faces: IntArray, strength: float, n_parts: int, rng: np.random.Generator) -> FloatArray:
    """Enlarge or shrink parts about their joints by a factor of up to exp(strength), like those of another person."""
    for distance in _from_tips(vertices, faces, n_parts, rng):
        reach, factor = rng.uniform(*_REACH), np.exp(rng.uniform(-strength, strength))
        vertices = _with_part_moved(vertices, distance, reach, np.zeros(3), 0.0, factor)
    return vertices


def _from_tips(vertices: FloatArray, faces: IntArray, n_parts: int, rng: np.random.Generator) -> FloatArray:
    """Distances along the surface from a few ends of limbs, one row each.

    Points that are far from each other are the ends of limbs; the first is the random start of the search.
    """
    graph = EdgeGraph.from_edges(vertices, unique_edges(faces, len(vertices)))
    tips = graph.spread_points(int(rng.integers(len(vertices))), 1 + _TIPS)[1][1:]
    return tips[rng.permutation(_TIPS)[:n_parts]]


def _with_part_moved(
    vertices: FloatArray, distance: FloatArray, reach: float, axis: FloatArray, angle: float, factor: float
) -> FloatArray:
    """A part such as a hand, an arm or a tail, rotated about an axis through its joint and scaled from there.

    The part consists of the vertices within `reach` of its tip, a share of the largest distance. Its joint is the
    center of the belt at its end, in which the movement fades; nothing moves if the mesh is too coarse for a belt.
    """
    end = reach * float(distance[distance < np.inf].max(initial=0.0))
    x = np.clip((end - distance) / (_JOINT * end or 1.0), 0.0, 1.0)
    share = x * x * (3 - 2 * x)
    belt = share * (1 - share)
    if not belt.any():
        return vertices
    pivot = belt @ vertices / belt.sum()
    away, cosine, sine = vertices - pivot, np.cos(angle * share)[:, None], np.sin(angle * share)[:, None]
    turned = cosine * away + (1 - cosine) * np.outer(away @ axis, axis) + sine * np.cross(axis, away)  # Rodrigues
    moved = pivot + (1 + (factor - 1) * share)[:, None] * turned
    return np.where(share[:, None] > 0, moved, vertices)

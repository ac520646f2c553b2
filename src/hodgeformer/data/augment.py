"""Random changes of shape that leave the labels true. A mirror image turns the winding, a cut takes faces away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hodgeformer.containers import ElementKind
from hodgeformer.data.deform import add_noise, bend, beyond_plane, grow, slide_along_edges, swell, warp
from hodgeformer.errors import ConfigError
from hodgeformer.mesh.elements import file_edges, mirrored_edge_order
from hodgeformer.mesh.mesh import FloatArray, IntArray, Mesh
from hodgeformer.mesh.pose import random_rotation, rotation_about
from hodgeformer.settings import Settings

Axis = Literal["x", "y", "z"]


class AugmentConfig(Settings):
    """How a training mesh is changed, each time anew.

    A mesh that is finer than the working resolution is simplified to that times a factor in [1 / resolution,
    resolution]. Then the shape. `bend`: `joints` parts of the surface turn by up to this many degrees, as limbs do.
    `grow`: as many parts grow or shrink by up to a factor exp(grow). `warp`: space moves in long waves, standard
    deviation in sizes of the mesh. `swell`: the surface moves along its normals in waves, up to this standard deviation
    in sizes of the mesh. `slide`: vertices move along a random edge by up to this share of it, with
    `slide_back` to either side. `noise`: up to this standard deviation in mean edge lengths. `cut`: with probability
    `cut_chance` a plane takes up to this share of the faces away. Then the pose is taken, and in it: `scale`: each axis
    by a factor in [1 - scale, 1 + scale]. `mirror`: the probability of a mirror image across `mirror_axis`, `swap` the
    pairs of classes that it exchanges, such as left and right. `rotation`: none, uniform on SO(3), or any angle about
    `axis`. `tilt`: then up to this many degrees about a random axis.
    """

    resolution: float = Field(default=1.0, ge=1.0)
    bend: float = Field(default=0.0, ge=0.0, le=180.0)
    joints: int = Field(default=3, ge=1)
    grow: float = Field(default=0.0, ge=0.0)
    warp: float = Field(default=0.0, ge=0.0)
    swell: float = Field(default=0.0, ge=0.0)
    rotation: Literal["none", "so3", "axis"] = "so3"
    axis: Axis = "y"
    tilt: float = Field(default=0.0, ge=0.0, le=180.0)
    slide: float = Field(default=0.1, ge=0.0, le=0.5)
    slide_back: bool = False
    scale: float = Field(default=0.0, ge=0.0, lt=1.0)
    mirror: float = Field(default=0.0, ge=0.0, le=1.0)
    mirror_axis: Axis = "x"
    swap: tuple[tuple[str, str], ...] = ()
    noise: float = Field(default=0.0, ge=0.0)
    cut: float = Field(default=0.0, ge=0.0, lt=1.0)
    cut_chance: float = Field(default=0.2, ge=0.0, le=1.0)

    def swapped(self, classes: tuple[str, ...]) -> IntArray | None:
        """The class number that each class has in a mirror image, None where nothing changes."""
        unknown = [name for pair in self.swap for name in pair if name not in classes]
        if unknown:
            raise ConfigError(f"augment.swap names '{unknown[0]}', but the classes are {', '.join(classes)}")
        if not self.swap:
            return None
        number = np.arange(len(classes) + 1)
        number[-1] = -1  # answers for unlabelled elements
        for first, second in self.swap:
            i, j = classes.index(first), classes.index(second)
            number[[i, j]] = number[[j, i]]
        return number


def deformed(
    mesh: Mesh,
    target: NDArray[Any],
    config: AugmentConfig,
    rng: np.random.Generator,
    *,
    kind: ElementKind | None,
) -> tuple[Mesh, NDArray[Any]]:
    """The mesh in another shape, before its pose is taken, and its target.

    Every draw is made whether it is used or not, so that one setting does not change the draws of another.
    """
    bends, warps, slides, noise = rng.spawn(4)
    swells, cuts, grows = slides.spawn(3)
    vertices = mesh.vertices
    if config.bend:
        vertices = bend(vertices, mesh.faces, config.bend, config.joints, bends)
    if config.grow:
        vertices = grow(vertices, mesh.faces, config.grow, config.joints, grows)
    if config.warp:
        vertices = warp(vertices, config.warp, warps)
    if config.swell:
        vertices = swell(vertices, mesh.faces, config.swell, swells)
    if config.slide:
        vertices = slide_along_edges(vertices, mesh.faces, config.slide, slides, back=config.slide_back)
    if config.noise:
        vertices = add_noise(vertices, mesh.faces, noise.uniform(0, config.noise), noise)
    mesh = mesh.with_vertices(vertices)
    if config.cut and cuts.random() < config.cut_chance:
        return _cut(mesh, target, beyond_plane(vertices, mesh.faces, config.cut, cuts), kind)
    return mesh, target


def _cut(
    mesh: Mesh, target: NDArray[Any], removed: NDArray[np.bool_], kind: ElementKind | None
) -> tuple[Mesh, NDArray[Any]]:
    """The mesh without some faces and without the vertices that only they used."""
    faces = mesh.faces[~removed]
    used = np.unique(faces)
    number = np.full(mesh.n_vertices, -1)
    number[used] = np.arange(len(used))
    left = Mesh(mesh.vertices[used], number[faces], name=mesh.name)
    if kind == "e":
        old, new = (
            np.sort(edges, axis=1) @ [mesh.n_vertices, 1] for edges in (file_edges(mesh), used[file_edges(left)])
        )
        order = np.argsort(old)
        return left, target[order[np.searchsorted(old, new, sorter=order)]]
    return left, target if kind is None else target[used if kind == "v" else ~removed]


def augmented(
    mesh: Mesh,
    target: NDArray[Any],
    config: AugmentConfig,
    rng: np.random.Generator,
    *,
    kind: ElementKind | None,
    swapped: IntArray | None = None,
) -> tuple[Mesh, NDArray[Any]]:
    """A mesh seen otherwise and its target; `kind` is the element kind of the target, None for the whole mesh."""
    scales, mirror, turn = rng.spawn(3)
    vertices, faces = mesh.vertices, mesh.faces
    if config.scale:
        vertices = vertices * scales.uniform(1 - config.scale, 1 + config.scale, 3)
    if config.mirror and mirror.random() < config.mirror:
        vertices = vertices * np.where(np.arange(3) == "xyz".index(config.mirror_axis), -1.0, 1.0)
        faces = faces[:, [0, 2, 1]]
        target = target if swapped is None else swapped[target]
        target = target[mirrored_edge_order(mesh)] if kind == "e" else target
    vertices = vertices @ _rotation(config, turn).T
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

"""Closed meshes of any size to measure on."""

from __future__ import annotations

import numpy as np

from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.simplify import simplify


def bumpy_torus(n_vertices: int, seed: int = 0) -> Mesh:
    """A closed torus of n_vertices (a power of two), irregular, with vertices numbered at random."""
    exponent = n_vertices.bit_length() - 1
    if n_vertices != 1 << exponent or exponent < 4:
        raise ValueError(f"the torus has 2^k vertices, k at least 4, got {n_vertices}")
    rng = np.random.default_rng(seed)
    n_around, n_across = 1 << (exponent + 1) // 2, 1 << exponent // 2
    i, j = np.divmod(np.arange(n_vertices), n_across)
    angle, turn = (
        (i + rng.uniform(0, 0.4, n_vertices)) / n_around,
        (j + rng.uniform(0, 0.4, n_vertices)) / n_across,
    )
    angle, turn = 2 * np.pi * angle, 2 * np.pi * turn
    radius = 1 + (0.4 + 0.05 * np.sin(5 * angle)) * np.cos(turn)
    vertices = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0.4 * np.sin(turn)], axis=1)
    right, up = (i + 1) % n_around * n_across + j, i * n_across + (j + 1) % n_across
    corner = (i + 1) % n_around * n_across + (j + 1) % n_across
    here = np.arange(n_vertices)
    faces = np.concatenate([np.stack([here, right, corner], 1), np.stack([here, corner, up], 1)])
    number = rng.permutation(n_vertices)
    shuffled = np.empty_like(vertices)
    shuffled[number] = vertices
    return Mesh(shuffled, number[faces], name=f"torus-{n_vertices}")


def human_sized_mesh() -> Mesh:
    """A closed mesh of 752 vertices and 1,500 faces or nearly so, the size of the Human benchmark."""
    return simplify(bumpy_torus(4096), 1504).mesh

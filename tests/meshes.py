"""Small meshes made by hand, one for each kind of oddity a surface can have."""

from __future__ import annotations

import numpy as np

from hodgeformer.mesh.mesh import Mesh


def single_triangle() -> Mesh:
    return Mesh(np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.2, 0.9, 0.1]]), np.array([[0, 1, 2]]), name="triangle")


def tetrahedron() -> Mesh:
    vertices = np.array([[1.0, 1.0, 1.1], [1.0, -1.0, -1.0], [-1.0, 1.2, -1.0], [-1.0, -1.0, 1.0]])
    return Mesh(vertices, np.array([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]]), name="tetrahedron")


def icosphere(subdivisions: int = 1, name: str = "icosphere") -> Mesh:
    """A closed sphere of 20 * 4**subdivisions faces, slightly squashed so that no two coordinates tie by symmetry."""
    golden = (1 + 5**0.5) / 2
    corners = [(0, s, t * golden) for s in (-1, 1) for t in (-1, 1)]
    vertices = np.array([np.roll(corner, shift) for shift in range(3) for corner in corners], dtype=np.float64)
    near = np.linalg.norm(vertices[:, None] - vertices[None], axis=2) < 2.1
    faces = np.array(
        [(i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] and near[j, k] and near[k, i]]
    )
    vertices, faces = _unit(vertices), _outward(vertices, faces)
    for _ in range(subdivisions):
        vertices, faces = _subdivided(vertices, faces)
    return Mesh(vertices * [1.0, 0.93, 1.11] + [0.01, 0.02, 0.03] * vertices[:, [1, 2, 0]], faces, name=name)


def open_grid(rows: int = 4, columns: int = 5) -> Mesh:
    """A wavy sheet with a boundary, (rows + 1) * (columns + 1) vertices."""
    i, j = np.meshgrid(np.arange(rows + 1), np.arange(columns + 1), indexing="ij")
    height = 0.3 * np.sin(1.3 * i + 0.4) * np.cos(0.9 * j)
    vertices = np.stack([i + 0.1 * np.sin(j), j + 0.1 * np.cos(2.0 * i), height], axis=-1).reshape(-1, 3)
    corner = (i * (columns + 1) + j)[:-1, :-1].ravel()
    right, up = corner + 1, corner + columns + 1
    faces = np.concatenate([np.stack([corner, up, right], 1), np.stack([right, up, up + 1], 1)])
    return Mesh(vertices.astype(np.float64), faces, name="grid")


def non_manifold_fan(blades: int = 4) -> Mesh:
    """Triangles that all share one edge, wound without agreement."""
    angles = np.arange(blades) * 1.1
    tips = np.stack([np.cos(angles), np.sin(angles), 0.1 * angles], axis=1)
    vertices = np.concatenate([[[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]], tips])
    faces = [(0, 1, 2 + b) if b % 2 else (1, 0, 2 + b) for b in range(blades)]
    return Mesh(vertices, np.array(faces), name="fan")


def two_components() -> Mesh:
    """A sphere, a tetrahedron beside it, and one vertex that no face uses."""
    sphere, small = icosphere(1), tetrahedron()
    vertices = np.concatenate([sphere.vertices, 0.2 * small.vertices + [3.0, 0.3, 0.1], [[0.0, 4.0, 0.5]]])
    return Mesh(vertices, np.concatenate([sphere.faces, small.faces + sphere.n_vertices]), name="two components")


def duplicate_faces() -> Mesh:
    """A sheet with one face twice, the second time wound the other way."""
    grid = open_grid(2, 2)
    return Mesh(grid.vertices, np.concatenate([grid.faces, grid.faces[3:4, ::-1]]), name="duplicate faces")


def moebius_strip(segments: int = 9) -> Mesh:
    """One-sided: no winding of its faces is consistent."""
    angle = 2 * np.pi * np.arange(segments) / segments
    rims = []
    for side in (-0.4, 0.4):
        radius = 1 + side * np.cos(angle / 2)
        rims.append(np.stack([radius * np.cos(angle), radius * np.sin(angle), side * np.sin(angle / 2)], axis=1))
    lower = np.arange(segments)
    upper = lower + segments
    next_lower, next_upper = np.roll(lower, -1), np.roll(upper, -1)
    next_lower[-1], next_upper[-1] = next_upper[-1], next_lower[-1]
    faces = np.concatenate([np.stack([lower, next_lower, upper], 1), np.stack([upper, next_lower, next_upper], 1)])
    return Mesh(np.concatenate(rims), faces, name="moebius")


def all_kinds() -> list[Mesh]:
    """One of each: closed, open, non-manifold, several components, one-sided, minimal, with a face twice."""
    return [
        tetrahedron(),
        icosphere(1),
        open_grid(),
        non_manifold_fan(),
        two_components(),
        moebius_strip(),
        single_triangle(),
        duplicate_faces(),
    ]


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _outward(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    inward = np.linalg.det(vertices[faces]) < 0
    return np.where(inward[:, None], faces[:, ::-1], faces)


def _subdivided(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each face becomes four, new vertices pushed out to the sphere."""
    sides = np.sort(np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    edges, side_edges = np.unique(sides, axis=0, return_inverse=True)
    middle = side_edges.reshape(-1, 3) + len(vertices)
    a, b, c = faces.T
    ab, bc, ca = middle.T
    quarters = [np.stack(q, 1) for q in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
    return np.concatenate([vertices, _unit(vertices[edges].sum(axis=1))]), np.concatenate(quarters)

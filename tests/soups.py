"""Triangle soups made at random: everything a real file can hold, in a handful of vertices."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.topology import repeats_a_vertex


@st.composite
def soups(draw: st.DrawFn, *, coincident: bool = True) -> Mesh:
    """Few vertices, so that boundary, non-manifold edges, duplicates, flips and isolated vertices all occur.

    With `coincident`, positions come from a coarse grid, so that vertices share places and faces have no area.
    """
    n_vertices = draw(st.integers(3, 12))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    faces = rng.integers(0, n_vertices, (draw(st.integers(1, 16)), 3))
    if repeats_a_vertex(faces).all():
        faces[0] = (0, 1, 2)
    vertices = rng.integers(0, 3, (n_vertices, 3)).astype(float) if coincident else rng.normal(size=(n_vertices, 3))
    return Mesh(vertices, faces, name=f"soup {seed}")


def usable(mesh: Mesh) -> np.ndarray:
    """The faces that have a place in the complex."""
    return mesh.faces[~repeats_a_vertex(mesh.faces)]


def renumbered(mesh: Mesh, seed: int) -> tuple[Mesh, np.ndarray, np.ndarray]:
    """The same surface as another file might hold it, and what became of vertices and faces.

    `new_vertex[i]` and `new_face[i]` are the numbers of old vertex and face i.
    """
    rng = np.random.default_rng(seed)
    new_vertex, new_face = rng.permutation(mesh.n_vertices), rng.permutation(mesh.n_faces)
    vertices, faces = np.empty_like(mesh.vertices), np.empty_like(mesh.faces)
    vertices[new_vertex] = mesh.vertices
    turn = rng.integers(0, 3, mesh.n_faces)
    turned = mesh.faces[np.arange(mesh.n_faces)[:, None], (turn[:, None] + np.arange(3)) % 3]
    faces[new_face] = new_vertex[turned]
    return Mesh(vertices, faces, name=mesh.name), new_vertex, new_face


FORMS: dict[str, tuple[tuple[tuple[float, float, float], tuple[float, float, float]], ...]] = {
    "table": (((1, 1, 0.1), (0, 0, 1)), *(((0.1, 0.1, 1), (x, y, 0)) for x in (-0.8, 0.8) for y in (-0.8, 0.8))),
    "tower": tuple(((1 - 0.2 * i, 1 - 0.2 * i, 0.6), (0, 0, 1.1 * i)) for i in range(4)),
    "cross": (((2, 0.2, 0.2), (0, 0, 0)), ((0.2, 2, 0.2), (0, 0, 0)), ((0.3, 0.3, 0.8), (0, 0, -0.5))),
}
"""Half sizes and centers of the parts of each form."""


def polygon_soup(rng: np.random.Generator, form: str, most_faces: int = 88_000) -> Mesh:
    """A form as models from the web are: parts that are stuck into each other and full of faults.

    As in the Princeton Shape Benchmark, about half have edges with more than two faces, 71 % are open, 84 % come in
    several pieces, and the sizes reach from 40 to 88,000 faces.
    """
    n_faces = int(np.exp(rng.uniform(np.log(40), np.log(most_faces))))
    parts = FORMS[form]
    k = max(1, round((n_faces / 12 / len(parts)) ** 0.5))
    pieces = [_part(k, round_one=rng.random() < 0.3) for _ in parts]
    sizes = [len(vertices) for vertices, _ in pieces]
    starts = np.cumsum([0, *sizes[:-1]])
    vertices = np.concatenate(
        [v * np.array(s) * rng.uniform(0.7, 1.3, 3) + c for (v, _), (s, c) in zip(pieces, parts, strict=True)]
    )
    faces = np.concatenate([f + start for (_, f), start in zip(pieces, starts, strict=True)])
    is_open, is_manifold, is_one = rng.random() < 0.25, rng.random() < 0.6, rng.random() < 0.14
    if is_open:
        faces = faces[rng.random(len(faces)) > rng.choice([0.02, 0.2]) + 1 / len(faces)]
    if is_one:  # a strip of triangles holds the parts together
        chain = [starts[:-1], starts[:-1] + 1, starts[1:]]
        faces = np.concatenate([faces, np.stack(chain, axis=1)])
    if not is_manifold:  # fins, faces that are there twice, and such as lie on their back
        chosen = faces[rng.integers(len(faces), size=max(2, len(faces) // 50))]
        tips = len(vertices) + np.arange(len(chosen))
        vertices = np.concatenate([vertices, vertices[chosen].mean(axis=1) + rng.normal(0, 0.1, (len(chosen), 3))])
        fins = np.stack([chosen[:, 0], chosen[:, 1], tips], axis=1)
        faces = np.concatenate([faces, fins, fins[:, ::-1] if rng.random() < 0.5 else chosen])
    if rng.random() < 0.3:
        back = rng.random(len(faces)) < 0.5
        faces[back] = faces[back][:, ::-1]
    if rng.random() < 0.3:  # needles, points, and vertices that no face has
        thin = rng.integers(len(faces), size=max(1, len(faces) // 40))
        faces[thin, 2] = faces[thin, rng.integers(0, 2)]
        vertices = np.concatenate([vertices, rng.normal(size=(5, 3))])
    # As far from the origin as float32 allows: an STL file keeps four digits of the form.
    vertices = (vertices + rng.normal(size=3) * rng.choice([0, 1e3])) * 10.0 ** rng.uniform(-5, 5)
    return Mesh(vertices, rng.permutation(faces), name=form)


def _part(k: int, *, round_one: bool) -> tuple[np.ndarray, np.ndarray]:
    """A closed cube, or a ball, of 12 k^2 faces."""
    i, j = np.meshgrid(np.arange(k), np.arange(k), indexing="ij")
    corner = (i * (k + 1) + j).ravel()
    square = np.concatenate(
        [
            np.stack([corner, corner + k + 1, corner + k + 2], axis=1),
            np.stack([corner, corner + k + 2, corner + 1], axis=1),
        ]
    )
    a, b = (side.ravel() for side in np.meshgrid(*[np.linspace(-1, 1, k + 1)] * 2, indexing="ij"))
    sheets = []
    for axis in range(3):
        for sign in (1.0, -1.0):
            # In this order of the axes the two sheets of a pair look outwards.
            sheet = np.stack([a, b, np.full_like(a, sign)] if sign > 0 else [b, a, np.full_like(a, sign)], axis=1)
            sheets.append(np.roll(sheet, axis, axis=1))
    points = np.concatenate(sheets)
    faces = np.concatenate([square + s * (k + 1) ** 2 for s in range(6)])
    vertices, number = np.unique(points.round(9), axis=0, return_inverse=True)
    if round_one:
        vertices = vertices / np.linalg.norm(vertices, axis=1, keepdims=True)
    return vertices, number.reshape(-1)[faces]

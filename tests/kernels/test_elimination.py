import numpy as np
import pytest

from hodgeformer import Mesh
from hodgeformer.kernels.elimination import Elimination, Laplacian


def strip(n: int) -> Mesh:
    """A chain of n triangles."""
    k = np.arange(n + 2)
    faces = np.stack([k[:-2], k[1:-1], k[2:]], axis=1)
    return Mesh(np.stack([k // 2, k % 2, 0 * k], axis=1).astype(float), faces)


def fans(*sizes: int) -> Mesh:
    """Disks of n triangles about one hub each, in a row along their last vertices."""
    vertices, faces, first = [], [], 0
    for i, n in enumerate(sizes):
        angles = np.arange(n) * 2 * np.pi / n
        vertices += [[3 * i, 0, 0], *np.stack([3 * i + np.cos(angles), np.sin(angles), 0 * angles], axis=1).tolist()]
        ring = first + 1 + np.arange(n)
        faces += np.stack([np.full(n, first), ring, np.roll(ring, -1)], axis=1).tolist()
        first += n + 1
        faces += [[first - 2, first - 1, first + 1]] if i + 1 < len(sizes) else []
    return Mesh(np.array(vertices, dtype=float), np.array(faces))


def filled(order: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Where L has entries below its diagonal: eliminating a vertex connects all its later neighbors."""
    n = len(order)
    position = np.argsort(order)
    links = np.zeros((n, n), dtype=bool)
    links[position[edges[:, 0]], position[edges[:, 1]]] = True
    links |= links.T
    for i in range(n):
        later = np.flatnonzero(links[i, i + 1 :]) + i + 1
        links[np.ix_(later, later)] = True
    return np.tril(links, -1)


@pytest.mark.parametrize("mesh", [strip(1), strip(300), fans(3), fans(400), fans(300, 5, 400)])
def test_the_triangle_has_the_entries_of_symbolic_elimination(mesh: Mesh) -> None:
    topology = mesh.topology
    laplacian = Laplacian.from_surface(mesh.vertices, topology.faces, topology.edges, topology.face_edges)
    found = Elimination.of(laplacian)
    n = mesh.n_vertices
    assert sorted(found.order) == list(range(n))
    assert (found.order[found.position] == np.arange(n)).all()
    columns = np.repeat(np.arange(n), np.diff(found.offsets))
    triangle = np.zeros((n, n), dtype=bool)
    triangle[found.rows, columns] = True
    assert (triangle == filled(found.order, topology.edges)).all()
    assert len(found.rows) == triangle.sum()
    assert (found.rows[found.places] == np.repeat(np.arange(n), np.diff(found.row_offsets))).all()
    assert (found.columns == columns[found.places]).all()


def test_hubs_are_eliminated_last() -> None:
    mesh = fans(300, 400)
    topology = mesh.topology
    order = Elimination.of(
        Laplacian.from_surface(mesh.vertices, topology.faces, topology.edges, topology.face_edges)
    ).order
    assert set(order[-2:]) == {0, 301}

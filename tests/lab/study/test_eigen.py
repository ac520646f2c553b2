"""Eigenfunctions found by applying an operator, against the explicit operator and the textbook's sphere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import aslinearoperator, eigsh

from hodgeformer.base.errors import ConfigError
from hodgeformer.lab.study.eigen import cotangent_eigenpairs, cotangent_laplacian, eigenpairs
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PreparedMesh, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.operators import HeadOperators, head_operators
from meshes import icosphere, open_grid, two_components


def fixed_star_operators(mesh: Mesh, stars: str, updates: str = "v") -> HeadOperators:
    config = ModelConfig(
        task="segmentation", n_classes=2, blocks="H", updates=updates, d_model=8, d_hidden=8, n_heads=2, stars=stars
    )
    return head_operators(HodgeFormer(config), prepare(mesh), layer=1, head=1)


def cotangent_matrices(prepared: PreparedMesh) -> tuple[csr_array, np.ndarray]:
    """Stiffness and vertex areas written down corner by corner, in units of the mean vertex area."""
    points, faces = prepared.positions, prepared.topology.faces
    stiffness = np.zeros((len(points), len(points)))
    mass = np.zeros(len(points))
    for face in faces:
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            a, b, c = (points[face[corner]] for corner in (i, j, k))
            double_area = np.linalg.norm(np.cross(a - c, b - c))
            half_cotangent = (a - c) @ (b - c) / double_area / 2
            stiffness[face[i], face[j]] -= half_cotangent
            stiffness[face[j], face[i]] -= half_cotangent
            stiffness[face[i], face[i]] += half_cotangent
            stiffness[face[j], face[j]] += half_cotangent
            mass[face[i]] += double_area / 6
    return csr_array(stiffness), mass / mass.mean()


@pytest.mark.parametrize("mesh", [icosphere(2), open_grid(9, 8)], ids=lambda mesh: mesh.name)
def test_fixed_stars_have_the_eigenvalues_of_the_explicit_operator(mesh: Mesh) -> None:
    operators = fixed_star_operators(mesh, "galerkin")
    found = eigenpairs(operators.laplacian("v"), 10)
    stiffness, mass = cotangent_matrices(operators.prepared)
    expected = eigsh(stiffness, k=10, M=diags_array(mass).tocsc(), return_eigenvectors=False)
    np.testing.assert_allclose(found.values.real, np.sort(expected)[::-1], rtol=1e-8)
    np.testing.assert_allclose(found.values.imag, 0, atol=1e-8)
    assert found.residuals.max() < 1e-8


@pytest.mark.parametrize("kind", ["v", "e", "f"])
def test_diagonal_stars_of_every_kind_against_the_explicit_operator(kind: str) -> None:
    operators = fixed_star_operators(icosphere(2), "barycentric", updates="vef")
    topology = operators.prepared.topology
    d0, d1 = (matrix.astype(float) for matrix in (topology.d0_matrix(), topology.d1_matrix()))
    stars = operators.stars["e"]
    root0, root2 = (diags_array(np.sqrt(stars[name].diagonal())) for name in ("star0_inv", "star2"))
    root1 = diags_array(np.sqrt(stars["star1"].diagonal()))
    over1 = diags_array(np.sqrt(stars["star1_inv"].diagonal()))
    # Scaled by the square roots of the stars the operators are symmetric and keep their eigenvalues.
    explicit = {
        "v": root0 @ d0.T @ root1 @ root1 @ d0 @ root0,
        "e": root1 @ d0 @ root0 @ root0 @ d0.T @ root1 + over1 @ d1.T @ root2 @ root2 @ d1 @ over1,
        "f": root2 @ d1 @ over1 @ over1 @ d1.T @ root2,
    }[kind]
    found = eigenpairs(operators.laplacian(kind), 6)  # type: ignore[arg-type]
    expected = np.sort(eigsh(csr_array(explicit), k=6, which="LM", return_eigenvectors=False))[::-1]
    np.testing.assert_allclose(found.values.real, expected, rtol=1e-8)


def test_the_cotangent_laplacian_is_the_operator_of_the_galerkin_stars() -> None:
    operators = fixed_star_operators(icosphere(2), "galerkin")
    found = cotangent_eigenpairs(operators.prepared.topology, operators.prepared.positions, 9)
    np.testing.assert_allclose(operators.laplacian("v") @ found.functions, found.functions * found.values, atol=1e-7)
    assert found.residuals.max() < 1e-8 and (np.diff(found.values.real) > -1e-9).all()
    np.testing.assert_allclose(found.values[0], 0, atol=1e-8)


def test_vertices_without_a_face_have_no_part() -> None:
    prepared = prepare(two_components())
    _, mass = cotangent_laplacian(prepared.topology, prepared.positions)
    classical = cotangent_eigenpairs(prepared.topology, prepared.positions, 3)
    np.testing.assert_allclose(classical.values[:2], 0, atol=1e-8)  # one constant per component
    assert classical.values[2].real > 1e-3
    assert (mass == 0).sum() == 1
    np.testing.assert_array_equal(classical.functions[mass == 0], 0)


def rotations(n: int) -> csr_array:
    """2 x 2 blocks with eigenvalues a +- b i."""
    a, b = np.linspace(1, 2, n), np.linspace(3, 0.1, n)
    blocks = np.array([[a, -b], [b, a]]).transpose(2, 0, 1)
    rows = 2 * np.arange(n)[:, None, None] + np.array([[0, 0], [1, 1]])
    columns = 2 * np.arange(n)[:, None, None] + np.array([[0, 1], [0, 1]])
    return csr_array((blocks.ravel(), (rows.ravel(), columns.ravel())), shape=(2 * n, 2 * n))


@pytest.mark.parametrize("n", [6, 100])
def test_complex_pairs_come_whole_and_are_shown_once(n: int) -> None:
    found = eigenpairs(aslinearoperator(rotations(n)), 3)
    assert len(found) == 4  # three would cut the second pair
    np.testing.assert_allclose(found.values[0::2], found.values[1::2].conj())
    assert found.residuals.max() < 1e-8
    np.testing.assert_allclose(np.linalg.norm(found.functions, axis=0), 1)


def test_asking_twice_gives_the_same() -> None:
    operators = fixed_star_operators(icosphere(2), "barycentric")
    first, second = (eigenpairs(operators.laplacian("v"), 4) for _ in range(2))
    np.testing.assert_array_equal(first.functions, second.functions)


def test_no_eigenfunctions_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        eigenpairs(aslinearoperator(rotations(4)), 0)

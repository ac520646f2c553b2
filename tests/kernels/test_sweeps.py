"""Elimination in few steps solves what the triangle solves."""

from __future__ import annotations

import numpy as np
import pytest

from hodgeformer.kernels.elimination import TIMES, Elimination, Laplacian
from hodgeformer.kernels.sweeps import Sweep, sweeps
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.topology import MeshComplex
from meshes import icosphere, open_grid


def swept(x: FloatArray, sweep: Sweep) -> FloatArray:
    x = x.copy()
    for step in range(len(sweep.row_offsets) - 1):
        rows = sweep.rows[slice(*sweep.row_offsets[step : step + 2])]
        entries = slice(*sweep.entry_offsets[step : step + 2])
        assert len(np.unique(rows)) == len(rows)
        indices = sweep.indices[entries].reshape(len(rows), -1)
        values = sweep.values[entries].reshape(*indices.shape, -1)
        x[rows] += (values[..., None] * x[indices]).sum(axis=1)
    return x


@pytest.mark.parametrize("mesh", [icosphere(0), icosphere(2), open_grid(9, 4)], ids=lambda mesh: mesh.name)
def test_few_steps_solve_the_same(mesh: Mesh) -> None:
    topology = MeshComplex.from_faces(mesh.faces, mesh.n_vertices)
    laplacian = Laplacian.from_surface(mesh.vertices, topology.faces, topology.edges, topology.face_edges)
    elimination = Elimination.of(laplacian)
    values, in_order = elimination.factor(laplacian, TIMES)
    down, up = sweeps(elimination, values)
    n = mesh.n_vertices
    owner = np.repeat(np.arange(n), np.diff(laplacian.offsets))
    weights = laplacian.edge_weights[laplacian.edges]
    matrix = np.diag(np.bincount(owner, weights, n))
    matrix[owner, laplacian.neighbors] -= weights
    x = np.random.default_rng(0).normal(size=(n, len(TIMES), 3))
    pivots = np.empty_like(in_order)
    pivots[elimination.order] = in_order
    found = swept(swept(x, down) * pivots[..., None], up)
    for k, time in enumerate(TIMES):
        expected = np.linalg.solve(np.diag(laplacian.masses) + time * matrix, x[:, k])
        np.testing.assert_allclose(found[:, k], expected, atol=1e-6 * np.abs(expected).max())
    assert len(down.row_offsets) < 3 * np.sqrt(n)

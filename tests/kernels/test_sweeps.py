"""Elimination in few steps solves what the matrix says, for any stars and in single precision."""

from __future__ import annotations

import numpy as np
import pytest

from hodgeformer.kernels.elimination import Elimination, Laplacian
from hodgeformer.kernels.sweeps import MOST, Steps
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.topology import MeshComplex
from meshes import all_kinds, icosphere, open_grid


def tables(steps: Steps, s: int) -> dict[str, np.ndarray]:
    return {
        name: table[steps.lengths[name][:s].sum() : steps.lengths[name][: s + 1].sum()]
        for name, table in steps.tables.items()
    }


def solved(steps: Steps, star0: FloatArray, star1: FloatArray, x: FloatArray) -> FloatArray:
    """In the precision of the stars, by positive sums only."""
    one = star0.dtype.type(1)
    conductances = np.concatenate([star1, star0, [0 * one, one]])[steps.entries]
    x = x[steps.vertices]
    done = []
    for s, (_, b, q, removed) in enumerate(steps.shapes):
        step = tables(steps, s)
        outer = conductances[step["outer"].reshape(q, b, MOST)]
        z = np.moveaxis(conductances[step["inner"].reshape(MOST, MOST, q)], 2, 0)
        z = np.pad(z, ((0, 0), (0, 1), (0, 1)))
        z[:, :MOST, MOST] = z[:, MOST, :MOST] = outer.sum(axis=1)
        for j in range(MOST):
            pivot = z[:, j, j + 1 :].sum(axis=1)
            row = z[:, j].copy()
            row[:, j] = 1
            z[:, j], z[:, :, j] = 0, 0
            z += row[:, :, None] * row[:, None] / pivot[:, None, None]
        inverse = z[:, :MOST, :MOST]
        below = outer @ inverse
        sums = (below @ outer.swapaxes(1, 2)).ravel()
        assert len(np.unique(step["changed"])) == len(step["changed"])
        conductances = conductances[removed:]
        conductances[step["changed"]] += sums[step["sources"].reshape(-1, len(step["changed"]))].sum(axis=0)
        both = np.concatenate([inverse, below], axis=1)
        mine, x = x[: q * MOST].reshape(q, MOST, 1), x[q * MOST :]
        change = (both @ mine).ravel()
        assert len(np.unique(step["reached"])) == len(step["reached"])
        x[step["reached"]] += change[step["origins"].reshape(-1, len(step["reached"]))].sum(axis=0)
        done.append((both, mine, step["outside"].reshape(q, b, 1)))
    x = np.zeros_like(x)
    for both, mine, outside in reversed(done):
        x = np.append(both.swapaxes(1, 2) @ np.concatenate([mine, x[outside]], axis=1), x)
    return x[steps.slots]


@pytest.mark.parametrize("mesh", [*all_kinds(), icosphere(3), open_grid(9, 4)], ids=lambda mesh: mesh.name)
def test_few_steps_solve_the_same(mesh: Mesh) -> None:
    topology = MeshComplex.from_faces(mesh.faces, mesh.n_vertices)
    laplacian = Laplacian.from_surface(mesh.vertices, topology.faces, topology.edges, topology.face_edges)
    steps = Steps.of(Elimination.of(laplacian), laplacian)
    n, rng = mesh.n_vertices, np.random.default_rng(0)
    for spread in (0.0, 6.0):
        star0 = (laplacian.masses * np.exp(rng.uniform(-spread, spread, n))).astype(np.float32)
        star1 = (laplacian.edge_weights * np.exp(rng.uniform(-spread, spread, len(topology.edges)))).astype(np.float32)
        matrix = np.zeros((n, n))
        for (i, j), weight in zip(topology.edges, star1.astype(float), strict=True):
            matrix[[i, j, i, j], [i, j, j, i]] += weight * np.array([1, 1, -1, -1])
        x = rng.uniform(size=n)
        expected = np.linalg.solve(np.diag(star0.astype(float)) + matrix, x)
        found = solved(steps, star0, star1, x.astype(np.float32))
        np.testing.assert_allclose(found, expected, rtol=3e-5)
    assert len(steps.shapes) < 3 * np.sqrt(n)

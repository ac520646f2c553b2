"""The packed operators are the sparse matrices of the single meshes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import block_diag, csr_array

from hodgeformer.base.containers import KINDS
from hodgeformer.base.errors import BatchError
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import prepare
from hodgeformer.nn.pack import pack
from meshes import all_kinds, duplicate_faces


@pytest.fixture(scope="module")
def prepared():
    return [prepare(mesh) for mesh in all_kinds()]


@pytest.fixture(scope="module")
def topology(prepared):
    return pack(prepared).topology


def random(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def matrices(prepared):
    d0 = block_diag([mesh.topology.d0_matrix() for mesh in prepared]).toarray()
    d1 = block_diag([mesh.topology.d1_matrix() for mesh in prepared]).toarray()
    return torch.from_numpy(d0).double(), torch.from_numpy(d1).double()


def test_derivatives_and_adjoints_are_the_matrices(prepared, topology):
    d0, d1 = matrices(prepared)
    x_v, x_e, x_f = (random(topology.n[kind]) for kind in KINDS)
    for found, expected in (
        (topology.d0(x_v), d0 @ x_v),
        (topology.d0_t(x_e), d0.T @ x_e),
        (topology.d1(x_e), d1 @ x_e),
        (topology.d1_t(x_f), d1.T @ x_f),
    ):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_curl_of_a_gradient_is_zero(topology):
    assert topology.d1(topology.d0(random(topology.n.v))).abs().max() < 1e-12


def incidences(prepared):
    """Who touches whom, counted from the faces alone: pairs (source, target) -> 0/1 matrix (target, source)."""
    found = {}
    edge = block_diag([abs(mesh.topology.d0_matrix()) for mesh in prepared]).toarray()
    side = block_diag([abs(mesh.topology.d1_matrix()) for mesh in prepared]).toarray()
    corner = block_diag(
        [
            csr_array(
                (np.ones(3 * mesh.n.f), (np.repeat(np.arange(mesh.n.f), 3), mesh.topology.faces.ravel())),
                shape=(mesh.n.f, mesh.n.v),
            )
            for mesh in prepared
        ]
    ).toarray()
    for pair, matrix in (("ve", edge), ("vf", corner), ("ef", side)):
        found[pair], found[pair[::-1]] = torch.from_numpy(matrix), torch.from_numpy(matrix.T)
    return {pair: matrix.double() for pair, matrix in found.items()}


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_carry_averages_incident_elements(prepared, topology, source, target):
    x = random(topology.n[source])
    found = topology.carry(x, source=source, target=target)
    if source == target:
        assert found is x
        return
    matrix = incidences(prepared)[source + target]
    expected = matrix @ x / matrix.sum(1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_neighbor_mean_averages_adjacent_elements(prepared, topology, kind):
    pairs = incidences(prepared)
    through = {"v": pairs["ev"] @ pairs["ve"], "e": pairs["ve"] @ pairs["ev"], "f": pairs["ef"] @ pairs["fe"]}
    adjacent = through[kind] - torch.diag(through[kind].diagonal())
    x = random(topology.n[kind])
    expected = adjacent @ x / adjacent.sum(1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(topology.neighbor_mean(x, kind), expected, rtol=0, atol=1e-12)


def test_a_neighbor_counts_once_unless_a_face_lies_there_twice(prepared):
    pairs = incidences(prepared)
    assert (pairs["ve"] @ pairs["ev"]).fill_diagonal_(0).max() == 1
    assert (pairs["ev"] @ pairs["ve"]).fill_diagonal_(0).max() == 1
    shared = (pairs["ef"] @ pairs["fe"]).fill_diagonal_(0)
    assert sorted(set(shared.flatten().tolist())) == [0, 1, 3]
    assert (incidences([prepare(duplicate_faces())])["ef"].shape[0]) == 9


def test_a_hub_of_many_edges_costs_no_square():
    n = 20_000
    angle = 2 * np.pi * np.arange(n) / n
    rim = np.stack([np.cos(angle), np.sin(angle), 0.1 * np.sin(3 * angle)], axis=1)
    faces = np.stack([np.full(n, n), np.arange(n), (np.arange(n) + 1) % n], axis=1)
    topology = pack([prepare(Mesh(np.concatenate([rim, [[0.0, 0.0, 1.0]]]), faces))]).topology
    x = random(topology.n.e)
    mean = topology.neighbor_mean(x, "e")
    degree = topology.edge_ends.apply_t(torch.ones(topology.n.e, 1, dtype=torch.float64))
    assert degree.max() == n
    assert torch.isfinite(mean).all()


def test_offsets_say_which_mesh_an_element_belongs_to(prepared, topology):
    for kind in KINDS:
        expected = np.repeat(np.arange(len(prepared)), [mesh.n[kind] for mesh in prepared])
        np.testing.assert_array_equal(topology.mesh_of(kind).numpy(), expected)


def test_wrong_rows_are_refused_at_the_door(topology):
    with pytest.raises(BatchError, match="rows"):
        topology.d0(random(topology.n.v + 1))

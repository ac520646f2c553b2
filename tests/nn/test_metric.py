"""Classical stars against known areas, and the Galerkin star against two independent cotangent Laplacians."""

from __future__ import annotations

import igl
import numpy as np
import potpourri3d
import pytest
import torch

from hodgeformer.base.containers import KINDS
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PreparedMesh, prepare
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.pack import pack
from meshes import icosphere, moebius_strip, non_manifold_fan, open_grid, tetrahedron, two_components


def measured(mesh: Mesh) -> tuple[PreparedMesh, PackedComplex]:
    prepared = prepare(mesh)
    topology = pack([prepared]).to(dtype=torch.float64).topology
    object.__setattr__(topology, "positions", torch.from_numpy(prepared.positions))
    return prepared, topology


@pytest.mark.parametrize(
    "mesh",
    [tetrahedron(), icosphere(1), open_grid(), non_manifold_fan(), two_components(), moebius_strip()],
    ids=lambda mesh: mesh.name,
)
def test_the_galerkin_star_gives_the_cotangent_laplacian(mesh):
    prepared, topology = measured(mesh)
    columns = torch.eye(topology.n.v, dtype=torch.float64)
    stiffness = topology.d0_t(topology.metric.galerkin_star1(topology.d0(columns))).numpy()
    faces = prepared.topology.faces
    np.testing.assert_allclose(stiffness, -igl.cotmatrix(prepared.positions, faces).toarray(), atol=1e-10)
    if mesh.name != "two components":  # a vertex without faces is no input for this oracle
        oracle = potpourri3d.cotan_laplacian(prepared.positions, faces).toarray()
        np.testing.assert_allclose(stiffness, oracle, atol=1e-6)


def test_the_galerkin_star_is_symmetric_and_positive():
    _, topology = measured(open_grid())
    star = topology.metric.galerkin_star1(torch.eye(topology.n.e, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(star, star.T, atol=1e-14)
    assert np.linalg.eigvalsh(star).min() > 0


def test_areas_are_those_of_the_surface_in_units_of_the_mean_vertex_area():
    prepared, topology = measured(icosphere(2))
    metric = topology.metric
    assert float(metric.star0.sum()) == pytest.approx(prepared.n.v)
    assert float((1 / metric.star2).sum()) == pytest.approx(prepared.n.v)
    areas = igl.doublearea(prepared.positions, prepared.topology.faces) / 2
    np.testing.assert_allclose(1 / metric.star2.numpy() / prepared.n.v, areas / areas.sum(), rtol=1e-12)


def test_the_barycentric_edge_star_of_an_equilateral_pair():
    height = 3**0.5 / 2
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0.5, height, 0], [0.5, -height, 0]])
    _, topology = measured(Mesh(vertices, np.array([[0, 1, 2], [1, 0, 3]])))
    # From an edge to the center of an equilateral triangle is a third of its height, on each side that has a face.
    inner = topology.face_sides.apply_t(torch.ones(2, 1, dtype=torch.float64)).flatten() == 2
    torch.testing.assert_close(topology.metric.star1[inner], topology.metric.star1.new_tensor([2 * height / 3]))
    assert torch.allclose(topology.metric.star1[~inner], topology.metric.star1.new_tensor(height / 3))


def test_the_unit_is_taken_mesh_by_mesh():
    meshes = [prepare(icosphere(1)), prepare(open_grid())]
    together = pack(meshes).topology.metric
    for index, mesh in enumerate(meshes):
        alone, offsets = pack([mesh]).topology, pack(meshes).topology.offsets
        for kind, name in zip(KINDS, ("star0", "star1", "star2"), strict=True):
            part = getattr(together, name)[slice(*offsets[kind][index : index + 2])]
            torch.testing.assert_close(part, getattr(alone.metric, name))


def test_faces_without_area_give_zeros_and_no_nan():
    flat = Mesh(np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2], [0, 1, 3], [1, 2, 3]]))
    _, topology = measured(flat)
    metric = topology.metric
    for values in (metric.star0, metric.star1, metric.star2, metric.whitney):
        assert torch.isfinite(values).all()
    assert (metric.star2 == 0).sum() == 1

"""Packing shifts and never changes: what went in comes out, alone or in company."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hodgeformer.base.containers import KINDS, PerElement, SparsityPattern
from hodgeformer.base.errors import BatchError
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.pack import Batch, pack
from meshes import all_kinds, icosphere, open_grid, single_triangle, tetrahedron


@pytest.fixture(scope="module")
def prepared():
    return [prepare(mesh) for mesh in all_kinds()]


def tensors(batch: Batch) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    batch.map(lambda tensor: found.append(tensor) or tensor)
    return found


def test_split_undoes_pack(prepared):
    batch = pack(prepared)
    assert len(batch) == len(prepared)
    assert batch.names == tuple(mesh.name for mesh in prepared)
    for kind in KINDS:
        for part, mesh in zip(batch.split(batch.x_in[kind], kind), prepared, strict=True):
            np.testing.assert_array_equal(part.numpy(), mesh.x_in[kind])
    for part, mesh in zip(batch.split(batch.topology.positions, "v"), prepared, strict=True):
        np.testing.assert_allclose(part.numpy(), mesh.positions, atol=1e-7)


def test_patterns_are_the_block_diagonal_of_the_single_ones(prepared):
    batch = pack(prepared)
    for kind in KINDS:
        packed, row, shift = batch.topology.patterns[kind], 0, 0
        for mesh in prepared:
            for i in range(mesh.n[kind]):
                single = mesh.patterns[kind].indices[slice(*mesh.patterns[kind].offsets[i : i + 2])]
                found = packed.indices[slice(*packed.offsets[row : row + 2].tolist())]
                np.testing.assert_array_equal(found.numpy(), single + shift)
                row += 1
            shift += mesh.n[kind]
        assert row == batch.n[kind]


def test_transposes_shifted_ahead_equal_transposes_made_later(prepared):
    ahead, later = pack(prepared, transpose=True), pack([prepare(mesh) for mesh in all_kinds()])
    for kind in KINDS:
        assert "transposed" in ahead.topology.patterns[kind].__dict__
        assert "transposed" not in later.topology.patterns[kind].__dict__
        a, b = ahead.topology.patterns[kind].transposed, later.topology.patterns[kind].transposed
        for one, other in ((a.offsets, b.offsets), (a.rows, b.rows), (a.entries, b.entries)):
            assert one.dtype == other.dtype
            assert torch.equal(one, other)


def test_packing_leaves_its_input_alone(prepared):
    before = [mesh.patterns.e.indices.copy() for mesh in prepared]
    pack(prepared, transpose=True)
    for mesh, indices in zip(prepared, before, strict=True):
        np.testing.assert_array_equal(mesh.patterns.e.indices, indices)


def test_targets_per_mesh_and_per_element():
    meshes = [prepare(tetrahedron()), prepare(open_grid())]
    per_mesh = pack([mesh.with_target(np.array(i)) for i, mesh in enumerate(meshes)])
    assert per_mesh.target is not None
    assert per_mesh.target.tolist() == [0, 1]
    per_face = pack([mesh.with_target(np.arange(mesh.n.f, dtype=np.int32)) for mesh in meshes])
    assert per_face.target is not None
    assert per_face.target.dtype == torch.int64
    assert [len(part) for part in per_face.split(per_face.target, "f")] == [4, 40]
    vectors = pack([mesh.with_target(np.full((1, 3), 0.5)) for mesh in meshes])
    assert vectors.target is not None
    assert vectors.target.shape == (2, 3)
    assert vectors.target.dtype == torch.float32
    assert pack(meshes).target is None


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ((np.array(1), None), "the same form.*none"),
        ((np.array(1), np.zeros(1, dtype=np.int64)), "the same form"),
        ((np.array(1), np.array(0.5)), "the same form"),
        ((np.zeros(4, dtype=np.int64), np.zeros(41, dtype=np.int64)), "41 rows for 30 vertices"),
        ((np.zeros(6, dtype=np.int64), np.zeros(40, dtype=np.int64)), "must fit"),
    ],
)
def test_targets_that_do_not_fit_are_refused(targets, message):
    meshes = [prepare(tetrahedron()), prepare(open_grid())]
    with pytest.raises(BatchError, match=message):
        pack([mesh.with_target(target) for mesh, target in zip(meshes, targets, strict=True)])


def test_an_empty_batch_and_mixed_widths_are_refused():
    with pytest.raises(BatchError, match="at least one mesh"):
        pack([])
    fewer = prepare(open_grid(), PrepareConfig(features=("coords",)))
    with pytest.raises(BatchError, match=r"vertex features of 'grid' have 3 columns.*'tetrahedron' 7"):
        pack([prepare(tetrahedron()), fewer])


def test_an_index_outside_the_pattern_is_refused():
    mesh = prepare(single_triangle())
    broken = SparsityPattern(mesh.patterns.v.offsets, mesh.patterns.v.indices + 3)
    object.__setattr__(mesh, "patterns", PerElement(broken, mesh.patterns.e, mesh.patterns.f))
    with pytest.raises(BatchError, match="outside the pattern's 3 elements"):
        pack([mesh])


def test_split_checks_the_number_of_rows(prepared):
    with pytest.raises(BatchError, match="face"):
        pack(prepared).split(torch.zeros(3, 2), "f")


def test_to_moves_every_tensor_and_casts_the_floating_ones(prepared):
    batch = pack([mesh.with_target(np.array(1)) for mesh in prepared], transpose=True)
    packed = len(tensors(batch))
    assert batch.topology.gradient.n_in == batch.topology.face_corners.n_in == batch.n.v
    assert len(tensors(batch)) == packed + 12  # also what was computed on first use
    assert all(tensor.device.type == "meta" for tensor in tensors(batch.to("meta")))
    double = batch.to(dtype=torch.float64)
    assert double.x_in.v.dtype == double.topology.positions.dtype == torch.float64
    assert double.topology.patterns.v.indices.dtype == torch.int32
    assert double.topology.gradient.signs.dtype == double.topology.face_signs.dtype == torch.int8


def test_a_batch_survives_the_way_between_processes():
    import pickle

    batch = pack([prepare(icosphere(1)), prepare(open_grid())], transpose=True)
    again = pickle.loads(pickle.dumps(batch))
    for one, other in zip(tensors(batch), tensors(again), strict=True):
        assert torch.equal(one, other)

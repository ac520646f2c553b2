"""How a batch gets from a worker to the process that trains."""

from __future__ import annotations

import multiprocessing
import threading

import pytest
import torch

from hodgeformer.data import source
from hodgeformer.mesh.mesh import Mesh
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.pack import Batch, pack


@pytest.fixture
def batch(octahedron: Mesh, strip: Mesh) -> Batch:
    return pack([prepare(mesh, PrepareConfig(n_neighbors=3)) for mesh in (octahedron, strip)], transpose=True)


def through_a_pipe(batch: Batch) -> Batch:
    here, there = multiprocessing.Pipe()
    sending = threading.Thread(target=there.send, args=(batch,))
    sending.start()
    received: Batch = here.recv()
    sending.join()
    return source.arrived(received)


def tensors(batch: Batch) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    batch.map(lambda tensor: found.append(tensor) or tensor)
    return found


@pytest.mark.parametrize("shared", [True, False])
def test_there_and_back(batch: Batch, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shared:
        monkeypatch.setattr(source, "_HEADROOM", 1 << 60)
    packed = source.in_one_block(batch)
    if shared:
        assert len({tensor.untyped_storage().data_ptr() for tensor in tensors(packed)}) == 1
        assert all(tensor.is_shared() for tensor in tensors(packed))
    received = through_a_pipe(packed)
    assert received.names == batch.names
    for ours, theirs in zip(tensors(batch), tensors(received), strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)

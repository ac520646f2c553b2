"""Which meshes make up which batch: a function of seed and epoch alone."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from hodgeformer.data.loader import Loader, epoch_order
from hodgeformer.data.source import stream_seed


@given(st.integers(1, 200), st.integers(1, 40))
def test_batches_contain_every_mesh_once_and_are_even(n: int, size: int) -> None:
    keys = Loader(SimpleNamespace(samples=range(n), seed=1), batch_size=size).keys(2)
    assert [i for key in keys for i in key.members] == epoch_order(n, 1, 2).tolist()
    lengths = [len(key.members) for key in keys]
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1


def test_orders_differ_by_epoch_and_seed_only() -> None:
    orders = [tuple(epoch_order(50, seed, epoch).tolist()) for seed in range(3) for epoch in range(3)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len(set(orders)) == 9


def test_streams_of_one_place_differ_by_purpose() -> None:
    states = {tuple(stream_seed(purpose, 0, 1, 2).generate_state(2)) for purpose in ("order", "shape", "connections")}
    assert len(states) == 3

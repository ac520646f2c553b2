"""Which meshes make up which batch: a function of seed and epoch alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hodgeformer.data.loader import cut_batches, epoch_order
from hodgeformer.data.source import stream_seed


@given(st.integers(1, 200), st.integers(1, 40))
def test_batches_by_count_hold_everything_and_are_even(n: int, size: int) -> None:
    batches = cut_batches(range(n), size, None, [1] * n)
    assert [i for batch in batches for i in batch] == list(range(n))
    lengths = [len(batch) for batch in batches]
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1


@given(st.lists(st.integers(1, 100), min_size=1, max_size=60), st.integers(1, 300), st.integers(1, 12))
def test_batches_by_budget_hold_everything_within_it(n_faces: list[int], budget: int, size: int) -> None:
    batches = cut_batches(range(len(n_faces)), size, budget, n_faces)
    assert [i for batch in batches for i in batch] == list(range(len(n_faces)))
    for batch in batches:
        assert 1 <= len(batch) <= size
        assert len(batch) == 1 or sum(n_faces[i] for i in batch) <= budget


def test_the_last_batch_is_no_leftover() -> None:
    batches = cut_batches(range(9), 20, 80, [10] * 9)
    assert [len(batch) for batch in batches] in ([4, 5], [5, 4])


def test_orders_differ_by_epoch_and_seed_only() -> None:
    assert epoch_order(50, 1, 2) == epoch_order(50, 1, 2)
    assert sorted(epoch_order(50, 1, 2)) == list(range(50))
    assert len({tuple(epoch_order(50, seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_streams_of_one_place_differ_by_purpose() -> None:
    states = {tuple(stream_seed(purpose, 0, 1, 2).generate_state(2)) for purpose in ("order", "shape", "connections")}
    assert len(states) == 3

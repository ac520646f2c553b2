"""The compiled kernels against the reference, on memory that starts as NaN."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from hodgeformer.kernels import _numba, rows
from star_problems import Problem, largest_difference


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a kernel forgets to write stays NaN."""
    empty = torch.empty

    def poisoned(*size: object, **options: object) -> torch.Tensor:
        tensor = empty(*size, **options)  # type: ignore[call-overload]
        return tensor.fill_(torch.nan) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(torch, "empty", poisoned)


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads, also for little work."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(rows, "_THREAD_WORTH", 1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize(("d", "d_y"), [(16, 16), (32, 32), (64, 64), (24, 24), (5, 16)])
def test_equals_the_reference(d: int, d_y: int, dropout: float) -> None:
    problem = Problem.random(d=d, d_y=d_y)
    expected = problem.solve("reference", dropout=dropout, seed=7)
    found = problem.to(torch.float32).solve("numba", dropout=dropout, seed=7)
    assert largest_difference(found, expected) < 2e-6


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_recomputed_weights_equal_saved_ones(monkeypatch: pytest.MonkeyPatch, dropout: float) -> None:
    problem = Problem.random(d=16).to(torch.float32)
    saved = problem.solve("numba", dropout=dropout)
    monkeypatch.setattr(_numba, "weights_are_kept", lambda **sizes: False)
    again = problem.solve("numba", dropout=dropout)
    assert all(torch.equal(saved[name], again[name]) for name in saved)


def test_slices_of_one_projection_are_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.random(d=16).to(torch.float32)
    fused = torch.cat([problem.q, problem.k, problem.y], 1).flatten(1)
    q, k, y = (part.unflatten(1, (2, 16)) for part in fused.split(32, 1))
    assert q.stride() == (96, 16, 1)
    expected = problem.solve("numba")
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda x: pytest.fail("copied"))
    found = replace(problem, q=q, k=k, y=y).solve("numba")
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_any_other_strides_are_copied() -> None:
    problem = Problem.random(d=16).to(torch.float32)
    expected = problem.solve("numba")
    turned = {name: getattr(problem, name).permute(2, 0, 1).contiguous().permute(1, 2, 0) for name in ("q", "k", "y")}
    found = replace(problem, **turned).solve("numba")
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    summed = replace(problem, grad=torch.ones(()).expand(problem.y.shape))
    ones = replace(problem, grad=torch.ones(problem.y.shape))
    assert torch.equal(summed.solve("numba")["dk"], ones.solve("numba")["dk"])


def test_the_number_of_threads_changes_no_bit(two_threads: None) -> None:
    problem = Problem.random(n=700, longest=12, d=16).to(torch.float32)
    many = problem.solve("numba", dropout=0.2)
    torch.set_num_threads(1)
    one = problem.solve("numba", dropout=0.2)
    assert all(torch.equal(many[name], one[name]) for name in one)


def test_several_python_threads_at_once(two_threads: None) -> None:
    problems = [Problem.random(n=300, longest=12, d=16, seed=seed).to(torch.float32) for seed in range(8)]
    expected = [problem.solve("numba") for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda problem: problem.solve("numba"), problems))
    for one, other in zip(found, expected, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_large_scores_neither_overflow_nor_vanish() -> None:
    problem = Problem.random(d=16)
    extreme = replace(problem, q=40 * problem.q)
    found = extreme.to(torch.float32).solve("numba")
    assert largest_difference({"out": found["out"]}, {"out": extreme.solve("reference")["out"]}) < 1e-4


def test_nan_in_one_key_reaches_exactly_the_rows_that_read_it() -> None:
    problem = Problem.random(d=16).to(torch.float32)
    k = problem.k.clone()
    k[5] = torch.nan
    out = replace(problem, k=k).solve("numba")["out"]
    offsets, indices = problem.pattern.offsets, problem.pattern.indices
    reads = torch.tensor([5 in indices[offsets[i] : offsets[i + 1]] for i in range(len(out))])
    assert torch.equal(out.isnan().all((1, 2)), reads)
    assert torch.equal(out.isnan().any((1, 2)), reads)

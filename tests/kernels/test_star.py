"""The star as an equation: dense truth, gradients, dropout, and what the door refuses."""

from __future__ import annotations

import logging

import pytest
import torch

from hodgeformer.base.containers import SparsityPattern
from hodgeformer.base.errors import BackendUnavailable, BatchError, ConfigError
from hodgeformer.kernels import _reference
from hodgeformer.kernels.star import _announce, star_attention, star_attention_weights
from star_problems import Problem, dense_weights, largest_difference, ragged_pattern

BACKENDS = ["reference", "numba"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_equals_the_dense_masked_softmax(backend: str) -> None:
    problem = Problem.random(d=16)
    q, k, y = (x.clone().requires_grad_() for x in (problem.q, problem.k, problem.y))
    out = torch.einsum("hij,jhd->ihd", dense_weights(q, k, problem.pattern), y)
    grads = torch.autograd.grad(out, (q, k, y), problem.grad)
    expected = {"out": out.detach(), "dq": grads[0], "dk": grads[1], "dy": grads[2]}
    assert largest_difference(problem.solve(backend), expected) < 1e-12


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_signed_star_has_the_weights_times_the_cosines_of_directions(backend: str) -> None:
    problem = Problem.random(d=16).signed()
    assert problem.directions is not None
    q, k, y = (x.clone().requires_grad_() for x in (problem.q, problem.k, problem.y))
    star = dense_weights(q, k, problem.pattern) * (problem.directions @ problem.directions.T)
    out = torch.einsum("hij,jhd->ihd", star, y)
    grads = torch.autograd.grad(out, (q, k, y), problem.grad)
    expected = {"out": out.detach(), "dq": grads[0], "dk": grads[1], "dy": grads[2]}
    assert largest_difference(problem.solve(backend), expected) < 1e-12


@pytest.mark.parametrize("longest", [19, 60], ids=["weights kept", "weights computed again"])
def test_the_signs_of_the_fused_star_are_those_of_wider_values(longest: int) -> None:
    """The reference sends y_j u_j through the star; the kernel multiplies weights, also those that dropout leaves."""
    problem = Problem.random(n=70, longest=longest, d=8).signed()
    difference = largest_difference(problem.solve("numba", dropout=0.3), problem.solve("reference", dropout=0.3))
    assert difference < 1e-7  # the reference computes 1/(1 - p) in float32


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradcheck(backend: str, dropout: float) -> None:
    problem = Problem.random(n=7, longest=5, d=16)
    leaves = [x.requires_grad_() for x in (problem.q, problem.k, problem.y)]

    def run(q: torch.Tensor, k: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        pattern = problem.pattern
        return star_attention(q=q, k=k, y=y, pattern=pattern, dropout=dropout, seed=3, backend=backend)

    assert torch.autograd.gradcheck(run, leaves, fast_mode=True)


def test_the_reference_in_blocks_of_rows_equals_all_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.random()
    at_once = problem.solve("reference", dropout=0.3)
    monkeypatch.setattr(_reference, "BLOCK_ELEMENTS", 3000)
    assert len(list(_reference.row_blocks(problem.pattern, width=32))) > 5
    assert largest_difference(problem.solve("reference", dropout=0.3), at_once) < 1e-14


def test_bfloat16_sums_in_float32() -> None:
    problem = Problem.random()
    rounded = problem.to(torch.bfloat16)
    found = rounded.solve("auto")
    assert found["out"].dtype == torch.bfloat16
    assert largest_difference(found, rounded.to(torch.float64).solve("reference")) < 4e-3


def test_weights_are_the_rows_of_the_dense_operator() -> None:
    problem = Problem.random(d=8)
    weights = star_attention_weights(q=problem.q, k=problem.k, pattern=problem.pattern)
    lengths = problem.pattern.offsets.diff()
    rows = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    dense = dense_weights(problem.q, problem.k, problem.pattern)
    torch.testing.assert_close(weights, dense[:, rows, problem.pattern.indices.long()].T)


def test_dropout_removes_the_share_it_should_and_keeps_the_mean() -> None:
    """All scores equal and y = 1: every row is (number kept) / (length (1 - p))."""
    n, p = 2000, 0.3
    pattern = SparsityPattern.from_csr(torch.arange(0, 50 * n + 1, 50), torch.arange(50 * n) % n)
    zero, one = torch.zeros(n, 2, 16), torch.ones(n, 2, 16)
    out = star_attention(q=zero, k=zero, y=one, pattern=pattern, dropout=p, seed=1)
    kept = out[..., 0] * (1 - p)
    assert abs(float(kept.mean()) - (1 - p)) < 0.005
    assert abs(float(kept.var()) / (p * (1 - p) / 50) - 1) < 0.1
    other = star_attention(q=zero, k=zero, y=one, pattern=pattern, dropout=p, seed=2)
    assert not torch.equal(out, other)
    assert not torch.equal(out[:, 0], out[:, 1])


def test_an_empty_batch_has_an_empty_result() -> None:
    pattern = SparsityPattern.from_csr(torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int32))
    empty = torch.zeros(0, 2, 16)
    assert star_attention(q=empty, k=empty, y=empty, pattern=pattern).shape == (0, 2, 16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.zeros(5, 2, 8)}, r"got \(5, 2, 8\), \(6, 2, 8\) and \(6, 2, 8\)"),
        ({"y": torch.zeros(6, 3, 8)}, r"\(n, heads, d_y\)"),
        ({"k": torch.zeros(6, 2, 8, dtype=torch.float64)}, "one floating dtype"),
        ({"y": torch.zeros(6, 2, 8, device="meta")}, "one device, got cpu, meta"),
        ({"pattern": ragged_pattern(7, 3)}, "the pattern has 7 rows but q has 6"),
        ({"pattern": ragged_pattern(6, 3).map(lambda t: t.numpy())}, "pattern.map"),
        ({"pattern": ragged_pattern(6, 3).map(torch.Tensor.short)}, "int64 offsets and int32 indices"),
        ({"pattern": ragged_pattern(6, 3).map(lambda t: torch.stack([t, t], 1)[:, 0])}, "contiguous"),
        ({"dropout": 1.0}, r"\[0, 1\)"),
    ],
)
def test_the_door_names_what_does_not_fit(change: dict[str, object], message: str) -> None:
    good = {name: torch.zeros(6, 2, 8) for name in ("q", "k", "y")}
    arguments: dict[str, object] = {**good, "pattern": ragged_pattern(6, 3), **change}
    with pytest.raises(BatchError, match=message):
        star_attention(**arguments)  # type: ignore[arg-type]


def test_an_explicit_backend_never_falls_back() -> None:
    half = torch.zeros(6, 2, 8, dtype=torch.bfloat16)
    arguments = {"q": half, "k": half, "y": half, "pattern": ragged_pattern(6, 3)}
    with pytest.raises(BackendUnavailable, match=r"float32 and float64 on the cpu, got torch\.bfloat16"):
        star_attention(**arguments, backend="numba")
    with pytest.raises(BackendUnavailable, match=r"cuda device, got cpu|pip install triton"):
        star_attention(**arguments, backend="triton")
    with pytest.raises(ConfigError, match="auto, reference, numba, triton; got 'fast'"):
        star_attention(**arguments, backend="fast")  # type: ignore[arg-type]


def test_auto_says_once_what_it_chose(caplog: pytest.LogCaptureFixture) -> None:
    _announce.cache_clear()
    problem = Problem.random(d=16).to(torch.float32)
    with caplog.at_level(logging.INFO, logger="hodgeformer"):
        for _ in range(2):
            problem.solve("auto")
    assert [record.message for record in caplog.records] == ["star attention on cpu in torch.float32: backend numba"]

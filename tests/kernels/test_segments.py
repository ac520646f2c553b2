"""Per-mesh means and linear attention: each mesh as if it were alone."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import elu

from hodgeformer.base.errors import BatchError
from hodgeformer.kernels.segments import linear_attention, segment_mean

OFFSETS = [0, 3, 4, 11]


def test_means_of_slices() -> None:
    x = torch.randn(11, 2, 3, dtype=torch.float64, requires_grad=True)
    parts = [x[0:3], x[3:4], x[4:11]]
    torch.testing.assert_close(segment_mean(x, OFFSETS), torch.stack([part.mean(0) for part in parts]))
    assert torch.autograd.gradcheck(lambda x: segment_mean(x, OFFSETS), x)


def test_offsets_that_do_not_cover_the_rows() -> None:
    with pytest.raises(BatchError, match="rise from 0 to the 12 rows"):
        segment_mean(torch.zeros(12, 2), OFFSETS)
    with pytest.raises(BatchError, match="segment 1 is empty"):
        segment_mean(torch.zeros(4, 2), [0, 2, 2, 4])


def test_linear_attention_equals_its_quadratic_form() -> None:
    q, k, v = (torch.randn(11, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    out = linear_attention(q=q, k=k, v=v, offsets=OFFSETS)
    for first, last in ((0, 3), (3, 4), (4, 11)):
        part = slice(first, last)
        weights = torch.einsum("ihd,jhd->hij", elu(q[part]) + 1, elu(k[part]) + 1)
        weights = weights / weights.sum(-1, keepdim=True)
        torch.testing.assert_close(out[part], torch.einsum("hij,jhd->ihd", weights, v[part]))
    assert torch.autograd.gradcheck(lambda q, k, v: linear_attention(q=q, k=k, v=v, offsets=OFFSETS), (q, k, v))


def test_a_mesh_alone_and_in_company_is_the_same_to_the_bit() -> None:
    q, k, v = (torch.randn(300, 4, 16) for _ in range(3))
    packed = linear_attention(q=q, k=k, v=v, offsets=[0, 90, 300])
    alone = linear_attention(q=q[90:], k=k[90:], v=v[90:], offsets=[0, 210])
    assert torch.equal(packed[90:], alone)


def test_features_that_underflow_give_zero_and_no_nan() -> None:
    q = torch.full((4, 1, 8), -200.0, requires_grad=True)
    out = linear_attention(q=q, k=q, v=torch.ones(4, 1, 8), offsets=[0, 4])
    assert torch.equal(out, torch.zeros(4, 1, 8))
    assert torch.isfinite(torch.autograd.grad(1e6 * out.sum(), q)[0]).all()


def test_linear_attention_refuses_shapes_that_differ() -> None:
    with pytest.raises(BatchError, match=r"got \(4, 2, 8\), \(4, 2, 6\)"):
        linear_attention(q=torch.zeros(4, 2, 8), k=torch.zeros(4, 2, 6), v=torch.zeros(4, 2, 8), offsets=OFFSETS)

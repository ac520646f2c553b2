# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Star attention for Triton: one program for each (row, head), or (column, head) in the backward pass.

Numbers are summed in float32. Nothing is gathered to memory and nothing is added atomically.
"""

from __future__ import annotations

import triton
import triton.language as tl

from hodgeformer.kernels.star import HEAD_STEP, MIX_A, MIX_B

_MIX_A, _MIX_B, _HEAD_STEP = tl.constexpr(MIX_A), tl.constexpr(MIX_B), tl.constexpr(HEAD_STEP)
_NOT_CONSTANT = ["key", "threshold", "keep_scale", "scale"]


@triton.jit
def _mix(x):
    x = x ^ (x >> 16)
    x = x * tl.cast(_MIX_A, tl.uint32)
    x = x ^ (x >> 15)
    x = x * tl.cast(_MIX_B, tl.uint32)
    return x ^ (x >> 16)


@triton.jit
def _kept(rows, neighbors, head, key, threshold, keep_scale):
    """keep_scale where an entry stays, 0 where it is dropped: the hash of star.py."""
    entry = _mix(_mix(rows.to(tl.uint32) ^ tl.cast(key, tl.uint32)) ^ neighbors.to(tl.uint32))
    entry = _mix(entry ^ (head.to(tl.uint32) * tl.cast(_HEAD_STEP, tl.uint32)))
    return tl.where(entry >= tl.cast(threshold, tl.uint32), keep_scale, 0.0)


@triton.jit
def _load_row(base, row, step, head, columns, d: tl.constexpr):
    """One head of one row, in float32."""
    at = base + row.to(tl.int64) * step + head * d + columns
    return tl.load(at, mask=columns < d, other=0.0).to(tl.float32)


@triton.jit
def _load_rows(base, rows, step, head, columns, inside, d: tl.constexpr):
    """One head of several rows: (block, columns), in float32."""
    at = base + rows.to(tl.int64)[:, None] * step + head * d + columns[None, :]
    return tl.load(at, mask=inside[:, None] & (columns < d)[None, :], other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=_NOT_CONSTANT)
def forward(
    offsets, indices, q, q_step, k, k_step, y, y_step, out, lse, scale, key, threshold, keep_scale,
    H: tl.constexpr, D: tl.constexpr, DY: tl.constexpr, COLS: tl.constexpr, COLS_Y: tl.constexpr,
    BLOCK: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """out_i = sum(w_ij y_j) and the log-sum-exp of the scores of the row, by online softmax."""
    i, head = tl.program_id(0), tl.program_id(1)
    columns, columns_y = tl.arange(0, COLS), tl.arange(0, COLS_Y)
    mine = _load_row(q, i, q_step, head, columns, D) * scale
    begin, end = tl.load(offsets + i), tl.load(offsets + i + 1)
    top, total = -float("inf"), 0.0
    sums = tl.zeros([COLS_Y], tl.float32)
    for start in range(begin, end, BLOCK):
        t = start + tl.arange(0, BLOCK)
        inside = t < end
        near = tl.load(indices + t, mask=inside, other=0)
        scores = tl.sum(mine[None, :] * _load_rows(k, near, k_step, head, columns, inside, D), 1)
        scores = tl.where(inside, scores, -float("inf"))
        new_top = tl.maximum(top, tl.max(scores, 0))
        terms, shrink = tl.exp(scores - new_top), tl.exp(top - new_top)
        total = total * shrink + tl.sum(terms, 0)
        if DROP:
            terms *= _kept(i, near, head, key, threshold, keep_scale)
        rows = _load_rows(y, near, y_step, head, columns_y, inside, DY)
        sums = sums * shrink + tl.sum(terms[:, None] * rows, 0)
        top = new_top
    at = i.to(tl.int64) * H + head
    tl.store(out + at * DY + columns_y, (sums / total).to(out.dtype.element_ty), mask=columns_y < DY)
    tl.store(lse + at, top + tl.log(total))


@triton.jit(do_not_specialize=_NOT_CONSTANT)
def by_row(
    offsets, indices, grad, grad_step, q, q_step, k, k_step, y, y_step, out, lse, delta, dq,
    scale, key, threshold, keep_scale,
    H: tl.constexpr, D: tl.constexpr, DY: tl.constexpr, COLS: tl.constexpr, COLS_Y: tl.constexpr,
    BLOCK: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """delta_i = grad_i . out_i, ds_ij = p_ij (keep_ij grad_i . y_j - delta_i), dq_i = scale sum(ds_ij k_j)."""
    i, head = tl.program_id(0), tl.program_id(1)
    columns, columns_y = tl.arange(0, COLS), tl.arange(0, COLS_Y)
    at = i.to(tl.int64) * H + head
    mine = _load_row(q, i, q_step, head, columns, D) * scale
    g = _load_row(grad, i, grad_step, head, columns_y, DY)
    mean = tl.sum(g * _load_row(out, i, H * DY, head, columns_y, DY), 0)
    tl.store(delta + at, mean)
    log_total = tl.load(lse + at)
    begin, end = tl.load(offsets + i), tl.load(offsets + i + 1)
    sums = tl.zeros([COLS], tl.float32)
    for start in range(begin, end, BLOCK):
        t = start + tl.arange(0, BLOCK)
        inside = t < end
        near = tl.load(indices + t, mask=inside, other=0)
        keys = _load_rows(k, near, k_step, head, columns, inside, D)
        rows = _load_rows(y, near, y_step, head, columns_y, inside, DY)
        p = tl.where(inside, tl.exp(tl.sum(mine[None, :] * keys, 1) - log_total), 0.0)
        dw = tl.sum(g[None, :] * rows, 1)
        if DROP:
            dw *= _kept(i, near, head, key, threshold, keep_scale)
        sums += tl.sum((p * (dw - mean))[:, None] * keys, 0)
    tl.store(dq + at * D + columns, (sums * scale).to(dq.dtype.element_ty), mask=columns < D)


@triton.jit(do_not_specialize=_NOT_CONSTANT)
def by_column(
    offsets, rows, grad, grad_step, q, q_step, k, k_step, y, y_step, lse, delta, dk, dy,
    scale, key, threshold, keep_scale,
    H: tl.constexpr, D: tl.constexpr, DY: tl.constexpr, COLS: tl.constexpr, COLS_Y: tl.constexpr,
    BLOCK: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """dk_j = scale sum(ds_ij q_i) and dy_j = sum(w_ij grad_i), over the rows i that look at j."""
    j, head = tl.program_id(0), tl.program_id(1)
    columns, columns_y = tl.arange(0, COLS), tl.arange(0, COLS_Y)
    mine = _load_row(k, j, k_step, head, columns, D) * scale
    mine_y = _load_row(y, j, y_step, head, columns_y, DY)
    begin, end = tl.load(offsets + j), tl.load(offsets + j + 1)
    sums, sums_y = tl.zeros([COLS], tl.float32), tl.zeros([COLS_Y], tl.float32)
    for start in range(begin, end, BLOCK):
        t = start + tl.arange(0, BLOCK)
        inside = t < end
        near = tl.load(rows + t, mask=inside, other=0)
        queries = _load_rows(q, near, q_step, head, columns, inside, D)
        g = _load_rows(grad, near, grad_step, head, columns_y, inside, DY)
        at = near.to(tl.int64) * H + head
        log_total = tl.load(lse + at, mask=inside, other=0.0)
        p = tl.where(inside, tl.exp(tl.sum(mine[None, :] * queries, 1) - log_total), 0.0)
        w, dw = p, tl.sum(mine_y[None, :] * g, 1)
        if DROP:
            kept = _kept(near, j, head, key, threshold, keep_scale)
            w, dw = p * kept, dw * kept
        ds = p * (dw - tl.load(delta + at, mask=inside, other=0.0))
        sums += tl.sum(ds[:, None] * queries, 0)
        sums_y += tl.sum(w[:, None] * g, 0)
    at = j.to(tl.int64) * H + head
    tl.store(dk + at * D + columns, (sums * scale).to(dk.dtype.element_ty), mask=columns < D)
    tl.store(dy + at * DY + columns_y, sums_y.to(dy.dtype.element_ty), mask=columns_y < DY)

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, var-annotated, no-any-return"
"""The three compiled loops of star attention, one set per head width and precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, types

from hodgeformer.ops._numba_softmax import drop_negative, negate_dropped, softmax_terms
from hodgeformer.ops._rows import GROUP, dot_rows, fetch_int, fetch_real, put_real, sum_rows

INT, REAL = types.int64, types.float64


@dataclass(frozen=True, slots=True)
class Kernels:
    """Each takes a range of rows (or columns), then addresses, byte steps and numbers; see _numba.py."""

    forward: Callable[..., None]
    by_row: Callable[..., None]
    by_column: Callable[..., None]


@lru_cache
def kernels(d: int, d_y: int, bits: int) -> Kernels:
    return Kernels(_forward(d, d_y, bits), _by_row(d, d_y, bits), _by_column(d, d_y, bits))


def _compiled(*signature: Any) -> Callable[..., Any]:
    flags = {"reassoc", "contract"}
    return njit(types.void(*signature), nogil=True, cache=True, error_model="numpy", fastmath=flags)


def _forward(d: int, d_y: int, bits: int) -> Callable[..., None]:
    real = np.float32 if bits == 32 else np.float64
    size = bits // 8

    @_compiled(*[INT] * 15, REAL, INT, INT, REAL)
    def forward(
        first, last, offsets, indices, q, q_step, k, k_step, y, y_step, out, out_step,
        weights, first_head, last_head, scale, key, threshold, keep_scale,
    ):  # fmt: skip
        """out_i = sum(w_ij y_j) and, where asked for, the weights; a dropped weight is stored negative."""
        longest = _longest(first, last, offsets)
        terms, near = np.empty(longest, real), np.empty(longest, np.int32)
        at_terms, at_near, n_heads = terms.ctypes.data, near.ctypes.data, last_head - first_head
        for i in range(first, last):
            begin = fetch_int(offsets, i, 64)
            count = fetch_int(offsets, i + 1, 64) - begin
            padded = _copy_padded(indices, begin, count, near)
            for head in range(first_head, last_head):
                x, rows = q + i * q_step + head * d * size, k + head * d * size
                dot_rows(x, scale, rows, k_step, at_near, padded, at_terms, d, bits)
                factor = 1.0 / softmax_terms(terms, count, padded)
                if threshold > 0:
                    negate_dropped(terms, near, count, i, head, key, threshold)
                if weights != 0:
                    place = begin * n_heads + head - first_head
                    for t in range(count):
                        put_real(weights, place + t * n_heads, terms[t] * real(factor))
                if out != 0:
                    if threshold > 0:
                        drop_negative(terms, padded)
                        factor *= keep_scale
                    rows, to = y + head * d_y * size, out + i * out_step + head * d_y * size
                    sum_rows(at_terms, at_near, padded, rows, y_step, factor, to, d_y, bits)

    return forward


def _by_row(d: int, d_y: int, bits: int) -> Callable[..., None]:
    real = np.float32 if bits == 32 else np.float64
    size = bits // 8

    @_compiled(*[INT] * 16, REAL, REAL)
    def by_row(
        first, last, offsets, indices, grad, grad_step, k, k_step, y, y_step, dq, dq_step,
        weights, ds, first_head, last_head, scale, keep_scale,
    ):  # fmt: skip
        """dw_ij = grad_i . y_j, ds_ij = w_ij dw_ij - p_ij sum(w dw), dq_i = scale sum(ds_ij k_j)."""
        longest = _longest(first, last, offsets)
        terms, near, p = np.empty(longest, real), np.empty(longest, np.int32), np.empty(longest, real)
        at_terms, at_near, n_heads = terms.ctypes.data, near.ctypes.data, last_head - first_head
        for i in range(first, last):
            begin = fetch_int(offsets, i, 64)
            count = fetch_int(offsets, i + 1, 64) - begin
            padded = _copy_padded(indices, begin, count, near)
            for head in range(first_head, last_head):
                x, rows = grad + i * grad_step + head * d_y * size, y + head * d_y * size
                dot_rows(x, keep_scale, rows, y_step, at_near, padded, at_terms, d_y, bits)
                place = begin * n_heads + head - first_head
                for t in range(count):
                    p[t] = fetch_real(weights, place + t * n_heads, bits)
                mean = real(0)
                for t in range(count):
                    terms[t] *= max(p[t], real(0))
                    mean += terms[t]
                for t in range(count):
                    terms[t] -= abs(p[t]) * mean
                for t in range(count):
                    put_real(ds, place + t * n_heads, terms[t])
                for t in range(count, padded):
                    terms[t] = real(0)
                rows, to = k + head * d * size, dq + i * dq_step + head * d * size
                sum_rows(at_terms, at_near, padded, rows, k_step, scale, to, d, bits)

    return by_row


def _by_column(d: int, d_y: int, bits: int) -> Callable[..., None]:
    real = np.float32 if bits == 32 else np.float64
    size = bits // 8

    @_compiled(*[INT] * 17, REAL, REAL)
    def by_column(
        first, last, offsets, rows, entries, grad, grad_step, q, q_step, dk, dk_step, dy, dy_step,
        weights, ds, first_head, last_head, scale, keep_scale,
    ):  # fmt: skip
        """dk_j = scale sum(ds_ij q_i) and dy_j = sum(w_ij grad_i), over the rows i that look at j."""
        longest, n_heads = _longest(first, last, offsets), last_head - first_head
        near, p, s = np.empty(longest, np.int32), np.empty((n_heads, longest), real), np.empty((n_heads, longest), real)
        at_near, at_p, at_s = near.ctypes.data, p.ctypes.data, s.ctypes.data
        for j in range(first, last):
            begin = fetch_int(offsets, j, 64)
            count = fetch_int(offsets, j + 1, 64) - begin
            padded = _copy_padded(rows, begin, count, near)
            for t in range(count):
                place = fetch_int(entries, begin + t, 64) * n_heads
                for head in range(n_heads):
                    p[head, t] = max(fetch_real(weights, place + head, bits), real(0))
                    s[head, t] = fetch_real(ds, place + head, bits)
            p[:, count:padded] = real(0)
            s[:, count:padded] = real(0)
            for head in range(n_heads):
                column, column_y = (first_head + head) * d * size, (first_head + head) * d_y * size
                terms, to = at_s + head * longest * size, dk + j * dk_step + column
                sum_rows(terms, at_near, padded, q + column, q_step, scale, to, d, bits)
                terms, to = at_p + head * longest * size, dy + j * dy_step + column_y
                sum_rows(terms, at_near, padded, grad + column_y, grad_step, keep_scale, to, d_y, bits)

    return by_column


@njit
def _longest(first, last, offsets):
    """Room for the longest row of a range, padded to whole groups."""
    longest = 0
    for i in range(first, last):
        longest = max(longest, fetch_int(offsets, i + 1, 64) - fetch_int(offsets, i, 64))
    return longest + GROUP


@njit
def _copy_padded(indices, begin, count, near):
    """The indices of one row, the last one repeated up to a whole group; returns the padded count."""
    for t in range(count):
        near[t] = fetch_int(indices, begin + t, 32)
    padded = (count + GROUP - 1) // GROUP * GROUP
    for t in range(count, padded):
        near[t] = near[count - 1]
    return padded

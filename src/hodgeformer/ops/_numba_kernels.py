# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, var-annotated, no-any-return"
"""The three compiled loops of star attention, one set per head width, number of heads and precision.

Weights and ds are stored (entry, head), so that a column finds all heads of an entry in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, types

from hodgeformer.ops._numba_ir import GROUP, dot_rows, fetch_int, heads_first, heads_last, put_real, sum_rows
from hodgeformer.ops._numba_terms import negate_dropped, softmax_gradient, softmax_terms

INT, REAL = types.int64, types.float64


@dataclass(frozen=True, slots=True)
class Kernels:
    """Each takes a range of rows (or columns), then addresses, byte steps and numbers; see _numba.py."""

    forward: Callable[..., None]
    by_row: Callable[..., None]
    by_column: Callable[..., None]


@lru_cache
def kernels(d: int, d_y: int, n_heads: int, bits: int) -> Kernels:
    """Compiled on first use, or read from numba's cache on disk."""
    shape = (d, d_y, n_heads, bits)
    return Kernels(_forward(*shape), _by_row(*shape), _by_column(*shape))


def _compiled(*signature: Any) -> Callable[..., Any]:
    return njit(types.void(*signature), nogil=True, cache=True, error_model="numpy")


def _forward(d: int, d_y: int, n_heads: int, bits: int) -> Callable[..., None]:
    real = np.float32 if bits == 32 else np.float64
    size = bits // 8

    @_compiled(*[INT] * 14, REAL, INT, INT, REAL)
    def forward(
        first, last, offsets, indices, q, q_step, k, k_step, y, y_step, out, out_step,
        weights, first_head, scale, key, threshold, keep_scale,
    ):  # fmt: skip
        """out_i = sum(w_ij y_j) and, where asked for, the weights; a dropped weight is stored negative."""
        room = _longest(first, last, offsets)
        terms, near, factors = np.empty(n_heads * room, real), np.empty(room, np.int32), np.empty(n_heads, real)
        at_terms, at_near = terms.ctypes.data, near.ctypes.data
        for i in range(first, last):
            begin = fetch_int(offsets, i, 64)
            count = fetch_int(offsets, i + 1, 64) - begin
            padded = _copy_padded(indices, begin, count, near)
            for head in range(n_heads):
                column = (first_head + head) * d * size
                dot_rows(q + i * q_step + column, scale, k + column, k_step, at_near, padded,
                         at_terms + head * room * size, d, bits)  # fmt: skip
            for head in range(n_heads):
                at = at_terms + head * room * size
                factors[head] = real(1.0) / softmax_terms(at, count, padded, bits)
                if threshold > 0:
                    negate_dropped(at, at_near, padded, i, first_head + head, key, threshold, bits)
            if weights != 0:
                _write_heads_last(terms, room, factors, count, weights + begin * n_heads * size, n_heads, bits)
            if out != 0:
                for head in range(n_heads):
                    at, column = at_terms + head * room * size, (first_head + head) * d_y * size
                    to, factor = out + i * out_step + column, factors[head] * keep_scale
                    sum_rows(at, 0, 0, at_near, count, y + column, y_step, factor, to, d_y, bits, 1)

    return forward


def _by_row(d: int, d_y: int, n_heads: int, bits: int) -> Callable[..., None]:
    real = np.float32 if bits == 32 else np.float64
    size = bits // 8

    @_compiled(*[INT] * 15, REAL, REAL)
    def by_row(
        first, last, offsets, indices, grad, grad_step, k, k_step, y, y_step, dq, dq_step,
        weights, ds, first_head, scale, keep_scale,
    ):  # fmt: skip
        """dw_ij = grad_i . y_j, ds_ij = w_ij dw_ij - p_ij sum(w dw), dq_i = scale sum(ds_ij k_j)."""
        room = _longest(first, last, offsets)
        terms, p, near = np.empty(n_heads * room, real), np.empty(n_heads * room, real), np.empty(room, np.int32)
        at_terms, at_p, at_near, ones = terms.ctypes.data, p.ctypes.data, near.ctypes.data, np.ones(n_heads, real)
        for i in range(first, last):
            begin = fetch_int(offsets, i, 64)
            count = fetch_int(offsets, i + 1, 64) - begin
            padded = _copy_padded(indices, begin, count, near)
            for head in range(n_heads):
                column = (first_head + head) * d_y * size
                dot_rows(grad + i * grad_step + column, keep_scale, y + column, y_step, at_near, padded,
                         at_terms + head * room * size, d_y, bits)  # fmt: skip
            heads_first(weights + begin * n_heads * size, padded, at_p, room, n_heads, bits)
            for head in range(n_heads):
                at = head * room * size
                softmax_gradient(at_terms + at, at_p + at, count, padded, bits)
            _write_heads_last(terms, room, ones, count, ds + begin * n_heads * size, n_heads, bits)
            for head in range(n_heads):
                at, column = at_terms + head * room * size, (first_head + head) * d * size
                to = dq + i * dq_step + column
                sum_rows(at, 0, 0, at_near, count, k + column, k_step, scale, to, d, bits, 0)

    return by_row


def _by_column(d: int, d_y: int, n_heads: int, bits: int) -> Callable[..., None]:
    size = bits // 8

    @_compiled(*[INT] * 16, REAL, REAL)
    def by_column(
        first, last, offsets, rows, entries, grad, grad_step, q, q_step, dk, dk_step, dy, dy_step,
        weights, ds, first_head, scale, keep_scale,
    ):  # fmt: skip
        """dk_j = scale sum(ds_ij q_i) and dy_j = sum(w_ij grad_i), over the rows i that look at j."""
        for j in range(first, last):
            begin = fetch_int(offsets, j, 64)
            count = fetch_int(offsets, j + 1, 64) - begin
            near, places = rows + 4 * begin, entries + 8 * begin
            for head in range(n_heads):
                column, at = (first_head + head) * d * size, ds + head * size
                to = dk + j * dk_step + column
                sum_rows(at, places, n_heads, near, count, q + column, q_step, scale, to, d, bits, 0)
            for head in range(n_heads):
                column, at = (first_head + head) * d_y * size, weights + head * size
                to = dy + j * dy_step + column
                sum_rows(at, places, n_heads, near, count, grad + column, grad_step, keep_scale, to, d_y, bits, 1)

    return by_column


@njit
def _longest(first, last, offsets):
    """Room for the longest row of a range, padded to whole groups."""
    longest = 0
    for i in range(first, last):
        longest = max(longest, fetch_int(offsets, i + 1, 64) - fetch_int(offsets, i, 64))
    return (longest + GROUP - 1) // GROUP * GROUP


@njit
def _copy_padded(indices, begin, count, near):
    """The indices of one row, the last one repeated up to a whole group; returns the padded count."""
    for t in range(count):
        near[t] = fetch_int(indices, begin + t, 32)
    padded = (count + GROUP - 1) // GROUP * GROUP
    for t in range(count, padded):
        near[t] = near[count - 1]
    return padded


@njit
def _write_heads_last(terms, room, factors, count, out, n_heads, bits):
    """The terms of one row where its entries are kept; the last, partial group number by number."""
    whole = count // GROUP * GROUP
    heads_last(terms.ctypes.data, room, factors.ctypes.data, whole, out, n_heads, bits)
    for t in range(whole, count):
        for head in range(n_heads):
            put_real(out, t * n_heads + head, terms[head * room + t] * factors[head])

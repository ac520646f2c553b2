# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, var-annotated, misc"
"""The small steps between the two loops over neighbors: exponentials and dropout of one row."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types
from numba.extending import overload

from hodgeformer.ops._dropout import HEAD_STEP, MIX_A, MIX_B

_A, _B, _HEAD = np.uint32(MIX_A), np.uint32(MIX_B), np.uint32(HEAD_STEP)
_LOG2_E, _LN2_HIGH, _LN2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
_LOWEST = np.float32(-87.0)
_C2, _C3, _C4 = np.float32(0.4999999940), np.float32(0.1666666716), np.float32(0.0416695364)
_C5, _C6, _ONE = np.float32(0.0083344241), np.float32(0.0013930436), np.float32(1.0)


def exponential(x: float) -> float:
    """exp(x) for x <= 0. In float32 a polynomial without branches, which LLVM vectorizes; NaN stays NaN."""
    return math.exp(x)


@overload(exponential, jit_options={"fastmath": False})
def _overload_exponential(x):
    return _exponential_float32 if x == types.float32 else _exponential_float64


def _exponential_float64(x):
    return math.exp(x)


def _exponential_float32(x):
    x = _LOWEST if x < _LOWEST else x
    n = np.rint(x * _LOG2_E)
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    tail = _C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * _C6)))
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return (_ONE + r + r * r * tail) * power


@njit(fastmath={"reassoc", "contract"}, error_model="numpy")
def softmax_terms(terms, count, padded):
    """terms <- exp(terms - max) with zeros in the padding; returns their sum. The padding repeats a term."""
    top = terms[0]
    for t in range(padded):
        top = max(top, terms[t])
    total = terms.dtype.type(0)
    for t in range(count):
        terms[t] = exponential(terms[t] - top)
        total += terms[t]
    for t in range(count, padded):
        terms[t] = 0
    return total


@njit
def negate_dropped(terms, near, count, row, head, key, threshold):
    """The sign says what dropout removes, so that one number per entry serves the backward pass."""
    row_key = _mix(np.uint32(key) ^ np.uint32(row))
    head_key, bound = np.uint32(np.uint32(head) * _HEAD), np.uint32(threshold)
    for t in range(count):
        if _mix(_mix(row_key ^ np.uint32(near[t])) ^ head_key) < bound:
            terms[t] = -terms[t]


@njit
def drop_negative(terms, count):
    for t in range(count):
        terms[t] = max(terms[t], terms.dtype.type(0))


@njit
def _mix(x):
    x = np.uint32(x)
    x ^= x >> np.uint32(16)
    x = np.uint32(x * _A)
    x ^= x >> np.uint32(15)
    x = np.uint32(x * _B)
    return np.uint32(x ^ (x >> np.uint32(16)))

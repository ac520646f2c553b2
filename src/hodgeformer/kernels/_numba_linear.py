# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Matrix products in float32 as vector code, for processors whose long vectors PyTorch's library does not use.

A tile of the result, 12 rows of two vectors, stays in registers while the rows of b are read and multiplied by numbers
of a. The layers of a model are narrow, so b fits into the cache and nothing is copied or packed. A transposed matrix
only has other steps. Every number of the result is a sum in the order of the inner dimension, independent of the number
of rows and threads and of the position of a row.
"""

from __future__ import annotations

from functools import lru_cache

from llvmlite import binding, ir

from hodgeformer.base.compiled import njit
from hodgeformer.kernels._numba_ir import I64, load, loop, multiply_add, splat, store, vector_code

LANES = 16
"""Numbers of a vector: the columns of b and of the result are a multiple of it."""
TILE_ROWS = 12
"""With two vectors each, these sums, a row of b and a number of a take 27 of 32 registers."""
_ROWS_AT_ONCE, _DEPTH_AT_ONCE = 8 * TILE_ROWS, 512  # of a and b, which then stay in the second-level cache
_WITH_LONG_VECTORS = 5  # the generation of Zen; the one before has them too, but splits each in two
_FLOAT = ir.FloatType()
_VECTOR = ir.VectorType(_FLOAT, LANES)
_PAIR = 2 * LANES


@lru_cache
def faster_than_torch() -> bool:
    """Whether this processor multiplies long vectors at full speed and MKL does not use them: AMD, from Zen 5 on."""
    maker, _, generation = binding.get_host_cpu_name().partition("znver")
    return maker == "" and generation.isdigit() and int(generation) >= _WITH_LONG_VECTORS


@vector_code
def _tile(builder, a, a_row, a_step, b, b_step, start, start_row, out, out_row, depth, rows, parts):
    """out = start + the sum over k < depth of a[:, k] b[k], for `rows` rows of `parts` vectors; steps in bytes."""

    def at(base, step, number):
        return builder.add(base, builder.mul(step, I64(number)))

    def vectors(address):
        return [load(builder, address, I64(part * LANES), _VECTOR) for part in range(parts)]

    lefts = [at(a, a_row, row) for row in range(rows)]

    def body(k, sums):
        along, right = builder.mul(a_step, k), vectors(builder.add(b, builder.mul(b_step, k)))
        numbers = [load(builder, builder.add(left, along), I64(0), _FLOAT) for left in lefts]
        terms = [(splat(builder, number, LANES), vector) for number in numbers for vector in right]
        return [multiply_add(builder, *term, total) for term, total in zip(terms, sums, strict=True)]

    begin = [vector for row in range(rows) for vector in vectors(at(start, start_row, row))]
    sums = loop(builder, (I64(0), depth), 1, begin, body)
    for row in range(rows):
        for part in range(parts):
            store(builder, sums[row * parts + part], at(out, out_row, row), I64(part * LANES))


@njit(inline="always")
def _column_of_tiles(first, last, a, a_row, a_step, b, b_step, start, start_row, out, out_row, depth, parts):
    i = first
    while i + TILE_ROWS <= last:
        _tile(a + i * a_row, a_row, a_step, b, b_step, start + i * start_row, start_row, out + i * out_row, out_row,
              depth, TILE_ROWS, parts)  # fmt: skip
        i += TILE_ROWS
    while i + 4 <= last:
        _tile(a + i * a_row, a_row, a_step, b, b_step, start + i * start_row, start_row, out + i * out_row, out_row,
              depth, 4, parts)  # fmt: skip
        i += 4
    while i < last:
        _tile(a + i * a_row, a_row, a_step, b, b_step, start + i * start_row, start_row, out + i * out_row, out_row,
              depth, 1, parts)  # fmt: skip
        i += 1


@njit(nogil=True, cache=True, error_model="numpy")
def multiply(first, last, n_rows, n_columns, n_inner, a, a_row, a_step, b, b_step, start, start_row, out, out_row):
    """out = start + a b for the tiles first:last of rows; addresses, and steps in bytes."""
    for k in range(0, n_inner, _DEPTH_AT_ONCE):
        depth = min(_DEPTH_AT_ONCE, n_inner - k)
        for top in range(first * TILE_ROWS, min(last * TILE_ROWS, n_rows), _ROWS_AT_ONCE):
            bottom = min(top + _ROWS_AT_ONCE, last * TILE_ROWS, n_rows)
            for column in range(0, n_columns, _PAIR):
                left, right, shift = a + k * a_step, b + k * b_step + 4 * column, 4 * column
                if column + _PAIR <= n_columns:
                    _column_of_tiles(top, bottom, left, a_row, a_step, right, b_step, start + shift, start_row,
                                     out + shift, out_row, depth, 2)  # fmt: skip
                else:
                    _column_of_tiles(top, bottom, left, a_row, a_step, right, b_step, start + shift, start_row,
                                     out + shift, out_row, depth, 1)  # fmt: skip
        start, start_row = out, out_row

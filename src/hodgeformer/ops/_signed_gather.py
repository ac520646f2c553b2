"""out_i = sum over t in row i of sign_t x[index_t]: compiled on the CPU, plain PyTorch elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from hodgeformer.threads import for_row_ranges


def signed_gather(x: Tensor, *, offsets: Tensor, indices: Tensor, signs: Tensor) -> Tensor:
    """Rows of x added and subtracted in the order of the CSR arrays."""
    out = torch.empty(len(offsets) - 1, *x.shape[1:], dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    if x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and x.numel():
        arrays = [t.detach().numpy() for t in (offsets, indices, signs)]
        source, step = _flat(x.detach())
        kernel, target = _kernel(8 * x.element_size()), out.reshape(len(out), -1).numpy()
        for_row_ranges(
            lambda first, last: kernel(first, last, *arrays, source, step, target),
            len(out),
            n_threads=torch.get_num_threads(),
        )
        return out
    lengths = offsets[1:] - offsets[:-1]
    rows = torch.repeat_interleave(torch.arange(len(out), device=x.device), lengths, output_size=len(indices))
    shape = (-1, *[1] * (x.ndim - 1))
    return out.zero_().index_add_(0, rows, x[indices.long()] * signs.to(x.dtype).view(shape))


def _flat(x: Tensor) -> tuple[NDArray[Any], int]:
    """The memory from the first to the last number of x, and the step between rows; a copy only if it must be."""
    rows = x.reshape(len(x), -1)
    n, width = rows.shape
    if rows.stride(1) != 1 and width > 1:
        rows = rows.contiguous()
    step = rows.stride(0)
    return rows.as_strided(((n - 1) * step + width,), (1,)).numpy(), step


@lru_cache
def _kernel(bits: int) -> Callable[..., None]:
    from numba import njit, types

    real = types.float32 if bits == 32 else types.float64
    lists = (types.int64[::1], types.int32[::1], types.int8[::1])
    signature = types.void(types.int64, types.int64, *lists, real[::1], types.int64, real[:, ::1])
    compiled: Any = njit(signature, nogil=True, cache=True)(_add_rows)
    return compiled  # type: ignore[no-any-return]


def _add_rows(first, last, offsets, indices, signs, x, step, out):  # type: ignore[no-untyped-def]
    width = out.shape[1]
    for i in range(first, last):
        row, begin, end = out[i], offsets[i], offsets[i + 1]
        if begin == end:
            row[:] = 0
        for t in range(begin, end):
            at = indices[t] * step
            other, sign = x[at : at + width], row.dtype.type(signs[t])
            if t == begin:
                for c in range(width):
                    row[c] = sign * other[c]
            else:
                for c in range(width):
                    row[c] += sign * other[c]

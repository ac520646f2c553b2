"""Compiled loops over the rows of tensors: where they can run, and how."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor

from hodgeformer.threads import for_row_ranges


class TensorFunction(torch.autograd.Function):
    """An operation with a derivative of its own and one tensor as its result."""

    @classmethod
    def of(cls, *arguments: Any) -> Tensor:
        """`apply`, which torch leaves untyped."""
        return cast(Tensor, cls.apply(*arguments))  # type: ignore[no-untyped-call]


def compiled_for(x: Tensor) -> bool:
    """Whether compiled loops can run on x; PyTorch's own operations serve everything else."""
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and not traced


def run_rows(
    loop: Callable[..., None], n_rows: int, *arguments: Any, fastmath: tuple[str, ...] = (), min_rows: int = 256
) -> None:
    """loop(first, last, *arguments) over all rows, compiled, in torch's number of threads.

    `fastmath` are the liberties of LLVM's floating-point flags that the loop may take. A thread is worth `min_rows`.
    """
    arrays = [value.detach().numpy() if isinstance(value, Tensor) else value for value in arguments]
    kernel = _compiled(loop, fastmath)
    threads = torch.get_num_threads()
    for_row_ranges(lambda first, last: kernel(first, last, *arrays), n_rows, n_threads=threads, min_rows=min_rows)


@lru_cache
def _compiled(loop: Callable[..., None], fastmath: tuple[str, ...]) -> Callable[..., None]:
    """Compiled on first use, or read from numba's cache on disk."""
    from numba import njit

    return cast(Callable[..., None], njit(nogil=True, cache=True, fastmath=set(fastmath))(loop))

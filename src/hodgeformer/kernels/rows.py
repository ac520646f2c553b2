"""Operations on single rows: compiled loops over the rows of tensors, LayerNorm without scale and bias (as in the
paper), ReLU and dropout.

The gradient of LayerNorm needs only its output, which the next layer stores anyway:
dx = (g - mean(g) - y mean(g y)) / deviation. It therefore costs no memory of its own; the usual LayerNorm also stores
its input. Dropout stores no mask either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Any, Self, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hodgeformer.base.containers import PerElement
from hodgeformer.base.machine import for_row_ranges

EPSILON = 1e-5
_THREAD_WORTH = 2**20
_SUMS = ("reassoc", "contract")  # lets LLVM vectorize sums, and leaves NaN and infinity alone


@dataclass(frozen=True, eq=False)
class TensorFields:
    """The base of dataclasses whose tensors, however deep, are moved or cast together."""

    def map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Apply fn to every tensor, also to those computed on first use."""

        def mapped(value: Any) -> Any:
            if isinstance(value, PerElement):
                return value.map(mapped)
            if type(value) is tuple:
                return tuple(mapped(part) for part in value)
            if hasattr(value, "dtype"):  # workers send arrays in place of tensors
                return fn(value)
            return value.map(fn) if hasattr(value, "map") else value

        names = [field.name for field in fields(self)]
        moved = replace(self, **{name: mapped(getattr(self, name)) for name in names})
        for name, value in getattr(self, "__dict__", {}).items():
            if name not in names and isinstance(value, TensorFields):
                moved.__dict__[name] = value.map(fn)
        return moved


class TensorFunction(torch.autograd.Function):
    """An operation with its own derivative and one tensor as its result."""

    @classmethod
    def of(cls, *arguments: Any) -> Tensor:
        """`apply`, which torch leaves untyped."""
        return cast(Tensor, cls.apply(*arguments))  # type: ignore[no-untyped-call]


def compiled_for(x: Tensor) -> bool:
    """Whether compiled loops can run on x; PyTorch's operations do everything else."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)


def run_rows(
    loop: Callable[..., None], n_rows: int, *arguments: Any, numbers: float, fastmath: tuple[str, ...] = ()
) -> None:
    """loop(first, last, *arguments) over all rows, compiled; with these fastmath flags of LLVM."""
    run_compiled(_compiled(loop, fastmath), n_rows, *arguments, numbers=numbers)


def run_compiled(kernel: Callable[..., None], n_rows: int, *arguments: Any, numbers: float) -> None:
    """kernel(first, last, *arguments) over all rows, with tensors as arrays; `numbers` is how many numbers it reads."""
    arrays = [_array(value) if isinstance(value, Tensor) else value for value in arguments]
    n_threads = threads_for(numbers)
    for_row_ranges(lambda first, last: kernel(first, last, *arrays), n_rows, n_threads=n_threads, min_rows=1)


def threads_for(numbers: float) -> int:
    """How many of torch's threads are worth waking for work that takes as long as reading this many numbers.

    A million take about 0.15 ms, and waking another thread, which may sleep, 0.05.
    """
    return max(1, min(torch.get_num_threads(), int(numbers) // _THREAD_WORTH))


@contextmanager
def few_threads(numbers: float) -> Iterator[None]:
    """Limit torch to the threads that are worth waking for operations on this many numbers.

    By itself torch uses all threads from a few tens of thousands of numbers on: two threads took 20 ms, one took 14.
    """
    with _limited.lock:
        # Otherwise a thread that starts now would restore the lowered number as the full one.
        _limited.full = _limited.full if _limited.count else torch.get_num_threads()
        _limited.count += 1
        full = _limited.full
    torch.set_num_threads(full)
    torch.set_num_threads(threads_for(numbers))
    try:
        yield
    finally:
        with _limited.lock:
            _limited.count -= 1
        torch.set_num_threads(full)


@dataclass
class _Limited:
    """How many callers limit the threads now, and how many threads torch had before the first of them."""

    count: int = 0
    full: int = 1
    lock: Any = field(default_factory=Lock)


_limited = _Limited()


def _array(x: Tensor) -> NDArray[Any]:
    return (x.detach() if x.requires_grad else x).numpy()


@lru_cache
def _compiled(loop: Callable[..., None], fastmath: tuple[str, ...]) -> Callable[..., None]:
    """Compiled on first use, or read from numba's cache on disk."""
    from hodgeformer.base.compiled import njit

    return njit(nogil=True, cache=True, fastmath=set(fastmath), error_model="numpy")(loop)


@lru_cache
def kernels(name: str) -> ModuleType:
    """A module of vector code, loaded on first use: its compiler is slow to import."""
    return import_module(f"hodgeformer.kernels._numba_{name}")


def normalized(x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """(x - mean) / deviation over the last axis."""
    (out,) = normalized_parts(x[:, None, None])
    return out.view(x.shape)


def normalized_parts(x: Float[Tensor, "n parts h d"]) -> tuple[Float[Tensor, "n h d"], ...]:
    """The parts of x one by one, normalized over the last axis; their gradients are written into one tensor."""
    if not compiled_for(x):
        return functional.layer_norm(x, x.shape[-1:], eps=EPSILON).unbind(1)
    return cast(tuple[Tensor, ...], _Normalized.apply(x))  # type: ignore[no-untyped-call]


class _Normalized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, ...]:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        scale = torch.empty(len(x), x.shape[1] * x.shape[2], dtype=x.dtype)
        rows = x.reshape(-1, x.shape[3]), out.view(-1, x.shape[3]), scale.view(-1)
        run_rows(_normalize, scale.numel(), *rows, numbers=x.numel(), fastmath=_SUMS)
        ctx.save_for_backward(out, scale)
        return out.unbind(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        out, scale = ctx.saved_tensors
        result = torch.empty_like(out)
        for part, grad in enumerate(grads):
            given = part, grad.contiguous(), out, scale, result
            run_rows(_differentiate, len(out), *given, numbers=grad.numel(), fastmath=_SUMS)
        return result


def _normalize(first, last, x, out, scale):  # type: ignore[no-untyped-def]
    """out = (x - mean) factor over each row, with factor = 1 / deviation to scale."""
    d, number = x.shape[1], x.dtype.type
    for i in range(first, last):
        total, squares = number(0), number(0)
        for c in range(d):
            total += x[i, c]
        mean = total / number(d)
        for c in range(d):
            centered = x[i, c] - mean
            squares += centered * centered
        factor = number(1) / np.sqrt(squares / number(d) + number(EPSILON))
        for c in range(d):
            out[i, c] = (x[i, c] - mean) * factor
        scale[i] = factor


def _differentiate(first, last, part, grad, out, scale, result):  # type: ignore[no-untyped-def]
    """factor (grad - mean(grad) - y mean(grad y)) for the rows y of one part of `out`."""
    (h, d), number = grad.shape[1:], grad.dtype.type
    for i in range(first, last):
        for head in range(h):
            total, along, factor = number(0), number(0), scale[i, part * h + head]
            for c in range(d):
                total += grad[i, head, c]
                along += grad[i, head, c] * out[i, part, head, c]
            shift, slope = total / number(d), along / number(d)
            for c in range(d):
                result[i, part, head, c] = (grad[i, head, c] - shift - out[i, part, head, c] * slope) * factor


def drawn_seed() -> int:
    """A seed for dropout in a kernel, from torch's CPU generator: restoring its state repeats the run."""
    return int(torch.randint(2**62, ()))


def relu_dropout(x: Float[Tensor, "n d"], p: float) -> Float[Tensor, "n d"]:
    """dropout(relu(x)), in place. It stores only its output, which the next layer stores anyway."""
    if p == 0.0 or not compiled_for(x):
        return functional.dropout(functional.relu(x, inplace=True), p)
    return _ReluDropout.of(x, p, drawn_seed())


def dropout(x: Float[Tensor, "n d"], p: float) -> Float[Tensor, "n d"]:
    """x with each element set to zero with probability p, the others divided by 1 - p."""
    return x * relu_dropout(torch.ones_like(x), p) if p else x


class _ReluDropout(TensorFunction):
    """Where the output is zero, by sign or by chance, no gradient passes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: int) -> Tensor:
        ctx.mark_dirty(x)
        ctx.scale = 1 / (1 - p)
        key, threshold = np.uint32(seed & 0xFFFFFFFF), np.uint32(round(p * 2**32))
        run_rows(_drop, len(x), x, key, threshold, ctx.scale, numbers=x.numel())
        ctx.save_for_backward(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (out,) = ctx.saved_tensors
        result = torch.empty_like(out)
        run_rows(_pass_back, len(out), grad.contiguous(), out, result, ctx.scale, numbers=out.numel())
        return result, None, None


def _drop(first, last, x, key, threshold, scale):  # type: ignore[no-untyped-def]
    """Element (i, c) is dropped where a hash of (key, i, c) falls below the threshold, or it is not positive.

    In place, because a loop over two arrays that may overlap is not vectorized. NaN stays NaN: a run that diverges must
    show it.
    """
    factor, zero = x.dtype.type(scale), x.dtype.type(0)
    for i in range(first, last):
        row = x[i]
        row_key = np.uint32(key ^ np.uint32(i) * np.uint32(0x9E3779B9))
        row_key = np.uint32((row_key ^ (row_key >> np.uint32(16))) * np.uint32(0x7FEB352D))
        for c in range(row.size):
            h = np.uint32(row_key ^ np.uint32(c) * np.uint32(0x85EBCA6B))
            h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D))
            h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
            h = np.uint32(h ^ (h >> np.uint32(16)))
            row[c] = zero if (h < threshold) | (row[c] <= zero) else row[c] * factor


def _pass_back(first, last, grad, out, result, scale):  # type: ignore[no-untyped-def]
    factor, zero = grad.dtype.type(scale), grad.dtype.type(0)
    for i in range(first, last):
        g, y, target = grad[i], out[i], result[i]
        for c in range(g.size):
            target[c] = zero if y[c] == zero else g[c] * factor

"""Linear layers, and the feed-forward network.

float32 products are our own vector code where PyTorch's library uses only half of the processor. Layers that read the
same rows share one product, without concatenating their weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hodgeformer.base.machine import for_row_ranges
from hodgeformer.kernels.rows import TensorFunction, compiled_for, kernels, relu_dropout, threads_for

CHUNK = 1024
"""Rows that fit into the second-level cache together with what is computed from them."""
_MULTIPLICATIONS = 24  # that take as long as reading one number from memory


def product(
    x: Float[Tensor, "n d_in"], *weights: Float[Tensor, "_ d_in"], bias: Float[Tensor, " d_out"] | None = None
) -> Float[Tensor, "n d_out"]:
    """[x W_1^T, x W_2^T, ...] + b.

    Autocast multiplies in bfloat16. On a processor the result becomes float32 again, which the kernels around it read.
    """
    if _uses_own_kernel(x, weights):
        return _Product.of(x, bias, *weights)
    result = functional.linear(x, weights[0] if len(weights) == 1 else torch.cat(weights), bias)
    return result.to(x.dtype) if x.device.type == "cpu" else result


def _uses_own_kernel(x: Tensor, weights: tuple[Tensor, ...]) -> bool:
    if not compiled_for(x) or x.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
        return False
    kernel = kernels("linear")
    return kernel.faster_than_torch() and all(
        len(weight) % kernel.LANES == 0 and weight.dtype == x.dtype and weight.is_contiguous() for weight in weights
    )


class _Product(TensorFunction):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, *weights: Tensor) -> Tensor:
        x = x if x.stride(1) == 1 else x.contiguous()
        ctx.save_for_backward(x, *weights)
        out = x.new_empty(len(x), sum(map(len, weights)))
        starts = [None for _ in weights] if bias is None else _of_each(bias, weights)
        for weight, columns, start in zip(weights, _of_each(out, weights), starts, strict=True):
            multiply_into(columns, x, weight.t().contiguous(), start=start)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        grads = _of_each(grad if grad.stride(1) == 1 else grad.contiguous(), weights)
        for_x, for_bias, *for_weights = ctx.needs_input_grad
        grad_x = _through(grads, weights) if for_x else None
        turned = [
            _summed_over_rows(part, x) if needed else None for part, needed in zip(grads, for_weights, strict=True)
        ]
        return grad_x, grad.sum(0) if for_bias else None, *turned


def _of_each(columns: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The last axis, split into the columns of each weight."""
    return torch.split(columns, [len(weight) for weight in weights], dim=-1)


def _through(grads: tuple[Tensor, ...], weights: list[Tensor]) -> Tensor:
    """G_1 W_1 + G_2 W_2 + ..."""
    if weights[0].shape[1] % kernels("linear").LANES:
        return sum(grad @ weight for grad, weight in zip(grads, weights, strict=True))  # type: ignore[return-value]
    total = grads[0].new_empty(len(grads[0]), weights[0].shape[1])
    for number, (grad, weight) in enumerate(zip(grads, weights, strict=True)):
        multiply_into(total, grad, weight, start=total if number else None)
    return total


def _summed_over_rows(grad: Tensor, x: Tensor) -> Tensor:
    """G^T X; as (X^T G)^T where X is too narrow for vectors."""
    if x.shape[1] % kernels("linear").LANES:
        narrow = grad.new_empty(x.shape[1], grad.shape[1])
        multiply_into(narrow, x.t(), grad)
        return narrow.t().contiguous()
    total = grad.new_empty(grad.shape[1], x.shape[1])
    multiply_into(total, grad.t(), x)
    return total


def multiply_into(out: Tensor, a: Tensor, b: Tensor, *, start: Tensor | None = None) -> None:
    """out = start + a b; `start` is one row for all, or `out` itself. Rows of b and out are contiguous."""
    kernel, (rows, inner), columns = kernels("linear"), a.shape, b.shape[1]
    start = out.new_zeros(columns) if start is None else start
    steps = (4 * a.stride(0), 4 * a.stride(1)), 4 * b.stride(0), 4 * start.stride(0) * (start.ndim - 1)
    given = (
        rows, columns, inner, a.data_ptr(), *steps[0], b.data_ptr(), steps[1],
        start.data_ptr(), steps[2], out.data_ptr(), 4 * out.stride(0),
    )  # fmt: skip
    for_row_ranges(
        lambda first, last: kernel.multiply(first, last, *given),
        -(-rows // kernel.TILE_ROWS),
        n_threads=threads_for(rows * columns * inner / _MULTIPLICATIONS),
        min_rows=1,
    )


def by_chunks(rows_to_rows: Callable[[Tensor], Tensor], x: Float[Tensor, "n d"]) -> Float[Tensor, "n d_out"]:
    """rows_to_rows(x), in chunks of rows if no gradient is needed.

    A chunk stays in the cache and reuses the memory of the one before; a million rows at once would need new pages in
    every step.
    """
    if torch.is_grad_enabled() or len(x) <= CHUNK:
        return rows_to_rows(x)
    parts = torch.split(x, CHUNK)
    first = rows_to_rows(parts[0])
    out = first.new_empty(len(x), first.shape[1])
    for number, to in enumerate(torch.split(out, CHUNK)):
        to.copy_(rows_to_rows(parts[number]) if number else first)
    return out


class Linear(nn.Linear):
    """torch's linear layer, computed by `product`."""

    def __call__(self, x: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(x))

    def forward(self, x: Tensor) -> Tensor:
        return product(x, self.weight, bias=self.bias)


class FeedForward(nn.Module):
    """FF(x) = W_2 dropout(relu(W_1 x + b_1)) + b_2."""

    def __init__(self, d_in: int, d_hidden: int, d_out: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = linear(d_in, d_hidden, init="he")
        self.contract = linear(d_hidden, d_out)
        self.dropout = dropout

    def forward(self, x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n d_out"]:
        hidden = self.expand(x)
        return self.contract(relu_dropout(hidden, self.dropout if self.training else 0.0))


class BatchNorm(nn.BatchNorm1d):
    """torch's, but a single row, which has no statistics, is normalized as in evaluation."""

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        if len(x) > 1:
            return super().forward(x)
        return functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


class NormalizedFeedForward(FeedForward):
    """FF(x) = W_2 BN(dropout(relu(W_1 x + b_1))) + b_2, BN over all rows of a batch, as in the authors' code.

    In evaluation BN has its running statistics, so rows do not depend on each other.
    """

    def __init__(self, d_in: int, d_hidden: int, d_out: int, *, dropout: float = 0.0) -> None:
        super().__init__(d_in, d_hidden, d_out, dropout=dropout)
        self.norm = BatchNorm(d_hidden)

    def forward(self, x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n d_out"]:
        hidden = relu_dropout(self.expand(x), self.dropout if self.training else 0.0)
        return self.contract(self.norm(hidden))


def linear(d_in: int, d_out: int, *, bias: bool = True, init: Literal["he", "xavier"] = "xavier") -> Linear:
    """A linear layer with zero bias: He weights before a ReLU, Xavier weights elsewhere."""
    layer = Linear(d_in, d_out, bias=bias)
    if init == "he":
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    else:
        nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer

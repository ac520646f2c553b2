"""Several processes that train one model, started by torchrun.

Gradients are summed here and not by DistributedDataParallel: the shares of a packed batch have different weights, so
the loss is normalized by the weight of the whole batch before the backward pass, and gradients are plain sums.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce

from hodgeformer.base.errors import ConfigError, HodgeFormerError
from hodgeformer.nn.heads import MeshHead
from hodgeformer.nn.model import HodgeFormer

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """This process among all that train together."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Only the first process prints and writes."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """This process's part of a global batch."""
        return items[self.rank :: self.count]

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes, without a gradient; for several processes."""
        values = values.clone()
        dist.all_reduce(values)
        return values

    def from_first(self, values: list[float]) -> list[float]:
        """The numbers of the first process, for decisions that must be the same in all processes."""
        if self.count == 1:
            return values
        shared = torch.tensor(values, dtype=torch.float64, device=_device())
        dist.broadcast(shared, src=0)
        return cast(list[float], shared.tolist())

    def collect(self, value: T) -> list[T]:
        """The values of all processes in order."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def gathered(self, items: Sequence[T]) -> list[T]:
        """The results of all processes for the items of their shares, in the original order."""
        return interleaved(self.collect(items))

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient with its sum over all processes, in one message."""
        parameters = [p for p in parameters if p.requires_grad]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters])
        dist.all_reduce(flat)
        start = 0
        for parameter in parameters:
            parameter.grad = flat[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()


def interleaved(parts: Sequence[Sequence[T]]) -> list[T]:
    """The items of all parts in turn: of shares, in the original order.

    Where a part has the shares of several lists, one after another, all items are there, in some other order.
    """
    return [part[i] for i in range(max(map(len, parts))) for part in parts if i < len(part)]


@contextmanager
def joined() -> Iterator[Processes]:
    """The processes that torchrun started, or this one alone."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes()
        return
    _check_restarts()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    except RuntimeError as error:
        if "gloo" not in str(error):
            raise
        raise HodgeFormerError(f"another of the {count} processes ended; see its error message") from error
    finally:
        dist.destroy_process_group()


def _check_restarts() -> None:
    """By default torchrun gives restarted processes the addresses of the dead ones, which then never answer."""
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if shared and int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0:
        raise ConfigError(
            "torchrun --max-restarts works only with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the environment; set it, "
            "or remove --max-restarts"
        )


def restarted() -> bool:
    """Whether torchrun restarted these processes because one of them had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


class GlobalMeshHead(MeshHead):
    """MeshHead centered by the statistics of the meshes of all processes, as if one process had the whole batch."""

    def centered(self, pooled: Float[Tensor, "meshes d"]) -> Float[Tensor, "meshes d"]:
        center = self.center
        if center is None:
            return pooled
        n_meshes = float(_sum(pooled.new_tensor([len(pooled)]))) if center.training else 0.0
        if n_meshes < 2:
            mean, variance = _running(center)
        else:
            mean = _sum(pooled.sum(dim=0)) / n_meshes
            variance = _sum(((pooled - mean) ** 2).sum(dim=0)) / n_meshes
            _update(center, mean.detach(), variance.detach() * n_meshes / (n_meshes - 1))
        return (pooled - mean) * torch.rsqrt(variance + center.eps) * center.weight + center.bias


def share_statistics(model: HodgeFormer, processes: Processes) -> None:
    """Let the head of a model use the whole batch if several processes share it."""
    if processes.count > 1 and model.config.feed_forward_norm:
        raise ConfigError(
            "feed_forward_norm normalizes by the batch of one process, so several would train another model; train "
            "with one process, or set model.feed_forward_norm=false"
        )
    if processes.count == 1 or not isinstance(model.head, MeshHead):
        return
    head = GlobalMeshHead(model.config).to(model.head.out.weight)
    head.load_state_dict(model.head.state_dict())
    model.head = head


def _running(center: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    assert center.running_mean is not None and center.running_var is not None
    return center.running_mean, center.running_var


def _update(center: nn.BatchNorm1d, mean: Tensor, variance: Tensor) -> None:
    assert center.num_batches_tracked is not None
    center.num_batches_tracked.add_(1)
    share = 1.0 / float(center.num_batches_tracked) if center.momentum is None else center.momentum
    for running, value in zip(_running(center), (mean, variance), strict=True):
        running.lerp_(value, share)


def _sum(values: Tensor) -> Tensor:
    """The sum over processes; its gradient reaches every process from all of them."""
    return cast(Tensor, all_reduce(values))  # type: ignore[no-untyped-call]


def _device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")

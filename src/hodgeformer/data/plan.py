"""Which meshes make up which batch: a function of seed and epoch alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from hodgeformer.settings import Settings

Batches = list[tuple[int, ...]]

# What a random stream is for is part of its seed, so that streams of one epoch do not repeat each other.
Purpose = Literal["order", "shape", "connections"]
_PURPOSES: tuple[Purpose, ...] = ("order", "shape", "connections")


class BatchConfig(Settings):
    """How many meshes make a batch: at most `size`, and at most `max_faces` faces together; None for no limit.

    A mesh with more faces than that makes a batch of its own.
    """

    size: int | None = Field(default=8, ge=1)
    max_faces: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _some_limit(self) -> BatchConfig:
        if self.size is None and self.max_faces is None:
            raise ValueError("a batch needs a limit: size, max_faces or both")
        return self


def stream_seed(purpose: Purpose, seed: int, *place: int) -> np.random.SeedSequence:
    """The seed of the random numbers for one purpose at one place, such as (epoch, index)."""
    return np.random.SeedSequence([seed, _PURPOSES.index(purpose), *place])


def epoch_order(n: int, seed: int, epoch: int) -> list[int]:
    """The shuffled order of an epoch."""
    order: list[int] = np.random.default_rng(stream_seed("order", seed, epoch)).permutation(n).tolist()
    return order


def cut_batches(order: Sequence[int], config: BatchConfig, n_faces: Sequence[int] | None) -> Batches:
    """Consecutive batches that together hold the whole order, none of them much smaller than the others."""
    if config.max_faces is None or n_faces is None:
        assert config.size is not None
        n_batches = -(-len(order) // config.size)
        return [tuple(part.tolist()) for part in np.array_split(np.array(order), n_batches)]
    batches: list[list[int]] = [[]]
    for index in order:
        full = config.size is not None and len(batches[-1]) == config.size
        if batches[-1] and (full or sum(n_faces[i] for i in [*batches[-1], index]) > config.max_faces):
            batches.append([])
        batches[-1].append(index)
    if len(batches) > 1:
        batches[-2:] = _evened(batches[-2] + batches[-1], config, n_faces)
    return [tuple(batch) for batch in batches]


def _evened(members: list[int], config: BatchConfig, n_faces: Sequence[int]) -> list[list[int]]:
    """Two batches cut where their numbers of faces differ least, so that the last one is no leftover."""
    size = config.size or len(members)
    total = sum(n_faces[i] for i in members)
    cuts = range(max(1, len(members) - size), min(size, len(members) - 1) + 1)
    best = min(cuts, key=lambda cut: abs(total - 2 * sum(n_faces[i] for i in members[:cut])))
    return [members[:best], members[best:]]


def share(batch: Sequence[int], rank: int, world_size: int) -> tuple[int, ...]:
    """The part of a batch that one of several processes prepares; all parts together are the batch."""
    return tuple(batch[rank::world_size])

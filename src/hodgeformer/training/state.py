"""The complete state of a run: from the same state, a run continues to the same weights, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from hodgeformer.base.errors import CheckpointError
from hodgeformer.predict.checkpoint import read_tensors, write_tensors
from hodgeformer.training.distributed import Processes
from hodgeformer.training.learner import Learned, Learner

_KIND = "training state"


@dataclass(frozen=True)
class Position:
    """The next batch to train on, and totals so far.

    `learned` is the total of the current epoch. `elapsed` are seconds of training, including those before the run was
    resumed, and `cpu` the processor seconds of this process. `best` is the best validation score and `best_epoch` its
    epoch; `evaluated` is the share of the run at the last evaluation.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    elapsed: float = 0.0
    cpu: float = 0.0
    learned: Learned = field(default_factory=Learned)
    best: float | None = None
    best_epoch: int = -1
    evaluated: float = 0.0
    finished: bool = False

    def next_epoch(self) -> Position:
        return replace(self, epoch=self.epoch + 1, batch=0, learned=Learned())


def save_state(path: Path, position: Position, learner: Learner, *, processes: Processes, data: str) -> None:
    """Write the state; every process takes part, because each has its own random numbers.

    `data` is the fingerprint of the training meshes.
    """
    generators = processes.collect(_generators())
    if not processes.is_first:
        return
    tensors: dict[str, Tensor] = {f"model/{name}": value for name, value in learner.model.state_dict().items()}
    for index, values in learner.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{index}/{name}": torch.as_tensor(value) for name, value in values.items()}
    for rank, states in enumerate(generators):
        tensors |= {f"random/{rank}/{name}": value for name, value in states.items()}
    numbers = asdict(position)
    header = {"position": numbers | numbers.pop("learned"), "processes": processes.count, "data": data}
    write_tensors(path, tensors, header, kind=_KIND)


def load_state(path: Path, learner: Learner, *, processes: Processes, data: str) -> Position:
    """Restore the learner and the random numbers of this process."""
    tensors, header = read_tensors(path, kind=_KIND)
    if header["processes"] != processes.count:
        raise CheckpointError(
            f"{path}: this run was started with {header['processes']} processes and cannot continue with "
            f"{processes.count}; use the same torchrun command"
        )
    if header["data"] != data:
        raise CheckpointError(
            f"{path}: the training meshes or their labels have changed since the run was started; restore them, or "
            "start a new run from its last checkpoint with --from"
        )
    groups: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        group, _, rest = name.partition("/")
        groups.setdefault(group, {})[rest] = value
    try:
        position = _position(header)
        learner.model.load_state_dict(groups["model"])
        _load_optimizer(learner.optimizer, groups.get("optimizer", {}))
        _set_generators(
            {name.partition("/")[2]: v for name, v in groups["random"].items() if name.startswith(f"{processes.rank}/")}
        )
        return position
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: does not match config.toml of the run ({error}); was it edited?") from None


def load_position(path: Path) -> Position:
    """Where the run of a state is."""
    try:
        return _position(read_tensors(path, kind=_KIND)[1])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: its position cannot be read ({error})") from None


def _position(header: Mapping[str, Any]) -> Position:
    numbers = dict(header["position"])
    learned = Learned(**{part.name: numbers.pop(part.name) for part in fields(Learned)})
    return Position(**numbers, learned=learned)


def _load_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Any]] = {}
    for name, value in tensors.items():
        index, _, key = name.partition("/")
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _generators() -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _set_generators(states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])

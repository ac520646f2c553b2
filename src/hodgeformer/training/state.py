"""Where a run stands, in full: from the same state, a run goes on to the same weights, bit for bit."""

from __future__ import annotations

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
    """The next batch to train on, and what was summed up on the way.

    `learned` is the sum over the epoch so far. `elapsed` are seconds of training, over all sittings, and `cpu` those of
    the processor in this process. `best` is the best validation score and `best_epoch` its epoch; `evaluated` the share
    of the run after which was evaluated last.
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
    """Write the state; every process takes part, because each has random numbers of its own.

    `data` is the fingerprint of the training meshes.
    """
    generators = processes.collect(_generators())
    if not processes.is_first:
        return
    tensors: dict[str, Tensor] = {f"model/{name}": value for name, value in learner.model.state_dict().items()}
    if learner.average is not None:
        tensors |= {f"average/{name}": value for name, value in learner.average.state_dict().items()}
    for index, values in learner.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{index}/{name}": torch.as_tensor(value) for name, value in values.items()}
    for rank, states in enumerate(generators):
        tensors |= {f"random/{rank}/{name}": value for name, value in states.items()}
    numbers = asdict(position)
    header = {"position": numbers | numbers.pop("learned"), "processes": processes.count, "data": data}
    write_tensors(path, tensors, header, kind=_KIND)


def load_state(path: Path, learner: Learner, *, processes: Processes, data: str) -> Position:
    """Bring the learner and this process's random numbers back to where the file left them."""
    tensors, header = read_tensors(path, kind=_KIND)
    if header["processes"] != processes.count:
        raise CheckpointError(
            f"{path}: this run was started with {header['processes']} processes and goes on only with as many, "
            f"found {processes.count}; use the same torchrun command"
        )
    if header["data"] != data:
        raise CheckpointError(
            f"{path}: the training meshes or their labels are not those the run was started with; put them back, or "
            "start a new run from its last checkpoint with --from"
        )
    groups: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        group, _, rest = name.partition("/")
        groups.setdefault(group, {})[rest] = value
    try:
        learner.model.load_state_dict(groups["model"])
        if learner.average is not None:
            learner.average.load_state_dict(groups["average"])
        _load_optimizer(learner.optimizer, groups.get("optimizer", {}))
        _set_generators(
            {name.partition("/")[2]: v for name, v in groups["random"].items() if name.startswith(f"{processes.rank}/")}
        )
        numbers = header["position"]
        learned = Learned(**{part.name: numbers.pop(part.name) for part in fields(Learned)})
        return Position(**numbers, learned=learned)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: does not fit the run's config.toml ({error}); was it edited?") from None


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

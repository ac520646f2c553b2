"""The setup of a run: configuration, data, processes, folder; and the parts that are built from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from hodgeformer.base.containers import KINDS
from hodgeformer.base.errors import ConfigError, DataError
from hodgeformer.base.machine import GIGABYTE, free_memory
from hodgeformer.data.census import Census, take_census
from hodgeformer.data.dataset import CountedMesh, DataSet, Sample
from hodgeformer.data.loader import BatchSource, Loader
from hodgeformer.data.open import open_dataset
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.checkpoint import Checkpoint, save_checkpoint
from hodgeformer.predict.model_info import DataStatistics
from hodgeformer.training.config import Overrides, RunConfig, Source, read_config
from hodgeformer.training.distributed import Processes
from hodgeformer.training.evaluate import HASH_DIGITS, Evaluator
from hodgeformer.training.learner import CrossEntropy, Learner, Loss, SquaredError, inverse_frequency
from hodgeformer.training.listener import Listener
from hodgeformer.training.metrics import Scores
from hodgeformer.training.plan import like, planned, reasons
from hodgeformer.training.run_folder import RunFolder

_BYTES_PER_PARAMETER = 16  # the weight, its gradient, and two averages of that, in float32


@dataclass(frozen=True, eq=False)
class Setup:
    """A run before its first step. The configuration is complete and the data was checked. `start` is a model to
    fine-tune; `is_pose_open` if nothing but the meshes decides their pose."""

    config: RunConfig
    census: Census
    folder: RunFolder
    processes: Processes
    start: Checkpoint | None = None
    listener: Listener = field(default_factory=Listener)
    is_pose_open: bool = False

    @property
    def dataset(self) -> DataSet:
        return self.census.dataset

    @property
    def monitored(self) -> str | None:
        """The split that is evaluated during training. Only "val" chooses the best checkpoint."""
        return next((name for name in ("val", "test") if name in self.dataset.splits), None)

    @property
    def tested(self) -> str | None:
        """The split for the final scores: families that were left out, even if there are test meshes as well."""
        names = ("val",) if self.config.data.hold_out else ("test", "val")
        return next((name for name in names if name in self.dataset.splits), None)

    @property
    def is_rehearsed(self) -> bool:
        """Whether a run without validation meshes is worth rehearsing, to calibrate it."""
        train = self.config.train
        return train.calibrate and train.is_long and "val" not in self.dataset.splits

    def begin(self, *, new: bool) -> None:
        """Write the configuration of a new run to its folder, which the caller has locked, and report the plan."""
        if self.processes.is_first:
            if new:
                self.folder.create(self.config.toml())
            for reason in self.reasons():
                self.listener.planned(reason)

    def reasons(self) -> tuple[str, ...]:
        """The plan of the run and its reasons, one sentence each."""
        dataset = self.dataset
        splits = ", ".join(f"{len(samples)} {name}" for name, samples in dataset.splits.items())
        about = f"{dataset.name}: {dataset.task}, one target per {dataset.element}; meshes: {splits}"
        found = (about, *reasons(self.config, self.census))
        if self.is_rehearsed:
            why = "no validation meshes: after training, shorter runs on some of the training meshes calibrate the"
            found = (*found, f"{why} confidence, which takes about as long again; train.calibrate=false skips them")
        if self.is_pose_open:
            found = (
                *found,
                "if one axis points up in all files, or shapes are round, short trials choose the pose first",
            )
        return found if self.start is None else (*found, self._fine_tuning(self.start))

    def _fine_tuning(self, start: Checkpoint) -> str:
        own, frozen = self.config.model_for(self.dataset), self.config.train.freeze
        same = (own.task, own.n_classes) == (start.model.task, start.model.n_classes)
        new = "" if same else ", a new output layer"
        still = "" if frozen is None else f", frozen: {frozen}"
        return (
            f"fine-tuning '{start.name}': its embedding and blocks {own.blocks} are kept{new}{still}; a smaller "
            f"learning rate ({self.config.train.lr:g}) and a shorter run than from scratch"
        )

    def loss(self) -> Loss:
        labels = self.census.labels
        if self.dataset.task == "regression":
            return _standardized(labels)
        power = float(self.config.train.class_weights or 0.0)
        weights = inverse_frequency(torch.from_numpy(labels), power) if power else None
        return CrossEntropy(self.config.train.label_smoothing, weights)

    def learner(self) -> Learner:
        """A new model and its optimizer; when fine-tuning, with the weights of all layers that fit."""
        train, shape = self.config.train, self.config.model_for(self.dataset)
        with torch.device("meta"):
            n_parameters = HodgeFormer(shape).n_parameters
        needed, free = _BYTES_PER_PARAMETER * n_parameters, free_memory()
        if needed > free:
            raise ConfigError(
                f"training a model of {n_parameters:,} parameters needs {needed / GIGABYTE:,.1f} GB of memory, and "
                f"{free / GIGABYTE:.1f} GB are free; reduce model.d_model, model.d_hidden or model.blocks"
            )
        learner = Learner(shape, train, self.loss(), device=train.torch_device(), processes=self.processes)
        if self.start is not None:
            take_over(learner.model, self.start)
        return learner

    def training_loader(self, *, workers: int | None = None, augmented: bool = True) -> Loader:
        train, model = self.config.train, self.config.model_for(self.dataset)
        assert train.batch_size is not None
        augment = self.config.augment if augmented else None
        return Loader(
            BatchSource(self.dataset, prepare=self.config.prepare, augment=augment, seed=train.seed, model=model),
            batch_size=train.batch_size,
            n_workers=(train.workers or 0) if workers is None else workers,
            rank=self.processes.rank,
            world_size=self.processes.count,
        )

    def rehearsal(self, number: int, left_out: Sequence[Sample], length: float, listener: Listener) -> Setup:
        """A shorter run that leaves some training meshes out, which become the split "unseen"."""
        train, names = self.config.train, {sample.name for sample in left_out}
        epochs = None if train.epochs is None else max(1, round(length * train.epochs))
        minutes = None if train.minutes is None else length * train.minutes
        config = self.config.replace(train=train.replace(epochs=epochs, minutes=minutes, restarts=()))
        folder = RunFolder(self.folder.root / f"rehearsal-{number}")
        return replace(self, config=config, census=self.census.without(names), folder=folder, listener=listener)

    def evaluator(self, split: str, *, temperature: float = 1.0, smooth: float = 0.0) -> Evaluator:
        return Evaluator(
            self.dataset,
            self.dataset.split(split),
            self.config.prepare,
            temperature=temperature,
            smooth=smooth,
            processes=self.processes,
        )

    def save(self, path: Path, model: HodgeFormer, scores: Scores | None, *, split: str | None) -> None:
        """Write a checkpoint of a model that is ready to predict."""
        checkpoint = Checkpoint(
            model=model.config,
            prepare=self.config.prepare,
            weights=dict(model.state_dict()),
            name=self.dataset.name,
            classes=self.dataset.classes,
            colors=self.dataset.colors,
            metrics={f"{split}_{name}": value for name, value in scores.values.items()} if scores else {},
            statistics=_statistics(self.census.training, self.config.prepare),
            training=self.config.model_dump(mode="json"),
        )
        save_checkpoint(path, checkpoint)


def set_up(
    source: Source | None,
    out: Path | str,
    settings: Overrides = (),
    *,
    start: Checkpoint | None = None,
    processes: Processes | None = None,
    listener: Listener | None = None,
) -> Setup:
    """The complete setup of a run: the data is checked, and settings that are not given are planned.

    Without a source, it is that of the run which was stopped in the folder `out`.
    """
    folder, processes, listener = RunFolder(Path(out)), processes or Processes(), listener or Listener()
    if source is None:
        folder.check_run()
    config = read_config(folder.config if source is None else source, settings)
    if source is None and "D" in config.model.get("blocks", ""):  # the default has none
        config = config.replace(model={"star_bound": 0.0, **config.model})  # of runs begun before D blocks learned it
    if source is not None and start is not None:
        config = like(start, config)
    census = _census(config, processes, listener)
    is_pose_open = source is not None and start is None and "pose" not in config.prepare.model_fields_set
    if source is not None:
        config = planned(config, census, start)
    is_pose_open &= config.train.calibrate and config.train.is_long
    return Setup(config, census, folder, processes, start, listener, is_pose_open)


def take_over(model: HodgeFormer, start: Checkpoint) -> None:
    """Fine-tuning: copy the weights of a trained model; the head only if the task is the same and its shape fits."""
    own, same = model.state_dict(), start.model.task == model.config.task
    given = {name: value for name, value in start.weights.items() if same or not name.startswith("head.")}
    fitting = {name: value for name, value in given.items() if name in own and own[name].shape == value.shape}
    left_out = sorted(set(own) - set(fitting))
    if any(not name.startswith("head.") for name in left_out):
        raise ConfigError(
            f"the model to start from ('{start.name}': {start.model.blocks}, width {start.model.d_model}, updates "
            f"{start.model.updates}) has another architecture than this one ({model.config.blocks}, width "
            f"{model.config.d_model}, updates {model.config.updates}); remove [model] to use its architecture"
        )
    model.load_state_dict({**own, **fitting})


def _census(config: RunConfig, processes: Processes, listener: Listener) -> Census:
    dataset = open_dataset(config.data)
    if "train" not in dataset.splits:
        raise DataError(f"{dataset.name}: the split 'train' is missing; found {', '.join(dataset.splits)}")
    census = take_census(
        dataset,
        progress=listener.reading,
        share=processes.share,
        collect=processes.collect,
        reads=config.prepare.own_columns,
    )
    census.usable(skip_bad=config.train.skip_bad)
    for problem in census.problems:
        listener.warned(f"skipped: {problem.message}")
    if census.untrained:
        listener.warned(census.untrained)
    if copies := census.learned:
        listener.warned(
            f"other splits contain copies of training meshes ({len(copies)}), so scores will be too optimistic: "
            f"{', '.join(copies[:4])}"
        )
    return census


def _statistics(meshes: Sequence[CountedMesh], prepare: PrepareConfig) -> DataStatistics:
    """Statistics of the training meshes, to recognize unfamiliar meshes later."""
    sizes = [prepare.working(mesh.n) for mesh in meshes]

    def spread(values: Sequence[float]) -> tuple[float, float, float]:
        return float(min(values)), float(np.median(values)), float(max(values))

    # With a quarter of the faces, edges are twice as long.
    lengths = [np.sqrt(mesh.n.f / n.f) * mesh.edge_lengths for mesh, n in zip(meshes, sizes, strict=True)]
    q5, q25, q50, q75, q95 = np.mean(lengths, axis=0).tolist()
    return DataStatistics(
        n_meshes=len(meshes),
        n={kind: spread([n[kind] for n in sizes]) for kind in KINDS},
        size=spread([mesh.radius for mesh in meshes]),
        edge_length=(q5, q25, q50, q75, q95),
        shapes=tuple(sorted({mesh.identity(prepare.own_columns)[:HASH_DIGITS] for mesh in meshes})),
    )


def _standardized(sums: np.ndarray) -> SquaredError:
    """From the rows (count, sum, sum of squares) of the training targets."""
    count, total, squares = sums
    mean = total / count
    std = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
    std[std < 1e-12] = 1.0
    return SquaredError(torch.from_numpy(mean).float(), torch.from_numpy(std).float())

"""Predict many meshes: where results are written, which are done already, and the work on the others."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.files import stamp, write_atomically
from hodgeformer.mesh.io import save_mesh
from hodgeformer.predict.options import PredictOptions
from hodgeformer.predict.pretrained import locate_models

if TYPE_CHECKING:  # a worker imports them when it starts
    from hodgeformer.predict.inference import Report
    from hodgeformer.predict.predictor import Predictor
    from hodgeformer.predict.result import Result

RECORDS = ".done"
"""The folder beside the results that records which of them are done."""
_READ_AT_ONCE = 16


@dataclass(frozen=True)
class Task:
    """A mesh, the path of its results (without a suffix), the record that they are done, and a hash of the inputs."""

    path: Path
    target: Path
    record: Path
    key: str


@dataclass(frozen=True)
class Predicted:
    """The outcome for a mesh: the written files, the answer as text, and as JSON content if requested.

    `unfamiliar`: the mesh is unlike the training meshes.
    """

    written: tuple[Path, ...]
    unfamiliar: bool
    answer: str = ""
    content: dict[str, Any] | None = None


@dataclass(frozen=True)
class Job:
    """What to do with every mesh; can be sent to a worker."""

    model: str
    out: Path
    suffixes: tuple[str, ...]
    options: PredictOptions
    device: str = "auto"
    split_parts: bool = False
    with_content: bool = False

    def tasks(self, inputs: Mapping[Path, PurePath]) -> list[Task]:
        """One task per mesh, from the inputs with their paths relative to the given folder (or their own names).

        Meshes that share a name keep their suffix in it, and no input is ever overwritten.
        """
        if str(self.out).startswith(("http:", "https:")):
            raise ConfigError(
                f"{self.out}: a web server cannot store results; choose a folder or a store such as s3://"
            )
        stems = Counter(below.with_suffix("") for below in inputs.values())
        read = {_resolved(path) for path in inputs}
        models = [hashlib.sha256(path.read_bytes()).hexdigest() for path in locate_models(self.model)]
        options = self.options.model_dump(exclude={"batch_faces", "seed"})
        request = json.dumps([models, options, sorted(self.suffixes), self.split_parts], sort_keys=True)
        taken: dict[PurePath, Path] = {}
        tasks = []
        for path, below in inputs.items():
            short = below.with_suffix("")
            name = short if stems[short] == 1 else below
            target = self.out / name.as_posix()
            if taken.setdefault(name, path) != path:
                raise ConfigError(f"{path}: several inputs would be written as {target}; pass their folder instead")
            for suffix in self.suffixes:
                if _resolved(written := target.with_name(target.name + suffix)) in read:
                    raise ConfigError(f"{written} would be overwritten by its own result; choose another --out")
            key = hashlib.sha256(f"{request}\n{stamp(path)}".encode()).hexdigest()
            tasks.append(Task(path, target, self.out / RECORDS / f"{name.as_posix()}.json", key))
        return tasks

    def opened(self) -> partial[Iterator[Predicted | Exception]]:
        """A worker: loads the model once, then works on tasks."""
        from hodgeformer.predict.predictor import Predictor

        return partial(self.work, Predictor.load(self.model, self.device))

    def work(
        self, predictor: Predictor, tasks: Sequence[Task], report: Report | None = None
    ) -> Iterator[Predicted | Exception]:
        """The outcome of each task, in order; its results are written by then."""
        failed: dict[Any, Exception] = {}
        paths, options = [task.path for task in tasks], self.options.model_dump()
        results = predictor.predict_many(paths, on_error=failed.__setitem__, report=report, **options)
        following: Result | None = None  # possibly of a later task than the current one
        for task in tasks:
            if following is None and task.path not in failed:
                following = next(results, None)
            if following is None or following.path != task.path:
                yield failed[task.path]
                continue
            try:
                yield self._written(task, following)
            except Exception as error:  # a full disk, a name that cannot be written: the others continue
                yield error
            following = None

    def _written(self, task: Task, result: Result) -> Predicted:
        """The record is deleted first and written last, so that it only exists beside complete results."""
        target = task.target
        written = [target.with_name(target.name + suffix) for suffix in self.suffixes]
        if written or self.split_parts:
            task.record.unlink(missing_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
        for path in written:
            result.save(path)
        if self.split_parts:
            for name, part in result.parts():
                plain = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)
                written.append(target.with_name(f"{target.name}_{plain}.ply"))
                save_mesh(part, written[-1])
        unfamiliar = bool(result.warnings)
        if written:
            task.record.parent.mkdir(parents=True, exist_ok=True)
            record = {"of": task.key, "written": [path.name for path in written], "unfamiliar": unfamiliar}
            write_atomically(task.record, json.dumps(record).encode())
        known = "" if result.familiarity is None else f"familiarity {result.familiarity:.2f}"
        unlike = (f"unlike the training meshes: {text}" for text in result.warnings)
        answer = "\n  ".join([result.summary, *filter(None, [result.resolution, known, *unlike])])
        content = result.to_dict() | {"written": list(map(str, written))} if self.with_content else None
        if content and result.task == "segmentation":
            del content["probabilities"]  # long; --format json writes them
        return Predicted(tuple(written), unfamiliar, answer, content)


def done_before(tasks: Iterable[Task]) -> dict[Path, Predicted]:
    """The meshes whose results all exist and belong to the same model, options and file."""

    @cache
    def names_in(folder: Path) -> frozenset[str]:
        with suppress(OSError):
            return frozenset(path.name for path in folder.iterdir())
        return frozenset()

    recorded = [task for task in tasks if task.record.name in names_in(task.record.parent)]
    found = {}
    with ThreadPoolExecutor(_READ_AT_ONCE, thread_name_prefix="records") as pool:
        for task, record in zip(recorded, pool.map(_read_record, recorded), strict=True):
            if record["of"] == task.key and set(record["written"]) <= names_in(task.target.parent):
                written = tuple(task.target.with_name(name) for name in record["written"])
                found[task.path] = Predicted(written, record["unfamiliar"])
    return found


def _resolved(path: Path) -> Path:
    return path.resolve() if isinstance(path, Path) else path  # a store would be sent a request


def _read_record(task: Task) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        record = json.loads(task.record.read_bytes())
        if isinstance(record, dict) and record.keys() >= {"of", "written", "unfamiliar"}:
            return record
    return {"of": None}

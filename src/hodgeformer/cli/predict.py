"""`hodgeformer predict`: labels, probabilities and colored meshes for files, folders and globs."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hodgeformer.base.errors import ConfigError, MeshError
from hodgeformer.base.files import files_matching, is_file, is_folder, place
from hodgeformer.cli.results import (
    DeviceOption,
    FacesOption,
    JsonOption,
    MemoryOption,
    ModelArgument,
    QuietOption,
    SmoothOption,
    TtaOption,
    UpOption,
    bar,
    byte_count,
    mesh_files,
    one_line,
    print_failed,
)

if TYPE_CHECKING:
    from hodgeformer.predict.cluster import Cluster
    from hodgeformer.predict.inference import Report
    from hodgeformer.predict.many import Job, Predicted, Task
    from hodgeformer.predict.predictor import Predictor


@dataclass
class _Done:
    """The outcomes of the inputs, of this run and of earlier ones."""

    before: dict[Path, Predicted]
    now: dict[Path, Predicted] = field(default_factory=dict)
    errors: dict[Path, Exception] = field(default_factory=dict)
    stopped: bool = False

    @property
    def unfamiliar(self) -> bool:
        return any(predicted.unfamiliar for predicted in (*self.before.values(), *self.now.values()))


def predict(
    context: typer.Context,
    model: ModelArgument,
    paths: Annotated[
        list[str],
        typer.Argument(metavar="MESH", help="Mesh files, folders (searched for meshes) or globs; local paths or URLs."),
    ],
    out: Annotated[
        str, typer.Option("--out", help="The folder for the results: a local path or a URL.")
    ] = "predictions",
    formats: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="What to write, separated by commas: ply glb obj off (colored mesh), json npz txt (numbers), png, "
            "html, or none. By default ply,json, or only json for models that label whole meshes.",
        ),
    ] = None,
    faces: FacesOption = "auto",
    memory: MemoryOption = None,
    smooth: SmoothOption = None,
    tta: TtaOption = 1,
    split_parts: Annotated[
        bool, typer.Option("--split-parts", help="Also write one mesh for each predicted part.")
    ] = False,
    element: Annotated[
        Literal["face", "vertex", "edge"] | None,
        typer.Option("--element", help="Give labels for these elements; by default those the model was trained on."),
    ] = None,
    up: UpOption = "auto",
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if a mesh is unlike the training meshes.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Predict everything again, even if the results already exist.")
    ] = False,
    engine: Annotated[
        Literal["local", "ray"], typer.Option("--engine", help="Work in this process, or on a Ray cluster.")
    ] = "local",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes for --engine ray; by default one per core.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--address", help="The address of the Ray cluster; by default RAY_ADDRESS, or this machine."),
    ] = None,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Segment or classify meshes. Results are on the original meshes, in the order of their files.

    With several meshes, those whose results already exist are skipped if model, options and file are unchanged. So a
    run that was stopped continues, and new files are added.

    Exit code 0: all meshes done. 1: some files failed (each is named), or with --strict some are unlike the training
    meshes. 2: wrong use, or all files failed. 130: stopped by Ctrl-C or SIGTERM; finished results are kept.
    """
    from hodgeformer.base.compiled import is_cached
    from hodgeformer.mesh.topology import fill_places
    from hodgeformer.predict.many import Job, done_before
    from hodgeformer.predict.predictor import Predictor

    inputs, folder = _resolve_inputs(paths), place(out)
    if is_file(folder):
        raise ConfigError(f"{out}: this is a file; --out needs a folder")
    cluster = _chosen_cluster(engine, workers, address, [folder, *inputs], on_gpu=device.startswith("cuda"))
    predictor = Predictor.load(model, "cpu" if cluster else device)
    options = {"faces": faces, "memory": byte_count(memory), "smooth": smooth, "tta": tta, "element": element, "up": up}
    job = Job(
        model=model,
        out=folder,
        suffixes=_suffixes(formats, predictor, split_parts),
        options=options,
        device="cuda" if cluster and cluster.on_gpu else device,  # a worker sees only its own GPU
        split_parts=split_parts,
        with_content=as_json,
    )
    tasks = job.tasks(inputs)
    # A user who names a single mesh wants its answer.
    done = _Done({} if again or len(tasks) == 1 else done_before(tasks))
    left = [task for task in tasks if task.path not in done.before]
    if left and cluster is None and not quiet and not is_cached(fill_places):  # every prediction needs it
        print("compiling for this processor, once: about 7 s", file=sys.stderr)
    _predict_all(job, predictor, cluster, left, done, quiet=quiet)
    if len(paths) == 1 and len(inputs) == 1 and done.errors and not is_folder(place(paths[0])):
        raise next(iter(done.errors.values()))
    _report(done, job, tasks, context)
    if done.stopped:
        n_left = len(left) - len(done.now) - len(done.errors)
        print(f"hodgeformer: stopped; meshes left: {n_left}; run the same command to continue", file=sys.stderr)
        raise typer.Exit(130)
    if done.errors or (strict and done.unfamiliar):
        raise typer.Exit(1)


def _chosen_cluster(
    engine: str, workers: int | None, address: str | None, places: Iterable[Path], *, on_gpu: bool
) -> Cluster | None:
    """The cluster that the options of an engine name; None for this process."""
    if engine == "local":
        if workers is not None or address is not None:
            raise ConfigError("--workers and --address need --engine ray")
        return None
    from hodgeformer.predict.cluster import Cluster

    inside = next((str(path) for path in places if str(path).startswith("memory://")), None)
    if inside is not None:
        raise ConfigError(f"{inside}: other processes cannot read the memory of this process; use --engine local")
    return Cluster(address, workers, on_gpu)


def _resolve_inputs(paths: list[str]) -> dict[Path, PurePath]:
    """Each mesh file once, in the order given, with its path relative to the given folder (or its own name).

    A file that does not exist is kept, and fails later like other bad files.
    """
    found: dict[Path, PurePath] = {}
    for text in paths:
        for path, below in _resolved(text).items():
            found.setdefault(path, below)
    return found


def _resolved(text: str) -> dict[Path, PurePath]:
    path = place(text)
    if is_folder(path):
        return {file: PurePosixPath(str(file.relative_to(path))) for file in mesh_files(path)}
    if any(letter in text for letter in "*?[") and not is_file(path):
        matches = files_matching(text)
        if not matches:
            raise MeshError(f"{text}: no file matches")
        return {match: PurePosixPath(match.name) for match in matches}
    return {path: PurePosixPath(path.name)}


def _suffixes(formats: str | None, predictor: Predictor, split_parts: bool) -> tuple[str, ...]:
    from hodgeformer.predict.result import FORMATS

    whole = predictor.info.model.target_kind is None
    if split_parts and (whole or predictor.info.model.task != "segmentation"):
        raise ConfigError(f"--split-parts needs a segmentation model; '{predictor.info.name}' is not one")
    if formats is None:
        return (".json",) if whole else (".ply", ".json")
    suffixes = [f".{name.strip().lower().lstrip('.')}" for name in formats.split(",") if name.strip()]
    suffixes = [suffix for suffix in suffixes if suffix != ".none"]
    unknown = [suffix for suffix in suffixes if suffix not in FORMATS]
    if unknown:
        raise ConfigError(
            f"--format {unknown[0][1:]} is not supported; use {', '.join(s[1:] for s in FORMATS)} or none"
        )
    return tuple(dict.fromkeys(suffixes))


def _predict_all(
    job: Job, predictor: Predictor, cluster: Cluster | None, tasks: list[Task], done: _Done, *, quiet: bool
) -> None:
    with bar("predicting", quiet=quiet) as progress:

        def worked(share: float) -> None:
            progress(len(done.now) + len(done.errors) + share, len(tasks))

        with closing(_outcomes(job, predictor, cluster, tasks, worked)) as outcomes:
            try:
                for task, outcome in outcomes:
                    if isinstance(outcome, Exception):
                        outcome.add_note(f"{task.path}:")
                        done.errors[task.path] = outcome
                    else:
                        done.now[task.path] = outcome
                    worked(0)
            except KeyboardInterrupt:
                done.stopped = True


def _outcomes(
    job: Job, predictor: Predictor, cluster: Cluster | None, tasks: list[Task], report: Report
) -> Generator[tuple[Task, Predicted | Exception]]:
    if cluster is None or not tasks:
        yield from zip(tasks, job.work(predictor, tasks, report), strict=True)
    else:
        yield from cluster.spread(job.opened, tasks)


def _report(done: _Done, job: Job, tasks: list[Task], context: typer.Context) -> None:
    now = {task.path: done.now[task.path] for task in tasks if task.path in done.now}
    if job.with_content:
        content = {
            "model": job.model,
            "results": [predicted.content for predicted in now.values()],
            "failed": [{"file": str(path), "error": one_line(error, path)} for path, error in done.errors.items()],
            "done_before": [
                {"file": str(path), "written": [str(file) for file in predicted.written]}
                for path, predicted in done.before.items()
            ],
        }
        print(json.dumps(content, allow_nan=False))
    else:
        for path, predicted in now.items():
            print(f"{path}: {predicted.answer}")
    print_failed(done.errors, context)
    if not job.with_content:
        n_files = sum(len(predicted.written) for predicted in now.values())
        n_asked = len(tasks) - len(done.before)
        parts = [f"{len(now)} of {n_asked} meshes done"] if n_asked else []
        if n_files:
            parts.append(f"{n_files} files in {job.out}")
        if done.before:
            parts.append(f"{len(done.before)} skipped, their results exist (--again predicts them again)")
        print(", ".join(parts))

"""`hodgeformer predict`: labels, probabilities and colored meshes for files, folders and globs."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.files import is_file, is_folder, place
from hodgeformer.cli.results import (
    DeviceOption,
    ElementOption,
    FacesOption,
    JsonOption,
    MemoryOption,
    ModelArgument,
    QuietOption,
    SmoothOption,
    TtaOption,
    UpOption,
    bar,
    mesh_inputs,
    one_line,
    options_of,
    print_failed,
)

if TYPE_CHECKING:
    from hodgeformer.predict.cluster import Cluster
    from hodgeformer.predict.many import Job, Predicted, Task
    from hodgeformer.predict.model_info import ModelInfo
    from hodgeformer.predict.predictor import Predictor

Outcomes = dict[Path, "Predicted | Exception"]
_PATHS = "Mesh files, folders (searched for meshes) or globs; local paths or URLs."
_FORMATS = (
    "What to write, separated by commas: ply glb obj off (colored mesh), json npz txt (numbers), png, html, or none. "
    "By default ply,json, or only json for models that label whole meshes."
)


def predict(
    context: typer.Context,
    model: ModelArgument,
    paths: Annotated[list[str], typer.Argument(metavar="MESH", help=_PATHS)],
    out: Annotated[str, typer.Option(help="The folder for the results: a local path or a URL.")] = "predictions",
    formats: Annotated[str | None, typer.Option("--format", help=_FORMATS)] = None,
    faces: FacesOption = "auto",
    memory: MemoryOption = None,
    smooth: SmoothOption = None,
    tta: TtaOption = 1,
    split_parts: Annotated[bool, typer.Option("--split-parts", help="Also write every part as a mesh.")] = False,
    element: ElementOption = None,
    up: UpOption = "auto",
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if a mesh is unlike the training meshes.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Predict everything again, even if the results already exist.")
    ] = False,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="Work here, or on a Ray cluster.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes for --engine ray; by default one per core.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="The address of the Ray cluster; by default RAY_ADDRESS, or this machine.")
    ] = None,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Segment or classify meshes. Results are on the original meshes, in the order of their files.

    With several meshes, those whose results already exist are skipped if model, options and file are unchanged. So a
    run that was stopped continues, and new files are added.

    Exit code 0: all meshes done. 1: some files failed (each is named), or with --strict some are unlike the training
    meshes. 2: wrong use, or a single file that cannot be used. 130: stopped by Ctrl-C or SIGTERM; finished results are
    kept.
    """
    from hodgeformer.mesh.topology import fill_places
    from hodgeformer.predict.many import Job, Predicted, done_before
    from hodgeformer.predict.predictor import Predictor

    inputs, folder, options = mesh_inputs(paths), place(out), options_of(context)
    if is_file(folder):
        raise ConfigError(f"{out}: this is a file; --out needs a folder")
    cluster = _chosen_cluster(engine, workers, address, [folder, *inputs], on_gpu=device.startswith("cuda"))
    predictor = Predictor.load(model, "cpu" if cluster else device)
    device = "cuda" if cluster and cluster.on_gpu else device  # a worker sees only its own GPU
    suffixes = _suffixes(formats, predictor.info, split_parts)
    job = Job(model, folder, suffixes, options, device, split_parts=split_parts, with_content=as_json)
    tasks = job.tasks(inputs)
    # A user who names a single mesh wants its answer.
    before = {} if again or len(tasks) == 1 else done_before(tasks)
    left = [task for task in tasks if task.path not in before]
    if left and cluster is None and not quiet and not _is_cached(fill_places):  # every prediction needs it
        print("compiling for this processor, once: about 7 s", file=sys.stderr)
    outcomes, stopped = _predict_all(job, predictor, cluster, left, quiet=quiet)
    errors = {path: outcome for path, outcome in outcomes.items() if isinstance(outcome, Exception)}
    now = {task.path: found for task in left if isinstance(found := outcomes.get(task.path), Predicted)}
    if errors and len(inputs) == len(paths) == 1 and not is_folder(place(paths[0])):
        raise next(iter(errors.values()))
    _report(job, before, now, errors, len(left), context)
    if stopped:
        n_left = len(left) - len(outcomes)
        print(f"hodgeformer: stopped; meshes left: {n_left}; run the same command to continue", file=sys.stderr)
        raise typer.Exit(130)
    if errors or (strict and any(found.unfamiliar for found in (*before.values(), *now.values()))):
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


def _suffixes(formats: str | None, info: ModelInfo, split_parts: bool) -> tuple[str, ...]:
    from hodgeformer.predict.result import known_format

    whole = info.model.target_kind is None
    if split_parts and (whole or info.model.task != "segmentation"):
        raise ConfigError(f"--split-parts needs a segmentation model; '{info.name}' is not one")
    names = ("json" if whole else "ply,json") if formats is None else formats
    given = dict.fromkeys(name.strip().lower().lstrip(".") for name in names.split(","))
    return tuple(known_format(f".{name}", "--format") for name in given if name not in ("", "none"))


def _is_cached(function: Any) -> bool:
    """Whether some machine code of a compiled function is on disk."""
    folder = function.stats.cache_path
    return folder is not None and any(Path(folder).glob(f"*.{function.__name__}-*.nbi"))


def _predict_all(
    job: Job, predictor: Predictor, cluster: Cluster | None, tasks: list[Task], *, quiet: bool
) -> tuple[Outcomes, bool]:
    """The outcomes, and whether the user stopped the work."""
    outcomes: Outcomes = {}
    with bar("predicting", quiet=quiet) as progress:

        def report(share: float) -> None:
            progress(len(outcomes) + share, len(tasks))

        def work() -> Generator[tuple[Task, Predicted | Exception]]:
            if cluster is None or not tasks:
                yield from zip(tasks, job.work(predictor, tasks, report), strict=True)
            else:
                yield from cluster.spread(job.opened, tasks)

        with closing(work()) as found:
            try:
                for task, outcome in found:
                    if isinstance(outcome, Exception):
                        outcome.add_note(f"{task.path}:")
                    outcomes[task.path] = outcome
                    report(0)
            except KeyboardInterrupt:
                return outcomes, True
    return outcomes, False


def _report(
    job: Job,
    before: Mapping[Path, Predicted],
    now: Mapping[Path, Predicted],
    errors: Mapping[Path, Exception],
    n_asked: int,
    context: typer.Context,
) -> None:
    """Print what was done, as text or as JSON, and what failed."""
    if job.with_content:
        done = ({"file": str(path), "written": list(map(str, found.written))} for path, found in before.items())
        content = {
            "model": job.model,
            "results": [found.content for found in now.values()],
            "failed": [{"file": str(path), "error": one_line(error, path)} for path, error in errors.items()],
            "done_before": list(done),
        }
        print(json.dumps(content, allow_nan=False))
        print_failed(errors, context)
        return
    for path, found in now.items():
        print(f"{path}: {found.answer}")
    print_failed(errors, context)
    n_files = sum(len(found.written) for found in now.values())
    parts = [f"{len(now)} of {n_asked} meshes done"] if n_asked else []
    parts += [f"{n_files} files in {job.out}"] if n_files else []
    parts += [f"{len(before)} skipped, their results exist (--again predicts them again)"] if before else []
    print(", ".join(parts))

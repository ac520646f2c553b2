"""`hodgeformer predict`: labels, probabilities and colored meshes for files, folders and globs."""

from __future__ import annotations

import glob
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hodgeformer.cli.results import (
    FacesOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    UpOption,
    bar,
    mesh_files,
    one_line,
    print_failed,
)
from hodgeformer.errors import ConfigError, MeshError

if TYPE_CHECKING:
    from hodgeformer.predict.predictor import Predictor
    from hodgeformer.predict.result import Result


@dataclass
class _Done:
    """What came of the inputs."""

    written: dict[Path, list[Path]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    errors: dict[Path, Exception] = field(default_factory=dict)
    unfamiliar: int = 0
    stopped: bool = False


def predict(
    context: typer.Context,
    model: ModelArgument,
    paths: Annotated[list[str], typer.Argument(help="Mesh files, folders that are searched for meshes, or globs.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write into.")] = Path("predictions"),
    formats: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="What to write, with commas: ply glb obj off (colored mesh), json npz txt (numbers), png, html, or "
            "none. By default ply,json, and json alone for models of whole meshes.",
            show_default=False,
        ),
    ] = None,
    faces: FacesOption = "auto",
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", help="Keep to so much memory, as 4GB; by default most of what is free.", show_default=False
        ),
    ] = None,
    smooth: Annotated[bool, typer.Option("--smooth", help="Clean part boundaries over the mesh.")] = False,
    tta: Annotated[int, typer.Option("--tta", min=1, help="Average over so many rotations.")] = 1,
    split_parts: Annotated[
        bool, typer.Option("--split-parts", help="Also write one mesh for each predicted part.")
    ] = False,
    element: Annotated[
        Literal["face", "vertex", "edge"] | None,
        typer.Option("--element", help="Answer for these; by default as the model was trained.", show_default=False),
    ] = None,
    up: UpOption = "auto",
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 1 if a mesh is unlike those that the model knows.")
    ] = False,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave out meshes whose results are there: go on after a stop.")
    ] = False,
    device: Annotated[str, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:1, ...")] = "cpu",
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Segment or classify meshes. Results are on the original meshes, in the order of their files.

    Exit code 0: all done. 1: some files could not be used, each is named, or with --strict are unlike what the model
    knows. 2: wrong use, or nothing could be done. 130: stopped by Ctrl-C or SIGTERM; what is done is kept.
    """
    from hodgeformer.predict.predictor import Predictor

    inputs = _resolve_inputs(paths)
    predictor = Predictor.load(model, device)
    suffixes = _suffixes(formats, predictor, split_parts)
    targets = _named_outputs(inputs, out, suffixes)
    if skip_existing:
        targets = {path: target for path, target in targets.items() if not _is_there(target, suffixes)}
    options = {"faces": faces, "memory": _bytes(memory), "smooth": smooth, "tta": tta, "element": element, "up": up}
    done = _predict_all(
        predictor, targets, suffixes, split_parts=split_parts, quiet=quiet, as_json=as_json, options=options
    )
    if len(paths) == 1 and len(inputs) == 1 and done.errors and not Path(paths[0]).is_dir():
        raise next(iter(done.errors.values()))
    _report(done, model, out, context, as_json=as_json)
    if done.stopped:
        left = len(targets) - len(done.written) - len(done.errors)
        print(
            f"hodgeformer: stopped, {left} meshes are left; go on with the same words and --skip-existing",
            file=sys.stderr,
        )
        raise typer.Exit(130)
    if done.errors or (strict and done.unfamiliar):
        raise typer.Exit(1)


def _bytes(text: str | None) -> int | None:
    """4GB, 500 MB or 2.5g as a number of bytes."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9.]+) *([kmgt]?)i?b?", text.strip().lower())
    try:
        return int(float(found[1]) * 1024 ** "kmgt".find(found[2] or " ") * 1024) if found else int(text)
    except ValueError:
        raise ConfigError(f"--memory {text}: expected a size such as 4GB or 800MB") from None


def _resolve_inputs(paths: list[str]) -> dict[Path, Path]:
    """Mesh files, each once, in the order given, and their place below the folder that was named (or their own name).

    A file that does not exist is kept, to be reported with the others.
    """
    found: dict[Path, Path] = {}
    for text in paths:
        for path, place in _resolved(text).items():
            found.setdefault(path, place)
    return found


def _resolved(text: str) -> dict[Path, Path]:
    path = Path(text)
    if path.is_dir():
        return {file: file.relative_to(path) for file in mesh_files(path)}
    if not path.exists() and any(letter in text for letter in "*?["):
        # Path.glob takes no absolute patterns.
        matches = [Path(match) for match in sorted(glob.glob(text, recursive=True)) if Path(match).is_file()]  # noqa: PTH207
        if not matches:
            raise MeshError(f"{text}: no file matches")
        return {match: Path(match.name) for match in matches}
    return {path: Path(path.name)}


def _named_outputs(inputs: dict[Path, Path], out: Path, suffixes: list[str]) -> dict[Path, Path]:
    """For each input the output without suffix. Inputs that share a name keep their suffix in it.

    Nothing that was given is ever overwritten.
    """
    stems = Counter(place.with_suffix("") for place in inputs.values())
    targets = {}
    for path, place in inputs.items():
        stem = place.with_suffix("")
        targets[path] = out / (stem if stems[stem] == 1 else place)
    taken = Counter(targets.values())
    read = {path.resolve() for path in inputs}
    for path, target in targets.items():
        if taken[target] > 1:
            raise ConfigError(f"{path}: several inputs would be written as {target}; name their folder")
        for suffix in suffixes:
            written = target.with_name(target.name + suffix)
            if written.resolve() in read:
                raise ConfigError(f"{written} would be overwritten by its own result; choose another --out")
    return targets


def _is_there(target: Path, suffixes: list[str]) -> bool:
    return bool(suffixes) and all(target.with_name(target.name + suffix).is_file() for suffix in suffixes)


def _suffixes(formats: str | None, predictor: Predictor, split_parts: bool) -> list[str]:
    from hodgeformer.predict.result import FORMATS

    whole = predictor.checkpoint.model.target_kind is None
    if split_parts and (whole or predictor.checkpoint.model.task != "segmentation"):
        raise ConfigError(f"--split-parts needs a segmentation; '{predictor.checkpoint.name}' is none")
    if formats is None:
        return [".json"] if whole else [".ply", ".json"]
    suffixes = [f".{name.strip().lower().lstrip('.')}" for name in formats.split(",") if name.strip()]
    suffixes = [suffix for suffix in suffixes if suffix != ".none"]
    unknown = [suffix for suffix in suffixes if suffix not in FORMATS]
    if unknown:
        raise ConfigError(f"--format {unknown[0][1:]} is not known; use {', '.join(s[1:] for s in FORMATS)} or none")
    return list(dict.fromkeys(suffixes))


def _predict_all(
    predictor: Predictor,
    targets: dict[Path, Path],
    suffixes: list[str],
    *,
    split_parts: bool,
    quiet: bool,
    as_json: bool,
    options: dict[str, Any],
) -> _Done:
    done = _Done()
    with bar("predicting", quiet=quiet) as told:

        def worked(share: float) -> None:
            told(len(done.written) + len(done.errors) + share, len(targets))

        def failed(path: Any, error: Exception) -> None:
            error.add_note(f"{path}:")
            done.errors[Path(path)] = error
            worked(0)

        try:
            for result in predictor.predict_many(targets, on_error=failed, report=worked, **options):
                assert result.path is not None
                try:
                    _write(result, targets[result.path], suffixes, split_parts, done, as_json=as_json)
                    worked(0)
                except Exception as error:  # a full disk, a name that cannot be written: the others go on
                    failed(result.path, error)
        except KeyboardInterrupt:
            done.stopped = True
    return done


def _write(result: Result, target: Path, suffixes: list[str], split_parts: bool, done: _Done, *, as_json: bool) -> None:
    from hodgeformer.mesh.io import save_mesh

    assert result.path is not None
    written = [target.with_name(target.name + suffix) for suffix in suffixes]
    if written or split_parts:
        target.parent.mkdir(parents=True, exist_ok=True)
    for path in written:
        result.save(path)
    if split_parts:
        for name, part in result.parts():
            plain = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)
            written.append(target.with_name(f"{target.name}_{plain}.ply"))
            save_mesh(part, written[-1])
    done.written[result.path] = written
    done.unfamiliar += bool(result.warnings)
    if as_json:
        done.records.append(_record(result, written))
    else:
        done.lines.append(f"{result.path}: {_answer(result)}")


def _record(result: Result, written: list[Path]) -> dict[str, Any]:
    record = result.to_dict()
    if result.task == "segmentation":
        # Long; --format json writes them.
        del record["probabilities"]
    return record | {"written": [str(path) for path in written]}


def _answer(result: Result) -> str:
    """A line for a person, and one for each thing to know."""
    known = "" if result.familiarity is None else f"familiarity {result.familiarity:.2f}"
    unlike = (f"unlike what the model knows: {text}" for text in result.warnings)
    return "\n  ".join([result.summary, *filter(None, [result.resolution, known, *unlike])])


def _report(done: _Done, model: str, out: Path, context: typer.Context, *, as_json: bool) -> None:
    if as_json:
        failed = [{"file": str(path), "error": one_line(error, path)} for path, error in done.errors.items()]
        print(json.dumps({"model": model, "results": done.records, "failed": failed}, allow_nan=False))
    else:
        for line in done.lines:
            print(line)
    print_failed(done.errors, context)
    if not as_json:
        n_files = sum(len(paths) for paths in done.written.values())
        summary = f"{len(done.written)} of {len(done.written) + len(done.errors)} meshes done"
        print(f"{summary}, {n_files} files in {out}" if n_files else summary)

"""`hodgeformer demo`: a trained model, colored meshes, pictures and an HTML page in a minute or two."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hodgeformer.base.errors import ConfigError

if TYPE_CHECKING:
    from hodgeformer.data.dataset import DataSet
    from hodgeformer.predict.result import Result
    from hodgeformer.training.outcome import Outcome

N_TRAIN, N_TEST, N_FACES = 80, 8, (500, 700)
EPOCHS = 30
SETTINGS = (
    "prepare.pose=frame_average",
    'model.blocks="HHT"',
    "model.d_model=64",
    "model.n_heads=2",
    "model.d_hidden=128",
    "train.batch_size=4",
    "train.lr=3e-3",
    "train.label_smoothing=0.1",
    "train.eval_every=1000",
)


def demo(
    out: Annotated[
        Path | None, typer.Option(help="The folder to create; by default demo, or demo-2 and so on.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="The number of epochs to train.")] = EPOCHS,
    seed: Annotated[int, typer.Option(min=0, help="The seed for the data set and the model.")] = 0,
) -> None:
    """Train on a small built-in data set, predict, draw pictures.

    Writes the data set, the run, predictions for unseen meshes, pictures and an HTML page. Needs no arguments and
    no downloads, and takes less than two minutes on two cores.
    """
    from hodgeformer.cli.train_display import train

    began = time.monotonic()
    out = _free_folder() if out is None else out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists and is not empty; choose another folder with --out")
    dataset = _make_data(out / "data", seed)
    outcome = train(out / "data", out / "run", epochs=epochs, overrides=[*SETTINGS, f"train.seed={seed}"])
    results = _predict(dataset, outcome.chosen, out / "results")
    _write_page(dataset, results, out / "page.html")
    _print_summary(out, outcome, results, time.monotonic() - began)


def _free_folder() -> Path:
    names = ("demo" if i == 1 else f"demo-{i}" for i in count(1))
    return next(path for path in map(Path, names) if not path.exists())


def _make_data(folder: Path, seed: int) -> DataSet:
    from rich.console import Console

    from hodgeformer.data.folder import open_folder, write_folder
    from hodgeformer.data.synthetic import synthetic_figures

    with Console(stderr=True).status(f"making {N_TRAIN + N_TEST} labeled figures"):
        write_folder(synthetic_figures(n_train=N_TRAIN, n_test=N_TEST, n_faces=N_FACES, seed=seed), folder)
        return open_folder(folder)


def _predict(dataset: DataSet, model: Path, folder: Path) -> list[Result]:
    from rich.console import Console

    from hodgeformer.predict.predictor import Predictor

    folder.mkdir(parents=True)
    files = [sample.mesh for sample in dataset.split("test") if isinstance(sample.mesh, Path)]
    with Console(stderr=True).status("predicting unseen meshes and drawing pictures"):
        results = list(Predictor.load(model).predict_many(files))
        for result in results:
            for suffix in (".ply", ".glb", ".png"):
                result.save(folder / f"{result.mesh.name}{suffix}")
    return results


def _write_page(dataset: DataSet, results: list[Result], path: Path) -> None:
    from dataclasses import replace

    from hodgeformer.draw.page import page

    scenes = []
    for sample, result in zip(dataset.split("test"), results, strict=True):
        _, truth = dataset.load(sample)
        right = (truth == result.labels).mean()
        scenes.append(replace(result.scene(truth), caption=f"{right:.1%} of the faces correct"))
    path.write_text(page(scenes, title="hodgeformer demo"), encoding="utf-8")


def _print_summary(out: Path, outcome: Outcome, results: list[Result], seconds: float) -> None:
    assert outcome.scores is not None
    accuracy = f"{outcome.scores.main:.1%} face accuracy on {len(results)} unseen meshes"
    width = len(str(out / "page.html"))
    shown = {
        "page.html": "all predictions in 3D: open it in a browser",
        "results": "the predictions as colored PLY and GLB files and as pictures",
        "run": "the model, and report.html about its training",
        "data": "the data set, in the layout that your own data can have",
    }
    print(f"\n{accuracy} after {outcome.epochs} epochs, {seconds:.0f} s in total\n")
    for name, what in shown.items():
        print(f"  {out / name!s:<{width}}  {what}")
    print(f"""
Try next
  hodgeformer predict {out / "run"} {out / "data" / "meshes"} --out {out / "more"} --format glb,png
  hodgeformer info {out / "run"}
  hodgeformer check YOUR_FOLDER    check your own meshes and labels
  hodgeformer train YOUR_FOLDER    train on your own data""")

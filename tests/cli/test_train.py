"""train and evaluate from the command line: end to end, resumed, and refused where data or folder are bad."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from command import options, run
from hodgeformer.cli.evaluate import score_rows
from hodgeformer.data.folder import write_folder
from hodgeformer.data.open import open_dataset
from hodgeformer.predict.checkpoint import load_checkpoint
from hodgeformer.predict.predictor import Predictor
from hodgeformer.training.metrics import Scores
from tiny_sets import TINY, shapes

SETTINGS = options(*TINY)


@pytest.fixture(scope="module")
def trained(eggs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    result = run("train", eggs, "--out", out, *SETTINGS, "--set", "train.epochs=20")
    assert result.exit_code == 0, result.stderr
    assert "test face accuracy: " in result.stdout and "report: " in result.stdout
    return out


def refused(result: Result, *words: str) -> None:
    assert result.exit_code == 2, result.stdout
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


def test_a_run_folder_is_complete(trained: Path) -> None:
    names = {path.name for path in trained.iterdir()}
    assert names == {
        "config.toml",
        "metrics.csv",
        "best.safetensors",
        "last.safetensors",
        "state.safetensors",
        "env.json",
        "report.html",
    }
    report = (trained / "report.html").read_text()
    assert "<svg" in report and "data:image/png;base64," in report and "Confusion" in report
    assert "http" not in report.replace("http-equiv", "")
    losses, accuracies = re.findall(r"<svg.*?</svg>", report)
    colors = re.findall(r'<polyline points="[^"]+"[^>]* stroke="(.{7})"', accuracies)
    assert len(colors) == len(set(colors)) == 2 and "<polyline" in losses  # of train and test
    legend = max(float(y) for y in re.findall(r'y="([\d.]+)">(?:train|test)<', accuracies))
    drawn = re.findall(r'<polyline points="([^"]+)"', accuracies)
    assert legend < min(float(point.split(",")[1]) for line in drawn for point in line.split())
    assert len((trained / "metrics.csv").read_text().splitlines()) == 21
    checkpoint = load_checkpoint(trained / "best.safetensors")
    assert checkpoint.classes == ("bottom", "middle", "top") and checkpoint.statistics is not None
    assert checkpoint.statistics.n["f"] == (80, 80, 80)


def test_evaluate_names_what_it_counts(trained: Path, eggs: Path) -> None:
    result = run("evaluate", trained, eggs, "--json")
    assert result.exit_code == 0, result.stderr
    scores = json.loads(result.stdout)
    saved = load_checkpoint(trained / "best.safetensors").metrics
    assert {f"test_{name}": value for name, value in scores["metrics"].items()} == pytest.approx(dict(saved))
    assert scores["metrics"]["face_accuracy"] > 0.9
    assert (scores["split"], scores["n_meshes"], scores["element"]) == ("test", 2, "face")
    assert sum(map(sum, scores["confusion"])) == 160
    assert "face_accuracy_interval_95" not in scores
    assert "(no interval from 2 meshes: " in run("evaluate", trained, eggs).stdout
    shown = run("evaluate", trained / "last.safetensors", eggs, "--split", "train")
    assert "train face accuracy area weighted: " in shown.stdout and "bottom" in shown.stdout


def test_smoothed_answers_are_scored(trained: Path, eggs: Path) -> None:
    """As `predict --smooth` answers."""
    scored = json.loads(run("evaluate", trained, eggs, "--json", "--smooth").stdout)
    dataset = open_dataset(eggs)
    predictor = Predictor.load(trained)
    right = total = 0
    for sample in dataset.split("test"):
        mesh, labels = dataset.load(sample)
        right += int((predictor.predict(mesh, smooth=True).labels == labels).sum())
        total += len(labels)
    assert scored["smooth"] and scored["metrics"]["face_accuracy"] == pytest.approx(right / total)
    plain = json.loads(run("evaluate", trained, eggs, "--json").stdout)
    assert scored["calibration"] != plain["calibration"]


def test_rotations_are_averaged(trained: Path, eggs: Path) -> None:
    plain, turned = (
        json.loads(run("evaluate", trained, eggs, "--json", *extra).stdout) for extra in ((), ("--tta", 4))
    )
    assert (plain["rotations"], turned["rotations"]) == (1, 4) and turned["confusion"] != plain["confusion"]


def test_evaluate_writes_a_table_with_what_it_was_made_of(trained: Path, eggs: Path, tmp_path: Path) -> None:
    scores = json.loads(run("evaluate", trained, eggs, "--json", "--out", tmp_path / "new" / "scores.csv").stdout)
    with (tmp_path / "new" / "scores.csv").open() as stream:
        rows = {row["score"]: row for row in csv.DictReader(stream)}
    assert float(rows["face accuracy"]["value"]) == round(scores["metrics"]["face_accuracy"], 4)
    assert not rows["face accuracy"].get("interval_low")
    known = Scores("face", {"face_accuracy": 0.5}, (0.4, 0.6), ("a", "b"))
    assert score_rows(known)[0] == {"score": "face accuracy", "value": 0.5, "interval_low": 0.4, "interval_high": 0.6}
    assert sum(name.startswith("IoU of ") for name in rows) == len(scores["per_class"])
    record = json.loads((tmp_path / "new" / "scores.json").read_text())
    assert record["confusion"] == scores["confusion"] and record["environment"]["versions"]["torch"]


def test_evaluate_says_that_a_split_it_was_calibrated_on_is_no_test(trained: Path, eggs: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes((trained / "best.safetensors").read_bytes())
    assert "confidence was fitted to train, so" in run("evaluate", copy, eggs, "--calibrate", "--split", "train").stdout
    scores = json.loads(run("evaluate", copy, eggs, "--json", "--calibrate", "--split", "train").stdout)
    assert scores["calibrated_on"] == "train"
    assert "fitted to" not in run("evaluate", copy, eggs).stdout


def test_evaluate_refuses_other_tasks_and_classes(trained: Path, eggs: Path, tmp_path: Path) -> None:
    write_folder(shapes(), tmp_path / "shapes")
    refused(run("evaluate", trained, tmp_path / "shapes"), "classification", "segmentation per face")
    refused(run("evaluate", trained, eggs, "--split", "val"), "unknown split 'val'")
    shutil.copytree(eggs, tmp_path / "renamed")
    spec = tmp_path / "renamed" / "dataset.toml"
    spec.write_text(spec.read_text().replace('"top"', '"tip"'))
    refused(run("evaluate", trained, tmp_path / "renamed"), "'tip'")


def test_resume_goes_on_and_a_finished_run_stays(trained: Path, eggs: Path, tmp_path: Path) -> None:
    before = (trained / "best.safetensors").read_bytes()
    result = run("train", "--resume", trained)
    assert result.exit_code == 0, result.stderr
    assert (trained / "best.safetensors").read_bytes() == before
    assert f": hodgeformer train --resume {trained} --epochs 10" in result.stderr
    refused(run("train", eggs, "--out", trained), "already contains a run", "--resume")
    refused(run("train", "--resume", tmp_path), "not a run folder")
    refused(run("train", "--resume", trained, "--set", "train.lr=1"), "remove --set")
    refused(run("train"), "name the data to train on")


def test_a_finished_run_is_extended(eggs: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run("train", eggs, "--out", out, *SETTINGS, "--epochs", 3).exit_code == 0
    before = (out / "best.safetensors").read_bytes()
    result = run("train", "--resume", out, "--epochs", 2)
    assert result.exit_code == 0, result.stderr
    assert "5 epochs in " in result.stdout
    assert re.search(r"after 3 epochs, .* 0\.005 ", result.stderr)
    assert (out / "best-3.safetensors").read_bytes() == before != (out / "best.safetensors").read_bytes()
    assert len((out / "metrics.csv").read_text().splitlines()) == 6
    refused(run("train", "--resume", out, "--minutes", 1), "in epochs; extend it by epochs")
    refused(run("train", "--resume", out, "--epochs", 2, "--set", "train.lr=1"), "remove --set")


def test_fine_tuning_from_a_run(trained: Path, eggs: Path, tmp_path: Path) -> None:
    options = ["--set", "train.epochs=1", "--set", "train.workers=0", "--set", "train.lr=1e-9"]
    result = run("train", eggs, "--out", tmp_path / "fine", "--from", trained, *options)
    assert result.exit_code == 0, result.stderr
    first, second = (load_checkpoint(root / "best.safetensors") for root in (trained, tmp_path / "fine"))
    assert second.model == first.model and second.prepare == first.prepare
    assert second.metrics["test_face_accuracy"] == pytest.approx(first.metrics["test_face_accuracy"], abs=0.02)


def test_a_dry_run_shows_the_plan_and_writes_nothing(eggs: Path, tmp_path: Path) -> None:
    result = run("train", eggs, "--out", tmp_path / "run", "--dry-run", *SETTINGS)
    assert result.exit_code == 0, result.stderr
    for shown in ("[train]", "epochs = 150", "parameters, 2 steps per epoch", " minute", "GB of peak memory"):
        assert shown in result.stdout
    assert not (tmp_path / "run").exists()


def test_the_self_test_learns_or_says_so(eggs: Path, tmp_path: Path) -> None:
    result = run("train", eggs, "--self-test", *SETTINGS)
    assert result.exit_code == 0, result.stderr
    assert "% face accuracy after" in result.stdout
    refused(run("train", eggs, "--self-test", *SETTINGS, "--set", "train.lr=1e-12"), "could not memorize")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda root: (root / "labels" / "train_1.txt").unlink(), ("train_1.txt", "missing")),
        (lambda root: (root / "labels" / "test_0.txt").write_text("0\n" * 79), ("test_0.txt", "79 labels", "80 face")),
        (lambda root: (root / "labels" / "train_2.txt").write_text("7\n" * 80), ("train_2.txt", "label 7")),
        (lambda root: (root / "meshes" / "train_3.ply").write_bytes(b"ply\nnonsense"), ("train_3.ply",)),
    ],
    ids=["missing label file", "wrong count", "unknown class", "corrupt mesh"],
)
def test_bad_data_is_named_before_training(eggs: Path, tmp_path: Path, damage: object, words: tuple[str]) -> None:
    root = tmp_path / "data"
    shutil.copytree(eggs, root)
    damage(root)  # type: ignore[operator]
    refused(run("train", root, "--out", tmp_path / "run", *SETTINGS), *words, "--skip-bad")
    assert not (tmp_path / "run").exists()


def test_bad_meshes_can_be_skipped_and_stay_skipped(eggs: Path, tmp_path: Path) -> None:
    root = tmp_path / "data"
    shutil.copytree(eggs, root)
    (root / "meshes" / "train_3.ply").write_bytes(b"ply\nnonsense")
    out = tmp_path / "run"
    result = run("train", root, "--out", out, "--skip-bad", *SETTINGS, "--set", "train.epochs=1")
    assert result.exit_code == 0 and "skipped: " in result.stderr and "train_3.ply" in result.stderr
    statistics = load_checkpoint(out / "best.safetensors").statistics
    assert statistics is not None and statistics.n_meshes == 5
    assert run("train", "--resume", out).exit_code == 0


def test_an_empty_split_and_a_wrong_setting_are_refused(eggs: Path, tmp_path: Path) -> None:
    refused(run("train", eggs, "--out", tmp_path / "run", "--set", "train.epoch=3"), "did you mean 'epochs'")
    root = tmp_path / "data"
    shutil.copytree(eggs, root)
    spec = (root / "dataset.toml").read_text()
    (root / "dataset.toml").write_text(spec[: spec.index("[split]")] + "[split]\ntrain = []\ntest = 0.5\n")
    refused(run("train", root, "--out", tmp_path / "run"), "split 'train'")


def test_a_folder_that_cannot_be_written_is_refused(eggs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = run("train", eggs, "--out", tmp_path / "file" / "run", *SETTINGS, "--set", "train.epochs=1")
    refused(result, "file/run", "cannot be created")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    refused(run("train", eggs, "--out", tmp_path / "full", *SETTINGS), "not empty")


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on file sizes there")
def test_a_full_disk_stops_the_run_and_keeps_the_last_checkpoint(eggs: Path, tmp_path: Path) -> None:
    """A limit on the size of files is a disk that is full: the system refuses the write."""
    import resource
    import signal

    out = tmp_path / "run"
    assert run("train", eggs, "--out", out, *SETTINGS, "--set", "train.epochs=2").exit_code == 0
    (out / "state.safetensors").unlink()  # so that it begins again
    finished = {name: (out / name).read_bytes() for name in ("best.safetensors", "last.safetensors")}
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(finished["last.safetensors"]) // 2, limit[1]))
        result = run("train", "--resume", out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    for name, content in finished.items():
        assert (out / name).read_bytes() == content
        load_checkpoint(out / name)
    assert not list(out.glob(".*"))

"""Checkpoints that lie, signed anew after a change, so that only sense can refuse them: a result, or a refusal."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from attack.mutate import tally
from hodgeformer.base.errors import HodgeFormerError
from hodgeformer.cli import app
from hodgeformer.mesh.io import save_mesh
from hodgeformer.predict.checkpoint import load_checkpoint, read_tensors, save_checkpoint, write_tensors
from hodgeformer.predict.model_info import Familiarity, impression
from hodgeformer.predict.predictor import Predictor
from meshes import icosphere
from tiny_models import tiny_checkpoint

Header = dict[str, Any]
STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 7, 10**20, 1e300, -0.5, float("nan"), float("inf"), "", "none", "x" * 3000, "\x00\n", [],
    [[]], [1, 2], ["a"], {}, {"a": 1}, {"v": [1, 2, 3]}, [[300, -1, 2]], "HTD" * 2000, "auto", "\ud800",
)  # fmt: skip


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, torch.Tensor], Header]:
    """A checkpoint that has all there can be in one."""
    meshes = [icosphere(1), icosphere(2)]
    known = Familiarity.fit([impression(mesh, torch.rand(16).numpy(), None) for mesh in meshes])
    training = {"augment": {"rotation": "axis", "axis": "z"}, "train": {"lr": 1e-3}}
    full = tiny_checkpoint(
        blocks="HDT", familiarity=known, heights=(0.1, 0.2, 0.3, 0.4), temperature=1.3, training=training
    )
    path = tmp_path_factory.mktemp("honest") / "m.safetensors"
    save_checkpoint(path, full)
    return read_tensors(path, kind="model")


def places(content: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a header."""
    if way:
        yield way
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in inside:
        yield from places(value, (*way, key))


def changed(header: Header, way: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Header:
    new = copy.deepcopy(header)
    home: Any = new
    for key in way[:-1]:
        home = home[key]
    change(home, way[-1])
    return new


def lies(header: Header, rng: random.Random) -> Iterator[tuple[str, Header]]:
    """One value of the header replaced or removed."""
    ways = list(places(header))
    while True:
        way = rng.choice(ways)
        if rng.random() < 0.15:
            yield f"{way} removed", changed(header, way, lambda home, key: home.pop(key))
        else:
            value = rng.choice(STRANGE)
            yield (
                f"{way} = {str(value)[:40]!r}",
                changed(header, way, lambda home, key, v=value: home.__setitem__(key, v)),
            )


def assert_a_result_or_a_refusal(path: Path, what: str) -> None:
    try:
        predictor = Predictor(load_checkpoint(path))
        result = predictor.predict(icosphere(1))
        json.dumps(result.to_dict())
        assert result.summary
        result.scene()
    except HodgeFormerError as error:
        assert len(str(error)) < 10**5, what
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def attack(honest: tuple[dict[str, torch.Tensor], Header], path: Path, n: int, seed: int) -> None:
    tensors, header = honest
    wrong = []
    for _, (what, lie) in zip(range(n), lies(header, random.Random(seed)), strict=False):
        try:
            write_tensors(path, tensors, {k: v for k, v in lie.items() if k not in ("format", "kind")}, kind="model")
        except UnicodeEncodeError:  # cannot be written, so cannot be sent either
            continue
        try:
            assert_a_result_or_a_refusal(path, what)
        except AssertionError as error:
            wrong.append(str(error))
    tally("checkpoints whose header lies", n, f"{n - len(wrong)} a result or a refusal")
    assert not wrong, f"{len(wrong)} of {n}:\n" + "\n".join(wrong[:20])


def test_a_header_that_lies(honest: tuple[dict[str, torch.Tensor], Header], tmp_path: Path) -> None:
    attack(honest, tmp_path / "m.safetensors", 60, seed=0)


@pytest.mark.attack
def test_many_headers_that_lie(honest: tuple[dict[str, torch.Tensor], Header], tmp_path: Path) -> None:
    attack(honest, tmp_path / "m.safetensors", 2000, seed=1)


@pytest.mark.parametrize("change", ["missing", "extra", "shape", "kind", "nan"])
def test_weights_that_lie(honest: tuple[dict[str, torch.Tensor], Header], tmp_path: Path, change: str) -> None:
    tensors, header = honest
    name = "head.out.bias"
    lied = {key: value.clone() for key, value in tensors.items()}
    if change == "missing":
        del lied[name]
    elif change == "extra":
        lied["more"] = torch.zeros(3)
    elif change == "shape":
        lied[name] = lied[name][:-1].clone()
    elif change == "kind":
        lied[name] = lied[name].to(torch.complex64)
    else:
        lied[name][0] = float("nan")
    path = tmp_path / "m.safetensors"
    write_tensors(path, lied, {k: v for k, v in header.items() if k not in ("format", "kind")}, kind="model")
    save_mesh(icosphere(1), tmp_path / "ball.obj")
    answer = CliRunner().invoke(app, ["predict", str(path), str(tmp_path / "ball.obj"), "--out", str(tmp_path / "o")])
    assert answer.exit_code == 2
    assert str(path) in answer.stderr and answer.stderr.count("\n") == 1

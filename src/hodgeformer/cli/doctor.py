"""`hodgeformer doctor`: the installation and the machine it runs on."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from hodgeformer.cli.results import JsonOption

_VARIABLES = ("HODGEFORMER_DATA", "HODGEFORMER_OFFLINE", "OMP_NUM_THREADS", "NO_COLOR")


def doctor(
    warm: Annotated[
        bool, typer.Option("--warm", help="Instead, compile what predicting and training use, for container images.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check whether this installation works.

    Shows versions, devices, threads, memory, extras and folders, and runs a model.
    """
    if warm:
        _warm()
        return
    report = {
        "versions": _versions(),
        "machine": _machine(),
        "devices": _devices(),
        "extras": _extras(),
        "folders": _folders(),
        "environment": {name: os.environ.get(name, "not set") for name in _VARIABLES},
        "self test": _self_test(),
    }
    if as_json:
        print(json.dumps(report, indent=2))
        return
    for title, facts in report.items():
        print(title)
        width = max(map(len, facts))
        for name, value in facts.items():
            print(f"  {name:<{width}}  {value}")


def _warm() -> None:
    """Predict a small mesh with each bundled model, and train an epoch: that compiles all, and numba caches it."""
    import numpy as np

    from hodgeformer.data.figures import figure
    from hodgeformer.data.synthetic import synthetic_cubes, synthetic_figures
    from hodgeformer.mesh.io import save_mesh
    from hodgeformer.predict.predictor import Predictor
    from hodgeformer.predict.pretrained import bundled_models
    from hodgeformer.training.run import train

    mesh, _ = figure(np.random.default_rng(0), n_faces=3000)
    with tempfile.TemporaryDirectory() as folder:
        for name in bundled_models():
            predictor = Predictor.load(name)
            print(f"compiling what predicting with {name} uses", file=sys.stderr)
            for suffix in (".obj", ".ply", ".stl", ".off"):
                save_mesh(mesh, Path(folder) / f"figure{suffix}")
                predictor.predict(Path(folder) / f"figure{suffix}")
            print(f"compiling what training {name} uses", file=sys.stderr)
            synthetic = synthetic_cubes if predictor.info.model.target_kind is None else synthetic_figures
            data = synthetic(n_train=2, n_test=1)
            settings = ("train.workers=0", "train.calibrate=false")
            train(data, Path(folder) / name, start=name, epochs=1, callbacks=[], overrides=settings)


def _versions() -> dict[str, str]:
    from hodgeformer.base.version import __version__

    found = {"hodgeformer": __version__, "python": sys.version.split()[0]}
    return found | {name: _version(name) or "missing" for name in _required().get("", [])}


def _extras() -> dict[str, str]:
    found = {}
    for extra, names in _required().items():
        missing = [name for name in names if _version(name) is None]
        if extra:
            found[extra] = f"missing {', '.join(missing)}" if missing else "installed"
    return found or {"unknown": "hodgeformer is not installed as a package"}


def _required() -> dict[str, list[str]]:
    """The packages that each extra requires, and under "" those that are always required, from the metadata."""
    found: dict[str, list[str]] = {}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for line in importlib.metadata.requires("hodgeformer") or []:
            extra = re.search(r"""extra == ['"](.+?)['"]""", line)
            found.setdefault(extra[1] if extra else "", []).append(re.split(r"[^\w.-]", line, maxsplit=1)[0])
    return found


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _machine() -> dict[str, str]:
    import torch

    from hodgeformer.base.machine import thread_count
    from hodgeformer.kernels._numba_linear import faster_than_torch

    return {
        "platform": platform.platform(),
        "matrix products": "by hodgeformer's kernels" if faster_than_torch() else "by PyTorch",
        "processors": str(os.cpu_count() or "unknown"),
        "threads": f"{thread_count()} in hodgeformer, {torch.get_num_threads()} in torch",
        **_memory(),
    }


def _memory() -> dict[str, str]:
    """The free memory, and an estimate of the largest mesh that the default model can process."""
    from hodgeformer.base.machine import GIGABYTE, free_memory
    from hodgeformer.mesh.prepare import PrepareConfig
    from hodgeformer.nn.config import ModelConfig
    from hodgeformer.nn.memory import bytes_per_face

    free, model = free_memory(), ModelConfig(task="segmentation", n_classes=8)
    predicted, trained = (
        round(free / bytes_per_face(model, PrepareConfig(), training=training), -3) for training in (False, True)
    )
    return {
        "free memory": f"{free / GIGABYTE:.1f} GB",
        "largest mesh": f"about {predicted:,.0f} faces to predict, {trained:,.0f} to train",
    }


def _devices() -> dict[str, str]:
    import torch

    found = {"cpu": platform.processor() or platform.machine()}
    for i in range(torch.cuda.device_count()):
        found[f"cuda:{i}"] = torch.cuda.get_device_name(i)
    if torch.backends.mps.is_available():
        found["mps"] = "available"
    return found


def _folders() -> dict[str, str]:
    import hodgeformer

    places = {"package": Path(hodgeformer.__file__).parent}
    if "HODGEFORMER_DATA" in os.environ:
        places["data"] = Path(os.environ["HODGEFORMER_DATA"])
    return {name: f"{place} ({_state(place)})" for name, place in places.items()}


def _state(place: Path) -> str:
    if not place.exists():
        return "does not exist"
    return f"{shutil.disk_usage(place).free / 2**30:.0f} GB free" if os.access(place, os.W_OK) else "read only"


def _self_test() -> dict[str, str]:
    """Compare the kernels of this machine with the reference: a small model on a tetrahedron, and a matrix product."""
    import numpy as np
    import torch

    from hodgeformer.kernels.linear import product
    from hodgeformer.mesh.mesh import Mesh
    from hodgeformer.mesh.prepare import prepare
    from hodgeformer.nn.config import ModelConfig
    from hodgeformer.nn.model import HodgeFormer
    from hodgeformer.nn.pack import pack

    corners = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    mesh = Mesh(corners, np.array([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]]), name="tetrahedron")
    found: dict[str, Any] = {}
    for backend in ("reference", "numba"):
        torch.manual_seed(0)
        config = ModelConfig.parse(
            {"task": "segmentation", "n_classes": 2, "blocks": "HT", "d_model": 16, "n_heads": 2, "backend": backend}
        )
        model = HodgeFormer(config).eval()
        with torch.no_grad():
            found[backend] = model(pack([prepare(mesh)]))
    a, b = torch.randn(50, 48), torch.randn(32, 48)
    differences = found["reference"] - found["numba"], product(a, b) - (a.double() @ b.double().t())
    difference = max(float(values.abs().max()) for values in differences)
    return {"kernels": "agree" if difference < 1e-4 else f"DISAGREE by {difference:.2g}; please report this"}

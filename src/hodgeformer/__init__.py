"""Learn on triangle meshes with a Transformer whose attention is a discrete Hodge star.

Public names are loaded on first use, so that importing the package, and every command that needs no model, stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hodgeformer.base.version import __version__

if TYPE_CHECKING:
    from hodgeformer import kernels as kernels
    from hodgeformer.base.containers import PerElement as PerElement
    from hodgeformer.base.containers import SparsityPattern as SparsityPattern
    from hodgeformer.base.errors import HodgeFormerError as HodgeFormerError
    from hodgeformer.base.errors import MeshError as MeshError
    from hodgeformer.data.dataset import DataSet as DataSet
    from hodgeformer.data.open import open_dataset as open_dataset
    from hodgeformer.mesh.check import check_mesh as check_mesh
    from hodgeformer.mesh.io import as_mesh as as_mesh
    from hodgeformer.mesh.io import load_mesh as load_mesh
    from hodgeformer.mesh.io import save_mesh as save_mesh
    from hodgeformer.mesh.mesh import Mesh as Mesh
    from hodgeformer.mesh.prepare import PrepareConfig as PrepareConfig
    from hodgeformer.mesh.prepare import PreparedMesh as PreparedMesh
    from hodgeformer.mesh.prepare import prepare as prepare
    from hodgeformer.mesh.simplify import simplify as simplify
    from hodgeformer.mesh.topology import MeshComplex as MeshComplex
    from hodgeformer.nn.config import ModelConfig as ModelConfig
    from hodgeformer.nn.model import HodgeFormer as HodgeFormer
    from hodgeformer.nn.pack import Batch as Batch
    from hodgeformer.nn.pack import pack as pack
    from hodgeformer.predict.predictor import Predictor as Predictor
    from hodgeformer.predict.result import Result as Result
    from hodgeformer.training.evaluate import evaluate as evaluate
    from hodgeformer.training.listener import Listener as Listener
    from hodgeformer.training.metrics import Scores as Scores
    from hodgeformer.training.outcome import CrossValidation as CrossValidation
    from hodgeformer.training.outcome import Outcome as Outcome
    from hodgeformer.training.run import train as train

_HOME = {
    "Batch": "nn.pack",
    "CrossValidation": "training.outcome",
    "DataSet": "data.dataset",
    "HodgeFormer": "nn.model",
    "HodgeFormerError": "base.errors",
    "Listener": "training.listener",
    "Mesh": "mesh.mesh",
    "MeshComplex": "mesh.topology",
    "MeshError": "base.errors",
    "ModelConfig": "nn.config",
    "Outcome": "training.outcome",
    "PerElement": "base.containers",
    "PrepareConfig": "mesh.prepare",
    "Predictor": "predict.predictor",
    "PreparedMesh": "mesh.prepare",
    "Result": "predict.result",
    "Scores": "training.metrics",
    "SparsityPattern": "base.containers",
    "as_mesh": "mesh.io",
    "check_mesh": "mesh.check",
    "evaluate": "training.evaluate",
    "kernels": "",
    "load_mesh": "mesh.io",
    "open_dataset": "data.open",
    "pack": "nn.pack",
    "prepare": "mesh.prepare",
    "save_mesh": "mesh.io",
    "simplify": "mesh.simplify",
    "train": "cli.train_display",
}

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hodgeformer' has no attribute {name!r}")
    if not _HOME[name]:
        return importlib.import_module(f"hodgeformer.{name}")
    return getattr(importlib.import_module(f"hodgeformer.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__

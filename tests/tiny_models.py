"""Small untrained models in checkpoints: they answer anything, and always the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hodgeformer.base.palette import class_colors
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.checkpoint import Checkpoint, save_checkpoint
from hodgeformer.predict.model_info import DataStatistics

PARTS = ("head", "torso", "arm", "leg / foot")


def tiny_checkpoint(
    task: str = "segmentation",
    element: str | None = None,
    *,
    pose: str = "file",
    blocks: str = "HT",
    star_bound: float = 3.0,
    star_std: float = 0.0,
    **changes: Any,
) -> Checkpoint:
    """Random weights, spread out so that the classes all occur; statistics of meshes with 60 to 400 faces.

    D blocks have the textbook's stars, as before training, or with `star_std` some that differ from them.
    """
    n_classes = 2 if task == "regression" else len(PARTS)
    config = ModelConfig.parse(
        {
            "task": task,
            "element": element,
            "n_classes": n_classes,
            "blocks": blocks,
            "d_model": 16,
            "d_hidden": 16,
            "n_heads": 2,
            "star_bound": star_bound,
        }
    )
    torch.manual_seed(7)
    model = HodgeFormer(config)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    weights["head.out.weight"] *= 6
    for name, value in weights.items():
        if name.endswith(".stars.weight") and star_std:  # zero before training
            torch.nn.init.normal_(value, std=star_std)
    settings: dict[str, Any] = {
        "model": config,
        "prepare": PrepareConfig.parse({"pose": pose, "n_neighbors": 12}),
        "weights": weights,
        "name": "tiny",
        "classes": () if task == "regression" else PARTS,
        "colors": () if task == "regression" else class_colors(n_classes),
        "metrics": {"test_face_accuracy": 0.5},
        "statistics": DataStatistics(
            n_meshes=3,
            n={"v": (32, 100, 202), "e": (90, 300, 600), "f": (60, 200, 400)},
            size=(0.5, 1.0, 2.0),
            edge_length=(0.05, 0.1, 0.2, 0.3, 0.6),
        ),
    }
    return Checkpoint(**{**settings, **changes})


def write_tiny(folder: Path, name: str = "tiny.safetensors", **kinds: Any) -> Path:
    path = folder / name
    save_checkpoint(path, tiny_checkpoint(**kinds))
    return path

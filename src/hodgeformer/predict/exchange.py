"""Results as other packages hold meshes: trimesh, PyTorch Geometric. Neither is needed before it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from hodgeformer.errors import ConfigError
from hodgeformer.mesh.elements import proper_complex

if TYPE_CHECKING:
    import torch_geometric
    import trimesh

    from hodgeformer.predict.result import Result


def to_trimesh(result: Result) -> trimesh.Trimesh:
    """Edges cannot be colored there: their answer is carried to the faces."""
    package = _needed("trimesh")
    mesh: trimesh.Trimesh = package.Trimesh(
        result.mesh.vertices, result.mesh.faces, process=False, metadata={"name": result.mesh.name}
    )
    if result.element == "mesh":
        return mesh
    shown = result.on("face") if result.element == "edge" else result
    attributes = mesh.vertex_attributes if shown.element == "vertex" else mesh.face_attributes
    setattr(mesh.visual, f"{shown.element}_colors", shown.element_colors)
    if result.task == "regression":
        attributes["values"] = shown.values
    else:
        attributes["label"] = shown.labels
    return mesh


def to_pyg(result: Result) -> torch_geometric.data.Data:
    """`y` has a row per element of the answer. `edge_index` has every edge in both directions, one after the other."""
    import torch

    package = _needed("torch_geometric.data")
    edges = proper_complex(result.mesh)[1].edges
    both = np.concatenate([edges, edges[:, ::-1]]).T
    given: dict[str, Any] = {
        "pos": torch.from_numpy(result.mesh.vertices.astype(np.float32)),
        "face": torch.from_numpy(result.mesh.faces.T.copy()),
        "edge_index": torch.from_numpy(np.ascontiguousarray(both)),
        "y": torch.from_numpy(result.values if result.task == "regression" else result.labels),
    }
    if result.task != "regression":
        given["probabilities"] = torch.from_numpy(result.probabilities)
    return package.Data(**given)


def _needed(module: str) -> Any:
    package = module.split(".", maxsplit=1)[0]
    try:
        return import_module(module)
    except ImportError:
        raise ConfigError(f"this needs the package {package}: pip install {package}") from None

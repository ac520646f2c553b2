"""Meshes with values as objects of other packages, trimesh and PyTorch Geometric, which are imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import ConfigError
from hodgeformer.mesh.mesh import Mesh

if TYPE_CHECKING:
    import torch_geometric
    import trimesh


def as_trimesh(
    mesh: Mesh,
    element: Literal["face", "vertex"] | None = None,
    *,
    colors: NDArray[np.uint8] | None = None,
    **values: NDArray[Any],
) -> trimesh.Trimesh:
    """The unchanged vertices and faces, with colors and named values of its faces or vertices."""
    package = _needed("trimesh")
    made: trimesh.Trimesh = package.Trimesh(mesh.vertices, mesh.faces, process=False, metadata={"name": mesh.name})
    if element is not None:
        setattr(made.visual, f"{element}_colors", colors)
        (made.face_attributes if element == "face" else made.vertex_attributes).update(values)
    return made


def as_pyg(mesh: Mesh, **values: NDArray[Any]) -> torch_geometric.data.Data:
    """`pos`, `face`, the values, and `edge_index` with every edge in both directions."""
    import torch

    package = _needed("torch_geometric.data")
    edges = mesh.topology.edges
    arrays = {
        "pos": mesh.vertices.astype(np.float32),
        "face": mesh.faces.T,
        "edge_index": np.concatenate([edges, edges[:, ::-1]]).T,
    }
    return package.Data(**{name: torch.tensor(array) for name, array in (arrays | values).items()})


def _needed(module: str) -> Any:
    package = module.split(".", maxsplit=1)[0]
    try:
        return import_module(module)
    except ImportError:
        raise ConfigError(f"this needs the package {package}: pip install {package}") from None

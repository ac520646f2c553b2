"""Where the attention of the clicked place goes: one row of a learned star, carried to the faces."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hodgeformer.containers import ELEMENT_NAMES, ElementKind, PerElement
from hodgeformer.mesh.geometry import edge_centers
from hodgeformer.mesh.prepare import PreparedMesh, prepare
from hodgeformer.nn.hodge_star import HodgeStar
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.packed.pack import pack
from hodgeformer.viewer.fields import Choice, Pick, ScalarField, chosen_option
from hodgeformer.viewer.models import Shelf
from hodgeformer.viewer.refusal import Refusal
from hodgeformer.viewer.scenes import Scene

_TITLES = {"star0_inv": "⋆₀⁻¹", "star1": "⋆₁", "star1_inv": "⋆₁⁻¹", "star2": "⋆₂"}
_MAX_KEPT = 3


@dataclass(frozen=True, eq=False)
class _Seen:
    """A prepared mesh and the features that arrive at the stars of one layer."""

    prepared: PreparedMesh
    x: PerElement[Tensor | None]


class Attention:
    """Rows of the learned stars of the model that predicted the scene."""

    name, title, picks = "attention", "Attention", True

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._seen: OrderedDict[tuple[str, str, int], _Seen] = OrderedDict()

    def choices(self, scene: Scene) -> tuple[Choice, ...] | None:
        if scene.prediction is None:
            return None
        network = self._shelf.model(scene.prediction.model).network
        blocks, stars = network.config.blocks, _stars(network)
        if not stars:
            return None
        layers = [str(i + 1) for i, letter in enumerate(blocks) if letter == "H"][::-1]
        return (
            Choice("layer", "Block", tuple((layer, f"{layer} of {len(blocks)}") for layer in layers)),
            Choice("head", "Head", tuple((str(i + 1), str(i + 1)) for i in range(network.config.n_heads))),
            Choice("star", "Star", tuple((key, text) for key, (text, _) in stars.items())),
        )

    def field(self, scene: Scene, chosen: Mapping[str, str], pick: Pick | None) -> ScalarField:
        choices = self.choices(scene)
        if choices is None or scene.prediction is None or pick is None:
            raise Refusal(400, "Predict with a model that has learned stars, then click a face.")
        layer, head, star_key = (chosen_option(choice, chosen) for choice in choices)
        model = scene.prediction.model
        network = self._shelf.model(model).network
        star = _stars_of_block(network, int(layer))[star_key]
        seen = self._arriving(scene, model, int(layer))
        row = nearest_element(seen.prepared, scene, pick, star.kind)
        weights = star_row(star, seen, row, head=int(head) - 1)
        values = on_faces(seen.prepared, weights, star.kind)
        note = f"Weight of each neighbor of the {ELEMENT_NAMES[star.kind]} in {_stars(network)[star_key][0]}"
        return ScalarField(values.astype(np.float32), "face", signed=False, note=note)

    def _arriving(self, scene: Scene, model: str, layer: int) -> _Seen:
        """One pass through the model; the last few are kept, so that clicking on is quick."""
        key = (scene.id, model, layer)
        with self._shelf.inside:
            if key not in self._seen:
                loaded = self._shelf.model(model)
                prepared = prepare(scene.mesh, loaded.preparation)
                x = _input_of_block(loaded.network, layer, prepared)
                self._seen[key] = _Seen(prepared, x)
                while len(self._seen) > _MAX_KEPT:
                    self._seen.popitem(last=False)
            self._seen.move_to_end(key)
            return self._seen[key]


def star_row(star: HodgeStar, seen: _Seen, row: int, *, head: int) -> NDArray[np.float64]:
    """softmax(q_i . k_j / sqrt(d_head)) over j in S_i, as one value per element; NaN outside S_i."""
    pattern = seen.prepared.patterns[star.kind]
    neighbors = pattern.indices[pattern.offsets[row] : pattern.offsets[row + 1]].astype(np.int64)
    x = cast(Tensor, seen.x[star.kind])[torch.from_numpy(np.r_[row, neighbors])]
    with torch.inference_mode():
        q, k = star.queries_and_keys(x)
        scores = (k[1:, head] @ q[0, head]) / math.sqrt(q.shape[-1])
        weights = scores.double().softmax(dim=0).numpy()
    row_values = np.full(seen.prepared.n[star.kind], np.nan)
    row_values[neighbors] = weights
    return row_values


def nearest_element(prepared: PreparedMesh, scene: Scene, pick: Pick, kind: ElementKind) -> int:
    """The clicked face, or its corner or side that is nearest to the clicked point, numbered as prepared."""
    face = int(prepared.face_source[pick.face])
    if kind == "f":
        return face
    corners = prepared.topology.faces[face]
    vertices = scene.mesh.vertices[prepared.order.v[corners]]
    if kind == "v":
        return int(corners[np.linalg.norm(vertices - pick.point, axis=1).argmin()])
    sides = prepared.topology.face_edges[face]
    # Ends of the sides as places among the three corners.
    ends = (prepared.topology.edges[sides][:, :, None] == corners).argmax(axis=2)
    return int(sides[np.linalg.norm(edge_centers(vertices, ends) - pick.point, axis=1).argmin()])


def on_faces(prepared: PreparedMesh, weights: NDArray[np.float64], kind: ElementKind) -> NDArray[np.float64]:
    """The largest weight at the corners or sides of each face of the file: single elements stay visible."""
    if kind != "f":
        members = prepared.topology.faces if kind == "v" else prepared.topology.face_edges
        weights = np.fmax.reduce(weights[members], axis=1)
    return prepared.to_file_order(weights, "f")


def _stars(network: HodgeFormer) -> dict[str, tuple[str, ElementKind]]:
    """Key -> title and kind of the learned stars of a block."""
    blocks = network.config.blocks
    if "H" not in blocks:
        return {}
    return {
        key: (f"{_TITLES[key.split('.')[1]]} of L_{key[0]} ({ELEMENT_NAMES[star.kind]})", star.kind)
        for key, star in _stars_of_block(network, blocks.index("H") + 1).items()
    }


def _stars_of_block(network: HodgeFormer, layer: int) -> dict[str, HodgeStar]:
    laplacians = cast(Any, network.encoder.blocks[layer - 1]).attention.laplacian
    return {
        f"{owner}.{name}": star
        for owner, laplacian in laplacians.items()
        for name, star in cast(nn.Module, laplacian).named_children()
        if isinstance(star, HodgeStar)
    }


class _ArrivedError(Exception):
    """The features have reached the layer; the rest of the model need not run."""


def _input_of_block(network: HodgeFormer, layer: int, prepared: PreparedMesh) -> PerElement[Tensor | None]:
    caught: list[PerElement[Tensor | None]] = []

    def catch(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        caught.append(arguments[0])
        raise _ArrivedError

    attention = cast(Any, network.encoder.blocks[layer - 1]).attention
    hook = attention.register_forward_pre_hook(catch)
    try:
        with torch.inference_mode():
            network.forward_features(pack([prepared]))
    except _ArrivedError:
        pass
    finally:
        hook.remove()
    return caught[0]

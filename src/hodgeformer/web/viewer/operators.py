"""What a model has learned, as layers: what the clicked place attends to or spreads to, diagonal stars, and learned
eigenfunctions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hodgeformer.base.containers import ELEMENT_NAMES, ElementKind, PerElement
from hodgeformer.kernels.elimination import TIMES
from hodgeformer.mesh.elements import convert_values
from hodgeformer.mesh.prepare import Faces, PreparedMesh
from hodgeformer.nn.config import ModelConfig, StarName
from hodgeformer.nn.hodge_star import HodgeStar
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from hodgeformer.predict.operators import (
    Eigenpairs,
    eigenpairs,
    features_at,
    head_operators,
    hodge_attention,
    stars_of,
)
from hodgeformer.predict.spread import (
    DIAGONAL_KIND,
    DiagonalName,
    log10_of,
    log_factors,
    sides_mean,
    spread_from,
    textbook_stars,
)
from hodgeformer.web.server.intake import Refusal
from hodgeformer.web.viewer.fields import MAX_KEPT, Choice, Pick, ScalarField
from hodgeformer.web.viewer.models import Recent, Shelf, ViewerModel
from hodgeformer.web.viewer.open_meshes import OpenMesh
from hodgeformer.web.viewer.sight import Sight

N_FUNCTIONS = 8
MAX_FACES = 50_000  # three H blocks of width 64 take 2 seconds and 150 MB for half as many
MAX_FACES_ITERATED = 20_000  # eigenfunctions apply the operator hundreds of times
T = TypeVar("T")
_SYMBOLS: dict[StarName | DiagonalName, str] = {
    "star0": "⋆₀", "star0_inv": "⋆₀⁻¹", "star1": "⋆₁", "star1_inv": "⋆₁⁻¹", "star2": "⋆₂"
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Asked:
    """The prediction that a layer is about, while the mesh may get another one; and the model that made it."""

    opened: OpenMesh
    model: ViewerModel
    network: HodgeFormer
    faces: Faces
    key: tuple[Any, ...]


class _Inside(ABC):
    """A source that looks into the model which predicted the mesh, and remembers what took long."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._sights: Recent[tuple[Any, ...], Sight] = Recent(MAX_KEPT)
        self._kept: Recent[tuple[Any, ...], Any] = Recent(MAX_KEPT, shelf.inside)

    def choices(self, opened: OpenMesh) -> tuple[Choice, ...] | None:
        if opened.prediction is None:
            return None
        network = self._shelf.model(opened.prediction.model).network
        return None if network is None else self._questions(network, opened)

    @abstractmethod
    def _questions(self, network: HodgeFormer, opened: OpenMesh) -> tuple[Choice, ...] | None:
        """What can be asked of such a model; nothing where it has no such blocks."""

    def _answers(self, opened: OpenMesh, chosen: Mapping[str, str]) -> tuple[_Asked, list[str]]:
        """What the layer is about, and what was chosen."""
        prediction = opened.prediction
        model = None if prediction is None else self._shelf.model(prediction.model)
        choices = self.choices(opened)
        if prediction is None or model is None or model.network is None or choices is None:
            raise Refusal(400, "There is nothing to show yet; predict with a model that has such blocks first.")
        asked = _Asked(opened, model, model.network, prediction.faces, (opened.id, prediction.model, prediction.faces))
        return asked, [choice.answer(chosen) for choice in choices]

    def _sight(self, asked: _Asked, **limits: Any) -> Sight:
        """The mesh as the model saw it; `limits` are those of `ViewerModel.see`."""
        return self._sights.get(asked.key, lambda: Sight(asked.model.see(asked.opened.mesh, asked.faces, **limits)))

    def _once(self, asked: _Asked, make: Callable[[], T], *key: object) -> T:
        return cast(T, self._kept.get((*asked.key, *key), make))


class Attention(_Inside):
    """Rows of the learned stars."""

    name, title, picks = "attention", "Attention", True

    def _questions(self, network: HodgeFormer, opened: OpenMesh) -> tuple[Choice, ...] | None:
        layers = _layers(network.config)
        stars = _learned_stars(network, int(layers[0])) if layers else {}
        if not stars:
            return None
        return (
            *_block_and_head(network.config, layers),
            Choice("star", "Star", tuple((key, _title(key, star)) for key, star in stars.items())),
        )

    def field(self, opened: OpenMesh, chosen: Mapping[str, str], pick: Pick | None) -> ScalarField:
        asked, (layer, head, key) = self._answers(opened, chosen)
        network = asked.network
        star = _learned_stars(network, int(layer))[key]
        sight = self._sight(asked, most_faces=MAX_FACES)
        x = self._once(asked, lambda: _arriving(network, sight.prepared, int(layer)), layer)
        weights = star_row(star, sight.prepared, x, sight.nearest(clicked(pick), star.kind), head=int(head) - 1)
        values = sight.on_faces(weights, star.kind)
        note = f"Weight of each neighbor of the {ELEMENT_NAMES[star.kind]} in {_title(key, star)}"
        return ScalarField(values.astype(np.float32), "face", signed=False, note=note)


class Spreading(_Inside):
    """How far the clicked vertex reads in D blocks, at the resolution that the model works at."""

    name, title, picks = "spread", "Spread", True

    def _questions(self, network: HodgeFormer, opened: OpenMesh) -> tuple[Choice, ...] | None:
        if "D" not in network.config.blocks:
            return None
        block, times = _block_and_time(network.config)
        return block, Choice("time", "Time", (("all", "all, as the block mixes them"), *times.options))

    def field(self, opened: OpenMesh, chosen: Mapping[str, str], pick: Pick | None) -> ScalarField:
        asked, (block, time) = self._answers(opened, chosen)
        # Learned stars follow from the features of the mesh, the textbook's from its surface alone.
        limits = {"most_faces": MAX_FACES} if asked.network.config.diffusion_bound else {"surface": True}
        sight = self._sight(asked, **limits)
        vertex = int(sight.prepared.order.v[sight.nearest(clicked(pick), "v")])
        find = partial(spread_from, asked.network, sight.prepared, vertex, int(block))
        found = self._once(asked, find, block, vertex).blocks[int(block)]
        if time == "all":
            heat, note = found.mixed, f"What block {block} reads around the clicked vertex"
        else:
            i = int(time) - 1
            heat = found.heat[:, i]
            note = f"Read at time {TIMES[i]:.2g}: {found.area[i]:.1%} of the surface"
            note += f"; {found.share[i]:.0%} of block {block}"
        # Over two powers of ten to either side of the mean of the mesh.
        values = np.log10(np.clip(sight.seen.on_mesh(heat[:, None], "v")[:, 0], 1e-2, 1e2))
        return ScalarField(values.astype(np.float32), "vertex", signed=True, note=f"{note} (powers of ten)")


class DiagonalStars(_Inside):
    """The learned stars of D blocks over the textbook's, and the textbook's beside them."""

    name, title, picks = "diagonal-star", "Learned star", False

    def _questions(self, network: HodgeFormer, opened: OpenMesh) -> tuple[Choice, ...] | None:
        if "D" not in network.config.blocks or not network.config.diffusion_bound:
            return None
        stars = tuple((star, f"{_SYMBOLS[star]} ({ELEMENT_NAMES[kind]})") for star, kind in DIAGONAL_KIND.items())
        shown = (("learned", "log of the factor"), ("textbook", "textbook's star"))
        return *_block_and_time(network.config), Choice("star", "Star", stars), Choice("shown", "Show", shown)

    def field(self, opened: OpenMesh, chosen: Mapping[str, str], pick: Pick | None) -> ScalarField:
        asked, (block, time, name, shown) = self._answers(opened, chosen)
        star, sight = cast(DiagonalName, name), self._sight(asked, most_faces=MAX_FACES)
        prepared, kind = sight.prepared, DIAGONAL_KIND[star]
        if shown == "textbook":
            values = log10_of(prepared.to_file_order(textbook_stars(pack([prepared]))[star], kind))
            note = f"Textbook's {_SYMBOLS[star]} (powers of ten)"
        else:
            find = partial(log_factors, asked.network, prepared, int(block))
            values = self._once(asked, find, block)[int(block)][star][:, int(time) - 1]
            note = f"Log of the learned {_SYMBOLS[star]} of block {block} over the textbook's at time "
            note += f"{TIMES[int(time) - 1]:.2g}"
        if kind == "e":
            kind, values = "f", sides_mean(values, sight.seen.working_mesh)
            note += "; mean over the sides of each face"
        on_mesh = sight.seen.on_mesh(values[:, None], kind)[:, 0].astype(np.float32)
        return ScalarField(on_mesh, "face" if kind == "f" else "vertex", signed=shown == "learned", note=note)


class LearnedEigenfunctions(_Inside):
    """L f = lambda f for the learned Laplacian of one head, largest |lambda| first, real parts."""

    name, title, picks = "learned-eigenfunction", "Learned operator", False

    def _questions(self, network: HodgeFormer, opened: OpenMesh) -> tuple[Choice, ...] | None:
        config = network.config
        layers = _layers(config)
        if not layers:
            return None
        return (
            Choice("operator", "Operator", tuple((kind, f"L_{kind}") for kind in config.updated)),
            *_block_and_head(config, layers),
            Choice("index", "Number", tuple((str(i), str(i + 1)) for i in range(N_FUNCTIONS))),
        )

    def field(self, opened: OpenMesh, chosen: Mapping[str, str], pick: Pick | None) -> ScalarField:
        asked, (operator, layer, head, index) = self._answers(opened, chosen)
        kind, i = cast(ElementKind, operator), int(index)
        sight = self._sight(asked, most_faces=MAX_FACES_ITERATED)
        find = partial(_learned_eigenpairs, asked.network, sight.prepared, int(layer), int(head), kind)
        found = self._once(asked, find, layer, head, kind)
        if i >= len(found):
            raise Refusal(422, f"Only {len(found)} eigenfunctions were found; choose a smaller number.")
        value, function = found.values[i], found.functions[:, i].real[:, None]
        if kind == "e":
            kind, function = "v", convert_values(function, sight.seen.working_mesh, source="e", to="v")
        values = sight.seen.on_mesh(function, kind)[:, 0]
        text = f"{value.real:.4g}" if not found.is_pair(i) else f"{value.real:.4g} ± {abs(value.imag):.4g} i"
        note = f"Learned L_{operator}, eigenvalue {text}"
        return ScalarField(values.astype(np.float32), "face" if kind == "f" else "vertex", signed=True, note=note)


def clicked(pick: Pick | None) -> Pick:
    if pick is None:
        raise Refusal(400, "Click a face of the mesh first.")
    return pick


def star_row(
    star: HodgeStar, prepared: PreparedMesh, arrived: PerElement[Tensor | None], row: int, *, head: int
) -> NDArray[np.float64]:
    """softmax(q_i . k_j / sqrt(d_head)) over j in S_i, as one value per element; NaN outside S_i."""
    pattern = prepared.patterns[star.kind]
    neighbors = pattern.indices[pattern.offsets[row] : pattern.offsets[row + 1]].astype(np.int64)
    x = cast(Tensor, arrived[star.kind])[torch.from_numpy(np.r_[row, neighbors])]
    with torch.inference_mode():
        q, k = star.queries_and_keys(x)
        scores = (k[1:, head] @ q[0, head]) / math.sqrt(q.shape[-1])
        weights = scores.double().softmax(dim=0).numpy()
    row_values = np.full(prepared.n[star.kind], np.nan)
    row_values[neighbors] = weights
    return row_values


def _arriving(network: HodgeFormer, prepared: PreparedMesh, layer: int) -> PerElement[Tensor | None]:
    """The features that arrive at the stars of one layer."""
    return features_at(network, hodge_attention(network, layer), pack([prepared]))


def _learned_eigenpairs(
    network: HodgeFormer, prepared: PreparedMesh, layer: int, head: int, kind: ElementKind
) -> Eigenpairs:
    operators = head_operators(network, prepared, layer=layer, head=head)
    return eigenpairs(operators.laplacian(kind), N_FUNCTIONS, "largest").in_file_order(prepared, kind)


def _layers(config: ModelConfig) -> list[str]:
    """The numbers of the blocks with learned operators, the last first."""
    return [str(i + 1) for i, letter in enumerate(config.blocks) if letter == "H"][::-1]


def _block_and_head(config: ModelConfig, layers: list[str]) -> tuple[Choice, Choice]:
    heads = [str(i + 1) for i in range(config.n_heads)]
    return (
        Choice("layer", "Block", tuple((layer, f"{layer} of {len(config.blocks)}") for layer in layers)),
        Choice("head", "Head", tuple((head, head) for head in heads)),
    )


def _block_and_time(config: ModelConfig) -> tuple[Choice, Choice]:
    """Of D blocks, the last first."""
    blocks = [str(i + 1) for i, letter in enumerate(config.blocks) if letter == "D"][::-1]
    return (
        Choice("block", "Block", tuple((block, f"{block} of {len(config.blocks)}") for block in blocks)),
        Choice("time", "Time", tuple((str(i), f"{time:.2g} of the area") for i, time in enumerate(TIMES, 1))),
    )


def _learned_stars(network: HodgeFormer, layer: int) -> dict[str, HodgeStar]:
    """The learned stars of a block, by the kind that their Laplacian updates and their name."""
    attention = hodge_attention(network, layer)
    return {
        f"{kind}.{name}": star
        for kind in network.config.updated
        for name, star in stars_of(attention, kind).items()
        if isinstance(star, HodgeStar)
    }


def _title(key: str, star: HodgeStar) -> str:
    owner, _, name = key.partition(".")
    return f"{_SYMBOLS[cast(StarName, name)]} of L_{owner} ({ELEMENT_NAMES[star.kind]})"

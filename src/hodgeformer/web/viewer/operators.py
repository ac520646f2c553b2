"""What a model has learned, as layers: what the clicked place attends to or spreads to, and diagonal stars.

A layer shows the mesh as the model processed it for the prediction: at its resolution, in the first frame of its pose.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from hodgeformer.base.containers import ELEMENT_NAMES, PerElement
from hodgeformer.kernels.elimination import TIMES
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.config import STAR_KIND, ModelConfig, StarName
from hodgeformer.nn.hodge_star import HodgeStar
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.predict.inference import Views, make_views
from hodgeformer.predict.operators import (
    DIAGONAL_KIND,
    DiagonalName,
    head_operators,
    log_factors,
    sides_mean,
    spread_from,
    star_row,
    stars_of,
)
from hodgeformer.web.server.intake import Refusal
from hodgeformer.web.viewer.fields import Choice, Pick, ScalarField, nearest_element, on_faces
from hodgeformer.web.viewer.models import ModelList, Recent
from hodgeformer.web.viewer.open_meshes import OpenMesh, Prediction

MAX_KEPT = 4  # results of a layer that stay in memory
MAX_FACES = 50_000  # three H blocks of width 64 take 2 seconds and 150 MB for half as many
T = TypeVar("T")
_SYMBOLS: dict[StarName | DiagonalName, str] = {
    "star0": "⋆₀", "star0_inv": "⋆₀⁻¹", "star1": "⋆₁", "star1_inv": "⋆₁⁻¹", "star2": "⋆₂"
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Inspected:
    """The prediction that a layer is about, while the mesh may get another one."""

    network: HodgeFormer
    views: Views
    once: Callable[..., Any]
    """Returns the result of a slow function, and remembers it under the arguments that follow."""

    @property
    def prepared(self) -> PreparedMesh:
        return self.views.prepared[0]


class ModelLayer(ABC):
    """A source of fields that inspects the model which predicted the mesh, and remembers what took long.

    It describes its choices (a block, a head, a star); the page shows them as described, so a new layer needs no change
    there. `picks`: a face must be clicked first.
    """

    name: str
    title: str
    picks = False

    def __init__(self, models: ModelList) -> None:
        self._models = models
        self._views: Recent[tuple[Any, ...], Views] = Recent(MAX_KEPT)
        self._results: Recent[tuple[Any, ...], Any] = Recent(MAX_KEPT)

    def choices(self, opened: OpenMesh) -> tuple[Choice, ...] | None:
        """What can be chosen for this mesh; None if there is nothing to show."""
        network = None if opened.prediction is None else self._models.network(opened.prediction.model)
        return None if network is None else self._choices(network)

    def field(self, opened: OpenMesh, chosen: Mapping[str, str], pick: Pick | None) -> ScalarField:
        prediction, choices = opened.prediction, self.choices(opened)
        network = None if prediction is None else self._models.network(prediction.model)
        if prediction is None or network is None or choices is None:
            raise Refusal(400, "There is nothing to show yet; predict with a model that has such blocks first.")
        if self.picks and pick is None:
            raise Refusal(400, "Click a face of the mesh first.")
        values = [choice.answer(chosen) for choice in choices]
        key = (opened.id, prediction.model, prediction.faces)

        def once(make: Callable[[], T], *more: object) -> T:
            return cast(T, self._results.get((*key, *more), make))

        views = self._views.get(key, lambda: self._prepared(opened, prediction, network))
        return self._field(_Inspected(network, views, once), pick, *values)

    @abstractmethod
    def _choices(self, network: HodgeFormer) -> tuple[Choice, ...] | None:
        """What can be chosen for such a model; None if it has no such blocks."""

    @abstractmethod
    def _field(self, inspected: _Inspected, pick: Any, *chosen: str) -> ScalarField:
        """The field for the chosen values, in the order of the choices."""

    def _prepared(self, opened: OpenMesh, prediction: Prediction, network: HodgeFormer) -> Views:
        """The first view of a prediction; refused, before anything is prepared, above the limit."""
        config = self._models.predictor(prediction.model).info.at(prediction.faces)
        n = config.working(PerElement(opened.mesh.n_vertices, 0, opened.mesh.n_faces)).f
        if n > MAX_FACES:
            raise Refusal(
                422,
                f"The model worked on {n:,} faces, and this layer supports {MAX_FACES:,} at most. Choose a coarser "
                "resolution and predict again.",
            )
        if config.pose == "frame_average":
            config = config.replace(pose="frame")  # the first of the frames, without the others
        return make_views(opened.mesh, config, model=network.config)


class Attention(ModelLayer):
    """Rows of the learned stars; entries of signed stars without their signs."""

    name, title, picks = "attention", "Attention", True

    def _choices(self, network: HodgeFormer) -> tuple[Choice, ...] | None:
        stars = _learned_stars(network) if "H" in network.config.blocks else {}
        if not stars:
            return None
        heads = tuple((str(i), str(i)) for i in range(1, network.config.n_heads + 1))
        layer = _block_choice("layer", network.config, "H")
        return layer, Choice("head", "Head", heads), Choice("star", "Star", tuple(stars.items()))

    def _field(self, inspected: _Inspected, pick: Any, *chosen: str) -> ScalarField:
        layer, head, key = chosen
        network, prepared = inspected.network, inspected.prepared
        find = partial(head_operators, network, prepared, layer=int(layer), head=int(head))
        stars = inspected.once(find, layer, head).stars
        owner, _, name = key.partition(".")
        kind = STAR_KIND[cast(StarName, name)]
        weights = np.abs(star_row(stars[owner][name], nearest_element(inspected.views, pick, kind)))
        note = f"Weight of each neighbor of the {ELEMENT_NAMES[kind]} in {_learned_stars(network)[key]}"
        return ScalarField(on_faces(inspected.views, weights, kind), "face", signed=False, note=note)


class Spreading(ModelLayer):
    """How far the clicked vertex reads in D blocks, at the resolution that the model works at."""

    name, title, picks = "spread", "Spread", True

    def _choices(self, network: HodgeFormer) -> tuple[Choice, ...] | None:
        if "D" not in network.config.blocks:
            return None
        block, times = _block_and_time(network.config)
        return block, Choice("time", "Time", (("all", "all, as the block mixes them"), *times.options))

    def _field(self, inspected: _Inspected, pick: Any, *chosen: str) -> ScalarField:
        block, time = chosen
        prepared = inspected.prepared
        vertex = int(prepared.order.v[nearest_element(inspected.views, pick, "v")])
        find = partial(spread_from, inspected.network, prepared, vertex, int(block))
        found = inspected.once(find, block, vertex)[int(block)]
        if time == "all":
            heat, note = found.mixed, f"What block {block} reads around the clicked vertex"
        else:
            i = int(time) - 1
            heat = found.heat[:, i]
            note = f"Read at time {TIMES[i]:.2g}: {found.area[i]:.1%} of the surface"
            note += f"; {found.share[i]:.0%} of block {block}"
        # Over two powers of ten to either side of the mean of the mesh.
        values = np.log10(np.clip(inspected.views.on_mesh(heat[:, None], "v")[:, 0], 1e-2, 1e2))
        return ScalarField(values.astype(np.float32), "vertex", signed=True, note=f"{note} (powers of ten)")


class DiagonalStars(ModelLayer):
    """The learned stars of D blocks over the textbook's."""

    name, title = "diagonal-star", "Learned star"

    def _choices(self, network: HodgeFormer) -> tuple[Choice, ...] | None:
        if "D" not in network.config.blocks or not network.config.diffusion_bound:
            return None
        stars = tuple((star, f"{_SYMBOLS[star]} ({ELEMENT_NAMES[kind]})") for star, kind in DIAGONAL_KIND.items())
        return *_block_and_time(network.config), Choice("star", "Star", stars)

    def _field(self, inspected: _Inspected, pick: Any, *chosen: str) -> ScalarField:
        block, time, name = chosen
        star, views = cast(DiagonalName, name), inspected.views
        kind = DIAGONAL_KIND[star]
        factors = inspected.once(partial(log_factors, inspected.network, inspected.prepared, int(block)), block)
        values = factors[int(block)][star][:, int(time) - 1]
        note = f"Log of the learned {_SYMBOLS[star]} of block {block} over the textbook's at time "
        note += f"{TIMES[int(time) - 1]:.2g}"
        if kind == "e":
            kind, values = "f", sides_mean(values, views.working_mesh)
            note += "; mean over the sides of each face"
        on_mesh = views.on_mesh(values[:, None], kind)[:, 0].astype(np.float32)
        return ScalarField(on_mesh, "face" if kind == "f" else "vertex", signed=True, note=note)


def _block_choice(key: str, config: ModelConfig, letter: str) -> Choice:
    """The numbers of the blocks of this kind, the last first."""
    n = len(config.blocks)
    blocks = tuple((str(i), f"{i} of {n}") for i in range(n, 0, -1) if config.blocks[i - 1] == letter)
    return Choice(key, "Block", blocks)


def _block_and_time(config: ModelConfig) -> tuple[Choice, Choice]:
    times = tuple((str(i), f"{time:.2g} of the area") for i, time in enumerate(TIMES, 1))
    return _block_choice("block", config, "D"), Choice("time", "Time", times)


def _learned_stars(network: HodgeFormer) -> dict[str, str]:
    """The titles of the learned stars by keys such as "v.star1"; all H blocks have the same ones."""
    last = network.config.blocks.rindex("H") + 1
    return {
        f"{kind}.{name}": f"{_SYMBOLS[name]} of L_{kind} ({ELEMENT_NAMES[star.kind]})"
        for kind in network.config.updated
        for name, star in stars_of(network, last, kind).items()
        if isinstance(star, HodgeStar)
    }

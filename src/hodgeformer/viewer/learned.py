"""Eigenfunctions of the learned Laplacians as a layer of the viewer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import numpy as np

from hodgeformer.containers import ElementKind
from hodgeformer.mesh.elements import carry
from hodgeformer.mesh.prepare import prepare
from hodgeformer.study.eigen import Eigenpairs, eigenpairs
from hodgeformer.study.operators import head_operators
from hodgeformer.viewer.fields import Choice, Pick, ScalarField, chosen_option
from hodgeformer.viewer.models import Shelf
from hodgeformer.viewer.refusal import Refusal
from hodgeformer.viewer.scenes import Scene

N_FUNCTIONS = 8
MAX_FACES = 20_000  # an iteration applies the operator hundreds of times
_MAX_KEPT = 4
_KINDS: dict[str, ElementKind] = {"v": "v", "e": "e", "f": "f"}


class LearnedEigenfunctions:
    """L f = lambda f for the learned Laplacian of one head, largest |lambda| first, real parts."""

    name, title, picks = "learned-eigenfunction", "Learned operator", False

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._found: OrderedDict[tuple[str, str, int, int, ElementKind], Eigenpairs] = OrderedDict()

    def choices(self, scene: Scene) -> tuple[Choice, ...] | None:
        if scene.prediction is None or scene.mesh.n_faces > MAX_FACES:
            return None
        config = self._shelf.model(scene.prediction.model).network.config
        layers = [str(i + 1) for i, letter in enumerate(config.blocks) if letter == "H"][::-1]
        if not layers:
            return None
        return (
            Choice("operator", "Operator", tuple((kind, f"L_{kind}") for kind in config.updated)),
            Choice("layer", "Block", tuple((layer, f"{layer} of {len(config.blocks)}") for layer in layers)),
            Choice("head", "Head", tuple((str(i + 1), str(i + 1)) for i in range(config.n_heads))),
            Choice("index", "Number", tuple((str(i), str(i + 1)) for i in range(N_FUNCTIONS))),
        )

    def field(self, scene: Scene, chosen: Mapping[str, str], pick: Pick | None) -> ScalarField:
        choices = self.choices(scene)
        if choices is None or scene.prediction is None:
            raise Refusal(400, "Predict with a model that has learned operators first.")
        operator, layer, head, index = (chosen_option(choice, chosen) for choice in choices)
        kind = _KINDS[operator]
        found = self._solved(scene, scene.prediction.model, int(layer), int(head), kind)
        if int(index) >= len(found):
            raise Refusal(422, f"Only {len(found)} eigenfunctions were found; choose a smaller number.")
        value, function = found.values[int(index)], found.functions[:, int(index)].real
        values = carry(function[:, None], scene.mesh, source=kind, to="v")[:, 0] if kind == "e" else function
        text = f"{value.real:.4g}" if not found.is_pair(int(index)) else f"{value.real:.4g} ± {abs(value.imag):.4g} i"
        note = f"Learned L_{kind}, eigenvalue {text}"
        return ScalarField(values.astype(np.float32), "face" if kind == "f" else "vertex", signed=True, note=note)

    def _solved(self, scene: Scene, model: str, layer: int, head: int, kind: ElementKind) -> Eigenpairs:
        key = (scene.id, model, layer, head, kind)
        with self._shelf.inside:
            if key not in self._found:
                loaded = self._shelf.model(model)
                prepared = prepare(scene.mesh, loaded.preparation)
                operators = head_operators(loaded.network, prepared, layer=layer, head=head)
                pairs = eigenpairs(operators.laplacian(kind), N_FUNCTIONS, "largest")
                functions = prepared.to_file_order(pairs.functions, kind)
                self._found[key] = Eigenpairs(pairs.values, functions, pairs.residuals)
                while len(self._found) > _MAX_KEPT:
                    self._found.popitem(last=False)
            self._found.move_to_end(key)
            return self._found[key]

"""A model as a program of torch.export, for one mesh of any size: the same modules, traced.

What is searched, sorted or eliminated is done before it, as for `PackedComplex`; the tensors of a packed mesh are the
inputs, under the names of their fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from hodgeformer.containers import PerElement
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.ops.rows import TensorFields
from hodgeformer.packed.metric import Surface
from hodgeformer.packed.pack import Batch, pack
from hodgeformer.runtime import GraphInputs

Inputs = dict[str, Tensor]
_INCIDENCES = ("gradient", "curl", "face_corners")
_UNREAD = ("offsets_", "positions", "edges", "faces", "face_edges", "face_signs")


def torch_program(model: HodgeFormer, example: PreparedMesh) -> ExportedProgram:
    """The program of a model, which gives `rows` (logits, or values) and `features` (their means)."""
    template = _packed(example, model.config)
    inputs = _inputs(template, model.config)
    with torch.no_grad():
        program = _Program(model, template)
        return torch.export.export(program, (inputs,), dynamic_shapes=(_free(inputs),), strict=False)


def program_inputs(mesh: PreparedMesh, config: ModelConfig) -> Inputs:
    """What the program of a model takes, of one prepared mesh."""
    return _inputs(_packed(mesh, config), config)


@dataclass(frozen=True, eq=False)
class _Steps(TensorFields):
    """A `Sweep` with a row per step: x[rows] += values x[indices], one step after another."""

    rows: Int[Tensor, "steps entries"]
    indices: Int[Tensor, "steps entries"]
    values: Float[Tensor, "steps entries times"]

    def swept(self, x: Float[Tensor, "n times d"]) -> Float[Tensor, "n times d"]:
        from torch._higher_order_ops.scan import scan

        nothing = x.new_zeros(())  # of a step beside x; torch is unsure how to save a list of none

        def step(x: Tensor, entries: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            rows, indices, values = entries
            return x.index_add(0, rows, values[:, :, None] * x[indices]), nothing.clone()

        out, _ = scan(step, x, (self.rows, self.indices, self.values))
        return cast(Tensor, out)


@dataclass(frozen=True, eq=False)
class _SweptFactor(TensorFields):
    """A `Factor` that is applied in few large steps, on values in the order of the vertices."""

    masses: Float[Tensor, " n"]
    pivots: Float[Tensor, "n times"]
    down: _Steps
    up: _Steps

    @classmethod
    def of(cls, mesh: PreparedMesh) -> _SweptFactor:
        given = GraphInputs(mesh)

        def steps(way: str) -> _Steps:
            return _Steps(*(torch.from_numpy(given[f"{way}_step_{field.name}"]) for field in fields(_Steps)))

        masses, pivots = torch.from_numpy(given["masses"]), torch.from_numpy(given["pivots"]).T.contiguous()
        return cls(masses, pivots, steps("down"), steps("up"))

    @property
    def n_times(self) -> int:
        return self.pivots.shape[1]

    def solved(self, x: Tensor) -> Tensor:
        return self.up.swept(self.down.swept(x) * self.pivots[:, :, None])


class _Program(nn.Module):
    """The model on tensors that stand in the places of those of the template."""

    def __init__(self, model: HodgeFormer, template: Batch) -> None:
        super().__init__()
        self.model, self._template = model, template

    def forward(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        batch = _walked(self._template, inputs.get)
        n = batch.x_in.map(lambda x: x.shape[0])  # `len` would be a fixed number
        topology = replace(batch.topology, n=n)
        topology.__dict__.update(batch.topology.__dict__ | {"n": n})
        batch = replace(batch, topology=topology, sizes=(n,))
        x = self.model.forward_features(batch)
        means = [cast(Tensor, x[kind]).mean(dim=0) for kind in self.model.config.updated]
        return self.model.head(x, topology), torch.cat(means)


def _packed(mesh: PreparedMesh, config: ModelConfig) -> Batch:
    batch = pack([mesh])
    for name in _INCIDENCES:
        getattr(batch.topology, name)
    if "D" in config.blocks:
        surface = batch.topology.surface
        swept = Surface(cast(Any, _SweptFactor.of(mesh)), surface.rings)
        batch.topology.__dict__["surface"] = swept  # the slot of the cached property
    return batch


def _inputs(batch: Batch, config: ModelConfig) -> Inputs:
    """The tensors that a model reads."""
    found: Inputs = {}
    _walked(batch, found.setdefault)
    unread = _UNREAD if "H" in config.blocks else (*_UNREAD, "patterns_")
    return {name: tensor for name, tensor in found.items() if not name.startswith(unread)}


def _walked(value: Any, act: Callable[[str, Tensor], Tensor], name: str = "") -> Any:
    """The same with `act(name, tensor)` in the place of every tensor, however deep, also of what a complex computed."""
    if isinstance(value, Tensor):
        return act(name, value)
    if isinstance(value, PerElement):
        return PerElement(*(_walked(part, act, f"{name}_{kind}") for kind, part in value.items()))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    names = {key: key if key == "topology" else f"{name}_{key}".removeprefix("topology_").strip("_") for key in parts}
    walked = replace(value, **{key: _walked(part, act, names[key]) for key, part in parts.items()})
    computed = getattr(value, "__dict__", {})
    for key in computed.keys() & {"surface", *_INCIDENCES}:  # the slots of cached properties
        walked.__dict__[key] = _walked(computed[key], act, "" if key == "surface" else key)
    return walked


def _free(inputs: Inputs) -> dict[str, dict[int, Any]]:
    """The numbers that are free: of elements and entries, and for tables of steps their width."""
    free = {}
    for name in inputs:
        axes = (0, 1) if name.startswith(("factor_down", "factor_up")) else (0,)
        free[name] = dict.fromkeys(axes, Dim.AUTO)
    return free

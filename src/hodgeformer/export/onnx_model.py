"""A model as an ONNX graph of standard operators, layer by layer as in `nn`, for one mesh of any size.

Frames that differ by the signs of vertex features run together: features are (n frames, d) where layers read rows, and
(n, frames d) where values move between elements. Models that read edges or faces have one frame.
`docs/decisions/0016-onnx.md` says more.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from onnx import ModelProto, TensorProto
from torch import Tensor, nn

from hodgeformer.base.containers import ElementKind
from hodgeformer.base.errors import ConfigError
from hodgeformer.export.elimination import Elimination
from hodgeformer.export.graph import Graph
from hodgeformer.export.incidence import (
    around,
    carried,
    d0,
    d0_t,
    d1,
    d1_t,
    members,
    narrow,
    summed,
    unchunked,
    wide,
)
from hodgeformer.kernels.elimination import N_TIMES, TIMES
from hodgeformer.kernels.linear import BatchNorm, FeedForward, NormalizedFeedForward
from hodgeformer.kernels.rows import EPSILON
from hodgeformer.nn.blocks import LinearAttention, Spreading
from hodgeformer.nn.heads import MeshHead
from hodgeformer.nn.hodge_star import HodgeStar
from hodgeformer.nn.model import HodgeFormer

Features = dict[ElementKind, str]


def onnx_model(model: HodgeFormer) -> ModelProto:
    """The graph of a model, with the outputs `rows` (logits, or values) and `features` (their means)."""
    config = model.config
    if config.stars != "learned" and "H" in config.blocks:
        raise ConfigError(f"stars '{config.stars}' are only for comparison with learned ones and cannot be exported")
    g = Graph()
    elimination = Elimination(g) if "D" in config.blocks else None
    x = {kind: embedded(g, model, kind) for kind in config.embedded}
    x |= {kind: normalized(g, x[kind], config.d_model) for kind in model.encoder.kept}
    block: Any
    for block in model.encoder.blocks:
        normal = x | {kind: normalized(g, x[kind], config.d_model) for kind in block.updated}
        change = attention(g, block.attention, normal, elimination)
        x |= {kind: g("Add", x[kind], change[kind]) for kind in block.updated}
        for kind in block.updated:
            inner = feed_forward(g, block.feed_forward[kind], normalized(g, x[kind], config.d_model))
            x[kind] = g("Add", x[kind], inner)
    x |= {kind: normalized(g, x[kind], config.d_model) for kind in config.updated}
    parts = [g("ReduceMean", wide(g, x[kind], kind), g.constant([0])) for kind in config.updated]
    means = joined(g, [narrow(g, part, config.d_model) for part in parts])
    n_rows = f"n_{config.target_kind}" if config.target_kind else 1
    width = config.d_model * len(config.updated)
    return g.model(
        rows=(head(g, model, x, means), (n_rows, "frames", config.n_classes)), features=(means, ("frames", width))
    )


def linear(g: Graph, layer: nn.Linear, x: str) -> str:
    """x W^T + b."""
    bias = () if layer.bias is None else (g.constant(layer.bias),)
    return g("Gemm", x, g.constant(layer.weight), *bias, transB=1)


def feed_forward(g: Graph, layers: Any, x: str) -> str:
    """W_2 relu(W_1 x + b_1) + b_2, the hidden layer normalized where the model does so."""
    layers = cast(FeedForward, layers)
    hidden = g("Relu", linear(g, layers.expand, x))
    if isinstance(layers, NormalizedFeedForward):
        hidden = batch_normalized(g, layers.norm, hidden)
    return linear(g, layers.contract, hidden)


def batch_normalized(g: Graph, layer: BatchNorm, x: str) -> str:
    """By the running statistics."""
    statistics = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    return g("BatchNormalization", x, *[g.constant(cast(Tensor, value)) for value in statistics], epsilon=layer.eps)


def normalized(g: Graph, x: str, width: int, scale: float = 1.0) -> str:
    """LN(x) over the last axis, times a number."""
    return g("LayerNormalization", x, g.constant(np.full(width, scale)), axis=-1, epsilon=EPSILON)


def joined(g: Graph, parts: list[str]) -> str:
    return g("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def embedded(g: Graph, model: HodgeFormer, kind: ElementKind) -> str:
    """MLP(x_in + A x_in), or without A; with signed stars the mean of that for both directions of an edge."""
    x, mlp = wide(g, g.input(f"x_{kind}"), kind), model.embedding.mlp[kind]
    reversal = model.embedding.edge_reversal if kind == "e" else []
    ways = [x, g("Gather", x, g.constant(reversal), axis=1)] if reversal else [x]
    if model.config.embedding == "neighbor":
        near = around(g, halfway(g, ways), kind)
        ways = [g("Add", way, near) for way in ways]
    return halfway(g, [feed_forward(g, mlp, narrow(g, way, model.config.widths[kind])) for way in ways])


def halfway(g: Graph, values: list[str]) -> str:
    return g("Mul", g("Add", *values), g.constant(1 / 2)) if len(values) == 2 else values[0]


def attention(g: Graph, layer: Any, x: Features, elimination: Elimination | None) -> Features:
    """The change that a block adds to the kinds that it updates."""
    if isinstance(layer, Spreading):
        return {"v": spreading(g, layer, x["v"], cast(Elimination, elimination))}
    if hasattr(layer, "mixer"):
        return {kind: linear_attention(g, layer.mixer[kind], x[kind], kind) for kind in layer.updated}
    return {kind: laplacian(g, kind, layer, x) for kind, layer in layer.laplacian.items()}


def laplacian(g: Graph, kind: ElementKind, layer: Any, x: Features) -> str:
    """L_v, L_e or L_f applied to x W_V, right to left."""
    value = linear(g, layer.value, x[kind])
    if kind == "v":  # star0_inv d0^T star1 d0
        y = d0_t(g, star(g, layer.star1, x["e"], d0(g, value)))
        y = star(g, layer.star0_inv, x["v"], y)
    elif kind == "f":  # d1 star1_inv d1^T star2
        y = d1_t(g, star(g, layer.star2, x["f"], value))
        y = d1(g, star(g, layer.star1_inv, x["e"], y))
    else:  # d0 star0_inv d0^T star1 + star1_inv d1^T star2 d1
        down = d0_t(g, star(g, layer.star1, x["e"], value))
        down = d0(g, star(g, layer.star0_inv, x["v"], down))
        up = d1_t(g, star(g, layer.star2, x["f"], d1(g, value)))
        y = g("Add", down, star(g, layer.star1_inv, x["e"], up))
    return linear(g, layer.out, y)


def star(g: Graph, layer: HodgeStar, x: str, y: str) -> str:
    """star(x) y: row softmax of q k^T / sqrt(d_head) over the pattern, applied to y, a chunk of rows at a time.

    Signed ones are applied to the three coordinates of y u, u the directions of the elements, and the result meets u.
    """
    h, kind = layer.n_heads, layer.kind
    d_head = layer.query.weight.shape[0] // h

    def heads(x: str) -> str:
        return g("Transpose", g.reshape(x, -1, h, d_head), perm=[1, 0, 2])  # (h, n, d_head)

    q = normalized(g, heads(linear(g, layer.query, x)), d_head, d_head**-0.5)
    k, y, width = normalized(g, heads(linear(g, layer.key, x)), d_head), heads(y), h * d_head
    if layer.signed:
        u = g("Unsqueeze", g.input(f"directions_{kind}"), g.constant([1]))  # (n, 1, 3)
        y, width = g.reshape(g("Mul", g("Unsqueeze", y, g.constant([3])), u), h, -1, 3 * d_head), 3 * width
    pattern = g.input(f"pattern_{kind}")

    def chunk(inner: Graph, neighbors: str, rows: str) -> str:
        mine = inner("Unsqueeze", inner("Gather", q, rows, axis=1), inner.constant([3]))
        scores = inner("MatMul", inner("Gather", k, neighbors, axis=1), mine)  # (h, rows, s, d_head), (.., d_head, 1)
        missing = inner("Less", neighbors, inner("Cast", inner.constant(0), to=TensorProto.INT32))
        scores = inner("Where", missing, inner.constant(-1e30), inner("Squeeze", scores, inner.constant([3])))
        weights = inner("Unsqueeze", inner("Softmax", scores, axis=2), inner.constant([2]))
        star_y = inner("MatMul", weights, inner("Gather", y, neighbors, axis=1))  # (h, rows, 1, s), (.., s, d_head)
        return inner.reshape(inner("Transpose", star_y, perm=[1, 2, 0, 3]), -1, width)

    star_y = unchunked(g, g.mapped(chunk, pattern, g.input(f"rows_of_pattern_{kind}")), kind)
    return g.total(g("Mul", g.reshape(star_y, -1, h * d_head, 3), u), 2) if layer.signed else star_y


def linear_attention(g: Graph, layer: Any, x: str, kind: ElementKind) -> str:
    """W_O phi(q) (sum phi(k) v^T) / (phi(q) . sum phi(k)), phi = elu + 1, over the mesh."""
    layer = cast(LinearAttention, layer)
    d = layer.query.weight.shape[0]

    def heads(projection: nn.Linear) -> str:
        parts = g.reshape(wide(g, linear(g, projection, x), kind), 0, -1, d // layer.n_heads)
        return g("Transpose", parts, perm=[1, 0, 2])  # (frames h, n, d_head)

    a, b = (g("Add", g("Elu", heads(projection)), g.constant(1.0)) for projection in (layer.query, layer.key))
    b_t = g("Transpose", b, perm=[0, 2, 1])
    norm = g("MatMul", a, g.total(b_t, 2, keep=True))
    norm = g("Max", norm, g.constant(torch.finfo(torch.float32).eps ** 2))
    out = g("Div", g("MatMul", a, g("MatMul", b_t, heads(layer.value))), norm)
    return linear(g, layer.out, g.reshape(g("Transpose", out, perm=[1, 0, 2]), -1, d))


def spreading(g: Graph, layer: Spreading, x: str, elimination: Elimination) -> str:
    """W_O [y, tanh(c t (<dy, d(y W_P)> + dy ^ d(y W_Q)))] with y = (star0 + t d0^T star1 d0)^-1 star0 x W_V.

    <dy, dz> is summed over edges and dy ^ dz over faces, of which every corner gets the same share.
    """
    d = layer.value.weight.shape[0]
    masses = g("Unsqueeze", g.input("masses"), g.constant([1]))
    star0, star1 = diagonal_stars(g, layer, x, masses)
    steps = elimination.eliminated(g, conductances(g, star0, star1), once=not layer.bound)
    y = g("Mul", wide(g, linear(g, layer.value, x), "v"), by_channel(g, star0, d))
    y = elimination.solved(g, steps, g.reshape(y, 0, -1, d // N_TIMES))  # (n, frames times, channels)
    y = narrow(g, y, d)
    # A face gives each corner a third of the wedge that an edge gives each end of the inner product.
    p, q = (
        wide(g, g("Gemm", y, g.constant(weight), transB=1), "v")
        for weight in (layer.inner.weight, layer.wedge.weight / 3)
    )
    y = wide(g, y, "v")
    along = g("Mul", g("Mul", d0(g, y), d0(g, p)), by_channel(g, star1, d))
    product = g("Add", summed(g, along, "e", "v", signed=False), summed(g, turned(g, y, q), "f", "v", signed=False))
    product = narrow(g, g("Div", product, masses), d)
    product = g("Tanh", g("Mul", product, g.constant(layer.times * layer.log_scale.exp() / 2)))
    return linear(g, layer.out, g("Concat", narrow(g, y, d), product, axis=1))


def by_channel(g: Graph, star: str, d: int) -> str:
    """(n, frames times) as (n, frames d). A product with zeros and ones is faster than broadcasting."""
    channels = g(
        "MatMul", g.reshape(star, -1, N_TIMES), g.constant(np.kron(np.eye(N_TIMES), np.ones((1, d // N_TIMES))))
    )
    return g("Reshape", channels, g("Concat", g("Shape", star, start=0, end=1), g.constant([-1]), axis=0))


def diagonal_stars(g: Graph, layer: Spreading, x: str, masses: str) -> tuple[str, str]:
    """star0 (n_v, frames times) and star1: the textbook's, times exp(r tanh(. / r)) where they are learned."""
    weights = g("Unsqueeze", g.input("edge_weights"), g.constant([1]))
    if not layer.bound:
        groups = g("Mul", g("Shape", g.input("x_v"), start=1, end=2), g.constant([N_TIMES]))
        shape = g("Concat", g.constant([1]), groups, axis=0)
        return g("Expand", masses, shape), g("Expand", weights, shape)
    changes = linear(g, layer.stars, x)
    of_vertex, of_ends = (
        wide(g, g("Gather", changes, g.constant(np.arange(N_TIMES) + first), axis=1), "v") for first in (0, N_TIMES)
    )

    def factor(change: str) -> str:
        return g("Exp", g("Mul", g("Tanh", g("Div", change, g.constant(layer.bound))), g.constant(layer.bound)))

    return g("Mul", masses, factor(of_vertex)), g("Mul", weights, factor(members(g, of_ends, "edges", 2)))


def conductances(g: Graph, star0: str, star1: str) -> str:
    """The entries that elimination starts with: t star1 over edges, star0 to the ground, zero and one."""
    first = g("Gather", star0, g.constant([0]))
    over_edges = g.reshape(g("Mul", g.reshape(star1, 0, -1, N_TIMES), g.constant(TIMES)), 0, -1)
    sources = over_edges, star0, g("Sub", first, first), g("Div", first, first)
    return g("Gather", g("Concat", *sources, axis=0), g.input("step_entries"))


def turned(g: Graph, y: str, z: str) -> str:
    """Twice the integral of dy ^ dz over each face (i, a, b): det(y_a - y_i, z_b - z_i; ...)."""
    (yi, ya, yb), (zi, za, zb) = (
        [g("Gather", values, g.column(g.input("faces"), corner), axis=0) for corner in range(3)] for values in (y, z)
    )
    first = g("Mul", g("Sub", ya, yi), g("Sub", zb, zi))
    return g("Sub", first, g("Mul", g("Sub", yb, yi), g("Sub", za, zi)))


def head(g: Graph, model: HodgeFormer, x: Features, means: str) -> str:
    """One row for the mesh, from centered means, or one per element, from all kinds; by frames."""
    layer, d = model.head, model.config.d_model
    if isinstance(layer, MeshHead):
        rows = linear(g, layer.out, means if layer.center is None else batch_normalized(g, layer.center, means))
        return g("Unsqueeze", rows, g.constant([0]))
    parts = [carried(g, wide(g, x[kind], kind), kind, layer.kind) for kind in layer.updated]
    n_rows = g("Shape", parts[0], start=0, end=1)
    rows = linear(g, layer.out, joined(g, [narrow(g, part, d) for part in parts]))
    return g("Reshape", rows, g("Concat", n_rows, g.constant([-1, model.config.n_classes]), axis=0))

"""The paper's network written again from its equations: dense float64 matrices, NumPy alone, one mesh, evaluation.

It shares no code with the package: from the corners of the faces, the edges and the rows S_i on, everything is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
EPSILON = 1e-5


@dataclass(frozen=True)
class Surface:
    """d_0, d_1 and the sets S_i as dense matrices."""

    d0: Array
    d1: Array
    allowed: dict[str, NDArray[np.bool_]]

    @property
    def adjacency(self) -> dict[str, NDArray[np.bool_]]:
        """Vertices over edges, edges that share a vertex, faces that share an edge."""
        ends, sides = np.abs(self.d0), np.abs(self.d1)
        shared = {"v": ends.T @ ends, "e": ends @ ends.T, "f": sides @ sides.T}
        return {kind: (number > 0) & ~np.eye(len(number), dtype=bool) for kind, number in shared.items()}


def surface_of(n_vertices: int, faces: NDArray[np.int64], edges: NDArray[np.int64], rows: dict[str, list]) -> Surface:
    """From the corners of the faces and the (tail, head) of the edges."""
    d0, d1 = np.zeros((len(edges), n_vertices)), np.zeros((len(faces), len(edges)))
    number = {}
    for e, (tail, head) in enumerate(edges):
        d0[e, tail], d0[e, head] = -1, 1
        number[tail, head], number[head, tail] = (e, 1), (e, -1)
    for f, corners in enumerate(faces):
        for start, end in zip(corners, np.roll(corners, -1), strict=True):
            e, sign = number[start, end]
            d1[f, e] = sign
    allowed = {kind: np.zeros((len(of_kind), len(of_kind)), dtype=bool) for kind, of_kind in rows.items()}
    for kind, of_kind in rows.items():
        for i, row in enumerate(of_kind):
            allowed[kind][i, row] = True
    return Surface(d0, d1, allowed)


def answer(
    weights: Mapping[str, Array], x_in: dict[str, Array], surface: Surface, *, blocks: str, updates: str, heads: int,
    mesh: bool = False,
) -> Array:  # fmt: skip
    """Logits: one row for the mesh, or one for each face."""
    network = _Network(weights, surface, heads)
    x = {kind: network.embedded(x_in[kind], kind) for kind in "vef" if f"embedding.mlp.{kind}.expand.weight" in weights}
    x |= {kind: norm(x[kind]) for kind in x if kind not in updates}
    for i, letter in enumerate(blocks):
        x = network.block(x, f"encoder.blocks.{i}", letter, updates)
    last = [norm(x[kind]) for kind in updates]
    if mesh:
        pooled = np.concatenate([one.mean(axis=0) for one in last])[None]
        return network.linear(network.batch_norm(pooled, "head.center"), "head.out")
    corners = np.abs(surface.d1) @ np.abs(surface.d0) / 6
    to_faces = {"v": corners, "e": np.abs(surface.d1) / 3, "f": np.eye(len(corners))}
    carried = [to_faces[kind] @ one for kind, one in zip(updates, last, strict=True)]
    return network.linear(np.concatenate(carried, axis=1), "head.out")


@dataclass(frozen=True)
class _Network:
    weights: Mapping[str, Array]
    surface: Surface
    heads: int

    def embedded(self, x_in: Array, kind: str) -> Array:
        """MLP(x_in + A x_in), A the mean over adjacent elements."""
        adjacent = self.surface.adjacency[kind].astype(np.float64)
        around = adjacent @ x_in / np.maximum(adjacent.sum(axis=1, keepdims=True), 1)
        return self.mlp(x_in + around, f"embedding.mlp.{kind}")

    def block(self, x: dict[str, Array], at: str, letter: str, updates: str) -> dict[str, Array]:
        normal = x | {kind: norm(x[kind]) for kind in updates}
        change = {
            kind: self.laplacian(normal, kind, f"{at}.attention.laplacian.{kind}")
            if letter == "H"
            else self.linear_attention(normal[kind], f"{at}.attention.mixer.{kind}")
            for kind in updates
        }
        between = x | {kind: x[kind] + change[kind] for kind in updates}
        fed = {kind: self.mlp(norm(between[kind]), f"{at}.feed_forward.{kind}") for kind in updates}
        return between | {kind: between[kind] + fed[kind] for kind in updates}

    def laplacian(self, x: dict[str, Array], kind: str, at: str) -> Array:
        """L_v, L_e or L_f, formed for each head and multiplied with V."""
        d0, d1 = self.surface.d0, self.surface.d1

        def star(name: str, of: str) -> Array:
            return self.star(x[of], of, f"{at}.{name}")

        if kind == "v":
            operator = star("star0_inv", "v") @ d0.T @ star("star1", "e") @ d0
        elif kind == "e":
            operator = d0 @ star("star0_inv", "v") @ d0.T @ star("star1", "e")
            operator = operator + star("star1_inv", "e") @ d1.T @ star("star2", "f") @ d1
        else:
            operator = d1 @ star("star1_inv", "e") @ d1.T @ star("star2", "f")
        return self.linear(merged(operator @ self.split(self.linear(x[kind], f"{at}.value"))), f"{at}.out")

    def star(self, x: Array, kind: str, at: str) -> Array:
        """(h, n, n): softmax over S_i of q k^T / sqrt(d / h), q = LN(x W_Q), k = LN(x W_K)."""
        q, k = (norm(self.split(self.linear(x, f"{at}.{name}"))) for name in ("query", "key"))
        scores = np.where(self.surface.allowed[kind], q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1]), -np.inf)
        raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return raised / raised.sum(axis=-1, keepdims=True)

    def linear_attention(self, x: Array, at: str) -> Array:
        q, k, value = (self.split(self.linear(x, f"{at}.{name}")) for name in ("query", "key", "value"))
        weights = positive(q) @ positive(k).swapaxes(1, 2)
        return self.linear(merged(weights / weights.sum(axis=-1, keepdims=True) @ value), f"{at}.out")

    def mlp(self, x: Array, at: str) -> Array:
        hidden = np.maximum(self.linear(x, f"{at}.expand"), 0)
        return self.linear(self.batch_norm(hidden, f"{at}.norm"), f"{at}.contract")

    def batch_norm(self, x: Array, at: str) -> Array:
        """By the running statistics; nothing where the network has no such layer."""
        if f"{at}.weight" not in self.weights:
            return x
        mean, variance, weight, bias = (
            self.weights[f"{at}.{name}"] for name in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / np.sqrt(variance + EPSILON) * weight + bias

    def linear(self, x: Array, at: str) -> Array:
        return x @ self.weights[f"{at}.weight"].T + self.weights.get(f"{at}.bias", 0)

    def split(self, x: Array) -> Array:
        return x.reshape(len(x), self.heads, -1).swapaxes(0, 1)


def merged(x: Array) -> Array:
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


def norm(x: Array) -> Array:
    """LayerNorm over the last axis, without scale and bias."""
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + EPSILON)


def positive(x: Array) -> Array:
    """elu(x) + 1."""
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

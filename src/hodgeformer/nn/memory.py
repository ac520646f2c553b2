"""How much memory one pass will need, from sizes alone.

Counted in numbers per element, layer by layer, as the layers keep them for the backward pass: what a
normalization, a dropout or a signed gather returns is kept by the layer that reads it, and by nobody else.
"""

from __future__ import annotations

from hodgeformer.containers import ElementKind, PerElement
from hodgeformer.nn.config import ModelConfig

STARS: dict[ElementKind, str] = {"v": "ev", "e": "evfe", "f": "fe"}
"""The kinds that the stars of L_v, L_e and L_f act on."""
BYTES = 4
WEIGHTS_KEPT_UP_TO = 3
"""Attention weights are kept for the backward pass while a row has at most this many times d_head neighbors."""


def activation_memory(config: ModelConfig, n: PerElement[int], nnz: PerElement[int], *, training: bool) -> int:
    """Bytes at the peak of one pass, float32, on the CPU; patterns, weights and optimizer not counted."""
    if training:
        return BYTES * (_kept(config, n, nnz) + _working(config, n, nnz))
    embedded = sum(n[kind] for kind in config.embedded)
    updated = sum(n[kind] for kind in config.updated)
    # At work: the form in flight, queries and keys before and after their normalization, and the result.
    return BYTES * config.d_model * (embedded + 2 * updated + 6 * max(n[kind] for kind in _acted_on(config)))


def _kept(config: ModelConfig, n: PerElement[int], nnz: PerElement[int]) -> int:
    """Numbers that the forward pass leaves for the backward pass."""
    d = config.d_model
    embedding = sum(n[kind] * (config.widths[kind] + config.d_hidden + d) for kind in config.embedded)
    blocks = [_kept_by_block(config, letter, n, nnz) for letter in config.blocks]
    boundary = sum(n[kind] * d for kind in config.updated)
    head = 2 * len(config.updated) * d * (n[config.target_kind] if config.target_kind else 0)
    if config.checkpoint_activations:
        return embedding + len(blocks) * boundary + max(blocks) + head
    return embedding + sum(blocks) + boundary + head


def _kept_by_block(config: ModelConfig, letter: str, n: PerElement[int], nnz: PerElement[int]) -> int:
    """Two normalizations, the hidden layer, the input of W_O, and what attention keeps."""
    d = config.d_model
    total = 0
    if letter == "D":
        # two normalizations; y, its two mixes, the product before and after tanh, both side by side; the hidden layer
        return n.v * (9 * d + config.d_hidden)
    for kind in config.updated:
        total += n[kind] * (3 * d + config.d_hidden)
        if letter == "T":
            total += 8 * n[kind] * d  # q, k, value, elu and elu + 1 of q and k, the sum before it is divided
        elif config.stars == "learned":
            total += sum(3 * n[on] * d + _weights(config, n, nnz, on) for on in _kinds(STARS[kind]))
    return total


def _working(config: ModelConfig, n: PerElement[int], nnz: PerElement[int]) -> int:
    """The largest layer at work in the backward pass: gradients on the way in and out, and score gradients."""
    return max(
        5 * n[kind] * config.d_model + (_weights(config, n, nnz, kind) or 2 * nnz[kind]) for kind in _acted_on(config)
    )


def _weights(config: ModelConfig, n: PerElement[int], nnz: PerElement[int], kind: ElementKind) -> int:
    kept = nnz[kind] <= WEIGHTS_KEPT_UP_TO * config.d_head * n[kind]
    return nnz[kind] * config.n_heads if kept else 0


def _acted_on(config: ModelConfig) -> tuple[ElementKind, ...]:
    """The kinds that some attention works on."""
    return _kinds("".join(STARS[kind] for kind in config.updated)) if "H" in config.blocks else config.updated


def _kinds(letters: str) -> tuple[ElementKind, ...]:
    return tuple(letters)  # type: ignore[arg-type]

"""The memory that a pass through a model takes, from sizes alone."""

from __future__ import annotations

from hodgeformer.base.containers import ElementKind, PerElement
from hodgeformer.kernels.elimination import N_TIMES
from hodgeformer.mesh.prepare import PrepareConfig
from hodgeformer.nn.config import OPERATOR_STARS, STAR_KIND, ModelConfig

BYTES = 4
# A closed mesh whose patterns have their longest rows; beyond it memory grows in proportion.
_COUNTED = PerElement(50_000, 150_000, 100_000)
_COPIES = 3  # of patterns and features while a view goes from preparation into the model
_COMPLEX_BYTES = 1200  # per face: topology, orders, incidences and their transposes


def bytes_per_face(model: ModelConfig, config: PrepareConfig, *, training: bool = False) -> float:
    """The memory of one pass per face of a large mesh, including what is prepared for it."""
    n, sizes = _COUNTED, config.row_sizes(_COUNTED)
    nnz = PerElement.build(lambda kind: n[kind] * sum(sizes[kind]))
    prepared = BYTES * _COPIES * (sum(nnz) + sum(n[kind] * config.widths[kind] for kind in ("v", "e", "f")))
    return (activation_memory(model, n, nnz, training=training) + prepared) / n.f + _COMPLEX_BYTES


def activation_memory(config: ModelConfig, n: PerElement[int], nnz: PerElement[int], *, training: bool) -> int:
    """Bytes at the peak of one pass over n elements with nnz pattern entries, float32, on the CPU; from sizes alone.

    Counted in numbers per element, layer by layer, as the layers keep them for the backward pass: what a
    normalization, a dropout or a signed gather returns is kept only by the layer that reads it.
    Patterns, weights and optimizer are not counted.
    """
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
    """Two normalizations, the hidden layer, the input of W_O, and what attention keeps: q, k and its values."""
    d = config.d_model
    total = 0
    if letter == "D":
        # two normalizations; y, its two mixes, the product before and after tanh, both side by side; the hidden layer
        kept = n.v * (9 * d + config.d_hidden + _kept_by_switches(config))
        # and with learned stars their input, both stars in three forms, and the factor with about ten entries in a row
        return kept + (n.v * d + N_TIMES * (3 * n.v + 3 * n.e + 11 * n.v) if config.diffusion_bound else 0)
    for kind in config.updated:
        total += n[kind] * (3 * d + config.d_hidden + _kept_by_switches(config))
        if letter == "T":
            total += 3 * n[kind] * d
        elif config.stars == "learned":
            total += sum(3 * n[on] * d + _weights(config, n, nnz, on) for on in _kinds_of_stars(kind))
    return total


def _kept_by_switches(config: ModelConfig) -> int:
    """Per element: also the hidden layer before its normalization, and which entries both residuals dropped."""
    return config.feed_forward_norm * config.d_hidden + (config.residual_dropout > 0) * 2 * config.d_model


def _working(config: ModelConfig, n: PerElement[int], nnz: PerElement[int]) -> int:
    """The largest layer at work in the backward pass: gradients on the way in and out, and score gradients."""
    return max(
        5 * n[kind] * config.d_model + (_weights(config, n, nnz, kind) or 2 * nnz[kind]) for kind in _acted_on(config)
    )


def _weights(config: ModelConfig, n: PerElement[int], nnz: PerElement[int], kind: ElementKind) -> int:
    from hodgeformer.kernels.star import weights_are_kept  # training alone asks, which has torch

    kept = weights_are_kept(nnz=nnz[kind], n=n[kind], d_head=config.d_head)
    return nnz[kind] * config.n_heads if kept else 0


def _acted_on(config: ModelConfig) -> tuple[ElementKind, ...]:
    """The kinds that some attention works on."""
    if "H" not in config.blocks:
        return config.updated
    return tuple(on for kind in config.updated for on in _kinds_of_stars(kind))


def _kinds_of_stars(kind: ElementKind) -> tuple[ElementKind, ...]:
    return tuple(STAR_KIND[star] for star in OPERATOR_STARS[kind])

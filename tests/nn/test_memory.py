"""The estimate of memory against the peak of all allocations."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch

from hodgeformer.base.containers import PerElement
from hodgeformer.mesh.prepare import PrepareConfig, prepare
from hodgeformer.nn.config import ModelConfig
from hodgeformer.nn.memory import activation_memory
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack
from meshes import icosphere


def peak_bytes(work: Callable[[], object], folder) -> int:
    """The most that was allocated at once, by the allocator's own record."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True, acc_events=True) as profile:
        work()
    trace = folder / "trace.json"
    profile.export_chrome_trace(str(trace))
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["name"] == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda event: event["ts"]):
        now += event["args"]["Bytes"]
        peak = max(peak, now)
    return peak


@pytest.fixture(scope="module")
def batch():
    return pack([prepare(icosphere(3), PrepareConfig(max_neighbors=None))], transpose=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"blocks": "H"},
        {"blocks": "HHT", "updates": "vef"},
        {"blocks": "TT", "updates": "f"},
        {"blocks": "HHHH", "checkpoint_activations": True},
        {"blocks": "DDD"},
        {"blocks": "DDD", "star_bound": 3.0},
        {"blocks": "HHT", "feed_forward_norm": True, "residual_dropout": 0.1},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_the_estimate_is_within_a_factor_of_the_peak(batch, changes, tmp_path):
    config = ModelConfig(**{"task": "segmentation", "n_classes": 8, "d_model": 128, "d_hidden": 256, **changes})
    model = HodgeFormer(config)
    nnz = batch.topology.patterns.map(lambda pattern: pattern.nnz)

    def train() -> None:
        model.train()
        model.zero_grad()
        model(batch).square().mean().backward()

    def infer() -> None:
        model.eval()
        with torch.inference_mode():
            model(batch)

    train()  # the gradients of the weights are not activations
    for work, training in ((train, True), (infer, False)):
        ratio = activation_memory(model.config, batch.n, nnz, training=training) / peak_bytes(work, tmp_path)
        assert 1 / 1.4 < ratio < 1.4


def test_checkpointing_grows_slower_with_depth_and_size_grows_in_proportion():
    def estimate(scale: int = 1, **changes) -> int:
        config = ModelConfig(task="segmentation", n_classes=8, **changes)
        n, nnz = PerElement(1000, 3000, 2000), PerElement(32_000, 96_000, 64_000)
        sizes = (n.map(lambda count: count * scale), nnz.map(lambda count: count * scale))
        return activation_memory(config, *sizes, training=True)

    plain, kept = estimate(blocks="H" * 12), estimate(blocks="H" * 12, checkpoint_activations=True)
    assert kept < plain / 3
    assert estimate(scale=7, blocks="HT") == 7 * estimate(blocks="HT")

"""Costs are measured for what they say, apart from everything else."""

from __future__ import annotations

import os

import pytest

from hodgeformer.lab.bench.yardsticks import growth
from hodgeformer.lab.study import efficiency
from hodgeformer.lab.study.efficiency import WORKS, Cost, Work, apart, runtime_rows, size_cost, size_row
from hodgeformer.mesh.prepare import PrepareConfig
from meshes import icosphere, tetrahedron


def test_a_measurement_has_a_process_of_its_own() -> None:
    assert apart(os.getpid) != os.getpid()


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting Python and torch anew for every figure is not what is tested."""
    monkeypatch.setattr(efficiency, "apart", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(efficiency, "ENOUGH_SECONDS", 0.0)
    monkeypatch.setattr(efficiency, "ONE_LAYER", efficiency.ONE_LAYER.replace(d_model=8, d_hidden=8, n_heads=2))


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("work", WORKS)
def test_every_kind_of_work_is_measured(work: Work) -> None:
    cost = size_cost(icosphere(1), tetrahedron(), work, PrepareConfig(n_neighbors=2))
    assert 0 < cost.seconds < 10


def test_rows_have_the_papers_figures_where_it_has_them() -> None:
    row = size_row("layer, inference", 1 << 14, Cost(0.5, 0.25))
    assert (row["milliseconds"], row["paper_milliseconds"], row["paper_gigabytes"]) == (500.0, 55.25, 15.89)
    assert size_row("layer, inference", 1 << 16, Cost(0.5, 0.25))["paper_milliseconds"] is None


@pytest.mark.usefixtures("in_this_process")
def test_the_runtime_table_counts_epochs_and_preparation() -> None:
    tables = {
        "data": {"name": "synthetic_cubes", "n_classes": 2, "n_train": 2, "n_test": 1, "n_faces": 120},
        "model": {"blocks": "H", "d_model": 8, "n_heads": 1},
        "train": {"batch_size": 2, "epochs": 1, "workers": 0},
    }
    training, testing = runtime_rows(tables)
    assert (training["batches"], testing["batches"]) == (2, 2)
    for row in (training, testing):
        assert row["epoch_seconds"] >= row["model_seconds"] > 0
        assert 0 < row["preparation_share"] < 1
    assert training["paper_epoch_seconds"] == 17.58


def test_growth_is_the_exponent() -> None:
    rows = [{"n_vertices": 2.0**k, "seconds": 3 * 2.0 ** (1.5 * k)} for k in range(8, 15)]
    assert growth(rows, "seconds") == pytest.approx(1.5)

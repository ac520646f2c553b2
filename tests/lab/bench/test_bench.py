"""Measurements return sensible figures; their values are for quiet machines."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from hodgeformer.cli import app
from hodgeformer.lab.bench.yardsticks import bumpy_torus, human_sized_mesh
from hodgeformer.mesh.check import check_mesh


def test_meshes_are_closed_and_of_the_size_they_say() -> None:
    for n in (64, 2048):
        report = check_mesh(bumpy_torus(n))
        assert (report.n_vertices, report.n_edges, report.n_faces) == (n, 3 * n, 2 * n)
        assert report.closed
        assert report.winding_consistent
    assert abs(human_sized_mesh().n_vertices - 752) <= 4


@pytest.mark.parametrize("part", ["verbs", "predict", "serving", "training"])
def test_the_verb_prints_only_json_when_asked(part: str) -> None:
    result = CliRunner().invoke(app, ["bench", part, "--quick", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)[part]
    assert rows
    measured = ("_s", "seconds", "total", "per_second", "ms")
    assert all(value > 0 for row in rows for key, value in row.items() if key.endswith(measured))


def test_the_verb_prints_a_table() -> None:
    table = CliRunner().invoke(app, ["bench", "training", "--quick"])
    assert "SHREC11" in table.stdout

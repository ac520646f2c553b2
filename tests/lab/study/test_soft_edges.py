"""Soft edges: a border edge is right with either part, and areas weigh."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command import run
from hodgeformer.lab.study.soft_edges import soft_edge_score
from hodgeformer.mesh.elements import convert_labels, element_areas, incidences
from hodgeformer.mesh.io import save_mesh
from hodgeformer.mesh.mesh import Mesh
from meshes import icosphere
from tiny_models import PARTS, write_tiny


def halves(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """Faces above and below, and the soft labels of edges: both parts where they meet."""
    faces = (mesh.vertices[mesh.faces].mean(axis=1)[:, 2] > 0).astype(int)
    soft = np.zeros((mesh.count("e"), len(PARTS)))
    rows, edges = incidences(mesh, "f", "e")
    soft[edges, faces[rows]] += 0.5
    return faces, soft


def test_either_part_is_right_on_a_border() -> None:
    mesh = icosphere(2)
    faces, soft = halves(mesh)
    assert soft_edge_score(np.eye(len(PARTS))[faces], mesh, soft) == 1.0
    border = (soft > 0).sum(axis=1) == 2
    one = convert_labels(np.zeros(mesh.n_faces, int), mesh, source="f", to="e")
    assert (one == 0).all() and border.any()
    areas = element_areas(mesh, "e")
    expected = areas[soft[:, 0] > 0].sum() / areas.sum()
    always_first = np.eye(len(PARTS))[np.zeros(mesh.n_faces, int)]
    assert soft_edge_score(always_first, mesh, soft) == pytest.approx(expected)


def test_the_command_scores_faces_and_edges(tmp_path: Path) -> None:
    folder = tmp_path / "coseg_aliens"
    for name in ("train", "test", "seg", "sseg"):
        (folder / name).mkdir(parents=True)
    mesh = icosphere(1)
    _, soft = halves(mesh)
    for name, split in (("1", "train"), ("166", "test"), ("2", "test")):
        save_mesh(mesh, folder / split / f"{name}.obj")
        np.savetxt(folder / "seg" / f"{name}.eseg", soft.argmax(axis=1) + 1, fmt="%d")
        np.savetxt(folder / "sseg" / f"{name}.seseg", soft)
    model = write_tiny(tmp_path, classes=("part_1", "part_2", "part_3", "part_4"))
    command = ("study", "soft-edges", model, folder)
    result = run(*command, "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["meshes"] == 2
    assert content["faces_without_mislabeled"] == content["faces"]  # both meshes are the same
    assert content["soft_edges"] >= content["faces"] - 15
    (folder / "sseg" / "2.seseg").write_text("1 0 0 0\n")
    broken = run(*command)
    assert broken.exit_code == 2 and "expected 120 edges with 4 numbers each" in broken.stderr

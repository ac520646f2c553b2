"""What a face score leaves open on the paper's data: MeshCNN's soft edge score, and known wrong labels left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.base.errors import DataError
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.label_files import read_text
from hodgeformer.mesh.elements import convert_values, element_areas
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.training.evaluate import Answer

MISLABELED = {"human": "shrec__15", "human seg": "shrec__15", "coseg aliens": "166"}
"""Test meshes whose labels are known to be wrong, by the name of their data set or its folder."""


def soft_scores(dataset: DataSet, samples: Sequence[Sample], answers: Sequence[Answer]) -> dict[str, float | None]:
    """In percent: faces, faces without the mislabeled mesh, and soft edges; None where the data has no such thing."""
    wrong = MISLABELED.get(dataset.name.lower().replace("_", " "))
    right = [answer for answer in answers if answer.mesh.name != wrong]
    return {
        "faces": _percent(_face_accuracy(answers)),
        "faces_without_mislabeled": _percent(_face_accuracy(right)) if len(right) < len(answers) else None,
        "soft_edges": _percent(_soft_edges(samples, answers)),
    }


def soft_edge_score(probabilities: FloatArray, answer_mesh: Any, soft: NDArray[np.float64]) -> float:
    """The share of a surface whose edges get a part that they belong to.

    The part of an edge is the most probable one on the faces beside it. It is right if it has any part of the soft
    label, which on a border names both sides. Edges count by their area, a third of the faces beside them.
    """
    parts = convert_values(probabilities, answer_mesh, source="f", to="e").argmax(axis=1)
    areas = element_areas(answer_mesh, "e")
    return float(areas[soft[np.arange(len(parts)), parts] > 0].sum() / areas.sum())


def _soft_edges(samples: Sequence[Sample], answers: Sequence[Answer]) -> float | None:
    """The mean over meshes, as MeshCNN has it."""
    files = [_soft_file(sample) for sample in samples]
    if not files or any(file is None for file in files):
        return None
    scores = []
    for file, answer in zip(files, answers, strict=True):
        assert file is not None
        soft = np.array([line.split() for line in read_text(file).splitlines() if line.strip()], dtype=np.float64)
        expected = (answer.mesh.count("e"), answer.output.shape[1])
        if soft.shape != expected:
            raise DataError(f"{file}: expected {expected[0]} edges with {expected[1]} numbers each, got {soft.shape}")
        scores.append(soft_edge_score(answer.output, answer.mesh, soft))
    return float(np.mean(scores))


def _soft_file(sample: Sample) -> Path | None:
    if not isinstance(sample.mesh, Path):
        return None
    file = sample.mesh.parent.parent / "sseg" / f"{sample.mesh.stem}.seseg"
    return file if file.is_file() else None


def _face_accuracy(answers: Sequence[Answer]) -> float:
    right = [(answer.predicted == answer.target)[answer.target >= 0] for answer in answers]
    return float(np.concatenate(right).mean())


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)

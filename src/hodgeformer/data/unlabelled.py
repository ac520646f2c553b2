"""Meshes without labels, to learn shapes from: patches of the surface are hidden, and what was there is the target.

As in a masked autoencoder. The network keeps what it needs to fill a gap from its surroundings and from the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from hodgeformer.containers import KINDS, PerElement
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.folder import find_meshes
from hodgeformer.mesh.features import N_DISTANCES, FeatureGroup, feature_widths, input_features
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.mesh.prepare import PreparedMesh

N_RECONSTRUCTED = 6 + N_DISTANCES
"""Columns of a hidden vertex: its place in its patch, its normal, its distances along the surface."""
_PATCHES = 24


@dataclass(frozen=True)
class Unread:
    """There is no label; what is to be found again is known once a patch is hidden."""

    def read(self, mesh: Mesh) -> FloatArray:
        return np.zeros((mesh.n_vertices, N_RECONSTRUCTED), dtype=np.float32)


def open_unlabelled(root: Path, *, hide: float = 0.5) -> DataSet:
    """All meshes below a folder, whatever lies beside them; `hide` is the share of patches that is hidden."""
    samples = tuple(Sample(name, path, Unread()) for name, path in find_meshes(root, ".").items())
    return without_labels(root.resolve().name, samples, hide=hide)


def without_labels(name: str, samples: Iterable[Sample], *, hide: float = 0.5) -> DataSet:
    """Meshes to learn shapes from, whatever their targets are."""
    told = f"no labels are read: {hide:.0%} of the surface is hidden in patches, and their vertices are to be found"
    return DataSet(
        name,
        "regression",
        "vertex",
        {"train": tuple(replace(sample, target=Unread()) for sample in samples)},
        n_values=N_RECONSTRUCTED,
        notes=(told,),
        hide=hide,
    )


def with_hidden_patches(
    whole: PreparedMesh, features: tuple[FeatureGroup, ...], share: float, rng: np.random.Generator
) -> PreparedMesh:
    """The mesh with patches hidden, and as target what is hidden; rows of NaN for vertices that are seen.

    A patch are the vertices nearest to one of some that are drawn. All that is told of a hidden vertex is the center of
    its patch: every element that it belongs to has its coordinates there, and zeros for the rest. To be found are its
    position from that center, in sizes of a patch, its normal, and its distances along the surface. The complex, its
    patterns and the lengths that D blocks read stay as they are: they say how a surface is connected, not where it is.
    """
    n, positions, topology = whole.n, whole.positions, whole.topology
    seeds = rng.choice(n.v, size=min(_PATCHES, n.v), replace=False)
    patch = cKDTree(positions[seeds]).query(positions)[1]
    chosen = rng.permutation(len(seeds))[: max(1, round(share * len(seeds)))]
    hidden = np.isin(patch, chosen)
    members = np.bincount(patch, minlength=len(seeds))
    sums = [np.bincount(patch, column, len(seeds)) for column in positions.T]
    centers = (np.stack(sums, axis=1) / np.maximum(members, 1)[:, None])[patch]

    offsets = positions - centers
    size = float(np.sqrt((offsets[hidden] ** 2).mean())) or 1.0
    truth = input_features(positions, topology, ("normals", "distances"), ("v",)).v
    target = np.full((n.v, N_RECONSTRUCTED), np.nan, dtype=np.float32)
    target[hidden] = np.concatenate([offsets[hidden] / size, truth[hidden]], axis=1)

    touched_faces = hidden[topology.faces].any(axis=1)
    touched_edges = np.zeros(n.e, dtype=bool)
    touched_edges[topology.face_edges[touched_faces]] = True  # an edge also knows the corners opposite to it
    touched = PerElement(hidden, touched_edges, touched_faces)
    told = input_features(np.where(hidden[:, None], centers, positions), topology, ("coords",))
    width = feature_widths(("coords",))
    x_in = whole.x_in.map(np.copy)
    for kind in KINDS:
        x_in[kind][touched[kind]] = 0.0
        if "coords" in features:
            x_in[kind][touched[kind], : width[kind]] = told[kind][touched[kind]]
    return replace(whole, x_in=x_in, target=target)

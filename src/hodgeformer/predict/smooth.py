"""Cleaner part boundaries: each element listens to its neighbors, less across sharp edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hodgeformer.containers import ElementKind
from hodgeformer.data.convert import element_counts
from hodgeformer.mesh.geometry import face_vectors, norms, unit
from hodgeformer.mesh.mesh import FloatArray, Mesh
from hodgeformer.predict.elements import neighbors

_ROUNDS = 25
_SHARPNESS = 0.15  # 1 - cosine of the bend at which an edge lets through 1/e of its weight


def smoothed(probabilities: NDArray[Any], mesh: Mesh, *, kind: ElementKind, strength: float) -> NDArray[Any]:
    """p <- (1 - strength) p_0 + strength W p, repeated; the rows of W are means over adjacent elements.

    Between faces the weight is the length of the shared edge, less the more the surface bends there. Rows still sum to
    one. An element without neighbors keeps its own.
    """
    weights = _weights(mesh, kind)
    listens = (np.diff(weights.indptr) > 0)[:, None]
    current = probabilities.astype(np.float64)
    start = current
    for _ in range(_ROUNDS):
        current = np.where(listens, (1 - strength) * start + strength * (weights @ current), start)
    result: NDArray[Any] = current.astype(probabilities.dtype)
    return result


def _weights(mesh: Mesh, kind: ElementKind) -> csr_array:
    first, second, shared = neighbors(mesh, kind)
    n = element_counts(mesh)[kind]
    weight = np.ones(len(first)) if shared is None else _permeability(mesh, first, second, shared)
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    matrix = csr_array((np.concatenate([weight, weight]), (rows, columns)), shape=(n, n))
    matrix.eliminate_zeros()
    totals = np.asarray(matrix.sum(axis=1)).ravel()
    matrix.data /= np.repeat(totals, np.diff(matrix.indptr))
    return matrix


def _permeability(mesh: Mesh, first: NDArray[Any], second: NDArray[Any], shared: NDArray[Any]) -> FloatArray:
    normals = unit(face_vectors(mesh.vertices, mesh.faces))
    # Faces wound against each other bend the other way round.
    bend = 1 - np.abs(np.einsum("ij,ij->i", normals[first], normals[second]))
    lengths = norms(mesh.vertices[shared[:, 1]] - mesh.vertices[shared[:, 0]])
    scale = lengths.mean() if lengths.size and lengths.mean() > 0 else 1.0
    weight: FloatArray = lengths / scale * np.exp(-bend / _SHARPNESS) + 1e-9
    return weight

"""Eigenfunctions of learned Laplacians, found by applying them; for comparison, those of the cotangent Laplacian."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from hodgeformer.base.containers import ElementKind
from hodgeformer.base.errors import ConfigError
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.mesh.topology import MeshComplex
from hodgeformer.nn.metric import Metric
from hodgeformer.predict.operators import whitney_matrix

ComplexArray = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """Eigenvalues (k,) and eigenfunctions (n, k); complex ones come in conjugate pairs.

    Functions have unit norm and the phase that makes their real part largest. `residuals` are |L f - value f|.
    """

    values: ComplexArray
    functions: ComplexArray
    residuals: FloatArray

    def __len__(self) -> int:
        return len(self.values)

    def in_file_order(self, prepared: PreparedMesh, kind: ElementKind) -> Eigenpairs:
        """Functions on the elements of a prepared mesh, in the order of its file."""
        return replace(self, functions=prepared.to_file_order(self.functions, kind))


def eigenpairs(operator: LinearOperator, k: int) -> Eigenpairs:
    """The k eigenpairs of largest modulus of a real operator, not symmetric in general.

    Fewer are returned if the iteration does not converge. A conjugate pair is never split.
    """
    n = operator.shape[0]
    if k < 1:
        raise ConfigError(f"the number of eigenfunctions must be at least 1, got {k}")
    if n <= 4 * k + 8:  # too small for a Krylov space, and cheap as a dense matrix
        values, functions = np.linalg.eig(operator @ np.eye(n))
    else:
        start = np.random.default_rng(0).standard_normal(n)
        try:
            # One more than requested, so that a pair at the end is complete.
            values, functions = eigs(operator, k=k + 1, v0=start, ncv=min(n, max(6 * k, 60)), maxiter=50 * n)
        except ArpackNoConvergence as stopped:
            values, functions = stopped.eigenvalues, stopped.eigenvectors
    values, functions = values.astype(np.complex128), functions.astype(np.complex128)
    size = np.abs(values)
    largest = size.max(initial=0.0)
    # Rounded, so that the partners of a pair are adjacent, the positive one first.
    order = np.lexsort((-values.imag, np.round(-size / max(largest, 1e-300), 9)))
    values, functions = values[order], _in_phase(functions[:, order])
    whole = k + 1 if len(values) > k and values[k - 1].imag > 1e-9 * largest else k
    values, functions = values[:whole], functions[:, :whole]
    applied = operator @ functions.real + 1j * (operator @ functions.imag)
    return Eigenpairs(values, functions, np.linalg.norm(applied - functions * values, axis=0))


def _in_phase(functions: ComplexArray) -> ComplexArray:
    """Unit norm, largest real part, and the entry of largest modulus positive."""
    phase = np.exp(-0.5j * np.angle((functions**2).sum(axis=0)))
    turned = functions * phase / np.linalg.norm(functions, axis=0)
    peak = turned.real[np.abs(turned.real).argmax(axis=0), np.arange(turned.shape[1])]
    return np.asarray(turned * np.where(peak < 0, -1.0, 1.0), np.complex128)


def cotangent_laplacian(topology: MeshComplex, positions: FloatArray) -> tuple[csr_array, FloatArray]:
    """Stiffness d0^T star1 d0, star1 of Whitney 1-forms, and mass star0, in the unit of `Metric`."""
    members = {name: torch.tensor(getattr(topology, name)) for name in ("edges", "faces", "face_edges", "face_signs")}
    at = torch.tensor(positions, dtype=torch.float64)
    metric = Metric.measure(positions=at, mesh_of_vertex=torch.zeros(len(at), dtype=torch.int64), **members)
    d0 = topology.d0_matrix().astype(np.float64)
    return csr_array(d0.T @ whitney_matrix(metric) @ d0), metric.star0.numpy()


def cotangent_eigenpairs(topology: MeshComplex, positions: FloatArray, k: int) -> Eigenpairs:
    """The k smallest eigenpairs of the cotangent Laplacian: stiffness f = value mass f, functions of unit norm.

    Vertices without area (no face uses them) are not part of the surface and get the value zero.
    """
    stiffness, mass = cotangent_laplacian(topology, positions)
    used = np.flatnonzero(mass > 0)
    k = min(k, len(used) - 1)
    if k < 1:
        raise ConfigError("eigenfunctions need a surface with at least two vertices")
    inner, areas = csc_array(stiffness[used][:, used]), mass[used]
    start = np.random.default_rng(0).standard_normal(len(used))
    shift = -1e-6 * float(np.abs(inner.diagonal() / areas).mean())
    values, found = eigsh(inner, k=k, M=diags_array(areas).tocsc(), sigma=shift, which="LM", v0=start)
    order = np.argsort(values, kind="stable")
    functions = np.zeros((len(mass), k))
    functions[used] = found[:, order]
    functions /= np.linalg.norm(functions, axis=0)
    applied = np.divide(stiffness @ functions, mass[:, None], out=np.zeros_like(functions), where=mass[:, None] > 0)
    residuals = np.linalg.norm(applied - functions * values[order], axis=0)
    return Eigenpairs(values[order].astype(np.complex128), _in_phase(functions.astype(np.complex128)), residuals)

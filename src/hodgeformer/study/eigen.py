"""Eigenfunctions of operators that are applied and never formed, and those of the cotangent Laplacian."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from hodgeformer.containers import ElementKind
from hodgeformer.errors import ConfigError
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.mesh.topology import MeshComplex
from hodgeformer.packed.metric import Metric

End = Literal["largest", "smallest"]
ComplexArray = NDArray[np.complex128]
FloatArray = NDArray[np.float64]

# ARPACK counts largest by modulus and smallest by real part: both are outer ends of the spectrum, where it converges.
_WHICH: dict[End, str] = {"largest": "LM", "smallest": "SR"}


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """Eigenvalues (k,) and eigenfunctions (n, k), sorted from the asked end; complex ones come in conjugate pairs.

    Functions have unit norm and the phase that makes their real part largest. `residuals` are |L f - value f|.
    """

    values: ComplexArray
    functions: ComplexArray
    residuals: FloatArray

    def __len__(self) -> int:
        return len(self.values)

    def distinct(self) -> list[int]:
        """Positions without the second partners of conjugate pairs, whose real parts show nothing new."""
        small = 1e-9 * (np.abs(self.values).max() if len(self) else 0.0)
        return [i for i in range(len(self)) if self.values[i].imag >= -small]

    def in_file_order(self, prepared: PreparedMesh, kind: ElementKind) -> Eigenpairs:
        """Functions on the elements of a prepared mesh, in the order of its file."""
        return replace(self, functions=prepared.to_file_order(self.functions, kind))

    def is_pair(self, i: int) -> bool:
        """Whether eigenvalue i is one of two that are conjugate to each other."""
        return bool(abs(self.values[i].imag) > 1e-9 * np.abs(self.values).max())


def eigenpairs(operator: LinearOperator, k: int, end: End, *, seed: int = 0) -> Eigenpairs:
    """The k eigenpairs of a real operator, not symmetric in general, at one end of its spectrum.

    Fewer come back where the iteration does not converge. A pair that k would cut in half is returned whole.
    """
    n = operator.shape[0]
    if k < 1:
        raise ConfigError(f"the number of eigenfunctions must be at least 1, got {k}")
    if n <= 4 * k + 8:  # too small for a Krylov space, and cheap to write out
        values, functions = np.linalg.eig(operator @ np.eye(n))
    else:
        start = np.random.default_rng(seed).standard_normal(n)
        try:
            # One more than asked, so that a pair at the cut is seen whole.
            values, functions = eigs(
                operator, k=k + 1, which=_WHICH[end], v0=start, ncv=min(n, max(6 * k, 60)), maxiter=50 * n
            )
        except ArpackNoConvergence as stopped:
            values, functions = stopped.eigenvalues, stopped.eigenvectors
    return _sorted(operator, values, functions, k, end)


def _sorted(operator: LinearOperator, values: NDArray[Any], functions: NDArray[Any], k: int, end: End) -> Eigenpairs:
    values, functions = values.astype(np.complex128), functions.astype(np.complex128)
    key = -np.abs(values) if end == "largest" else values.real
    # Rounded, so that the partners of a pair stay together, the positive one first.
    order = np.lexsort((-values.imag, np.round(key / max(np.abs(values).max(initial=0.0), 1e-300), 9)))
    values, functions = values[order], _in_phase(functions[:, order])
    small = 1e-9 * np.abs(values).max(initial=0.0)
    whole = k + 1 if len(values) > k and values[k - 1].imag > small else k
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


def whitney_matrix(metric: Metric) -> csr_array:
    """The mass matrix of Whitney 1-forms, summed over faces."""
    n_e, sides = len(metric.star1), metric.face_edges.numpy()
    rows, columns = np.repeat(sides, 3, axis=1).ravel(), np.tile(sides, (1, 3)).ravel()
    return csr_array((metric.whitney.numpy().astype(np.float64).ravel(), (rows, columns)), shape=(n_e, n_e))


def cotangent_eigenpairs(*, stiffness: csr_array, mass: FloatArray, k: int, seed: int = 0) -> Eigenpairs:
    """The k smallest eigenpairs of the cotangent Laplacian: stiffness f = value mass f, functions of unit norm.

    Vertices without area (no face uses them) have no part in the surface and get the value zero.
    """
    used = np.flatnonzero(mass > 0)
    k = min(k, len(used) - 1)
    if k < 1:
        raise ConfigError("a surface with at least two vertices is needed for eigenfunctions")
    inner, areas = csc_array(stiffness[used][:, used]), mass[used]
    start = np.random.default_rng(seed).standard_normal(len(used))
    shift = -1e-6 * float(np.abs(inner.diagonal() / areas).mean())
    values, found = eigsh(inner, k=k, M=diags_array(areas).tocsc(), sigma=shift, which="LM", v0=start)
    order = np.argsort(values, kind="stable")
    functions = np.zeros((len(mass), k))
    functions[used] = found[:, order]
    functions /= np.linalg.norm(functions, axis=0)
    applied = np.divide(stiffness @ functions, mass[:, None], out=np.zeros_like(functions), where=mass[:, None] > 0)
    residuals = np.linalg.norm(applied - functions * values[order], axis=0)
    return Eigenpairs(values[order].astype(np.complex128), _in_phase(functions.astype(np.complex128)), residuals)

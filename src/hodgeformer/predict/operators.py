"""The operators that one head of an H block has learned, on one mesh: stars as matrices, Laplacians as operators, and
their eigenfunctions; for comparison, those of the cotangent Laplacian."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh
from torch import Tensor

from hodgeformer.base.containers import ElementKind, PerElement
from hodgeformer.base.errors import ConfigError
from hodgeformer.kernels.star import star_attention_weights
from hodgeformer.mesh.mesh import FloatArray
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.mesh.topology import MeshComplex
from hodgeformer.nn.blocks import HodgeFormerBlock
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.config import OPERATOR_STARS, StarName
from hodgeformer.nn.hodge_star import FixedStar, HodgeStar
from hodgeformer.nn.metric import Metric
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.nn.pack import pack

ComplexArray = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class HeadOperators:
    """The stars (n, n) of every Laplacian of a layer, for one head, in the order of the prepared mesh.

    `layer` and `head` count from 1.
    """

    prepared: PreparedMesh
    layer: int
    head: int
    stars: Mapping[ElementKind, Mapping[StarName, csr_array]]

    def laplacian(self, kind: ElementKind) -> LinearOperator:
        """L_v, L_e or L_f as the layer applies it to one column of its values: right to left, without a matrix."""
        if kind not in self.stars:
            raise ConfigError(f"layer {self.layer} has no L_{kind}: this model updates {', '.join(self.stars)}")
        stars, topology = self.stars[kind], self.prepared.topology
        d0, d1 = (matrix.astype(np.float64) for matrix in (topology.d0_matrix(), topology.d1_matrix()))

        def apply(y: NDArray[Any]) -> NDArray[Any]:
            if kind == "v":
                return cast(NDArray[Any], stars["star0_inv"] @ (d0.T @ (stars["star1"] @ (d0 @ y))))
            if kind == "f":
                return cast(NDArray[Any], d1 @ (stars["star1_inv"] @ (d1.T @ (stars["star2"] @ y))))
            down = d0 @ (stars["star0_inv"] @ (d0.T @ (stars["star1"] @ y)))
            return cast(NDArray[Any], down + stars["star1_inv"] @ (d1.T @ (stars["star2"] @ (d1 @ y))))

        n = self.prepared.n[kind]
        return LinearOperator((n, n), matvec=apply, matmat=apply, dtype=np.float64)


def head_operators(model: HodgeFormer, prepared: PreparedMesh, *, layer: int | None, head: int = 1) -> HeadOperators:
    """Run the model up to a layer (counted from 1; None: the last HodgeFormer block) and read one head's stars.

    The model must be in evaluation mode.
    """
    if layer is None:
        if "H" not in model.config.blocks:
            raise ConfigError(f"the model has no learned operators: its blocks '{model.config.blocks}' contain no H")
        layer = model.config.blocks.rindex("H") + 1
    named = {kind: stars_of(model, layer, kind) for kind in model.config.updated}
    if not 1 <= head <= model.config.n_heads:
        raise ConfigError(f"the model has heads 1 to {model.config.n_heads}, got {head}")
    batch = pack([prepared])
    with torch.no_grad():
        x = model.features_before(batch, layer)
    topology = replace(batch.topology, positions=torch.from_numpy(prepared.positions.copy()))
    stars = {
        kind: {name: star_matrix(star, x, topology, head=head - 1) for name, star in own.items()}
        for kind, own in named.items()
    }
    return HeadOperators(prepared, layer, head, stars)


def star_matrix(
    star: HodgeStar | FixedStar, x: PerElement[Tensor | None], topology: PackedComplex, *, head: int
) -> csr_array:
    """A learned star of one head (from 0), or a fixed one, as a matrix in float64; a signed one with its signs."""
    if isinstance(star, FixedStar):
        metric = topology.metric
        if star.name == "star1" and star.galerkin:
            return whitney_matrix(metric)
        return csr_array(diags_array(star.diagonal(metric).numpy().astype(np.float64)))
    with torch.no_grad():
        q, k = star.queries_and_keys(cast(Tensor, x[star.kind]))
        one = slice(head, head + 1)
        weights = star_attention_weights(q=q[:, one], k=k[:, one], pattern=topology.patterns[star.kind])
    pattern, entries = topology.patterns[star.kind], weights[:, 0].double()
    if star.signed:
        u = topology.edge_directions if star.kind == "e" else topology.face_normals
        row = torch.repeat_interleave(pattern.offsets.diff().long())
        entries = entries * (u[row] * u[pattern.indices.long()]).sum(1)
    csr = (entries, pattern.indices, pattern.offsets)
    return csr_array(tuple(values.cpu().numpy() for values in csr), shape=(len(pattern), len(pattern)))


def star_row(star: csr_array, row: int) -> FloatArray:
    """One value per element; NaN outside the pattern of the row."""
    entries = slice(star.indptr[row], star.indptr[row + 1])
    values = np.full(star.shape[1], np.nan)
    values[star.indices[entries]] = star.data[entries]
    return values


def stars_of(model: HodgeFormer, layer: int, kind: ElementKind) -> dict[StarName, HodgeStar | FixedStar]:
    """The stars of L_v, L_e or L_f of a HodgeFormer block, counted from 1, by their names."""
    blocks = model.config.blocks
    if not 1 <= layer <= len(blocks) or not isinstance(block := model.encoder.blocks[layer - 1], HodgeFormerBlock):
        known = ", ".join(str(i + 1) for i, letter in enumerate(blocks) if letter == "H")
        raise ConfigError(
            f"layer {layer} is not a HodgeFormer block; the HodgeFormer blocks of '{blocks}': {known or 'none'}"
        )
    laplacian = cast(Any, block.attention).laplacian[kind]
    return {name: getattr(laplacian, name) for name in OPERATOR_STARS[kind]}


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

    def is_pair(self, i: int) -> bool:
        """Whether eigenvalue i is one of two that are conjugate to each other."""
        return bool(abs(self.values[i].imag) > 1e-9 * np.abs(self.values).max())


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


def whitney_matrix(metric: Metric) -> csr_array:
    """The mass matrix of Whitney 1-forms, summed over faces."""
    n_e, sides = len(metric.star1), metric.face_edges.numpy()
    rows, columns = np.repeat(sides, 3, axis=1).ravel(), np.tile(sides, (1, 3)).ravel()
    return csr_array((metric.whitney.numpy().astype(np.float64).ravel(), (rows, columns)), shape=(n_e, n_e))


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

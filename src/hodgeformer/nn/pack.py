"""Many prepared meshes become one batch; the surface that D blocks read is joined the same way in `nn.metric`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from torch import Tensor

from hodgeformer.base.containers import ELEMENT_NAMES, KINDS, ElementKind, PerElement, SparsityPattern
from hodgeformer.base.errors import BatchError
from hodgeformer.kernels.rows import TensorFields
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.complex import PackedComplex
from hodgeformer.nn.metric import concatenated, joined_offsets

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Batch(TensorFields):
    """What `pack` makes of prepared meshes and the model reads.

    Nothing is padded: row i of `x_in.f` is a face of some mesh, and the faces of a mesh are contiguous. `target` holds
    one row per mesh, or per element of one kind, or is None. `sizes[b]` are the element counts of mesh b.
    """

    topology: PackedComplex
    x_in: PerElement[Float[Tensor, "n c"]]
    sizes: tuple[PerElement[int], ...]
    names: tuple[str, ...]
    target: Shaped[Tensor, "rows ..."] | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def n(self) -> PerElement[int]:
        """The number of elements of all meshes."""
        return self.topology.n

    def split(self, values: Shaped[Tensor, "n ..."], kind: ElementKind) -> list[Tensor]:
        """Values per element, as one tensor for each mesh: undoes packing."""
        if len(values) != self.n[kind]:
            raise BatchError(
                f"expected one row for each of the {self.n[kind]} elements of kind '{ELEMENT_NAMES[kind]}', "
                f"got {len(values)}"
            )
        return list(torch.split(values, [size[kind] for size in self.sizes]))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Batch:
        """Move to a device; dtype casts the floating tensors and leaves integers alone."""
        if dtype is None and device is not None and self.x_in.v.device == torch.device(device):
            return self  # without a look at some fifty tensors

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device, dtype if tensor.is_floating_point() else None, non_blocking=True)

        return self.map(moved)


def pack(meshes: Sequence[PreparedMesh], *, transpose: bool = False) -> Batch:
    """One block-diagonal complex from many meshes, without padding: the rest of a batch does not change a result.

    `transpose` also builds the transposed patterns that the backward pass reads, which a loader can do in advance.
    Targets are one number (or one row, shape (1, c)) per mesh, or one for each element of a kind.
    """
    if not meshes:
        raise BatchError("a batch needs at least one mesh, got an empty list")
    starts = PerElement.build(lambda kind: [0, *accumulate(mesh.n[kind] for mesh in meshes)])
    return Batch(
        topology=_pack_topology(meshes, starts, transpose),
        x_in=PerElement.build(lambda kind: _pack_features(meshes, kind)),
        sizes=tuple(mesh.n for mesh in meshes),
        names=tuple(mesh.name for mesh in meshes),
        target=_pack_targets(meshes),
    )


def _pack_topology(meshes: Sequence[PreparedMesh], starts: PerElement[list[int]], transpose: bool) -> PackedComplex:
    def shifted(array: Callable[[PreparedMesh], Array], kind: ElementKind) -> Tensor:
        return _tensor(concatenated([array(mesh) for mesh in meshes], starts[kind]), torch.int32)

    return PackedComplex(
        n=starts.map(lambda numbers: numbers[-1]),
        offsets=starts.map(tuple),
        patterns=PerElement.build(lambda kind: _pack_patterns(meshes, kind, starts[kind], transpose)),
        positions=_tensor(np.concatenate([mesh.positions for mesh in meshes]), torch.float32),
        edges=shifted(lambda mesh: mesh.topology.edges, "v"),
        faces=shifted(lambda mesh: mesh.topology.faces, "v"),
        face_edges=shifted(lambda mesh: mesh.topology.face_edges, "e"),
        face_signs=_tensor(np.concatenate([mesh.topology.face_signs for mesh in meshes]), torch.int8),
    )


def _pack_patterns(
    meshes: Sequence[PreparedMesh], kind: ElementKind, starts: list[int], transpose: bool
) -> SparsityPattern[Tensor]:
    patterns = [mesh.patterns[kind] for mesh in meshes]
    packed = SparsityPattern.from_csr(
        joined_offsets([pattern.offsets for pattern in patterns]),
        concatenated([pattern.indices for pattern in patterns], starts),
    )
    if transpose:
        _ = packed.transposed  # is moved along with it
    return packed.map(torch.from_numpy)


def _pack_features(meshes: Sequence[PreparedMesh], kind: ElementKind) -> Tensor:
    widths = [mesh.x_in[kind].shape[1] for mesh in meshes]
    other = next((i for i, width in enumerate(widths) if width != widths[0]), None)
    if other is not None:
        raise BatchError(
            f"{ELEMENT_NAMES[kind]} features of '{meshes[other].name}' have {widths[other]} columns, "
            f"those of '{meshes[0].name}' {widths[0]}; prepare all meshes with the same features"
        )
    if all(mesh.x_in[kind].strides == (0, 0) for mesh in meshes):  # left out
        return torch.tensor(torch.nan).expand(sum(mesh.n[kind] for mesh in meshes), widths[0])
    return _tensor(np.concatenate([mesh.x_in[kind] for mesh in meshes]), torch.float32)


def _pack_targets(meshes: Sequence[PreparedMesh]) -> Tensor | None:
    targets = [None if mesh.target is None else np.asarray(mesh.target) for mesh in meshes]
    given = [target for target in targets if target is not None]
    if not given:
        return None
    forms = {_target_form(target) for target in targets}
    if len(forms) > 1:
        found = "; ".join(
            f"'{mesh.name}': {_target_form(target)}" for mesh, target in zip(meshes, targets, strict=True)
        )
        raise BatchError(f"all targets of a batch must have the same form, got {found}")
    if given[0].ndim:
        _check_target_lengths(meshes, [len(target) for target in given])
    joined = np.concatenate([np.atleast_1d(target) for target in given])
    return _tensor(joined, torch.float32 if np.issubdtype(joined.dtype, np.floating) else torch.int64)


def _target_form(target: Array | None) -> str:
    if target is None:
        return "none"
    number = "real" if np.issubdtype(target.dtype, np.floating) else "whole"
    return f"{number} numbers, " + ("one value" if target.ndim == 0 else f"rows of shape {target.shape[1:]}")


def _check_target_lengths(meshes: Sequence[PreparedMesh], lengths: list[int]) -> None:
    """Rows belong to whole meshes (one each) or to one kind of element, the same kind in every mesh."""
    if all(length == 1 for length in lengths):
        return
    for kind in KINDS:
        if all(length == mesh.n[kind] for length, mesh in zip(lengths, meshes, strict=True)):
            return
    counts = "; ".join(
        f"'{mesh.name}': {length} rows for {mesh.n.v} vertices, {mesh.n.e} edges, {mesh.n.f} faces"
        for length, mesh in zip(lengths, meshes, strict=True)
    )
    raise BatchError(f"targets must fit the meshes or one kind of element in every mesh, got {counts}")


def _tensor(array: Array, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(dtype)

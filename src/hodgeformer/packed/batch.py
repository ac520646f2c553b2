"""A batch: several meshes as one complex with their input features and targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from hodgeformer.containers import ELEMENT_NAMES, ElementKind, PerElement
from hodgeformer.errors import BatchError
from hodgeformer.packed.topology import PackedComplex


@dataclass(frozen=True, eq=False)
class Batch:
    """What `pack` makes of prepared meshes and the model reads.

    Nothing is padded: row i of `x_in.f` is a face of some mesh, those of mesh b stand together. `target` holds
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
        """Elements of all meshes together."""
        return self.topology.n

    def split(self, values: Shaped[Tensor, "n ..."], kind: ElementKind) -> list[Tensor]:
        """Values per element, as one tensor for each mesh: undoes packing."""
        if len(values) != self.n[kind]:
            raise BatchError(
                f"expected one row for each of the {self.n[kind]} elements of kind '{ELEMENT_NAMES[kind]}', "
                f"got {len(values)}"
            )
        return list(torch.split(values, [size[kind] for size in self.sizes]))

    def map(self, fn: Callable[[Tensor], Tensor]) -> Batch:
        """Apply fn to every tensor."""
        return Batch(
            topology=self.topology.map(fn),
            x_in=self.x_in.map(fn),
            sizes=self.sizes,
            names=self.names,
            target=None if self.target is None else fn(self.target),
        )

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Batch:
        """Move to a device; dtype casts the floating tensors and leaves integers alone."""

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device, dtype if tensor.is_floating_point() else None, non_blocking=True)

        return self.map(moved)

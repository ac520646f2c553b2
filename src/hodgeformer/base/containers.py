"""The two containers that all stages share, and the names of tasks and elements.

Neither container imports torch: both contain NumPy arrays on the mesh side and tensors on the model side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from hodgeformer.base.errors import BatchError

T = TypeVar("T")
U = TypeVar("U")

Task = Literal["classification", "segmentation", "regression"]
PartElement = Literal["vertex", "edge", "face"]
Element = Literal["mesh", PartElement]
"""What a label or a value belongs to: the whole mesh, or one of its parts."""

ElementKind = Literal["v", "e", "f"]
KINDS: tuple[ElementKind, ...] = ("v", "e", "f")
KIND_OF: dict[Element, ElementKind] = {"vertex": "v", "edge": "e", "face": "f"}
ELEMENT_NAMES: dict[ElementKind, Element] = {kind: name for name, kind in KIND_OF.items()}
Backend = Literal["auto", "reference", "numba", "triton"]
"""The implementation of star attention."""


@dataclass(frozen=True, slots=True)
class PerElement(Generic[T]):
    """One value each for vertices, edges and faces: the paper's (x_v, x_e, x_f)."""

    v: T
    e: T
    f: T

    def __getitem__(self, kind: ElementKind) -> T:
        if kind not in KINDS:
            raise KeyError(f"the element kind must be 'v', 'e' or 'f', got {kind!r}")
        value: T = getattr(self, kind)
        return value

    def __iter__(self) -> Iterator[T]:
        return iter((self.v, self.e, self.f))

    def items(self) -> Iterator[tuple[ElementKind, T]]:
        return zip(KINDS, self, strict=True)

    def map(self, fn: Callable[[T], U]) -> PerElement[U]:
        return PerElement(fn(self.v), fn(self.e), fn(self.f))

    @classmethod
    def build(cls, fn: Callable[[ElementKind], T]) -> PerElement[T]:
        """PerElement(fn("v"), fn("e"), fn("f"))."""
        return cls(fn("v"), fn("e"), fn("f"))

    def replace(self, **changes: T) -> PerElement[T]:
        return PerElement(changes.get("v", self.v), changes.get("e", self.e), changes.get("f", self.f))


@dataclass(frozen=True)
class Transposed(Generic[T]):
    """The same nonzeros column by column.

    Column j contains the rows `rows[offsets[j]:offsets[j + 1]]`, ascending; `entries` is the position of each of them
    in the row-wise `SparsityPattern.indices`.
    """

    offsets: T
    rows: T
    entries: T


@dataclass(frozen=True)
class SparsityPattern(Generic[T]):
    """The sparsity patterns S_i of one element kind, as ragged rows (CSR).

    Row i attends to `indices[offsets[i]:offsets[i + 1]]`. There is no padding and no mask. `offsets` is int64,
    `indices` int32. Arrays are NumPy on the mesh side and torch tensors on the model side.
    """

    offsets: T
    indices: T

    @classmethod
    def from_csr(cls, offsets: T, indices: T) -> SparsityPattern[T]:
        """Validate the arrays, so that a kernel never reads out of bounds."""
        off, ind = _as_numpy(offsets, "offsets"), _as_numpy(indices, "indices")
        if off.ndim != 1 or ind.ndim != 1 or off.size < 1:
            raise BatchError(f"offsets and indices must be 1-D, got shapes {off.shape} and {ind.shape}")
        n = off.size - 1
        if off[0] != 0 or off[-1] != ind.size:
            raise BatchError(
                f"offsets must start at 0 and end at the number of indices ({ind.size}), "
                f"got {int(off[0])} and {int(off[-1])}"
            )
        lengths = np.diff(off)
        if n and lengths.min() < 1:
            row = int(lengths.argmin())
            raise BatchError(f"row {row} of the pattern is empty; every row needs at least one index")
        if ind.size and (ind.min() < 0 or ind.max() >= n):
            at = int(np.flatnonzero((ind < 0) | (ind >= n))[0])
            raise BatchError(f"index {int(ind[at])} at position {at} is outside the pattern's {n} elements")
        return cls(_cast(offsets, "int64"), _cast(indices, "int32"))

    def __len__(self) -> int:
        return len(self.offsets) - 1  # type: ignore[arg-type]

    @property
    def nnz(self) -> int:
        return len(self.indices)  # type: ignore[arg-type]

    @cached_property
    def transposed(self) -> Transposed[T]:
        """The column-wise view for the backward pass; computed once, on first use."""
        offsets, indices = _as_numpy(self.offsets, "offsets"), _as_numpy(self.indices, "indices")
        from scipy.sparse import csr_array  # slow to import

        n = offsets.size - 1
        by_column = csr_array((np.arange(indices.size), indices, offsets), shape=(n, n)).tocsc()
        columns = by_column.indptr.astype(np.int64), by_column.indices.astype(np.int32), by_column.data
        if isinstance(self.offsets, np.ndarray):
            return Transposed(*columns)
        import torch

        device = self.offsets.device  # type: ignore[attr-defined]
        return Transposed(*(torch.from_numpy(a).to(device) for a in columns))  # type: ignore[arg-type]

    def map(self, fn: Callable[[T], Any]) -> SparsityPattern[Any]:
        """Apply fn to every array (the transposed ones too, if they exist), e.g. to move to a device."""
        moved: SparsityPattern[Any] = SparsityPattern(fn(self.offsets), fn(self.indices))
        if "transposed" in self.__dict__:
            t = self.transposed
            moved.__dict__["transposed"] = Transposed(fn(t.offsets), fn(t.rows), fn(t.entries))
        return moved


def _as_numpy(array: Any, name: str) -> np.ndarray:
    out = np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)
    if not np.issubdtype(out.dtype, np.integer):
        raise BatchError(f"{name} of a sparsity pattern must be integers, got {out.dtype}")
    return out


def _cast(array: Any, dtype: str) -> Any:
    if hasattr(array, "detach"):
        import torch

        return array.to(getattr(torch, dtype)).contiguous()
    return np.ascontiguousarray(array, dtype=dtype)

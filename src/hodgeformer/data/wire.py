"""Send an object full of tensors to another process as one block of bytes.

A batch holds some fifty tensors; sent one by one each costs a file descriptor and a mapping. Here they are laid into
one block of shared memory, and on the other side are views of it: nothing is copied twice.
"""

from __future__ import annotations

import io
import pickle
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_ALIGNMENT = 64
_SHARED_MEMORY = Path("/dev/shm")
_HEADROOM = 4  # batches of this size that must still fit into shared memory


@dataclass(frozen=True, eq=False)
class Parcel:
    """An object without its tensors, and the bytes of the tensors: shared, or (where memory is short) in line."""

    frame: bytes
    block: Tensor | NDArray[np.uint8]


def wrap(value: Any) -> Parcel:
    """Put the tensors of an object into one block; `unwrap` gives an equal object in another process."""
    stream = io.BytesIO()
    framer = _Framer(stream)
    framer.dump(value)
    block = _shared(framer.end)
    sent: Tensor | NDArray[np.uint8] = block if block is not None else np.empty(framer.end, dtype=np.uint8)
    flat = torch.as_tensor(sent)
    for start, tensor in framer.tensors:
        flat[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape).copy_(tensor)
    return Parcel(stream.getvalue(), sent)


def unwrap(parcel: Parcel) -> Any:
    return _Assembler(io.BytesIO(parcel.frame), torch.as_tensor(parcel.block)).load()


def _shared(n_bytes: int) -> Tensor | None:
    """Uninitialized shared memory, or None where the system's share of it is too small to be safe."""
    if _SHARED_MEMORY.is_dir() and shutil.disk_usage(_SHARED_MEMORY).free < _HEADROOM * n_bytes:
        return None
    storage = torch.UntypedStorage._new_shared(max(n_bytes, 1))  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=torch.uint8).set_(storage)[:n_bytes]


class _Framer(pickle.Pickler):
    """Pickles everything but tensors, which it sets aside, each with the byte at which it is to begin."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[tuple[int, Tensor]] = []
        self.end = 0

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return None
        start = self.end
        self.tensors.append((start, value))
        self.end += -(-value.nbytes // _ALIGNMENT) * _ALIGNMENT
        return start, value.nbytes, value.dtype, tuple(value.shape)


class _Assembler(pickle.Unpickler):
    """Puts tensors back as views of the block. It only ever reads what `wrap` wrote in a worker of this process."""

    def __init__(self, stream: io.BytesIO, block: Tensor) -> None:
        super().__init__(stream)
        self._block = block

    def persistent_load(self, key: Any) -> Tensor:
        start, n_bytes, dtype, shape = key
        return self._block[start : start + n_bytes].view(dtype).view(shape)

"""Arrays over the wire: one message is a JSON header and raw little-endian arrays.

    uint32 length of the header | header, padded | array, padded | array, padded | ...

Everything starts at a multiple of eight bytes, so that a browser maps typed arrays onto the message without copying.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hodgeformer.viewer.refusal import Refusal

MEDIA_TYPE = "application/octet-stream"
_DTYPES = {"float32": "<f4", "int32": "<i4", "uint32": "<u4", "uint8": "|u1"}
_ALIGN = 8


def encode_frame(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """The message; array dtypes are float32, int32, uint32 or uint8."""
    listed = [{"name": name, "dtype": str(a.dtype), "shape": list(a.shape)} for name, a in arrays.items()]
    text = json.dumps({**header, "arrays": listed}).encode()
    text += b" " * (-(4 + len(text)) % _ALIGN)
    parts = [len(text).to_bytes(4, "little"), text]
    for array in arrays.values():
        data = np.ascontiguousarray(array, dtype=_DTYPES[str(array.dtype)]).tobytes()
        parts += [data, b"\0" * (-len(data) % _ALIGN)]
    return b"".join(parts)


def decode_frame(message: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays; Refusal for anything that is not such a message."""
    at = 4 + int.from_bytes(message[:4], "little")
    try:
        if at > len(message):
            raise ValueError("the header is cut short")
        header = json.loads(message[4:at])
        arrays: dict[str, NDArray[Any]] = {}
        for entry in header.pop("arrays"):
            dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(int(size) for size in entry["shape"])
            count = int(np.prod(shape, dtype=np.int64))
            if count < 0 or at + count * dtype.itemsize > len(message):
                raise ValueError("an array is cut short")
            arrays[str(entry["name"])] = np.frombuffer(message, dtype, count, at).reshape(shape)
            at += count * dtype.itemsize + (-count * dtype.itemsize % _ALIGN)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refusal(400, f"The request cannot be read ({error}); reload the page.") from None
    return header, arrays

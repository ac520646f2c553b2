"""Requests as they come in: turned down with a reason, taken in within limits, worked on beside the event loop.

A mesh or label file is streamed to a private folder, read, and gone again.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request

from hodgeformer.errors import HodgeFormerError

MIB = 2**20
MAX_UPLOAD = 256 * MIB
PATIENCE = 30.0  # seconds without a single byte before an upload is given up
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")

T = TypeVar("T")


class Refusal(HodgeFormerError):
    """A request that is turned down: the status, and the one line that the page shows, with what helps."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Threads:
    """At most `n` functions at a time in threads of the running event loop; others wait, and nobody else with them."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._limiter: CapacityLimiter | None = None

    async def run(self, work: Callable[[], T]) -> T:
        if self._limiter is None:  # a limiter belongs to the running event loop, so it cannot be made earlier
            self._limiter = CapacityLimiter(self._n)
        return await to_thread.run_sync(work, limiter=self._limiter)


class Uploads:
    """Reads request bodies within a size limit. A slow sender waits alone; files are parsed in threads, few at once."""

    def __init__(self, *, max_bytes: int = MAX_UPLOAD, patience: float = PATIENCE, max_parsers: int = 2) -> None:
        self.max_bytes, self._patience = max_bytes, patience
        self._parsers = Threads(max_parsers)

    async def parse(self, request: Request, name: str, read: Callable[[Path], T]) -> T:
        """The uploaded file under its own name in a folder of its own, given to `read`."""
        with tempfile.TemporaryDirectory(prefix="hodgeformer-upload-") as folder:
            path = Path(folder) / safe_file_name(name)
            with path.open("wb") as stream:
                async for chunk in self._chunks(request):
                    stream.write(chunk)
            try:
                return await self._parsers.run(lambda: read(path))
            except HodgeFormerError as error:
                # The person knows the file by its name, not by our private folder.
                status = error.status if isinstance(error, Refusal) else 422
                raise Refusal(status, str(error).replace(f"{Path(folder)}{os.sep}", "")) from None

    async def body(self, request: Request) -> bytes:
        """The whole body in memory."""
        return b"".join([chunk async for chunk in self._chunks(request)])

    async def _chunks(self, request: Request) -> AsyncIterator[bytes]:
        announced = request.headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced) > self.max_bytes:
            raise self._too_large()
        received = 0
        stream = request.stream()
        try:
            while True:
                async with asyncio.timeout(self._patience):
                    chunk = await anext(stream, None)
                if chunk is None:
                    return
                received += len(chunk)
                if received > self.max_bytes:
                    raise self._too_large()
                yield chunk
        except TimeoutError:
            raise Refusal(408, "The upload stopped half way; try again.") from None
        except ClientDisconnect:
            raise Refusal(400, "The upload was broken off.") from None

    def _too_large(self) -> Refusal:
        return Refusal(
            413,
            f"The file is larger than {self.max_bytes / MIB:.4g} MB, the most this viewer takes; simplify the mesh or "
            "use `hodgeformer predict`, which has no limit.",
        )


def safe_file_name(name: str) -> str:
    """The last part of a name, with nothing in it that any file system reads as more than a name."""
    last = re.split(r"[/\\]", name)[-1]
    kept = re.sub(r"[^\w.\- ]", "_", last).strip(". ")
    kept = f"_{kept}" if _RESERVED.match(kept) else kept
    if len(kept) > 100:
        stem, dot, suffix = kept.rpartition(".")
        kept = f"{stem[:80]}{dot}{suffix[-16:]}" if stem else kept[:100]
    return kept or "mesh"

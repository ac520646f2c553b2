"""Incoming requests: refused with a reason, read within limits, processed in threads.

A mesh or label file is streamed to a private folder, read, and deleted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from hodgeformer.base.errors import HodgeFormerError

MIB = 2**20
MAX_UPLOAD = 256 * MIB
MAX_FILES = 256  # of a form
PATIENCE = 30.0  # seconds without a byte, after which an upload is refused
LONGEST_UPLOAD = 600.0  # seconds, however steady it is
_RETRY_AFTER = "5"  # seconds
_LONGEST_NAME = 200  # bytes: file systems allow 255, and answers and drafts have longer names
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")

_log = logging.getLogger("hodgeformer.web.server")

T = TypeVar("T")


class Refusal(HodgeFormerError):
    """A refused request: its status, and the line that the page shows, with a remedy."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Uploads:
    """Reads request bodies within limits. A slow upload blocks no other request; files are parsed in threads."""

    def __init__(
        self,
        *,
        max_bytes: int = MAX_UPLOAD,
        patience: float = PATIENCE,
        longest: float = LONGEST_UPLOAD,
    ) -> None:
        self.max_bytes, self._patience, self._longest = max_bytes, patience, longest
        self._parsers = CapacityLimiter(2)

    async def parse(self, request: Request, name: str, read: Callable[[Path], T]) -> T:
        """The uploaded file under its own name in a folder of its own, given to `read`."""
        with tempfile.TemporaryDirectory(prefix="hodgeformer-upload-") as folder:
            path = await self._write_body(request, Path(folder) / safe_file_name(name))
            try:
                return await to_thread.run_sync(read, path, limiter=self._parsers)
            except HodgeFormerError as error:
                raise named(error, [path]) from None

    @asynccontextmanager
    async def files(self, request: Request, name: str) -> AsyncIterator[list[Path]]:
        """The body as a file of that name, or the files of a form, each alone in a private folder."""
        with tempfile.TemporaryDirectory(prefix="hodgeformer-upload-") as folder:
            if request.headers.get("content-type", "").startswith("multipart/form-data"):
                yield await self._write_form(request, Path(folder))
            else:
                yield [await self._write_body(request, Path(folder) / safe_file_name(name))]

    async def body(self, request: Request) -> bytes:
        """The whole body in memory."""
        return b"".join([chunk async for chunk in self._chunks(request)])

    async def _write_body(self, request: Request, path: Path) -> Path:
        with path.open("wb") as stream:
            async for chunk in self._chunks(request):
                stream.write(chunk)
        return path

    async def _write_form(self, request: Request, folder: Path) -> list[Path]:
        from starlette.formparsers import MultiPartException, MultiPartParser

        class Whole(MultiPartParser):
            ended = False

            def on_end(self) -> None:
                self.ended = True

        async def chunks() -> AsyncGenerator[bytes, None]:
            async for chunk in self._chunks(request):
                yield chunk
            if not parser.ended:
                file, complete = parser._current_part.file, [part for _, part in parser.items]
                where = "" if file is None or file in complete else f" in '{safe_file_name(file.filename or 'mesh')}'"
                count = f"{len(complete)} complete file{'s' * (len(complete) != 1)}"
                raise MultiPartException(f"it is cut off{where} after {count}; send it again.")

        parser = Whole(request.headers, chunks(), max_files=MAX_FILES, max_fields=0)
        try:
            form = await parser.parse()
        except MultiPartException as error:
            raise Refusal(400, f"The form cannot be read: {error.message}") from None
        written: list[Path] = []
        try:
            for number, (_, part) in enumerate(form.multi_items()):
                assert not isinstance(part, str)  # fields that are not files were refused
                path = folder / str(number) / safe_file_name(part.filename or "mesh")
                path.parent.mkdir()
                with path.open("wb") as stream:
                    await to_thread.run_sync(shutil.copyfileobj, part.file, stream)
                written.append(path)
        finally:
            await form.close()
        return written

    async def _chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        announced = request.headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced) > self.max_bytes:
            raise self._too_large()
        received, end = 0, monotonic() + self._longest
        stream = request.stream()
        try:
            while True:
                async with asyncio.timeout(min(self._patience, end - monotonic())):
                    chunk = await anext(stream, None)
                if chunk is None:
                    return
                received += len(chunk)
                if received > self.max_bytes:
                    raise self._too_large()
                yield chunk
        except TimeoutError:
            raise Refusal(408, "The upload stopped or took too long; try again.") from None
        except ClientDisconnect:
            raise Refusal(400, "The upload was interrupted.") from None

    def _too_large(self) -> Refusal:
        return Refusal(
            413,
            f"The file is larger than {self.max_bytes / MIB:.4g} MB, the limit of this server; simplify the mesh or "
            "use `hodgeformer predict`, which has no limit.",
        )


def named(error: Exception, paths: Iterable[Path]) -> Refusal:
    """The error with the names of the uploaded files instead of our private paths."""
    text = str(error)
    for path in paths:
        text = text.replace(f"{path.parent}{os.sep}", "")
    return Refusal(error.status if isinstance(error, Refusal) else 422, text)


def safe_file_name(name: str) -> str:
    """The last part of a name, without anything that a file system gives a meaning."""
    last = re.split(r"[/\\]", name)[-1]
    kept = re.sub(r"[^\w.\- ]", "_", last).strip(". ")
    kept = f"_{kept}" if _RESERVED.match(kept) else kept
    if len(kept) > 100 or len(kept.encode()) > _LONGEST_NAME:
        stem, dot, suffix = kept.rpartition(".")
        stem, suffix = (stem[:80], f"{dot}{suffix[-16:]}") if stem else (kept[:100], "")
        kept = cut(stem, _LONGEST_NAME - len(suffix.encode())) + suffix
    return kept or "mesh"


def cut(text: str, n_bytes: int) -> str:
    return text.encode()[:n_bytes].decode(errors="ignore")


async def _explain(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, Refusal) else 422
    headers = {"Retry-After": _RETRY_AFTER} if status == 503 else None
    return JSONResponse({"error": str(error)}, status_code=status, headers=headers)


async def _explain_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)


async def _apologize(request: Request, error: Exception) -> Response:
    _log.error("request %s failed", request.url.path, exc_info=error)
    return JSONResponse({"error": apology(error)}, status_code=500)


def apology(error: Exception) -> str:
    """The message for an unexpected error."""
    return f"Something went wrong in the server ({type(error).__name__})."


EXPLAINED: dict[Any, Any] = {HodgeFormerError: _explain, HTTPException: _explain_http, Exception: _apologize}
"""The exception handlers of an application: one line of JSON for every error."""

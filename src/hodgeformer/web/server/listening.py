"""A port to listen on, and an application that serves there, with limits on its connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from hodgeformer.base.errors import ConfigError

HEADER_PATIENCE = 30.0  # seconds for the headers of a request, and for a client to read some of its answer
MOST_CHECKS = 20  # of an answer that a client reads too slowly
MOST_CONNECTIONS = 1000
_BACKLOG = 64  # connections that are accepted at once
_REPEAT_AFTER = 60.0  # seconds


def listen(host: str, ports: Sequence[int]) -> socket.socket:
    """A listening socket on the first of the ports that is free."""
    try:
        family = socket.getaddrinfo(host, ports[0], type=socket.SOCK_STREAM)[0][0]
    except socket.gaierror:
        raise ConfigError(f"--host {host}: this machine has no such address") from None
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    for number in ports:
        try:
            return socket.create_server((host, number), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
        except OSError as error:
            if number == ports[-1]:
                reason = os.strerror(error.errno or 0)
                raise ConfigError(f"{host}:{number} cannot be used ({reason}); try another --port") from None
    raise AssertionError("the last port ends the loop")


def address(host: str, listening: socket.socket) -> str:
    """The URL of the server for programs on this machine."""
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def serve(app: ASGIApp, listening: socket.socket, *, farewell: float) -> None:
    """Serve until SIGINT or SIGTERM; running requests then have `farewell` seconds to finish."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        backlog=_BACKLOG,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=int(farewell),
    )
    for name in ("asyncio", "uvicorn.error"):
        logging.getLogger(name).addFilter(_Once())
    with contextlib.suppress(KeyboardInterrupt):  # the usual way to stop
        uvicorn.Server(config).run(sockets=[listening])


class PatientProtocol(H11Protocol):
    """HTTP that closes connections without a request, with half of one, or whose answer nobody reads.

    If there are too many, the oldest one that waits for a request is closed. So clients that send half a header and
    stop keep nobody out, and the process has files left to open.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._made = self.loop.time()
        # At the last check: request, bytes unread, checks of that answer.
        self._last: tuple[Any, int, int] = (None, 0, 0)
        self._timer = self.loop.call_later(HEADER_PATIENCE, self._check)
        if len(self.connections) > most_connections():
            others: Any = self.connections
            min(others, key=lambda one: (one.is_busy, one.n_unread > 0, one._made)).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    @property
    def is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def n_unread(self) -> int:
        """Bytes of answers that the client has not taken."""
        return int(self.transport.get_write_buffer_size())

    def _check(self) -> None:
        before, unread_before, checks = self._last
        unread, same = self.n_unread, self.cycle is before
        checks = checks + 1 if unread and same else 0
        if same and (checks > MOST_CHECKS or (0 < unread_before <= unread) or not (unread or self.is_busy)):
            self.transport.abort()  # closing would wait for the client to read
            return
        self._last = (self.cycle, unread, checks)
        self._timer = self.loop.call_later(HEADER_PATIENCE, self._check)


def most_connections() -> int:
    """A quarter of the files that this process may open: connections being accepted or closed count as well."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_CONNECTIONS if allowed == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, allowed // 4)


class _Once(logging.Filter):
    """Passes the same line once a minute: what any client can cause must not fill the disk."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line, now = record.getMessage().partition("\n")[0][:200], time.monotonic()
        recent = {known: at for known, at in self._last.items() if now - at < _REPEAT_AFTER}
        self._last = {line: now, **recent}
        return line not in recent

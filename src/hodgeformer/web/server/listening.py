"""A port to listen on, and an application that answers there until it is told to stop."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import time
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp

from hodgeformer.base.errors import ConfigError
from hodgeformer.web.server.guard import PatientProtocol

_BACKLOG = 64  # connections that are accepted in one go
_ONCE_IN = 60.0  # seconds


def listen(host: str, ports: Sequence[int]) -> socket.socket:
    """A listening socket on the first of the ports that is free."""
    try:
        family = socket.getaddrinfo(host, ports[0], type=socket.SOCK_STREAM)[0][0]
    except socket.gaierror:
        raise ConfigError(f"--host {host}: this is no address of this machine") from None
    for number in ports:
        listening = socket.socket(family)
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
        except OSError as error:
            listening.close()
            if number == ports[-1]:
                raise ConfigError(f"{host}:{number} cannot be used ({error.strerror}); try another --port") from None
            continue
        listening.listen(_BACKLOG)
        return listening
    raise AssertionError("the last port ends the loop")


def address(host: str, listening: socket.socket) -> str:
    """Where a program on this machine finds the server."""
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def serve(app: ASGIApp, listening: socket.socket, *, farewell: float) -> None:
    """Answer until SIGINT or SIGTERM; what is being worked on then has `farewell` seconds to end."""
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
    with contextlib.suppress(KeyboardInterrupt):  # the usual way to end it
        uvicorn.Server(config).run(sockets=[listening])


class _Once(logging.Filter):
    """Lets the same line through once a minute: what strangers cause as often as they like must not fill a disk."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line, now = record.getMessage().partition("\n")[0][:200], time.monotonic()
        recent = {known: at for known, at in self._last.items() if now - at < _ONCE_IN}
        self._last = {line: now, **recent}
        return line not in recent

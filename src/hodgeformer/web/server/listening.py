"""A port to listen on, and an application that answers there until it is told to stop."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp

from hodgeformer.base.errors import ConfigError
from hodgeformer.web.server.guard import PatientProtocol


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
        listening.listen(128)
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
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=int(farewell),
    )
    with contextlib.suppress(KeyboardInterrupt):  # the usual way to end it
        uvicorn.Server(config).run(sockets=[listening])

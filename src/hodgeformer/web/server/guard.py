"""What keeps strangers out: only this page, under the names of this machine, with its token, may talk to the server.

A page on another site can make a browser send requests to 127.0.0.1, and can point a name of its own at 127.0.0.1
(DNS rebinding). The first is told by `Origin` and `Sec-Fetch-Site`, the second by `Host`. Other users of the machine
can send whatever they like, but do not know the token: the printed address has it, the browser keeps it as a cookie.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import secrets
import sys
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_PATIENCE = 30.0  # seconds for the headers of a request, and for a client to take some of its answer
MOST_LOOKS = 20  # at an answer that a client takes too slowly
MOST_CONNECTIONS = 1000

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Hosts:
    """The names under which the server may be called.

    `any_address` also allows literal addresses, for a server that listens on all interfaces: rebinding needs a name.
    """

    names: frozenset[str] = _LOOPBACK
    any_address: bool = False

    @classmethod
    def of(cls, host: str) -> Hosts:
        """The names that fit the address the server listens on."""
        literal = f"[{host}]" if ":" in host else host.lower()
        address = _address(host)
        return cls(_LOOPBACK | {literal}, any_address=address is not None and address.is_unspecified)

    def allow(self, header: str) -> bool:
        name = _without_port(header).lower()
        return name in self.names or (self.any_address and _address(name.strip("[]")) is not None)

    def reason_to_refuse(self, headers: Headers, path: str) -> str | None:
        """Why a request comes from a stranger, if it does."""
        host = headers.get("host", "")
        if not self.allow(host):
            return f"This server does not answer as '{host[:80]}'; open the address that it printed."
        if any(len(headers.getlist(name)) > 1 for name in ("host", "origin")):
            return "Host and Origin must be given once."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return "Requests from other web sites are refused."
        # A plain link to the page is fine; pulling data out of it is not. Browsers send no Origin with simple GETs.
        if path != "/" and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return "Requests from other web sites are refused."
        return None


@dataclass(frozen=True)
class Guard:
    """ASGI middleware: refuses foreign hosts, origins and users, and adds the headers that keep the page to itself.

    Without a `token` everyone on the machine may use the server.
    """

    app: ASGIApp
    hosts: Hosts
    token: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        reason = self.hosts.reason_to_refuse(headers, str(scope["path"]))
        answer: ASGIApp = self.app if reason is None else JSONResponse({"error": reason}, status_code=403)
        if reason is None and self.token is not None:
            answer = self._let_in(self.token, headers, scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await answer(scope, receive, send_guarded)

    def _let_in(self, token: str, headers: Headers, scope: Scope) -> ASGIApp:
        """The page for whoever has the cookie; for whoever has the printed address, the cookie."""
        # Cookies do not know of ports, and several viewers may run.
        name = f"hodgeformer-{headers.get('host', '').rpartition(':')[2]}"
        if is_same(_cookies(headers).get(name, ""), token):
            return self.app
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
        if scope["path"] == "/" and is_same(given, token):
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(name, token, httponly=True, samesite="strict")
            return answer
        return JSONResponse({"error": "Open the address that `hodgeformer view` printed, with its token."}, 403)


class PatientProtocol(H11Protocol):
    """HTTP that gives up connections without a request, with half of one, or with an answer that nobody reads.

    Where there are too many, the oldest that waits for a request makes room: whoever sends half a header and stops
    keeps no one out, and the process has files left to open.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._made = self.loop.time()
        self._seen: tuple[Any, int, int] = (None, 0, 0)  # at the last look: the request, bytes unread, looks at those
        self._timer = self.loop.call_later(HEADER_PATIENCE, self._look)
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

    def _look(self) -> None:
        before, unread_before, looks = self._seen
        unread, same = self.n_unread, self.cycle is before
        looks = looks + 1 if unread and same else 0
        if same and (looks > MOST_LOOKS or (0 < unread_before <= unread) or not (unread or self.is_busy)):
            self.transport.abort()  # closing would wait for the client to read
            return
        self._seen = (self.cycle, unread, looks)
        self._timer = self.loop.call_later(HEADER_PATIENCE, self._look)


def most_connections() -> int:
    """A quarter of the files that this process may open: those that are being accepted or closed count as well."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_CONNECTIONS if allowed == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, allowed // 4)


def is_local(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def _cookies(headers: Headers) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        return {}


def is_same(given: str, token: str) -> bool:
    """Whether it is the token; how long that takes to tell says nothing."""
    return secrets.compare_digest(given.encode(), token.encode())


def _without_port(header: str) -> str:
    return re.sub(r":\d*\Z", "", header)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None

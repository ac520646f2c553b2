"""What keeps other web sites out: only this page, under the names of this machine, may talk to the server.

A page on another site can make a browser send requests to 127.0.0.1, and can point a name of its own at 127.0.0.1
(DNS rebinding). The first is told by `Origin` and `Sec-Fetch-Site`, the second by `Host`.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


@dataclass(frozen=True)
class Guard:
    """ASGI middleware: refuses foreign hosts and origins, and adds the headers that keep the page to itself."""

    app: ASGIApp
    hosts: Hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        reason = self._reason_to_refuse(Headers(scope=scope), str(scope["path"]))

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        app = self.app if reason is None else JSONResponse({"error": reason}, status_code=403)
        await app(scope, receive, send_guarded)

    def _reason_to_refuse(self, headers: Headers, path: str) -> str | None:
        host = headers.get("host", "")
        if not self.hosts.allow(host):
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


def is_local(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def _without_port(header: str) -> str:
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.partition(":")[0]


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None

"""Which requests are served: those with the token, and those that no foreign web page has sent.

A page on another site can make a browser send requests to 127.0.0.1, and can let its own name resolve to 127.0.0.1
(DNS rebinding). `Origin` and `Sec-Fetch-Site` reveal the first, `Host` the second. Other users of the machine can send
anything, but do not know the token: it is in the printed URL, and then in a cookie.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_API_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_PAGE_HEADERS = {
    **_API_HEADERS,
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
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
        """The names of the address that the server listens on."""
        literal = f"[{host}]" if ":" in host else host.lower()
        address = _address(host)
        return cls(_LOOPBACK | {literal}, any_address=address is not None and address.is_unspecified)

    def allow(self, header: str) -> bool:
        name = re.sub(r":\d*\Z", "", header).lower()  # without the port
        return name in self.names or (self.any_address and _address(name.strip("[]")) is not None)

    def reason_to_refuse(self, request: HTTPConnection) -> str | None:
        """Why a request may come from a foreign page; None if it cannot."""
        headers = request.headers
        host = headers.get("host", "")
        if not self.allow(host):
            return f"This server does not answer as '{host[:80]}'; use the URL that it printed."
        if any(len(headers.getlist(name)) > 1 for name in ("host", "origin")):
            return "Host and Origin must be given once."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return "Requests from other web sites are refused."
        # A link to the page is allowed, reading its data is not. Browsers send no Origin with simple GETs.
        if request.scope["path"] != "/" and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return "Requests from other web sites are refused."
        return None


@dataclass(frozen=True)
class Guard:
    """ASGI middleware: `refuse` gives the answer to requests that may not reach the application; adds `headers`."""

    app: ASGIApp
    refuse: Callable[[HTTPConnection], ASGIApp | None]
    headers: Mapping[str, str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        answer = self.refuse(HTTPConnection(scope)) or self.app
        await answer(scope, receive, send_guarded)


def page_guard(host: str, token: str | None) -> Middleware:
    """Only the page of this server, opened under its own name and with the token, if there is one, is served."""
    hosts = Hosts.of(host)

    def refuse(request: HTTPConnection) -> ASGIApp | None:
        reason = hosts.reason_to_refuse(request)
        if reason is not None:
            return JSONResponse({"error": reason}, status_code=403)
        # Cookies are shared by all ports, and several viewers may run.
        name = f"hodgeformer-{request.headers.get('host', '').rpartition(':')[2]}"
        if token is None or _is_same(request.cookies.get(name, ""), token):
            return None
        if request.scope["path"] == "/" and _is_same(request.query_params.get("token", ""), token):
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(name, token, httponly=True, samesite="strict")
            return answer
        return JSONResponse({"error": "Open the URL that `hodgeformer view` printed, with its token."}, 403)

    return Middleware(Guard, refuse=refuse, headers=_PAGE_HEADERS)


def api_guard(host: str, token: str | None, public: Container[str]) -> Middleware:
    """Programs with the token are served; without a token, programs on this machine, but no page in a browser.

    A server without a token that listens on the network serves everyone. Paths in `public` need no token.
    """
    hosts = Hosts.of(host) if is_local(host) else None

    def refuse(request: HTTPConnection) -> ASGIApp | None:
        if request.scope["path"] in public:
            return None
        if token is not None:
            if _is_same(request.headers.get("authorization", ""), f"Bearer {token}"):
                return None
            message = "This server requires its token: Authorization: Bearer TOKEN."
            return JSONResponse({"error": message}, 401, headers={"WWW-Authenticate": "Bearer"})
        reason = None if hosts is None else hosts.reason_to_refuse(request)
        return None if reason is None else JSONResponse({"error": reason}, 403)

    return Middleware(Guard, refuse=refuse, headers=_API_HEADERS)


def is_local(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def _is_same(given: str, token: str) -> bool:
    """Whether it is the token; the time this takes reveals nothing."""
    return secrets.compare_digest(given.encode(), token.encode())


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None

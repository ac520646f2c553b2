"""Metrics of a server for Prometheus."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hodgeformer.web.server.line import Line

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
OTHER = "other"
"""The label of all unknown routes: clients must not create labels."""


class Metrics:
    """Counters and gauges of one server, and the memory, processor time and files of its process."""

    def __init__(self, line: Line) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "hodgeformer_requests", "Requests that were answered.", ("route", "status"), registry=registry
        )
        self.seconds = Histogram(
            "hodgeformer_request_seconds",
            "Seconds from the headers of a request to the end of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.open = Gauge("hodgeformer_in_flight", "Requests that are being answered.", registry=registry)
        waiting = Gauge("hodgeformer_queue_length", "Requests that wait for the model.", registry=registry)
        working = Gauge("hodgeformer_working", "Requests that the model works on.", registry=registry)
        waiting.set_function(lambda: line.n_waiting)
        working.set_function(lambda: line.n_working)
        self.meshes = Counter("hodgeformer_meshes", "Meshes that were predicted.", registry=registry)
        self.faces = Counter("hodgeformer_faces", "Faces of the meshes that were predicted.", registry=registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)


@dataclass(frozen=True)
class Metered:
    """ASGI middleware that counts requests by route and status, and measures how long they take."""

    app: ASGIApp
    metrics: Metrics
    routes: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        route, begun, status = scope["path"] if scope["path"] in self.routes else OTHER, perf_counter(), 500

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self.metrics.open.track_inprogress():
                await self.app(scope, receive, send_counted)
        finally:
            self.metrics.requests.labels(route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(perf_counter() - begun)

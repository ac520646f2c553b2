"""Predictions over HTTP: meshes in, labels, probabilities or colored meshes out."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hodgeformer.base.errors import HodgeFormerError
from hodgeformer.base.version import __version__
from hodgeformer.data.figures import figure
from hodgeformer.predict.predictor import Predictor
from hodgeformer.predict.result import Result
from hodgeformer.web.server.api import DESCRIPTION, MEDIA_TYPES, Query
from hodgeformer.web.server.guard import api_guard
from hodgeformer.web.server.intake import EXPLAINED, MAX_UPLOAD, PATIENCE, Refusal, Uploads, apology, named
from hodgeformer.web.server.line import Line, Report
from hodgeformer.web.server.metrics import Metered, Metrics

ZIP = "application/zip"
_log = logging.getLogger("hodgeformer.web.server")


@dataclass(frozen=True)
class Limits:
    """The limits of a server.

    `workers` predictions run at a time, and `queue` more requests may upload or wait. `max_bytes` limits a request.
    Uploads and answers have time limits.
    """

    workers: int = 2
    queue: int = 32
    max_bytes: int = MAX_UPLOAD
    upload_seconds: float = 60.0
    answer_seconds: float = 120.0


class Service:
    """A model and one method for each route."""

    def __init__(self, predictor: Predictor, limits: Limits) -> None:
        self._predictor, longest = predictor, limits.upload_seconds
        self._uploads = Uploads(max_bytes=limits.max_bytes, patience=min(PATIENCE, longest), longest=longest)
        self.line = Line(workers=limits.workers, places=limits.queue, seconds=limits.answer_seconds)
        self.metrics = Metrics(self.line)

    async def describe(self, request: Request) -> Response:
        return PlainTextResponse(DESCRIPTION)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    async def model(self, request: Request) -> Response:
        info = self._predictor.info
        return JSONResponse({
            "name": info.name,
            "task": info.model.task,
            "element": info.model.element,
            "classes": list(info.classes),
            "colors": [list(color) for color in info.colors],
            "columns": list(info.prepare.own_columns),
        })  # fmt: skip

    async def numbers(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def predict(self, request: Request) -> Response:
        """One mesh, as the body or as the file of a form."""
        query = Query.of(request)
        with self.line.place():
            async with self._uploads.files(request, query.name) as paths:
                if len(paths) != 1:
                    raise Refusal(400, f"{len(paths)} files were sent; /predict accepts one, /batch several.")
                try:
                    content = await self.line.run(partial(self._one, paths[0], query))
                except HodgeFormerError as error:
                    raise named(error, paths) from None
        return Response(content, media_type=MEDIA_TYPES[query.suffix])

    async def batch(self, request: Request) -> Response:
        """The files of a form: their answers in one JSON, or in a zip archive."""
        query = Query.of(request)
        with self.line.place():
            async with self._uploads.files(request, query.name) as paths:
                twice = [name for name, n in Counter(path.name for path in paths).items() if n > 1]
                if twice or not paths:
                    raise Refusal(400, f"Several files are named '{twice[0]}'." if twice else "No files were sent.")
                content, n_done = await self.line.run(partial(self._several, paths, query))
        media = ZIP if query.suffix != ".json" else MEDIA_TYPES[".json"]
        return Response(content, status_code=200 if n_done else 422, media_type=media)

    def _one(self, path: Path, query: Query, report: Report) -> bytes:
        result = self._predictor.predict(path, report=report, **query.options)
        return self._written(result, path, query.suffix)

    def _several(self, paths: list[Path], query: Query, report: Report) -> tuple[bytes, int]:
        """The results and the errors of the others, and the number of results."""
        done: dict[str, bytes] = {}
        failed: list[dict[str, str]] = []

        def fail(path: Any, error: Exception) -> None:
            if not isinstance(error, HodgeFormerError):
                _log.error("a mesh of a batch failed", exc_info=error)
            reason = str(named(error, paths)) if isinstance(error, HodgeFormerError) else apology(error)
            failed.append({"file": Path(path).name, "error": reason})

        for result in self._predictor.predict_many(paths, on_error=fail, report=report, **query.options):
            assert result.path is not None
            done[result.path.name] = self._written(result, result.path, query.suffix)
        if query.suffix == ".json":
            results = b", ".join(done.values())
            return b'{"results": [%b], "failed": %b}' % (results, json.dumps(failed).encode()), len(done)
        stream = io.BytesIO()
        with ZipFile(stream, "w") as archive:
            for name, content in done.items():
                archive.writestr(f"{name}{query.suffix}", content)
            archive.writestr("failed.json", json.dumps(failed))
        return stream.getvalue(), len(done)

    def _written(self, result: Result, path: Path, suffix: str) -> bytes:
        """The content that `Result.save` writes, into the private folder of the upload."""
        answer = path.with_name(f"answer-{path.name}{suffix}")
        replace(result, path=Path(path.name)).save(answer)
        self.metrics.meshes.inc()
        self.metrics.faces.inc(result.mesh.n_faces)
        return answer.read_bytes()


def load_predictor(model: str, device: str = "auto") -> Predictor:
    """Load a predictor and run it once, so that the first request does not wait."""
    predictor = Predictor.load(model, device)
    mesh, _ = figure(rng := np.random.default_rng(0), n_faces=500)
    for member in predictor.members:
        mesh = mesh.with_columns(member.info.prepare.typical_columns(mesh.n_vertices, rng))
    predictor.predict(mesh)
    return predictor


def create_app(service: Service, *, host: str = "127.0.0.1", token: str | None = None) -> Starlette:
    """The ASGI application; `host` is the address it will listen on."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        service.line.close()

    gets: dict[str, Callable[[Request], Any]] = {
        "/": service.describe,
        "/health": service.health,
        "/metrics": service.numbers,
        "/model": service.model,
    }
    posts: dict[str, Callable[[Request], Any]] = {"/predict": service.predict, "/batch": service.batch}
    return Starlette(
        routes=[
            *(Route(path, act) for path, act in gets.items()),
            *(Route(path, act, methods=["POST"]) for path, act in posts.items()),
        ],
        middleware=[
            Middleware(Metered, metrics=service.metrics, routes=frozenset({*gets, *posts})),
            api_guard(host, token, public={"/health"}),  # probes have no token
        ],
        exception_handlers=EXPLAINED,
        lifespan=lifespan,
    )

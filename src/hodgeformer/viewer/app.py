"""The web viewer: one page, and a small server beside it that reads meshes, predicts and saves labels.

Only the files of the page and meshes that were uploaded or opened are served. A mesh goes by an id that nobody guesses.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hodgeformer import __version__
from hodgeformer.errors import HodgeFormerError
from hodgeformer.mesh.io import MESH_SUFFIXES, load_mesh
from hodgeformer.palette import parse_color
from hodgeformer.viewer.fields import Eigenfunctions, FieldSource
from hodgeformer.viewer.frames import MEDIA_TYPE, decode_frame, encode_frame
from hodgeformer.viewer.guard import Guard, Hosts
from hodgeformer.viewer.messages import described, mesh_frame, parsed_pick, read_label_file
from hodgeformer.viewer.models import Shelf
from hodgeformer.viewer.outbox import Annotation, Outbox
from hodgeformer.viewer.predictions import Predictions
from hodgeformer.viewer.refusal import Refusal
from hodgeformer.viewer.scenes import Scene, SceneStore
from hodgeformer.viewer.threads import Threads
from hodgeformer.viewer.uploads import Uploads

SAMPLE_FACES = 8000
_MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_log = logging.getLogger("hodgeformer.viewer")


@dataclass(eq=False)
class Viewer:
    """The state behind the page and one method for each request it can make."""

    shelf: Shelf
    outbox: Outbox
    scenes: SceneStore = field(default_factory=SceneStore)
    uploads: Uploads = field(default_factory=Uploads)
    sources: Sequence[FieldSource] = field(default_factory=lambda: (Eigenfunctions(),))
    opened: Scene | None = None
    preferred: str | None = None

    def __post_init__(self) -> None:
        self.predictions = Predictions(self.shelf, self.scenes)
        self._quick, self._slow = Threads(8), Threads(2)

    async def session(self, request: Request) -> Response:
        models = [{"name": name, "description": entry.description} for name, entry in self.shelf.entries.items()]
        return JSONResponse({
            "version": __version__,
            "models": models,
            "preferred": self.preferred,
            "suffixes": list(MESH_SUFFIXES),
            "max_bytes": self.uploads.max_bytes,
            "out": str(self.outbox.folder),
            "opened": None if self.opened is None else described(self.opened),
        })  # fmt: skip

    async def open_upload(self, request: Request) -> Response:
        name = request.query_params.get("name", "mesh")
        mesh = await self.uploads.parse(request, name, load_mesh)
        return JSONResponse(described(self.scenes.add(mesh)), status_code=201)

    async def open_sample(self, request: Request) -> Response:
        from hodgeformer.data.figures import figure

        mesh, _ = await self._quick.run(partial(figure, np.random.default_rng(), n_faces=SAMPLE_FACES, name="figure"))
        return JSONResponse(described(self.scenes.add(mesh)), status_code=201)

    async def mesh(self, request: Request) -> Response:
        scene = self._scene(request)
        return await self._frame(partial(mesh_frame, scene.mesh))

    async def predict(self, request: Request) -> Response:
        scene = self._scene(request)
        self.predictions.start(scene, request.query_params.get("model", ""))
        return JSONResponse(asdict(scene.progress), status_code=202)

    async def progress(self, request: Request) -> Response:
        return JSONResponse(asdict(self._scene(request).progress))

    async def prediction(self, request: Request) -> Response:
        scene = self._scene(request)
        found = scene.prediction
        if found is None:
            raise Refusal(404, "There is no prediction for this mesh yet.")
        header = {"model": found.model, "task": found.task, "classes": found.classes, "colors": found.colors}
        arrays = {"probabilities": found.probabilities, "labels": found.labels.astype(np.int32)}
        return await self._frame(partial(encode_frame, {**header, "warnings": found.warnings}, arrays))

    async def fields(self, request: Request) -> Response:
        scene = self._scene(request)
        offered = await self._slow.run(lambda: [(source, source.choices(scene)) for source in self.sources])
        return JSONResponse([
            {"name": s.name, "title": s.title, "picks": s.picks, "choices": [asdict(choice) for choice in choices]}
            for s, choices in offered if choices is not None
        ])  # fmt: skip

    async def field(self, request: Request) -> Response:
        scene = self._scene(request)
        source = next((s for s in self.sources if s.name == request.path_params["source"]), None)
        if source is None:
            raise Refusal(404, "There is no such layer; reload the page.")
        query = dict(request.query_params)
        pick = parsed_pick(query, scene.mesh) if source.picks else None

        def compute() -> bytes:
            found = source.field(scene, query, pick)
            header = {"element": found.element, "signed": found.signed, "note": found.note}
            return encode_frame(header, {"values": found.values})

        return Response(await self._slow.run(compute), media_type=MEDIA_TYPE)

    async def read_labels(self, request: Request) -> Response:
        """A label file for an open mesh, as labels per face."""
        scene = self._scene(request)
        read = partial(read_label_file, mesh=scene.mesh)
        labels = await self.uploads.parse(request, request.query_params.get("name", "labels.txt"), read)
        return Response(encode_frame({}, {"labels": labels.astype(np.int32)}), media_type=MEDIA_TYPE)

    async def save(self, request: Request) -> Response:
        scene, annotation, _ = await self._annotation(request)
        files = await self._quick.run(partial(self.outbox.save, scene, annotation))
        return JSONResponse({"folder": str(self.outbox.folder), "files": files})

    async def save_data_set(self, request: Request) -> Response:
        scene, annotation, header = await self._annotation(request)
        add = partial(self.outbox.add_to_data_set, scene, annotation, str(header.get("data_set", "")))
        root, n_meshes = await self._quick.run(add)
        return JSONResponse({"folder": str(root), "meshes": n_meshes, "command": f"hodgeformer train {root}"})

    def _scene(self, request: Request) -> Scene:
        return self.scenes.get(request.path_params["scene"])

    async def _annotation(self, request: Request) -> tuple[Scene, Annotation, dict[str, Any]]:
        scene = self._scene(request)
        header, arrays = decode_frame(await self.uploads.body(request))
        try:
            colors = tuple(parse_color(color) for color in header["colors"])
            classes = tuple(str(name) for name in header["classes"])
            labels = arrays["labels"].astype(np.int64)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Refusal(400, f"The request cannot be read ({error}); reload the page.") from None
        return scene, Annotation(labels, classes, colors), header

    async def _frame(self, make: Callable[[], bytes]) -> Response:
        return Response(await self._quick.run(make), media_type=MEDIA_TYPE)


def create_app(viewer: Viewer, *, host: str = "127.0.0.1") -> Starlette:
    """The ASGI application; `host` is the address it will listen on."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        viewer.predictions.close()

    scene = "/api/scenes/{scene}"
    files = static_files()
    routes = [
        *(Route(path, partial(_static, content=content, media_type=kind)) for path, (content, kind) in files.items()),
        Route("/api/session", viewer.session),
        Route("/api/scenes", viewer.open_upload, methods=["POST"]),
        Route("/api/samples", viewer.open_sample, methods=["POST"]),
        Route(f"{scene}/mesh", viewer.mesh),
        Route(f"{scene}/predict", viewer.predict, methods=["POST"]),
        Route(f"{scene}/progress", viewer.progress),
        Route(f"{scene}/prediction", viewer.prediction),
        Route(f"{scene}/fields", viewer.fields),
        Route(f"{scene}/fields/{{source}}", viewer.field),
        Route(f"{scene}/labels", viewer.read_labels, methods=["POST"]),
        Route(f"{scene}/save", viewer.save, methods=["POST"]),
        Route(f"{scene}/data-set", viewer.save_data_set, methods=["POST"]),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=Hosts.of(host))],
        exception_handlers={HodgeFormerError: _explain, HTTPException: _explain_http, Exception: _apologize},
        lifespan=lifespan,
    )


def static_files() -> dict[str, tuple[bytes, str]]:
    """Address -> content and media type of the page: a fixed table, so that no request reaches the file system."""
    root = resources.files("hodgeformer.viewer") / "static"
    found: dict[str, tuple[bytes, str]] = {}
    for folder, prefix in ((root, "/"), (root / "assets", "/assets/")):
        for item in folder.iterdir() if folder.is_dir() else ():
            kind = _MEDIA_TYPES.get(Path(item.name).suffix)
            if kind is not None:
                found["/" if item.name == "index.html" else prefix + item.name] = (item.read_bytes(), kind)
    return found


async def _static(request: Request, *, content: bytes, media_type: str) -> Response:
    return Response(content, media_type=media_type)


async def _explain(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, Refusal) else 422
    return JSONResponse({"error": str(error)}, status_code=status)


async def _explain_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code)


async def _apologize(request: Request, error: Exception) -> Response:
    _log.error("request %s failed", request.url.path, exc_info=error)
    return JSONResponse({"error": f"Something went wrong in the server ({type(error).__name__})."}, status_code=500)

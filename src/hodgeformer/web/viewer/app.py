"""The web viewer: one page, and a small server that reads meshes, predicts and saves labels.

Only the files of the page and meshes that were uploaded or opened are served. The id of a mesh cannot be guessed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from hodgeformer.base.errors import ConfigError
from hodgeformer.base.palette import class_colors, hex_color, parse_color
from hodgeformer.base.settings import Faces, UpName
from hodgeformer.base.version import __version__
from hodgeformer.data.figures import figure
from hodgeformer.mesh.io import MESH_SUFFIXES, load_mesh
from hodgeformer.mesh.pose import UP_AXES
from hodgeformer.predict.pretrained import locate_models
from hodgeformer.web.server.guard import page_guard
from hodgeformer.web.server.intake import EXPLAINED, Refusal, Uploads
from hodgeformer.web.viewer import messages
from hodgeformer.web.viewer.learning import Learning
from hodgeformer.web.viewer.models import ModelList, Predictions, offered_models, shown_name
from hodgeformer.web.viewer.open_meshes import OpenMesh, OpenMeshes
from hodgeformer.web.viewer.operators import Attention, DiagonalStars, ModelLayer, Spreading
from hodgeformer.web.viewer.outbox import Annotation, Outbox
from hodgeformer.web.viewer.series import Series

SAMPLE_FACES = 8000
N_COLORS = 256
"""The colors of classes that a person adds; after this many they repeat."""


@dataclass(eq=False)
class Viewer:
    """The state behind the page, and one method for each of its requests."""

    models: ModelList
    outbox: Outbox
    meshes: OpenMeshes = field(default_factory=OpenMeshes)
    uploads: Uploads = field(default_factory=Uploads)
    sources: Sequence[ModelLayer] = ()
    opened: OpenMesh | None = None
    series: Series | None = None
    preferred: str | None = None
    faces: Faces = "auto"
    up: UpName = "auto"

    def __post_init__(self) -> None:
        self.predictions = Predictions(self.models, self.meshes)
        self.learning = Learning(self.models)
        self._quick = partial(to_thread.run_sync, limiter=CapacityLimiter(8))
        self._slow = partial(to_thread.run_sync, limiter=CapacityLimiter(2))

    async def session(self, request: Request) -> Response:
        models = [{"name": name, "description": offer.description} for name, offer in self.models.offered.items()]
        return JSONResponse({
            "version": __version__,
            "models": models,
            "preferred": self.preferred,
            "palette": [hex_color(color) for color in class_colors(N_COLORS)],
            "suffixes": list(MESH_SUFFIXES),
            "max_bytes": self.uploads.max_bytes,
            "out": str(self.outbox.folder),
            "opened": None if self.opened is None else messages.described(self.opened),
            "series": None if self.series is None else self.series.described(),
            "faces": str(self.faces),
            "up": self.up,
        })  # fmt: skip

    async def open_upload(self, request: Request) -> Response:
        name = request.query_params.get("name", "mesh")
        mesh = await self.uploads.parse(request, name, load_mesh)
        return JSONResponse(messages.described(self.meshes.add(mesh)), status_code=201)

    async def open_sample(self, request: Request) -> Response:
        mesh, _ = await self._quick(partial(figure, np.random.default_rng(), n_faces=SAMPLE_FACES, name="figure"))
        return JSONResponse(messages.described(self.meshes.add(mesh)), status_code=201)

    async def open_member(self, request: Request) -> Response:
        opened = await self._quick(self._series.open, request.path_params["number"], self.meshes)
        return JSONResponse(messages.described(opened))

    async def geometry(self, request: Request) -> Response:
        opened, up = self._mesh(request), request.query_params.get("up", "auto")
        if up not in ("auto", *UP_AXES):
            raise Refusal(400, f"Unknown direction '{up[:20]}'; use one of {', '.join(UP_AXES)}.")
        return await self._arrays(lambda: messages.encoded_mesh(opened, opened.up(up)))

    async def predict(self, request: Request) -> Response:
        opened = self._mesh(request)
        faces = messages.parsed_faces(request.query_params.get("faces", str(self.faces)))
        self.predictions.start(opened, request.query_params.get("model", ""), faces)
        return JSONResponse(asdict(opened.progress), status_code=202)

    async def progress(self, request: Request) -> Response:
        return JSONResponse(asdict(self._mesh(request).progress))

    async def prediction(self, request: Request) -> Response:
        opened = self._mesh(request)
        if opened.prediction is None:
            raise Refusal(404, "There is no prediction for this mesh yet.")
        if self.series is not None and opened.held_out is not None:
            with contextlib.suppress(Refusal, OSError):  # the error is shown when labels are saved
                await self._quick(self.outbox.note_prediction, opened, self.series.name)
        return await self._arrays(partial(messages.encoded_prediction, opened.prediction, opened.up("auto")))

    async def fields(self, request: Request) -> Response:
        opened = self._mesh(request)
        offered = await self._slow(lambda: [(source, source.choices(opened)) for source in self.sources])
        return JSONResponse([
            {"name": s.name, "title": s.title, "picks": s.picks, "choices": [asdict(choice) for choice in choices]}
            for s, choices in offered if choices is not None
        ])  # fmt: skip

    async def field(self, request: Request) -> Response:
        opened = self._mesh(request)
        source = next((s for s in self.sources if s.name == request.path_params["source"]), None)
        if source is None:
            raise Refusal(404, "There is no such layer; reload the page.")
        query = dict(request.query_params)
        pick = messages.parsed_pick(query, opened.mesh) if source.picks else None

        def compute() -> bytes:
            found = source.field(opened, query, pick)
            about = {"element": found.element, "signed": found.signed, "note": found.note}
            return messages.encode(about, {"values": found.values})

        return Response(await self._slow(compute), media_type=messages.MEDIA_TYPE)

    async def read_labels(self, request: Request) -> Response:
        """A label file for an open mesh, as labels per face."""
        opened = self._mesh(request)
        read = partial(messages.read_label_file, mesh=opened.mesh)
        labels = await self.uploads.parse(request, request.query_params.get("name", "labels.txt"), read)
        return Response(messages.encode({}, {"labels": labels.astype(np.int32)}), media_type=messages.MEDIA_TYPE)

    async def save(self, request: Request) -> Response:
        opened, annotation, _ = await self._annotation(request)
        files = await self._quick(self.outbox.save, opened, annotation)
        return JSONResponse({"folder": str(self.outbox.folder), "files": files})

    async def save_data_set(self, request: Request) -> Response:
        opened, annotation, about = await self._annotation(request)
        name, reviewed = str(about.get("data_set", "")), bool(about.get("reviewed"))
        add = partial(self.outbox.add_to_data_set, reviewed=reviewed)
        root, n_meshes = await self._quick(add, opened, annotation, name)
        return JSONResponse({"folder": str(root), "meshes": n_meshes, "command": f"hodgeformer train {root}"})

    async def learn(self, request: Request) -> Response:
        query, data = request.query_params, self._series.data_set
        try:
            minutes = float(query.get("minutes", "5"))
        except ValueError:
            raise Refusal(400, "Minutes must be a number.") from None
        await self._quick(self.learning.start, data, query.get("model", ""), minutes)
        return JSONResponse(asdict(self.learning.progress), status_code=202)

    async def learned(self, request: Request) -> Response:
        return JSONResponse(asdict(self.learning.progress))

    async def stop_learning(self, request: Request) -> Response:
        self.learning.stop()
        return JSONResponse(asdict(self.learning.progress), status_code=202)

    @property
    def _series(self) -> Series:
        if self.series is None:
            raise Refusal(404, "No folder is open; start with `hodgeformer view MODEL FOLDER`.")
        return self.series

    def _mesh(self, request: Request) -> OpenMesh:
        return self.meshes.get(request.path_params["mesh"])

    async def _annotation(self, request: Request) -> tuple[OpenMesh, Annotation, dict[str, Any]]:
        opened = self._mesh(request)
        about, arrays = messages.decode(await self.uploads.body(request))
        try:
            colors = tuple(parse_color(color) for color in about["colors"])
            classes = tuple(str(name) for name in about["classes"])
            labels = arrays["labels"].astype(np.int64)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Refusal(400, f"The request cannot be read ({error}); reload the page.") from None
        return opened, Annotation(labels, classes, colors), about

    async def _arrays(self, make: Callable[[], bytes]) -> Response:
        return Response(await self._quick(make), media_type=messages.MEDIA_TYPE)


def make_viewer(*, model: str | None, mesh: Path | None, out: Path, faces: Faces, up: UpName) -> Viewer:
    """The viewer with all its models and layers; `model` and `mesh`, or a folder of meshes, are opened at once."""
    if model is not None:
        locate_models(model)  # a wrong name is reported here, not in the browser
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: this is a file; --out needs a folder")
    if not os.access(next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.exists()), os.W_OK):
        raise ConfigError(f"{out}: labels cannot be saved there, the folder is read-only; choose another --out")
    meshes, models, out = OpenMeshes(), ModelList(offered_models(model)), out.resolve()
    series = Series.of(mesh, out) if mesh is not None and mesh.is_dir() else None
    return Viewer(
        models=models,
        outbox=Outbox(out),
        meshes=meshes,
        sources=(Attention(models), Spreading(models), DiagonalStars(models)),
        opened=None if mesh is None or series is not None else meshes.add(load_mesh(mesh), pinned=True),
        series=series,
        preferred=None if model is None else shown_name(model),
        faces=messages.parsed_faces(str(faces)),
        up=up,
    )


def create_app(viewer: Viewer, *, host: str = "127.0.0.1", token: str | None = None) -> Starlette:
    """The ASGI application; `host` is the address it will listen on, `token` is required in the URL of the page."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        viewer.predictions.close()
        viewer.learning.stop()

    mesh = "/api/meshes/{mesh}"
    routes: list[BaseRoute] = [
        Route("/api/session", viewer.session),
        Route("/api/meshes", viewer.open_upload, methods=["POST"]),
        Route("/api/samples", viewer.open_sample, methods=["POST"]),
        Route("/api/series/{number:int}", viewer.open_member, methods=["POST"]),
        Route("/api/learning", viewer.learned),
        Route("/api/learning", viewer.learn, methods=["POST"]),
        Route("/api/learning", viewer.stop_learning, methods=["DELETE"]),
        Route(f"{mesh}/geometry", viewer.geometry),
        Route(f"{mesh}/predict", viewer.predict, methods=["POST"]),
        Route(f"{mesh}/progress", viewer.progress),
        Route(f"{mesh}/prediction", viewer.prediction),
        Route(f"{mesh}/fields", viewer.fields),
        Route(f"{mesh}/fields/{{source}}", viewer.field),
        Route(f"{mesh}/labels", viewer.read_labels, methods=["POST"]),
        Route(f"{mesh}/save", viewer.save, methods=["POST"]),
        Route(f"{mesh}/data-set", viewer.save_data_set, methods=["POST"]),
        Mount("/", StaticFiles(packages=[("hodgeformer.web.viewer", "static")], html=True)),
    ]
    return Starlette(
        routes=routes,
        middleware=[page_guard(host, token)],
        exception_handlers=EXPLAINED,
        lifespan=lifespan,
    )

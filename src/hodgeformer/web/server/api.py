"""What clients may send and receive: the query of a request, and the description of the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from hodgeformer.base.version import __version__
from hodgeformer.predict.options import PredictOptions
from hodgeformer.predict.result import FORMATS
from hodgeformer.web.server.intake import Refusal

OPTIONS = ("faces", "element", "smooth", "tta", "up", "seed")
"""The options of `PredictOptions` that a client sets; memory and batches are up to the server."""
MEDIA_TYPES = {
    ".json": "application/json", ".ply": "model/ply", ".glb": "model/gltf-binary", ".obj": "model/obj",
    ".off": "model/off", ".npz": "application/x-npz", ".txt": "text/plain", ".png": "image/png", ".html": "text/html",
}  # fmt: skip
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True)
class Query:
    """The options of a prediction, the name of the file, and the suffix of the answer."""

    options: dict[str, Any]
    suffix: str
    name: str

    @classmethod
    def of(cls, request: Request) -> Query:
        """The checked query of a request, before a byte of the mesh is read."""
        query = dict(request.query_params)
        name, suffix = query.pop("name", "mesh"), _suffix(query.pop("format", ""), request.headers.get("accept", ""))
        unknown = [key for key in query if key not in OPTIONS]
        if unknown:
            raise Refusal(400, f"Unknown option '{unknown[0][:80]}'; use name, format, {', '.join(OPTIONS)}.")
        options = {key: _FLAGS.get(value, value) for key, value in query.items()}
        PredictOptions.parse(options)
        return cls(options, suffix, name)


def _suffix(named: str, accepted: str) -> str:
    """The format that a request names, else the first type that it accepts, else JSON."""
    if named:
        suffix = f".{named.lower().lstrip('.')}"
        if suffix not in FORMATS:
            raise Refusal(400, f"Unsupported format '{named[:80]}'; use {', '.join(s[1:] for s in FORMATS)}.")
        return suffix
    wanted = [part.partition(";")[0].strip().lower() for part in accepted.split(",")]
    for media in wanted:
        if media in ("", "*/*", "application/*"):
            break
        found = next((suffix for suffix, known in MEDIA_TYPES.items() if known == media), None)
        if found is not None:
            return found
    else:
        raise Refusal(406, f"Supported types: {', '.join(MEDIA_TYPES.values())}; or set format in the query.")
    return ".json"


DESCRIPTION = f"""hodgeformer {__version__}: predictions for triangle meshes

POST /predict       one mesh, as the body or as a file of a form: its answer
POST /batch         several meshes, as files of a form: JSON with "results" and "failed", or a zip archive
GET  /model         task, element, classes and colors, and the columns of a mesh that the model reads
GET  /health        200 while the server runs; needs no token
GET  /metrics       metrics for Prometheus

Query: name=scan.stl (of a body; without it the format is detected), format={"|".join(s[1:] for s in FORMATS)}
(by default the Accept header, or JSON), {", ".join(OPTIONS)}.
Errors are {{"error": "one sentence"}}: 400 413 422 invalid request; 401 403 not allowed; 408 upload too slow;
503 too many requests, with Retry-After; 504 the answer took too long.

curl --data-binary @scan.stl "http://127.0.0.1:8000/predict?name=scan.stl&format=ply" -o scan.ply
curl -F mesh=@a.obj -F mesh=@b.obj http://127.0.0.1:8000/batch
"""

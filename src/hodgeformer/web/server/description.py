"""What the server can do, for people and for programs that write programs."""

from __future__ import annotations

from typing import Any

from hodgeformer.base.version import __version__
from hodgeformer.predict.options import PredictOptions
from hodgeformer.predict.result import FORMATS
from hodgeformer.web.server.query import MEDIA_TYPES, OPTIONS

DESCRIPTION = f"""hodgeformer {__version__}: a model for triangle meshes

POST /predict       one mesh, as the body or as a file of a form: its answer
POST /batch         several meshes, as files of a form: JSON with "results" and "failed", or a zip archive
GET  /model         task, element, classes and colors, and the columns of a mesh that the model reads
GET  /health        200 while the server answers; needs no token
GET  /metrics       numbers for Prometheus
GET  /openapi.json  the same for programs

In the query: name=scan.stl (of a body; told by its content otherwise), format={"|".join(s[1:] for s in FORMATS)}
(else by the Accept header, else JSON), {", ".join(OPTIONS)}.
What goes wrong is {{"error": "one sentence"}}: 400 413 422 are the request's fault; 401 403 who asks; 408 too slow a
sender; 503 too many at once, with Retry-After; 504 too long an answer.

curl --data-binary @scan.stl "http://127.0.0.1:8000/predict?name=scan.stl&format=ply" -o scan.ply
curl -F mesh=@a.obj -F mesh=@b.obj http://127.0.0.1:8000/batch
"""


def openapi() -> dict[str, Any]:
    """The same as OpenAPI 3.1."""
    schema = PredictOptions.model_json_schema()["properties"]
    query = {"name": {"type": "string"}, "format": {"enum": [suffix[1:] for suffix in FORMATS]}}
    query |= {name: {key: value for key, value in schema[name].items() if key != "title"} for name in OPTIONS}
    parameters = [{"name": name, "in": "query", "schema": kind} for name, kind in query.items()]
    binary: dict[str, Any] = {"type": "string", "format": "binary"}
    form = {"type": "object", "properties": {"mesh": {"type": "array", "items": binary}}}
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    failed = {"description": "What is wrong.", "content": {"application/json": {"schema": error}}}

    def post(summary: str, bodies: dict[str, Any], answers: list[str]) -> dict[str, Any]:
        done = {"description": "The answer.", "content": {media: {} for media in answers}}
        body = {"required": True, "content": {media: {"schema": kind} for media, kind in bodies.items()}}
        responses = {"200": done, "default": failed}
        return {"post": {"summary": summary, "parameters": parameters, "requestBody": body, "responses": responses}}

    def get(summary: str, media: str) -> dict[str, Any]:
        return {"get": {"summary": summary, "responses": {"200": {"description": summary, "content": {media: {}}}}}}

    bodies = {"application/octet-stream": binary, "multipart/form-data": form}
    return {
        "openapi": "3.1.0",
        "info": {"title": "hodgeformer", "version": __version__},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
        "paths": {
            "/predict": post("One mesh.", bodies, list(MEDIA_TYPES.values())),
            "/batch": post("Several meshes.", bodies, ["application/json", "application/zip"]),
            "/model": get("Task, element, classes and colors, and the columns it reads.", "application/json"),
            "/health": get("The server answers.", "application/json"),
            "/metrics": get("Numbers for Prometheus.", "text/plain"),
        },
    }

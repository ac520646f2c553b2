"""What a request asks for: the options of a prediction, and what the answer is written as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from hodgeformer.predict.options import PredictOptions
from hodgeformer.predict.result import FORMATS
from hodgeformer.web.server.intake import Refusal

OPTIONS = ("faces", "element", "smooth", "tta", "up", "seed")
"""Of `PredictOptions`, those that a client decides; memory and batches are the server's."""
MEDIA_TYPES = {
    ".json": "application/json", ".ply": "model/ply", ".glb": "model/gltf-binary", ".obj": "model/obj",
    ".off": "model/off", ".npz": "application/x-npz", ".txt": "text/plain", ".png": "image/png", ".html": "text/html",
}  # fmt: skip
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True)
class Asked:
    """The options of a prediction, the name of the file, and the suffix of what is answered."""

    options: dict[str, Any]
    suffix: str
    name: str

    @classmethod
    def of(cls, request: Request) -> Asked:
        """Checked, before a byte of the mesh is read."""
        query = dict(request.query_params)
        name, suffix = query.pop("name", "mesh"), _suffix(query.pop("format", ""), request.headers.get("accept", ""))
        unknown = [key for key in query if key not in OPTIONS]
        if unknown:
            raise Refusal(400, f"'{unknown[0][:80]}' is no option; there are name, format, {', '.join(OPTIONS)}.")
        options = {key: _FLAGS.get(value, value) for key, value in query.items()}
        PredictOptions.parse(options)
        return cls(options, suffix, name)


def _suffix(named: str, accepted: str) -> str:
    """The format that a request names, else the first type that it accepts, else JSON."""
    if named:
        suffix = f".{named.lower().lstrip('.')}"
        if suffix not in FORMATS:
            raise Refusal(400, f"'{named[:80]}' is no format; there are {', '.join(s[1:] for s in FORMATS)}.")
        return suffix
    wanted = [part.partition(";")[0].strip().lower() for part in accepted.split(",")]
    for media in wanted:
        if media in ("", "*/*", "application/*"):
            break
        found = next((suffix for suffix, known in MEDIA_TYPES.items() if known == media), None)
        if found is not None:
            return found
    else:
        raise Refusal(406, f"There are {', '.join(MEDIA_TYPES.values())}; or name a format in the query.")
    return ".json"

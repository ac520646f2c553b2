"""`hodgeformer view`: the web viewer."""

from __future__ import annotations

import secrets
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hodgeformer.cli.results import MODEL_HELP, FacesOption, UpOption, needs_extra

if TYPE_CHECKING:
    import socket

    from hodgeformer.web.viewer.app import Viewer

_FIRST_PORT = 8765
_TRIES = 20


def view(
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help=MODEL_HELP)] = None,
    mesh: Annotated[
        Path | None, typer.Argument(metavar="MESH", help="A mesh to open at once, or a folder of meshes.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="The port; by default the first free one from 8765.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The folder to save labels in.")] = Path("labels"),
    faces: FacesOption = "auto",
    up: UpOption = "auto",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
) -> None:
    """See predictions in the browser and correct labels.

    Correct labels with a brush and save them as a data set. Go through a folder mesh by mesh, and train a model on
    the corrected labels. A single argument is the mesh if it is a mesh file, or a folder without a model.
    """
    model, mesh = _distinguish(model, mesh)
    viewer = _make_viewer(model, mesh, out, faces, up)
    from hodgeformer.web.server.listening import address as shown
    from hodgeformer.web.server.listening import listen

    listening = listen(host, [*range(_FIRST_PORT, _FIRST_PORT + _TRIES), 0] if port is None else [port])
    token = secrets.token_urlsafe(16)
    address = f"{shown(host, listening)}/?token={token}"
    print(
        f"hodgeformer: the viewer is at {address}\nhodgeformer: labels are saved in {out.resolve()}; press Ctrl+C to "
        "stop",
        flush=True,
    )
    _serve(viewer, host, token, listening, address if browser else None)


def _distinguish(model: str | None, mesh: Path | None) -> tuple[str | None, Path | None]:
    from hodgeformer.mesh.io import MESH_SUFFIXES
    from hodgeformer.predict.pretrained import holds_model

    if model is None or mesh is not None:
        return model, mesh
    path = Path(model)
    is_folder = path.is_dir() and not holds_model(path)
    return (None, path) if is_folder or path.suffix.lower() in MESH_SUFFIXES else (model, None)


def _make_viewer(model: str | None, mesh: Path | None, out: Path, faces: Any, up: Any) -> Viewer:
    with needs_extra("view", "the viewer needs a small web server"):
        from hodgeformer.web.viewer.app import make_viewer
    return make_viewer(model=model, mesh=mesh, out=out, faces=faces, up=up)


def _serve(viewer: Viewer, host: str, token: str, listening: socket.socket, address: str | None) -> None:
    from hodgeformer.web.server.guard import is_local
    from hodgeformer.web.server.listening import serve
    from hodgeformer.web.viewer.app import create_app

    if not is_local(host):
        print(
            f"hodgeformer: --host {host} lets everyone on the network who has this URL use the viewer", file=sys.stderr
        )
    if address is not None:
        webbrowser.open(address)
    serve(create_app(viewer, host=host, token=token), listening, farewell=2)

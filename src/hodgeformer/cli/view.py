"""`hodgeformer view`: the web viewer."""

from __future__ import annotations

import secrets
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from hodgeformer.cli.results import MODEL_HELP, FacesOption, UpOption, needs_extra, options_of

_FIRST_PORT = 8765
_TRIES = 20


def view(
    context: typer.Context,
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help=MODEL_HELP)] = None,
    mesh: Annotated[
        Path | None, typer.Argument(metavar="MESH", help="A mesh to open at once, or a folder of meshes.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; by default the first free one from 8765.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to save labels in.")] = Path("labels"),
    faces: FacesOption = "auto",
    up: UpOption = "auto",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
) -> None:
    """See predictions in the browser and correct labels.

    Correct labels with a brush and save them as a data set. Go through a folder mesh by mesh, and train a model on
    the corrected labels. A single argument is the mesh if it is a mesh file, or a folder without a model.
    """
    options = options_of(context)
    model, mesh = _distinguish(model, mesh)
    with needs_extra("view", "the viewer needs a small web server"):
        from hodgeformer.web.viewer.app import create_app, make_viewer
    from hodgeformer.web.server.guard import is_local
    from hodgeformer.web.server.listening import address, listen, serve

    viewer = make_viewer(model=model, mesh=mesh, out=out, faces=options.faces, up=options.up)
    listening = listen(host, [*range(_FIRST_PORT, _FIRST_PORT + _TRIES), 0] if port is None else [port])
    token = secrets.token_urlsafe(16)
    shown = f"{address(host, listening)}/?token={token}"
    print(f"hodgeformer: the viewer is at {shown}", flush=True)
    print(f"hodgeformer: labels are saved in {out.resolve()}; press Ctrl+C to stop", flush=True)
    if not is_local(host):
        print(
            f"hodgeformer: --host {host} lets everyone on the network who has this URL use the viewer", file=sys.stderr
        )
    if browser:
        webbrowser.open(shown)
    serve(create_app(viewer, host=host, token=token), listening, farewell=2)


def _distinguish(model: str | None, mesh: Path | None) -> tuple[str | None, Path | None]:
    """The model and the mesh, of which a single argument is either."""
    from hodgeformer.mesh.io import MESH_SUFFIXES
    from hodgeformer.predict.pretrained import holds_model

    if model is None or mesh is not None:
        return model, mesh
    path = Path(model)
    is_folder = path.is_dir() and not holds_model(path)
    return (None, path) if is_folder or path.suffix.lower() in MESH_SUFFIXES else (model, None)

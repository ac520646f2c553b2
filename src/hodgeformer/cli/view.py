"""`hodgeformer view`: the web viewer on this machine."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hodgeformer.cli.results import FacesOption, UpOption
from hodgeformer.errors import ConfigError

if TYPE_CHECKING:
    from hodgeformer.viewer.app import Viewer

_FIRST_PORT = 8765
_TRIES = 20


def view(
    model: Annotated[
        str | None, typer.Argument(help="A bundled name, a run folder, or a checkpoint.", show_default=False)
    ] = None,
    mesh: Annotated[
        Path | None, typer.Argument(help="A mesh to open at once, or a folder of meshes.", show_default=False)
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="The port; default the first free one from 8765.", show_default=False
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The folder that everything is saved into.")] = Path("labels"),
    faces: FacesOption = "auto",
    up: UpOption = "auto",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
) -> None:
    """See predictions in the browser, correct labels with a brush, and save them as a data set.

    A folder is gone through mesh by mesh, and a model can learn from what was corrected. A single argument that is a
    mesh file, or a folder without a model in it, is taken for the mesh.
    """
    model, mesh = _told_apart(model, mesh)
    viewer = _make_viewer(model, mesh, out, faces, up)
    listening = _listen(host, port)
    token = secrets.token_urlsafe(16)
    address = f"http://{_shown(host)}:{listening.getsockname()[1]}/?token={token}"
    print(
        f"hodgeformer: the viewer is at {address}\nhodgeformer: it saves into {out.resolve()}; Ctrl+C ends it",
        flush=True,
    )
    _serve(viewer, host, token, listening, address if browser else None)


def _told_apart(model: str | None, mesh: Path | None) -> tuple[str | None, Path | None]:
    from hodgeformer.mesh.io import MESH_SUFFIXES

    if model is None or mesh is not None:
        return model, mesh
    path = Path(model)
    is_folder = path.is_dir() and not any(path.glob("*.safetensors"))
    return (None, path) if is_folder or path.suffix.lower() in MESH_SUFFIXES else (model, None)


def _make_viewer(model: str | None, mesh: Path | None, out: Path, faces: Any, up: Any) -> Viewer:
    try:
        from hodgeformer.viewer.app import make_viewer
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("starlette", "uvicorn", "anyio"):
            raise
        raise ConfigError("the viewer needs a small web server: pip install 'hodgeformer[view]'") from None
    return make_viewer(model=model, mesh=mesh, out=out, faces=faces, up=up)


def _listen(host: str, port: int | None) -> socket.socket:
    """A listening socket on the port that was asked for, or on the first free one."""
    try:
        family = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)[0][0]
    except socket.gaierror:
        raise ConfigError(f"--host {host}: this is no address of this machine") from None
    ports = [port] if port is not None else [*range(_FIRST_PORT, _FIRST_PORT + _TRIES), 0]
    for number in ports:
        listening = socket.socket(family)
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
        except OSError as error:
            listening.close()
            if number == ports[-1]:
                raise ConfigError(f"{host}:{number} cannot be used ({error.strerror}); try another --port") from None
            continue
        listening.listen(128)
        return listening
    raise AssertionError("the last port ends the loop")


def _shown(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _serve(viewer: Viewer, host: str, token: str, listening: socket.socket, address: str | None) -> None:
    import uvicorn

    from hodgeformer.server.guard import PatientProtocol, is_local
    from hodgeformer.viewer.app import create_app

    if not is_local(host):
        print(
            f"hodgeformer: --host {host} lets everyone on the network who knows this address use the viewer",
            file=sys.stderr,
        )
    config = uvicorn.Config(
        create_app(viewer, host=host, token=token),
        http=PatientProtocol,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    if address is not None:
        webbrowser.open(address)
    with contextlib.suppress(KeyboardInterrupt):  # the usual way to end it
        uvicorn.Server(config).run(sockets=[listening])

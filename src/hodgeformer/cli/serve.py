"""`hodgeformer serve`: predictions over HTTP."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hodgeformer.base.errors import ConfigError
from hodgeformer.cli.results import DeviceOption, ModelArgument, needs_extra


def serve(
    model: ModelArgument,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is any free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="HODGEFORMER_TOKEN", help="The token that clients must send as `Authorization: Bearer TOKEN`."
        ),
    ] = None,
    device: DeviceOption = "auto",
    workers: Annotated[int, typer.Option(min=1, help="The number of predictions at the same time.")] = 2,
    queue: Annotated[int, typer.Option(min=0, help="The number of requests that may wait; more get 503.")] = 32,
    megabytes: Annotated[
        int, typer.Option("--max-upload", min=1, help="The largest request in megabytes; larger ones get 413.")
    ] = 256,
    upload_seconds: Annotated[
        float, typer.Option(min=0.1, help="The time limit for an upload; slower ones get 408.")
    ] = 60,
    answer_seconds: Annotated[
        float, typer.Option(min=0.1, help="The time limit for an answer; slower ones get 503 or 504.")
    ] = 120,
) -> None:
    """Serve predictions over HTTP.

    Send a mesh, get labels or a colored mesh back. GET / explains how.

    On SIGTERM or Ctrl-C, running requests finish and new ones are refused.
    """
    with needs_extra("serve", "serving needs a small web server"):
        from hodgeformer.web.server.guard import is_local
        from hodgeformer.web.server.intake import MIB
        from hodgeformer.web.server.listening import address, listen
        from hodgeformer.web.server.listening import serve as answer
        from hodgeformer.web.server.service import Limits, Service, create_app, load_predictor

    if token is not None and not (token.isascii() and token.isprintable()):
        raise ConfigError("--token: use printable ASCII characters only")
    limits = Limits(workers, queue, megabytes * MIB, upload_seconds, answer_seconds)
    predictor = load_predictor(model, device)
    listening = listen(host, [port])
    print(
        f"hodgeformer: serving '{predictor.info.name}' at {address(host, listening)}; press Ctrl+C to stop", flush=True
    )
    if not is_local(host) and token is None:
        print(
            f"hodgeformer: --host {host} accepts requests from the whole network; set --token to restrict them",
            file=sys.stderr,
        )
    app = create_app(Service(predictor, limits), host=host, token=token)
    answer(app, listening, farewell=upload_seconds + answer_seconds)

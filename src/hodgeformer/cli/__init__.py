"""The command line: the only package that prints, with one file per command.

Commands import torch, numba and other large packages inside their functions, so that `hodgeformer --help` is fast.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hodgeformer.base.errors import ConfigError, HodgeFormerError
from hodgeformer.base.machine import is_out_of_memory
from hodgeformer.base.settings import plain
from hodgeformer.cli.bench import bench
from hodgeformer.cli.check import check
from hodgeformer.cli.demo import demo
from hodgeformer.cli.doctor import doctor
from hodgeformer.cli.evaluate import evaluate
from hodgeformer.cli.export import export
from hodgeformer.cli.models import info, models
from hodgeformer.cli.predict import predict
from hodgeformer.cli.results import is_not_installed, one_line
from hodgeformer.cli.serve import serve
from hodgeformer.cli.shard import shard
from hodgeformer.cli.study import app as study
from hodgeformer.cli.train import train
from hodgeformer.cli.view import view

WRONG_USE, UNEXPECTED, INTERRUPTED = 2, 3, 130
_CALLBACK_SECONDS = 0.05


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM, which job schedulers send, stops like Ctrl-C; and neither is lost.

    Python drops an exception that is raised in a callback from C. numba calls back whenever it has compiled a function,
    and a signal that arrives meanwhile is handled there.
    """
    show_dropped = sys.unraisablehook
    # The main thread must wake up if it sleeps.
    again = partial(signal.pthread_kill, threading.get_ident()) if os.name == "posix" else signal.raise_signal

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def dropped(found: Any) -> None:
        if issubclass(found.exc_type, KeyboardInterrupt):
            threading.Timer(_CALLBACK_SECONDS, again, [signal.SIGTERM]).start()
        else:
            show_dropped(found)

    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    before, sys.unraisablehook = signal.signal(signal.SIGTERM, stop), dropped
    try:
        yield
    finally:
        sys.unraisablehook = show_dropped
        signal.signal(signal.SIGTERM, before)


class _Commands(TyperGroup):
    """Reports every error as one line and an exit code; with --debug as a traceback."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):  # file names may contain bytes that cannot be printed
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            if not all(word.strip() for word in ctx.args):
                # From a shell variable that was never set; as a path it would be the current folder.
                raise ConfigError("an argument is empty; use '.' for the current folder")
            with _interruptible():
                return super().invoke(ctx)
        except Exception as error:
            # Typer handles its own exits and usage errors; a closed pipe is not an error.
            own = isinstance(error, (typer.Exit, typer.Abort, BrokenPipeError)) or hasattr(error, "exit_code")
            if isinstance(error, typer.BadParameter):
                error.message = plain(error.message)
            if own or ctx.params.get("debug"):
                raise
            print(f"hodgeformer: {one_line(error)}", file=sys.stderr)
            expected = (
                isinstance(error, (HodgeFormerError, OSError)) or is_out_of_memory(error) or is_not_installed(error)
            )
            raise typer.Exit(WRONG_USE if expected else UNEXPECTED) from None
        except KeyboardInterrupt:
            print("hodgeformer: interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None


def _version(wanted: bool) -> None:
    if wanted:
        from hodgeformer.base.version import __version__

        print(f"hodgeformer {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="hodgeformer",
    help="Classify and segment triangle meshes with a Transformer whose attention is a discrete Hodge star.",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


for command in (demo, check, shard, train, evaluate, predict, view, serve, export, models, info, doctor, bench):
    app.command()(command)
app.add_typer(study, name="study")


def main() -> None:
    """The console script."""
    # Torch reads it on import. Threads that wait in a busy loop take the processor from our kernels, from the data
    # workers and from other programs: measured ten times slower beside two other processes on two cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Large pages for large tensors: page faults took a third of the time of a prediction on a large mesh.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    # Imported modules stay alive; collecting garbage among them again and again took 0.4 s of 2.7.
    gc.set_threshold(20_000)
    atexit.register(gc.disable)  # a last collection before the process ends took another 0.08 s
    app()

"""The command line: the only printer, one file per verb.

Files of verbs import torch, numba and the like inside their functions, so that `hodgeformer --help` answers at once.
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
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hodgeformer.base.errors import ConfigError, HodgeFormerError
from hodgeformer.cli.bench import bench
from hodgeformer.cli.check import check
from hodgeformer.cli.demo import demo
from hodgeformer.cli.doctor import doctor
from hodgeformer.cli.evaluate import evaluate
from hodgeformer.cli.export import export
from hodgeformer.cli.models import info, models
from hodgeformer.cli.predict import predict
from hodgeformer.cli.results import one_line
from hodgeformer.cli.serve import serve
from hodgeformer.cli.shard import shard
from hodgeformer.cli.study import app as study
from hodgeformer.cli.train import train
from hodgeformer.cli.view import view

WRONG_USE, UNEXPECTED, INTERRUPTED = 2, 3, 130


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM, which job schedulers send, stops like Ctrl-C."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only there can it be asked for
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Verbs(TyperGroup):
    """Turns what goes wrong into one clear line and an exit code; a traceback only with --debug."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):  # names of files need not be text that can be printed
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            if not all(word.strip() for word in ctx.args):
                # Of a variable of the shell that was never set; as a path it would be the present folder.
                raise ConfigError("an argument is empty; use '.' for the current folder")
            with _interruptible():
                return super().invoke(ctx)
        except Exception as error:
            # Exit, Abort and wrong words are the command line's own way out; a closed pipe is nobody's mistake.
            own = isinstance(error, (typer.Exit, typer.Abort, BrokenPipeError)) or hasattr(error, "exit_code")
            if own or ctx.params.get("debug"):
                raise
            print(f"hodgeformer: {one_line(error)}", file=sys.stderr)
            expected = isinstance(error, (HodgeFormerError, OSError))
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
    cls=_Verbs,
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


for verb in (demo, check, shard, train, evaluate, predict, view, serve, export, models, info, doctor, bench):
    app.command()(verb)
app.add_typer(study, name="study")


def main() -> None:
    """The console script."""
    # Read when torch is loaded. Threads that wait in a busy loop take the processor from our kernels' threads, from the
    # data workers and from whatever else runs: measured ten times slower beside two other processes on two cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Large tensors on large pages: fetching small ones took a third of the time of a prediction on a large mesh.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    # Most of what is imported stays for ever, and looking through it again and again for garbage took 0.4 s of 2.7.
    gc.set_threshold(20_000)
    atexit.register(gc.disable)  # a last look before the end, which frees everything, took another 0.08 s
    app()

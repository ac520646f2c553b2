"""A process of its own in which files are tried, each within a limit of time and memory."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import resource
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from clock import TooLongError, at_most
from hodgeformer.base.errors import HodgeFormerError

SECONDS = 10  # of the processor: the machine may be busy
MEMORY = 300 << 20
TIMES_THE_FILE = 20
_WAIT = 600  # for a process that does not even answer its own alarm, on a busy machine


class Attempts:
    """A process that tries files one by one; it is started again where one of them ended it."""

    def __init__(self, target: str) -> None:
        self._target = target

    def __enter__(self) -> Attempts:
        self._start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()
        self._process.join()

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_work, args=(theirs, self._target), daemon=True)
        self._process.start()
        theirs.close()

    def attempts(self, paths: Sequence[Path], *, limited: bool = True) -> Iterator[str]:
        """What becomes of each file. Many at once, so that a busy machine need not wake two processes for each."""
        self._pipe.send((paths, limited))
        for i in range(len(paths)):
            try:
                if self._pipe.poll(_WAIT):
                    yield self._pipe.recv()
                    continue
                outcome = "hangs"
            except EOFError:
                self._process.join()
                outcome = f"dies ({self._process.exitcode})"
            self._process.kill()
            self._process.join()
            self._start()
            self._pipe.send((paths[i + 1 :], limited))
            yield outcome


def _work(pipe: Connection, target: str) -> None:
    warnings.simplefilter("ignore")
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    while True:
        paths, limited = pipe.recv()
        for path in paths:
            pipe.send(_tried(function, path, limited))


def _tried(function: Callable[[Path], object], path: Path, limited: bool) -> str:
    gc.collect()
    gc.freeze()  # what stays, such as compiled kernels, need not be looked through each time
    most = _held() + MEMORY + TIMES_THE_FILE * path.stat().st_size if limited else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))
    try:
        with at_most(SECONDS) if limited else nullcontext():
            function(path)
        return "accepted"
    except HodgeFormerError as error:
        return "refused" if len(str(error)) < 1500 + len(str(path)) else "a long refusal"
    except TooLongError:
        return "too long"
    except MemoryError:
        return "memory"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} {Path(place.filename).name}:{place.lineno}"
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _held() -> int:
    """Bytes that count towards the limit: private memory that can be written."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()

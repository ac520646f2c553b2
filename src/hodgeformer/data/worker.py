"""Batches made in other processes, which import this package and never the script that trains.

`multiprocessing` imports the caller's `__main__` in its workers: a script without `if __name__ == "__main__":` would
train in each of them. Ours are started by their own code. Where there is `fork`, one process does the imports for all.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import traceback
import warnings
from functools import lru_cache
from multiprocessing.spawn import get_executable
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, cast

import torch

from hodgeformer.base.errors import DataError, HodgeFormerError
from hodgeformer.data.dataset import Sample
from hodgeformer.mesh.prepare import PreparedMesh
from hodgeformer.nn.pack import Batch

# Signals for the main process are often sent to its whole group; it ends its workers itself.
_BEGIN = """\
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
sys.path[:] = {path}
from hodgeformer.data import loader, worker
worker.{function}()
"""
_FORKS = hasattr(os, "fork")
_GONE = (EOFError, ConnectionError, pickle.UnpicklingError)  # errors when reading from a process that ended
_WITHOUT = "set train.workers=0 to prepare batches without workers"


class Key(NamedTuple):
    """One batch of an epoch, or the share of one process: the indices of its meshes in the split."""

    epoch: int
    members: tuple[int, ...]


class Source(Protocol):
    """What prepares batches."""

    samples: tuple[Sample, ...]

    def prepared(self, position: int, epoch: int, *, n_threads: int | None) -> PreparedMesh: ...

    def packed(self, meshes: list[PreparedMesh]) -> Batch: ...


class _Pickler(pickle.Pickler):
    """Refuses what the caller's script defines: a worker does not run it."""

    def reducer_override(self, obj: Any) -> Any:
        if getattr(obj, "__module__", None) in ("__main__", "__mp_main__"):
            raise pickle.PicklingError(f"{getattr(obj, '__qualname__', type(obj).__qualname__)} is defined in a script")
        return NotImplemented


def start_workers(source: Source, n: int) -> list[Worker]:
    """Processes that prepare batches; none if the source cannot be pickled, or this program cannot start Python."""
    if getattr(sys, "frozen", False) or not get_executable():
        return []
    written = io.BytesIO()
    try:
        _Pickler(written, pickle.HIGHEST_PROTOCOL).dump(source)
    except Exception as error:  # objects raise many different errors
        logging.getLogger("hodgeformer").warning(
            "batches are prepared without data workers, which is slower: the data set contains an object that cannot "
            "be sent to another process (%s); define its class in a module",
            error,
        )
        return []
    return [Worker(written.getvalue(), source.samples) for _ in range(n)]


class Worker:
    """A process that prepares batches in the order they are asked for, and ends when its parent does."""

    def __init__(self, source: bytes, samples: tuple[Sample, ...]) -> None:
        self.process_id: int | None = None  # its first message
        self._samples = samples
        self._keys, self._answers = _forked() if _FORKS else _started()
        self._unsent = [pickle.dumps((str(Path.cwd()), _search_path())), source]

    def ask(self, key: Key) -> None:
        # With the first key, the source: a worker reads it after its imports, which all workers do in parallel.
        with contextlib.suppress(OSError):  # `answer` reports that the process ended
            self._keys.writelines([*self._unsent, pickle.dumps(key)])
            self._keys.flush()
        self._unsent = []

    def answer(self) -> Batch | Exception:
        """The next batch, or the error."""
        where = "a batch"
        try:
            self.process_id = self.process_id or pickle.load(self._answers)
            while isinstance(answer := pickle.load(self._answers), int):
                where = self._samples[answer].where
        except _GONE:
            if self.process_id is None:
                return DataError(f"a data worker could not start; its error output says why; {_WITHOUT}")
            return DataError(
                f"a data worker was killed while preparing {where}, perhaps for lack of memory; use fewer workers "
                "(train.workers=0 uses none), use smaller batches, or remove the mesh"
            )
        except OSError as error:
            return DataError(f"a batch cannot be received from a data worker ({error}); {_WITHOUT}")
        return cast(Batch | Exception, answer)

    def close(self) -> None:
        """Let the process end after its current batch."""
        for end in (self._keys, self._answers):
            with contextlib.suppress(OSError):
                end.close()


def _search_path() -> list[str]:
    """The search path of this process, standard library first: a script may lie beside a file named like a module."""
    library = Path(sysconfig.get_path("stdlib"))
    first = [str(folder) for folder in (library, library / "lib-dynload", Path(sys.base_prefix, "DLLs"))]
    return sorted((folder for folder in sys.path if isinstance(folder, str)), key=lambda folder: folder not in first)


def _python(function: str, **pipes: Any) -> subprocess.Popen[bytes]:
    """Start a Python that calls a function of this module; without -P it would import from the current folder."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    code = _BEGIN.format(path=_search_path(), function=function)
    process = subprocess.Popen([get_executable(), *flags, "-P", "-c", code], **pipes)
    threading.Thread(target=process.wait, daemon=True).start()  # so that it does not become a zombie
    return process


def _started() -> tuple[IO[bytes], IO[bytes]]:
    """The input and the output of a new process."""
    process = _python("answer_on_standard_streams", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)


@lru_cache(maxsize=1)
def _forker(process: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process that forks our workers, and a socket to it; cached by process, since a fork needs its own."""
    here, there = socket.socketpair()
    atexit.register(here.close)
    with there:
        return _python("fork_on_demand", stdin=there), here


def _forked() -> tuple[IO[bytes], IO[bytes]]:
    """A two-way stream to a new process."""
    here, there = socket.socketpair()
    with here, there:
        try:
            socket.send_fds(_forker(os.getpid())[1], [b"1"], [there.fileno()])
        except OSError:  # the forker was killed
            _forker(os.getpid())[1].close()
            _forker.cache_clear()
            socket.send_fds(_forker(os.getpid())[1], [b"1"], [there.fileno()])
        line = cast(IO[bytes], here.makefile("rwb"))
    return line, line


def fork_on_demand() -> None:
    """Fork a worker for every socket that arrives, until the other end is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system then reaps ended processes
    warnings.simplefilter("ignore", DeprecationWarning)  # about forking with threads; those of libraries survive it
    orders = socket.socket(fileno=0)
    while True:
        order, lines, *_ = socket.recv_fds(orders, 1, 1)
        if not order:
            return
        if os.fork() == 0:
            break
        os.close(lines[0])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    orders.close()  # otherwise orders could be sent after the forker has ended
    os.open(os.devnull, os.O_RDONLY)  # occupies the number of the standard input, so that nothing else gets it
    with socket.socket(fileno=lines[0]) as line:
        both = cast(IO[bytes], line.makefile("rwb"))
    _work(both, both)
    sys.stdout.flush()
    os._exit(0)  # a normal exit copies the shared memory of all modules, which takes a second


def answer_on_standard_streams() -> None:
    """Work on standard streams. Prints go to standard error, since standard output carries answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _work(sys.stdin.buffer, answers)


def _work(keys: IO[bytes], answers: IO[bytes]) -> None:
    """Answer keys until the other end is closed."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError), answers:
        _send(os.getpid(), answers)
        folder, sys.path[:] = pickle.load(keys)
        os.chdir(folder)
        try:
            source: Source = pickle.load(keys)
        except (EOFError, pickle.UnpicklingError):  # the parent ended while sending it
            raise
        except Exception:  # whatever the modules of its objects raise
            reason = f"a data worker cannot load the data set; {_WITHOUT}\n{traceback.format_exc()}"
            _send(RuntimeError(reason), answers)
            return
        while True:
            _send(_answer(source, pickle.load(keys), answers), answers)


class _BatchPickler(pickle.Pickler):
    """Writes tensors as arrays, which is faster than what torch writes, and as fast as memory that is shared."""

    def reducer_override(self, obj: Any) -> Any:
        return (torch.from_numpy, (obj.numpy(),)) if isinstance(obj, torch.Tensor) else NotImplemented


def _send(answer: Batch | Exception | int, answers: IO[bytes]) -> None:
    _BatchPickler(answers, pickle.HIGHEST_PROTOCOL).dump(answer)
    answers.flush()


def _answer(source: Source, key: Key, answers: IO[bytes]) -> Batch | Exception:
    """The batch, or the error. Each mesh is announced first, so that a crash can be attributed to it."""
    position = key.members[0]
    try:
        prepared = []
        for position in key.members:
            _send(position, answers)
            prepared.append(source.prepared(position, key.epoch, n_threads=1))
        return source.packed(prepared)
    except HodgeFormerError as error:
        where, message = source.samples[position].where, str(error)
        return type(error)(message if where in message else f"{where}: {message}")
    except Exception:
        where = source.samples[position].where
        return RuntimeError(f"preparing {where} failed in a data worker\n{traceback.format_exc()}")

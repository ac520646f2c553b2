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
from typing import IO, Any, cast

import torch

from hodgeformer.base.errors import DataError, HodgeFormerError
from hodgeformer.data.dataset import Sample
from hodgeformer.data.source import BatchSource, Key
from hodgeformer.nn.pack import Batch

# Signals are often sent to the whole group, but for the main process, which then ends its workers.
_BEGIN = """\
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
sys.path[:] = {path}
from hodgeformer.data import worker
worker.{function}()
"""
_FORKS = hasattr(os, "fork")
_GONE = (EOFError, ConnectionError, pickle.UnpicklingError)  # what reading of the dead raises
_WITHOUT = "set train.workers=0 to prepare batches without workers"


class _Pickler(pickle.Pickler):
    """Refuses what the caller's script defines: a worker does not run it."""

    def reducer_override(self, obj: Any) -> Any:
        if getattr(obj, "__module__", None) in ("__main__", "__mp_main__"):
            raise pickle.PicklingError(f"{getattr(obj, '__qualname__', type(obj).__qualname__)} is defined in a script")
        return NotImplemented


def start_workers(source: BatchSource, n: int) -> list[Worker]:
    """Processes that make batches of a source; none where its objects, or this program, cannot go to another."""
    if getattr(sys, "frozen", False) or not get_executable():
        return []
    written = io.BytesIO()
    try:
        _Pickler(written, pickle.HIGHEST_PROTOCOL).dump(source)
    except Exception as error:  # objects have many ways to refuse
        logging.getLogger("hodgeformer").warning(
            "batches are prepared without data workers, which is slower: the data set contains an object that cannot "
            "be sent to another process (%s); define its class in a module",
            error,
        )
        return []
    return [Worker(written.getvalue(), source.samples) for _ in range(n)]


class Worker:
    """A process that makes the batches it is asked for, in this order, and ends with the one that started it."""

    def __init__(self, source: bytes, samples: tuple[Sample, ...]) -> None:
        self.process_id: int | None = None  # known from its first word on
        self._samples = samples
        self._keys, self._answers = _forked() if _FORKS else _started()
        self._unsent = [pickle.dumps((str(Path.cwd()), _search_path())), source]

    def ask(self, key: Key) -> None:
        # The source goes with the first key: a large one is taken only after the imports, which all workers do at once.
        with contextlib.suppress(OSError):  # that it is dead is told when it should answer
            self._keys.writelines([*self._unsent, pickle.dumps(key)])
            self._keys.flush()
        self._unsent = []

    def answer(self) -> Batch | Exception:
        """The next batch, or why there is none."""
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
        """Let the process end after the batch it is at."""
        for end in (self._keys, self._answers):
            with contextlib.suppress(OSError):
                end.close()


def _search_path() -> list[str]:
    """Where modules are found here, the standard library first: beside a script may be a file of the same name."""
    library = Path(sysconfig.get_path("stdlib"))
    first = [str(folder) for folder in (library, library / "lib-dynload", Path(sys.base_prefix, "DLLs"))]
    return sorted((folder for folder in sys.path if isinstance(folder, str)), key=lambda folder: folder not in first)


def _python(function: str, **pipes: Any) -> subprocess.Popen[bytes]:
    """A Python that calls a function of this module. Without -P it would look for modules in the current folder."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    code = _BEGIN.format(path=_search_path(), function=function)
    process = subprocess.Popen([get_executable(), *flags, "-P", "-c", code], **pipes)
    threading.Thread(target=process.wait, daemon=True).start()  # whenever it ends, it is not left as a zombie
    return process


def _started() -> tuple[IO[bytes], IO[bytes]]:
    """The input and the output of a new process."""
    process = _python("answer_on_standard_streams", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)


@lru_cache(maxsize=1)
def _forker(process: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process that forks the workers of this one, and the line to it; a forked copy of this one gets its own."""
    here, there = socket.socketpair()
    atexit.register(here.close)
    with there:
        return _python("fork_on_demand", stdin=there), here


def _forked() -> tuple[IO[bytes], IO[bytes]]:
    """The line to a new process, for both directions."""
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
    """Become a worker for every line that comes in, until the other end is closed, or its process gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # then the system buries the dead
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: those of libraries survive it
    orders = socket.socket(fileno=0)
    while True:
        order, lines, *_ = socket.recv_fds(orders, 1, 1)
        if not order:
            return
        if os.fork() == 0:
            break
        os.close(lines[0])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    orders.close()  # else orders could still be sent when the forker is dead
    os.open(os.devnull, os.O_RDONLY)  # takes the number of the standard input, which nothing else should get
    with socket.socket(fileno=lines[0]) as line:
        both = cast(IO[bytes], line.makefile("rwb"))
    _work(both, both)
    sys.stdout.flush()
    os._exit(0)  # to take all modules apart, memory that is shared so far, takes a second


def answer_on_standard_streams() -> None:
    """Be a worker. What is printed goes to the error output, since the standard output carries answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _work(sys.stdin.buffer, answers)


def _work(keys: IO[bytes], answers: IO[bytes]) -> None:
    """Answer keys until the other end is closed, or its process gone."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError), answers:
        _send(os.getpid(), answers)
        folder, sys.path[:] = pickle.load(keys)
        os.chdir(folder)
        try:
            source: BatchSource = pickle.load(keys)
        except (EOFError, pickle.UnpicklingError):  # it was not sent to the end
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


def _answer(source: BatchSource, key: Key, answers: IO[bytes]) -> Batch | Exception:
    """The batch, or the reason why there is none. Each mesh is announced, so that a sudden death has a name."""
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

"""Work on many things spread over the processes of one machine or of a Ray cluster, by Ray Data."""

from __future__ import annotations

import io
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

from hodgeformer.base.errors import ConfigError, MeshError
from hodgeformer.base.files import offline, refuse_network
from hodgeformer.base.memory import share_memory

Item = TypeVar("Item")
Value = TypeVar("Value")
Work = Callable[[Sequence[Item]], Iterator[Value | Exception]]
"""Takes things and gives, in their order and while they come, what became of each."""

_TOGETHER = 16  # what a worker is sent at once, and at most does again if it dies
_DEATHS = 3  # of the worker that had a thing: then the thing itself is to blame
_PATIENCE = 10.0  # seconds for a cluster to answer
_STORE_BYTES = 2**28  # what travels is small; more goes to the disk
# Read when Ray is loaded or started: nothing is told to its makers, and its own log stays in its own files.
_MANNERS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# The same for a cluster that is started here: whoever can talk to it can run code as this user. It asks for a token
# and listens on this machine only, by the setting with which Ray avoids the questions of firewalls on other systems.
_ALONE = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@dataclass(frozen=True)
class Cluster:
    """Where to work: at the address of a Ray cluster, or in processes that are started here and ended afterwards.

    `workers`: how many processes, by default one for each processor, or for each GPU where `on_gpu` says so.
    """

    address: str | None = None
    workers: int | None = None
    on_gpu: bool = False

    def spread(
        self, open_worker: Callable[[], Work[Item, Value]], items: Sequence[Item]
    ) -> Generator[tuple[Item, Value | Exception]]:
        """Every thing with what became of it, as they come, in no order.

        Each worker calls `open_worker` once, which can be sent there, and then what that gave for things in small
        groups. The group of a worker that dies is given to another, and in the end its things one by one; what three
        workers died of is lost, which is said in its place.
        """
        left = dict(enumerate(items))
        with _ray(self.address, self.workers) as ray:
            resources = ray.cluster_resources()
            workers = self.workers or max(1, int(resources.get("GPU" if self.on_gpu else "CPU", 1)))
            several = max(1, min(_TOGETHER, len(left) // (4 * workers)))
            for together, deaths in ((several, 2), (1, _DEATHS)):
                for number, outcome in self._outcomes(ray, open_worker, left, workers, together, deaths):
                    if number in left:
                        yield left.pop(number), outcome
                if not left:
                    return
        for item in left.values():
            said = f"each of {_DEATHS} workers that got it died, most likely for want of memory; "
            yield item, MeshError(f"{said}ask for fewer --workers, or take --engine local for it")

    def over(
        self, function: Callable[[Item], Value], items: Sequence[Item]
    ) -> Generator[tuple[Item, Value | Exception]]:
        """Like `spread`, with a function of one thing that raises nothing."""
        return self.spread(partial(partial, map, function), items)

    def _outcomes(
        self,
        ray: Any,
        open_worker: Callable[[], Any],
        items: Mapping[int, Any],
        workers: int,
        together: int,
        deaths: int,
    ) -> Iterator[tuple[int, Any]]:
        rows = [{"number": number, "content": _Carried(item)} for number, item in items.items()]
        n_groups = -(-len(rows) // together)
        workers = min(workers, n_groups)
        data = ray.data.from_items(rows, override_num_blocks=n_groups)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray 2.64 takes the last two no more, and has nothing in their place
            results = data.map_batches(
                _Worker,
                batch_size=None,
                fn_constructor_args=[open_worker, Path.cwd(), workers],
                compute=ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=1),
                num_cpus=1,
                num_gpus=1 if self.on_gpu else None,
                max_restarts=-1,
                max_task_retries=deaths - 1,
            )
        try:
            for row in results.iter_rows():
                yield row["number"], row["content"].outcome
        except ray.exceptions.RayError as error:
            raise ConfigError(f"Ray cannot do it: {str(error).strip().splitlines()[-1]}") from error


@dataclass(frozen=True)
class _Carried:
    """What travels between processes, by Ray's own means; an error with where it happened."""

    value: Any
    where: str = ""

    @classmethod
    def of(cls, outcome: Any) -> _Carried:
        """An outcome; an error that could not be made again on arrival, by its words."""
        if not isinstance(outcome, Exception):
            return cls(outcome)
        where = "".join(traceback.format_exception(outcome))
        try:
            again: Exception = type(outcome)(*outcome.args)
        except Exception:
            again = RuntimeError(f"{type(outcome).__name__}: {outcome}")
        return cls(again, where)

    @property
    def outcome(self) -> Any:
        if self.where:
            self.value.__cause__ = RuntimeError(f"in a worker:\n{self.where}")
        return self.value


class _Worker:
    """A process that is opened once; Ray Data calls it with groups of rows."""

    def __init__(self, open_worker: Callable[[], Work[Any, Any]], folder: Path, workers: int) -> None:
        with suppress(OSError):  # relative paths are those of whoever asks; on another machine it may not be there
            os.chdir(folder)
        share_memory(min(workers, os.cpu_count() or 1))
        self._work = open_worker()

    def __call__(self, batch: Mapping[str, Any]) -> Iterator[dict[str, list[Any]]]:
        items = [carried.value for carried in batch["content"]]
        for number, outcome in zip(batch["number"], self._work(items), strict=True):
            yield {"number": [number], "content": [_Carried.of(outcome)]}


@contextmanager
def _ray(address: str | None, workers: int | None) -> Iterator[Any]:
    """Ray, quiet; connected already, or now and until the end."""
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_answers(address)
    for name, value in _MANNERS.items():
        os.environ[name] = value if offline() else os.environ.get(name, value)
    if address == "local" and "ray" not in sys.modules:  # a Ray that is loaded already has made up its mind
        for name, value in _ALONE.items():
            os.environ.setdefault(name, value)
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:  # else Ray writes one into the home folder
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
        import ray.data
    except ImportError:
        raise ConfigError("--engine ray needs Ray: pip install 'hodgeformer[cluster]'") from None
    _hush(ray)
    # What Ray says of workers that died goes to the standard output, where our results are.
    with redirect_stdout(io.StringIO()):
        if ray.is_initialized():
            yield ray
            return
        _start(ray, address, workers)
        try:
            yield ray
        finally:
            ray.shutdown()


def _check_answers(address: str) -> None:
    """Ray itself waits for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if address != "local" and not _is_here(host):
        refuse_network(f"the Ray cluster at '{address}'", "leave out --address and RAY_ADDRESS to use this machine")
    if colon and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
        except OSError as error:
            raise ConfigError(f"no Ray cluster answers at {address} ({error.strerror or error})") from None


def _is_here(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _start(ray: Any, address: str, workers: int | None) -> None:
    in_main = threading.current_thread() is threading.main_thread()
    on_sigterm = signal.getsignal(signal.SIGTERM)
    here = {
        "num_cpus": max(workers or 0, os.cpu_count() or 1),
        "object_store_memory": _STORE_BYTES,
        "include_dashboard": False,
    }
    try:
        with _without_stderr():
            ray.init(
                address, log_to_driver=False, logging_level=logging.CRITICAL, **(here if address == "local" else {})
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = str(error).strip().splitlines()[0]
        raise ConfigError(f"Ray at '{address}' cannot be used ({said})") from None
    finally:
        if in_main:  # Ray takes it for itself
            signal.signal(signal.SIGTERM, on_sigterm)


@contextmanager
def _without_stderr() -> Iterator[None]:
    """For a line of Ray's that comes before it can be told to be quiet, and not by way of Python."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _hush(ray: Any) -> None:
    """No bars and no lines of Ray Data's; everything is in its log files."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.max_errored_blocks = -1
    for handler in logging.getLogger("ray.data").handlers:
        if handler.get_name() == "console":
            handler.setLevel(logging.CRITICAL)

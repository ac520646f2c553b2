"""Work on many items in the processes of one machine or of a Ray cluster, with Ray Data."""

from __future__ import annotations

import io
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hodgeformer.base.errors import ConfigError, MeshError
from hodgeformer.base.files import offline, refuse_network
from hodgeformer.base.machine import share_memory

Item = TypeVar("Item")
Value = TypeVar("Value")
Work = Callable[[Sequence[Item]], Iterator[Value | Exception]]
"""Takes items and yields the outcome of each, in their order."""

_TOGETHER = 16  # items that a worker gets at once, and repeats at most if it dies
_DEATHS = 3  # of workers with the same item: then the item is the cause
_HERE = ("localhost", "127.0.0.1", "[::1]")
_TIMEOUT = 10.0  # seconds for a cluster to answer
_STORE_BYTES = 2**28  # messages are small; more is written to the disk
# Ray reads them when it is imported or started: no usage statistics, and no log lines in our output.
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# For a cluster that is started here: whoever can connect to it can run code as this user. So it requires a token, and
# the second setting, by which Ray avoids firewall dialogs on other systems, makes it listen on this machine only.
_PRIVATE = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@dataclass(frozen=True)
class Cluster:
    """Where to work: at the address of a Ray cluster, or in processes that are started here and ended afterwards.

    `workers` is the number of processes, by default one per processor, or with `on_gpu` one per GPU.
    """

    address: str | None = None
    workers: int | None = None
    on_gpu: bool = False

    def spread(
        self, open_worker: Callable[[], Work[Item, Value]], items: Sequence[Item]
    ) -> Generator[tuple[Item, Value | Exception]]:
        """Every item with its outcome, as soon as it is ready, in any order.

        Each worker calls `open_worker` once, and the result with small groups of items. If a worker dies, another one
        gets its group, and in the end its items one by one. An item that killed three workers has an error as outcome.
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
            died = f"{_DEATHS} workers died while processing it, probably because memory ran out"
            yield item, MeshError(f"{died}; use fewer --workers, or --engine local for this mesh")

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
            warnings.simplefilter("ignore")  # the last two options are deprecated without a replacement
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
                yield row["number"], row["content"].value
        except ray.exceptions.RayError as error:
            raise ConfigError(f"Ray failed: {str(error).strip().splitlines()[-1]}") from error


@dataclass(frozen=True)
class _Carried:
    """What is sent between processes: Ray would make arrays of some values."""

    value: Any

    @classmethod
    def of(cls, outcome: Any) -> _Carried:
        """An outcome; an error that cannot be created again from its arguments becomes a RuntimeError."""
        if isinstance(outcome, Exception):
            try:
                outcome = type(outcome)(*outcome.args)
            except Exception:
                outcome = RuntimeError(f"{type(outcome).__name__}: {outcome}")
        return cls(outcome)


class _Worker:
    """A process; Ray Data calls it with groups of rows."""

    def __init__(self, open_worker: Callable[[], Work[Any, Any]], folder: Path, workers: int) -> None:
        with suppress(OSError):  # relative paths refer to this folder; another machine may not have it
            os.chdir(folder)
        share_memory(min(workers, os.cpu_count() or 1))
        self._work = open_worker()

    def __call__(self, batch: Mapping[str, Any]) -> Iterator[dict[str, list[Any]]]:
        items = [carried.value for carried in batch["content"]]
        for number, outcome in zip(batch["number"], self._work(items), strict=True):
            yield {"number": [number], "content": [_Carried.of(outcome)]}


@contextmanager
def _ray(address: str | None, workers: int | None) -> Iterator[Any]:
    """Ray without its output; an existing connection is used, a new one is closed at the end."""
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_answers(address)
    for name, value in _QUIET.items():
        os.environ[name] = value if offline() else os.environ.get(name, value)
    if address == "local" and "ray" not in sys.modules:  # Ray reads them on import
        for name, value in _PRIVATE.items():
            os.environ.setdefault(name, value)
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:  # otherwise Ray writes one to the home folder
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
        import ray.data
    except ImportError:
        raise ConfigError("--engine ray needs Ray: pip install 'hodgeformer[cluster]'") from None
    _hush(ray)
    # Ray prints messages about dead workers to the standard output, where our results are.
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
    """Fail soon if no cluster answers; Ray itself would wait for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if address != "local" and host not in _HERE:
        refuse_network(f"the Ray cluster at '{address}'", "leave out --address and RAY_ADDRESS to use this machine")
    if colon and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=_TIMEOUT).close()
        except OSError as error:
            raise ConfigError(f"no Ray cluster answers at {address} ({error.strerror or error})") from None


def _start(ray: Any, address: str, workers: int | None) -> None:
    in_main = threading.current_thread() is threading.main_thread()
    on_sigterm = signal.getsignal(signal.SIGTERM)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address == "local":
        n_cpus = max(workers or 0, os.cpu_count() or 1)
        options |= {"num_cpus": n_cpus, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
    try:
        ray.init(address, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"Ray at '{address}' cannot be used ({str(error).strip().splitlines()[0]})") from None
    finally:
        if in_main:  # Ray installs its own handler
            signal.signal(signal.SIGTERM, on_sigterm)


def _hush(ray: Any) -> None:
    """Turn off the progress bars and messages of Ray Data; they are also in its log files."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.max_errored_blocks = -1
    for handler in logging.getLogger("ray.data").handlers:
        if handler.get_name() == "console":
            handler.setLevel(logging.CRITICAL)

"""Work spread over processes by Ray: the results of the local engine, whatever happens to the workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest
from typer.testing import Result

from clock import PATIENCE
from command import run
from hodgeformer.base.errors import MeshError
from hodgeformer.mesh.io import save_mesh
from hodgeformer.predict.cluster import Cluster
from hodgeformer.predict.cluster import _ray as started_ray
from hodgeformer.predict.many import Job, Predicted
from hodgeformer.predict.options import PredictOptions
from meshes import icosphere, open_grid

pytestmark = [
    # Not imported here: it reads what `_ray` sets for a cluster of its own when it is loaded.
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'hodgeformer[cluster]'"),
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="signals"),
    pytest.mark.filterwarnings("default"),  # those of Ray's threads and sockets
]


@pytest.fixture(scope="module", autouse=True)
def ray() -> Iterator[Any]:
    """One start for all tests; two processors. Ray gives itself 30 seconds to start, too few on a busy machine."""
    with ExitStack() as ends:
        for again in (True, True, False):
            try:
                started = ends.enter_context(started_ray("local", 2))
                break
            except Exception as error:
                if not again or "timed out during startup" not in str(error):
                    raise
        yield started


ASKING = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False); print('let in')"


def test_a_cluster_on_this_machine_listens_nowhere_else_and_asks_for_a_token(ray: Any) -> None:
    me = psutil.Process()
    found = [one for process in (me, *me.children(recursive=True)) for one in process.net_connections("tcp")]
    listening = {one.laddr.ip.removeprefix("::ffff:") for one in found if one.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
    words = [sys.executable, "-c", ASKING, ray.get_runtime_context().gcs_address]
    for token, comes_in in ((os.environ["RAY_AUTH_TOKEN"], True), ("0" * 64, False)):
        environment = {**os.environ, "RAY_AUTH_TOKEN": token}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert ("let in" in done.stdout) == comes_in, done.stderr[-2000:]


@pytest.fixture(scope="module")
def meshes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve, of two kinds, and a file that is none."""
    folder = tmp_path_factory.mktemp("meshes")
    for i in range(12):
        save_mesh(icosphere(2) if i % 2 else open_grid(4 + i, 9), folder / f"mesh_{i:02}.obj")
    (folder / "bad.obj").write_bytes(b"v 0 0 0\n")
    return folder


def content(out: Path) -> dict[str, bytes]:
    """All files, the records of what is done included; not the draft of a worker that was killed while it wrote."""
    files = (path for path in out.rglob("*") if path.is_file() and path.suffix != ".tmp")
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def workers() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [process for process in found if "MapWorker" in process.name() or "MapWorker" in str(process.cmdline())]


def kill_a_worker(out: Path, written_then: list[int]) -> None:
    """As soon as there are results."""
    while not (out.is_dir() and list(out.glob("*.ply"))):
        time.sleep(0.01)
    workers()[0].kill()
    written_then.append(len(list(out.glob("*.ply"))))


def equal_to_the_local_engine(model: object, meshes: Path, n_meshes: int, tmp_path: Path) -> Result:
    """With a worker that is killed in the middle; and then a second run does nothing."""
    asked = ("predict", model, meshes, "--json", "--quiet", "--out")
    here = run(*asked, tmp_path / "here")
    written_then: list[int] = []
    killer = Thread(target=kill_a_worker, args=(tmp_path / "there", written_then))
    killer.start()
    there = run(*asked, tmp_path / "there", "--engine", "ray")
    killer.join()
    assert 0 < written_then[0] < n_meshes
    assert there.exit_code == here.exit_code, there.output
    assert there.stdout.replace("/there/", "/here/") == here.stdout
    assert there.stderr == here.stderr
    assert content(tmp_path / "there") == content(tmp_path / "here")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "there").rglob("*")}
    (meshes / "bad.obj").unlink(missing_ok=True)  # what failed is tried again
    again = json.loads(run(*asked, tmp_path / "there", "--engine", "ray").stdout)
    assert (len(again["results"]), len(again["done_before"])) == (0, n_meshes)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "there").rglob("*")} == before
    return there


def test_a_killed_worker_loses_nothing_and_a_second_run_does_nothing(model: Path, meshes: Path, tmp_path: Path) -> None:
    answer = equal_to_the_local_engine(model, meshes, 12, tmp_path)
    assert answer.exit_code == 1 and "bad.obj: the file has no faces" in answer.stderr


@pytest.mark.attack(minutes=2)
@pytest.mark.real_data
def test_two_hundred_bodies(real_data: Path, tmp_path: Path) -> None:
    (tmp_path / "bodies").mkdir()
    for path in sorted((real_data / "human_seg" / "train").glob("*.obj"))[:200]:
        (tmp_path / "bodies" / path.name).symlink_to(path)
    assert equal_to_the_local_engine("human", tmp_path / "bodies", 200, tmp_path).exit_code == 0


@pytest.mark.attack
def test_a_mesh_that_kills_every_worker_is_named_and_the_others_are_done(
    model: Path, meshes: Path, tmp_path: Path
) -> None:
    job = Job(str(model), tmp_path / "out", (".ply", ".json"), PredictOptions())
    tasks = job.tasks({path: Path(path.name) for path in sorted(meshes.glob("mesh_??.obj"))})
    opened, fatal = job.opened, tasks[7].path

    def open_worker() -> Any:
        work = opened()

        def attacked(given: Sequence[Any]) -> Iterator[Any]:
            for order, outcome in zip(given, work(given), strict=True):
                if order.path == fatal:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield outcome

        return attacked

    outcomes = {order.path: outcome for order, outcome in Cluster(workers=2).spread(open_worker, tasks)}
    assert outcomes.keys() == {order.path for order in tasks}
    lost = outcomes.pop(fatal)
    assert isinstance(lost, MeshError) and "3 workers died" in str(lost)
    assert all(isinstance(outcome, Predicted) for outcome in outcomes.values())

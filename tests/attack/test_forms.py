"""Forms that are damaged or cut, for `hodgeformer serve`: an answer for all files of a form, or a refusal."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

pytest.importorskip("prometheus_client", reason="needs the server: pip install 'hodgeformer[serve]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

from starlette.testclient import TestClient

from attack.mutate import ALL, SEED, mutated, tally
from hodgeformer.mesh.io import save_mesh
from hodgeformer.predict.predictor import Predictor
from hodgeformer.web.server.service import Limits, Service, create_app
from meshes import icosphere, open_grid
from tiny_models import tiny_checkpoint

FEW = 60


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = create_app(Service(Predictor(tiny_checkpoint()), Limits(max_bytes=2**20)))
    with TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, tuple[str, bytes]]]:
    folder = tmp_path_factory.mktemp("meshes")
    for name, mesh in (("ball.ply", icosphere(1)), ("grid.obj", open_grid(4, 5))):
        save_mesh(mesh, folder / name)
    return [("mesh", (path.name, path.read_bytes())) for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("n", [FEW, pytest.param(ALL // 20, marks=pytest.mark.attack(minutes=1))])
def test_damaged_forms(n: int, client: TestClient, files: list[tuple[str, tuple[str, bytes]]]) -> None:
    rng, counts = random.Random(SEED), Counter[str]()
    whole = client.build_request("POST", "/batch", files=files)
    content, headers = whole.read(), {"Content-Type": whole.headers["Content-Type"]}
    for i in range(n):
        cut = rng.randrange(len(content) - 4) if i % 2 else None  # the last four signs may be missing
        body = content[:cut] if i % 2 else mutated([content], rng)
        answer = client.post("/batch", content=body, headers=headers)
        counts[f"{'cut' if i % 2 else 'damaged'}: {answer.status_code}"] += 1
        assert answer.status_code in (200, 400, 413, 422), (cut, answer.text)
        assert "went wrong in the server" not in answer.text, (i, answer.text)  # with one of the meshes
        assert not i % 2 or answer.status_code == 400, (cut, answer.text)
        if answer.status_code >= 400 and answer.status_code != 422:
            assert len(answer.json()["error"]) < 2000
    tally("damaged and cut forms", n, ", ".join(f"{n} x {what}" for what, n in sorted(counts.items())))
    assert counts["damaged: 200"] > 0 and client.get("/health").status_code == 200

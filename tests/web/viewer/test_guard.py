"""Who may talk to the viewer, and in which messages."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the viewer's server: pip install 'hodgeformer[view]'")
pytest.importorskip("httpx2", reason="needs a client for the server: pip install httpx2")

from starlette.testclient import TestClient

from hodgeformer.web.server.guard import Hosts
from hodgeformer.web.server.intake import Refusal
from hodgeformer.web.viewer.messages import decode, encode


def test_arrays_survive() -> None:
    arrays = {
        "a": np.arange(7, dtype=np.uint8),
        "b": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3),
        "c": np.empty(0, dtype=np.int32),
        "d": np.array([2**32 - 1], dtype=np.uint32),
    }
    header, found = decode(encode({"é": [1, None]}, arrays))
    assert header == {"é": [1, None]}
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def wrapped(header: str) -> bytes:
    """A message with this header and no arrays."""
    return len(header).to_bytes(8, "little") + header.encode()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xff\xff\xff\0\0\0\0{}",
        wrapped("null"),
        wrapped("{}"),
        wrapped('{"__metadata__": {"about": "[1]"}}'),
        wrapped('{"__metadata__": {"about": "{"}}'),
        encode({}, {"a": np.zeros(9, dtype=np.int32)})[:-8],
        wrapped('{"__metadata__": {"about": "{}"}, "a": {"dtype": "object", "shape": [1], "data_offsets": [0, 0]}}'),
        wrapped('{"__metadata__": {"about": "{}"}, "a": {"dtype": "I32", "shape": [-1], "data_offsets": [0, 0]}}'),
        wrapped('{"__metadata__": {"about": "{}"}, "a": {"dtype": "I32", "shape": [2], "data_offsets": [0, 80]}}'),
    ],
)
def test_other_messages_are_refused(message: bytes) -> None:
    with pytest.raises(Refusal, match="cannot be read"):
        decode(message)


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:1", "[::1]:8765"])
def test_own_names_are_served(client: TestClient, host: str) -> None:
    assert client.get("/api/session", headers={"Host": host, "Origin": f"http://{host}"}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8765", "192.168.0.7:8765", "", "localhost@x"])
def test_rebound_names_are_refused(client: TestClient, host: str) -> None:
    answer = client.get("/", headers={"Host": host})
    assert answer.status_code == 403
    assert "does not answer as" in answer.json()["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "http://localhost:8765"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_pages_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    for ask in (client.get, client.post):
        assert ask("/api/session", headers=headers).status_code == 403
    assert "evil" not in client.get("/api/session", headers=headers).headers.get("access-control-allow-origin", "")


def test_a_link_to_the_page_is_fine(client: TestClient) -> None:
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


def test_listening_everywhere_still_refuses_names() -> None:
    hosts = Hosts.of("0.0.0.0")
    assert hosts.allow("192.168.0.7:8765")
    assert hosts.allow("[fe80::1]:8765")
    assert not hosts.allow("evil.example:8765")
    assert not Hosts.of("127.0.0.1").allow("192.168.0.7")
    assert Hosts.of("192.168.0.7").allow("192.168.0.7:8765")


def test_answers_keep_to_themselves(client: TestClient) -> None:
    headers = client.get("/").headers
    assert "script-src 'self'" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"

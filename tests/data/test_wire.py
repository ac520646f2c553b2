from __future__ import annotations

import torch

from hodgeformer.containers import PerElement
from hodgeformer.data import wire


def example() -> dict[str, object]:
    numbers = torch.arange(5, dtype=torch.int32)
    return {
        "per": PerElement(numbers, torch.rand(3, 2), torch.empty(0, 4)),
        "again": torch.tensor(3.5, dtype=torch.float64),
        "strided": torch.arange(12).reshape(3, 4).T,
        "text": "x",
        "flags": torch.tensor([True, False]),
    }


def assert_same(a: dict[str, object], b: dict[str, object]) -> None:
    assert a["text"] == b["text"]
    for x, y in [*zip(a["per"], b["per"], strict=True), *((a[k], b[k]) for k in ("again", "strided", "flags"))]:
        assert x.dtype == y.dtype
        assert torch.equal(x, y)


def test_there_and_back_in_one_block() -> None:
    value = example()
    parcel = wire.wrap(value)
    assert isinstance(parcel.block, torch.Tensor)
    assert parcel.block.is_shared()
    assert_same(value, wire.unwrap(parcel))


def test_in_line_where_shared_memory_is_short(monkeypatch) -> None:
    monkeypatch.setattr(wire, "_HEADROOM", 1 << 60)
    value = example()
    parcel = wire.wrap(value)
    if not isinstance(parcel.block, torch.Tensor):
        assert parcel.block.dtype == "uint8"
    assert_same(value, wire.unwrap(parcel))

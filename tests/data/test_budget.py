"""Labels and indexes of shards take no more memory than their bytes allow."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from hodgeformer.base.errors import DataError
from hodgeformer.data.label_files import read_labels
from hodgeformer.data.open import open_dataset
from hodgeformer.data.shards import write_shards
from tiny_sets import parts


@pytest.mark.parametrize("bomb", ["packed", "numbers"])
def test_an_index_of_shards_takes_no_more_than_its_bytes_allow(bomb: str, tmp_path: Path) -> None:
    write_shards(parts(), tmp_path)
    with np.load(tmp_path / "index.npz") as stored:
        columns = dict(stored)
    if bomb == "packed":
        columns["shares"] = np.zeros(300 << 20, dtype=np.uint8)
    else:
        columns["place"][-1, 0] = 10**7  # archives, each of which would be named
    np.savez_compressed(tmp_path / "index.npz", **columns)
    tracemalloc.start()
    try:
        opened = open_dataset(tmp_path)
        assert bomb == "numbers" and len(opened.split("train")) > 1
    except DataError as error:
        assert bomb == "packed" and "unpack to" in str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 100 << 20


def test_one_long_name_does_not_make_all_labels_long(tmp_path: Path) -> None:
    """An array of names takes as much for each as for the longest."""
    (tmp_path / "labels.txt").write_text("arm\n" * 200_000 + "l" * 900 + "\n")
    with pytest.raises(DataError, match="use shorter names, or numbers"):
        read_labels(tmp_path / "labels.txt")

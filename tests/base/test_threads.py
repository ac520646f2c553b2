"""Ranges of rows are worked on once each, whoever else is at work, and an error reaches the caller."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hodgeformer.base.threads import for_row_ranges


@pytest.mark.parametrize(("n_rows", "n_threads", "min_rows"), [(0, 2, 1), (1, 3, 1), (1000, 4, 1), (1000, 2, 600)])
def test_every_row_is_worked_on_once(n_rows, n_threads, min_rows):
    counts = np.zeros(n_rows, dtype=int)

    def work(first, last):
        counts[first:last] += 1

    for_row_ranges(work, n_rows, n_threads=n_threads, min_rows=min_rows)
    assert (counts == 1).all()


def test_callers_from_many_threads_and_from_within_do_not_wait_for_each_other():
    counts = np.zeros((6, 64), dtype=int)

    def call(caller):
        def work(first, last):
            def inner(start, end):
                counts[caller, first + start : first + end] += 1

            for_row_ranges(inner, last - first, n_threads=2, min_rows=1)

        for_row_ranges(work, 64, n_threads=2, min_rows=1)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(call, range(6)))
    assert (counts == 1).all()


@pytest.mark.parametrize("failing", [0, 999])
def test_an_error_reaches_the_caller(failing):
    def work(first, last):
        if first <= failing < last:
            raise ValueError("row")

    with pytest.raises(ValueError, match="row"):
        for_row_ranges(work, 1000, n_threads=2, min_rows=1)

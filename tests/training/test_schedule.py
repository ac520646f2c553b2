"""The learning rate rises, falls, and ends at zero, by epochs and by minutes."""

from __future__ import annotations

import pytest

from hodgeformer.training.loop import Schedule


def test_it_rises_to_the_peak_and_ends_at_zero() -> None:
    schedule = Schedule(peak=2e-3, warmup=0.1, epochs=10)
    assert schedule.rate(0.0) == pytest.approx(2e-5)  # the first step learns too
    assert schedule.rate(0.05) == pytest.approx(1.01e-3)
    assert schedule.rate(0.1) == pytest.approx(2e-3)
    assert schedule.rate(0.55) == pytest.approx(1e-3)
    assert schedule.rate(1.0) == 0.0 and schedule.rate(1.3) == 0.0
    falling = [schedule.rate(0.1 + 0.9 * i / 50) for i in range(51)]
    assert falling == sorted(falling, reverse=True)


def test_without_warm_up_it_begins_at_the_peak() -> None:
    assert Schedule(peak=1.0, warmup=0.0, epochs=1).rate(0.0) == 1.0


def test_progress_counts_epochs_whatever_the_clock_says() -> None:
    schedule = Schedule(peak=1.0, warmup=0.0, epochs=4)
    assert schedule.progress(epoch=1, batch=3, n_batches=6, elapsed=1e9) == pytest.approx(1.5 / 4)
    assert schedule.progress(epoch=3, batch=6, n_batches=6, elapsed=0.0) == 1.0


def test_progress_counts_minutes_whatever_the_epoch() -> None:
    schedule = Schedule(peak=1.0, warmup=0.0, minutes=2.0)
    assert schedule.progress(epoch=7, batch=3, n_batches=6, elapsed=30.0) == pytest.approx(0.25)

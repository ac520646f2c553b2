"""The learning rate rises, falls, and ends at zero, by epochs and by minutes."""

from __future__ import annotations

import pytest

from hodgeformer.training.loop import Schedule


def test_it_rises_to_the_peak_and_ends_at_zero() -> None:
    schedule = Schedule(peak=2e-3, warmup=0.1, length=10)
    assert schedule.rate(0.0) == pytest.approx(2e-5)  # the first step learns too
    assert schedule.rate(0.5) == pytest.approx(1.01e-3)
    assert schedule.rate(1.0) == pytest.approx(2e-3)
    assert schedule.rate(5.5) == pytest.approx(1e-3)
    assert schedule.rate(10.0) == 0.0 and schedule.rate(13.0) == 0.0
    falling = [schedule.rate(1 + 9 * i / 50) for i in range(51)]
    assert falling == sorted(falling, reverse=True)


def test_without_warm_up_it_begins_at_the_peak() -> None:
    assert Schedule(peak=1.0, warmup=0.0, length=1).rate(0.0) == 1.0


def test_it_starts_again_at_every_restart() -> None:
    once, again = (Schedule(1.0, 0.1, length, restarts=at) for length, at in ((4, ()), (11, (4.0, 7.0))))
    first = [0.0, 0.3, 1.0, 3.9]
    assert [again.rate(done) for done in first] == [once.rate(done) for done in first]
    assert again.rate(4.0) == pytest.approx(0.01) and again.rate(5.0) > 0.8 and again.rate(6.999) < 1e-3
    assert [again.rate(7 + done) for done in first] == pytest.approx([once.rate(done) for done in first])
    assert again.rate(11) == 0


def test_progress_counts_epochs_whatever_the_clock_says() -> None:
    schedule = Schedule(peak=1.0, warmup=0.0, length=4)
    assert schedule.done(epoch=1, batch=3, n_batches=6, elapsed=1e9) == 1.5
    assert schedule.done(epoch=3, batch=6, n_batches=6, elapsed=0.0) == 4


def test_progress_counts_minutes_whatever_the_epoch() -> None:
    schedule = Schedule(peak=1.0, warmup=0.0, length=2.0, timed=True)
    assert schedule.done(epoch=7, batch=3, n_batches=6, elapsed=30.0) == 0.5

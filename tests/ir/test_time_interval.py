"""How certain times are, by their repeats."""

from __future__ import annotations

import numpy as np
import pytest

from ir.time_interval import LEAST_NOISE, UNKNOWN_NOISE, TimeInterval, noise_of


def test_of_a_single_value_nothing_is_known() -> None:
    assert noise_of([2.0]) == UNKNOWN_NOISE and noise_of([0.0, 0.0]) == UNKNOWN_NOISE
    only = TimeInterval.of([2.0])
    assert (only.low, only.middle, only.high) == (2.0 * 0.95, 2.0, 2.0 * 1.05)


def test_repeats_that_agree_are_not_taken_for_exact() -> None:
    assert noise_of([1.0] * 7) == LEAST_NOISE


@pytest.mark.parametrize("scale", [1e-6, 1.0, 50.0])
def test_noise_is_a_share(scale: float) -> None:
    times = [1.0, 1.1, 1.3, 1.2, 1.15, 1.25]
    assert noise_of([scale * item for item in times]) == pytest.approx(noise_of(times))


def test_one_that_is_far_off_changes_little() -> None:
    times = [1.0, 1.02, 1.04, 1.06, 1.08]
    wild = TimeInterval.of([*times[:4], 90.0])
    assert wild.middle == 1.04 and wild.noise < 1.5 * TimeInterval.of(times).noise


@pytest.mark.parametrize("count", [3, 4, 5, 9, 25])
def test_the_interval_holds_the_true_median_nearly_always(count: int) -> None:
    """Two standard errors: 19 times out of 20 with many repeats, less often with few, of which the spread is not known well."""
    rng = np.random.default_rng(count)
    intervals = [TimeInterval.of(list(rng.normal(1.0, 0.05, count))) for _ in range(2000)]
    share = np.mean([item.low <= 1.0 <= item.high for item in intervals])
    assert 0.75 < share < 0.99
    assert np.median([item.noise for item in intervals]) == pytest.approx(
        2 * 1.25 * 0.05 / count**0.5, rel=0.25
    )


def test_intervals_overlap_or_do_not() -> None:
    near, far = TimeInterval.around(1.0, 0.1), TimeInterval.around(1.3, 0.05)
    assert near.overlaps(near) and not near.overlaps(far) and not far.overlaps(near)
    wide = TimeInterval.around(1.3, 0.5)
    assert near.overlaps(wide) and wide.overlaps(near)

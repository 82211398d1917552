"""How certain a measured time is: the interval that the repeats of a measurement leave for it.

Times of one kernel differ from repeat to repeat, upwards mostly, by whatever else the machine does. The median of the repeats is
little moved by a few bad ones, and how far they lie apart tells how far it may be off. Two candidates whose intervals overlap have
not been told apart. Whoever compares times goes by this module: runners that stop a candidate, final choices, records, cost models.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

UNKNOWN_NOISE = 0.05
"""Half the width of the interval of a single value, as a share of it: nothing is known of what a repeat would have given."""
LEAST_NOISE = 0.01
"""No interval is narrower: the same program in another process has its memory elsewhere, which repeats in one process do not show."""
_FEW = 5
"""Repeats from which on single ones that are far off are left out of account."""


@dataclass(frozen=True, slots=True)
class TimeInterval:
    """Where a time lies, in seconds.

    Attributes:
        low, high: its ends.
        middle: the median of what was measured.

    >>> TimeInterval.of([1.0, 1.02, 1.01, 1.03, 9.0]).overlaps(TimeInterval.of([1.04, 1.05, 1.05, 1.06, 1.07]))
    True
    >>> TimeInterval.of([1.0]).overlaps(TimeInterval.of([1.2]))
    False
    """

    low: float
    middle: float
    high: float

    @staticmethod
    def of(times: Sequence[float]) -> TimeInterval:
        """The interval that repeats leave, at least one."""
        return TimeInterval.around(statistics.median(times), noise_of(times))

    @staticmethod
    def around(middle: float, noise: float) -> TimeInterval:
        """The interval of a median with half the width ``noise``, as a share of it."""
        return TimeInterval(middle * max(0.0, 1.0 - noise), middle, middle * (1.0 + noise))

    def overlaps(self, other: TimeInterval) -> bool:
        """Whether both may be the same time."""
        return self.low <= other.high and other.low <= self.high

    @property
    def noise(self) -> float:
        """Half the width, as a share of the median."""
        return (self.high - self.middle) / self.middle if self.middle > 0 else UNKNOWN_NOISE


def median_secs(times: Sequence[float] | None) -> float:
    """The time by which a measurement is compared: the median of its repeats, infinite where there is none.

    >>> median_secs([1.0, 9.0, 1.1]), median_secs(None)
    (1.1, inf)
    """
    return statistics.median(times) if times else math.inf


def noise_of(times: Sequence[float]) -> float:
    """Half the width of the interval of the median of repeats, as a share of it: two of its standard errors.

    The standard deviation is estimated by the range of a few repeats (which is about the root of their number times as large), by the
    median absolute deviation of more; the standard error of a median is 1.25 times that of a mean. (Rousseeuw and Croux, "Alternatives
    to the Median Absolute Deviation", Journal of the American Statistical Association 88, 1993.)

    >>> noise_of([1.0, 1.1]) > noise_of([1.0, 1.0, 1.1, 1.1]) > noise_of([1.0, 1.0, 1.0, 1.0, 1.1, 1.1])
    True
    """
    middle = statistics.median(times)
    if len(times) < 2 or middle <= 0:
        return UNKNOWN_NOISE
    root = math.sqrt(len(times))
    if len(times) < _FEW:
        deviation = (max(times) - min(times)) / root
    else:
        deviation = 1.4826 * statistics.median(abs(item - middle) for item in times)
    return max(LEAST_NOISE, 2 * 1.25 * deviation / (root * middle))


def milliseconds(secs: float) -> str:
    """A time in milliseconds for people: four decimals, and of what is short, three digits.

    >>> milliseconds(1.23456e-3), milliseconds(3.6e-6), milliseconds(2.1345e-7), milliseconds(0.0)
    ('1.2346', '0.00360', '0.000213', '0.0000')
    """
    value = secs * 1e3
    decimals = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{max(4, decimals)}f}"

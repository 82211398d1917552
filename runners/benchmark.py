"""Times of repeated calls, as ``time_evaluator`` gives them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BenchmarkResult:
    """Times of repeated runs, in seconds per call."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the repeats."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """Median over the repeats."""
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        """Fastest repeat."""
        return float(np.min(self.results))

    @property
    def max(self) -> float:
        """Slowest repeat."""
        return float(np.max(self.results))

    @property
    def std(self) -> float:
        """Standard deviation of the repeats."""
        return float(np.std(self.results))

    def __str__(self) -> str:
        parts = (
            f"{name} {getattr(self, name) * 1e3:.4f} ms" for name in ("mean", "median", "min", "max", "std")
        )
        return ", ".join(parts)


@dataclass(frozen=True)
class Repeats:
    """How often something is called to be timed."""

    number: int = 10
    """Calls per repeat, raised until a repeat takes at least ``min_repeat_ms``."""
    repeat: int = 1
    """How many times are measured."""
    min_repeat_ms: int = 0
    cooldown_interval_ms: int = 0
    """A pause after every ``repeats_to_cooldown`` repeats."""
    repeats_to_cooldown: int = 1

    def times(self, run: Callable[[int], float]) -> BenchmarkResult:
        """Times of ``run``, which calls as often as it is told and gives the seconds of all calls; one call is not timed."""
        run(1)
        count, times = self.number, []
        for index in range(self.repeat):
            while True:
                seconds = run(count)
                if seconds * 1e3 >= self.min_repeat_ms:
                    break
                count = max(
                    count + 1, int(count * min(10.0, 1.1 * self.min_repeat_ms / max(seconds * 1e3, 1e-3)))
                )
            times.append(seconds / count)
            if self.cooldown_interval_ms and (index + 1) % max(1, self.repeats_to_cooldown) == 0:
                time.sleep(self.cooldown_interval_ms / 1e3)
        return BenchmarkResult(tuple(times))

"""Timing probes on a machine that others use too: short samples in turns, of which one of the fastest counts.

Whatever disturbs a sample makes it longer, so that the fastest of many short ones are the machine's own time. All probes take turns,
so that a disturbance of some milliseconds spoils a few samples of each instead of all samples of one, and a probe whose fastest
samples still differ is sampled again until the time is up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_LEAST_ROUNDS = 8
_PER_ROUND = 3
"""Samples of a probe in each round."""
_AGREEING = 3
"""So many of the fastest samples must agree."""


@dataclass
class Probe:
    """One call that is timed again and again."""

    name: str
    call: Callable[[], object]
    tolerance: float = 0.03
    """How much the fastest samples may differ before they are believed."""
    all_cores: bool = False
    """Whether it needs all cores at a time."""
    samples: list[float] = field(default_factory=list)
    """Seconds."""

    def take(self, clock: Callable[[], float]) -> None:
        """Take the samples of one round."""
        for _ in range(_PER_ROUND):
            begin = clock()
            self.call()
            self.samples.append(clock() - begin)

    @property
    def seconds(self) -> float:
        """The time that counts: of the fastest samples that must agree the slowest, as the very fastest may have been lucky (data
        that should have been in memory was still in a cache)."""
        return sorted(self.samples)[:_AGREEING][-1]

    @property
    def spread(self) -> float:
        """How much longer the third fastest sample is than the fastest, as a share; infinite for fewer samples."""
        fastest = sorted(self.samples)[:_AGREEING]
        if len(fastest) < _AGREEING or fastest[0] <= 0:
            return math.inf
        return fastest[-1] / fastest[0] - 1.0

    @property
    def is_settled(self) -> bool:
        """Whether its fastest samples agree."""
        return self.spread <= self.tolerance


def sample_in_turns(
    probes: Sequence[Probe], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[str]:
    """Sample all probes until each has settled, but no longer than some seconds.

    Returns:
        a note for each probe that has not settled.
    """
    begin, rounds = clock(), 0
    while rounds < _LEAST_ROUNDS or not all(probe.is_settled for probe in probes):
        if rounds and clock() - begin > seconds:
            break
        for probe in probes:
            probe.take(clock)
        rounds += 1
    return [
        f"{probe.name}: the fastest samples differ by {probe.spread:.0%}, the machine was busy"
        for probe in probes
        if not probe.is_settled
    ]

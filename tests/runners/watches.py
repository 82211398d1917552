"""Watches of machines on which it is known what happens."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, count, repeat

from runners.disturbance import Counters, Watch


def quiet_watch() -> Watch:
    """Nothing ever happens."""
    return watch_of([])


def watch_of(waits: Iterable[float]) -> Watch:
    """A watch whose laps take a second, in which threads wait for these shares of it; afterwards for none.

    They begin after one :meth:`Watch.restart`.
    """
    clock, shares, waited = count(), chain([0.0, 0.0], waits, repeat(0.0)), 0.0

    def read() -> Counters:
        nonlocal waited
        waited += next(shares)
        return Counters(float(next(clock)), cores=2, own=0.0, waited=waited)

    return Watch(read)

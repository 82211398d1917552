"""Repeated timing of one candidate: groups of calls until enough of them were quiet, or until it has lost against the best one.

A candidate is measured for choosing the best: once it is certain that it is not, more of its time is worth little. How certain one can
be depends on what is known. A single call may have lost a time slice to another process, so that only a multiple of the best time is
judged by it; groups of calls leave an interval, and a candidate is given up when that lies above the interval of the best one. (Racing:
Maron and Moore, "Hoeffding Races", NIPS 1993.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ir.time_interval import TimeInterval

from .disturbance import QUIET_WAITING, Disturbance, Repeats, Watch, waited_seconds
from .evaluator import PREEMPTED_SECS, EvaluatorConfig, calls_per_group, group_timer

_SHORT_MS, _SHORTER = 1, 20
"""Groups on a disturbed machine, in milliseconds: shorter than the slices in which systems share out a processor, so that some lie between
two of them; and how many of them about a group is cut into."""
_ENOUGH = 3
"""Groups without a disturbance that are enough on a machine that is disturbed."""


@dataclass(frozen=True, slots=True)
class Race:
    """Whom a candidate is measured against.

    Attributes:
        best: the interval of the best time so far; None for the first candidate, which cannot lose.
        cut_ratio: multiple of the best time that one call must take to be judged by it; infinite for candidates that are all to be
            measured in full.
    """

    best: TimeInterval | None
    cut_ratio: float

    def far_behind(self, secs: float, slack: float = PREEMPTED_SECS, factor: float = 1.0) -> bool:
        """Whether one call is enough to give a candidate up.

        Args:
            secs: what it took.
            slack: seconds that it may have lost.
            factor: by which ``cut_ratio`` is multiplied.
        """
        return self.best is not None and secs > factor * self.cut_ratio * self.best.middle + slack

    def is_lost(self, times: Sequence[float]) -> bool:
        """Whether groups of calls, seconds per call each, are enough to give a candidate up."""
        if self.best is None or not times or math.isinf(self.cut_ratio):
            return False
        return TimeInterval.of(times).low > self.best.high


class CallTimer:
    """Times a call in groups: whole ones on a quiet machine, and on a disturbed one what runs between two disturbances.

    Args:
        call: has run before, so that nothing is timed for the first time.
        config: how long a group is.
        one_call_secs: what a call takes.
        waited: seconds that the threads of this process have waited for a processor so far; None where that is not known.
    """

    def __init__(
        self,
        call: Callable[[], object],
        config: EvaluatorConfig,
        one_call_secs: float,
        waited: Callable[[], float | None] = waited_seconds,
    ) -> None:
        self._group = group_timer(call, config, one_call_secs)
        short = replace(config, number=1, repeat=config.repeat * _SHORTER, min_repeat_ms=_SHORT_MS)
        self._short = group_timer(call, short, one_call_secs)
        self._seconds = one_call_secs * calls_per_group(config, one_call_secs)
        self._waited = waited

    def group(self) -> float:
        """Seconds per call of one group."""
        return self._group()

    def picked(self) -> tuple[float, bool]:
        """Seconds per call of what nothing interrupted in the time of one group, and whether there was any.

        The time is cut into groups of a millisecond, and those count in which no thread waited for a processor: their median. Where that
        is the lesser part of them, their lower quartile: while a thread waits the others may do its part, which takes them longer and shows
        in its account only later.
        """
        clock, begin = time.perf_counter, time.perf_counter()
        everything: list[float] = []
        quiet: list[float] = []
        before, start = self._waited(), begin
        while not everything or start - begin < self._seconds:
            everything.append(self._short())
            now, end = self._waited(), clock()
            if before is not None and now is not None and now - before <= QUIET_WAITING * (end - start):
                quiet.append(everything[-1])
            before, start = now, end
        chosen = sorted(quiet or everything)
        place = len(chosen) // 2 if 2 * len(quiet) >= len(everything) else len(chosen) // 4
        return chosen[place], bool(quiet)


@dataclass(frozen=True, slots=True)
class Sample:
    """What repeats came to.

    Attributes:
        times: seconds per call of the groups that count.
        lost: the share of the machine that others took in the most disturbed of them, 0 when nothing is known to have spoiled one.
    """

    times: tuple[float, ...]
    lost: float = 0.0


@dataclass(frozen=True, slots=True)
class Group:
    """One group that was timed: seconds per call, what happened on the machine, and how many times what counts as quiet that is."""

    secs: float
    disturbance: Disturbance
    level: float


def take_group(timer: CallTimer, watch: Watch, picking: bool) -> Group:
    """Time one group; only what nothing interrupted where the machine is known to be disturbed (``picking``).

    ``watch`` has had its last lap or restart just before.
    """
    secs, clean = timer.picked() if picking else (timer.group(), False)
    disturbance = watch.lap()
    return Group(secs, disturbance, min(1.0, disturbance.level) if clean else disturbance.level)


def sample(timer: CallTimer, repeat: int, race: Race, watch: Watch) -> Sample:
    """Time groups of calls until ``repeat`` of them were quiet, or the race is lost.

    On a machine that is disturbed three are enough, and after twice as many as were asked for the quietest have to do.

    Args:
        timer: times the calls.
        repeat: groups that count.
        race: decides by the quiet ones.
        watch: tells how quiet each was.
    """
    groups: Repeats[Group] = Repeats(repeat)
    picking = False
    watch.restart()
    while not groups.complete:
        group = take_group(timer, watch, picking)
        groups.add(group, group.level)
        picking = picking or group.level > 1.0
        quiet = groups.quiet()
        secs = tuple(item.secs for item in quiet)
        if race.is_lost(secs) or (picking and len(quiet) >= min(_ENOUGH, repeat)):
            return Sample(secs)
    kept = groups.kept()
    lost = [item.disturbance.lost for item in kept if item.level > 1.0]
    return Sample(tuple(item.secs for item in kept), max(lost, default=0.0))

"""What else a machine did while something was timed on it: other processes, a hypervisor, a slower clock; and taking it again.

Everything is read without privileges, also in containers, and what a system does not tell is left out: the processors' and the
threads' accounts of Linux (``/proc/stat``, ``/proc/self/task/*/schedstat``), the resource usage of POSIX systems, the clock of the
cores where it is shown and a loop of known length where it is not. Only the standard library is needed, so that the processes of
peers in benchmarks are watched by the same code.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

T = TypeVar("T")

QUIET_SHARE = 0.10
"""Share of the processors that others may use while it still counts as quiet."""
QUIET_WAITING = 0.02
"""Share of the time that threads may wait for a processor that somebody else has."""
_QUIET_STOLEN = 0.02
"""Share of the processors that a hypervisor may give to other machines."""
_QUIET_SLOWDOWN = 1.15
"""How many times longer than usual the clock may take for a cycle: less than the steps of turbo frequencies is no disturbance."""
_SLICE_SECONDS = 3e-3
"""What a thread loses when another takes its processor, where the system counts only how often (Linux's smallest time slice)."""
_REMEMBERED = 64
"""Looks at the clock by which it is known what is usual."""
_SPIN_COUNT, _SPINS = 1000, 3


@dataclass(frozen=True, slots=True)
class Counters:
    """What was counted up to some moment, in seconds; None for what this system does not tell."""

    clock: float
    cores: int
    """Processors that the others' counters are about."""
    own: float
    """Processor time of this process."""
    busy: float | None = None
    """Processor time of everything, on the processors that this process may use."""
    stolen: float | None = None
    """What a hypervisor gave to other machines meanwhile."""
    tick: float = 0.0
    """What ``busy`` and ``stolen`` are counted in."""
    waited: float | None = None
    """Time that this process's threads waited for a processor."""
    slowdown: float = 1.0
    """How many times the usual a cycle of the clock takes now."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What happened between two moments; all zero where nothing is known.

    Attributes:
        others: share of the processors that other processes used.
        stolen: share of them that a hypervisor gave to others.
        waited: share of the time that this process's threads waited for a processor.
        slowdown: how many times the usual a cycle of the clock took.
    """

    others: float = 0.0
    stolen: float = 0.0
    waited: float = 0.0
    slowdown: float = 1.0

    @staticmethod
    def between(before: Counters, after: Counters) -> Disturbance:
        """What the differences of counters tell.

        The system attributes a whole tick of its clock to whoever runs when it ends, on each processor. What that may come to by
        chance, which grows with the root of their number, counts as nobody's: short times show strong disturbances only.
        """
        elapsed = after.clock - before.clock
        if elapsed <= 0:
            return Disturbance()
        capacity, chance = elapsed * after.cores, after.tick * math.sqrt(after.cores)
        used, stolen, waited = (
            None if old is None or new is None else new - old
            for old, new in (
                (before.busy, after.busy),
                (before.stolen, after.stolen),
                (before.waited, after.waited),
            )
        )
        others = 0.0 if used is None else used - (after.own - before.own) - chance
        return Disturbance(
            _share(others, capacity),
            _share((stolen or 0.0) - chance, capacity),
            _share(waited or 0.0, elapsed),
            after.slowdown,
        )

    @property
    def level(self) -> float:
        """How many times what counts as quiet: above 1 it should be taken again."""
        return max(
            self.others / QUIET_SHARE,
            self.stolen / _QUIET_STOLEN,
            self.waited / QUIET_WAITING,
            (self.slowdown - 1.0) / (_QUIET_SLOWDOWN - 1.0),
        )

    @property
    def lost(self) -> float:
        """Share of the machine or of the time that was lost, by the source that tells most."""
        return max(self.others, self.stolen, self.waited, 1.0 - 1.0 / max(self.slowdown, 1.0))


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole))


class Watch:
    """Tells what happened since it was asked the last time.

    Args:
        read: the counters of this moment; those of this system by default.
    """

    def __init__(self, read: Callable[[], Counters] | None = None) -> None:
        self._read = read or system_counters
        self._before = self._read()

    def restart(self) -> None:
        """Forget what has happened so far."""
        self._before = self._read()

    def lap(self) -> Disturbance:
        """What has happened since the last lap."""
        before, self._before = self._before, self._read()
        return Disturbance.between(before, self._before)


class Repeats(Generic[T]):
    """Rounds of a measurement until so many were quiet, twice as many at most; of those the quietest count.

    >>> rounds = Repeats(2)
    >>> for secs, level in [(1.0, 0.2), (1.7, 5.0), (1.1, 0.0), (1.2, 0.0)]:
    ...     if not rounds.complete:
    ...         rounds.add(secs, level)
    >>> rounds.kept()
    [1.0, 1.1]
    """

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self._found: list[tuple[float, T]] = []

    def add(self, item: T, level: float) -> None:
        """One round, and how many times what counts as quiet (1) it was disturbed."""
        self._found.append((level, item))

    def __len__(self) -> int:
        return len(self._found)

    @property
    def complete(self) -> bool:
        """Whether no more rounds are wanted."""
        return len(self._found) >= 2 * self.wanted or len(self.quiet()) >= self.wanted

    def quiet(self) -> list[T]:
        """The rounds so far that nothing disturbed."""
        return [item for level, item in self._found if level <= 1.0]

    def kept(self) -> list[T]:
        """The quietest rounds, as many as were wanted, in the order in which they were taken."""
        ranked = sorted(range(len(self._found)), key=lambda place: max(1.0, self._found[place][0]))
        return [self._found[place][1] for place in sorted(ranked[: self.wanted])]


# ---- where the counters come from ------------------------------------------------------------------------------------


def system_counters(proc: Path = Path("/proc"), sysfs: Path = Path("/sys/devices/system/cpu")) -> Counters:
    """The counters of this moment; the folders are where Linux shows them."""
    cores = _own_cores()
    busy = stolen = None
    tick = 0.0
    account = _processors(_text(f"{proc}/stat"), cores)
    if account is not None and hasattr(os, "sysconf"):
        tick = 1.0 / os.sysconf("SC_CLK_TCK")
        busy, stolen = (tick * item for item in account)
    slowdown = _PACE.slowdown(_hertz(sysfs, cores) or _spin_hertz())
    return Counters(
        time.perf_counter(),
        len(cores),
        time.process_time(),
        busy,
        stolen,
        tick,
        waited_seconds(proc),
        slowdown,
    )


def _own_cores() -> frozenset[int]:
    try:
        return frozenset(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return frozenset(range(os.cpu_count() or 1))


def _text(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _processors(stat: str, cores: frozenset[int]) -> tuple[int, int] | None:
    """(busy, stolen) ticks of some processors, by the text of ``/proc/stat``; None where it does not tell, or of some of them only.

    >>> _processors("cpu  9 9 9 9 9 9 9 9 0 0\\ncpu0 10 1 5 80 4 0 1 2 0 0\\ncpu1 9 9 9 9 9 9 9 9 0 0\\n", frozenset({0}))
    (17, 2)
    """
    busy = stolen = found = 0
    for line in stat.splitlines():
        name, *fields = line.split() or [""]
        number = name.removeprefix("cpu")
        if not name.startswith("cpu") or not number.isdecimal() or int(number) not in cores:
            continue
        if len(fields) < 7 or not all(item.isdecimal() for item in fields):
            continue
        user, nice, system, _idle, _waiting, interrupts, soft, *rest = (int(item) for item in fields)
        busy += user + nice + system + interrupts + soft
        stolen += rest[0] if rest else 0
        found += 1
    return (busy, stolen) if found == len(cores) else None


def waited_seconds(proc: Path = Path("/proc")) -> float | None:
    """Seconds that the threads of this process have waited for a processor so far; None where the system does not tell.

    A thread's wait is counted when it ends.
    """
    tasks = f"{proc}/self/task"
    try:
        delays = [_text(f"{tasks}/{thread}/schedstat").split() for thread in os.listdir(tasks)]
    except OSError:
        delays = []
    known = [int(fields[1]) for fields in delays if len(fields) == 3 and fields[1].isdecimal()]
    if known:
        return sum(known) * 1e-9
    if resource is not None:
        return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw * _SLICE_SECONDS
    return None


def _hertz(sysfs: Path, cores: Iterable[int]) -> float | None:
    """The clock of the fastest of some cores: idle ones are slower, and do not matter."""
    texts = [_text(f"{sysfs}/cpu{number}/cpufreq/scaling_cur_freq").strip() for number in cores]
    known = [float(text) * 1e3 for text in texts if text.isdecimal()]
    return max(known, default=None)


def _spin_hertz() -> float:
    """Steps per second of a loop that is always the same: a stand-in for the clock where the system does not show it."""
    fastest = math.inf
    for _ in range(_SPINS):
        begin = time.perf_counter()
        for _ in range(_SPIN_COUNT):
            pass
        fastest = min(fastest, time.perf_counter() - begin)
    return _SPIN_COUNT / max(fastest, 1e-9)


class Pace:
    """What clock is usual, by the last times that it was looked at: one that stays lower becomes the usual one."""

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=_REMEMBERED)

    def slowdown(self, hertz: float) -> float:
        """How many times the usual a cycle takes at this clock."""
        self._seen.append(hertz)
        return statistics.median(self._seen) / hertz


_PACE = Pace()

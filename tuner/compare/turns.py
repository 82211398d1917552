"""Contestants take turns in one process, round by round: what else the machine does meets all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_ROUND_SECONDS = 0.15
_SLOW_SECONDS = 1.0
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class Contestant:
    """Something that runs the model once per call."""

    name: str
    call: Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """Seconds per call over the rounds."""

    median: float
    minimum: float


def take_turns(
    entries: Sequence[Contestant], rounds: int = 9, first_calls: Mapping[str, float] | None = None
) -> dict[str, Timing]:
    """Time contestants in turn, round by round; each round's figure is the mean of as many calls as fit in it.

    A contestant whose call takes more than a second (plain loops of a large model) is called once: here, or before, where
    ``first_calls`` has the seconds of a call that was made already.
    """
    counts: dict[str, int] = {}
    times: dict[str, list[float]] = {entry.name: [] for entry in entries}
    for entry in entries:
        first = (first_calls or {}).get(entry.name) or _seconds(entry.call)
        if first >= _SLOW_SECONDS:
            times[entry.name].append(first)
        else:
            counts[entry.name] = max(1, int(_ROUND_SECONDS / max(_seconds(entry.call), 1e-7)))
    for _round in range(rounds):
        for entry in entries:
            if entry.name not in counts:
                continue
            # The threads of whoever ran before spin for a while; they must not take this one's cores.
            time.sleep(_PAUSE_SECONDS)
            entry.call()
            begin = time.perf_counter()
            for _call in range(counts[entry.name]):
                entry.call()
            times[entry.name].append((time.perf_counter() - begin) / counts[entry.name])
    return {name: Timing(statistics.median(values), min(values)) for name, values in times.items()}


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin

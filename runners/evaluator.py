"""How a kernel is timed: how often it is called, how calls are grouped, what the caches hold before, what one that is behind is spared."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .error import RunnerError

_FLUSH_BYTES = 64 << 20
_COLD_SECS = 2e-3
"""What first calls may lose: pages touched for the first time, threads asleep, vector units powered down (which run at a
quarter of their speed for most of a millisecond)."""
_PREEMPTED_SECS = 2e-2
"""What a single call may lose to other processes besides. It is judged by itself only beyond this."""


@dataclass(frozen=True, slots=True)
class EvaluatorConfig:
    """MetaSchedule's timing settings.

    Raises:
        RunnerError: a count is below one, or the duration below zero.
    """

    number: int = 3
    """Calls that are timed together, at least."""
    repeat: int = 1
    """Groups of calls; each gives one value of ``run_secs``."""
    min_repeat_ms: int = 100
    """A group is made longer until it takes about this many milliseconds."""
    enable_cpu_cache_flush: bool = False
    """Empty the caches before every call, and time each call by itself."""

    def __post_init__(self) -> None:
        if self.number < 1 or self.repeat < 1 or self.min_repeat_ms < 0:
            raise RunnerError(
                f"expected number, repeat >= 1, min_repeat_ms >= 0, got {self.number=}, {self.repeat=}, {self.min_repeat_ms=}"
            )

    @staticmethod
    def _normalized(config: EvaluatorConfig | None) -> EvaluatorConfig:
        return config or EvaluatorConfig()


class CacheFlusher:
    """Writes over more memory than the last-level cache holds."""

    def __init__(self, size: int = _FLUSH_BYTES) -> None:
        self._memory = np.zeros(size // 8, np.int64)

    def __call__(self) -> None:
        self._memory += 1


def calls_per_group(config: EvaluatorConfig, one_call_secs: float) -> int:
    """How many calls one group has, given what a call takes.

    >>> calls_per_group(EvaluatorConfig(number=3, min_repeat_ms=100), 0.01)
    10
    """
    wanted = config.min_repeat_ms * 1e-3 / max(one_call_secs, 1e-9)
    return max(config.number, min(math.ceil(wanted), 10_000_000))


def timed(call: Callable[[], object], config: EvaluatorConfig, one_call_secs: float) -> list[float]:
    """Seconds per call for each group; ``call`` has run before, so that nothing is timed for the first time."""
    clock = time.perf_counter
    number = calls_per_group(config, one_call_secs)
    if config.enable_cpu_cache_flush:
        return _timed_with_flush(call, config, number)
    group_timer = getattr(call, "time_calls", None)
    if group_timer is not None:
        return [group_timer(number) / number for _ in range(config.repeat)]
    found: list[float] = []
    for _ in range(config.repeat):
        begin = clock()
        for _ in range(number):
            call()
        found.append((clock() - begin) / number)
    return found


def _timed_with_flush(call: Callable[[], object], config: EvaluatorConfig, number: int) -> list[float]:
    flush, clock = CacheFlusher(), time.perf_counter
    # Flushing takes some milliseconds by itself; more calls than this would time the flush, not the kernel.
    number = max(config.number, min(number, 20))
    found: list[float] = []
    for _ in range(config.repeat):
        total = 0.0
        for _ in range(number):
            flush()
            begin = clock()
            call()
            total += clock() - begin
        found.append(total / number)
    return found


def warm_call(call: Callable[[], object]) -> float:
    """The fastest of as many calls as it takes until the machine is in the state that timing is about."""
    begin, calls, fastest = time.perf_counter(), 0, math.inf
    while True:
        start = time.perf_counter()
        call()
        end = time.perf_counter()
        calls, fastest = calls + 1, min(fastest, end - start)
        if end - begin > (_COLD_SECS if calls >= 3 else _PREEMPTED_SECS):
            return fastest


def effort(config: EvaluatorConfig, secs: float, best_secs: float | None) -> EvaluatorConfig:
    """Shorter groups for a candidate that is behind: its time teaches the cost model, and is never chosen."""
    if best_secs is None or secs <= best_secs:
        return config
    return replace(config, min_repeat_ms=math.ceil(config.min_repeat_ms * (best_secs / secs) ** 4))


def far_behind(
    secs: float, best_secs: float | None, cut_ratio: float, slack: float = _PREEMPTED_SECS
) -> bool:
    return best_secs is not None and secs > cut_ratio * best_secs + slack


def first_call_limit(baseline: float | None, best_secs: float | None, timeout_sec: float) -> float:
    """Seconds after which a first call is killed: a candidate much slower than the unscheduled program is hopeless.

    >>> first_call_limit(0.5, None, 30.0)
    10.0
    >>> first_call_limit(0.5, 0.001, 30.0)
    2.0
    """
    limit = timeout_sec
    if baseline is not None:
        limit = min(limit, max(2.0, 20 * baseline))
    if best_secs is not None:
        limit = min(limit, max(2.0, 200 * best_secs))
    return limit

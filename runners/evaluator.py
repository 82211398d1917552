"""How a kernel is timed: how often it is called, how calls are grouped, and what the caches hold before."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .error import RunnerError

_FLUSH_BYTES = 64 << 20


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

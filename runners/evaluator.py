"""How a kernel is timed: how often it is called, how calls are grouped, what the caches hold before."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ir.target.host import last_level_cache_bytes

from .error import RunnerError
from .settings import check_whole

_FLUSHED_CALLS = 20
"""Calls of all groups together with the caches emptied before each, unless more are asked for."""
_COLD_SECS = 2e-3
"""What first calls may lose: pages touched for the first time, threads asleep, vector units powered down (which run at a
quarter of their speed for most of a millisecond)."""
PREEMPTED_SECS = 2e-2
"""What a single call may lose to other processes besides. It is judged by itself only beyond this."""


@dataclass(frozen=True, slots=True)
class EvaluatorConfig:
    """How often a candidate is called: MetaSchedule's settings, and which of its data the caches hold.

    By default a candidate is timed for a tenth of a second, in five groups of calls, whose median counts.

    Raises:
        RunnerError: a setting is of another type, a count is below one, or the duration below zero.
    """

    number: int = 1
    """Calls that are timed together, at least."""
    repeat: int = 5
    """Groups of calls; each gives one value of ``run_secs``. Disturbed ones are taken again, as many once more at most."""
    min_repeat_ms: int = 20
    """A group is made longer until it takes about this many milliseconds."""
    enable_cpu_cache_flush: bool = False
    """Empty the caches before every call, and time each call by itself; of a CUDA device, the level-2 cache."""
    weight_distance: int | None = None
    """Bytes of weights that are read between two uses of a kernel's own, as in a model of so many; see :mod:`runners.cold_weights`. None
    for those of the model that is tuned, and 0 where none is."""

    def __post_init__(self) -> None:
        distance = 0 if self.weight_distance is None else self.weight_distance
        for name, value, least in (
            ("number", self.number, 1),
            ("repeat", self.repeat, 1),
            ("min_repeat_ms", self.min_repeat_ms, 0),
            ("weight_distance", distance, 0),
        ):
            check_whole(f"EvaluatorConfig: {name}", value, least)
        if not isinstance(self.enable_cpu_cache_flush, bool):
            raise RunnerError(
                f"EvaluatorConfig: enable_cpu_cache_flush is True or False, got {self.enable_cpu_cache_flush!r}"
            )

    @staticmethod
    def _normalized(config: EvaluatorConfig | None) -> EvaluatorConfig:
        if config is not None and not isinstance(config, EvaluatorConfig):
            raise RunnerError(
                f"evaluator_config is an EvaluatorConfig, such as EvaluatorConfig(repeat=3), got {config!r}"
            )
        return config or EvaluatorConfig()


class CacheFlusher:
    """Writes over twice as much memory as the last-level caches of this machine hold."""

    def __init__(self, size: int | None = None) -> None:
        """``size`` in bytes takes the place of that."""
        self._memory = np.zeros((2 * last_level_cache_bytes() if size is None else size) // 8, np.int64)

    def __call__(self) -> None:
        self._memory += 1


def calls_per_group(config: EvaluatorConfig, one_call_secs: float) -> int:
    """How many calls one group has, given what a call takes.

    >>> calls_per_group(EvaluatorConfig(number=3, min_repeat_ms=100), 0.01)
    10
    """
    wanted = config.min_repeat_ms * 1e-3 / max(one_call_secs, 1e-9)
    return max(config.number, min(math.ceil(wanted), 10_000_000))


def group_timer(
    call: Callable[[], object], config: EvaluatorConfig, one_call_secs: float
) -> Callable[[], float]:
    """A function that times a group of calls and gives the seconds of one.

    Args:
        call: has run before, so that nothing is timed for the first time.
        config: how long a group is, and whether the caches are emptied before each call.
        one_call_secs: what a call takes.
    """
    number = calls_per_group(config, one_call_secs)
    if config.enable_cpu_cache_flush:
        return _group_with_flush(call, config, number)
    group_timer = getattr(call, "time_calls", None)
    if group_timer is not None:
        return lambda: group_timer(number) / number
    clock = time.perf_counter

    def group() -> float:
        begin = clock()
        for _ in range(number):
            call()
        return (clock() - begin) / number

    return group


@lru_cache(maxsize=1)
def _flusher() -> CacheFlusher:
    """One for this process: it takes much memory."""
    return CacheFlusher()


def _group_with_flush(
    call: Callable[[], object], config: EvaluatorConfig, number: int
) -> Callable[[], float]:
    # Flushing takes some milliseconds by itself; more calls than this would time the flush, not the kernel.
    number = max(config.number, min(number, _FLUSHED_CALLS // config.repeat))
    flushed_timer = getattr(call, "time_flushed_calls", None)
    if flushed_timer is not None:
        return lambda: flushed_timer(number) / number
    flush, clock = _flusher(), time.perf_counter

    def group() -> float:
        total = 0.0
        for _ in range(number):
            flush()
            begin = clock()
            call()
            total += clock() - begin
        return total / number

    return group


def warm_call(call: Callable[[], object]) -> float:
    """The fastest of as many calls as it takes until the machine is in the state that timing is about."""
    begin, calls, fastest = time.perf_counter(), 0, math.inf
    timer = getattr(call, "time_calls", None)
    while True:
        start = time.perf_counter()
        if timer is None:
            call()
        secs = time.perf_counter() - start if timer is None else float(timer(1))
        calls, fastest = calls + 1, min(fastest, secs)
        if time.perf_counter() - begin > (_COLD_SECS if calls >= 3 else PREEMPTED_SECS):
            return fastest


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

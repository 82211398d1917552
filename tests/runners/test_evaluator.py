"""How often a kernel is called, and what the times mean."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ir.target import host
from runners import EvaluatorConfig, RunnerError, evaluator
from runners.evaluator import CacheFlusher, calls_per_group, first_call_limit, group_timer, warm_call


def test_groups_are_long_enough() -> None:
    config = EvaluatorConfig(number=3, repeat=2, min_repeat_ms=10)
    assert calls_per_group(config, 1e-3) == 10
    assert calls_per_group(config, 1.0) == 3
    assert calls_per_group(config, 0.0) <= 10_000_000


def test_times_are_per_call() -> None:
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        time.sleep(0.002)

    secs = group_timer(call, EvaluatorConfig(number=4, min_repeat_ms=0), 0.002)()
    assert len(calls) == 4
    assert 0.002 <= secs < 0.1


def test_flushing_times_each_call_alone() -> None:
    calls: list[int] = []
    config = EvaluatorConfig(number=2, repeat=4, min_repeat_ms=1000, enable_cpu_cache_flush=True)
    secs = group_timer(lambda: calls.append(1), config, 1e-9)()
    assert len(calls) == 5, "twenty calls in all groups together"
    assert secs < 1e-3  # the flush itself takes several milliseconds and is not counted


@pytest.mark.parametrize("distance", [-1, 1.5, True, "5", float("nan")])
def test_distances_are_whole_numbers(distance: Any) -> None:
    with pytest.raises(RunnerError, match="weight_distance"):
        EvaluatorConfig(weight_distance=distance)


def test_caches_are_flushed_before_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Recorder(CacheFlusher):
        def __call__(self) -> None:
            events.append("flush")

    monkeypatch.setattr(evaluator, "_flusher", lambda: Recorder(8))
    config = EvaluatorConfig(number=2, repeat=3, min_repeat_ms=0, enable_cpu_cache_flush=True)
    group_timer(lambda: events.append("call"), config, 1.0)()
    assert events == ["flush", "call"] * 2


def test_a_flush_writes_all_of_its_memory() -> None:
    flush = CacheFlusher(800)
    for _ in range(3):
        flush()
    assert flush._memory.nbytes == 800 and (flush._memory == 3).all()


def test_a_flush_is_larger_than_all_last_level_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sysfs describes one cache and who shares it; a processor of several dies has several."""
    cache = tmp_path / "index3"
    cache.mkdir()
    facts = {"type": "Unified", "level": "3", "size": "96M", "shared_cpu_list": "0-7"}
    for name, text in facts.items():
        (cache / name).write_text(f"{text}\n")
    monkeypatch.setattr(host, "_SYSFS_CACHE", tmp_path)
    monkeypatch.setattr(host, "available_cores", lambda: 20)
    host.last_level_cache_bytes.cache_clear()
    assert host.last_level_cache_bytes() == 3 * (96 << 20)
    asked: list[int] = []
    monkeypatch.setattr(evaluator.np, "zeros", lambda size, dtype: asked.append(8 * size))
    CacheFlusher()
    assert asked == [6 * (96 << 20)]
    host.last_level_cache_bytes.cache_clear()


def test_a_native_timer_is_preferred() -> None:
    class Kernel:
        def __call__(self) -> None:
            raise AssertionError("the loop around the calls belongs into native code")

        def time_calls(self, number: int) -> float:
            return number * 1e-6

    assert group_timer(Kernel(), EvaluatorConfig(number=5, min_repeat_ms=0), 1e-6)() == pytest.approx(1e-6)


@pytest.mark.parametrize("bad", [{"number": 0}, {"repeat": 0}, {"min_repeat_ms": -1}])
def test_nonsense_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(RunnerError, match=f"{next(iter(bad))} is a whole number of at least"):
        EvaluatorConfig(**bad)


def test_limits_follow_what_is_known() -> None:
    assert first_call_limit(None, None, 30.0) == 30.0
    assert first_call_limit(1.0, None, 30.0) == 20.0
    assert first_call_limit(1.0, 1e-3, 30.0) == 2.0
    assert first_call_limit(1.0, 1e-3, 1.0) == 1.0


def test_warm_calls_end_when_what_first_calls_lose_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = 0.0, 0

    def call() -> None:
        nonlocal now, calls
        calls += 1
        now += 0.003

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    assert warm_call(call) == pytest.approx(0.003) and calls == 3

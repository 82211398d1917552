"""What a machine did beside a measurement, by accounts of which the texts and numbers are made up."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from runners import disturbance
from runners.disturbance import (
    QUIET_SHARE,
    Counters,
    Disturbance,
    Pace,
    Repeats,
    Watch,
    system_counters,
    waited_seconds,
)

START = Counters(clock=100.0, cores=4, own=7.0, busy=50.0, stolen=1.0, tick=0.01, waited=0.5)


def after(**changes: float) -> Disturbance:
    """What a tenth of a second on four cores comes to, of which this process used all."""
    end = replace(START, clock=100.1, own=7.4, busy=50.4)
    return Disturbance.between(START, replace(end, **changes))


def test_what_this_process_uses_is_no_disturbance() -> None:
    assert after() == Disturbance()
    assert after().level == 0.0 and after().lost == 0.0


@pytest.mark.parametrize(
    ("changes", "field", "share"),
    [
        ({"busy": 50.4, "own": 7.18}, "others", (0.22 - 0.02) / 0.4),
        ({"stolen": 1.06}, "stolen", (0.06 - 0.02) / 0.4),
        ({"waited": 0.53}, "waited", 0.3),
        ({"slowdown": 1.25}, "slowdown", 1.25),
    ],
)
def test_each_source_tells_by_itself(changes: dict[str, float], field: str, share: float) -> None:
    found = after(**changes)
    assert getattr(found, field) == pytest.approx(share)
    assert found == replace(Disturbance(), **{field: getattr(found, field)})
    assert found.level > 1.0
    assert found.lost == pytest.approx(0.2 if field == "slowdown" else share)


def test_ticks_that_may_be_chance_are_nobodys() -> None:
    """Two ticks on four processors: whoever runs when a tick ends is charged with all of it."""
    assert after(busy=50.42, stolen=1.02).level == pytest.approx(0.0, abs=1e-9)


def test_short_of_the_limit_it_is_quiet() -> None:
    assert after(busy=50.4 + 0.02 + 0.4 * 0.9 * QUIET_SHARE).level == pytest.approx(0.9)


def test_what_a_system_does_not_tell_is_left_out() -> None:
    silent = Counters(clock=1.0, cores=2, own=0.0)
    assert Disturbance.between(silent, replace(silent, clock=2.0, own=1.0)) == Disturbance()
    assert Disturbance.between(START, replace(silent, clock=200.0)).others == 0.0
    assert Disturbance.between(START, START) == Disturbance(), "no time has passed"


def test_a_watch_tells_of_each_lap_alone() -> None:
    moments = iter([replace(START, clock=100.0 + lap, waited=0.5 * (lap > 1)) for lap in range(5)])
    watch = Watch(lambda: replace(next(moments), busy=None, stolen=None))
    watch.restart()
    assert [watch.lap().waited for _ in range(3)] == [0.5, 0.0, 0.0]


# ---- the system's accounts -------------------------------------------------------------------------------------------


def _linux(folder: Path, stat: str, waits: dict[str, str]) -> Path:
    (folder / "stat").write_text(stat)
    for thread, text in waits.items():
        task = folder / "self" / "task" / thread
        task.mkdir(parents=True)
        (task / "schedstat").write_text(text)
    return folder


def test_accounts_of_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = (
        "cpu  900 900 900 900 900 900 900 900 0 0\n"
        "cpu0 100 10 50 800 40 1 2 30 5 5\n"
        "cpu1 900 900 900 900 900 900 900 900 0 0\n"
        "cpu2 200 0 0 0 0 0 0 0 0 0\n"
        "intr 1 2 3\n"
    )
    proc = _linux(tmp_path, stat, {"1": "5000 250000000 3\n", "2": "5000 500000000 3\n"})
    frequency = tmp_path / "cpu2" / "cpufreq"
    frequency.mkdir(parents=True)
    (frequency / "scaling_cur_freq").write_text("2000000\n")
    monkeypatch.setattr(disturbance, "_own_cores", lambda: frozenset({0, 2}))
    monkeypatch.setattr(disturbance, "_PACE", pace := Pace())
    found = system_counters(proc, tmp_path)
    tick = 1.0 / os.sysconf("SC_CLK_TCK")
    assert found.tick == tick and found.cores == 2
    assert found.busy == pytest.approx(tick * (100 + 10 + 50 + 1 + 2 + 200))
    assert found.stolen == pytest.approx(tick * 30)
    assert found.waited == pytest.approx(0.75)
    assert list(pace._seen) == [2e9]


def test_a_system_without_accounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disturbance, "resource", None)
    found = system_counters(tmp_path, tmp_path)
    assert found.busy is None and found.stolen is None and found.waited is None
    assert found.clock > 0 and found.slowdown > 0, "the clock is known by a loop of known length"


_ZERO = "cpu0 1 1 1 1 1 1 1 1 0 0\n"


@pytest.mark.parametrize(
    "stat",
    [
        "",
        "cpu  1 2 3\ncpu0 1 2 3\n",
        "nonsense\n\n",
        _ZERO + "cpu1 a b c d e f g\n",
        _ZERO + "cpu1 1 1 1 1.5 1 1 1 1\n",
        _ZERO + "cpu\u00b2 1 1 1 1 1 1 1 1\n",
        _ZERO + "cpu7 1 1 1 1 1 1 1 1\n",
    ],
    ids=["nothing", "short", "nonsense", "words", "fractions", "a digit that is no number", "one of two"],
)
def test_a_text_that_tells_nothing(stat: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a container shows other processors than this process has."""
    monkeypatch.setattr(disturbance, "_own_cores", lambda: frozenset({0, 1}))
    assert system_counters(_linux(tmp_path, stat, {"1": "1 ? 1\n"}), tmp_path).busy is None


def test_bytes_that_are_no_text_tell_nothing(tmp_path: Path) -> None:
    proc = _linux(tmp_path, "", {"1": "1 1 1\n"})
    (proc / "stat").write_bytes(b"cpu0 \xff\xfe\n")
    (proc / "self" / "task" / "1" / "schedstat").write_bytes(b"\xff")
    found = system_counters(proc, tmp_path)
    assert found.busy is None and found.stolen is None


def test_where_waiting_is_not_told_switches_stand_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        ru_nivcsw = 4

    monkeypatch.setattr(disturbance.resource, "getrusage", lambda who: Usage())
    assert waited_seconds(tmp_path) == pytest.approx(4 * disturbance._SLICE_SECONDS)


def test_a_clock_that_stays_lower_becomes_the_usual_one() -> None:
    pace = Pace()
    assert [pace.slowdown(4e9) for _ in range(40)] == [1.0] * 40
    assert pace.slowdown(2e9) == 2.0
    for _ in range(60):
        pace.slowdown(2e9)
    assert pace.slowdown(2e9) == 1.0 and pace.slowdown(4e9) == 0.5


# ---- taking it again -------------------------------------------------------------------------------------------------


def taken(levels: list[float], wanted: int) -> tuple[int, list[int]]:
    """How many rounds are taken, and which of them count."""
    rounds: Repeats[int] = Repeats(wanted)
    while not rounds.complete:
        rounds.add(len(rounds), levels[len(rounds)])
    return len(rounds), rounds.kept()


def test_a_quiet_machine_is_asked_once() -> None:
    assert taken([0.0, 1.0, 0.9], 3) == (3, [0, 1, 2])


def test_disturbed_rounds_are_taken_again() -> None:
    assert taken([0.0, 3.0, 0.2, 0.1], 3) == (4, [0, 2, 3])


def test_where_it_is_never_quiet_the_quietest_count_in_their_order() -> None:
    assert taken([9.0, 3.0, 8.0, 2.0, 0.0, 7.0], 3) == (6, [1, 3, 4])

"""Measuring the machine: a quick real calibration, where it is kept, who gets it, and what happens when it fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cost_models import Calibration
from database import JSONDatabase, MachineCalibration, MemoryDatabase, open_database
from ir.target import Target
from ir.target.host import host_info
from runners import Outcome, ReplayBuilder, ReplayRunner
from tests.programs.expressions import matmul
from tuner import MeasureCallback, TuneContext, TunerError, tune_tasks, tune_tir
from tuner.calibration import VERSION, calibrate, describes_host, known_calibration, machine_fingerprint
from tuner.calibration import known as known_module
from tuner.calibration.kernels import probe_module
from tuner.calibration.measure import WorkingSets, _Bench, measure_calibration
from tuner.calibration.sampling import Probe, sample_in_turns
from tuner.cli import calibrate as command
from tuner.cli import main as entry

FOUND = Calibration.checked({"hertz": 3e9, "l3_fill": 7.0, "l3_fill_all": 4.0, "fma_per_cycle": 2.0}, cores=2)


class FakePool:
    """A pool whose measurement takes no time."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)

    def submit(self, function: Callable[..., Any], *args: Any, **options: Any) -> Future[Outcome]:
        assert function is measure_calibration and options["apart"]
        future: Future[Outcome] = Future()
        future.set_result(self.outcomes.pop(0))
        return future


def pool_of(*found: Calibration) -> Any:
    return FakePool(*[Outcome("returned", value=item) for item in found])


@pytest.fixture(autouse=True)
def nothing_measured_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Calibration]]:
    measured: dict[str, Calibration] = {}
    monkeypatch.setattr(known_module, "_measured", measured)
    yield measured


class Listener(MeasureCallback):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def notice(self, text: str) -> None:
        self.heard.append(text)


# ---- measuring --------------------------------------------------------------------------------------------------


def test_a_quick_calibration_finds_figures_that_a_processor_can_have() -> None:
    found = measure_calibration(Target("cpu"), seconds=0.05)
    assert found.cores == Target("cpu").num_cores
    measured = {item.name: getattr(found, item.name) for item in found.figures()}
    # Other work on the machine may take single figures; those of one core survive it.
    for name in ("hertz", "fma_per_cycle", "fma_latency", "loads_per_cycle", "stores_per_cycle", "l1_fill"):
        assert measured[name] is not None and measured[name] > 0, (name, found.notes)
    for item in found.figures():
        value = measured[item.name]
        assert value is None or item.metadata["low"] <= value <= item.metadata["high"], item.name
    assert Calibration.from_json(found.as_json()) == found


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "znver5"])
def test_probes_are_programs_for_every_width(cpu: str) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    module = probe_module(target.vector_bits // 32, target.vector_registers, target.cache_line_bytes // 4)
    assert len(module.functions) == 9


def test_working_sets_lie_between_the_caches() -> None:
    target = Target(
        "llvm -mcpu=znver4 -num-cores=2 -l1-cache-bytes=32768 -l2-cache-bytes=1048576 -l3-cache-bytes=33554432"
    )
    sets = WorkingSets.of(target, 8 << 30)
    assert sets.l1 < 32768 < 2 * 32768 < sets.l2 < 1048576
    assert sets.l3 is not None and 2 * 1048576 < sets.l3 < 33554432 // 2
    assert sets.memory is not None and sets.memory >= 2 * 33554432


def test_what_does_not_fit_is_not_measured() -> None:
    other = (
        "znver4" if host_info().cpu != "znver4" else "znver3"
    )  # the host knows how many cores share its own
    many = Target(f"llvm -mcpu={other} -num-cores=64 -l2-cache-bytes=1048576 -l3-cache-bytes=33554432")
    assert WorkingSets.of(many, 8 << 30).l3 is None  # a core's part of L3 is smaller than its L2
    huge = Target("llvm -mcpu=znver4 -num-cores=2 -l3-cache-bytes=536870912")
    assert WorkingSets.of(huge, 64 << 30).memory is None
    assert WorkingSets.of(Target("llvm -mcpu=znver4 -num-cores=2"), 64 << 20).memory is None


class FakeClock:
    """Time that passes only where a call says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def probe_of(clock: FakeClock, name: str, durations: Callable[[int], float], **options: Any) -> Probe:
    count = iter(range(10**6))

    def call() -> None:
        clock.now += durations(next(count))

    return Probe(name, call, **options)


def test_disturbed_samples_do_not_count() -> None:
    clock = FakeClock()
    probe = probe_of(clock, "probe", lambda number: 1e-3 if number % 4 == 0 else 5e-3)
    assert sample_in_turns([probe], 1.0, clock) == []
    assert probe.seconds == pytest.approx(1e-3)


def test_a_probe_is_sampled_again_until_its_fastest_samples_agree() -> None:
    clock = FakeClock()
    steady = probe_of(clock, "steady", lambda number: 1e-3)
    late = probe_of(clock, "late", lambda number: 1e-3 if number >= 100 else 8e-3 * 0.98**number)
    assert sample_in_turns([steady, late], 10.0, clock) == []
    assert len(late.samples) > 100 and late.seconds == pytest.approx(1e-3)


def test_a_probe_that_never_settles_is_named_when_the_time_is_up() -> None:
    clock = FakeClock()
    wild = probe_of(clock, "wild", lambda number: 1e-3 * 0.9**number)
    (note,) = sample_in_turns([wild], 0.005, clock)
    assert note.startswith("wild: the fastest samples differ by") and clock.now < 0.1


# ---- who is described -------------------------------------------------------------------------------------------


def test_a_target_is_this_machine_or_another() -> None:
    host = Target("cpu")
    assert describes_host(host)
    assert describes_host(Target(f"llvm -mcpu={host.mcpu} -num-cores=1"))
    for other in (
        f"llvm -mcpu={host.mcpu} -num-cores={host.num_cores + 1}",
        "llvm -mcpu=pentium4",
        f"llvm -mcpu={host.mcpu} -mattr=-fma",
        "llvm -mtriple=aarch64-linux-gnu",
        "nvidia/nvidia-a100",
    ):
        assert not describes_host(Target(other)), other


# ---- keeping ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sql", "json", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """Opens one database again and again."""
    if request.param == "sql":
        return lambda: open_database(tmp_path / "t.db")
    if request.param == "json":
        return lambda: JSONDatabase(work_dir=tmp_path)
    store = MemoryDatabase()
    return lambda: store


def test_it_is_measured_once_and_read_afterwards(
    reopen: Callable[[], Any], nothing_measured_yet: dict[str, Calibration]
) -> None:
    told: list[str] = []
    assert calibrate(reopen(), pool_of(FOUND), tell=told.append) == FOUND
    assert told == [
        "measured this machine for the estimates: 3.00 GHz, 2.0 multiply-adds per cycle, memory 21 GB/s for a core, 24 GB/s for 2"
    ]
    nothing_measured_yet.clear()  # another process
    assert calibrate(reopen(), pool_of(), tell=told.append) == FOUND == known_calibration(reopen())
    assert len(told) == 1


def test_it_can_be_measured_again(reopen: Callable[[], Any]) -> None:
    newer = replace(FOUND, hertz=2e9)
    calibrate(reopen(), pool_of(FOUND), tell=print)
    assert calibrate(reopen(), pool_of(newer), again=True, tell=print) == newer == known_calibration(reopen())


def test_another_machine_and_another_version_are_not_this_one() -> None:
    store = MemoryDatabase()
    other = {**machine_fingerprint(), "cpu": "another"}
    store.commit_calibration(MachineCalibration(other, VERSION, FOUND.as_json()))
    store.commit_calibration(MachineCalibration(machine_fingerprint(), VERSION + 1, FOUND.as_json()))
    assert known_calibration(store) is None


def test_what_was_disturbed_serves_this_process_and_is_not_kept() -> None:
    disturbed = replace(FOUND, disturbed=True)
    store, told = MemoryDatabase(), list[str]()
    assert calibrate(store, pool_of(disturbed), tell=told.append) == disturbed
    assert calibrate(store, pool_of(), tell=told.append) == disturbed  # not measured again and again
    assert store.get_calibrations() == [] and "not kept" in told[0]


@pytest.mark.parametrize(
    "outcome, reason",
    [
        (Outcome("died", error="SIGILL", message="the process was ended by SIGILL"), "SIGILL"),
        (Outcome("raised", error="MemoryError", message="out of memory"), "out of memory"),
        (Outcome("timeout", message="no answer within the limit of 60 seconds"), "no answer"),
    ],
)
def test_without_a_measurement_figures_are_assumed(outcome: Outcome, reason: str) -> None:
    store, told = MemoryDatabase(), list[str]()
    assert calibrate(store, FakePool(outcome), tell=told.append) is None  # type: ignore[arg-type]
    assert reason in told[0] and "assumes" in told[0] and store.get_calibrations() == []


def test_figures_that_somebody_edited_are_measured_again() -> None:
    store = MemoryDatabase()
    store.commit_calibration(MachineCalibration(machine_fingerprint(), VERSION, {"figures": "none"}))
    assert known_calibration(store) is None
    assert calibrate(store, pool_of(FOUND), tell=print) == FOUND == known_calibration(store)


# ---- searching --------------------------------------------------------------------------------------------------


def contexts() -> list[TuneContext]:
    host = Target("cpu")
    fewer_features = Target(f"llvm -mcpu={host.mcpu} -num-cores=1 -mattr=-sse4a")
    return [TuneContext(matmul(16), host, seed=1), TuneContext(matmul(24), fewer_features, seed=1)]


def test_a_search_on_this_machine_estimates_by_its_figures() -> None:
    store, tasks, listener = MemoryDatabase(), contexts(), Listener()
    store.commit_calibration(MachineCalibration(machine_fingerprint(), VERSION, FOUND.as_json()))
    tune_tasks(tasks=tasks, database=store, max_trials_global=2, measure_callbacks=[listener])
    # The second task is for a processor with fewer features than this one.
    assert [task.calibration for task in tasks] == [FOUND, None]
    assert not any("machine" in text for text in listener.heard)  # which was not measured


def test_a_search_may_do_without() -> None:
    store, (task, _) = MemoryDatabase(), contexts()
    store.commit_calibration(MachineCalibration(machine_fingerprint(), VERSION, FOUND.as_json()))
    tune_tasks(tasks=[task], database=store, max_trials_global=1, calibrate="never", measure_callbacks=[])
    assert task.calibration is None


def test_what_a_task_has_already_is_left_alone() -> None:
    own = replace(FOUND, hertz=1e9)
    store = MemoryDatabase()
    store.commit_calibration(MachineCalibration(machine_fingerprint(), VERSION, FOUND.as_json()))
    task = TuneContext(matmul(16), "cpu", calibration=own)
    tune_tasks(tasks=[task], database=store, max_trials_global=1, measure_callbacks=[])
    assert task.calibration is own


def test_a_search_that_is_measured_elsewhere_gets_none() -> None:
    store, (task, _) = MemoryDatabase(), contexts()
    store.commit_calibration(MachineCalibration(machine_fingerprint(), VERSION, FOUND.as_json()))
    options: dict[str, Any] = {"builder": ReplayBuilder(), "runner": ReplayRunner({}, default=1e-3)}
    tune_tasks(tasks=[task], database=store, max_trials_global=2, measure_callbacks=[], **options)
    assert task.calibration is None
    with pytest.raises(TunerError, match="calibrate='again' measures this machine"):
        tune_tasks(tasks=[task], database=store, max_trials_global=4, calibrate="again", **options)


def test_a_word_that_says_nothing_is_refused() -> None:
    with pytest.raises(TunerError, match="calibrate is one of auto, never, again, got 'sometimes'"):
        tune_tir(matmul(16), "cpu", None, 1, calibrate="sometimes")


def test_the_model_learns_and_predicts_on_the_same_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """All features of a task go by its calibration, whoever asks for them."""
    task = TuneContext(matmul(64), "cpu", calibration=FOUND)
    plain = TuneContext(matmul(64), "cpu")
    (sketch, *_) = task.sketches()
    rows = sketch.sample(8, task.generator)
    assert (task.features(sketch, rows).prior_seconds() != plain.features(sketch, rows).prior_seconds()).all()


# ---- the command ------------------------------------------------------------------------------------------------


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run ``loopsmith calibrate``; its exit status."""
    monkeypatch.setattr(sys, "argv", ["loopsmith", "calibrate", *arguments])
    try:
        entry.main()
    except SystemExit as leaving:
        return int(str(leaving.code))
    return 0


def test_the_command_shows_what_a_database_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t.db")
    open_database(path).commit_calibration(
        MachineCalibration(machine_fingerprint(), VERSION, FOUND.as_json())
    )
    assert run_command(monkeypatch, "--database", path) == 0
    shown = capsys.readouterr().out
    assert "reading from memory, one core" in shown and "bytes/cycle" in shown
    assert "21.0 GB/s" in shown  # 7 bytes a cycle at 3 GHz
    assert "as" in shown and "knows it" in shown and "measured now" not in shown


def test_the_command_measures_and_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t.db")
    monkeypatch.setattr(command, "WorkerPool", lambda count: nullcontext(pool_of(FOUND)))
    assert run_command(monkeypatch, "--database", path) == 0
    assert "measured now, kept in" in capsys.readouterr().out
    assert known_calibration(open_database(path)) == FOUND


def test_the_command_without_a_database_says_what_would_keep_the_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is too short for any clock is no zero."""
    found = replace(FOUND, l2_run_start=0.0, l3_run_start=0.3)
    monkeypatch.setattr(command, "WorkerPool", lambda count: nullcontext(pool_of(found)))
    assert run_command(monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "measured now, kept nowhere: --database keeps them for searches" in shown
    rows = [line.split("│") for line in shown.splitlines() if "short stretch" in line]
    assert [(row[2].strip(), row[4].strip()) for row in rows] == [("< 1", "< 0.333 ns")] * 2


def test_what_is_missing_has_the_names_that_the_table_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Bench, "_had_all_cores", lambda self: False)
    found = measure_calibration(Target("cpu"), 0.1)
    missing = [item for item in Calibration.figures() if item.name.endswith("_all")]
    assert missing and all(getattr(found, item.name) is None for item in missing)
    (note,) = [item for item in found.notes if "no moment with all cores free" in item]
    assert all(item.metadata["meaning"] in note and item.name not in note for item in missing)


def test_the_command_says_why_nothing_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t.db")
    busy = replace(FOUND, disturbed=True, notes=("l3_fill: the machine was busy",))
    monkeypatch.setattr(command, "WorkerPool", lambda count: nullcontext(pool_of(busy)))
    assert run_command(monkeypatch, "--database", path) == 2
    heard = capsys.readouterr()
    assert "l3_fill: the machine was busy" in heard.out and "try again" in heard.err
    assert known_calibration(open_database(path)) is None
    died = FakePool(Outcome("died", error="SIGILL", message="the process was ended by SIGILL"))
    monkeypatch.setattr(command, "WorkerPool", lambda count: nullcontext(died))
    assert run_command(monkeypatch, "--database", path) == 2
    assert "SIGILL" in capsys.readouterr().err

"""RAPL counters as Linux shows them, read from folders that look so; no machine of ours is asked for its own."""

from __future__ import annotations

import errno
import math
from dataclasses import replace
from pathlib import Path

import pytest

from ir import IRModule
from runners import BuilderInput, EvaluatorConfig, LocalBuilder, LocalRunner, WorkerPool, candidate
from runners.candidate import RunSettings, _time
from runners.energy import EnergyMeter
from runners.error import RunnerError
from runners.kernel import Kernel
from schedules import Schedule
from tests.programs.expressions import matmul
from tests.runners.watches import quiet_watch


def _zone(folder: Path, zone: str, name: str, energy: int, size: int = 999_999) -> Path:
    place = folder / zone
    place.mkdir(parents=True)
    (place / "name").write_text(name + "\n")
    (place / "energy_uj").write_text(f"{energy}\n")
    (place / "max_energy_range_uj").write_text(f"{size}\n")
    return place / "energy_uj"


def test_packages_are_added_and_parts_are_not_counted_twice(tmp_path: Path) -> None:
    first = _zone(tmp_path, "intel-rapl:0", "package-0", 100)
    second = _zone(tmp_path, "intel-rapl:1", "package-1", 900_000)
    part = _zone(tmp_path, "intel-rapl:0:0", "core", 5)
    system = _zone(tmp_path, "intel-rapl:2", "psys", 7)
    meter = EnergyMeter(tmp_path)
    before = meter.read()
    for counter, energy in ((first, 250_100), (second, 950_000), (part, 200_000), (system, 800_000)):
        counter.write_text(str(energy))
    assert meter.joules_since(before) == pytest.approx(0.25 + 0.05)


def test_a_counter_that_began_again_is_understood(tmp_path: Path) -> None:
    counter = _zone(tmp_path, "intel-rapl:0", "package-0", 999_000)
    meter = EnergyMeter(tmp_path)
    before = meter.read()
    counter.write_text("4000")
    assert meter.joules_since(before) == pytest.approx(0.005)


def test_a_call_is_the_mean_of_many(tmp_path: Path) -> None:
    counter = _zone(tmp_path, "intel-rapl:0", "package-0", 0, size=10**12)
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        counter.write_text(str(2_000 * calls))

    assert EnergyMeter(tmp_path).of_one_call(call, 0.01) == pytest.approx(0.002)
    assert calls == 30


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="there is no .*/nowhere; this kernel shows no RAPL counters"):
        EnergyMeter(tmp_path / "nowhere")
    _zone(tmp_path, "intel-rapl:0:0", "core", 5)
    with pytest.raises(RunnerError, match="has no counter of a processor package"):
        EnergyMeter(tmp_path)
    counter = _zone(tmp_path, "intel-rapl:0", "package-0", 5)
    counter.write_text("much")
    with pytest.raises(RunnerError, match="gives no number"):
        EnergyMeter(tmp_path)


def test_counters_of_root_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = _zone(tmp_path, "intel-rapl:0", "package-0", 5)
    read_text = Path.read_text

    def refuse(path: Path) -> str:
        if path == counter:  # root, as whom tests may run, may read everything
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read_text(path)

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(RunnerError, match="energy_uj may be read by root only; .*chmod a\\+r"):
        EnergyMeter(tmp_path)


def test_the_runner_refuses_what_the_machine_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EnergyMeter.__init__, "__defaults__", (tmp_path / "nowhere",))
    with pytest.raises(RunnerError, match="energy cannot be measured"):
        LocalRunner(measure_energy=True)


def test_a_measurement_tells_joules_where_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = _zone(tmp_path, "intel-rapl:0", "package-0", 0, size=10**12)
    monkeypatch.setattr(EnergyMeter.__init__, "__defaults__", (tmp_path,))
    assert LocalRunner(measure_energy=True).measure_energy

    def call(*arrays: object) -> None:
        counter.write_text(str(int(counter.read_text()) + 3_000))

    kernel = Kernel(IRModule({"main": matmul()}), call)
    monkeypatch.setattr(candidate, "Watch", quiet_watch)
    settings = RunSettings(EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0), 10.0, cut_ratio=math.inf)
    report = _time(kernel, None, None, replace(settings, measure_energy=True))
    assert report.result().metrics == {"energy": pytest.approx(0.003)}
    assert _time(kernel, None, None, settings).result().metrics == {}


def test_a_build_tells_the_sizes_of_its_code() -> None:
    unrolled = Schedule(matmul(64))
    *_, last = unrolled.get_loops(unrolled.get_block("C"))
    unrolled.unroll(last)
    with WorkerPool(1) as pool:
        inputs = [BuilderInput(mod, "cpu") for mod in (IRModule({"main": matmul(64)}), unrolled.mod)]
        plain, large = LocalBuilder(pool=pool).build(inputs)
        assert plain.metrics.keys() == {"code_size", "memory"} and plain.metrics["memory"] == 0
        assert 0 < plain.metrics["code_size"] < large.metrics["code_size"]

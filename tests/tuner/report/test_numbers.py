"""What a report reads of a database, and that it reads no record twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from database import MemoryDatabase, Session, TuningRecord, open_database
from database.record import EXPECTED_SECS
from ir.target import Target
from schedules import Schedule
from tests.programs.expressions import matmul
from tests.tuner.report.databases import filled
from tuner.names import target_text
from tuner.report.numbers import DatabaseReader


def record(store: MemoryDatabase, size: int, secs: list[float] | None, **options: object) -> TuningRecord:
    workload = store.commit_workload(matmul(size))
    schedule = Schedule(workload.mod)
    schedule.annotate(schedule.get_block("C"), "candidate", len(store))
    made = TuningRecord(schedule.trace, workload, secs, Target("cpu"), **options)  # type: ignore[arg-type]
    store.commit_tuning_record(made)
    return made


def test_a_report_has_the_numbers_of_the_records() -> None:
    store = MemoryDatabase()
    record(store, 16, [2e-5, 2.2e-5, 2.1e-5], verified=True)
    record(store, 16, None, failure_kind="crash", failure_message="it died")
    record(store, 16, [1e-5] * 3, verified=True, metrics={EXPECTED_SECS: 3e-5})
    workload = store.commit_workload(matmul(16))
    phases = {"search": 1.0, "check": 2.0}
    session = Session(kernels={workload.shash: "net_matmul"}, weights={workload.shash: 3.0}, phases=phases)
    store.commit_session(session)
    report = DatabaseReader(store, "t").read()
    (kernel,) = report.kernels
    assert (kernel.name, kernel.shapes, kernel.weight) == ("net_matmul", "16x16, 16x16, 16x16", 3.0)
    assert kernel.flops == 2 * 16**3 and kernel.n_bytes == 3 * 16 * 16 * 4
    assert [trial.failure for trial in kernel.trials] == [None, "crash", None]
    assert kernel.failures == {"crash": 1} and kernel.failure_messages == {"crash": "it died"}
    assert kernel.improvements() == [(1, 2.1e-5), (3, 1e-5)]
    assert kernel.first_secs == 2.1e-5 and kernel.best_secs == 1e-5
    assert [trial.expected_secs for trial in kernel.trials] == [None, None, 3e-5]
    assert kernel.flops_per_s == pytest.approx(2 * 16**3 / 1e-5)
    assert report.model_secs == pytest.approx(3e-5) and report.share(kernel) == 1.0
    assert [run.phases for run in report.runs] == [phases]


def test_a_second_measurement_is_no_trial_but_decides_what_is_best() -> None:
    store = MemoryDatabase()
    first = record(store, 16, [1e-5] * 3, verified=True)
    store.commit_tuning_record(first.measured_again([4e-5] * 3))
    (kernel,) = DatabaseReader(store, "t").read().kernels
    assert len(kernel.trials) == 1 and kernel.best_secs == 4e-5


def test_a_pruned_export_of_a_second_measurement_has_a_trial() -> None:
    store = MemoryDatabase()
    first = record(store, 16, [1e-5] * 3, verified=True)
    pruned = MemoryDatabase()
    pruned.commit_tuning_record(first.measured_again([4e-5] * 3))
    (kernel,) = DatabaseReader(pruned, "t").read().kernels
    assert [trial.secs for trial in kernel.trials] == [4e-5]


def test_kernels_of_the_last_model_come_first_and_others_have_no_share() -> None:
    store = filled(["old", "new"], 5)
    workloads = store.get_workloads()
    later = Session(
        started_at=1.8e9, kernels={workloads[1].shash: "renamed"}, weights={workloads[1].shash: 2.0}
    )
    store.commit_session(later)
    report = DatabaseReader(store, "t").read()
    assert [kernel.name for kernel in report.kernels] == ["renamed", "old"]
    assert [report.share(kernel) for kernel in report.kernels] == [1.0, None]


def test_what_is_new_is_read_and_what_was_read_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryDatabase()
    record(store, 16, [1e-5] * 3)
    reader = DatabaseReader(store, "t")
    assert reader.read().n_trials == 1
    calls: list[str] = []
    everything, of = store.get_all_tuning_records, store.records_of
    monkeypatch.setattr(store, "records_of", lambda workload: calls.append("all") or of(workload))
    assert reader.read().n_trials == 1 and not calls
    record(store, 32, [1e-5] * 3)  # a new kernel: all is read again
    report = reader.read()
    assert report.n_trials == 2 and len(report.kernels) == 2 and calls == ["all", "all"]
    monkeypatch.setattr(
        MemoryDatabase,
        "get_records",
        lambda self, workload, target, skip=0: _counted(calls, everything(), workload, skip),
    )
    record(store, 16, [5e-6] * 3)
    report = reader.read()
    assert report.n_trials == 3 and calls == ["all", "all", "skip 1", "skip 1"]
    assert min(kernel.best_secs or 1.0 for kernel in report.kernels) == 5e-6


def _counted(
    calls: list[str], records: list[TuningRecord], workload: object, skip: int
) -> list[TuningRecord]:
    if skip:  # queries for the best begin at the first
        calls.append(f"skip {skip}")
    return [item for item in records if item.workload == workload][skip:]


def test_a_file_that_another_connection_writes_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    writer = open_database(path)
    filled(["a"], 3, store=writer)
    reader = DatabaseReader(open_database(path, must_exist=True), "t")
    assert reader.read().n_trials == 3
    filled(["a", "b"], 4, store=writer, seed=1)
    report = reader.read()
    assert report.n_trials == len(writer) and {kernel.name for kernel in report.kernels} == {"a", "b"}


def test_the_roofline_is_that_of_the_stored_calibration() -> None:
    report = DatabaseReader(filled(["a"], 2), "t").read()
    (roof,) = report.rooflines.values()
    lanes = Target("cpu").vector_bits // 32
    cores = min(2, Target("cpu").num_cores)
    assert roof.flops_per_s == pytest.approx(2 * 2.0 * lanes * 3e9 * cores)
    assert next((slope.name, slope.gb_per_s) for slope in roof.bandwidths) == (
        "memory",
        pytest.approx(12.0 * cores),
    )
    assert DatabaseReader(filled(["a"], 2, calibrated=False), "t").read().rooflines == {}


@pytest.mark.parametrize(
    ("text", "shown"),
    [("nvidia/nvidia-a100", "nvidia/nvidia-a100"), ("llvm -mcpu=znver4", "-mcpu=znver4")],
)
def test_targets_have_short_names(text: str, shown: str) -> None:
    assert shown in target_text(Target(text))
    assert target_text(None) == "no target"

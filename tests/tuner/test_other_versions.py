"""A database whose records a newer version has made, with instructions that this one does not know: searches go on beside them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from database import (
    Database,
    MemoryDatabase,
    SQLDatabase,
    TuningRecord,
    Workload,
    export_records,
    import_records,
    kernel_module,
)
from database.meta_schedule_apply_database import (
    AppliedKernel,
    ApplyReport,
    MetaScheduleApplyDatabase,
    MissingRecordError,
)
from ir import IRModule, assert_structural_equal
from ir.target import Target
from runners import LocalRunner, ReplayBuilder, ReplayRunner
from tests.programs.expressions import matmul
from tuner import OptunaSearch, tune_tir
from tuner.callback import OptunaExport
from tuner.scheduler.final import settle

TARGET = Target("cpu")
NEWER: Any = [[["FoldSpace", [], ["C", "main"], ["b0"]]], []]
"""A trace with an instruction of a later version."""


def newer(store: Database, size: int, secs: float = 1e-6) -> TuningRecord:
    """A record of a later version, by far the best."""
    record = TuningRecord(
        None, store.commit_workload(matmul(size)), [secs] * 3, TARGET, verified=True, trace_json=NEWER
    )
    store.commit_tuning_record(record)
    return record


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace", OptunaSearch("random")])
def test_a_search_goes_on_beside_records_of_a_newer_version(strategy: Any) -> None:
    store = MemoryDatabase()
    newer(store, 16)  # of the workload itself
    newer(store, 32)  # of one that trains the model, and from whose candidates the search begins
    tune_tir(
        matmul(16), TARGET, None, 4, database=store, strategy=strategy, calibrate="never",
        builder=ReplayBuilder(), runner=ReplayRunner(lambda _: 1e-3), measure_callbacks=[OptunaExport(":memory:")],
    )  # fmt: skip
    assert len(store) == 2 + 3


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace", OptunaSearch("random")])
@pytest.mark.parametrize("decision", [None, [1, 2, 3, 4, 5, 6, 7], ["x"], {"a": []}], ids=str)
def test_a_search_goes_on_beside_odd_decisions_and_programs(strategy: Any, decision: Any) -> None:
    """Of the workload itself, and of others, of which one has a program that cannot be read."""
    parts = {
        "builder": ReplayBuilder(),
        "runner": ReplayRunner(lambda _: 1e-3),
        "measure_callbacks": [],
        "calibrate": "never",
    }
    first = tune_tir(matmul(16), TARGET, None, 2, database=MemoryDatabase(), **parts)  # type: ignore[arg-type]
    steps, decisions = first.get_all_tuning_records()[0].trace_json
    odd = [steps, [[place, decision] for place, _ in decisions]]
    store = MemoryDatabase()
    for size in (16, 32):
        store.commit_tuning_record(
            TuningRecord(
                None, store.commit_workload(matmul(size)), [1e-6], TARGET, verified=True, trace_json=odd
            )
        )
    summary = Workload(matmul(8)).summary
    lost = Workload.stored("7", "no program", summary)
    store.commit_tuning_record(TuningRecord(None, lost, [1e-6], TARGET, verified=True, trace_json=odd))
    tune_tir(matmul(16), TARGET, None, 4, database=store, strategy=strategy, **parts)  # type: ignore[arg-type]
    assert len(store) == 3 + 3


def test_what_this_version_cannot_read_is_not_its_to_judge() -> None:
    """Built here it would fail, and would be a failure for the peers that can build it, too."""
    store = MemoryDatabase()
    record = newer(store, 16)
    assert settle(store, record.workload, TARGET, ReplayBuilder(), LocalRunner()) is None
    (kept,) = store.get_all_tuning_records()
    assert kept.is_valid() and not kept.remeasured


@pytest.mark.parametrize(
    ("field", "value"), [("created_at", "yesterday"), ("verified", "maybe"), ("failure_kind", [1])]
)
def test_a_record_with_a_field_of_another_kind_is_left_out(
    tmp_path: Path, field: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryDatabase()
    newer(store, 16)
    export_records(store, tmp_path / "records.jsonl")
    text = (tmp_path / "records.jsonl").read_text().splitlines()
    line = json.loads(text[-1])
    if field == "failure_kind":
        line["run_secs"] = None
    line[field] = value
    (tmp_path / "records.jsonl").write_text("\n".join([*text[:-1], json.dumps(line)]) + "\n")
    assert import_records(SQLDatabase(tmp_path / "tuning.db"), tmp_path / "records.jsonl") == 0
    assert field in caplog.text and "left out" in caplog.text


def test_a_program_that_cannot_be_read_names_the_file_and_the_workload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryDatabase()
    record = newer(store, 16)
    path = tmp_path / "records.jsonl"
    export_records(store, path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["module"] = {}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert import_records(MemoryDatabase(), path) == 0
    assert re.search(rf"records\.jsonl.*workload {record.workload.shash} cannot be read", caplog.text)


GONE: Any = [[["GetBlock", [], ["gone", "main"], ["b0"]]], []]
"""A trace that can be read, and does not apply."""
OTHER_ARGUMENTS: Any = [
    [["GetBlock", [], ["C", "main"], ["b0"]], ["CacheWrite", ["b0"], [0, []], ["b1"]]],
    [],
]
"""A trace whose step has arguments of another kind than this version's."""
SOUND: Any = [[["GetBlock", [], ["C", "main"], ["b0"]]], []]


def _built(store: Database, **options: Any) -> tuple[IRModule, AppliedKernel]:
    report = ApplyReport()
    with TARGET:
        mod = MetaScheduleApplyDatabase(database=store, report=report, **options)(
            IRModule({"product": matmul(16)})
        )
    (kernel,) = report.kernels
    return mod, kernel


def _with(*traces: Any) -> MemoryDatabase:
    """A database with a record of each trace, the fastest first."""
    store = MemoryDatabase()
    workload = store.commit_workload(kernel_module(matmul(16)))
    for place, trace in enumerate(traces):
        store.commit_tuning_record(
            TuningRecord(None, workload, [1e-3 * (1 + place)], TARGET, trace_json=trace)
        )
    return store


def test_a_build_names_records_that_do_not_apply_and_takes_the_next_best(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mod, kernel = _built(_with(NEWER, GONE, OTHER_ARGUMENTS, SOUND))
    assert kernel.source == "record"
    assert kernel.reason.startswith(
        "4.0000 ms; 3 faster records do not apply, of which the best: the record of"
    )
    assert mod["product"].attrs["tir.is_scheduled"]
    named = [
        item.message for item in caplog.records if "kernel product: skipped the record of" in item.message
    ]
    assert len(named) == 3 and all("does not apply" in text and "update loopsmith" in text for text in named)


@pytest.mark.parametrize("traces", [[NEWER], [GONE], [OTHER_ARGUMENTS], [GONE, NEWER]])
def test_where_no_record_applies_a_build_takes_the_default_schedule(traces: list[Any]) -> None:
    mod, kernel = _built(_with(*traces))
    assert kernel.source == "default" and f"{len(traces)} records do not apply" in kernel.reason
    expected, _ = _built(MemoryDatabase())
    assert_structural_equal(mod, expected)
    with pytest.raises(MissingRecordError, match=r"strict build refuses: product: \d records do not apply"):
        _built(_with(*traces), strict=True)

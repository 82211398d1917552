"""Searches as Optuna studies: live, resumed, interrupted, of an earlier search, and as optuna-dashboard shows them."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import optuna
import pytest
from optuna.trial import TrialState

from database import Database, MemoryDatabase, TuningRecord, open_database, pareto_front
from ir import structural_hash
from runners import ReplayBuilder, ReplayRunner, RunnerResult
from tests.programs.expressions import matmul, softmax
from tuner import MeasureCallback, OptunaExport, OptunaSearch, TuneContext
from tuner.cli import main as entry
from tuner.error import TunerError
from tuner.search.optuna_storage import StudyWriter
from tuner.tune import tune_tasks


def _result(program: Any) -> RunnerResult:
    """A time that depends on the program; some fail."""
    digest = structural_hash(program) % 1000
    if digest % 7 == 0:
        return RunnerResult(None, "it crashed")
    return RunnerResult([1e-4 + digest * 1e-6], None, metrics={"code_size": 2000.0 - digest, "memory": 64.0})


def _tune(store: Database, trials: int, *callbacks: MeasureCallback, **options: Any) -> Database:
    tasks = [
        TuneContext(func, "cpu", task_name=name, seed=1)
        for name, func in (("dense", matmul()), ("softmax", softmax()))
    ]
    return tune_tasks(
        tasks=tasks,
        database=store,
        max_trials_global=trials,
        num_trials_per_iter=4,
        builder=ReplayBuilder(),
        runner=ReplayRunner(_result),
        cost_model="random",
        task_scheduler="round-robin",
        measure_callbacks=callbacks,
        **options,
    )


class _Watcher(MeasureCallback):
    """Looks into the storage after each batch, as optuna-dashboard does from another process."""

    def __init__(self, url: str) -> None:
        self.url, self.counts = url, list[int]()

    def apply(self, *arguments: Any) -> None:
        self.counts.append(_count(self.url))


def _count(storage: Any) -> int:
    return sum(item.n_trials for item in optuna.get_all_study_summaries(storage))


def test_each_record_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    write = StudyWriter.write

    def counted(writer: StudyWriter, records: list[TuningRecord]) -> int:
        looked_at.extend(map(id, records))
        return write(writer, records)

    monkeypatch.setattr(StudyWriter, "write", counted)
    store = MemoryDatabase()
    for trials in (8, 16):  # the second session looks at what the first has left
        looked_at.clear()
        _tune(store, trials, OptunaExport(":memory:"))
        assert sorted(looked_at) == sorted(map(id, store.get_all_tuning_records()))


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace", "optuna:tpe"])
def test_every_search_is_shown_while_it_runs(strategy: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    watcher = _Watcher(url)
    store = _tune(MemoryDatabase(), 16, OptunaExport(url), watcher, strategy=strategy)
    assert watcher.counts == [4, 8, 12, 16]
    names = optuna.get_all_study_names(url)
    assert [name.split(" [")[0] for name in names] == ["dense", "softmax"]
    for name in names:
        study = optuna.load_study(study_name=name, storage=url)
        records = [
            item
            for item in store.get_all_tuning_records()
            if item.workload.shash == study.user_attrs["workload"]
        ]
        assert len(records) == len(study.trials) == 8
        for record, trial in zip(records, study.trials, strict=True):
            assert trial.user_attrs["trace"] == str(record.trace)
            if record.is_valid():
                assert trial.state is TrialState.COMPLETE and trial.value == record.mean_secs
                assert trial.user_attrs["code_size"] == record.metrics["code_size"]
            else:
                assert trial.state is TrialState.FAIL and trial.user_attrs["failure_kind"] == "run_error"
                assert trial.user_attrs["failure_message"] == "it crashed"
            sketch = trial.params["sketch"]
            factors = [value for key, value in trial.params.items() if key.startswith(f"{sketch}.i_")]
            if name.startswith("dense"):
                assert len(factors) == 4 and factors[0] * factors[1] * factors[2] * factors[3] == 64
        assert study.metric_names == ["time (s)"]


@pytest.mark.parametrize("file", ["study.db", "study.log"])
def test_a_search_that_goes_on_writes_nothing_twice(file: str, tmp_path: Path) -> None:
    store, where = MemoryDatabase(), tmp_path / file
    first = OptunaExport(where)
    _tune(store, 8, first)
    assert _count(first.storage) == 8
    again = OptunaExport(where)
    _tune(store, 16, again)
    assert _count(again.storage) == 16 and len(again.studies) == 2
    keys = [trial.user_attrs["candidate"] for study in again.studies for trial in study.trials]
    assert len(set(keys)) == 16


class _Stop(MeasureCallback):
    """Ctrl-C in the middle of the second batch."""

    def __init__(self) -> None:
        self.trials = 0

    def trial(self, *arguments: Any) -> None:
        self.trials += 1
        if self.trials == 6:
            raise KeyboardInterrupt


def test_what_ctrl_c_left_of_a_batch_is_written(tmp_path: Path) -> None:
    store, url = MemoryDatabase(), f"sqlite:///{tmp_path / 'study.db'}"
    with pytest.raises(KeyboardInterrupt):
        _tune(store, 16, OptunaExport(url), _Stop())
    assert _count(url) == len(store) >= 6


def test_several_objectives_are_those_of_the_strategy(tmp_path: Path) -> None:
    export = OptunaExport(":memory:", study_name="both")
    store = _tune(
        MemoryDatabase(), 16, export, strategy=OptunaSearch("nsga2", objectives=("time", "code_size"))
    )
    study = export.studies[0]
    assert study.study_name.startswith("both dense [") and len(study.directions) == 2
    assert study.metric_names == ["time (s)", "code_size (bytes)"]
    front = {tuple(trial.values) for trial in study.best_trials}
    records = [
        item for item in store.get_all_tuning_records() if item.workload.shash == study.user_attrs["workload"]
    ]
    found = {(item.mean_secs, item.metrics["code_size"]) for item in pareto_front(records)}
    assert front == found and len(found) > 1
    with pytest.raises(
        TunerError, match=r"holds the objectives time, code_size, not time; use another storage"
    ):
        _tune(store, 24, OptunaExport(export.storage, study_name="both"))


def test_a_database_of_an_earlier_search_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "tuning.db"
    _tune(open_database(database), 16)
    arguments = ["loopsmith", "db", "export-study", str(database), str(tmp_path / "study.db")]
    for expected in (16, 0):
        monkeypatch.setattr(sys, "argv", arguments)
        entry.main()
        assert f"added {expected} trials to 2 studies" in capsys.readouterr().out.replace("\n", " ")
    url = f"sqlite:///{tmp_path / 'study.db'}"
    assert _count(url) == 16
    _tune(open_database(database), 20, OptunaExport(url))  # the live export goes on in the same studies
    assert _count(url) == 20 and len(optuna.get_all_study_names(url)) == 2


def test_the_dashboard_shows_it(tmp_path: Path) -> None:
    dashboard = pytest.importorskip("optuna_dashboard", reason="in the extra report")
    export = OptunaExport(f"sqlite:///{tmp_path / 'study.db'}")
    _tune(MemoryDatabase(), 8, export)
    application = dashboard.wsgi(export.storage)

    def get(path: str) -> Any:
        environment: dict[str, Any] = {"PATH_INFO": path, "wsgi.input": io.BytesIO()}
        setup_testing_defaults(environment)
        status: list[str] = []
        body = b"".join(application(environment, lambda code, *_: status.append(code)))
        assert status[0].startswith("200"), (status, body)
        return json.loads(body)

    studies = get("/api/studies")["study_summaries"]
    assert {item["study_name"].split(" [")[0] for item in studies} == {"dense", "softmax"}
    shown = get(f"/api/studies/{studies[0]['study_id']}")
    assert len(shown["trials"]) == 4 and shown["trials"][0]["params"]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("study", "is no storage for Optuna's studies; give a URL such as sqlite:///study.db"),
        ("missing/study.db", "the folder .* does not exist"),
        ("tuning.db", "is a tuning database; give Optuna's studies a file of their own"),
        ("notes.db", "cannot be opened"),
        ("nosuch://place", "cannot be opened"),
    ],
)
def test_what_is_no_storage_is_refused(
    where: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    open_database("tuning.db").commit_workload(matmul())
    Path("notes.db").write_text("these are notes, and not a database at all. " * 50)
    with pytest.raises(TunerError, match=message):
        OptunaExport(where)
    if where == "tuning.db":  # nothing was added to it
        with pytest.raises(TunerError, match=message):
            OptunaExport("sqlite:///tuning.db")
        with sqlite3.connect("tuning.db") as connection:
            assert not connection.execute("SELECT * FROM sqlite_master WHERE name = 'studies'").fetchall()

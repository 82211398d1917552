"""A command that is refused, for whatever mistake, leaves nothing behind."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from database import MemoryDatabase, TuningRecord, export_records, import_records, open_database
from ir.error import IRError
from runners import RunnerError
from tests.database.attack import commit, filled
from tests.programs.nodes import matmul, scaled
from tuner import OptunaExport, TunerError, measurable, tune_tir
from tuner.cli import main as entry
from tuner.cli import tune as tune_command


def files(folder: Path) -> list[str]:
    return sorted(str(item.relative_to(folder)) for item in folder.rglob("*"))


def refused(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["loopsmith", *arguments])
    with pytest.raises(SystemExit) as leaving:
        entry.main()
    complaint = capsys.readouterr().err
    assert leaving.value.code == 2 and complaint.startswith("loopsmith: error: "), complaint
    assert says in complaint


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cost-model", "xgboost"], "xgboost"),
        (["--target", "abacus"], "abacus"),
        (["--target", "llvm -mcpu=znver99"], "znver5"),
        (["--calibrate", "sometimes"], "calibrate is one of"),
        (["--trials", "0"], "at least 1"),
        (["--strategy", "nonsense"], "nonsense"),
        (["--shape", "x:0"], "--shape"),
        (["--target", "llvm -num-cores 4096"], "has 4096 cores (-num-cores), more than"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_a_search_that_is_refused_makes_no_file(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    _write_model(tmp_path / "one.onnx")
    before = files(tmp_path)
    command = ["tune", "one.onnx", "--trials", "4", "--database", "new.db", "--optuna-storage", "study.db"]
    refused([*command, *arguments], says, monkeypatch, capsys)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--target", "llvm -mtriple=aarch64-linux-gnu"],
            "code for aarch64 processors does not run on this one",
        ),
        (["--objectives", "energy", "--strategy", "optuna:tpe"], "energy cannot be measured"),
        (["--target", "nvidia/h200"], "no CUDA driver"),
        (["--target", "rocm"], "rocm"),
    ],
)
def test_what_this_machine_cannot_measure_is_refused_at_once(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before the model is read, whose passes may take minutes."""
    pytest.importorskip("optuna")

    def no_counters() -> None:
        raise RunnerError("energy cannot be measured: there are no counters")

    monkeypatch.setattr(measurable, "EnergyMeter", no_counters)
    monkeypatch.setenv("LOOPSMITH_CUDA_DRIVER", "no-driver-of-this-name.so")
    monkeypatch.setattr(tune_command, "load_model", lambda *_: pytest.fail("the model was read"))
    refused(["tune", "one.onnx", *arguments], says, monkeypatch, capsys)


def _write_model(path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "relu",
        [helper.make_tensor_value_info("x", kind, [2, 3])],
        [helper.make_tensor_value_info("y", kind, [2, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    "options",
    [{"builder": "remote"}, {"runner": "remote"}, {"task_scheduler": "fair"}, {"cost_model": "oracle"}],
    ids=str,
)
def test_a_call_that_is_refused_makes_no_folder(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(IRError, match=next(iter(options.values()))):
        tune_tir(matmul(), "cpu", tmp_path / "work", 4, measure_callbacks=[], **options)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["build", "one.onnx", "--strict", "-o", "model.so"], "strict"),
        (["build", "one.onnx", "-o", "taken.so"], "taken.h: it is a folder"),
        (["build", "one.onnx", "--database", "other.db", "-o", "model.so"], "belongs to another program"),
        (["db", "ls", "other.db"], "belongs to another program"),
        (["db", "import", "new.db", "one.onnx"], "one.onnx"),
        (["db", "export", "missing.db", "out.jsonl"], "does not exist"),
        (["db", "export", "tuning.db", "tuning.db"], "name it tuning.jsonl"),
        (["db", "export", "tuning.db", "taken.jsonl"], "is not a file of records"),
        (["db", "import", "tuning.db", "other.db"], "belongs to another program"),
        (["db", "export-study", "other.db", "study.db"], "belongs to another program"),
        (["db", "export-study", "tuning.db", "other.db"], "a database of another program"),
        (["calibrate", "--database", "other.db"], "belongs to another program"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_other_commands_that_are_refused_leave_nothing(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    _write_model(tmp_path / "one.onnx")
    Path("taken.h").mkdir()
    Path("taken.jsonl").write_text("somebody's\ntext\n")
    with closing(sqlite3.connect("other.db")) as other:
        other.execute("CREATE TABLE places (id INTEGER)")
    with closing(filled(tmp_path / "tuning.db")):
        pass
    before = {name: Path(name).read_bytes() for name in files(tmp_path) if Path(name).is_file()}
    refused(arguments, says, monkeypatch, capsys)
    assert {name: Path(name).read_bytes() for name in files(tmp_path) if Path(name).is_file()} == before


def test_an_export_leaves_out_a_program_that_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(filled(tmp_path / "tuning.db")) as store:
        store.commit_tuning_record(
            TuningRecord(None, store.commit_workload(scaled()), [1.0], "cpu", trace_json=[[], []])
        )
    with closing(sqlite3.connect(tmp_path / "tuning.db")) as connection:
        connection.execute("UPDATE workloads SET module = 'no program' WHERE id = 1")
        connection.commit()
    before = files(tmp_path)
    with closing(open_database(tmp_path / "tuning.db", must_exist=True)) as store:
        for pruned in (False, True):
            assert export_records(store, tmp_path / "out.jsonl", pruned=pruned) == 1
            assert "workload" in caplog.text and "left out" in caplog.text
            caplog.clear()
    assert files(tmp_path) == sorted([*before, "out.jsonl"])


def test_a_file_for_studies_is_made_when_the_search_begins(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    export = OptunaExport(tmp_path / "study.db")
    assert files(tmp_path) == []
    tune_tir(matmul(), "cpu", None, 2, calibrate="never", measure_callbacks=[export])
    assert files(tmp_path) == ["study.db"] and len(export.studies[0].trials) == 2
    with pytest.raises(TunerError, match="does not exist"):
        OptunaExport(tmp_path / "no" / "study.db")


def test_a_line_that_cannot_be_read_is_named_and_the_others_are_imported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, store = MemoryDatabase(), MemoryDatabase()
    commit(source, 1.0)
    export_records(source, tmp_path / "a.jsonl")
    text = (tmp_path / "a.jsonl").read_text()
    (tmp_path / "a.jsonl").write_text(f"{text}nonsense\n{text}")
    assert import_records(store, tmp_path / "a.jsonl") == len(store) == 1
    assert "line 3 is not" in caplog.text

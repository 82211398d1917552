"""Which spellings of a target share records, and on which machines."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from database import (
    Database,
    JSONDatabase,
    MemoryDatabase,
    SQLDatabase,
    TuningRecord,
    export_records,
    hardware_fingerprint,
    import_records,
    target_key,
)
from ir.target import Target
from tests.database.contract import record
from tests.programs.nodes import matmul

MODULE = sys.modules["database.target_key"]
"""The package has a function of the same name."""
HOST = Target("cpu")
OF_THE_HOST = [
    "cpu",
    "llvm",
    f"llvm -mcpu={HOST.mcpu}",
    f"llvm -num-cores {HOST.num_cores}",
    f"llvm -mcpu={HOST.mcpu} -num-cores {HOST.num_cores}",
    {"kind": "llvm"},
]


@pytest.fixture(params=["memory", "json", "sql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    made: dict[str, Any] = {
        "memory": MemoryDatabase,
        "json": lambda: JSONDatabase(work_dir=tmp_path / "json"),
        "sql": lambda: SQLDatabase(tmp_path / "tuning.db"),
    }
    with closing(made[request.param]()) as opened:
        yield opened


def on_another_machine(patched: pytest.MonkeyPatch, cpu: str = "skylake", cores: int = 64) -> None:
    """As if this process ran there."""
    there = {**hardware_fingerprint(), "cpu": f"a {cpu}", "cores": cores}
    patched.setattr(MODULE, "host_info", lambda: SimpleNamespace(cpu=cpu))
    patched.setattr(MODULE, "available_cores", lambda: cores)
    patched.setattr(MODULE, "hardware_fingerprint", lambda: dict(there))


def test_all_spellings_of_this_machine_are_one_key_and_those_of_others_are_not() -> None:
    assert len({target_key(item) for item in OF_THE_HOST}) == 1
    others = [
        "llvm -mcpu=x86-64-v2",
        "llvm -mtriple=x86_64-linux-gnu",
        "llvm -mattr=-avx2",
        "llvm -num-cores 4096",
    ]
    assert len({target_key(item) for item in ["cpu", *others]}) == 5


def test_the_key_of_a_target_that_names_no_processor_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    here, named = target_key("llvm"), target_key("llvm -mcpu=x86-64-v2")
    on_another_machine(monkeypatch)
    assert target_key("llvm") == target_key("llvm -mcpu=skylake -num-cores 64") != here
    assert (
        target_key("llvm -mcpu=x86-64-v2") == named
    )  # code for a family of processors is the same everywhere


@pytest.mark.parametrize("written", OF_THE_HOST, ids=str)
def test_every_spelling_finds_the_records_of_every_other(database: Database, written: Any) -> None:
    workload = database.commit_workload(matmul())
    database.commit_tuning_record(
        TuningRecord(
            record(workload, 1.0).trace, workload, [1.0], written, fingerprint=hardware_fingerprint()
        )
    )
    for asked in OF_THE_HOST:
        assert len(database.get_records(workload, asked)) == 1
        assert database.query_tuning_record(matmul(), asked) is not None


@pytest.mark.parametrize("asked", ["llvm", "cpu"])
def test_records_of_another_processor_are_not_taken(
    database: Database, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = database.commit_workload(matmul())
    with monkeypatch.context() as patched:
        on_another_machine(patched)
        fingerprint = MODULE.hardware_fingerprint()
        database.commit_tuning_record(
            TuningRecord(record(workload, 1.0).trace, workload, [1.0], "llvm", fingerprint=fingerprint)
        )
    assert (
        database.query_tuning_record(matmul(), asked) is None and database.get_records(workload, asked) == []
    )
    nearest = database.nearest_record(matmul(), asked)
    assert nearest is not None and f"target.mcpu is skylake there, {HOST.mcpu} here" in nearest.explain()


def of_an_older_version(path: Path, fingerprint: dict[str, Any], cores: int | None = None) -> None:
    """A file with a record of one second whose target is kept as it was written: ``llvm``, of whatever processor."""
    written = Target("llvm" if cores is None else f"llvm -num-cores {cores}")
    with closing(SQLDatabase(path)) as made:
        workload = made.commit_workload(matmul())
        kept = record(workload, 1.0)
        kept.target, kept.fingerprint = written, fingerprint
        made.commit_tuning_record(kept)
    with closing(sqlite3.connect(path)) as connection:
        ((text,),) = connection.execute("SELECT target FROM targets").fetchall()
        assert "mcpu" not in text


@pytest.mark.parametrize("cores", [None, HOST.num_cores])
def test_older_records_of_this_machine_are_found(tmp_path: Path, cores: int | None) -> None:
    path = tmp_path / "old.db"
    of_an_older_version(path, hardware_fingerprint(), cores)
    with closing(SQLDatabase(path)) as opened:
        workload = opened.commit_workload(matmul())
        for asked in OF_THE_HOST:
            assert opened.query_tuning_record(matmul(), asked) is not None
        opened.commit_tuning_record(record(workload, 2.0, target="cpu"))
        assert [item.secs for item in opened.get_records(workload, "cpu")] == [1, 2]
        assert [item.secs for item in opened.get_records(workload, "cpu", 1)] == [2]


@pytest.mark.parametrize(
    "fingerprint", [{"cpu": "another", "cores": 2}, {}], ids=["another machine", "unknown"]
)
def test_older_records_of_another_machine_are_read_and_not_taken(
    tmp_path: Path, fingerprint: dict[str, Any]
) -> None:
    path = tmp_path / "old.db"
    of_an_older_version(path, fingerprint)
    with closing(SQLDatabase(path)) as opened:
        workload = opened.commit_workload(matmul())
        assert len(opened.get_all_tuning_records()) == len(opened.get_top_k(workload, 1)) == 1
        assert opened.query_tuning_record(matmul(), "llvm") is None
        opened.commit_tuning_record(record(workload, 2.0, target="llvm"))
        assert [item.secs for item in opened.get_records(workload, "cpu")] == [2]
        assert [item.secs for item in opened.get_records(workload, "cpu", 1)] == []
        export_records(opened, tmp_path / "all.jsonl")
    copy = MemoryDatabase()
    assert import_records(copy, tmp_path / "all.jsonl") == 2
    found = copy.query_tuning_record(matmul(), "llvm")
    assert found is not None and found.secs == 2


def test_cores_of_an_older_record_are_those_of_its_time() -> None:
    then = {**hardware_fingerprint(), "cores": 4096}
    made = MemoryDatabase()
    workload = made.commit_workload(matmul())
    kept = TuningRecord(record(workload, 1.0).trace, workload, [1.0], "llvm", fingerprint=then)
    assert kept.target == Target(f"llvm -mcpu={HOST.mcpu} -num-cores 4096")

"""Mutated records, files of records, JSON databases and rows of SQLite, read and used as commands and builds do.

Each is tried in a child process (:mod:`.children`). Whatever a reader refuses must be an error of the compiler's; what it leaves out is
named in warnings.
"""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path

from database import (
    Database,
    JSONDatabase,
    MemoryDatabase,
    TuningRecord,
    export_records,
    import_records,
    kernel_module,
    open_database,
)
from database.jsonl import Item, line_of
from database.meta_schedule_apply_database import MetaScheduleApplyDatabase
from database.workload import entry_function
from ir import IRModule
from ir.target import Target
from runners import ReplayBuilder, ReplayRunner
from tests.programs.expressions import matmul
from tests.programs.nodes import scaled
from tuner import tune_tir
from tuner.cli.database.kernels import decisions_text, kernels_of, trace_text

from .children import Attempt
from .mutation import mutated_bytes, mutated_json

_BUILDS = 0.05
"""The share of databases that are applied, exported and changed, which takes longer than reading them."""
_COUNTS = 0.2
"""The share of programs whose operations are counted."""


@lru_cache(maxsize=1)
def _examples() -> tuple[MemoryDatabase, tuple[IRModule, ...]]:
    """A database of two kernels with real traces and failures, and the programs."""
    store = MemoryDatabase()
    for func in (matmul(16), scaled(64)):
        tune_tir(
            func, Target("cpu"), None, 4, database=store, calibrate="never", measure_callbacks=[], strategy="replay-trace",
            builder=ReplayBuilder(), runner=ReplayRunner(lambda _: 1e-3),
        )  # fmt: skip
    programs = [kernel_module(entry_function(item.mod)[1]) for item in store.get_workloads()]
    for record in store.get_all_tuning_records()[:1]:
        store.commit_tuning_record(record.measured_again(None, failure_kind="wrong_result"))
    return store, tuple(programs)


@lru_cache(maxsize=1)
def _lines() -> tuple[list[str], list[str]]:
    """The lines of workloads, and those of sessions and records."""
    store, _ = _examples()
    others: list[Item] = [*store.get_sessions(), *store.get_all_tuning_records()]
    return list(map(line_of, store.get_workloads())), list(map(line_of, others))


def _mutated_lines(rng: random.Random, lines: Sequence[str]) -> bytes:
    """Lines of which some are changed as JSON, as text, or in their order."""
    found = list(lines)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(found))
        kind = rng.random()
        if kind < 0.7:
            try:
                found[place] = json.dumps(mutated_json(rng, json.loads(found[place]))) + "\n"
            except (ValueError, TypeError):  # it was changed before
                continue
        elif kind < 0.8:
            found.insert(rng.randrange(len(found)), found.pop(place))
        else:
            line = found[place]
            others = ("", "\n", line * 2, line.rstrip("\n"), "[" * 5000 + "\n", "null\n", "\ufeff" + line)
            found[place] = rng.choice(others)
    data = "".join(found).encode("utf-8", "surrogatepass")
    return mutated_bytes(rng, data) if rng.random() < 0.2 else data


def _use(store: Database, folder: Path, rng: random.Random) -> None:
    """Do with a database what lists, exports and builds do."""
    for kernel in kernels_of(store):
        _ = kernel.shapes, kernel.failed, kernel.targets, kernel.ranked
        _ = kernel.gflops if rng.random() < _COUNTS else None
        for record in kernel.records:
            _ = (
                record.digest,
                decisions_text(record),
                repr(record),
                record.interval if record.run_secs else None,
            )
    _, programs = _examples()
    for program in programs:
        best = store.query_tuning_record(program, "cpu")
        store.nearest_record(program, "llvm -mcpu=x86-64-v2")
        if best is not None and rng.random() < _BUILDS:
            with Target("cpu"):
                MetaScheduleApplyDatabase(database=store, fallback=None)(program)
    if rng.random() < _BUILDS:
        export_records(store, folder / "again.jsonl", pruned=rng.random() < 0.5)


def try_record(rng: random.Random, folder: Path) -> None:
    """A record of its own, changed: made, looked at, and replayed."""
    store, _ = _examples()
    original = rng.choice(store.get_all_tuning_records())
    body = mutated_json(rng, original.as_json())
    if not isinstance(body, dict):
        body = {"workload": body}
    record = TuningRecord.from_json(json.loads(json.dumps(body)), original.workload)
    _ = (
        record.digest,
        record.candidate,
        record.merit(),
        repr(record),
        record.is_valid(),
        decisions_text(record),
    )
    record.applies()
    _ = trace_text(record)
    copy = MemoryDatabase()
    copy.commit_tuning_record(record)
    copy.query_tuning_record(original.workload.mod, "cpu")


def try_jsonl(rng: random.Random, folder: Path) -> None:
    """A file of exported records, changed: imported, listed, applied, and exported again; into SQLite, too."""
    path = folder / "records.jsonl"
    workloads, others = _lines()
    path.write_bytes(_mutated_lines(rng, [*workloads, *others]))
    store: Database = MemoryDatabase()
    if rng.random() < 0.05:
        (folder / "new.db").unlink(missing_ok=True)
        store = open_database(folder / "new.db")
    try:
        import_records(store, path)
        _use(store, folder, rng)
    finally:
        store.close()


def try_json_database(rng: random.Random, folder: Path) -> None:
    """The two files of a JSON database, one or both changed: opened, used, written, opened again, and tidied up."""
    workloads, others = _lines()
    which = rng.randrange(3)
    first = _mutated_lines(rng, workloads) if which != 1 else "".join(workloads).encode()
    second = _mutated_lines(rng, others) if which != 0 else "".join(others).encode()
    (folder / "database_workload.json").write_bytes(first)
    (folder / "database_tuning_record.json").write_bytes(second)
    (folder / "database_tuning_record.claims").unlink(missing_ok=True)
    store = JSONDatabase(work_dir=folder)
    _use(store, folder, rng)
    original, _ = _examples()
    if rng.random() < _BUILDS:
        store.commit_tuning_record(rng.choice(original.get_all_tuning_records()))
        again = JSONDatabase(work_dir=folder)
        if len(again) < 1:
            raise AssertionError("a record that was committed is not there")
        again.remove_records(again.get_all_tuning_records()[:1])
        again.compact()


@lru_cache(maxsize=1)
def _sqlite_file() -> bytes:
    """The file of an SQLite database of the examples."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tuning.db"
        with closing(open_database(path)) as made:
            import_records(made, _examples()[0])
        return path.read_bytes()


def try_sqlite(rng: random.Random, folder: Path) -> None:
    """A file of SQLite with some values of its rows changed, as another program may: opened, used, written, and tidied up."""
    path = folder / "tuning.db"
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    path.write_bytes(_sqlite_file())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for _ in range(rng.choice((1, 1, 2, 4))):
            _change_row(rng, connection)
    with closing(open_database(path)) as store:
        _use(store, folder, rng)
        if rng.random() < _BUILDS:
            store.commit_tuning_record(rng.choice(_examples()[0].get_all_tuning_records()))
            store.remove_records(store.get_all_tuning_records()[:1])
            store.compact()


def _change_row(rng: random.Random, connection: sqlite3.Connection) -> None:
    table = rng.choice(("workloads", "workload_features", "targets", "sessions", "records"))
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    column, rows = rng.choice(columns), connection.execute(f"SELECT rowid, * FROM {table}").fetchall()
    if not rows:
        return
    row = rng.choice(rows)
    value = row[1 + columns.index(column)]
    if isinstance(value, str) and value[:1] in ("[", "{") and rng.random() < 0.7:
        with suppress(ValueError, RecursionError):  # it was changed before
            value = json.dumps(mutated_json(rng, json.loads(value)))
    elif isinstance(value, str) and rng.random() < 0.5:
        value = mutated_bytes(rng, value.encode())
        value = value if rng.random() < 0.3 else value.decode("utf-8", "replace")
    else:
        value = rng.choice(
            (None, 0, -1, 2**62, 1e308, float("inf"), "", "x" * 300, b"\xff\x00", "nan", "[" * 3000)
        )
    with suppress(sqlite3.Error):  # what the table itself refuses
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row[0]))


def _warm_up(folder: Path) -> None:
    """Do once what makes Python import and SQLAlchemy compile, before a child is watched."""
    store, programs = _examples()
    _ = _lines(), _sqlite_file()
    export_records(store, folder / "records.jsonl", pruned=True)
    copy = open_database(folder / "records.db")
    import_records(copy, folder / "records.jsonl")
    for place in (folder / "records.db", folder / "records.jsonl"):
        with Target("cpu"):
            MetaScheduleApplyDatabase(database=open_database(place))(programs[0])
    for kernel in kernels_of(copy):
        _ = kernel.gflops, list(map(trace_text, kernel.records))
    copy.nearest_record(programs[0], "llvm -mcpu=x86-64-v2")
    copy.close()


ATTEMPTS = {
    "records": Attempt(try_record, _warm_up),
    "jsonl": Attempt(try_jsonl, _warm_up),
    "json-databases": Attempt(try_json_database, _warm_up),
    "sqlite": Attempt(try_sqlite, _warm_up),
}

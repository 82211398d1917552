"""Export and import between databases."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from database import (
    DatabaseError,
    DatabaseFileError,
    MemoryDatabase,
    Session,
    SQLDatabase,
    export_records,
    import_records,
    open_database,
    open_for_writing,
)
from database.damage import LeftOut
from tests.database.contract import OTHER, TARGET, record
from tests.programs.nodes import matmul, scaled

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def source() -> MemoryDatabase:
    made = MemoryDatabase()
    made.commit_session(Session(id="s", command="loopsmith tune", seed=1))
    for mod in (matmul(), scaled()):
        workload = made.commit_workload(mod)
        for secs, target in ((2.0, TARGET), (1.0, TARGET), (None, OTHER)):
            made.commit_tuning_record(record(workload, secs, target, session_id="s"))
    return made


def test_round_trip(source: MemoryDatabase, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    assert export_records(source, path) == 6
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert Counter(line["kind"] for line in lines) == {"session": 1, "workload": 2, "record": 6}
    assert {line["v"] for line in lines} == {1}
    copy = MemoryDatabase()
    assert import_records(copy, path) == 6
    assert [r.as_json() for r in copy.get_all_tuning_records()] == [
        r.as_json() for r in source.get_all_tuning_records()
    ]
    assert copy.get_sessions() == source.get_sessions()
    assert import_records(copy, path) == 0  # importing twice adds nothing
    assert [p.name for p in tmp_path.iterdir()] == ["records.jsonl"]


def test_a_database_is_imported_as_its_file_is(source: MemoryDatabase) -> None:
    copy = MemoryDatabase()
    assert import_records(copy, source) == 6 and import_records(copy, source) == 0
    assert [r.as_json() for r in copy.get_all_tuning_records()] == [
        r.as_json() for r in source.get_all_tuning_records()
    ]
    assert copy.get_sessions() == source.get_sessions()
    ours = {id(item) for item in source.get_workloads()}
    assert all(id(item.workload) in ours for item in source.get_all_tuning_records())


@pytest.mark.parametrize("content", [b"SQLite format 3\0...", b"some text", b"two\nlines", None])
def test_an_export_replaces_records_only(
    content: bytes | None, source: MemoryDatabase, tmp_path: Path
) -> None:
    path = tmp_path / "taken"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(
        DatabaseFileError, match="'.*taken' is there already and is no file of tuning records"
    ):
        export_records(source, path)
    assert path.is_dir() if content is None else path.read_bytes() == content
    for name in ("empty", "records"):
        (tmp_path / name).touch()
        assert export_records(source, tmp_path / name) == export_records(source, tmp_path / name) == 6


def test_pruned_export(source: MemoryDatabase, tmp_path: Path) -> None:
    path = tmp_path / "best.jsonl"
    assert export_records(source, path, pruned=True) == 2
    loaded = open_database(path)
    assert [r.mean_secs for r in loaded.get_all_tuning_records()] == [1.0, 1.0]


def test_nobody_commits_to_a_file_that_is_only_read(source: MemoryDatabase, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    export_records(source, path)
    with pytest.raises(DatabaseFileError, match="only read: name a database such as .*records.db"):
        open_for_writing(path)
    assert open_for_writing(source) is source
    database = open_for_writing(tmp_path / "records.db")
    assert import_records(database, path) == len(open_database(tmp_path / "records.db")) == 6


def test_every_prefix_of_a_file_can_be_read(source: MemoryDatabase, tmp_path: Path) -> None:
    path, torn = tmp_path / "records.jsonl", tmp_path / "torn.jsonl"
    export_records(source, path)
    data = path.read_bytes()
    for size in range(0, len(data), 97):
        torn.write_bytes(data[:size])
        assert import_records(MemoryDatabase(), torn) <= 6


def test_a_source_that_cannot_be_read_is_not_the_files_fault(tmp_path: Path) -> None:
    class Away(MemoryDatabase):
        def get_sessions(self) -> list[Session]:
            raise DatabaseFileError("the server is away")

    with pytest.raises(DatabaseFileError, match="^the server is away$"):
        export_records(Away(), tmp_path / "records.jsonl")
    assert not list(tmp_path.iterdir())


def test_unwritable_and_missing_paths_are_named(source: MemoryDatabase, tmp_path: Path) -> None:
    with pytest.raises(DatabaseFileError, match=r"cannot write tuning records to .*nowhere"):
        export_records(source, tmp_path / "nowhere" / "records.jsonl")
    with pytest.raises(DatabaseFileError, match=r"cannot read tuning records from .*none\.jsonl"):
        import_records(MemoryDatabase(), tmp_path / "none.jsonl")


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_files_of_earlier_versions_are_read(path: Path) -> None:
    """Fixtures are what a released version wrote; they are added to, never rewritten."""
    loaded = MemoryDatabase()
    assert import_records(loaded, path) == 3
    kinds = [r.failure_kind for r in loaded.get_all_tuning_records()]
    assert kinds == [None, None, "crash"]
    best = loaded.get_all_tuning_records()[1]
    assert best.mean_secs == 1e-3 and best.verified and best.metrics == {}
    assert best.workload.summary.args[0] == ("A", "float32", (4, 4))
    assert "split" in str(best.trace) and best.schedule().mod["main"].params
    assert [session.id for session in loaded.get_sessions()] == ["5e55"]


def test_programs_are_hashed_anew(source: MemoryDatabase, tmp_path: Path) -> None:
    """A version that hashed differently wrote the file; its records are found all the same."""
    path = tmp_path / "records.jsonl"
    export_records(source, path)
    shash = source.commit_workload(matmul()).shash
    path.write_text(path.read_text().replace(shash, "123"))
    copy = MemoryDatabase()
    import_records(copy, path)
    assert copy.query_tuning_record(matmul(), TARGET) is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run_secs": "123"}, "line 2: run_secs of a tuning record cannot be .123"),
        ({"workload": []}, "line 2: .*unhashable"),
        ({"kind": "note"}, "line 2: a line of unknown kind 'note'"),
        ({"kind": ["record"]}, "line 2 is not a tuning record"),
        ({"v": True}, "line 2 is not a tuning record"),
        ({"args_info": [{"a": 1}]}, "line 2: cannot read argument info"),
    ],
)
def test_odd_lines_are_named_and_left_out(
    tmp_path: Path, change: dict[str, Any], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = MemoryDatabase()
    workload = database.commit_workload(matmul())
    for secs in (1.0, 2.0):
        database.commit_tuning_record(record(workload, secs))
    path = tmp_path / "odd.jsonl"
    export_records(database, path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1].update(change)
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, lines[0]]))
    copy, left_out = MemoryDatabase(), LeftOut()
    assert import_records(copy, path, left_out) == 1 and left_out.count == 1
    assert [item.secs for item in copy.get_all_tuning_records()] == [2.0]
    assert re.search(message, caplog.text)


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"v":1,"kind":' + "[" * 100_000])
def test_lines_that_are_nested_too_deeply_are_named(
    source: MemoryDatabase, tmp_path: Path, deep: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "records.jsonl"
    export_records(source, path)
    text = path.read_text()
    path.write_text(f"{text}{deep}\n{text}")
    assert import_records(MemoryDatabase(), path) == 6
    assert "records.jsonl', line 10 is not a tuning record" in caplog.text


@pytest.mark.parametrize("extents", ["[Infinity,4]", "[NaN,4]", "[[],4]", "4"])
def test_records_whose_arguments_have_no_extents_are_named(
    source: MemoryDatabase, tmp_path: Path, extents: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "records.jsonl"
    export_records(source, path)
    text = path.read_text()
    assert '"float32",[4,4]' in text
    path.write_text(text.replace('"float32",[4,4]', f'"float32",{extents}'))
    assert import_records(MemoryDatabase(), path) == 0
    assert re.search(r"records\.jsonl', line \d+: ", caplog.text)


def test_a_broken_line_is_named_once_though_a_file_is_read_twice(
    source: MemoryDatabase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "records.jsonl"
    export_records(source, path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], "no record", *lines[3:]]) + "\n")
    left_out = LeftOut()
    assert import_records(MemoryDatabase(), path, left_out) == 6 and left_out.count == 1
    assert caplog.text.count("line 4 is not a tuning record") == 1


@pytest.mark.parametrize(
    "value", ["NaN", "-Infinity", "1e999", '"\\ud800"'], ids=["nan", "infinity", "large", "half"]
)
def test_what_no_storage_can_hold_is_left_out(
    source: MemoryDatabase, tmp_path: Path, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Python reads more than JSON has, and could not write it again."""
    path = tmp_path / "records.jsonl"
    export_records(source, path)
    parts = path.read_text().rsplit('"fingerprint":{}', 3)
    path.write_text(f'"fingerprint":{{"cpu":{value}}}'.join(parts))
    copy = MemoryDatabase()
    assert import_records(copy, path) == 4  # the session's line was one of the three
    assert "no JSON can hold" in caplog.text
    assert export_records(copy, tmp_path / "again.jsonl") == len(copy)


def test_a_record_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    store = open_database(f"{tmp_path}/records/")
    broken = record(store.commit_workload(matmul()), 1.0, fingerprint={"cpu": float("nan")})
    with pytest.raises(DatabaseError, match="no JSON can hold"):
        store.commit_tuning_record(broken)
    assert len(store) == 0


def test_an_export_and_an_import_hold_a_few_records_in_memory(tmp_path: Path) -> None:
    """Three times as many take no more."""
    peaks: dict[str, list[float]] = {"export": [], "import": []}
    for count in (1100, 3300):
        folder = tmp_path / str(count)
        folder.mkdir()
        with closing(SQLDatabase(folder / "a.db")) as source, closing(SQLDatabase(folder / "b.db")) as other:
            workload = source.commit_workload(matmul())
            records = (record(workload, 1.0 + index, name=f"{index} {'x' * 500}") for index in range(count))
            source.commit_tuning_records(records)
            other.commit_workload(matmul())
            for what, act in (
                ("export", lambda: export_records(source, folder / "a.jsonl")),
                ("import", lambda: import_records(other, folder / "a.jsonl")),
            ):
                gc.collect()
                tracemalloc.start()
                assert act() == count
                peaks[what].append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
    for few, many in peaks.values():
        assert many < 1.3 * few

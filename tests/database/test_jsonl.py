"""Export and import between databases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from database import (
    DatabaseError,
    DatabaseFileError,
    MemoryDatabase,
    Session,
    export_records,
    import_records,
    open_database,
    open_for_writing,
)
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
    assert [line["kind"] for line in lines] == ["session", *["workload"] * 2, *["record"] * 6]
    assert {line["v"] for line in lines} == {1}
    copy = MemoryDatabase()
    assert import_records(copy, path) == 6
    assert [r.as_json() for r in copy.get_all_tuning_records()] == [
        r.as_json() for r in source.get_all_tuning_records()
    ]
    assert copy.get_sessions() == source.get_sessions()
    assert import_records(copy, path) == 0  # importing twice adds nothing
    assert [p.name for p in tmp_path.iterdir()] == ["records.jsonl"]


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
        ({"run_secs": "123"}, "line 2: run times are a list of seconds"),
        ({"workload": []}, "line 2: .*unhashable"),
        ({"kind": "note"}, "line 2: a line of unknown kind 'note'"),
        ({"kind": ["record"]}, "line 2 is not a tuning record"),
        ({"v": True}, "line 2 is not a tuning record"),
        ({"args_info": [{"a": 1}]}, "line 2: cannot read argument info"),
    ],
)
def test_odd_lines_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    database = MemoryDatabase()
    workload = database.commit_workload(matmul())
    database.commit_tuning_record(record(workload, 1.0))
    path = tmp_path / "odd.jsonl"
    export_records(database, path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1].update(change)
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, lines[0]]))
    with pytest.raises(DatabaseError, match=message):
        import_records(MemoryDatabase(), path)


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"v":1,"kind":' + "[" * 100_000])
def test_lines_that_are_nested_too_deeply_are_named(
    source: MemoryDatabase, tmp_path: Path, deep: str
) -> None:
    path = tmp_path / "records.jsonl"
    export_records(source, path)
    text = path.read_text()
    path.write_text(f"{text}{deep}\n{text}")
    with pytest.raises(DatabaseFileError, match=r"records\.jsonl', line 10 is not a tuning record"):
        import_records(MemoryDatabase(), path)


@pytest.mark.parametrize("extents", ["[Infinity,4]", "[NaN,4]", "[[],4]", "4"])
def test_records_whose_arguments_have_no_extents_are_named(
    source: MemoryDatabase, tmp_path: Path, extents: str
) -> None:
    path = tmp_path / "records.jsonl"
    export_records(source, path)
    text = path.read_text()
    assert '"float32",[4,4]' in text
    path.write_text(text.replace('"float32",[4,4]', f'"float32",{extents}'))
    with pytest.raises(DatabaseError, match=r"records\.jsonl', line \d+: "):
        import_records(MemoryDatabase(), path)

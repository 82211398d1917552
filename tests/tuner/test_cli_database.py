"""``loopsmith db``: what the commands show, remove, verify and compare, and that those that read change nothing."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from database import (
    RIGHT,
    Session,
    SQLDatabase,
    TuningRecord,
    export_records,
    hardware_fingerprint,
    open_database,
    software_versions,
)
from ir.target import Target
from schedules import Schedule
from tests.database.attack import commit
from tests.programs.expressions import matmul
from tests.tuner.test_cli import _on_terminal
from tuner.cli import main as entry
from tuner.cli.database import removal
from tuner.verification import records_to_verify, verify_records

TARGET = Target("cpu")
GONE: Any = [[["GetBlock", [], ["gone", "main"], ["b0"]]], []]
NEWER: Any = [[["FoldSpace", [], ["C", "main"], ["b0"]]], []]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def db(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``loopsmith db`` in this process: its status, output and complaints."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["loopsmith", "db", *map(str, arguments)])
        status = 0
        try:
            entry.main()
        except SystemExit as error:
            status = int(error.code or 0)
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def trace(tile: int) -> Any:
    sch = Schedule(matmul(16))
    sch.split(sch.get_loops("C")[0], [None, tile])
    assert sch.trace is not None
    return sch.trace.as_json()


def keep(
    store: SQLDatabase, trace_json: Any, secs: float | None, size: int = 16, **more: Any
) -> TuningRecord:
    options = {"failure_kind": "crash"} if secs is None else {"verified": True}
    found = TuningRecord(
        None, store.commit_workload(matmul(size)), None if secs is None else [secs] * 3, TARGET,
        trace_json=trace_json, **options, **more,
    )  # fmt: skip
    store.commit_tuning_record(found)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two kernels: candidates of 1, 2 and 3 ms and a failed one of the first, nothing of the second."""
    where = tmp_path / "tuning.db"
    with closing(SQLDatabase(where)) as store:
        kernels = {store.commit_workload(matmul(16)).shash: "conv[v15, v16]"}
        store.commit_session(
            Session("s1", "loopsmith tune --database postgresql://ann:top@server/db", 3, 10.0, 75.0,
                    {"cpu": "znver9"}, {"loopsmith": "0.1"}, kernels)
        )  # fmt: skip
        for tile, secs in ((2, 1e-3), (4, 2e-3), (8, 3e-3)):
            keep(store, trace(tile), secs, session_id="s1", created_at=1e9, metrics={"energy": 0.5})
        keep(store, trace(1), None, failure_message="it[0] fell")
        store.commit_workload(matmul(32))
    return where


def ids(path: Path) -> list[str]:
    with closing(open_database(path, must_exist=True)) as store:
        return [item.digest for item in store.get_all_tuning_records()]


def test_kernels_are_listed_with_their_names_brackets_included(db: Run, path: Path) -> None:
    status, shown, _ = db("ls", path)
    assert status == 0 and "conv[v15, v16]" in shown and "16x16, 16x16, 16x16" in shown
    told = json.loads(db("ls", path, "--json")[1])
    assert [item["name"] for item in told] == ["conv[v15, v16]", "C"]
    assert [told[0][name] for name in ("trials", "failed", "best_secs")] == [4, 1, 1e-3]
    assert told[0]["gflops"] == pytest.approx(2 * 16**3 / 1e-3 / 1e9)


@pytest.mark.parametrize("columns", [80, 60])
def test_lists_fit_narrow_terminals(columns: int, path: Path) -> None:
    for arguments in (["ls"], ["top"], ["history"], ["prune", "--keep", "1", "--dry-run"]):
        status, lines = _on_terminal(
            "db", arguments[0], str(path.name), *arguments[1:], columns=columns, cwd=path.parent
        )
        text = "\n".join(lines)
        assert status == 0 and max(map(len, lines)) <= columns and "…" not in text, text
        assert ("conv[v15," in text and "v16]" in text) or arguments[0] == "history"
    status, lines = _on_terminal("db", "--help", columns=columns, cwd=path.parent)
    assert status == 0 and max(map(len, lines)) <= columns


def test_a_record_is_shown_in_full(db: Run, path: Path) -> None:
    best = ids(path)[0]
    status, shown, _ = db("show", path, best[:6])
    assert status == 0
    for part in (
        f"record {best} of #0 conv[v15, v16]", "time: 1.0000 ms, give or take", "rate: 0.0 GFLOP/s", "energy: 0.5",
        "number 1 of 3 on its target; it applies", "session: s1, loopsmith tune --database postgresql://ann:***@server/db",
        "hardware: cpu znver9", "versions: loopsmith 0.1",
        "sch.split(", "# program\n", "# scheduled program\n", "T.grid(16, 16, 16)",
    ):  # fmt: skip
        assert part in shown, part
    assert "program" not in db("show", path, best, "--no-programs")[1].replace("of the program", "")
    told = json.loads(db("show", path, "conv[v15, v16]", "--json")[1])
    assert (
        told["id"] == best
        and told["stands"]
        and "T.grid" in told["program"]
        and told["run_secs"] == [1e-3] * 3
    )
    assert told["fingerprint"] == {"cpu": "znver9"} and told["versions"] == {"loopsmith": "0.1"}
    assert "failed: crash: it[0] fell" in db("show", path, ids(path)[3])[1]
    for asked, says in (
        ("ffff", "neither a record"),
        (best[:3], "the beginning of a record's id has 4 characters at least"),
        ("1", "#1 C has no records yet"),
    ):
        status, _, complaint = db("show", path, asked)
        assert status == 2 and says in complaint


def test_sessions_are_listed(db: Run, path: Path) -> None:
    status, shown, _ = db("history", path)
    assert status == 0 and "1:05" in shown and "znver9" in shown and "ann:***@server" in shown
    (told,) = json.loads(db("history", path, "--json")[1])
    assert (told["records"], told["failed"], told["seed"]) == (3, 0, 3) and ":top@" not in told["command"]


def test_a_name_cannot_drive_the_terminal(db: Run, tmp_path: Path) -> None:
    """Control characters of who wrote a database, and halves of characters, are shown as what cannot be shown."""
    with closing(SQLDatabase(tmp_path / "odd.db")) as store:
        shash = store.commit_workload(matmul()).shash
        names = ["\x1b]0;title\x07", "lone \ud800", "\x9b31m", "\u202e"]
        for number, name in enumerate(names):
            store.commit_session(Session(id=f"s{number}", command=name, kernels={shash: name}))
    for arguments in (("ls",), ("history",)):
        status, shown, complaints = db(arguments[0], tmp_path / "odd.db")
        assert status == 0 and "\ufffd" in shown
        assert not set(shown + complaints) & set("\x1b\x07\x9b\u202e\ud800")


def test_records_are_removed_by_their_ids(db: Run, path: Path) -> None:
    first, second, *rest = ids(path)
    status, shown, _ = db("rm", path, first[:8], "--dry-run")
    assert status == 0 and "1 record of 1 candidate would go; nothing was removed" in shown
    assert len(ids(path)) == 4
    status, _, complaint = db("rm", path, first[:8])
    assert status == 2 and "--yes" in complaint and len(ids(path)) == 4
    assert db("rm", path, first[:8], "--yes")[0] == 0 and ids(path) == [second, *rest]
    status, shown, _ = db("rm", path, "--kernel", "conv[v15, v16]", "-y")
    assert status == 0 and ids(path) == [] and "has no record of a candidate that ran afterwards" in shown
    assert db("rm", path)[0] == 2 and db("rm", path, "--session", "none")[0] == 2


def test_a_person_is_asked(db: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        @staticmethod
        def isatty() -> bool:
            return True

    monkeypatch.setattr(removal.sys, "stdin", Terminal())
    for answer, left in ((False, 4), (True, 3)):
        monkeypatch.setattr(removal.typer, "confirm", lambda question, answer=answer: answer)
        db("rm", path, ids(path)[0])
        assert len(ids(path)) == left


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--keep", "1"], [0, 3]),
        (["--keep", "2"], [0, 1, 3]),
        (["--keep", "0"], [3]),
        (["--failures"], [0, 1, 2]),
        (["--keep", "1", "--failures"], [0]),
        (["--older-than", "30d"], [3]),
        (["--failures", "--older-than", "30d"], [0, 1, 2, 3]),
        (["--keep", "1", "--older-than", "1h"], [0, 3]),
    ],
    ids=str,
)
def test_pruning_keeps_what_it_says(options: list[str], left: list[int], db: Run, path: Path) -> None:
    before = ids(path)
    assert db("prune", path, *options, "--dry-run")[0] == 0 and ids(path) == before
    told = json.loads(db("prune", path, *options, "--yes", "--json")[1])
    assert ids(path) == [before[place] for place in left]
    assert told["removed"] == len(told["records"]) == 4 - len(left)


def test_pruning_counts_records_that_apply_and_leaves_those_of_newer_versions(db: Run, path: Path) -> None:
    with closing(SQLDatabase(path)) as store:
        keep(store, GONE, 1e-5)
        newer = keep(store, NEWER, 1e-6).digest
    best = ids(path)[0]
    assert db("prune", path, "--keep", "1", "--failures", "--yes")[0] == 0
    assert ids(path) == [best, newer]


def test_what_is_wrong_stays_wrong_when_others_are_removed(db: Run, path: Path) -> None:
    with closing(SQLDatabase(path)) as store:
        first = store.get_all_tuning_records()[0]
        store.commit_tuning_record(first.measured_again(None, failure_kind="wrong_result"))
    assert db("prune", path, "--keep", "5", "--yes")[0] == 0 and len(ids(path)) == 5
    db("rm", path, ids(path)[-1], "--yes")
    assert first.digest not in ids(path)


@pytest.mark.parametrize("options", [[], ["--older-than", "soon"], ["--keep", "-1"]], ids=str)
def test_odd_prunings_are_refused(options: list[str], db: Run, path: Path) -> None:
    assert db("prune", path, *options, "--yes")[0] == 2 and len(ids(path)) == 4


def test_garbage_is_collected(db: Run, path: Path) -> None:
    assert "1 kernel without records would go: C" in db("gc", path, "--dry-run")[1]
    assert db("gc", path)[1].startswith("removed 1 kernel")
    assert "removed 0 kernels" in db("gc", path)[1] and len(ids(path)) == 4


def test_databases_are_compared(db: Run, path: Path, tmp_path: Path) -> None:
    export_records(open_database(path), tmp_path / "old.jsonl")
    assert "the same 4 records in both" in db("diff", path, tmp_path / "old.jsonl")[1]
    with closing(SQLDatabase(path)) as store:
        keep(store, trace(16), 0.5e-3)
    (told,) = json.loads(db("diff", path, tmp_path / "old.jsonl", "--json")[1])
    assert (told["first_secs"], told["second_secs"], told["ratio"]) == (0.5e-3, 1e-3, 2.0)
    assert (told["only_first"], told["only_second"]) == (1, 0)
    assert "0.5000" in db("diff", path, tmp_path / "old.jsonl")[1]


def test_several_databases_are_merged(db: Run, path: Path, tmp_path: Path) -> None:
    export_records(open_database(path), tmp_path / "a.jsonl")
    with closing(SQLDatabase(tmp_path / "b.db")) as store:
        commit(store, 1.0)
    status, shown, _ = db("merge", tmp_path / "all.db", tmp_path / "a.jsonl", tmp_path / "b.db", path)
    assert status == 0 and "has 5 records now" in shown and "4 were there already" in shown
    status, _, complaint = db("merge", tmp_path / "new.db", path, tmp_path / "missing.db")
    assert status == 2 and "missing.db" in complaint and not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(
    "arguments",
    [["ls"], ["top"], ["show", "0"], ["history"], ["diff"], ["prune", "--keep", "1", "--dry-run"],
     ["rm", "--kernel", "0", "--dry-run"], ["gc", "--dry-run"]],
    ids=lambda item: item[0],
)  # fmt: skip
def test_who_reads_writes_nothing(arguments: list[str], db: Run, path: Path) -> None:
    before = path.read_bytes(), path.stat().st_mtime_ns
    more = [path] if arguments[0] == "diff" else []
    assert db(arguments[0], path, *more, *arguments[1:])[0] == 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_one_bad_record_stops_no_command(db: Run, path: Path, tmp_path: Path) -> None:
    """A program that is none, a trace that is none, one of a newer version, one that does not apply, one without a target."""
    with closing(SQLDatabase(path)) as store:
        for trace_json in (GONE, NEWER, [1, 2], [], None):
            keep(store, trace_json, 1e-6)
        lost = TuningRecord(None, store.commit_workload(matmul(8)), [1e-6], None, trace_json=trace(2))
        store.commit_tuning_record(lost)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE workloads SET module = 'no program', summary = '{}' WHERE id = 2")
        connection.commit()
    bad = ids(path)[4:]
    for arguments in (
        ["ls", path], ["top", path, "-k", "9", "--trace"], ["history", path], ["diff", path, path, "--all"],
        *(["show", path, item] for item in bad), ["export", path, tmp_path / "a.jsonl"],
        ["export", path, tmp_path / "b.jsonl", "--pruned"], ["merge", tmp_path / "n.db", path], ["import", tmp_path / "m.db", path],
        ["verify", path, "--top", "9"], ["prune", path, "--keep", "1", "--failures", "-y"], ["rm", path, bad[0], "-y"], ["gc", path],
    ):  # fmt: skip
        status, _, complaint = db(*arguments)
        assert status in (0, 1) or (arguments[0] == "rm" and status == 2), (arguments, complaint)
        assert "Traceback" not in complaint
    lines = [json.loads(item) for item in (tmp_path / "b.jsonl").read_text().splitlines()]
    best = [item["run_secs"] for item in lines if item["kind"] == "record" and item["target"]]
    assert best == [[1e-3] * 3]  # those that are faster do not apply


# ------------------------------------------------------------------------------------------------ verify


@pytest.fixture
def odd(path: Path) -> Path:
    """The fastest records do not apply, and are of a newer version."""
    with closing(SQLDatabase(path)) as store:
        keep(store, GONE, 1e-5)
        keep(store, NEWER, 1e-6)
    return path


def test_what_fails_is_marked_and_builds_pass_it_over(db: Run, odd: Path) -> None:
    status, shown, complaint = db("verify", odd)
    assert status == 1 and "verified 5 of 5 records: 3 right" in shown
    assert "illegal_schedule (marked)" in complaint and "unreadable (not marked)" in complaint
    with closing(SQLDatabase(odd)) as store:
        assert [item.secs for item in store.get_top_k(store.commit_workload(matmul(16)), 9)] == [
            1e-6,
            1e-3,
            2e-3,
            3e-3,
        ]
        session = store.get_sessions()[-1]
        assert sorted(session.verified.values()) == ["illegal_schedule", RIGHT, RIGHT, RIGHT]
        assert session.command == "loopsmith db verify" and session.finished_at is not None
    status, shown, _ = db("verify", odd)
    assert status == 0 and "verified 1 of 1 record: 1 this version cannot read" in shown
    assert "verified: right," in db("show", odd, ids(odd)[0])[1]
    told = json.loads(db("verify", odd, "--again", "--top", "2", "--json")[1])
    assert told["of"] == 2 and told["outcomes"] == {"unreadable": 1, "right": 1}


def test_a_record_that_computes_something_else_is_wrong_for_good(db: Run, path: Path) -> None:
    """As one that an unsafe step has made, or another version's code generation."""
    sch = Schedule(matmul(16))
    sch.cache_write("C", 0, "global")
    sch.unsafe_set_dtype("C", 0, "int8")
    assert sch.trace is not None
    with closing(SQLDatabase(path)) as store:
        keep(store, sch.trace.as_json(), 1e-5)
    status, _, complaint = db("verify", path, "--top", "1")
    assert status == 1 and "wrong_result (marked)" in complaint
    with closing(SQLDatabase(path)) as store:
        marked = store.get_all_tuning_records()[-1]
        assert marked.is_wrong and (marked.failure_message or "").endswith(", when it was verified")
        assert [item.secs for item in store.get_top_k(marked.workload, 9)] == [1e-3, 2e-3, 3e-3]


def test_a_verification_that_is_interrupted_goes_on_where_it_was(
    db: Run, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(store: Any, records: Any, **options: Any) -> Any:
        for number, found in enumerate(verify_records(store, records, **options)):
            if number == 1:
                raise KeyboardInterrupt
            yield found

    monkeypatch.setattr("tuner.cli.database.verification.verify_records", interrupted)
    status, shown, _ = db("verify", path)
    assert status == 130 and "verified 1 of 3 records" in shown and "the same command goes on" in shown
    monkeypatch.undo()
    monkeypatch.setattr(sys, "argv", ["loopsmith", "db", "verify", str(path), "--json"])
    entry.main()
    assert json.loads(capsys.readouterr().out)["outcomes"] == {"right": 1}


def test_another_version_verifies_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SQLDatabase(path)) as store:
        first, *_ = records = records_to_verify(store)
        store.commit_session(
            Session(
                fingerprint=hardware_fingerprint(),
                versions=software_versions(),
                verified={first.digest: RIGHT},
            )
        )
        assert [item.digest for item in records_to_verify(store)] == [item.digest for item in records[1:]]
        monkeypatch.setattr("tuner.verification.software_versions", lambda: {"loopsmith": "9"})
        assert len(records_to_verify(store)) == len(records) == 3


def test_every_command_teaches_by_an_example(db: Run) -> None:
    for name in (
        "ls",
        "top",
        "show",
        "history",
        "verify",
        "rm",
        "prune",
        "gc",
        "merge",
        "diff",
        "export",
        "import",
        "export-study",
    ):
        status, shown, _ = db(name, "--help")
        assert status == 0 and re.search(rf"Example: loopsmith\s+db\s+{name}", shown), name

"""Passwords are masked wherever a URL may be kept or shown."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from database import (
    DatabaseError,
    MemoryDatabase,
    Session,
    TuningRecord,
    Workload,
    export_records,
    import_records,
    open_database,
)
from database.secrets import masked
from tests.database.contract import TARGET, record
from tests.programs.nodes import matmul


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:top@server:5432/db", "postgresql://ann:***@server:5432/db"),
        ("postgresql+psycopg://:top@server/db", "postgresql+psycopg://:***@server/db"),
        ("see mysql://ann:t@o/p@server/db.", "see mysql://ann:***@server/db."),
        ("a postgresql://a:b@c/d e mysql://f:g@h/i", "a postgresql://a:***@c/d e mysql://f:***@h/i"),
        ("postgresql://server/db?user=ann&password=top&x=1", "postgresql://server/db?user=ann&password=***&x=1"),
        ("host=server user=ann password='to p' dbname=d", "host=server user=ann password=*** dbname=d"),
        ("postgresql://ann@tenant:top@server/db", "postgresql://ann@tenant:***@server/db"),
        ("postgresql://o'neil?#:top@server/db", "postgresql://o'neil?#:***@server/db"),
        ("tune --database postgresql://ann:to p@server/db -q", "tune --database postgresql://ann:***@server/db -q"),
        ("mssql+pyodbc:///?odbc_connect=UID%3Dann%3BPWD%3Dtop%3BX%3D1", "mssql+pyodbc:///?odbc_connect=UID%3Dann%3BPWD%3D***%3BX%3D1"),
        ("mssql+pyodbc:///?odbc_connect=PWD={t;op};UID=ann", "mssql+pyodbc:///?odbc_connect=PWD=***;UID=ann"),
        ("postgresql://server:5432/db is away, ask ann@server", "postgresql://server:5432/db is away, ask ann@server"),
        ("postgresql://server:5432 is away, ask ann@server", "postgresql://server:5432 is away, ask ann@server"),
        ("postgresql://server:5432/db", "postgresql://server:5432/db"),
        ("postgresql://ann@server/db", "postgresql://ann@server/db"),
        ("sqlite:///folder/tuning.db", "sqlite:///folder/tuning.db"),
        ("tuning.db", "tuning.db"),
        ("conv2d[v15, v16]: 3 at 12:30", "conv2d[v15, v16]: 3 at 12:30"),
    ],
)  # fmt: skip
def test_passwords_are_masked_and_nothing_else(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize("part", ["a", "a-", "://b:", "a://b:c ", "password", "pwd=", "token '", "://b: "])
def test_a_long_text_is_looked_at_once(part: str) -> None:
    """What a record says may be megabytes; a search that begins anew at each character would take hours."""
    text = f"{part * (1_000_000 // len(part))} x://ann:top@server"
    assert masked(text).endswith("x://ann:***@server")


def test_sessions_and_records_keep_no_password(tmp_path: Path) -> None:
    """Also what an older version wrote is read, and exported again, without it."""
    command = "loopsmith tune --database postgresql://ann:top@server/db"
    store, workload = MemoryDatabase(), Workload(matmul())
    store.commit_session(Session(id="s", command=command))
    store.commit_tuning_record(
        TuningRecord(None, workload, None, TARGET, failure_kind="run_error", failure_message=f"at {command}", trace_json=[[], []])
    )  # fmt: skip
    export_records(store, tmp_path / "new.jsonl")
    assert ":top@" not in (tmp_path / "new.jsonl").read_text()
    old = (tmp_path / "new.jsonl").read_text().replace("ann:***@", "ann:top@")
    (tmp_path / "old.jsonl").write_text(old)
    again = MemoryDatabase()
    import_records(again, tmp_path / "old.jsonl")
    export_records(again, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "new.jsonl").read_text()
    assert json.loads((tmp_path / "again.jsonl").read_text().splitlines()[-1])["command"].count("***") == 1


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://ann:top@127.0.0.1:1/db",
        "postgresql+psycopg://127.0.0.1:1/db?user=ann&password=top",
        "postgresql://ann:top@host:port/db",
        "nosuch://ann:top@server/db",
        "sqlite://ann:top@server",
    ],
)
def test_messages_about_a_database_have_no_password(url: str, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("psycopg")
    with caplog.at_level(logging.DEBUG), pytest.raises(DatabaseError) as caught:
        store = open_database(url)
        store.commit_tuning_record(record(store.commit_workload(matmul()), 1.0))
    assert "top" not in str(caught.value) + repr(caught.value) + caplog.text

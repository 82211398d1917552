"""SQLDatabase on SQLite and PostgreSQL: the contract, races, crashes, schema versions, and what users get wrong."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError

from database import (
    Database,
    DatabaseError,
    DatabaseFileError,
    SchemaVersionError,
    Session,
    Workload,
    open_database,
)
from database.schema import HEAD_REVISION, Base
from database.sql import SQLDatabase
from database.sql_schema import alembic_config, known_revisions
from tests.database.contract import TARGET, DatabaseContract, record
from tests.database.older import make_older
from tests.programs.nodes import matmul, scaled


def text_file(folder: Path) -> Path:
    path = folder / "notes.db"
    path.write_text("these are notes, and not a database at all. " * 50)
    return path


POSTGRES_URL = os.environ.get("TEST_POSTGRES_URL")


class TestSQLite(DatabaseContract):
    @pytest.fixture
    def database(self, tmp_path: Path) -> Iterator[Database]:
        self.opened = [SQLDatabase(tmp_path / "tuning.db")]
        yield self.opened[0]
        for each in self.opened:
            each.close()

    def reopen(self, database: Database) -> Database:
        self.opened.append(SQLDatabase(self.opened[0].url, must_exist=True))
        return self.opened[-1]


@pytest.mark.postgres
@pytest.mark.skipif(POSTGRES_URL is None, reason="TEST_POSTGRES_URL names no server")
class TestPostgreSQL(DatabaseContract):
    @pytest.fixture
    def database(self) -> Iterator[Database]:
        name = f"test_{uuid.uuid4().hex}"
        admin = create_engine(make_url(POSTGRES_URL or ""), isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        self.opened = [SQLDatabase(make_url(POSTGRES_URL or "").set(database=name))]
        yield self.opened[0]
        for each in self.opened:
            each.close()
        with admin.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()

    def reopen(self, database: Database) -> Database:
        self.opened.append(SQLDatabase(self.opened[0].url))
        return self.opened[-1]

    def test_what_four_processes_commit_to_a_server_at_once_is_there_once(
        self, database: SQLDatabase
    ) -> None:
        commit_the_same_at_once(database.url)

    def test_the_server_refuses_duplicates_of_programs_that_do_not_look(self, database: SQLDatabase) -> None:
        database.commit_tuning_record(record(Workload(matmul()), 1.0))
        with database._session() as session, pytest.raises(IntegrityError, match="uq_records_measurement"):
            copied = (
                "workload_id, target_id, verified, cut, remeasured, created_at, trace, details, trace_hash"
            )
            session.execute(text(f"INSERT INTO records ({copied}) SELECT {copied} FROM records"))

    def test_a_reader_misses_no_record_of_a_slow_commit(self, database: SQLDatabase) -> None:
        """A record has its number before it is committed: of two at once, the later number must not be seen first."""
        other, workload = SQLDatabase(database.url), Workload(matmul())
        self.opened.append(other)
        for each in (database, other):  # what they look up before they write is known to both
            each.commit_tuning_record(record(workload, 3.0))
        has_number, may_commit = threading.Event(), threading.Event()

        def wait(connection: object) -> None:
            has_number.set()
            may_commit.wait(30)

        event.listen(database._connections.live_engine(), "commit", wait)
        slow = threading.Thread(target=database.commit_tuning_record, args=[record(workload, 1.0)])
        quick = threading.Thread(target=other.commit_tuning_record, args=[record(workload, 2.0)])
        slow.start()
        assert has_number.wait(30)
        quick.start()
        quick.join(1)
        with SQLDatabase(database.url) as reader:
            seen = reader.get_records(workload, TARGET)
            may_commit.set()
            slow.join(30)
            quick.join(30)
            seen += reader.get_records(workload, TARGET, len(seen))
        assert [each.secs for each in seen] == [3.0, 3.0, 1.0, 2.0]


def test_migrations_make_exactly_the_declared_schema(tmp_path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    made = SQLDatabase(tmp_path / "a.db")
    made.commit_workload(matmul())
    with create_engine(made.url).connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, Base.metadata) == []
        assert context.get_current_revision() == HEAD_REVISION
        assert set(inspect(connection).get_table_names()) == {*Base.metadata.tables, "alembic_version"}
    scripts = ScriptDirectory.from_config(alembic_config())
    assert scripts.get_current_head() == HEAD_REVISION == known_revisions()[-1]


def test_a_file_refuses_duplicates_of_programs_that_do_not_look(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    with closing(SQLDatabase(path)) as made:
        made.commit_tuning_record(record(Workload(matmul()), 1.0))
        made.commit_tuning_record(record(Workload(matmul()), 1.0, None))
    copied = "workload_id, target_id, verified, cut, remeasured, created_at, trace, details, trace_hash"
    with closing(sqlite3.connect(path)) as connection:
        for row in (1, 2):  # the second has no target
            with pytest.raises(sqlite3.IntegrityError, match="UNIQUE constraint failed"):
                connection.execute(
                    f"INSERT INTO records ({copied}) SELECT {copied} FROM records WHERE id = ?", (row,)
                )


@pytest.mark.parametrize(
    "question",
    [
        lambda store, item: store.get_top_k(item, 3),
        lambda store, item: store.query_tuning_record(item.mod, TARGET),
        lambda store, item: store.fastest_records(item, TARGET),
        lambda store, item: store.get_records(item, TARGET, 1),
        lambda store, item: store.count_trials(item, TARGET),
        lambda store, item: store.nearest_record(matmul(4, 4, 6), TARGET),
        lambda store, item: store.similar_workloads(Workload(matmul(4, 4, 6)), TARGET, 3),
        lambda store, item: store.recent_records(TARGET, 3),
        lambda store, item: store.commit_tuning_record(record(item, 1.0)),
    ],
    ids=["top", "query", "fastest", "records", "trials", "nearest", "similar", "recent", "commit"],
)
def test_no_question_reads_the_whole_table_of_records(tmp_path: Path, question: Any) -> None:
    """Each statement finds its records by an index; so does what is asked before a record is kept."""
    statements: list[tuple[str, Any]] = []
    with closing(SQLDatabase(tmp_path / "tuning.db")) as made:
        workload = made.commit_workload(matmul())
        made.commit_tuning_records([record(workload, 1.0), record(workload, 2.0, remeasured=True)])

        def note(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            statements.append((statement, parameters))

        event.listen(made._connections.live_engine(), "before_cursor_execute", note)
        question(made, workload)
    asked = [item for item in statements if "records" in item[0] and not item[0].startswith("INSERT")]
    assert asked
    with closing(sqlite3.connect(tmp_path / "tuning.db")) as connection:
        for statement, parameters in asked:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            assert not any(step[3].startswith("SCAN records") for step in plan), (statement, plan)


def test_every_commit_is_there_after_kill_9(tmp_path: Path) -> None:
    """A process that commits as fast as it can is killed at some moment; what it reported as committed is there."""
    path = tmp_path / "killed.db"
    program = (
        "import sys\n"
        "from database import open_database\n"
        "from tests.database.contract import record\n"
        "from tests.programs.nodes import matmul\n"
        "db = open_database(sys.argv[1])\n"
        "workload = db.commit_workload(matmul())\n"
        "for i in range(100000):\n"
        "    db.commit_tuning_record(record(workload, 1.0 + i))\n"
        "    print(i, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    reported = 1 + len(process.stdout.read().splitlines())
    process.wait()
    process.stdout.close()
    found = len(SQLDatabase(path, must_exist=True))
    assert reported <= found <= reported + 1
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_processes_may_open_a_new_database_and_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    program = (
        "import sys\n"
        "from database import open_database\n"
        "from tests.database.contract import record\n"
        "from tests.programs.nodes import matmul\n"
        "db = open_database(sys.argv[1])\n"
        "workload = db.commit_workload(matmul())\n"
        "for i in range(20):\n"
        "    db.commit_tuning_record(record(workload, 1.0 + i))\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program, str(path)]) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    made = SQLDatabase(path)
    assert len(made) == 60 and len(made.get_workloads()) == 1


SAME_CANDIDATES = """
import sys
from database import open_database
from tests.database.contract import record
from tests.programs.nodes import matmul
store = open_database(sys.argv[1])
workload = store.commit_workload(matmul())
sys.stdin.readline()  # all begin at once
for number in range(10):
    store.commit_tuning_record(record(workload, 1.0 + number, name=str(number)))
    store.commit_tuning_record(record(workload, 1.0, name=f"{sys.argv[2]}.{number}"))
"""


def commit_the_same_at_once(url: Any) -> None:
    """Four processes measure ten candidates each that the others measure too, and ten that nobody else does."""
    command = [sys.executable, "-c", SAME_CANDIDATES, url.render_as_string(hide_password=False)]
    started = [subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE) for number in range(4)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in started:
        process.communicate()
    assert [process.returncode for process in started] == [0, 0, 0, 0]
    with closing(SQLDatabase(url, must_exist=True)) as database:
        names = [item.trace_json[0][0][2][0] for item in database.get_all_tuning_records()]
    assert len(names) == len(set(names)) == 10 + 4 * 10


def test_a_file_without_a_log_that_another_process_writes_is_waited_for(tmp_path: Path) -> None:
    """As one that is being made: SQLite switches to a log at once or not at all."""
    path = tmp_path / "tuning.db"
    with closing(open_database(path)) as store:
        store.commit_workload(matmul())
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        assert other.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.3, other.execute, ("COMMIT",))
        timer.start()
        with closing(open_database(path)) as store:
            store.commit_workload(scaled())
        timer.join()


def test_what_four_processes_commit_to_a_file_at_once_is_there_once(tmp_path: Path) -> None:
    commit_the_same_at_once(make_url(f"sqlite:///{tmp_path / 'tuning.db'}"))


def test_a_forked_child_uses_connections_of_its_own(tmp_path: Path) -> None:
    made = SQLDatabase(tmp_path / "forked.db")
    workload = made.commit_workload(matmul())
    made.commit_tuning_record(record(workload, 1.0))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            made.commit_tuning_record(record(workload, 2.0))
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    made.commit_tuning_record(record(workload, 3.0))
    assert len(made) == 3


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    with closing(SQLDatabase(path)) as made:
        made.commit_workload(matmul())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaVersionError, match=r"schema version '9999', which is newer.*update loopsmith"):
        SQLDatabase(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("9999",)


def test_two_processes_may_commit_the_calibration_of_one_machine(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    program = (
        "import sys\n"
        "from database import MachineCalibration, open_database\n"
        "db = open_database(sys.argv[1])\n"
        "for i in range(50):\n"
        "    db.commit_calibration(MachineCalibration({'cpu': 'a'}, 1, {'hertz': float(sys.argv[2])}))\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(path), number], stderr=subprocess.PIPE)
        for number in ("1", "2")
    ]
    assert [process.communicate()[1] for process in started] == [b"", b""]
    assert [process.returncode for process in started] == [0, 0]
    (kept,) = SQLDatabase(path, must_exist=True).get_calibrations()
    assert kept.figures["hertz"] in (1.0, 2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda folder: SQLDatabase(folder / "none.db", must_exist=True),
            r"none\.db' does not exist; .*loopsmith tune",
        ),
        (lambda folder: SQLDatabase(folder / "no" / "a.db"), "the folder .*no' does not exist"),
        (lambda folder: SQLDatabase(folder), "is a folder; name a file in it"),
        (lambda folder: SQLDatabase(text_file(folder)), "not an SQLite database or is damaged"),
        (lambda folder: SQLDatabase("sqlite://"), "'sqlite://' names no file.*use MemoryDatabase"),
        (lambda folder: SQLDatabase(":memory:"), "':memory:' names no file.*use MemoryDatabase"),
        (lambda folder: SQLDatabase(""), "'' names no file.*use MemoryDatabase"),
        (lambda folder: SQLDatabase(make_url("sqlite:///:memory:")), "use MemoryDatabase"),
        (lambda folder: SQLDatabase("sqlite:///file:a?mode=memory&uri=true"), "name the path of the file"),
        (lambda folder: SQLDatabase("nonsense://x/y"), "no database URL begins with nonsense://"),
        (lambda folder: SQLDatabase("postgres://nobody@localhost:1/none"), "did you mean 'postgresql'"),
        (lambda folder: SQLDatabase("postgresql://nobody@127.0.0.1:1/none"), "Check the URL, the server"),
        (lambda folder: open_database(3), "got int: 3"),  # type: ignore[arg-type]
        (lambda folder: open_database(folder), "folder without a JSON database"),
        (lambda folder: open_database(folder / "a.jsonl"), "does not exist"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, make: Any, message: str) -> None:
    with pytest.raises(DatabaseError, match=message):
        make(tmp_path)


def test_open_database_takes_every_name(tmp_path: Path) -> None:
    made = open_database(tmp_path / "a.db")
    assert isinstance(made, SQLDatabase) and open_database(made) is made
    made.commit_tuning_record(record(made.commit_workload(matmul()), 1.0))
    assert len(open_database(f"sqlite:///{tmp_path / 'a.db'}")) == 1
    assert len(open_database(str(tmp_path / "a.db"), must_exist=True)) == 1
    assert len(open_database(":memory:")) == 0
    assert type(open_database(f"{tmp_path / 'json'}/")).__name__ == "JSONDatabase"
    lines = Database.create("json", work_dir=tmp_path / "lines")
    lines.commit_tuning_record(record(lines.commit_workload(matmul()), 1.0))
    assert type(open_database(tmp_path / "lines")).__name__ == "JSONDatabase"


def test_passwords_are_not_shown() -> None:
    with pytest.raises(DatabaseFileError) as caught:
        SQLDatabase("postgresql://nobody:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)


def test_a_file_without_write_permission_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "read_only.db"
    made = SQLDatabase(path)
    made.commit_tuning_record(record(made.commit_workload(matmul()), 1.0))
    made.close()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    reader = SQLDatabase(path, must_exist=True)
    assert reader.query_tuning_record(matmul(), TARGET) is not None
    with pytest.raises(DatabaseFileError, match="can be read and written"):
        reader.commit_tuning_record(record(reader.commit_workload(matmul()), 2.0))


def test_workloads_that_an_older_version_hashed_are_found(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    make_older(f"sqlite:///{path}", "0002", [record(Workload(matmul()), 1.0)])
    with sqlite3.connect(path) as connection:
        connection.execute(  # and the first one was written by a version that nobody can read
            "INSERT INTO workloads (id, shash, name, summary, module, created_at) "
            "SELECT -1, 'of another program', name, summary, 'no program', created_at FROM workloads"
        )
    with SQLDatabase(path) as opened:
        assert len(opened.get_top_k(opened.commit_workload(matmul()), 1)) == 1


def test_records_of_versions_that_measured_only_time_are_read(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    store = SQLDatabase(path)
    store.commit_tuning_record(record(store.commit_workload(matmul()), 1e-3, metrics={"memory": 64}))
    with sqlite3.connect(path) as connection:
        (text,) = connection.execute("SELECT details FROM records").fetchone()
        details = json.loads(text)
        assert details.pop("metrics") == {"memory": 64.0}
        connection.execute("UPDATE records SET details = ?", (json.dumps(details),))
    (found,) = SQLDatabase(path).get_all_tuning_records()
    assert found.metrics == {} and found.mean_secs == 1e-3


def test_another_program_under_the_hash_of_one_is_refused(tmp_path: Path) -> None:
    """As a version wrote it that hashes differently: its records must not be taken for those of this program."""
    path = tmp_path / "tuning.db"
    SQLDatabase(path).commit_workload(matmul(4))
    connection = sqlite3.connect(path)
    connection.execute("UPDATE workloads SET shash = ?", [Workload(matmul(8)).shash])
    connection.commit()
    connection.close()
    with pytest.raises(
        DatabaseError, match="holds another program under the structural hash.*use a new database"
    ):
        SQLDatabase(path).commit_workload(matmul(8))


def test_a_full_disk_says_what_to_do_and_keeps_what_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    program = """
import resource, sys
from pathlib import Path
from database import DatabaseFileError, SQLDatabase
from tests.database.contract import record
from tests.programs.nodes import matmul
store = SQLDatabase(sys.argv[1])
entry = store.commit_workload(matmul())
store.commit_tuning_record(record(entry, 1.0))
largest = max(file.stat().st_size for file in Path(sys.argv[1]).parent.iterdir())
resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 65536, resource.RLIM_INFINITY))
try:
    for _ in range(1000):
        store.commit_tuning_record(record(entry, 1.0))
        print("kept", flush=True)
except DatabaseFileError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=120
    )
    *kept, message = done.stdout.splitlines()
    assert "Free some space, or raise the limit on the size of files" in message
    assert len(SQLDatabase(path)) == 1 + len(kept) > 1


def test_programs_of_searches_that_may_be_running_are_kept(tmp_path: Path) -> None:
    store = SQLDatabase(tmp_path / "a.db")
    claimed, searched, abandoned = (store.commit_workload(matmul(size)) for size in (3, 5, 7))
    store.claim(claimed, TARGET, ["a"], "me")
    store.commit_session(Session("running", kernels={searched.shash: "product"}))
    store.commit_session(Session("killed", started_at=1.0, kernels={abandoned.shash: "product"}))
    store.commit_session(Session("ended", finished_at=2.0, kernels={abandoned.shash: "product"}))
    assert store.compact() == 1
    assert {item.shash for item in store.get_workloads()} == {claimed.shash, searched.shash}
    store.commit_tuning_record(record(searched, 1.0))
    store.release("me")
    store.commit_session(Session("running", finished_at=3.0))
    assert store.compact() == 1 and len(store) == 1


def test_a_program_goes_with_its_features(tmp_path: Path) -> None:
    store = SQLDatabase(tmp_path / "a.db")
    store.commit_tuning_record(record(store.commit_workload(matmul()), 1.0))
    store.commit_workload(scaled())
    assert store.compact() == 1
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        described = file.execute("SELECT DISTINCT workload_id FROM workload_features").fetchall()
        assert described == file.execute("SELECT id FROM workloads").fetchall()
    assert store.commit_workload(scaled()) == Workload(scaled())


def test_room_is_given_back(tmp_path: Path) -> None:
    store = SQLDatabase(tmp_path / "a.db")
    workload = store.commit_workload(matmul())
    for number in range(300):
        store.commit_tuning_record(record(workload, 1.0 + number, name=str(number) * 200))
    store.remove_records(store.get_all_tuning_records())
    store.close()
    before = (tmp_path / "a.db").stat().st_size
    store.compact()
    store.close()
    assert (tmp_path / "a.db").stat().st_size < before / 2

"""The pool itself: new workers are quick, and nothing survives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners import WorkerError, WorkerPool


def test_a_worker_is_reused_and_replaced_within_milliseconds(pool: WorkerPool) -> None:
    worker = pool.workers[0]
    first = pool.submit(os.getpid, limit=10, worker=worker).result().value
    assert pool.submit(os.getpid, limit=10, worker=worker).result().value == first
    assert pool.submit(os.kill, first, signal.SIGKILL, limit=10, worker=worker).result().error == "SIGKILL"
    begin = time.monotonic()
    second = pool.submit(os.getpid, limit=10, worker=worker).result().value
    assert second != first
    assert time.monotonic() - begin < 1.0  # milliseconds on an idle machine


def test_a_call_apart_has_a_process_of_its_own(pool: WorkerPool) -> None:
    worker = pool.workers[0]
    first = pool.submit(os.getpid, limit=10, worker=worker).result().value
    generation = worker.generation
    apart = [pool.submit(os.getpid, limit=10, worker=worker, apart=True).result().value for _ in range(2)]
    assert len({first, *apart}) == 3
    assert pool.submit(os._exit, 3, limit=10, worker=worker, apart=True).result().kind == "died"
    assert pool.submit(os.getpid, limit=10, worker=worker).result().value == first
    assert worker.generation == generation
    for pid in apart:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_exceptions_come_back_with_their_traceback(pool: WorkerPool) -> None:
    outcome = pool.submit(int, "x", limit=10).result()
    assert (outcome.kind, outcome.error) == ("raised", "ValueError")
    assert "invalid literal" in outcome.message and "Traceback" in outcome.traceback


def test_folders_where_the_user_works_do_not_stand_before_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runners").mkdir()
    (tmp_path / "runners" / "__init__.py").write_text("raise SystemExit('a package of the user')")
    monkeypatch.chdir(tmp_path)
    with WorkerPool(1, preload=()) as own:
        assert own.submit(int, "1", limit=10).result().value == 1


def test_what_cannot_be_pickled_is_reported(pool: WorkerPool) -> None:
    outcome = pool.submit(open, os.devnull, limit=10).result()
    assert outcome.kind == "raised" and "result cannot be sent" in outcome.message
    with pytest.raises(Exception, match=r"pickle|local object"):
        pool.submit(lambda: 1, limit=10).result()
    assert pool.submit(int, "1", limit=10).result().value == 1


def test_closing_ends_running_and_waiting_calls_at_once() -> None:
    with WorkerPool(1, preload=()) as own:
        running, waiting = own.submit(time.sleep, 60, limit=90), own.submit(time.sleep, 60, limit=90)
        time.sleep(0.5)
        begin = time.monotonic()
        own.close()
        assert [future.result(5).error for future in (running, waiting)] == ["closed", "closed"]
        assert time.monotonic() - begin < 5
    with pytest.raises(WorkerError, match="closed"):
        own.submit(int, limit=1)


def test_workers_end_when_the_parent_is_killed(scratch: Path) -> None:
    program = (
        "import os, sys, time\n"
        "from runners import WorkerPool\n"
        "pool = WorkerPool(1, preload=())\n"
        "print(pool.submit(os.getpid, limit=30).result().value, flush=True)\n"
        "pool.submit(eval, '[0 for _ in iter(int, 1)]', limit=100)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    assert _alive(worker)
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 10
    while _alive(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(worker)


def test_a_template_that_cannot_start_says_why() -> None:
    with WorkerPool(1, preload=("no_such_module",)) as own:
        with pytest.raises(WorkerError, match="no_such_module"):
            own.submit(int, limit=10).result()


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


def test_running_needs_no_compiler() -> None:
    """Arrays and devices work where the folder ``ir`` does not exist."""
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['ir', 'llvmlite', 'schedules', 'database', 'tuner']))\n"
        "import runners\n"
        "from runners import executable, virtual_machine\n"
        "print(runners.array([1.0]).numpy(), runners.RunnerError.__mro__[1].__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[1.] Exception\n", done.stderr


def test_what_is_waited_for_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with WorkerPool(1, preload=()) as own, caplog.at_level("WARNING"):
        for notice in ("waits for memory", "waits for memory", "waits for a core"):
            own.tell(notice)
    assert [item.getMessage() for item in caplog.records] == ["waits for memory", "waits for a core"]

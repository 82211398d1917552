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
    assert pool.submit(os._exit, 1, limit=10, worker=worker).result().error == "exit"
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


def test_a_template_that_is_ended_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that it loads stands for who ends it, the first time."""
    (tmp_path / "ends_once.py").write_text(
        "import os, pathlib\n"
        f"done = pathlib.Path({str(tmp_path / 'done')!r})\n"
        "if not done.exists():\n    done.touch()\n    os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with WorkerPool(1, preload=("ends_once",)) as own:
        assert own.submit(int, "1", limit=60).result().value == 1


def closes_its_connection_and_stays() -> None:
    os.closerange(3, 256)
    time.sleep(600)


def test_a_candidate_that_closes_its_connection_and_stays_is_ended() -> None:
    """Its end was waited for by the process that all workers come from: nothing could be measured any more, by anybody."""
    with WorkerPool(1, preload=()) as own:
        outcome = own.submit(closes_its_connection_and_stays, limit=120).result()
        assert (outcome.kind, outcome.error) == ("died", "SIGKILL")
        assert own.submit(os.getpid, limit=10).result().kind == "returned"


def test_what_former_processes_have_seen_is_forgotten() -> None:
    """A server replaces its processes with each session, and remembered all that they had seen."""
    with WorkerPool(1, preload=()) as own:
        worker = own.workers[0]
        for _ in range(3):
            own.submit(os.getpid, limit=10).result()
            worker.references.add((worker.generation, "program"))
            assert own.submit(os.getpid, limit=10, apart=True).result().kind == "returned"
            assert worker.references == {(worker.generation, "program")}
            own.renew()


def template_of(pool: WorkerPool, other_than: int = 0) -> int:
    """The process that workers come from, as soon as it is another one."""
    end = time.monotonic() + 30
    while True:
        found = pool.submit(os.getppid, limit=10).result().value
        if found not in (other_than, 1) or time.monotonic() > end:
            return found


def test_a_template_that_somebody_has_ended_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing could be measured any more, for as long as the process ran."""
    with WorkerPool(1, preload=()) as own:
        first = template_of(own)
        os.kill(first, signal.SIGKILL)
        second = template_of(own, first)
        assert second != first
        running = own.submit(time.sleep, 0.5, limit=30)
        while not running.running():
            time.sleep(0.01)
        os.kill(second, signal.SIGKILL)
        assert running.result().kind == "returned"  # it was done again
        assert template_of(own, second) not in (first, second)
        assert "ended from outside; another one is started" in caplog.text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
@pytest.mark.parametrize("apart", [False, True])
def test_what_somebody_has_ended_or_stopped_is_called_again(
    number: signal.Signals, apart: bool, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """It counted as the candidate's failure, which is never measured again."""
    place = tmp_path / "pid"
    with WorkerPool(1, preload=()) as own:
        running = own.submit(
            _wait_in_the_first, str(place), limit=1.0 if number == signal.SIGSTOP else 30, apart=apart
        )
        while not place.exists() or not place.read_text():
            time.sleep(0.01)
        os.kill(int(place.read_text()), number)
        assert running.result().value == "in the second"
        assert "another one is started" in caplog.text


def _wait_in_the_first(place: str) -> str:
    """Leaves its process id and waits; where there is one already, it returns."""
    if Path(place).exists():
        return "in the second"
    Path(place).write_text(str(os.getpid()))
    time.sleep(60)
    return "in the first"


def test_time_in_which_everything_was_stopped_does_not_count() -> None:
    """Ctrl-Z and fg made failures of what was being measured."""
    program = "\n".join(
        [
            "import time, timeit",
            "works = 'while time.process_time() - begin < 1.5: pass', 'import time; begin = time.process_time()'",
            "from runners import WorkerPool",
            "with WorkerPool(1, preload=()) as pool:",
            "    pool.submit(time.sleep, 0, limit=60).result()",
            "    print('begun', flush=True)",
            "    print(pool.submit(timeit.timeit, *works, time.perf_counter, 1, limit=4.0).result().kind)",
        ]
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(5)
        os.killpg(process.pid, signal.SIGCONT)
        assert process.communicate(timeout=60)[0] == "returned\n"


def test_what_ends_its_process_each_time_is_believed_to(pool: WorkerPool) -> None:
    """As a candidate that takes more memory than there is, which the system's guard kills."""
    outcome = pool.submit(signal.raise_signal, signal.SIGKILL, limit=10).result()
    assert (outcome.kind, outcome.error) == ("died", "SIGKILL") and "its memory runs out" in outcome.message
    outcome = pool.submit(signal.raise_signal, signal.SIGSEGV, limit=10).result()
    assert (outcome.kind, outcome.error) == ("died", "SIGSEGV")


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

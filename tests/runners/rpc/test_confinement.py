"""The steps by which a worker is confined, each looked at by itself: another one may refuse the same."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners import WorkerPool
from runners.rpc import confinement, landlock
from runners.rpc.confinement import measures
from runners.rpc.sandbox import Sandbox

HERE = str(Path(__file__).parents[2])
SANDBOX = Sandbox(readable=(HERE,), files=64, file_bytes=1 << 20, threads=99)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1, preload=(), sandbox=SANDBOX) as made:
        yield made


def asked(pool: WorkerPool, function: object, *args: object) -> object:
    outcome = pool.submit(function, *args, limit=60.0).result()  # type: ignore[arg-type]
    assert outcome.kind == "returned", outcome
    return outcome.value


def needs(pool: WorkerPool, step: str) -> None:
    steps = {name: (is_taken, told) for name, is_taken, told in asked(pool, measures)}  # type: ignore[attr-defined]
    if not steps[step][0]:
        pytest.skip(f"the system does not have it: {steps[step][1]}")


def limits_of_this_process() -> list[int]:
    names = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC)
    return [limit for name in names for limit in resource.getrlimit(name)]


def test_limits_are_those_of_the_sandbox(pool: WorkerPool) -> None:
    files, _, size, _, core, _, tasks, hard = asked(pool, limits_of_this_process)  # type: ignore[misc]
    assert (files, size, core) == (64, 1 << 20, 0)
    _, of_server = resource.getrlimit(resource.RLIMIT_NPROC)
    assert 99 <= tasks == hard  # beyond those that the user has
    assert of_server == resource.RLIM_INFINITY or tasks < of_server


def writes_much() -> str:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    path = Path(os.environ["TMPDIR"], "much")
    try:
        path.write_bytes(bytes((1 << 20) + 1))
    except OSError as error:
        return os.strerror(error.errno)
    finally:
        path.unlink()
    return "written"


def test_files_have_an_end(pool: WorkerPool) -> None:
    assert asked(pool, writes_much) == "File too large"


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def test_no_files_of_the_server_are_open(pool: WorkerPool) -> None:
    """Standard input, output and errors, the connection, and the listing itself."""
    assert len(asked(pool, open_files)) == 5  # type: ignore[arg-type]


def test_files_that_are_open_at_the_fork_are_closed() -> None:
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            left = os.open("/dev/null", os.O_RDONLY)
            confinement._close_files({0, 1, 2})
            status = left in map(int, os.listdir("/proc/self/fd"))
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def network() -> tuple[str, str, str]:
    return (
        os.readlink("/proc/self/ns/net"),
        os.readlink("/proc/self/ns/ipc"),
        Path("/proc/self/net/dev").read_text(),
    )


def test_the_network_is_another(pool: WorkerPool) -> None:
    needs(pool, "network")
    net, shared_memory, devices = asked(pool, network)  # type: ignore[misc]
    assert net != os.readlink("/proc/self/ns/net") and shared_memory != os.readlink("/proc/self/ns/ipc")
    names = [line.partition(":")[0].strip() for line in devices.splitlines() if ":" in line]
    assert set(names) <= {
        "lo",
        "tunl0",
        "sit0",
        "ip6tnl0",
        "gre0",
        "gretap0",
        "erspan0",
        "ip_vti0",
        "ip6_vti0",
        "ip6gre0",
    }


def makes_what_is_no_file() -> list[str]:
    folder, made = Path(os.environ["LOOPSMITH_REFERENCE_FOLDER"]), []
    for name, make in (
        ("folder", os.mkdir),
        ("link", lambda path: os.symlink("/", path)),
        ("pipe", os.mkfifo),
    ):
        try:
            make(folder / name)
        except OSError:
            continue
        made.append(name)
    (folder / "file").write_bytes(b"x")
    return made


def test_in_the_folder_of_references_there_are_files_alone(pool: WorkerPool) -> None:
    needs(pool, "files")
    assert asked(pool, makes_what_is_no_file) == []


def burn(path: str) -> None:
    Path(path).write_text(f"{os.getppid()} {os.getpid()}")
    while True:
        pass


def test_a_worker_that_loops_ends_with_its_template() -> None:
    """Also where it has become another user since it was forked, after which the system forgets whose end is its own."""
    with WorkerPool(1, preload=(), sandbox=SANDBOX) as own:
        asked(own, os.getpid)
        told = Path(str(own.template.folder), "told")
        own.submit(burn, str(told), limit=600.0)
        end = time.monotonic() + 30
        while not (told.exists() and told.read_text()) and time.monotonic() < end:
            time.sleep(0.01)
        template, worker = map(int, told.read_text().split())
        told.unlink()
        os.kill(template, signal.SIGKILL)
        while is_running(worker) and time.monotonic() < end:
            time.sleep(0.01)
        assert not is_running(worker)
        own.close()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def in_a_process_with(rights: list[tuple[str, int]], tries: object) -> int:
    """The exit status of a process that may do what some rules of Landlock say, without any other step."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            import ctypes

            ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
            landlock.restrict(landlock.make_ruleset(rights))
            status = int(tries())  # type: ignore[operator]
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def refused(what: object) -> bool:
    try:
        what()  # type: ignore[operator]
    except PermissionError:
        return True
    return False


@pytest.mark.skipif(landlock.version() < 6, reason="this Landlock knows no scopes")
def test_signals_to_others_are_refused_by_landlock_too() -> None:
    parent = os.getpid()
    assert in_a_process_with([], lambda: refused(lambda: os.kill(parent, 0))) == 1
    assert in_a_process_with([], lambda: refused(lambda: os.kill(os.getpid(), 0))) == 0


@pytest.mark.skipif(not landlock.version(), reason="the system has no Landlock")
def test_rights_are_those_that_were_given(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    read = [(str(tmp_path), landlock.READ)]
    assert in_a_process_with(read, lambda: refused((tmp_path / "file").read_text)) == 0
    assert in_a_process_with([], lambda: refused((tmp_path / "file").read_text)) == 1
    assert in_a_process_with(read, lambda: refused(lambda: (tmp_path / "file").write_text("y"))) == 1
    locks = [(str(tmp_path / "file"), landlock.LOCK)]
    assert in_a_process_with(locks, lambda: refused((tmp_path / "file").unlink)) == 1

"""The sandbox of workers that run what clients sent: kernels that try to get out, and work that goes on as without it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners import (
    BuilderInput,
    EvaluatorConfig,
    LocalBuilder,
    LocalRunner,
    ResultKind,
    RunnerInput,
    WorkerPool,
    lock,
)
from runners.builder import Artifact
from runners.rpc import confinement, landlock, sandbox, seccomp
from runners.rpc.confinement import can_open, measures
from runners.rpc.sandbox import Sandbox
from runners.template import SANDBOX_VARIABLE
from tests.programs.nodes import matmul, scaled
from tests.runners.rpc.hostile_code import SOURCE, kernel_of

QUICK = EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)
HERE = str(Path(__file__).parents[2])


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1, sandbox=Sandbox(readable=(HERE,))) as made:
        yield made


@pytest.fixture
def runner(pool: WorkerPool) -> LocalRunner:
    return LocalRunner(5.0, QUICK, pool=pool)


def taken(pool: WorkerPool) -> dict[str, tuple[bool, str]]:
    outcome = pool.submit(measures, limit=60.0).result()
    assert outcome.kind == "returned", outcome
    return {name: (is_taken, told) for name, is_taken, told in outcome.value}


def test_all_steps_are_told(pool: WorkerPool) -> None:
    steps = taken(pool)
    assert set(steps) == {"network", "limits", "user", "no new privileges", "files", "system calls"}
    assert steps["limits"][0] and steps["no new privileges"][0]
    assert all(told for _, told in steps.values())


def test_candidates_are_built_checked_and_timed(pool: WorkerPool, runner: LocalRunner) -> None:
    builder = LocalBuilder(pool=pool, portable=True)
    right, wrong = builder.build(
        [BuilderInput(scaled(factor=3.0), "cpu"), BuilderInput(scaled(factor=2.0), "cpu")]
    )
    assert right.error_msg is None and right.metrics["code_size"] > 0
    reference = scaled(factor=3.0)
    good, bad = (
        runner.run([RunnerInput(item.artifact, reference=reference)])[0].result() for item in (right, wrong)
    )
    assert good.kind is ResultKind.OK and good.confirmed and len(good.run_secs or ()) == 2
    assert bad.kind is ResultKind.WRONG_RESULT and "output B differs" in (bad.error_msg or "")
    rivals = runner.final_choice([right.artifact, wrong.artifact], reference)
    assert rivals is not None
    assert [item.kind for item in rivals] == [ResultKind.OK, ResultKind.WRONG_RESULT]
    assert pool.template.folder is not None and list(pool.template.folder.glob("*.bounds"))
    (failed,) = builder.build([BuilderInput("no program", "cpu")])
    assert failed.kind is ResultKind.ILLEGAL_SCHEDULE


def attack(runner: LocalRunner, folder: Path, **macros: object) -> dict[str, int]:
    """What a hostile kernel says came of each of its tries."""
    artifact = Artifact(kernel_of(SOURCE, folder, **macros), "cpu")
    result = runner.run([RunnerInput(artifact)])[0].result()
    assert result.kind is ResultKind.CRASH and "status 3" in (result.error_msg or ""), result
    found = {name: int(value) for name, value in re.findall(r"(\w+)=(-?\d+)", result.error_msg or "")}
    assert "done" in found, result
    return found


def test_a_kernel_that_tries_to_get_out(pool: WorkerPool, runner: LocalRunner, tmp_path: Path) -> None:
    secret, outside = tmp_path / "secret", tmp_path / "written"
    secret.write_text("of the server alone")
    secret.chmod(0o600)
    tmp_path.chmod(0o777)
    macros = {"SECRET": f'"{secret}"', "OUTSIDE": f'"{outside}"', "SERVER": os.getpid()}
    begin = time.monotonic()
    found = attack(runner, tmp_path, **macros)
    steps = taken(pool)
    assert not outside.exists() and secret.exists()
    if steps["files"][0]:
        assert found["read"] < 0 and found["write"] < 0 and found["remove"] < 0
    if steps["system calls"][0]:
        done = {"done", "read", "write", "remove", "fork", "setuid"}
        assert {name: value for name, value in found.items() if name not in done and value != -1} == {}
        assert found["fork"] == 0
    if steps["user"][0] and os.getuid() == 0:
        assert found["setuid"] == -1
    assert time.monotonic() - begin < 30
    assert runner.run([RunnerInput(Artifact(kernel_of_good(pool), "cpu"))])[0].result().kind is ResultKind.OK


def kernel_of_good(pool: WorkerPool) -> object:
    (built,) = LocalBuilder(pool=pool, portable=True).build([BuilderInput(matmul(), "cpu")])
    return built.artifact.mod


def test_without_a_sandbox_the_same_kernel_does_some_of_it(tmp_path: Path) -> None:
    """The kernel of these tests really tries."""
    secret, outside = tmp_path / "secret", tmp_path / "written"
    secret.write_text("of the server alone")
    source = tmp_path / "some.c"
    kept = [
        line
        for line in SOURCE.read_text().splitlines()
        if not line.startswith("  tell(") or re.match(r'  tell\("(socket|unix|read|write|remove|done)"', line)
    ]
    source.write_text("\n".join(kept))
    macros = {"SECRET": f'"{secret}"', "OUTSIDE": f'"{outside}"', "SERVER": os.getpid()}
    artifact = Artifact(kernel_of(source, tmp_path, **macros), "cpu")
    with WorkerPool(1) as plain:
        result = LocalRunner(5.0, QUICK, pool=plain).run([RunnerInput(artifact)])[0].result()
    found = dict(re.findall(r"(\w+)=(-?\d+)", result.error_msg or ""))
    assert all(int(found[name]) >= 0 for name in ("socket", "unix", "read", "write", "remove"))
    assert outside.exists() and not secret.exists()


def test_workers_read_no_secrets_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "DATABASE_URL": "secret",
        "LOOPSMITH_RPC_CREDENTIALS": "x",
        "OMP_NUM_THREADS": "2",
        "PATH": "/bin",
    }
    found = Sandbox().environment(given)
    assert found.pop(SANDBOX_VARIABLE) and found == {"OMP_NUM_THREADS": "2", "PATH": "/bin"}


def test_a_sandbox_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Sandbox(user="daemon", files=10, readable=("/a", "/b"))
    monkeypatch.setattr(os, "environ", made.environment({}))
    assert Sandbox.of_environment() == made and Sandbox.of_environment() is None


def test_files_of_the_server_cannot_be_opened(pool: WorkerPool, tmp_path: Path) -> None:
    secret = tmp_path / "own.key"
    secret.write_text("x")
    secret.chmod(0o600)
    steps = taken(pool)
    outcome = pool.submit(can_open, [str(secret), os.__file__], limit=60.0).result()
    if steps["files"][0] or (steps["user"][0] and os.getuid() == 0):
        assert outcome.value == [os.__file__]


def burn() -> None:
    while True:
        pass


def test_renewing_ends_what_runs_and_what_waits(pool: WorkerPool) -> None:
    first = pool.submit(os.getpid, limit=60.0).result().value
    running, waiting = (pool.submit(burn, limit=60.0) for _ in range(2))
    time.sleep(0.1)
    begin = time.monotonic()
    pool.renew()
    assert (running.result().kind, waiting.result().kind) == ("died", "died")
    assert time.monotonic() - begin < 10
    second = pool.submit(os.getpid, limit=60.0).result().value
    pool.renew()  # of a worker that is idle
    third = pool.submit(os.getpid, limit=60.0).result()
    assert third.kind == "returned" and len({first, second, third.value}) == 3


def test_the_longest_call_is_ended_whatever_its_phases_say() -> None:
    with WorkerPool(1, sandbox=Sandbox(readable=(HERE,), call_seconds=0.5)) as short:
        begin = time.monotonic()
        outcome = short.submit(says_that_it_has_time, limit=60.0).result()
        assert outcome.kind == "timeout" and time.monotonic() - begin < 30


def says_that_it_has_time() -> None:
    from runners.worker import phase

    while True:
        phase("waiting for the machine", None)
        time.sleep(0.05)


def send_raw(data: bytes) -> None:
    """What a kernel that has found its process's connection may do."""
    from runners import worker

    assert worker._connection is not None
    worker._connection.sendall(data)
    time.sleep(60)


class Pickled:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("kind", ["pickle", "json", "size", "class", "types"])
def test_forged_answers_run_nothing(pool: WorkerPool, tmp_path: Path, kind: str) -> None:
    import pickle

    made = tmp_path / "made"
    data = {
        "pickle": pickle.dumps(("returned", Pickled(str(made)))),
        "json": b"{" * 100_000,
        "size": b"",
        "class": b'["returned",{"Outcome":{}}]',
        "types": b'["returned",{"BuildReport":{"build_secs":"x","metrics":[]}}]',
    }[kind]
    size = 1 << 62 if kind == "size" else len(data)
    outcome = pool.submit(send_raw, size.to_bytes(8, "little") + data, limit=60.0).result()
    assert (outcome.kind, outcome.error) == ("died", "answer"), outcome
    assert not made.exists()
    assert pool.submit(os.getpid, limit=60.0).result().kind == "returned"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filters_are_made_for_both_processors(machine: str) -> None:
    code = seccomp.filter_program(7, machine=machine)
    wide = seccomp.filter_program(7, machine=machine, runs_programs=True)
    assert len(code) % 8 == 0 and len(code) < 8 * 4096 and len(wide) < len(code)


def test_a_processor_without_known_numbers_has_no_filter() -> None:
    with pytest.raises(seccomp.SeccompUnavailable, match="riscv64"):
        seccomp.filter_program(7, machine="riscv64")


def test_numbers_of_system_calls_are_those_of_the_headers() -> None:
    folders = [
        Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        Path("/usr/include/asm-generic/unistd.h"),
    ]
    checked = 0
    for column, header in enumerate(folders):
        if not header.exists():
            continue
        found = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
        for name, numbers in seccomp._NUMBERS.items():
            if numbers[column] is not None and name in found:
                assert numbers[column] == int(found[name]), name
                checked += 1
    if not checked:
        pytest.skip("there are no headers of the kernel")


def test_landlock_says_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 0)
    with pytest.raises(landlock.LandlockUnavailable, match="no Landlock"):
        landlock.make_ruleset([])


def test_servers_with_devices_have_a_sandbox_of_their_own(tmp_path: Path) -> None:
    """Programs may be started there; the network and other files are as closed."""
    secret = tmp_path / "own.key"
    secret.write_text("x")
    secret.chmod(0o600)
    with WorkerPool(1, sandbox=Sandbox(has_devices=True, readable=(HERE,))) as wide:
        steps = taken(wide)
        assert "programs may be started" in steps["system calls"][1] or not steps["system calls"][0]
        if steps["files"][0]:
            assert wide.submit(can_open, [str(secret)], limit=60.0).result().value == []
        code = kernel_of_good(wide)
        result = LocalRunner(5.0, QUICK, pool=wide).run([RunnerInput(Artifact(code, "cpu"))])[0].result()
        assert result.kind is ResultKind.OK, result


def test_locks_of_gpus_are_made_before_workers_need_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = tmp_path / "information"
    told.write_text("Model: \t NVIDIA X\nGPU UUID: \t GPU-01234567-89ab-cdef-0123-456789abcdef\n")
    monkeypatch.setattr(sandbox, "_GPUS", str(tmp_path / "info*"))
    monkeypatch.setenv("LOOPSMITH_LOCK_FOLDER", str(tmp_path))
    Sandbox(has_devices=True).prepare_folder(tmp_path, tmp_path / "shared")
    name = "loopsmith-device-GPU-01234567-89ab-cdef-0123-456789abcdef.lock"
    assert tmp_path / name in lock.paths() and (tmp_path / name).exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_nobody_keeps_a_capability_without_landlock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(confinement, "python_folders", lambda _: [str(tmp_path)])
    with pytest.raises(PermissionError, match="nobody cannot read the folder of Python"):
        confinement._become(Sandbox(), may_search=False)
    assert os.getuid() == 0

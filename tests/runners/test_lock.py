"""Builds share the machine, measurements have it alone, and a waiting measurement is not overtaken for ever."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from database.lock import file_lock
from runners import RunnerError
from runners.lock import machine, one_device


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPSMITH_LOCK_FOLDER", str(tmp_path))


def in_a_sticky_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Linux does with fs.protected_regular where another user's file is asked for as one to be made."""
    system = os.open

    def protected(path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and not flags & os.O_EXCL and Path(path).exists():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return system(path, flags, mode)

    monkeypatch.setattr(os, "open", protected)


def test_the_locks_of_another_user_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o077)
    try:
        with machine(alone=True):
            made = sorted(tmp_path.iterdir())
    finally:
        os.umask(before)
    assert [item.stat().st_mode & 0o777 for item in made] == [0o666, 0o666]
    in_a_sticky_folder(monkeypatch)
    with machine(alone=False), machine(alone=False):
        pass
    with file_lock(made[0]):
        pass


def test_locks_that_a_file_of_somebody_makes_in_between_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, raced = os.open, []

    def race(path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_EXCL and path not in raced:
            raced.append(path)
            Path(path).touch()
        return system(path, flags, mode)

    monkeypatch.setattr(os, "open", race)
    with machine(alone=True):
        assert len(raced) == 2


def test_a_lock_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "loopsmith-turnstile.lock").mkdir()
    with pytest.raises(RunnerError, match=r"loopsmith-turnstile\.lock.*LOOPSMITH_LOCK_FOLDER"):
        with machine(alone=True):
            pass


def test_users_with_temporary_folders_of_their_own_share_the_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shared", "own"):
        (tmp_path / name).mkdir()
    monkeypatch.delenv("LOOPSMITH_LOCK_FOLDER")
    monkeypatch.setattr("runners.lock._SHARED", tmp_path / "shared")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "own"))
    with machine(alone=True):
        assert len(list((tmp_path / "shared").iterdir())) == 2 and not list((tmp_path / "own").iterdir())


def test_builds_overlap() -> None:
    meet = threading.Barrier(2, timeout=10)

    def build() -> None:
        with machine(alone=False):
            meet.wait()

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not meet.broken


def test_a_measurement_is_alone() -> None:
    inside: list[str] = []
    overlaps: list[str] = []

    def use(name: str, alone: bool) -> None:
        with machine(alone=alone):
            if (alone and inside) or any(other.startswith("measure") for other in inside):
                overlaps.append(name)
            inside.append(name)
            time.sleep(0.02)
            inside.remove(name)

    threads = [threading.Thread(target=use, args=(f"measure{i}", True)) for i in range(4)]
    threads += [threading.Thread(target=use, args=(f"build{i}", False)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == []


def test_a_stream_of_builds_does_not_starve_a_measurement() -> None:
    stop = threading.Event()

    def build_again_and_again() -> None:
        while not stop.is_set():
            with machine(alone=False):
                time.sleep(0.005)

    threads = [threading.Thread(target=build_again_and_again) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        begin = time.monotonic()
        with machine(alone=True):
            waited = time.monotonic() - begin
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert waited < 5


def test_each_device_is_used_alone_and_the_first_free_one_is_taken() -> None:
    names = ["GPU-0", "GPU-1"]
    with one_device(names) as first, one_device(names) as second:
        assert (first, second) == (0, 1)
        waiting: list[int] = []

        def wait() -> None:
            with one_device(names) as found:
                waiting.append(found)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)
        assert waiting == []
    thread.join(5)
    assert waiting in ([0], [1])

"""Builds share the machine, measurements have it alone, and a waiting measurement is not overtaken for ever."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from runners.lock import machine


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPSMITH_LOCK_FOLDER", str(tmp_path))


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

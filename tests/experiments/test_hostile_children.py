"""Hostile records, databases and ONNX files, in small: `python -m experiments.hostile jsonl` tries more of them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.hostile import children
from experiments.hostile.__main__ import ATTEMPTS
from experiments.hostile.children import Attempt, tried
from ir.error import IRError


@pytest.mark.parametrize("kind", ATTEMPTS)
def test_what_is_broken_is_left_out_or_refused(kind: str) -> None:
    found = tried(kind, ATTEMPTS[kind], range(60))
    assert found.failures == {}
    assert found.outcomes["read"] > 0 and found.outcomes["read"] + found.outcomes["refused"] == 60


def _kill(*_: object) -> None:
    os.kill(os.getpid(), 9)


def _start(*_: object) -> None:
    subprocess.run([sys.executable, "-c", ""])


def _refuse(*_: object) -> None:
    raise IRError("no record")


def _fall(*_: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (_kill, "a process that ended"),
        (lambda *_: time.sleep(60), "hang"),
        (_start, "code may have run: subprocess.Popen"),
        (lambda *_: bytearray(1 << 40), "MemoryError at"),
        (_fall, "ZeroDivisionError at"),
        (_refuse, ""),
    ],
    ids=["ends", "hangs", "starts", "hoards", "falls", "refuses"],
)
def test_failures_are_noticed_and_the_others_are_tried(
    act: Callable[..., None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sometimes(rng: random.Random, folder: Path) -> None:
        if rng.random() == random.Random(2).random():
            act()

    monkeypatch.setattr(children, "SECONDS", 0.2)
    found = tried("records", Attempt(sometimes, lambda folder: None), range(5))
    assert found.count == 5 and found.outcomes["read"] == 4
    if kind:
        ((failure, example),) = found.failures.items()
        assert failure.startswith(kind) and example.startswith("seed 2")
    else:
        assert not found.failures and found.outcomes["refused"] == 1

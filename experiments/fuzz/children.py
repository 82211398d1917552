"""Judging in child processes: a program that kills its process, or never ends, is one more verdict."""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, TypeVar

from .oracle import Verdict

Item = TypeVar("Item")
_LENGTH_BYTES = 4


def judged_apart(
    items: Sequence[Item], judge: Callable[[Item], Verdict], seconds: int = 60
) -> Iterator[tuple[Item, Verdict]]:
    """Judges items one after the other in a child process, and in another one from where that died.

    Args:
        items: what to judge.
        judge: says what comes of one.
        seconds: how long one may take.
    """
    left = list(items)
    while left:
        verdicts, process = _child(left, judge, seconds)
        with verdicts:
            for verdict in _read(verdicts):
                yield left.pop(0), verdict
        _, status = os.waitpid(process, 0)
        if left:
            yield left.pop(0), Verdict(_end(status))


def judged_alone(judge: Callable[[], Verdict], seconds: int = 20) -> Verdict:
    """One judgement in a process of its own."""
    ((_, verdict),) = judged_apart(
        [None], lambda _: judge(), seconds
    )  # to its end: there the process is waited for
    return verdict


def _child(items: list[Item], judge: Callable[[Item], Verdict], seconds: int) -> tuple[BinaryIO, int]:
    """A process that writes verdicts of items to a pipe; the end to read from, and the process."""
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return os.fdopen(reading, "rb"), process
    try:
        os.close(reading)
        for item in items:
            signal.alarm(seconds)
            _write(writing, _judged(item, judge))
    finally:
        os._exit(0)


def _judged(item: Item, judge: Callable[[Item], Verdict]) -> Verdict:
    try:
        return judge(item)
    except (
        Exception
    ):  # a mistake of the fuzzer itself is a verdict too, and the other programs are still judged
        return Verdict("fuzzer", traceback.format_exc())


def _write(pipe: int, verdict: Verdict) -> None:
    data = pickle.dumps(verdict)
    with os.fdopen(os.dup(pipe), "wb") as file:
        file.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)


def _read(file: BinaryIO) -> Iterator[Verdict]:
    """The verdicts in a pipe until its other end is closed."""
    while len(length := file.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
        yield pickle.loads(file.read(int.from_bytes(length, "little")))


def _end(status: int) -> str:
    """What a status says of the end of a process."""
    if not os.WIFSIGNALED(status):
        return f"exit code {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    return "took too long" if number == signal.SIGALRM else f"died of {signal.Signals(number).name}"

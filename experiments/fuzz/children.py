"""Judging in child processes: a program that kills its process, or never ends, is one more verdict."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, TypeVar

from .verdict import Verdict

Item = TypeVar("Item")
_LENGTH_BYTES = 4
_ITEMS_PER_CHILD = 400
"""A process that has loaded so many programs is replaced: code stays in memory until it ends."""


def judged_apart(
    items: Sequence[Item], judge: Callable[[Item], Verdict], seconds: int = 60
) -> Iterator[tuple[Item, Verdict]]:
    """Judges items one after the other in a child process, and in another one from where that died.

    Args:
        items: what to judge.
        judge: says what comes of one.
        seconds: how long one may take.
    """
    for batch, verdicts in judged_in_batches(items, lambda one: [judge(one[0])], seconds, 1):
        yield batch[0], verdicts[0]


def judged_in_batches(
    items: Sequence[Item], judge: Callable[[Sequence[Item]], Sequence[Verdict]], seconds: int, size: int
) -> Iterator[tuple[Sequence[Item], Sequence[Verdict]]]:
    """Judges batches of items in child processes; where a process dies or hangs, that is the verdict on its whole batch.

    Args:
        items: what to judge.
        judge: says what comes of each item of a batch.
        seconds: how long a batch may take.
        size: how many items are in a batch.
    """
    left = [items[start : start + size] for start in range(0, len(items), size)]
    while left:
        served = left[: max(1, _ITEMS_PER_CHILD // size)]
        pipe, process = _child(served, judge, seconds)
        answers = 0
        with pipe:
            try:
                for verdicts in _read(pipe):
                    answers += 1
                    yield left.pop(0), verdicts
            except BaseException:  # Ctrl-C, or nobody asks for more: what is left would be judged for nobody
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                raise
        _, status = os.waitpid(process, 0)
        if answers < len(served):
            batch = left.pop(0)
            yield batch, [Verdict(_end(status))] * len(batch)


def judged_alone(judge: Callable[[], Verdict], seconds: int = 20) -> Verdict:
    """One judgement in a process of its own."""
    # To its end, for there the process is waited for.
    ((_, verdict),) = judged_apart([None], lambda _: judge(), seconds)
    return verdict


def _child(
    batches: Sequence[Sequence[Item]], judge: Callable[[Sequence[Item]], Sequence[Verdict]], seconds: int
) -> tuple[BinaryIO, int]:
    """A process that writes the verdicts of each batch to a pipe; the end to read from, and the process."""
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return os.fdopen(reading, "rb"), process
    try:
        gc.freeze()  # to look for garbage among what the parent has would copy all of its pages
        os.close(reading)
        for batch in batches:
            signal.alarm(seconds)
            _write(writing, _judged(batch, judge))
    finally:
        os._exit(0)


def _judged(batch: Sequence[Item], judge: Callable[[Sequence[Item]], Sequence[Verdict]]) -> list[Verdict]:
    try:
        return list(judge(batch))
    except (
        Exception
    ):  # a mistake of the fuzzer itself is a verdict too, and the other programs are still judged
        return [Verdict("fuzzer", traceback.format_exc())] * len(batch)


def _write(pipe: int, verdicts: list[Verdict]) -> None:
    data = pickle.dumps(verdicts)
    with os.fdopen(os.dup(pipe), "wb") as file:
        file.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)


def _read(file: BinaryIO) -> Iterator[list[Verdict]]:
    """What is written to a pipe until its other end is closed."""
    while len(length := file.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
        yield pickle.loads(file.read(int.from_bytes(length, "little")))


def _end(status: int) -> str:
    """What a status says of the end of a process."""
    if not os.WIFSIGNALED(status):
        return f"exit code {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    return "took too long" if number == signal.SIGALRM else f"died of {signal.Signals(number).name}"

"""What the process of a session answers, without a process: failures by their kinds, and messages of any content."""

from __future__ import annotations

import numpy as np
import pytest

from ir.codegen.entry import KernelMemoryError
from ir.error import IRValueError
from runners import RunnerError
from runners.cuda.driver import CudaContextLost, CudaOutOfMemory
from runners.program import ArgumentError
from runners.rpc.failures import MOST_MESSAGE_CHARACTERS, exception_of, failure, failure_of
from runners.rpc.proto import remote_pb2 as pb
from runners.rpc.remote_worker import Holdings


class _Own(ArgumentError):
    """A kind that only the device has."""


class _Foreign(BaseException):
    """One of no kind that is known."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ArgumentError("a"), ArgumentError),
        (_Own("a"), ArgumentError),
        (KernelMemoryError("a"), KernelMemoryError),
        (IRValueError("a"), IRValueError),
        (CudaOutOfMemory("a"), CudaOutOfMemory),
        (CudaContextLost("a"), CudaContextLost),
        (np.linalg.LinAlgError("a"), ValueError),
        (ZeroDivisionError("a"), ZeroDivisionError),
    ],
)
def test_exceptions_are_of_the_same_kind_or_the_nearest(error: Exception, kind: type) -> None:
    found = exception_of(failure_of(error).failure)
    assert type(found) is kind and str(found) == "a"


def test_exceptions_that_nobody_knows_are_named() -> None:
    found = exception_of(failure_of(_Foreign("a")).failure)  # type: ignore[arg-type]
    assert type(found) is RunnerError and str(found) == "_Foreign: a"
    for name in ("SystemExit", "eval", "__import__", "KeyboardInterrupt"):
        assert type(exception_of(pb.Failure(kind=name, message="a"))) is RunnerError


def test_long_messages_and_broken_characters_travel() -> None:
    found = failure("RunnerError", "\ud800" + "x" * 100_000)
    assert len(pb.Answer.FromString(found.SerializeToString()).failure.message) < MOST_MESSAGE_CHARACTERS + 10


def tasks() -> list[bytes]:
    """One of each kind, as bytes."""
    call = pb.CallRequest(
        program=0,
        function="no.such",
        arguments=[
            pb.Value(given=1),
            pb.Value(elements=pb.Elements(dtype="float32", shape=[2], data=b"12345678")),
            pb.Value(tuple=pb.Values(items=[pb.Value(integer=3), pb.Value(text="x")])),
        ],
    )
    made = [
        pb.Task(part=pb.ProgramPart(is_first=True, data=b"loopsmK1")),
        pb.Task(load=pb.LoadRequest(content="a", device="cpu:0", name="x")),
        pb.Task(allocate=pb.AllocateRequest(dtype="int16", shape=[2, 3], device="cpu:0")),
        pb.Task(write=pb.ArrayPart(array=1, begin=2, data=b"abcd")),
        pb.Task(read=pb.ReadRequest(array=1, begin=2, size=4)),
        pb.Task(copy=pb.CopyRequest(source=1, target=1)),
        pb.Task(free=pb.FreeRequest(arrays=[7], programs=[8])),
        pb.Task(call=call),
        pb.Task(time=pb.TimeRequest(call=call, number=1, repeat=1)),
        pb.Task(profile=call),
    ]
    return [item.SerializeToString() for item in made]


def test_mutated_tasks_are_answered() -> None:
    rng = np.random.default_rng(0)
    kinds: dict[str, int] = {}
    for number in range(3000):
        if number % 500 == 0:  # what was allocated goes
            holdings = Holdings()
            holdings.answer(pb.Task(allocate=pb.AllocateRequest(dtype="int8", shape=[16], device="cpu:0")))
        data = bytearray(tasks()[number % len(tasks())])
        for _ in range(rng.integers(0, 4)):
            data[rng.integers(len(data))] = rng.integers(256)
        task = pb.Task()
        try:
            task.ParseFromString(bytes(data if number % 8 else data[: rng.integers(len(data))]))
        except Exception:  # the server does not hand it on
            continue
        answer = holdings.answer(task)
        kind = answer.WhichOneof("answer")
        kinds[kind] = kinds.get(kind, 0) + 1
        pb.Answer.FromString(answer.SerializeToString())
    assert {"failure", "array", "part", "nothing"} <= set(kinds) and sum(kinds.values()) > 800, kinds

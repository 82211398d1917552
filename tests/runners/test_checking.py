"""The whole check of a candidate: threads, packed inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from ir import IRModule
from ir.script import from_source
from ir.tir import IndexMap, interpreter
from ir.tir.stmt import ForKind
from runners import checking
from runners.checking import confirmed
from runners.kernel import Kernel
from runners.verify import compute_reference
from tests.programs.nodes import matmul


@pytest.mark.parametrize(("index", "calls"), [("i", 2 * 3), ("I[i]", 2 * 6 * 3)])
def test_threads_that_surely_keep_apart_are_called_less_often(
    index: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mod: Any = from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
        for i in T.parallel(8):
            B[{index}] = A[i]
""")
    reference = compute_reference(mod, lambda program: lambda arguments: interpreter.run(program, *arguments))
    made = 0

    def call(*arguments: Any) -> None:
        nonlocal made
        made += 1
        interpreter.run(mod, *arguments)

    monkeypatch.setattr(checking, "_REPEATING_SECS", 60.0)
    monkeypatch.setattr(checking, "thread_counts", lambda: [1, 2, 3])
    assert confirmed(Kernel(mod, call), reference, 60.0) is None
    assert made == len(reference.cases) + calls


class Threaded:
    """A kernel that is wrong on three threads, and tells which numbers it was asked to run on."""

    asked: ClassVar[list[int]] = []

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads

    def with_threads(self, count: int) -> Threaded:
        Threaded.asked.append(count)
        return Threaded(count)

    def __call__(self, *arguments: Any) -> None:
        interpreter.run(matmul(), *arguments)
        if self.threads == 3:
            arguments[2][1, 1] += 1


def test_a_parallel_candidate_runs_on_several_numbers_of_threads() -> None:
    mod = matmul()
    reference = compute_reference(mod, lambda program: lambda arguments: interpreter.run(program, *arguments))
    func = mod["main"]
    loop = func.body.block.body
    shared = func.body.block.replace(body=loop.replace(kind=ForKind.PARALLEL))
    parallel = IRModule({"main": func.replace(body=func.body.replace(block=shared))})
    assert confirmed(Kernel(mod, Threaded()), reference, 5.0) is None and not Threaded.asked
    message = confirmed(Kernel(parallel, Threaded()), reference, 5.0)
    assert Threaded.asked == [1, 2, 3] and "with 3 threads" in (message or "")


def by_the_interpreter(mod: IRModule) -> Callable[[list[Any]], object]:
    return lambda arguments: interpreter.run(mod, *arguments)


def test_a_packed_input_may_not_be_written() -> None:
    packed = matmul(
        4, 5, 3, attrs={"layout_rewrite_maps": {1: IndexMap.from_func(lambda k, j: [j, k])}}, transposed=True
    )
    reference = compute_reference(matmul(4, 5, 3), by_the_interpreter)

    def call(*arguments: Any) -> None:
        interpreter.run(packed, *arguments)
        arguments[1][0, 0] += 1

    message = confirmed(Kernel(packed, call), reference, 5.0)
    assert message == "the packed input B was written to"

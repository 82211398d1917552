"""The default build: real machine code in real workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ir import IRModule
from ir.error import IRError
from ir.script import from_source
from ir.tir import For, ForKind
from ir.tir.stmt_functor import ir_transform
from runners import (
    BuilderInput,
    EvaluatorConfig,
    LocalBuilder,
    LocalRunner,
    MeasureRequest,
    ResultKind,
    Runner,
    RunnerError,
    RunnerInput,
    WorkerPool,
    aligned_empty,
    checking,
    final_choice,
    measure_candidates,
)
from runners.checking import confirmed
from runners.kernel import Kernel
from runners.native import build_native
from runners.verify import Iterations, compute_reference
from tests.programs.nodes import matmul, scaled
from tests.runners.contract import RunnerContract

QUICK = EvaluatorConfig(number=2, repeat=2, min_repeat_ms=1)


@pytest.fixture(scope="module")
def native_pool() -> Iterator[WorkerPool]:
    with WorkerPool(2) as made:
        yield made


class TestContract(RunnerContract):
    @pytest.fixture
    def runner(self, native_pool: WorkerPool) -> Runner:
        self.builder = LocalBuilder(pool=native_pool)
        return LocalRunner(evaluator_config=QUICK, pool=native_pool)

    def good_input(self, runner: Runner) -> RunnerInput:
        (built,) = self.builder.build([BuilderInput(matmul(16, 16, 16), "cpu")])
        return RunnerInput(built.artifact, reference=matmul(16, 16, 16))

    def bad_input(self, runner: Runner) -> RunnerInput:
        (built,) = self.builder.build([BuilderInput(scaled(16, 3.0), "cpu")])
        return RunnerInput(built.artifact, reference=scaled(16, 2.0))


def parallel(mod: IRModule) -> IRModule:
    """The outermost loop of ``main`` made parallel."""

    def mark(loop: For) -> For | None:
        return loop.replace(kind=ForKind.PARALLEL) if loop.loop_var.name == "i" else None

    func = mod["main"]
    return IRModule({"main": func.with_body(ir_transform(func.body, None, mark, ["tir.For"]))})


def test_parallel_loops_run_in_forked_workers(native_pool: WorkerPool) -> None:
    """Every worker has a thread pool of its own, although the template loaded the runtime before forking."""
    mod = parallel(matmul(64, 64, 64))
    builder, runner = LocalBuilder(pool=native_pool), LocalRunner(evaluator_config=QUICK, pool=native_pool)
    requests = [MeasureRequest(mod, "llvm -num-cores 2", matmul(64, 64, 64)) for _ in range(4)]
    results = [result for _, result in measure_candidates(requests, builder, runner)]
    assert [(result.kind, result.verified) for result in results] == [(ResultKind.OK, True)] * 4


def test_final_choice_on_native_code(native_pool: WorkerPool) -> None:
    small, large = final_choice(
        [BuilderInput(matmul(8, 8, 8), "cpu"), BuilderInput(matmul(64, 64, 64), "cpu")],
        pool=native_pool,
        rounds=3,
    )
    assert small.run_secs and large.run_secs and small.run_secs < large.run_secs


def test_bound_calls_write_to_the_given_arrays() -> None:
    kernel = build_native(scaled(8, 3.0), "cpu")
    a, b = aligned_empty((8,)), aligned_empty((8,))
    a[...] = np.arange(8)
    run = kernel.bind(a, b)
    run()
    np.testing.assert_array_equal(b, 3 * np.arange(8))
    a[...] = 1
    run()
    np.testing.assert_array_equal(b, np.full(8, 3))
    with pytest.raises(IRError, match="must have shape"):
        kernel.bind(a, aligned_empty((9,)))


def test_several_kernels_without_main_are_refused() -> None:
    def named(name: str) -> object:
        return matmul()["main"].with_attr("global_symbol", name)

    with pytest.raises(RunnerError, match=r"\['f', 'g'\]"):
        build_native(IRModule({"f": named("f"), "g": named("g")}), "cpu")


_PADDED = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer(({size},), "{dtype}"), B: T.Buffer(({rows}, {size}), "{dtype}")):
        T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
        for row in T.{kind}({rows}):
            with T.block("row"):
                r = T.axis.spatial({rows}, row)
                S = T.alloc_buffer(({size} + 2,), "{dtype}")
                for i in range({size} + 2):
                    with T.block("pad"):
                        v = T.axis.spatial({size} + 2, i)
                        {write}
                for i in range({size}):
                    with T.block("sum"):
                        v = T.axis.spatial({size}, i)
                        B[r, v] = S[v] + S[v + 1] + S[v + 2]
"""
_ALL = 'S[v] = T.if_then_else(v > 0 and v <= {size}, A[v - 1], T.Cast("{dtype}", 0))'
_INSIDE = "if v > 0 and v <= {size}:\n                            S[v] = A[v - 1]"


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("size", [100, 40000])  # on the stack, and from the runtime
@pytest.mark.parametrize(("kind", "rows"), [("serial", 1), ("parallel", 8)])
def test_what_nobody_wrote_is_no_zero(
    dtype: str, size: int, kind: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A border that is never written is right by luck, as long as new memory is all zeros.

    The check sees it in the program already, and in the calls where it does not.
    """

    def program(write: str) -> Any:
        text = write.format(size=size, dtype=dtype)
        return from_source(_PADDED.format(size=size, rows=rows, kind=kind, dtype=dtype, write=text))

    right, lazy = program(_ALL), program(_INSIDE)
    reference = compute_reference(right, lambda mod: lambda arrays: build_native(mod, "cpu")(*arrays))
    assert confirmed(Kernel(right, build_native(right, "cpu")), reference, 10.0) is None
    kernel = Kernel(lazy, build_native(lazy, "cpu"))
    assert "before it writes it" in (confirmed(kernel, reference, 10.0) or "accepted")
    if kind == "serial":
        monkeypatch.setattr(checking, "iterations_of", lambda *_: Iterations(None, True))
        assert "output B differs" in (confirmed(kernel, reference, 10.0) or "accepted")


_COUNTED = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64, 16), "int32"), C: T.Buffer((16,), "int32")):
        T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
        R = T.alloc_buffer((64,), "int32")
        for i in range(64):
            R[i] = T.min(T.max(T.Cast("int32", A[i] * T.float32(8)) + 8, 0), 15)
        for i, j in T.grid(64, 16):
            B[i, j] = 0
        for j in range(16):
            C[j] = 0
        for i in T.{rows}(64):
            B[i, R[i]] = B[i, R[i]] + 1
        for i in T.{bins}(64):
            C[R[i]] = C[R[i]] + 1
"""


def test_iterations_that_meet_where_computed_data_say() -> None:
    """Threads do not meet in so small a program, and the elements are not known before it runs."""
    program, apart, meeting = (
        from_source(_COUNTED.format(rows=rows, bins=bins))
        for rows, bins in (("serial", "serial"), ("parallel", "serial"), ("serial", "parallel"))
    )
    reference = compute_reference(program, lambda mod: lambda arrays: build_native(mod, "cpu")(*arrays))
    for right in (program, apart):
        assert confirmed(Kernel(right, build_native(right, "cpu")), reference, 10.0) is None
    message = confirmed(Kernel(meeting, build_native(meeting, "cpu")), reference, 10.0)
    assert message is not None and "parallel loop over i reads C[" in message

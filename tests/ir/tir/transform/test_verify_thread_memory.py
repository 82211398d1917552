"""VerifyThreadMemory: kernels whose threads need what others keep are refused, all others are what they were."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, te
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.program import build_cuda
from ir.error import IRValueError
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.tir.transform import VerifyThreadMemory
from schedules import Schedule

TARGET = Target("nvidia/nvidia-a100")


@T.prim_func
def turned(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    C = T.alloc_buffer((64,), scope="local")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for i in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("C"):
                v = T.axis.spatial(64, b + i)
                C[v] = A[v]
        for i in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("B"):
                v = T.axis.spatial(64, b + i)
                B[v] = C[63 - v]


def test_a_read_of_what_another_thread_has_is_refused() -> None:
    with pytest.raises(
        IRValueError,
        match=r"block 'B' may read of C, .* what block 'C' wrote in another thread along threadIdx\.x",
    ):
        VerifyThreadMemory()(IRModule({"main": turned}))
    with pytest.raises(IRValueError, match='Use the scope "shared" for C'):
        lower(turned, TARGET)


def test_a_function_that_is_right_stays_as_it_is() -> None:
    schedule = Schedule(turned)
    schedule.set_scope("C", 0, "shared")
    assert VerifyThreadMemory()(schedule.mod)["main"] is schedule.mod["main"]


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
@pytest.mark.meaning("thread")
def test_shared_memory_in_its_place_computes_what_the_program_says() -> None:
    schedule = Schedule(turned)
    schedule.set_scope("C", 0, "shared")
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    for call in (
        lambda *args: run(lower(schedule.mod, TARGET), *args),
        build_cuda(schedule.mod, TARGET).emulate(),
    ):
        b[:] = 0
        call(a, b)
        assert (b == a[::-1]).all()


def stencil() -> PrimFunc:
    x = te.placeholder((66,), name="x")
    y = te.compute((66,), lambda i: x[i] * 2.0, name="y")
    return te.create_prim_func([x, te.compute((64,), lambda i: y[i] + y[i + 2], name="z")])


@pytest.mark.meaning("thread")
@pytest.mark.parametrize("scope", ["local", "global", "shared"])
def test_a_stencil_whose_threads_compute_all_that_they_read(scope: str) -> None:
    """compute_at makes each thread compute the three elements between the ends of what it reads."""
    schedule = Schedule(stencil())
    blocks, threads = schedule.split(schedule.get_loops("z")[0], [None, 16])
    schedule.bind(blocks, "blockIdx.x")
    schedule.compute_at("y", blocks if scope == "shared" else threads)
    schedule.bind(threads, "threadIdx.x")
    schedule.set_scope("y", 0, scope)
    x, z = np.arange(66, dtype="float32"), np.zeros(64, "float32")
    run(lower(schedule.mod, TARGET), x, z)
    assert (z == 2 * x[:-2] + 2 * x[2:]).all()


@pytest.mark.meaning("thread")
def test_a_stencil_whose_threads_read_what_their_neighbours_compute() -> None:
    schedule = Schedule(stencil())
    blocks, threads = schedule.split(schedule.get_loops("z")[0], [None, 16])
    schedule.bind(blocks, "blockIdx.x")
    schedule.compute_at("y", blocks)
    schedule.bind(threads, "threadIdx.x")
    schedule.bind(schedule.get_loops("y")[-1], "threadIdx.x")
    schedule.set_scope("y", 0, "local")
    with pytest.raises(
        IRValueError, match="block 'z' may read of y_local, .* another thread along threadIdx"
    ):
        lower(schedule.mod, TARGET)
    schedule.set_scope("y", 0, "shared")
    lower(schedule.mod, TARGET)

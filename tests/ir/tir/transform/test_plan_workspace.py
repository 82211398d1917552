"""PlanWorkspace: which buffers move, how the work is called, and what stays in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import IRModule
from ir.codegen.build import build
from ir.node import post_order_visit
from ir.script import tir as T
from ir.tir.analysis.verify_well_formed import verify_well_formed
from ir.tir.buffer import Buffer, decl_buffer
from ir.tir.expr import Var
from ir.tir.function import PrimFunc
from ir.tir.interpreter import run
from ir.tir.operators import const
from ir.tir.stmt import WORKSPACE, Allocate, BufferStore, DeclBuffer, For, ForKind, SeqStmt, Stmt
from ir.tir.transform import PlanWorkspace
from ir.transform import PassContext
from ir.type import PointerType, PrimType


@T.prim_func
def stages(A: T.Buffer((20000,), "float32"), O: T.Buffer((20000,), "float32")):  # type: ignore[no-untyped-def]
    first = T.allocate([20000], "float32", "global")
    F = T.Buffer((20000,), data=first)
    small = T.allocate([16], "float32", "global")
    S = T.Buffer((16,), data=small)
    for i in range(20000):
        F[i] = A[i] + T.float32(1)
    second = T.allocate([20000], "float16", "global")
    H = T.Buffer((20000,), "float16", data=second)
    for i in range(20000):
        H[i] = T.Cast("float16", F[19999 - i])
        S[i % 16] = F[i]
    for i in range(20000):
        O[i] = T.Cast("float32", H[i]) + S[i % 16]


def allocations(func: PrimFunc) -> list[Allocate]:
    found: list[Any] = []
    post_order_visit(func.body, lambda node: found.append(node) if isinstance(node, Allocate) else None)
    return found


def test_large_buffers_are_places_of_one_workspace() -> None:
    after = PlanWorkspace()(IRModule({"main": stages}))
    assert verify_well_formed(after)
    (workspace,) = allocations(after["main"])
    assert WORKSPACE in workspace.annotations
    assert workspace.dtype == "uint8" and int(workspace.extents[0]) == 80000 + 64 + 40000 + 64
    work = after["main_compute"]
    assert work.attrs["tir.outlined"] == "compute"
    assert [item.buffer_var.name for item in allocations(work)] == ["small"]
    assert [int(buffer.shape[0]) for buffer in work.buffer_map.values()] == [20000] * 4
    assert "T.address_of(workspace_1[80064])" in after["main"].script()


def test_results_are_the_same() -> None:
    a = np.random.default_rng(0).integers(-8, 9, 20000).astype("float32")
    results = []
    for module in (IRModule({"main": stages}), PlanWorkspace()(IRModule({"main": stages}))):
        out = np.zeros(20000, "float32")
        run(module, a, out)
        results.append(out)
    out = np.zeros(20000, "float32")
    build(stages)["stages"](a, out)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], out)


def test_small_buffers_stay_until_the_stack_is_full() -> None:
    module = IRModule({"main": stages})
    assert PlanWorkspace(largest_on_stack=1 << 20)(module) is module
    after = PlanWorkspace(largest_on_stack=1 << 20, stack_bytes=100_000)(module)
    assert [item.buffer_var.name for item in allocations(after["main_compute"])] == ["small", "first"]


def test_sizes_that_are_not_constant_stay() -> None:
    @T.prim_func
    def main(O: T.Buffer((8,), "float32"), n: T.int32):  # type: ignore[no-untyped-def]
        data = T.allocate([n], "float32", "global")
        B = T.Buffer((n,), data=data)
        for i in range(8):
            B[i] = T.float32(1)
        for i in range(8):
            O[i] = B[i]

    module = IRModule({"main": main})
    assert PlanWorkspace()(module) is module


def test_a_function_that_returns_a_value_is_left_in_one_piece() -> None:
    @T.prim_func
    def main(A: T.Buffer((20000,), "float32")) -> T.float32:
        data = T.allocate([20000], "float32", "global")
        B = T.Buffer((20000,), data=data)
        for i in range(20000):
            B[i] = A[19999 - i]
        T.ret(B[3] + T.float32(1))

    after = PlanWorkspace()(IRModule({"main": main}))
    assert len(after.functions) == 1
    (kept,) = allocations(after["main"])
    assert WORKSPACE in kept.annotations
    a = np.arange(20000, dtype="float32")
    assert build(main)["main"](a) == 19997 == run(after, a)


def test_buffers_that_are_only_declared_are_allocations() -> None:
    @T.prim_func
    def main(A: T.Buffer((20000,), "float32")):  # type: ignore[no-untyped-def]
        B = T.decl_buffer((20000,), "float32")
        for i in range(20000):
            B[i] = A[19999 - i]
        for i in range(20000):
            A[i] = B[i]

    after = PlanWorkspace()(IRModule({"main": main}))
    assert len(allocations(after["main"])) == 1
    a, b = np.arange(20000, dtype="float32"), np.arange(20000, dtype="float32")
    run(after, a)
    build(main)["main"](b)
    np.testing.assert_array_equal(a, np.arange(20000)[::-1])
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("sizes", [(10000, 20000), (20000, 10000)])
def test_a_variable_may_be_allocated_twice(sizes: tuple[int, int]) -> None:
    memory = Var("t", PointerType(PrimType("int32"), "global"))
    out = decl_buffer((20000,), "int32", "O")

    def stage(size: int, added: int) -> Stmt:
        buffer = decl_buffer((size,), "int32", "B", data=memory)
        i, j = Var("i", "int32"), Var("j", "int32")
        fill = For(i, 0, size, ForKind.SERIAL, BufferStore(buffer, i + added, [i]))
        add = For(j, 0, size, ForKind.SERIAL, BufferStore(out, out[j] + buffer[j], [j]))
        return Allocate(memory, "int32", [size], const(True), SeqStmt([fill, add]))

    module = IRModule({"main": PrimFunc([out], SeqStmt([stage(sizes[0], 1), stage(sizes[1], 5)]))})
    after = PlanWorkspace()(module)
    assert verify_well_formed(after)
    expected = np.zeros(20000, "int32")
    for size, added in zip(sizes, (1, 5), strict=True):
        expected[:size] += np.arange(size, dtype="int32") + added
    for program in (module, after):
        found = np.zeros(20000, "int32")
        run(program, found)
        np.testing.assert_array_equal(found, expected)
    native = np.zeros(20000, "int32")
    build(module)["main"](native)
    np.testing.assert_array_equal(native, expected)


def test_a_buffer_that_is_declared_on_no_memory_is_allocated() -> None:
    buffer = Buffer(Var("S", PointerType(PrimType("float32"), "global")), "float32", (const(16),), name="S")
    body = DeclBuffer(buffer, BufferStore(buffer, const(1.0, "float32"), [const(3)]))
    (allocation,) = allocations(PlanWorkspace()(IRModule({"main": PrimFunc([], body)}))["main"])
    assert allocation.buffer_var is buffer.data and int(allocation.extents[0]) == 16


def test_a_context_says_what_is_large() -> None:
    large = {"largest_on_stack": 1 << 20, "stack_bytes": 1 << 20}
    with PassContext(config={"tir.PlanWorkspace": large}):
        after = PlanWorkspace()(IRModule({"main": stages}))
    assert [var.name_hint for var in after.functions] == ["main"]
    with PassContext(config={"tir.PlanWorkspace": {"largest_on_stack": 0}}):
        after = PlanWorkspace()(IRModule({"main": stages}))
    assert allocations(after["main_compute"]) == []


def test_the_name_of_the_work_is_new() -> None:
    after = PlanWorkspace()(IRModule({"main": stages, "main_compute": stages}))
    assert sorted(var.name_hint for var in after.functions) == [
        "main",
        "main_compute",
        "main_compute1",
        "main_compute_compute",
    ]
    assert "stages" in str(after["main_compute"].attrs["global_symbol"])
    assert verify_well_formed(after)

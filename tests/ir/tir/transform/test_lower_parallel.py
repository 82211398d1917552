"""LowerParallel: a function for each parallel loop, what it captures, and loops that stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import IRModule, assert_structural_equal
from ir import dtype as dt
from ir.codegen.build import build
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import ir as I
from ir.script import tir as T
from ir.tir.analysis.verify_well_formed import verify_well_formed
from ir.tir.function import PrimFunc
from ir.tir.interpreter import run
from ir.tir.stmt import For
from ir.tir.transform import LowerParallel
from ir.transform import PassContext


@T.prim_func
def scaled(A: T.Buffer((64,), "float32"), O: T.Buffer((64,), "float32"), n: T.int32):  # type: ignore[no-untyped-def]
    for k in range(2):
        for i in T.parallel(32):
            O[k * 32 + i] = A[k * 32 + i] * T.Cast("float32", n)


def loop_kinds(func: PrimFunc) -> list[str]:
    found: list[str] = []
    post_order_visit(func.body, lambda node: found.append(node.kind.name) if isinstance(node, For) else None)
    return found


def test_a_function_takes_a_range_and_what_it_captures() -> None:
    after = LowerParallel(0)(IRModule({"main": scaled}))
    assert verify_well_formed(after)
    part = after["main_parallel0"]
    assert [param.name for param in part.params] == ["begin", "end", "O", "A", "k", "n"]
    assert part.attrs["tir.outlined"] == "parallel"
    assert loop_kinds(after["main"]) == loop_kinds(part) == ["SERIAL"]

    @I.ir_module
    class expected:
        @T.prim_func
        def main(A: T.Buffer((64,), "float32"), O: T.Buffer((64,), "float32"), n: T.int32):  # type: ignore[no-untyped-def]
            for k in range(2):
                expected.main_parallel0(0, 32, O.data, A.data, k, n)

        @T.prim_func(private=True)
        def main_parallel0(
            begin: T.SizeVar("int32"),
            end: T.SizeVar("int32"),
            O_data: T.handle("float32", "global"),
            A_data: T.handle("float32", "global"),
            k: T.int32,
            n: T.int32,
        ):  # type: ignore[no-untyped-def]
            T.func_attr({"tir.outlined": "parallel"})
            O = T.Buffer((64,), data=O_data)
            A = T.Buffer((64,), data=A_data)
            for i in range(begin, end):
                O[k * 32 + i] = A[k * 32 + i] * T.Cast("float32", n)

    assert_structural_equal(after["main_parallel0"], expected["main_parallel0"], True)


def test_results_are_those_of_the_loop() -> None:
    a = np.random.default_rng(0).standard_normal(64).astype("float32")
    before, after, native = (np.zeros(64, "float32") for _ in range(3))
    run(scaled, a, before, 3)
    run(LowerParallel(0)(IRModule({"main": scaled})), a, after, 3)
    np.testing.assert_array_equal(before, after)
    with PassContext(config={"tir.LowerParallel": {"least_operations": 0}}):
        module = build(scaled)
    assert "loopsmith_parallel_for" in module.llvm_ir
    assert module.functions() == ["scaled"]
    module["scaled"](a, native, 3)
    np.testing.assert_array_equal(before, native)


def test_loops_that_begin_elsewhere_are_given_ranges_from_zero() -> None:
    @T.prim_func
    def main(O: T.Buffer((64,), "int32"), n: T.int32):  # type: ignore[no-untyped-def]
        for i in T.parallel(5, 64):
            O[i] = i
        for i in T.parallel(n, 3):
            O[i] = i * 2

    results: list[Any] = []
    for module in (IRModule({"main": main}), LowerParallel(0)(IRModule({"main": main}))):
        out = np.zeros(64, "int32")
        run(module, out, 1)
        results.append(out)
    np.testing.assert_array_equal(*results)
    assert [value for value in results[0][:6]] == [0, 2, 4, 0, 0, 5]


@pytest.mark.parametrize(("extent", "outlined"), [(64, False), (1 << 20, True)])
def test_short_loops_stay(extent: int, outlined: bool) -> None:
    @T.prim_func
    def main(A: T.Buffer((extent,), "float32"), O: T.Buffer((extent,), "float32")):  # type: ignore[no-untyped-def]
        for i in T.parallel(extent):
            O[i] = A[i]

    after = LowerParallel()(IRModule({"main": main}))
    assert (len(after.functions) == 2) is outlined
    assert "PARALLEL" not in loop_kinds(after["main"])


def test_a_parallel_loop_inside_of_another_is_serial() -> None:
    @T.prim_func
    def main(O: T.Buffer((8, 8), "float32")):  # type: ignore[no-untyped-def]
        for i in T.parallel(8):
            for j in T.parallel(8):
                O[i, j] = T.float32(1)

    after = LowerParallel(0)(IRModule({"main": main}))
    assert sorted(var.name_hint for var in after.functions) == ["main", "main_parallel0"]
    assert loop_kinds(after["main_parallel0"]) == ["SERIAL", "SERIAL"]


def test_names_that_are_taken_are_left_alone() -> None:
    module = IRModule({"main": scaled, "main_parallel0": scaled.without_attr("global_symbol")})
    after = LowerParallel(0)(module)
    assert sorted(var.name_hint for var in after.functions) == [
        "main",
        "main_parallel0",
        "main_parallel0_parallel0",
        "main_parallel1",
    ]


def test_serial_modules_are_returned_as_they_are() -> None:
    @T.prim_func
    def main(O: T.Buffer((8,), "float32")):  # type: ignore[no-untyped-def]
        for i in range(8):
            O[i] = T.float32(1)

    module = IRModule({"main": main})
    assert LowerParallel(0)(module) is module


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32x4", "float16x4", "int8x4", "bool"])
def test_values_without_a_c_type_go_through_memory(dtype: str) -> None:
    element, lanes = dtype.split("x")[0], int((dtype.split("x") + ["1"])[1])
    func = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((8,), "{element}"), O: T.Buffer((64,), "{element}")):
    x: T.{dtype} = A[{"1" if lanes == 1 else "0:4"}]
    y: T.{dtype} = A[{"2" if lanes == 1 else "4:8"}]
    for i in T.parallel({64 // lanes}):
        O[{"i" if lanes == 1 else "i * 4:i * 4 + 4"}] = T.Select({"i % 3 == 0" if lanes == 1 else "T.Broadcast(i % 3 == 0, 4)"}, x, y)
"""
    )
    module = IRModule({"main": func})
    assert verify_well_formed(LowerParallel(0)(module))
    a = np.array([0, 1, 0, 1, 1, 0, 0, 0]).astype(dt.to_numpy(element))
    results = []
    for program in (module, LowerParallel(0)(module)):
        out = np.zeros(64, a.dtype)
        run(program, a, out)
        results.append(out)
    native = np.zeros(64, a.dtype)
    with PassContext(config={"tir.LowerParallel": {"least_operations": 0}}):
        build(func)["main"](a, native)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], native)

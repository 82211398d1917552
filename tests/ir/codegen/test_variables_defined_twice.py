"""One variable of two loops, or of a loop and a let, is another one each time; what is known of the first says nothing of the second."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from ir.codegen.build import build
from ir.script import from_source
from ir.tir import interpreter
from ir.tir.buffer import decl_buffer
from ir.tir.expr import Var
from ir.tir.function import PrimFunc
from ir.tir.stmt import BufferStore, For, ForKind, LetStmt, SeqStmt, Stmt

A, B = decl_buffer((64,), "int32", "A"), decl_buffer((64,), "int32", "B")
I = Var("i", "int32")
BODIES: dict[str, Callable[[], Stmt]] = {
    "plain": lambda: BufferStore(B, A[I] + I, [I]),
    "sums": lambda: BufferStore(B, A[I * 2] + A[I * 2 + 1], [I * 2]),
}
DEFINITIONS: dict[str, Callable[[Stmt], Stmt]] = {
    "serial": lambda body: For(I, 0, 4, ForKind.SERIAL, body),
    "unrolled": lambda body: For(I, 8, 8, ForKind.UNROLLED, body),
    "once": lambda body: For(I, 5, 1, ForKind.SERIAL, body),
    "let": lambda body: LetStmt(I, A[20], body),
    "vectorized": lambda body: For(I, 0, 16, ForKind.VECTORIZED, body),
}


@pytest.mark.parametrize("is_shared", [False, True], ids=["made_twice", "one_object"])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("first", "second"), list(itertools.product(DEFINITIONS, repeat=2)))
def test_two_definitions(first: str, second: str, body: str, is_shared: bool) -> None:
    once = BODIES[body]()
    bodies = [once, once] if is_shared else [once, BODIES[body]()]
    func = PrimFunc([A, B], SeqStmt([DEFINITIONS[first](bodies[0]), DEFINITIONS[second](bodies[1])]))
    values, expected, native = np.arange(64, dtype="int32"), np.zeros(64, "int32"), np.zeros(64, "int32")
    interpreter.run(func, values, expected)
    build(func)["main"](values, native)
    np.testing.assert_array_equal(native, expected)


@pytest.mark.parametrize("extent", [17, 18, 20, 32])
def test_a_condition_that_leaves_an_unrolled_loop(extent: int) -> None:
    """Two loops of one variable come of it; with more than 320 statements in both together, one of them is not unrolled."""
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32"), n: T.int32):
    for i in T.unroll({extent}):
        if n < 5:
            B[i] = A[i]
        else:
            B[i] = A[i] + 1""")
    for n in (3, 7):
        values, expected, native = np.arange(32, dtype="int32"), np.zeros(32, "int32"), np.zeros(32, "int32")
        interpreter.run(func, values, expected, n)
        build(func)["main"](values, native, n)
        np.testing.assert_array_equal(native, expected)


def test_a_loop_that_runs_once_begins_where_memory_says_before_its_body() -> None:
    func = from_source("""@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((1,), "int32")):
    for i in T.serial(C[0], C[0] + 1):
        C[0] = C[0] + 5
        B[i] = A[i] + 1""")
    values, expected, native = np.arange(16, dtype="int32"), np.zeros(16, "int32"), np.zeros(16, "int32")
    interpreter.run(func, values, expected, np.full(1, 2, "int32"))
    build(func)["main"](values, native, np.full(1, 2, "int32"))
    np.testing.assert_array_equal(native, expected)
    assert expected[2] == 3

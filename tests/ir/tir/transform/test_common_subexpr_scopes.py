"""CommonSubexprElimTIR where loops share their variable, or are one object in several places."""

from __future__ import annotations

import numpy as np

from ir import IRModule
from ir.codegen.build import build
from ir.tir.buffer import decl_buffer
from ir.tir.expr import FloorDiv, Var
from ir.tir.function import PrimFunc
from ir.tir.interpreter import run
from ir.tir.operators import const
from ir.tir.stmt import BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt
from ir.tir.transform import CommonSubexprElimTIR

A, O = decl_buffer((64,), "int32", "A"), decl_buffer((64,), "int32", "O")
N, K, I = Var("n", "int32"), Var("k", "int32"), Var("i", "int32")


def check(body: Stmt) -> None:
    func = PrimFunc([A, O, N], body)
    a = np.arange(64, dtype="int32")[::-1].copy()
    expected = np.arange(64, dtype="int32")
    run(func, a, expected, 5)
    after = CommonSubexprElimTIR()(IRModule({"main": func}))
    for call in (lambda *args: run(after, *args), build(func)["main"]):
        found = np.arange(64, dtype="int32")
        call(a, found, 5)
        np.testing.assert_array_equal(found, expected)


def loop(var: Var, start: int, extent: int, body: Stmt) -> For:
    return For(var, start, extent, ForKind.SERIAL, body)


def test_a_loop_that_stands_in_two_loops() -> None:
    place = K * 8 + I
    inner = loop(I, 0, 8, BufferStore(O, O[place] * 3 + I + K, [place]))
    check(SeqStmt([loop(K, 0, 4, inner), loop(K, 2, 6, inner)]))


def test_the_branches_of_a_hoisted_condition_share_an_index() -> None:
    place = K * 8 + I
    then = SeqStmt([BufferStore(O, A[place] + 1, [place]), BufferStore(O, O[place] * 2, [place])])
    otherwise = SeqStmt([BufferStore(O, A[place] + 7, [place]), BufferStore(O, O[place] * 5, [place])])
    check(loop(K, 0, 8, loop(I, 0, 8, IfThenElse(N < 5, then, otherwise))))


def test_what_is_known_in_one_copy_of_a_loop_is_not_taken_for_known_in_another() -> None:
    place = FloorDiv(I, const(3)) * 8 + K  # one object in both loops
    body = SeqStmt([BufferStore(O, O[place] + A[place], [place]), BufferStore(O, A[place] - 1, [place + 5])])
    check(loop(K, 0, 3, SeqStmt([loop(I, 0, 9, body), loop(I, 3, 6, body)])))

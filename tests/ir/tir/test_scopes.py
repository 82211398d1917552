"""One variable with several definitions, and expressions that stand in the scopes of more than one."""

from __future__ import annotations

import numpy as np
import pytest

from ir.codegen.build import build
from ir.tir.analysis.block_access_region import get_block_access_region
from ir.tir.analysis.undefined_vars import undefined_vars
from ir.tir.buffer import decl_buffer
from ir.tir.expr import Let, PrimExpr, Var
from ir.tir.function import PrimFunc
from ir.tir.interpreter import run
from ir.tir.stmt import Block, BufferStore, For, ForKind, LetStmt, SeqStmt, Stmt

A, O = decl_buffer((64,), "int32", "A"), decl_buffer((64,), "int32", "O")
I, X = Var("i", "int32"), Var("x", "int32")
KINDS = [ForKind.SERIAL, ForKind.VECTORIZED, ForKind.UNROLLED]


def compare(body: Stmt, a: np.ndarray) -> None:
    func = PrimFunc([A, O], body)
    expected, found = np.zeros(64, "int32"), np.zeros(64, "int32")
    run(func, a, expected)
    build(func)["main"](a, found)
    np.testing.assert_array_equal(found, expected)


def loop(kind: ForKind, body: Stmt) -> For:
    return For(I, 0, 64, kind, body)


@pytest.mark.parametrize("kind", KINDS)
def test_two_lets_share_a_body(kind: ForKind) -> None:
    body = A[X % 64] + X * X
    twice: PrimExpr = Let(X, I, body) + Let(X, I + 5, body) * 100
    compare(loop(kind, BufferStore(O, twice, [I])), np.arange(64, dtype="int32")[::-1].copy())


@pytest.mark.parametrize("kind", KINDS)
def test_a_let_statement_defines_a_variable_again(kind: ForKind) -> None:
    first = LetStmt(X, I, BufferStore(O, X * X, [I]))
    second = LetStmt(X, A[3], BufferStore(O, O[I] + X, [I]))
    compare(loop(kind, SeqStmt([first, second])), np.full(64, 3, "int32"))


def test_a_let_defines_the_variable_of_a_loop_again() -> None:
    again = Let(I, A[0], I // 8 + I % 8 * 100)
    body = SeqStmt([loop(ForKind.SERIAL, BufferStore(O, I // 8, [I])), BufferStore(O, again, [5])])
    compare(body, np.full(64, -13, "int32"))


def test_analyses_see_each_scope() -> None:
    load = A[X]
    block = Block([], [], [], "b", BufferStore(O, Let(X, I, load) + Let(X, I + 5, load), [0]))
    assert "A[i:i + 6]" in str(get_block_access_region(block, {A.data: A, O.data: O})[0][0])
    square = X * X
    assert undefined_vars(Let(X, I, square) + square) == [I, X]

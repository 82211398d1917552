"""Copies of statements: two of them define nothing together, and each uses what it defines."""

import pytest

from experiments.fuzz.round_trips import round_trip
from ir.node import post_order_visit
from ir.script import from_source
from ir.structural import structural_equal
from ir.tir import BlockRealize, Buffer, SeqStmt, Var
from ir.tir.stmt import seq
from ir.tir.transform.fresh_copy import fresh_copy

BODIES = {
    "views": """
for i in range(4):
    with T.block("B"):
        vi = T.axis.spatial(4, i)
        s, o = T.int32(), T.int32()
        row = T.match_buffer(A[vi, 0:8], (8,), strides=(s,), elem_offset=o)
        with T.block("inner"):
            half = T.match_buffer(row[0:4], (4,), offset_factor=1)
            half[s] = row[0]
""",
    "allocated by a block": """
for i in range(4):
    with T.block("outer"):
        vi = T.axis.spatial(4, i)
        B = T.alloc_buffer((8,))
        for j in range(8):
            with T.block("B"):
                vj = T.axis.spatial(8, j)
                B[vj] = A[vi, vj]
""",
    "reductions": """
for i, k in T.grid(4, 8):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            A[vi, 0] = T.float32(0)
        A[vi, 0] = A[vi, 0] + T.float32(1)
""",
    "lets and allocations": """
n = T.int32()
with T.LetStmt(T.Cast("int32", A[0, 0]), var=n):
    data = T.allocate([8], "float32", "global")
    flat = T.decl_buffer((8,), data=data)
    flat[n] = A[1, n]
""",
    "declarations": """
flat = T.decl_buffer((8, 4), data=A.data)
flat[0, 0] = flat[1, 1]
""",
    "annotations": """
for i in T.serial(8, annotations={"first": A[0, 0] + T.float32(1)}):
    for j in T.serial(8, annotations={"outer": i}):
        A[0, i] = A[0, j]
""",
}


def function(body: str):
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return from_source(f'@T.prim_func\ndef main(A: T.Buffer((4, 8), "float32")):\n{lines}\n')


def statement(func):
    return func.body.block.body if isinstance(func.body, BlockRealize) else func.body


def with_body(func, stmt):
    root = func.body
    return func.replace(
        body=root.replace(block=root.block.replace(body=stmt)) if isinstance(root, BlockRealize) else stmt
    )


def shared(first, second, func):
    """What both statements mention, but for the parameter of the function."""
    found = []
    for stmt in (first, second):
        found.append(set())
        post_order_visit(stmt, lambda node: found[-1].add(node) if isinstance(node, Var | Buffer) else None)
    parameter = func.buffer_map[func.params[0]]
    return (found[0] & found[1]) - {parameter, parameter.data}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_copy_beside_the_statement_shares_nothing_that_it_defines(body):
    func = function(body)
    stmt = statement(func)
    copy = fresh_copy(stmt)
    assert not shared(stmt, copy, func)
    assert structural_equal(with_body(func, copy), func)
    assert not round_trip(with_body(func, seq([stmt, copy])))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_statement_that_stands_twice_in_another_is_two_of_its_copy(body):
    func = function(body)
    first, second = fresh_copy(SeqStmt([statement(func), statement(func)])).seq
    assert not shared(first, second, func)
    assert structural_equal(with_body(func, first), with_body(func, second))

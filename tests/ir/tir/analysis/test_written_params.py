"""Which parameters of a kernel it writes to."""

from __future__ import annotations

from ir import tir
from ir.script import tir as T
from ir.tir.analysis.written_params import stored_params, written_params


@T.prim_func
def copy(a: T.Buffer((4,)), b: T.Buffer((4,)), n: T.int32):
    for i in range(4):
        b[i] = a[i]


@T.prim_func
def through_a_matched_region(a: T.handle, b: T.handle):
    A, B = T.match_buffer(a, (4, 4)), T.match_buffer(b, (4, 4))
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            T.reads(B[vi, 0:4])
            T.writes(A[vi, 0:4])
            row = T.match_buffer(A[vi, 0:4], (4,), offset_factor=1)
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    row[vj] = B[vi, vj]


@T.prim_func
def calls_something(a: T.Buffer((4,)), b: T.Buffer((4,)), n: T.int32):
    T.evaluate(T.call_extern("int32", "f", a.data))


@T.prim_func
def own_memory(a: T.Buffer((4,)), b: T.Buffer((4,))):
    c = T.alloc_buffer((4,))
    for i in range(4):
        c[i] = a[i]
    for i in range(4):
        b[i] = b[i] + c[i]


def test_stores() -> None:
    assert written_params(copy) == (1,)
    assert written_params(own_memory) == (1,)


def test_a_matched_region_is_memory_of_its_source() -> None:
    assert written_params(through_a_matched_region) == (0,)


def test_a_call_with_effects_may_write_everything() -> None:
    assert written_params(calls_something) == (0, 1)


def test_what_is_certainly_stored_to() -> None:
    assert stored_params(copy) == (1,)
    assert stored_params(through_a_matched_region) == (0,)
    assert stored_params(calls_something) == ()  # who knows what it writes
    assert stored_params(own_memory) == written_params(own_memory)


def test_what_is_shared_is_looked_at_once() -> None:
    A = tir.decl_buffer((4,), "float32", "A")
    value: tir.PrimExpr = A[0]
    for _ in range(200):
        value = value * value
    found = stored_params(tir.PrimFunc([A], tir.BufferStore(A, value, [0])))
    assert found == (0,)

"""IfConversion: choices between a few operations become selections whose loads are masked; others stay branches."""

from __future__ import annotations

import pytest

from ir import tir
from ir.node import post_order_visit
from ir.script import tir as T
from ir.tir.transform import IfConversion


def test_a_load_is_masked_by_the_condition(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.if_then_else(1 <= i, A[i - 1] * T.float32(2), T.float32(3))

    @T.prim_func
    def after(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.Select(1 <= i, A.vload([i - 1], predicate=1 <= i) * T.float32(2), T.float32(3))

    check(IfConversion(), before, after)


def test_the_other_side_is_masked_by_the_opposite(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.if_then_else(i < 4, A[i + 4], A[i - 4])

    @T.prim_func
    def after(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.Select(i < 4, A.vload([i + 4], predicate=i < 4), A.vload([i - 4], predicate=not i < 4))

    check(IfConversion(), before, after)


def test_vectors_are_masked_in_all_lanes(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for i in range(8):
            B[T.Ramp(i * 4, 1, 4)] = T.if_then_else(
                1 <= i, A[T.Ramp(i * 4 - 4, 1, 4)], T.Broadcast(T.float32(0), 4)
            )

    @T.prim_func
    def after(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for i in range(8):
            B[T.Ramp(i * 4, 1, 4)] = T.Select(
                1 <= i,
                A.vload([T.Ramp(i * 4 - 4, 1, 4)], predicate=T.Broadcast(1 <= i, 4)),
                T.Broadcast(T.float32(0), 4),
            )

    check(IfConversion(), before, after)


@T.prim_func
def calls(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = T.if_then_else(1 <= i, T.exp(A[i - 1]), T.float32(0))


@T.prim_func
def divides(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = T.if_then_else(A[i] != 0, 100 // A[i], 0)


@T.prim_func
def is_masked(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = T.if_then_else(i < 4, A.vload([i], predicate=i < 2), T.float32(7))


@T.prim_func
def divides_in_an_index(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = T.if_then_else(A[i] != 0, B[100 // A[i] % 8], 0)


@T.prim_func
def has_an_effect(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = T.if_then_else(T.call_packed("next", dtype="int32") != 0, A[i], 0)


@T.prim_func
def is_long(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(2, 8):
        B[i] = T.if_then_else(
            2 < i,
            A[i] * A[i] + A[i - 1] * A[i - 1] + A[i - 2] * A[i - 2] + A[i - 3] * A[i - 3] + A[i] * A[i - 3]
            + A[i - 1] * A[i - 2] + A[i] * A[i - 1] + A[i] * A[i - 2],
            T.float32(0),
        )  # fmt: skip


@T.prim_func
def is_strided(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for i in range(4):
        B[T.Ramp(i * 4, 1, 4)] = T.if_then_else(1 <= i, A[T.Ramp(i - 1, 2, 4)], T.Broadcast(T.float32(0), 4))


@pytest.mark.parametrize(
    "func",
    [calls, divides, divides_in_an_index, has_an_effect, is_masked, is_long, is_strided],
    ids=lambda func: func.attrs["global_symbol"],
)
def test_branches_that_are_worth_it_stay(apply, func):  # type: ignore[no-untyped-def]
    assert apply(IfConversion(), func, same_results=func not in (is_strided, has_an_effect)) is func


def test_a_buffer_that_may_be_empty_is_not_read_elsewhere(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(a: T.handle, B: T.Buffer((8,), "float32")):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(8):
            B[i] = T.if_then_else(i < n, A[i], T.float32(0))

    assert apply(IfConversion(), main, same_results=False) is main


def test_a_choice_that_is_not_cheap_may_hold_one_that_is(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.if_then_else(1 <= i, T.exp(T.if_then_else(2 <= i, A[i - 2], T.float32(1))), T.float32(0))

    text = apply(IfConversion(), main).script()
    assert "T.if_then_else(1 <= i, T.exp(T.Select(2 <= i, A.vload([i - 2], predicate=2 <= i)" in text


def test_a_loop_that_copies_decides(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
        for i in T.unroll(4):
            B[i] = T.if_then_else(2 <= i, A[i - 2], T.float32(7))

    copied = apply(tir.transform.UnrollLoop(), apply(IfConversion(), main))
    assert "predicate" not in copied.script() and "Select" not in copied.script()


def test_a_load_keeps_its_mask_when_its_index_is_chosen_too(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            B[i] = T.if_then_else(n < 16, A[T.if_then_else(B[i] < 1, n, A[3])], 7)

    after = apply(tir.transform.IfConversion(), main)
    loads = []
    post_order_visit(
        after.body,
        lambda node: (
            loads.append(node) if isinstance(node, tir.BufferLoad) and node.buffer.name == "A" else None
        ),
    )
    assert len(loads) == 2
    assert all(load.predicate is not None and "n < 16" in str(load.predicate) for load in loads)


def test_a_load_that_both_sides_share_has_the_mask_of_each(apply):  # type: ignore[no-untyped-def]
    i, A, B = tir.Var("i"), tir.decl_buffer((8,), "int32", "A"), tir.decl_buffer((8,), "int32", "B")
    load = tir.BufferLoad(A, [i])
    choice = tir.if_then_else(i < 4, load + 1, load * 2)
    func = tir.PrimFunc([A, B], tir.For(i, 0, 8, tir.ForKind.SERIAL, tir.BufferStore(B, choice, [i])))
    text = apply(IfConversion(), func).script()
    assert "predicate=i < 4)" in text and "predicate=not i < 4)" in text


@pytest.mark.parametrize("place", ["condition", "index"])
def test_a_choice_that_binds_variables_stays(apply, place):  # type: ignore[no-untyped-def]
    """The condition would stand at the load, and once more where it is."""
    i, x = tir.Var("i"), tir.Var("x")
    A, B = tir.decl_buffer((8,), "int32", "A"), tir.decl_buffer((8,), "int32", "B")
    bound = tir.Let(x, i // 2, x + 1)
    condition, index = (bound < 3, i) if place == "condition" else (i < 3, bound)
    choice = tir.if_then_else(condition, A[index], tir.const(7))
    func = tir.PrimFunc([A, B], tir.For(i, 0, 8, tir.ForKind.SERIAL, tir.BufferStore(B, choice, [i])))
    assert apply(IfConversion(), func) is func

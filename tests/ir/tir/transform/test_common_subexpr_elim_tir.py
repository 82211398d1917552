"""CommonSubexprElimTIR: what indices share is computed once, where all of it is known, and nothing is computed that might fail."""

from __future__ import annotations

import pytest

from ir import IRModule, te, tir
from ir.node import post_order_visit
from ir.script import tir as T
from ir.tir.function import PrimFunc
from ir.tir.transform import CommonSubexprElimTIR
from ir.transform import PassContext


def lets(func: PrimFunc) -> list[str]:
    found: list[str] = []
    post_order_visit(
        func.body, lambda node: found.append(str(node.value)) if isinstance(node, tir.LetStmt) else None
    )
    return found


def test_sums_are_shared_whatever_the_order_and_outer_parts_by_inner_ones(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((400,), "float32"), B: T.Buffer((400,), "float32")):
        for i in range(5):
            for j in range(6):
                B[i * 60 + j * 2] = A[j * 2 + i * 60 + 3] + A[i * 60 + j * 2]
                B[i * 60 + 1] = A[i * 60 + 7]

    @T.prim_func
    def after(A: T.Buffer((400,), "float32"), B: T.Buffer((400,), "float32")):
        for i in range(5):
            outer: T.int32 = i * 60
            for j in range(6):
                inner: T.int32 = outer + j * 2
                B[inner] = A[inner + 3] + A[inner]
                B[outer + 1] = A[outer + 7]

    check(CommonSubexprElimTIR(), before, after)


def test_variables_of_loops_to_be_copied_are_added_in_place(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(8):
            for u in T.unroll(4):
                B[i * 8 + u * 2 + 1] = A[i * 4 + u]

    @T.prim_func
    def after(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(8):
            a: T.int32 = T.optimization_barrier(i * 4)
            b: T.int32 = T.optimization_barrier(i * 8)
            for u in T.unroll(4):
                B[b + (u * 2 + 1)] = A[a + u]

    check(CommonSubexprElimTIR(barrier=True), before, after)


def test_copies_of_the_innermost_loop_s_body_share_its_part_and_outer_parts_stay_outside(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
        for i, j in T.grid(4, 8):
            for u in T.unroll(2):
                B[i * 64 + j * 8 + u * 2] = A[i * 16 + j * 8 + u]

    @T.prim_func
    def after(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
        for i in range(4):
            a: T.int32 = i * 16
            b: T.int32 = i * 64
            for j in range(8):
                inner: T.int32 = T.optimization_barrier(j * 8)
                for u in T.unroll(2):
                    B[b + inner + u * 2] = A[a + inner + u]

    check(CommonSubexprElimTIR(barrier=True), before, after)


def test_the_parts_of_all_loops_around_the_innermost_one_are_one_sum(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
        for i, j, k in T.grid(4, 4, 4):
            for u in T.unroll(2):
                B[i * 64 + j * 16 + k * 4 + u] = A[i * 32 + j * 8 + k * 4 + u * 2]

    @T.prim_func
    def after(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
        for i, j in T.grid(4, 4):
            a: T.int32 = i * 32 + j * 8
            b: T.int32 = i * 64 + j * 16
            for k in range(4):
                inner: T.int32 = T.optimization_barrier(k * 4)
                for u in T.unroll(2):
                    B[b + inner + u] = A[a + inner + u * 2]

    check(CommonSubexprElimTIR(barrier=True), before, after)


def test_barriers_do_not_wait_for_each_other(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((256,), "float32")):
        for i in range(8):
            for u in T.unroll(2):
                B[i * 16 + u] = A[i + u]

    @T.prim_func
    def after(A: T.Buffer((64,), "float32"), B: T.Buffer((256,), "float32")):
        for i in range(8):
            one: T.int32 = T.optimization_barrier(i)
            sixteen: T.int32 = T.optimization_barrier(i * 16)
            for u in T.unroll(2):
                B[sixteen + u] = A[one + u]

    check(CommonSubexprElimTIR(barrier=True), before, after)


def test_quotients_are_shared_by_different_sums(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
        for i in range(64):
            B[i // 7 * 16 + i % 7] = A[i // 7 + i % 7 * 3]

    assert lets(apply(CommonSubexprElimTIR(), before)) == ["i % 7", "i // 7"]


def test_terms_that_cancel_are_not_computed(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(64):
            B[i // 3 + i - i // 3] = A[i]

    assert "B[i] = A[i]" in apply(CommonSubexprElimTIR(), before).script()


def test_a_vector_s_first_index_and_a_broadcast_are_indices_too(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
        for i, j in T.grid(4, 4):
            B[T.Ramp(i * 64 + j * 4, 1, 4)] = (
                A[T.Ramp(i * 64 + j * 4, 1, 4)] * A[T.Broadcast(i * 64 + j * 4, 4)]
            )

    assert lets(apply(CommonSubexprElimTIR(), before)) == ["i * 64 + j * 4"]


def test_what_loads_or_might_fail_stays_where_it_is(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(I: T.Buffer((8,), "int32"), A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(8):
            if n != 0:
                A[i // n] = A[i // n] + I[i]
            A[T.min(T.max(I[i], 0), 63)] = A[T.min(T.max(I[i], 0), 63)] + 1

    assert lets(apply(CommonSubexprElimTIR(), before, same_results=False)) == []


def test_what_is_used_once_stays_in_place(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((64,), "float32")):
        for i, j in T.grid(8, 8):
            A[i * 8 + j] = T.float32(0)

    assert lets(apply(CommonSubexprElimTIR(), before)) == []


def test_a_variable_that_two_loops_define_has_two_scopes() -> None:
    i = tir.Var("i", "int32")
    A = tir.decl_buffer((64,), "float32", "A")

    def loop(offset: int) -> tir.For:
        stores = [tir.BufferStore(A, tir.const(1.0, "float32"), [i * 8 + k + offset]) for k in range(2)]
        return tir.For(i, 0, 4, tir.ForKind.SERIAL, tir.SeqStmt(stores))

    func = PrimFunc([A.data], tir.SeqStmt([loop(0), loop(32)]))
    after = CommonSubexprElimTIR()(IRModule({"main": func}))["main"]
    assert isinstance(after, PrimFunc) and lets(after) == ["i * 8", "i * 8"]


def test_indices_of_unknown_variables_stay() -> None:
    @T.prim_func
    def blocks(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(8):
            with T.block("b"):
                v = T.axis.spatial(8, i)
                B[v * 8] = A[v * 8 + 1] + A[v * 8]

    after = CommonSubexprElimTIR()(IRModule({"main": blocks}))["main"]
    assert isinstance(after, PrimFunc) and lets(after) == []


def test_a_deep_index_takes_linear_time(apply):  # type: ignore[no-untyped-def]
    i = te.var("i")
    x = i
    for level in range(40):
        x = x + x if level % 2 else tir.Mul(x, x) % 5
    A = tir.decl_buffer((64,), "float32", "A")
    store = tir.BufferStore(A, tir.const(1.0, "float32"), [tir.FloorMod(x, tir.const(64))])
    func = PrimFunc([A.data], tir.For(i, 0, 4, tir.ForKind.SERIAL, tir.SeqStmt([store, store])))
    after = CommonSubexprElimTIR().transform_function(func, IRModule({"main": func}), PassContext())
    found = []
    post_order_visit(after, lambda node: found.append(node) if isinstance(node, tir.LetStmt) else None)
    assert len(found) == 1


def test_the_option_switches_it_off(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((64,), "float32")):
        for i in range(4):
            A[i * 8] = A[i * 8 + 1]

    with PassContext(config={"tir.disable_cse_tir": True}):
        assert apply(CommonSubexprElimTIR(), before) is before
    with PassContext(config={"tir.disable_cse_tir": False}):
        assert lets(apply(CommonSubexprElimTIR(), before)) == ["i * 8"]


@pytest.mark.parametrize("barrier", [False, True])
def test_applied_twice_changes_nothing_more(apply, barrier: bool):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((400,), "float32"), B: T.Buffer((400,), "float32")):
        for i in range(5):
            for j in range(6):
                B[i * 60 + j * 2] = A[j * 2 + i * 60 + 3] + A[i * 60 + j * 2]

    once = apply(CommonSubexprElimTIR(barrier=barrier), before)
    assert lets(apply(CommonSubexprElimTIR(barrier=barrier), once)) == lets(once)


def test_casts_to_different_widths_differ(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((900,), "float32"), B: T.Buffer((900,), "float32")):
        for i in range(300):
            B[T.Cast("int32", T.Cast("int16", i * 3))] = A[T.Cast("int32", T.Cast("int8", i)) + 128]
            B[T.Cast("int32", T.Cast("int8", i * 3)) + 128] = A[T.Cast("int32", T.Cast("int16", i))]

    apply(CommonSubexprElimTIR(), before)


def test_what_is_subtracted_is_shared_as_such(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i, j in T.grid(5, 6):
            B[i * 8 - j + 8] = A[i * 8 - j + 10]

    assert lets(apply(CommonSubexprElimTIR(), before)) == ["i * 8 + j * -1"]


def test_a_loop_that_stands_twice_defines_what_it_shares_twice() -> None:
    i, buffer = tir.Var("i"), tir.decl_buffer((64,), "int32", "A")
    stores = [tir.BufferStore(buffer, tir.const(1), [i * 8 + k]) for k in range(2)]
    loop = tir.For(i, 0, 4, tir.ForKind.SERIAL, tir.SeqStmt(stores))
    after = CommonSubexprElimTIR()(IRModule({"main": PrimFunc([buffer], tir.SeqStmt([loop, loop]))}))
    tir.analysis.verify_well_formed(after["main"])
    assert lets(after["main"]) == ["i * 8", "i * 8"]  # type: ignore[arg-type]


def test_the_bounds_of_loops_share_indices_too(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(P: T.Buffer((40,), "int32"), A: T.Buffer((40,), "int32")):
        for i, k in T.grid(4, 4):
            for j in range(P[i * 8 + k * 2], P[i * 8 + k * 2 + 1]):
                A[i * 8 + k * 2] = j

    @T.prim_func
    def after(P: T.Buffer((40,), "int32"), A: T.Buffer((40,), "int32")):
        for i, k in T.grid(4, 4):
            index: T.int32 = i * 8 + k * 2
            for j in range(P[index], P[index + 1]):
                A[index] = j

    check(CommonSubexprElimTIR(), before, after, same_results=False)

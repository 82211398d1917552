"""LowerCrossThreadReduction: a part for each thread, an exchange, and who writes the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ir import IRModule, tir
from ir.error import IRValueError
from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc
from ir.tir.transform import LowerCrossThreadReduction, PlanAndUpdateBufferAllocationLocation


@T.prim_func
def rows(A: T.Buffer((4, 120), "float32"), B: T.Buffer((4,), "float32")):
    for i, k_0 in T.grid(4, 4):
        for k_1 in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce(120, k_0 * 32 + k_1)
                T.where(k_0 * 32 + k_1 < 120)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def rows_lowered(A: T.Buffer((4, 120), "float32"), B: T.Buffer((4,), "float32")):
    in_thread_B = T.alloc_buffer((1,), scope="local")
    cross_thread_B = T.alloc_buffer((1,), scope="local")
    for i in range(4):
        for k_1 in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("B_in_thread_init"):
                T.reads()
                T.writes(in_thread_B[0])
                in_thread_B[0] = T.float32(0)
            for k_0 in range(4):
                with T.block("B_in_thread"):
                    vi = T.axis.spatial(4, i)
                    v_k_0 = T.axis.reduce(4, k_0)
                    v_k_1 = T.axis.spatial(32, k_1)
                    T.where(k_0 * 32 + k_1 < 120)
                    T.reads(in_thread_B[0], A[vi, v_k_0 * 32 + v_k_1])
                    T.writes(in_thread_B[0])
                    in_thread_B[0] = in_thread_B[0] + A[vi, v_k_0 * 32 + v_k_1]
            with T.block("B_cross_thread"):
                v_k_1 = T.axis.spatial(32, k_1)
                T.reads(in_thread_B[0])
                T.writes(cross_thread_B[0])
                with T.attr(
                    T.comm_reducer(lambda x, y: x + y, [T.float32(0)]),
                    "reduce_scope",
                    T.reinterpret("handle", T.uint64(0)),
                ):
                    T.tvm_thread_allreduce(
                        T.uint32(1), in_thread_B[0], T.bool(True), cross_thread_B[0], v_k_1
                    )
            with T.block("B_write_back"):
                vi = T.axis.spatial(4, i)
                T.where(k_1 == 0)
                T.reads(cross_thread_B[0])
                T.writes(B[vi])
                B[vi] = cross_thread_B[0]


def test_serial_loops_of_the_reduction_and_a_predicate(check: Callable[..., None]) -> None:
    check(LowerCrossThreadReduction(), rows, rows_lowered, False)


def test_what_a_thread_has_of_itself_is_given_as_it_is_and_spatial_threads_keep_their_meaning(
    check: Callable[..., None],
) -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8, 16), "float32"), B: T.Buffer((4, 8), "float32")):
        for i in T.thread_binding(4, thread="blockIdx.x"):
            for j in T.thread_binding(8, thread="threadIdx.y"):
                for k in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("B"):
                        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                        with T.init():
                            B[vi, vj] = T.float32("-inf")
                        B[vi, vj] = T.max(B[vi, vj], A[vi, vj, vk] * T.float32(2))

    @T.prim_func
    def after(A: T.Buffer((4, 8, 16), "float32"), B: T.Buffer((4, 8), "float32")):
        cross_thread_B = T.alloc_buffer((1,), scope="local")
        for i in T.thread_binding(4, thread="blockIdx.x"):
            for j in T.thread_binding(8, thread="threadIdx.y"):
                for k in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("B_cross_thread"):
                        vi, vj, v_k = T.axis.remap("SSS", [i, j, k])
                        T.reads(A[vi, vj, v_k])
                        T.writes(cross_thread_B[0])
                        with T.attr(
                            T.comm_reducer(lambda x, y: T.max(x, y), [T.float32("-inf")]),
                            "reduce_scope",
                            T.reinterpret("handle", T.uint64(0)),
                        ):
                            T.tvm_thread_allreduce(
                                T.uint32(1),
                                A[vi, vj, v_k] * T.float32(2),
                                T.bool(True),
                                cross_thread_B[0],
                                v_k,
                            )
                    with T.block("B_write_back"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.where(k == 0)
                        T.reads(cross_thread_B[0])
                        T.writes(B[vi, vj])
                        B[vi, vj] = cross_thread_B[0]

    check(LowerCrossThreadReduction(), before, after, False)


def test_spatial_loops_inside_keep_a_part_each_and_every_thread_writes_its_own_memory(
    check: Callable[..., None],
) -> None:
    @T.prim_func
    def before(A: T.Buffer((6, 64), "int32"), B: T.Buffer((6,), "int32")):
        C = T.alloc_buffer((6,), "int32", scope="local")
        for k_1 in T.thread_binding(16, thread="threadIdx.x"):
            for k_0 in range(4):
                for i in T.vectorized(6):
                    with T.block("C"):
                        vi = T.axis.spatial(6, i)
                        vk = T.axis.reduce(64, k_0 * 16 + k_1)
                        with T.init():
                            C[vi] = 0
                        C[vi] = C[vi] + A[vi, vk]
        for i in range(6):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                B[vi] = C[vi]

    @T.prim_func
    def after(A: T.Buffer((6, 64), "int32"), B: T.Buffer((6,), "int32")):
        C = T.alloc_buffer((6,), "int32", scope="local")
        in_thread_C = T.alloc_buffer((6,), "int32", scope="local")
        cross_thread_C = T.alloc_buffer((1,), "int32", scope="local")
        for k_1 in T.thread_binding(16, thread="threadIdx.x"):
            for i in range(6):
                with T.block("C_in_thread_init"):
                    v_i = T.axis.spatial(6, i)
                    T.reads()
                    T.writes(in_thread_C[v_i])
                    in_thread_C[v_i] = 0
            for k_0 in range(4):
                for i in T.vectorized(6):
                    with T.block("C_in_thread"):
                        vi = T.axis.spatial(6, i)
                        v_k_1 = T.axis.spatial(16, k_1)
                        v_k_0 = T.axis.reduce(4, k_0)
                        v_i = T.axis.spatial(6, i)
                        T.reads(in_thread_C[v_i], A[vi, v_k_0 * 16 + v_k_1])
                        T.writes(in_thread_C[v_i])
                        in_thread_C[v_i] = in_thread_C[v_i] + A[vi, v_k_0 * 16 + v_k_1]
            for i in range(6):
                with T.block("C_cross_thread"):
                    v_i = T.axis.spatial(6, i)
                    v_k_1 = T.axis.spatial(16, k_1)
                    T.reads(in_thread_C[v_i])
                    T.writes(cross_thread_C[0])
                    with T.attr(
                        T.comm_reducer(lambda x, y: x + y, [0]),
                        "reduce_scope",
                        T.reinterpret("handle", T.uint64(0)),
                    ):
                        T.tvm_thread_allreduce(
                            T.uint32(1), in_thread_C[v_i], T.bool(True), cross_thread_C[0], v_k_1
                        )
                with T.block("C_write_back"):
                    vi = T.axis.spatial(6, i)
                    T.reads(cross_thread_C[0])
                    T.writes(C[vi])
                    C[vi] = cross_thread_C[0]
        for i in range(6):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                T.reads(C[vi])
                T.writes(B[vi])
                B[vi] = C[vi]

    check(LowerCrossThreadReduction(), before, after, False)


def test_several_values_and_a_spatial_condition_over_two_axes_of_threads(check: Callable[..., None]) -> None:
    @T.prim_func
    def before(A: T.Buffer((5, 4, 8), "float32"), P: T.Buffer((5,), "int32"), V: T.Buffer((5,), "float32")):
        V_shared = T.alloc_buffer((5,), scope="shared")
        for i in range(8):
            for k in T.thread_binding(4, thread="threadIdx.y"):
                for l in T.thread_binding(8, thread="threadIdx.x"):
                    with T.block("argmax"):
                        vi = T.axis.spatial(5, i)
                        vk, vl = T.axis.remap("RR", [k, l])
                        T.where(i < 5)
                        with T.init():
                            P[vi] = -1
                            V_shared[vi] = T.min_value("float32")
                        p: T.int32 = T.Select(V_shared[vi] >= A[vi, vk, vl], P[vi], vk * 8 + vl)
                        v: T.float32 = T.Select(V_shared[vi] >= A[vi, vk, vl], V_shared[vi], A[vi, vk, vl])
                        P[vi] = p
                        V_shared[vi] = v
        for i in range(5):
            with T.block("V"):
                vi = T.axis.spatial(5, i)
                V[vi] = V_shared[vi]

    after = LowerCrossThreadReduction()(IRModule({"main": before}))["main"].script()
    chosen = "T.Select(x1 >= y1, x0, y0), T.Select(x1 >= y1, x1, y1)"
    assert f"T.comm_reducer(lambda x0, x1, y0, y1: ({chosen})" in after
    given, found = "in_thread_P[0], in_thread_V_shared[0]", "cross_thread_P[0], cross_thread_V_shared[0]"
    assert f"T.tvm_thread_allreduce(T.uint32(2), {given}, T.bool(True), {found}, v_k, v_l)" in after
    assert "T.where(k == 0 and l == 0 and i < 5)" in after


def test_programs_without_shared_reductions_are_the_same_object(apply: Callable[..., PrimFunc]) -> None:
    serial: Any = from_source(
        rows.script().replace('T.thread_binding(32, thread="threadIdx.x")', "range(32)")
    )
    assert apply(LowerCrossThreadReduction(), serial) is serial


def test_memory_of_a_thread_lies_within_its_loop() -> None:
    lowered = PlanAndUpdateBufferAllocationLocation()(LowerCrossThreadReduction()(IRModule({"main": rows})))[
        "main"
    ]
    inside = []

    def look(node: Any) -> None:
        if isinstance(node, tir.For) and node.kind == tir.ForKind.THREAD_BINDING:
            tir.post_order_visit(
                node, lambda item: inside.extend(item.alloc_buffers) if isinstance(item, tir.Block) else None
            )

    tir.post_order_visit(lowered.body, look)
    assert sorted(buffer.name for buffer in inside) == ["cross_thread_B", "in_thread_B"]


# -- what is refused ---------------------------------------------------------------
_BLOCK = """
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce(120, k_0 * 32 + k_1)
                T.where(k_0 * 32 + k_1 < 120)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("B[vi] + A[vi, vk]", "B[vi] - A[vi, vk]", r"'k_1'.*block 'B' is not out = out"),
        ("T.float32(0)", "T.float32(3)", "'k_1'.*block 'B'.*identity"),
        ("with T.init():\n                    B[vi] = T.float32(0)\n                ", "", "block 'B'.*'k_1'.*no init"),
        ("threadIdx.x", "blockIdx.x", "block 'B'.*'k_1'.*blockIdx.x.*bind it to threadIdx"),
        ("T.axis.spatial(4, i)", "T.axis.spatial(4, i + k_1 // 32)", "block 'B'.*'k_1'.*decides too where it writes"),
        ("B[vi] = B[vi] + A[vi, vk]", "B[vk // 30] = B[vk // 30] + A[vi, vk]", "block 'B'|'k_1'"),
        ("for k_1 in", "for u in range(2):\n          for k_1 in", "block 'B'.*does not use loop 'u'"),
        ("T.thread_binding(32,", "T.thread_binding(32 - k_0,", "block 'B'.*'k_1'.*bounds another loop decides"),
    ],
)  # fmt: skip
def test_refusals(old: str, new: str, message: str) -> None:
    source = f"""@T.prim_func
def main(A: T.Buffer((4, 120), "float32"), B: T.Buffer((4,), "float32")):
    for i, k_0 in T.grid(4, 4):
        for k_1 in T.thread_binding(32, thread="threadIdx.x"):{_BLOCK}
"""
    assert old in source
    program: Any = from_source(source.replace(old, new))
    with pytest.raises(IRValueError, match=message):
        LowerCrossThreadReduction()(IRModule({"main": program}))


def test_what_stands_beside_the_block_in_the_loops_of_its_reduction_is_refused() -> None:
    program: Any = from_source(f"""@T.prim_func
def main(A: T.Buffer((4, 120), "float32"), B: T.Buffer((4,), "float32"), D: T.Buffer((32,), "float32")):
    for i, k_0 in T.grid(4, 4):
        for k_1 in T.thread_binding(32, thread="threadIdx.x"):{_BLOCK}
            with T.block("D"):
                vk = T.axis.spatial(32, k_1)
                D[vk] = B[0]
""")
    with pytest.raises(IRValueError, match="block 'B'.*'k_1'.*SeqStmt stands in loop 'k_1'"):
        LowerCrossThreadReduction()(IRModule({"main": program}))

"""LowerCrossThreadReduction: a part for each thread, an exchange, and who writes the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.operators import suite
from ir import IRModule, tir
from ir.error import IRValueError
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc, transform
from ir.tir.interpreter import run
from ir.tir.transform import (
    LowerCrossThreadReduction,
    LowerThreadAllreduce,
    PlanAndUpdateBufferAllocationLocation,
)
from schedules import ScheduleError
from schedules.postproc import postprocess
from schedules.space import PostOrderApply

from .differential import arguments


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


# -- numbers: loops before the pass, threads behind it -----------------------------
def on_threads(func: PrimFunc) -> PrimFunc:
    """The program with launches in the place of loops, and exchanges in that of shared reductions."""
    module = IRModule({"main": func})
    for item in (
        LowerCrossThreadReduction(), transform.LowerInitBlock(), transform.PlanAndUpdateBufferAllocationLocation(),
        transform.PlaceThreadMemory(), transform.ConvertBlocksToOpaque(), transform.UnifyThreadBinding(),
        transform.LowerMatchBuffer(), transform.CompactBufferAllocation(), transform.LowerOpaqueBlock(),
        transform.FlattenBuffer(), transform.SimplifyIndices(), transform.ThreadSync("shared"),
    ):  # fmt: skip
        module = item(module)
    return module["main"]


def assert_same_on_threads(func: PrimFunc, exact: bool = True) -> None:
    """Loops, threads that exchange, and threads with shuffles and shared memory compute the same."""
    exchanging = on_threads(func)
    shuffling = LowerThreadAllreduce()(IRModule({"main": exchanging}))["main"]
    assert "tvm_thread_allreduce" in exchanging.script() and "tvm_thread_allreduce" not in shuffling.script()
    expected = arguments(func)
    run(func, *expected)
    for program in (exchanging, shuffling):
        found = arguments(func)
        run(program, *found)
        for got, wanted in zip(found, expected, strict=True):
            if exact:
                np.testing.assert_array_equal(got, wanted)
            else:
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


_UPDATES = {
    "sum": ("T.const(0, '{0}')", "B[vi] + A[vi, vk]"),
    "max": ("T.min_value('{0}')", "T.max(B[vi], A[vi, vk])"),
    "min": ("T.max_value('{0}')", "T.min(A[vi, vk], B[vi])"),
    "wide": ("0", "B[vi] + T.Cast('int32', A[vi, vk])"),
}


def shared_rows(
    groups: int, threads: int, extent: int, combiner: str, dtype: str, inner: bool, scope: str
) -> PrimFunc:
    """Rows of an array, each reduced by the threads along x; rows are in threads along y or in a loop of each thread."""
    rounds = -(-extent // threads)
    to = "int32" if combiner == "wide" else dtype
    init, update = (text.format(to) for text in _UPDATES[combiner])
    loops = [
        f"for k_0 in range({rounds}):",
        f'for k_1 in T.thread_binding({threads}, thread="threadIdx.x"):',
    ]
    rows = (
        f"for i in range({groups}):"
        if inner
        else f'for i in T.thread_binding({groups}, thread="threadIdx.y"):'
    )
    nest = [*loops, rows] if inner else [rows, *loops]
    text = "".join(f"{'    ' * depth}{line}\n" for depth, line in enumerate(nest, 1))
    program: Any = from_source(f"""@T.prim_func
def main(A: T.Buffer(({groups}, {extent}), "{dtype}"), C: T.Buffer(({groups},), "{to}")):
    B = T.alloc_buffer(({groups},), "{to}", scope="{scope}")
    for b in T.thread_binding(1, thread="blockIdx.x"):
{"".join(f"    {line}" + chr(10) for line in text.splitlines())}
                    with T.block("B"):
                        vi = T.axis.spatial({groups}, i)
                        vk = T.axis.reduce({extent}, k_0 * {threads} + k_1)
                        T.where(k_0 * {threads} + k_1 < {extent})
                        with T.init():
                            B[vi] = {init}
                        B[vi] = {update}
        for j in T.thread_binding({groups}, thread="threadIdx.y"):
            with T.block("C"):
                vj = T.axis.spatial({groups}, j)
                C[vj] = B[vj]
""")
    return program


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_rows_are_the_same_on_threads(data: st.DataObject) -> None:
    threads = data.draw(st.sampled_from([1, 2, 3, 5, 31, 32, 33, 64, 96]))
    extent = data.draw(st.sampled_from([1, threads, 2 * threads - 1, 3 * threads + 1]))
    combiner, dtype = data.draw(
        st.sampled_from(
            [("sum", "int32"), ("max", "float32"), ("min", "float16"), ("wide", "int8"), ("max", "int8")]
        )
    )
    groups = data.draw(st.sampled_from([1, 2, 3]))
    assert_same_on_threads(
        shared_rows(groups, threads, extent, combiner, dtype, data.draw(st.booleans()), "shared")
    )


@pytest.mark.parametrize("threads", [1, 31, 64, 256, 1024])
def test_long_rows_are_the_same_on_threads(threads: int) -> None:
    assert_same_on_threads(shared_rows(1, threads, 1500, "sum", "int32", False, "shared"))


def test_threads_beyond_the_extent_of_the_loop_come_to_the_exchange_and_give_nothing() -> None:
    """Another loop of the kernel is bound to more threads along each axis."""
    program: Any = from_source("""@T.prim_func
def main(A: T.Buffer((3, 100), "int32"), B: T.Buffer((3, 100), "int32")):
    S = T.alloc_buffer((3,), "int32", scope="shared")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for k in T.thread_binding(40, thread="threadIdx.x"):
            for l in range(3):
                for i in T.thread_binding(3, thread="threadIdx.y"):
                    with T.block("S"):
                        vi = T.axis.spatial(3, i)
                        vk = T.axis.reduce(100, l * 40 + k)
                        T.where(l * 40 + k < 100)
                        with T.init():
                            S[vi] = 0
                        S[vi] = S[vi] + A[vi, vk]
        for i in T.thread_binding(4, thread="threadIdx.y"):
            for j in T.thread_binding(100, thread="threadIdx.x"):
                with T.block("B"):
                    vi = T.axis.spatial(3, i)
                    vj = T.axis.spatial(100, j)
                    T.where(i < 3)
                    B[vi, vj] = A[vi, vj] - S[vi]
""")
    assert_same_on_threads(program)


@T.prim_func
def rows_of_any_length(a: T.handle, B: T.Buffer((4,), "float32"), limit: T.int64):
    n = T.int64()
    A = T.match_buffer(a, (4, n), "float32")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for k_0 in range((n + 31) // 32):
            for k_1 in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.reduce(n, k_0 * 32 + k_1)
                    T.where(k_0 * 32 + k_1 < n and i < limit)
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]


@pytest.mark.parametrize("n", [0, 1, 40])
def test_a_reduction_over_nothing_writes_its_identity(n: int) -> None:
    rows, limit = np.arange(4 * n, dtype="float32").reshape(4, n), 3
    for func in (rows_of_any_length, on_threads(rows_of_any_length)):
        found = np.full(4, 7, "float32")
        run(func, rows, found, limit)
        np.testing.assert_array_equal(found, [*rows.sum(1)[:limit], 7])


def test_threads_along_an_axis_that_the_reduction_does_not_know_run_it_too() -> None:
    program: Any = from_source("""@T.prim_func
def main(A: T.Buffer((64,), "int32"), B: T.Buffer((2, 64), "int32")):
    S = T.alloc_buffer((1,), "int32", scope="shared")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for k in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("S"):
                vk = T.axis.reduce(64, k)
                with T.init():
                    S[0] = 0
                S[0] = S[0] + A[vk]
        for i in T.thread_binding(2, thread="threadIdx.y"):
            for j in T.thread_binding(64, thread="threadIdx.x"):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vj] * (vi + 1) - S[0]
""")
    assert_same_on_threads(program)


@pytest.mark.parametrize("threads", [5, 32, 64])
def test_combiners_written_by_hand_are_the_same_on_threads(threads: int) -> None:
    """Whether all hold; and the greatest with the sum of weights relative to it, as a softmax needs them."""
    every: Any = from_source(f"""@T.prim_func
def main(A: T.Buffer((3, 100), "bool"), B: T.Buffer((3,), "bool")):
    for i in T.thread_binding(3, thread="blockIdx.x"):
        for k_0 in range({-(-100 // threads)}):
            for k_1 in T.thread_binding({threads}, thread="threadIdx.x"):
                with T.block("B"):
                    vi = T.axis.spatial(3, i)
                    vk = T.axis.reduce(100, k_0 * {threads} + k_1)
                    T.where(k_0 * {threads} + k_1 < 100)
                    with T.init():
                        B[vi] = True
                    B[vi] = B[vi] and (A[vi, vk] or vk % 50 != vi)
""")
    assert_same_on_threads(every)
    pairs: Any = from_source(f"""@T.prim_func
def main(
    A: T.Buffer((3, 100), "float32"), W: T.Buffer((3, 100), "float32"), M: T.Buffer((3,), "float32"), S: T.Buffer((3,), "float32")
):
    for i in T.thread_binding(3, thread="blockIdx.x"):
        for k_0 in range({-(-100 // threads)}):
            for k_1 in T.thread_binding({threads}, thread="threadIdx.x"):
                with T.block("softmax"):
                    vi = T.axis.spatial(3, i)
                    vk = T.axis.reduce(100, k_0 * {threads} + k_1)
                    T.where(k_0 * {threads} + k_1 < 100)
                    with T.init():
                        M[vi] = T.min_value("float32")
                        S[vi] = T.float32(0)
                    m: T.float32 = T.max(M[vi], A[vi, vk])
                    s: T.float32 = S[vi] * T.exp(M[vi] - m) + W[vi, vk] * T.exp(A[vi, vk] - m)
                    M[vi] = m
                    S[vi] = s
""")
    assert_same_on_threads(pairs, exact=False)


_SHAPES = {
    "layer_norm": (4, 24), "rms_norm": (3, 40), "group_norm": (1, 4, 3, 5, 2), "softmax": (3, 13), "argmax": (3, 70),
    "NRM": (2, 9, 11), "SFM": (3, 37), "max_pool_nchw": (1, 2, 4, 4, 3, 2, 1), "global_pool_nchw": (1, 2, 7, 7),
}  # fmt: skip


@pytest.mark.parametrize("name", _SHAPES)
def test_candidates_of_the_operator_suites_are_the_same_on_threads(name: str) -> None:
    target = Target("nvidia/nvidia-a100")
    module = IRModule({"main": suite.workload(name, _SHAPES[name])})
    shared = 0
    for sketch in PostOrderApply().generate_sketches(module, target):
        for row in np.unique(sketch.sample(2, np.random.default_rng(0)), axis=0):
            try:
                candidate = sketch.materialize(module, row)
                if not postprocess(candidate, target):
                    continue
            except ScheduleError:
                continue
            program = candidate.mod
            if LowerCrossThreadReduction()(program) is not program:
                assert_same_on_threads(program["main"], exact=False)
                shared += 1
    assert shared


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
        ("+ A[vi, vk]", "+ A[vi, vk] * B[3 - vi]", "block 'B'.*'k_1'.*other elements of what it writes"),
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

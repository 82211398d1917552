"""LowerThreadAllreduce: shuffles, one value for each warp, trees; what all threads must come to; every way gives what numpy does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import IRModule, tir
from ir.error import IRValueError
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.transform import LowerThreadAllreduce

_COMBINERS = {
    "sum": ("x + y", "T.const(0, '{0}')"),
    "prod": ("x * y", "T.const(1, '{0}')"),
    "max": ("T.max(x, y)", "T.min_value('{0}')"),
    "min": ("T.min(x, y)", "T.max_value('{0}')"),
}
_NUMPY: dict[str, Any] = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
_SCOPE = '"reduce_scope", T.reinterpret("handle", T.uint64(0))'


def kernel(
    extents: Sequence[int],
    shared: str,
    combiner: str = "sum",
    dtype: str = "float32",
    accumulator: str | None = None,
    rounds: int = 1,
    condition: str = "T.bool(True)",
) -> PrimFunc:
    """Threads along some of the axes x, y, z combine an element of each: all of them store what they get."""
    x, y, z = extents
    to, (combined, identity) = accumulator or dtype, _COMBINERS[combiner]
    count, place = x * y * z * rounds, f"i * {x * y * z} + tx + {x} * (ty + {y} * tz)"
    program: Any = from_source(f"""@T.prim_func
def main(A: T.Buffer(({count},), "{dtype}"), B: T.Buffer(({count},), "{to}")):
    tx = T.launch_thread("threadIdx.x", {x})
    ty = T.launch_thread("threadIdx.y", {y})
    tz = T.launch_thread("threadIdx.z", {z})
    r_data = T.allocate([1], "{to}", "local")
    r = T.Buffer((1,), "{to}", data=r_data, scope="local")
    for i in range({rounds}):
        with T.attr(T.comm_reducer(lambda x, y: {combined}, [{identity.format(to)}]), {_SCOPE}):
            T.tvm_thread_allreduce(T.uint32(1), A[{place}], {condition}, r[0], {", ".join(f"t{axis}" for axis in shared)})
        B[{place}] = r[0]
""")
    return program


def lowered(func: PrimFunc) -> PrimFunc:
    """Behind the pass."""
    return LowerThreadAllreduce()(IRModule({"main": func}))["main"]


def count(func: PrimFunc) -> dict[str, int]:
    """How often a thread is told to shuffle and to wait, and bytes of shared memory."""
    text = func.script()
    rooms: list[int] = []
    tir.post_order_visit(
        func.body,
        lambda node: (
            rooms.append(math.prod(int(item) for item in node.extents))
            if isinstance(node, tir.Allocate) and node.buffer_var.type_annotation.storage_scope == "shared"
            else None
        ),
    )
    return {
        "shuffles": text.count("tvm_warp_shuffle"),
        "barriers": text.count("tvm_storage_sync"),
        "elements": sum(rooms),
    }


# -- what it becomes ---------------------------------------------------------------
@T.prim_func
def four(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    tx = T.launch_thread("threadIdx.x", 4)
    r_data = T.allocate([1], "float32", "local")
    r = T.Buffer((1,), "float32", data=r_data, scope="local")
    with T.attr(
        T.comm_reducer(lambda x, y: x + y, [T.float32(0)]),
        "reduce_scope",
        T.reinterpret("handle", T.uint64(0)),
    ):
        T.tvm_thread_allreduce(T.uint32(1), A[tx], tx < 3, r[0], tx)
    B[tx] = r[0]


@T.prim_func
def four_lowered(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    tx = T.launch_thread("threadIdx.x", 4)
    r_data = T.allocate([1], "float32", "local")
    r = T.Buffer((1,), "float32", data=r_data, scope="local")
    with T.LetStmt(T.if_then_else(tx < 3, A[tx], T.float32(0))) as part:
        other: T.float32 = T.tvm_warp_shuffle_down(T.uint32(15), part, 2, 4, 32)
        part_1: T.float32 = part + other
        other_1: T.float32 = T.tvm_warp_shuffle_down(T.uint32(15), part_1, 1, 4, 32)
        part_2: T.float32 = part_1 + other_1
        r[0] = T.tvm_warp_shuffle(T.uint32(15), part_2, 0, 4, 32)
    B[tx] = r[0]


def test_a_group_within_a_warp_shuffles(check: Callable[..., None]) -> None:
    check(LowerThreadAllreduce(), four, four_lowered)


def test_threads_that_do_not_follow_each_other_combine_in_a_tree(check: Callable[..., None]) -> None:
    @T.prim_func
    def after(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32")):
        tx = T.launch_thread("threadIdx.x", 2)
        ty = T.launch_thread("threadIdx.y", 3)
        tz = T.launch_thread("threadIdx.z", 1)
        red_buf0_data = T.allocate([6], "int32", "shared")
        red_buf0 = T.Buffer((6,), "int32", data=red_buf0_data, scope="shared")
        r_data = T.allocate([1], "int32", "local")
        r = T.Buffer((1,), "int32", data=r_data, scope="local")
        for i in range(2):
            with T.LetStmt(A[i * 6 + tx + 2 * (ty + 3 * tz)]) as part:
                first: T.int32 = tx * 3
                place: T.int32 = first + ty
                T.tvm_storage_sync("shared")
                red_buf0[place] = part
                T.tvm_storage_sync("shared")
                if ty < 1:
                    part_1: T.int32 = red_buf0[place]
                    other: T.int32 = red_buf0[place + 2]
                    red_buf0[place] = T.max(part_1, other)
                T.tvm_storage_sync("shared")
                if ty < 1:
                    part_2: T.int32 = red_buf0[place]
                    other_1: T.int32 = red_buf0[place + 1]
                    red_buf0[place] = T.max(part_2, other_1)
                T.tvm_storage_sync("shared")
                r[0] = red_buf0[first]
            B[i * 6 + tx + 2 * (ty + 3 * tz)] = r[0]

    before = kernel((2, 3, 1), "y", "max", "int32", rounds=2)
    source = after.script().replace("(6,)", "(12,)", 2)
    assert source.count("(12,)") == 2
    check(LowerThreadAllreduce(), before, from_source(source))


@pytest.mark.parametrize(
    ("extents", "shared", "expected"),
    [
        ((1, 7, 1), "x", (0, 0, 0)),  # nothing to combine
        ((32, 1, 1), "x", (6, 0, 0)),
        ((8, 5, 1), "x", (4, 0, 0)),  # the last warp is not whole, its groups are
        ((4, 8, 3), "xy", (6, 0, 0)),
        ((1, 16, 2), "y", (5, 0, 0)),  # an axis of one thread is none
        ((31, 1, 1), "x", (6, 0, 0)),
        ((64, 2, 1), "x", (8, 1, 4)),
        ((96, 2, 1), "x", (9, 1, 6)),
        ((100, 1, 1), "x", (9, 1, 4)),
        ((1024, 1, 1), "x", (12, 1, 32)),
        ((33, 1, 1), "x", (0, 7, 33)),  # the last warp has too few threads for the parts of all
        ((5, 3, 1), "x", (0, 4, 15)),  # groups begin within a warp, at no power of two
        ((4, 16, 1), "y", (0, 5, 64)),
        ((4, 2, 4), "xz", (0, 5, 32)),
    ],
)
def test_which_way(extents: Sequence[int], shared: str, expected: tuple[int, int, int]) -> None:
    found = count(lowered(kernel(extents, shared)))
    assert tuple(found.values()) == expected


def test_shared_memory_that_is_used_again_is_written_behind_a_barrier() -> None:
    assert count(lowered(kernel((64, 1, 1), "x")))["barriers"] == 1
    assert count(lowered(kernel((64, 1, 1), "x", rounds=3)))["barriers"] == 2


def test_how_many_threads_are_a_warp_is_said_by_the_target() -> None:
    func = kernel((64, 1, 1), "x", rounds=1000)  # more than is interpreted: threads of 32 are a warp there
    func = func.with_attr("target", Target("rocm"))
    found = lowered(func)
    assert count(found) == {"shuffles": 7, "barriers": 0, "elements": 0}
    assert "T.tvm_warp_shuffle_down(T.uint64(18446744073709551615), part, 32, 64, 64)" in found.script()


def test_small_types_shuffle_in_larger_ones_and_combine_in_that_of_the_combiner() -> None:
    assert (
        'T.Cast("float16", T.tvm_warp_shuffle_down(T.uint32(15), T.Cast("float32", part)'
        in lowered(kernel((4, 1, 1), "x", dtype="float16")).script()
    )
    widened = lowered(kernel((4, 1, 1), "x", dtype="int8", accumulator="int32")).script()
    assert 'T.Cast("int32", A[' in widened and "T.tvm_warp_shuffle_down(T.uint32(15), part" in widened


def test_a_program_without_reductions_is_the_same_object(apply: Callable[..., PrimFunc]) -> None:
    assert apply(LowerThreadAllreduce(), four_lowered) is four_lowered


# -- what is refused ---------------------------------------------------------------
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("for i in range(1):", "for i in range(tx + 1):", r"reduction over tx depends on tx \+ 1.*let all threads"),
        ("for i in range(1):", "for i in range(1):\n      if ty < 2:", "depends on ty < 2"),
        ("for i in range(1):", "for i in range(1):\n      if A[tx] > T.float32(0):", r"depends on A\[tx\]"),
        ("for i in range(1):", "r[0] = T.float32(1)\n    while r[0] > T.float32(0):\n      for i in range(1):", r"depends on r\[0\]"),
        ("for i in range(1):", "for i in T.vectorized(4):", "depends on i,"),
        ('"threadIdx.x", 8', '"threadIdx.x", n', "extent of threadIdx.x is n; it must be a number"),
        ("r[0], tx)", "r[0], i)", "given i, which is no axis of threads around it"),
        ("T.uint32(1), A", "T.uint32(2), A", "tvm_thread_allreduce of 2 values"),
        ("lambda x, y: x + y, [Z]", "lambda x, u, y, v: (x + y, u + v), [Z, Z]", "combiner of 2 values is given 1"),
    ],
)  # fmt: skip
def test_refusals(old: str, new: str, message: str) -> None:
    source = kernel((8, 4, 1), "x").script().replace("def main(", "def main(n: T.int32, ")
    source = source.replace("T.float32(0)]", "Z]")
    source = source.replace("r_1", "r_").replace("r_[", "r[").replace("r_ =", "r =")
    assert old in source, source
    program: Any = from_source(source.replace(old, new).replace("Z", "T.float32(0)"))
    with pytest.raises(IRValueError, match=message):
        lowered(program)


def test_a_reduction_in_no_scope_is_refused() -> None:
    program: Any = from_source("""@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    tx = T.launch_thread("threadIdx.x", 4)
    T.tvm_thread_allreduce(T.uint32(1), A[tx], T.bool(True), A[tx], tx)
""")
    with pytest.raises(IRValueError, match="reduce_scope"):
        lowered(program)


def test_conditions_that_all_threads_see_alike_are_not_refused() -> None:
    source = kernel((64, 1, 1), "x").script().replace("def main(", "def main(n: T.int32, ")
    uniform = source.replace(
        "for i in range(1):", "for i in range(n):\n      if T.tvm_thread_invariant(A[tx] > T.float32(0)):"
    )
    program: Any = from_source(uniform)
    assert count(lowered(program))["barriers"] == 2


# -- numbers -----------------------------------------------------------------------
EXTENTS = [1, 2, 3, 5, 31, 32, 33, 64, 96, 100, 256, 1024]
TYPES = [
    ("float32", None),
    ("float16", None),
    ("int32", None),
    ("int8", "int32"),
    ("int8", None),
    ("uint8", None),
]


def assert_numbers(
    extents: Sequence[int], shared: str, combiner: str, types: tuple[str, str | None], rounds: int
) -> None:
    """All threads have what numpy says, before the pass and behind it."""
    dtype, to = types[0], types[1] or types[0]
    rng = np.random.default_rng(0)
    total = math.prod(extents) * rounds
    values = (
        rng.choice([1, 1, 1, 2], total)
        if combiner == "prod" and dtype == "int32"
        else rng.integers(0, 3, total)
    )
    if combiner == "prod" and dtype != "int32":
        values = np.ones(total)
    given = values.astype(dtype)
    func = kernel(extents, shared, combiner, dtype, to, rounds)
    shape = (rounds, *reversed(extents))
    axes = tuple(3 - "xyz".index(axis) for axis in shared)
    wanted = np.broadcast_to(
        _NUMPY[combiner](
            given.reshape(shape),
            axis=axes,
            keepdims=True,
            **({"dtype": to} if combiner in ("sum", "prod") else {}),
        ),
        shape,
    )
    for program in (func, lowered(func)):
        found = np.zeros(total, to)
        run(program, given, found)
        np.testing.assert_array_equal(found.reshape(shape), wanted)


@pytest.mark.parametrize("threads", EXTENTS)
def test_every_number_of_threads(threads: int) -> None:
    assert_numbers((threads, 1, 1), "x", "sum", ("int32", None), 2)
    if threads <= 100:
        assert_numbers((threads, 3, 1), "x", "max", ("float32", None), 1)
        assert_numbers((2, threads, 1), "y", "sum", ("float16", None), 1)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_groups_of_threads_types_and_combiners(data: st.DataObject) -> None:
    threads = data.draw(st.sampled_from([item for item in EXTENTS if item <= 100]))
    groups = data.draw(st.sampled_from([1, 2, 3, 4]))
    extents, shared = data.draw(
        st.sampled_from(
            [
                ((threads, groups, 1), "x"),
                ((groups, threads, 1), "y"),
                ((threads, 1, groups), "x"),
                ((1, groups, threads), "z"),
                ((2, threads, groups), "xy"),
                ((groups, 2, threads), "xz"),
            ]
        )
    )
    types = data.draw(st.sampled_from(TYPES))
    assert_numbers(
        extents,
        shared,
        data.draw(st.sampled_from(sorted(_COMBINERS))),
        types,
        data.draw(st.sampled_from([1, 2])),
    )


@pytest.mark.parametrize("threads", [1, 5, 32, 33, 64, 100])
def test_pairs_of_a_position_and_a_value(threads: int) -> None:
    program = pairs(threads)
    values = np.random.default_rng(1).integers(0, 9, threads).astype("float32")
    masked = np.where(np.arange(threads) % 7 == 2, -np.inf, values)
    for func in (program, lowered(program)):
        places, largest = np.zeros(threads, "int32"), np.zeros(threads, "float32")
        run(func, values, places, largest)
        assert (places == masked.argmax()).all()
        assert (largest == masked.max()).all()


@pytest.mark.parametrize("threads", [1, 5, 32, 100])
def test_of_several_results_only_those_that_somebody_reads_are_kept(threads: int) -> None:
    """NVRTC warns of memory and names that nobody reads."""
    program = pairs(threads, second="T.float32(1)")
    after = lowered(program)
    assert "v_data" in program.script() and "v_data" not in after.script()
    defined: list[tir.Var] = []
    tir.post_order_visit(
        after.body, lambda node: defined.append(node.var) if isinstance(node, tir.LetStmt) else None
    )
    for statement in defined:
        assert after.script().count(statement.name) > 1
    values = np.random.default_rng(1).integers(0, 9, threads).astype("float32")
    masked = np.where(np.arange(threads) % 7 == 2, -np.inf, values)
    places, ones = np.zeros(threads, "int32"), np.zeros(threads, "float32")
    run(after, values, places, ones)
    assert (places == masked.argmax()).all() and (ones == 1).all()


def pairs(threads: int, second: str = "v[0]") -> PrimFunc:
    """Threads find the largest value and its first position: each stores the position, and the value or something else."""
    first = "T.Select(a > b or a == b and i < j, i, j), T.Select(a > b, a, b)"
    combiner = f'T.comm_reducer(lambda i, a, j, b: ({first}), [2147483647, T.float32("-inf")])'
    program: Any = from_source(f"""@T.prim_func
def main(A: T.Buffer(({threads},), "float32"), P: T.Buffer(({threads},), "int32"), V: T.Buffer(({threads},), "float32")):
    tx = T.launch_thread("threadIdx.x", {threads})
    p_data = T.allocate([1], "int32", "local")
    p = T.Buffer((1,), "int32", data=p_data, scope="local")
    v_data = T.allocate([1], "float32", "local")
    v = T.Buffer((1,), "float32", data=v_data, scope="local")
    with T.attr({combiner}, {_SCOPE}):
        T.tvm_thread_allreduce(T.uint32(2), tx, A[tx], tx % 7 != 2, p[0], v[0], tx)
    P[tx] = p[0]
    V[tx] = {second}
""")
    return program

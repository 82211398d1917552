"""Reads of memory of threads, warps and blocks: who wrote what is read there."""

from __future__ import annotations

from typing import Any

import pytest

from ir import IRModule
from ir.script import from_source
from ir.tir import PrimFunc
from ir.tir.analysis.thread_memory import HandedOver, handed_over
from ir.tir.stmt_functor import ir_transform
from ir.tir.transform import LowerCrossThreadReduction

SCOPES = ("local", "warp", "shared", "global")


def program(body: str, scope: str = "local", shape: str = "(128,)") -> PrimFunc:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), E: T.Buffer((128, 16), "float32")):
    C = T.alloc_buffer({shape}, scope="{scope}")
{lines}
""")


def found(body: str, scope: str = "local", shape: str = "(128,)") -> list[tuple[str, str, str, str]]:
    items: list[HandedOver] = handed_over(program(body, scope, shape))
    return [(item.owner.value, item.writer, item.reader, item.axis) for item in items]


def nests(index: str, written: str = "v", threads: int = 64, read_by: int = 64) -> str:
    """Loops of their own, of threads of two blocks, around what writes and what reads."""
    return f"""
for b in T.thread_binding(2, thread="blockIdx.x"):
    for i in T.thread_binding({threads}, thread="threadIdx.x"):
        for k in range({64 // threads}):
            with T.block("C"):
                v = T.axis.spatial(128, b * 64 + i * {64 // threads} + k)
                C[{written}] = A[v]
    for i in T.thread_binding({read_by}, thread="threadIdx.x"):
        for k in range({64 // read_by}):
            with T.block("B"):
                v = T.axis.spatial(128, b * 64 + i * {64 // read_by} + k)
                B[v] = C[{index}]
"""


def nest(index: str, axes: str = "blockIdx.x threadIdx.x") -> str:
    """One nest of loops around both."""
    outer, inner = axes.split()
    return f"""
for b in T.thread_binding(2, thread="{outer}"):
    for i in T.thread_binding(64, thread="{inner}"):
        with T.block("C"):
            v = T.axis.spatial(128, b * 64 + i)
            C[v] = A[v]
        with T.block("B"):
            v = T.axis.spatial(128, b * 64 + i)
            B[v] = C[{index}]
"""


@pytest.mark.meaning("thread")
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("body", [nests("v"), nest("v"), nest("v", "threadIdx.y threadIdx.x")])
def test_what_each_writes_for_itself(body: str, scope: str) -> None:
    assert not found(body, scope)


@pytest.mark.meaning("thread")
@pytest.mark.parametrize(
    ("index", "met"),
    [
        ("v // 64 * 64 + 63 - v % 64", {"local": "thread", "warp": "warp"}),
        ("T.max(v - 1, 0)", {"local": "thread", "warp": "warp", "shared": "block", "global": "block"}),
        ("127 - v", {"local": "thread", "warp": "warp", "shared": "block", "global": "block"}),
        ("v // 32 * 32 + (v + 1) % 32", {"local": "thread"}),
        ("v // 32 * 32", {"local": "thread"}),
        ("v", {}),
    ],
)
@pytest.mark.parametrize("scope", SCOPES)
def test_by_scope_who_meets_another(index: str, met: dict[str, str], scope: str) -> None:
    """In two nests, memory of the device that is allocated around the threads is the block's."""
    assert [item[:3] for item in found(nests(index), scope)] == (
        [(met[scope], "C", "B")] if scope in met else []
    )


@pytest.mark.meaning("thread")
def test_one_nest_around_both_makes_unnamed_memory_a_threads() -> None:
    assert found(nest("v // 64 * 64 + 63 - v % 64"), "global") == [("thread", "C", "B", "threadIdx.x")]
    assert not found(nest("v // 64 * 64 + 63 - v % 64"), "shared")


@pytest.mark.meaning("thread")
def test_other_threads_may_do_the_rest() -> None:
    """The loops need not be alike; what one thread writes in several turns, it may read in fewer."""
    assert not found(nests("v", threads=16, read_by=16))
    assert found(nests("v", threads=16)) == [("thread", "C", "B", "threadIdx.x")]
    assert not found(nests("v", threads=16), "shared")


HALO = """
for b in T.thread_binding(4, thread="{axis}"):
    for k in range(32 + {more}):
        with T.block("C"):
            v = T.axis.spatial(128, b * 32 + k)
            T.where(b * 32 + k < 128)
            C[v] = A[v]
    for k in range(32):
        with T.block("B"):
            v = T.axis.spatial(128, b * 32 + k)
            B[v] = C[T.min(v + 1, 127)]
"""


@pytest.mark.meaning("thread", "parallel-local")
@pytest.mark.parametrize(
    ("axis", "scope"),
    [("threadIdx.x", "local"), ("vthread.x", "local"), ("blockIdx.x", "shared"), ("blockIdx.x", "local")],
)
def test_who_computes_the_halo_himself_needs_nobody(axis: str, scope: str) -> None:
    kernel = axis if axis != "vthread.x" else "threadIdx.y"
    body = (
        HALO
        if axis != "vthread.x"
        else f'for t in T.thread_binding(1, thread="{kernel}"):' + HALO.replace("\n", "\n    ")
    )
    assert not found(body.format(axis=axis, more=1), scope)
    ((_, writer, reader, met),) = found(body.format(axis=axis, more=0), scope)
    assert (writer, reader, met) == ("C", "B", axis)


@pytest.mark.meaning("thread")
def test_all_threads_have_what_is_in_no_loop_of_theirs() -> None:
    body = """
for b in T.thread_binding(2, thread="blockIdx.x"):
    for k in range(64):
        with T.block("C"):
            v = T.axis.spatial(128, b * 64 + k)
            C[v] = A[v]
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("B"):
            v = T.axis.spatial(128, b * 64 + i)
            B[v] = C[v // 64 * 64 + 63 - v % 64]
"""
    assert not found(body)
    swapped = body.replace("for k in range(64)", "X").replace(
        'for i in T.thread_binding(64, thread="threadIdx.x")', "for i in range(64)"
    )
    assert found(swapped.replace("X", 'for k in T.thread_binding(64, thread="threadIdx.x")'))


@pytest.mark.meaning("thread")
def test_all_threads_have_what_each_of_them_computes_alike() -> None:
    body = """
for b in T.thread_binding(2, thread="blockIdx.x"):
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("C"):
            u = T.axis.spatial(2, b)
            v = T.axis.spatial(64, i)
            C[u] = A[{read}]
    for i in T.thread_binding({threads}, thread="threadIdx.x"):
        with T.block("B"):
            u = T.axis.spatial(2, b)
            v = T.axis.spatial({threads}, i)
            B[(u * 64 + v) % 128] = C[u]
"""
    assert not found(body.format(read="u", threads=64))
    some = body.format(read="u", threads=64).replace("C[u] =", "if v < 9:\n                C[u] =")
    assert found(some)
    assert found(body.format(read="v", threads=64))  # the last one wins, for all, in the program
    assert found(body.format(read="u", threads=128))  # of which half write nothing


@pytest.mark.meaning("thread", "reduce-order")
@pytest.mark.parametrize("threads", ["threadIdx.x", "threadIdx.y"])
def test_what_threads_reduce_together_all_of_them_have(threads: str) -> None:
    body = f"""
for b in T.thread_binding(128, thread="blockIdx.x"):
    for k in T.thread_binding(16, thread="{threads}"):
        with T.block("C"):
            v = T.axis.spatial(128, b)
            w = T.axis.reduce(16, k)
            with T.init():
                C[v] = T.float32(0)
            C[v] = C[v] + E[v, w]
    for i in T.thread_binding(1, thread="threadIdx.x"):
        with T.block("B"):
            v = T.axis.spatial(128, b + i)
            B[v] = C[v]
"""
    assert not found(body)


REDUCED = """
for b in T.thread_binding(128, thread="blockIdx.x"):
    for k in T.thread_binding(8, thread="threadIdx.x"):
        for j in range(2):
            with T.block("C"):
                v = T.axis.spatial(128, b)
                w = T.axis.reduce(16, j * 8 + k)
                with T.init():
                    C[v] = T.float32(0)
                C[v] = C[v] + E[v, w]
    for i in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("B"):
            v = T.axis.spatial(128, b)
            T.where(i < 1)
            B[v] = C[v]
"""


@pytest.mark.meaning("thread", "reduce-order")
def test_all_threads_have_the_result_of_an_exchange() -> None:
    """Behind LowerCrossThreadReduction what is written is loaded from where the exchange put it, for each of its threads."""

    def lowered(func: PrimFunc) -> PrimFunc:
        return LowerCrossThreadReduction()(IRModule({"main": func}))["main"]

    func = lowered(program(REDUCED))
    assert not handed_over(func)
    (own,) = [buffer for buffer in func.body.block.alloc_buffers if buffer.name.startswith("in_thread")]

    def adds_its_own(node: Any) -> Any:
        return node.replace(value=node.value + own[0]) if node.buffer.name == "C" else None

    changed = func.replace(body=ir_transform(func.body, None, adds_its_own, ["tir.BufferStore"]))
    assert handed_over(changed)


@pytest.mark.meaning("thread")
@pytest.mark.parametrize(("otherwise", "is_own"), [("C[e]", True), ("C[e + 1]", False)])
def test_what_both_branches_write_is_written(otherwise: str, is_own: bool) -> None:
    body = f"""
for i in T.thread_binding(32, thread="threadIdx.x"):
    with T.block("rows"):
        T.reads(A[0:128])
        T.writes(B[0:128])
        for e in range(4):
            if e * 32 + i < 100:
                C[e] = A[e * 32 + i]
            else:
                {otherwise} = T.float32(0)
        for e in range(4):
            B[e * 32 + i] = C[3 - e]
"""
    assert found(body, shape="(5,)") == ([] if is_own else [("thread", "rows", "rows", "threadIdx.x")])


@pytest.mark.meaning("alloc-fresh")
def test_what_is_allocated_within_the_loops_is_each_iterations_own() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((32, 4), "float32"), B: T.Buffer((32, 4), "float32")):
    for i in T.thread_binding(32, thread="threadIdx.x"):
        with T.block(""):
            C = T.alloc_buffer((4,), scope="local")
            for k in range(4):
                with T.block("C"):
                    C[k] = A[i, k]
            for k in range(4):
                with T.block("B"):
                    B[i, k] = C[3 - k]
""")
    assert not handed_over(func)


@pytest.mark.meaning("thread")
def test_memory_around_kernels_is_the_devices() -> None:
    body = """
for i in T.thread_binding(128, thread="threadIdx.x"):
    with T.block("C"):
        v = T.axis.spatial(128, i)
        C[v] = A[v]
for i in T.thread_binding(128, thread="threadIdx.x"):
    with T.block("B"):
        v = T.axis.spatial(128, i)
        B[v] = C[127 - v]
"""
    assert not found(body)


@pytest.mark.meaning("thread")
def test_digits_of_one_number() -> None:
    """Where threads are told apart by quotients and remainders, and where all elements have to be looked at."""
    body = """
for i in T.thread_binding(24, thread="threadIdx.x"):
    for k in range(2):
        with T.block("C"):
            v = T.axis.spatial(8, (i * 2 + k) // 6)
            w = T.axis.spatial(6, (i * 2 + k) % 6)
            C[v, w] = A[v * 6 + w]
    for k in range(2):
        with T.block("B"):
            v = T.axis.spatial(8, (i * 2 + k) // 6)
            w = T.axis.spatial(6, (i * 2 + k) % 6)
            B[v * 6 + w] = C[v, {column}]
"""
    assert not found(body.format(column="w"), shape="(8, 6)")
    assert not found(body.format(column="T.bitwise_xor(w, 1)"), shape="(8, 6)")
    assert found(body.format(column="(w + 1) % 6"), shape="(8, 6)")


@pytest.mark.meaning("thread")
@pytest.mark.parametrize("scope", ["local", "warp"])
@pytest.mark.parametrize("axes", [("blockIdx.x", "threadIdx.x"), ("threadIdx.x", "threadIdx.y")])
def test_symbolic_extents(scope: str, axes: tuple[str, str]) -> None:
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.alloc_buffer((n,), scope="{scope}")
    for o in T.thread_binding((n + 255) // 256, thread="{axes[0]}"):
        for i in T.thread_binding(64, thread="{axes[1]}"):
            for k in range(4):
                with T.block("C"):
                    v = T.axis.spatial(n, o * 256 + i * 4 + k)
                    T.where(o * 256 + i * 4 + k < n)
                    C[v] = A[v]
            for k in range(4):
                with T.block("B"):
                    v = T.axis.spatial(n, o * 256 + i * 4 + k)
                    T.where(o * 256 + i * 4 + k < n)
                    B[v] = C[{index}]
"""
    assert not handed_over(from_source(text.format(index="v", scope=scope, axes=axes)))
    assert handed_over(from_source(text.format(index="T.max(v - 4, 0)", scope=scope, axes=axes)))


@pytest.mark.meaning("thread")
def test_conditions_and_bounds_read_as_well() -> None:
    body = nests("v").replace("B[v] = C[v]", "if C[127 - v] > T.float32(0):\n                    B[v] = A[v]")
    assert found(body) and not found(body.replace("127 - v", "v"))


@pytest.mark.meaning("thread")
def test_what_the_error_says() -> None:
    (item,) = handed_over(program(nests("v // 64 * 64 + 63 - v % 64")))
    told = str(item)
    assert told.startswith(
        "block 'B' may read of C, of scope 'local', what block 'C' wrote in another thread along threadIdx.x"
    )
    assert told.endswith(
        'Use the scope "shared" for C, or compute it below the loop of its reader that is bound to threadIdx.x'
    )


@pytest.mark.meaning("thread")
def test_rows_that_lie_side_by_side_are_told_by_their_number() -> None:
    """A box of whole rows begins where the digits of a block's number say, in more elements than are looked at one by one."""
    body = """
for b in T.thread_binding(4096, thread="blockIdx.x"):
    for t in range(4):
        with T.block("C"):
            vt = T.axis.scan(4, t)
            v = T.axis.spatial(64, b // 64)
            w = T.axis.spatial(64, b % 64)
            T.reads(A[0:128], C[v, w, 0:16, 0:8])
            T.writes(C[v, w, 0:16, 0:8])
            for i, j in T.grid(16, 8):
                C[v, w, i, j] = T.if_then_else(vt == 0, T.float32(0), C[v, w, i, j]) + A[i * 8 + j]
    with T.block("B"):
        v = T.axis.spatial(64, b // 64)
        w = T.axis.spatial(64, b % 64)
        T.reads(C[v, w, 0:16, 0:8])
        T.writes(E[0:128, 0:16])
        E[v, 0] = C[v, w, 15, 7]
"""
    assert not found(body, "warp", "(64, 64, 16, 8)")
    assert found(
        body.replace("= C[v, w, 15, 7]", "= C[w, v, 15, 7]").replace(
            "T.reads(C[v, w, 0:16, 0:8])\n        T.writes(E",
            "T.reads(C[w, v, 0:16, 0:8])\n        T.writes(E",
        ),
        "warp",
        "(64, 64, 16, 8)",
    )

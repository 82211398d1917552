"""Kernels: threads that share memory, meet at barriers, and are refused where they disturb each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import IRModule, tir
from ir.script import from_source
from ir.tir.interpreter import Interpreter, InterpreterError, run
from tests.semantics.running import script

SYNC = 'T.tvm_storage_sync("shared")'
PAIR = {"A": ((64,), "int32"), "B": ((64,), "int32")}


def refused(program: tir.PrimFunc | IRModule, args: Sequence[object], rule: str, *told: str) -> None:
    """The interpreter refuses the program, names the rule, and says what is told."""
    with pytest.raises(InterpreterError) as caught:
        run(program, *args)
    assert caught.value.rule == rule, caught.value
    for text in told:
        assert text in str(caught.value)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(64, dtype="int32"), np.full(64, -1, "int32")


class Backwards(Interpreter):
    def order(self, iterations: range) -> Iterable[int]:
        return reversed(iterations)


# ---- launches ----------------------------------------------------------------------------------------------------


@pytest.mark.meaning("thread")
def test_all_threads_of_all_blocks_run() -> None:
    parameters = {"B": ((2, 3, 2, 4, 2, 3), "int32")}
    axes = ["blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y", "threadIdx.x"]
    launches = [
        f'v{axis} = T.launch_thread("{tag}", {(2, 3, 2, 4, 2, 3)[axis]})' for axis, tag in enumerate(axes)
    ]
    body = "B[v0, v1, v2, v3, v4, v5] = v0 * 100000 + v1 * 10000 + v2 * 1000 + v3 * 100 + v4 * 10 + v5"
    found = np.zeros((2, 3, 2, 4, 2, 3), "int32")
    run(script(parameters, *launches, body), found)
    expected = np.array([int("".join(map(str, index))) for index in np.ndindex(found.shape)], "int32")
    assert (found.ravel() == expected).all()


@pytest.mark.meaning("thread")
def test_variables_belong_to_a_thread() -> None:
    program = script(
        PAIR,
        'tx = T.launch_thread("threadIdx.x", 64)',
        "x = A[tx] * 2",
        'T.tvm_storage_sync("shared")',
        "for i in range(tx % 3 + 1):",
        "    B[tx] = x + i",
    )
    a, b = arrays()
    run(program, a, b)
    assert (b == a * 2 + a % 3).all()


@pytest.mark.meaning("thread")
def test_attributes_further_inside_name_the_thread() -> None:
    """Each thread runs what stands around them, too."""
    program = script(
        PAIR,
        'with T.launch_thread("blockIdx.x", 2) as bx:',
        '    s = T.allocate([32], "int32", "shared")',
        '    S = T.Buffer((32,), "int32", data=s, scope="shared")',
        '    l = T.allocate([1], "int32", "local")',
        '    L = T.Buffer((1,), "int32", data=l, scope="local")',
        "    L[0] = 0",
        "    for k in range(3):",
        '        with T.launch_thread("threadIdx.x", 32) as tx:',
        "            S[tx] = A[bx * 32 + tx] * (k + 1)",
        '        T.tvm_storage_sync("shared")',
        '        with T.launch_thread("threadIdx.x", 32) as ty:',
        "            L[0] = L[0] + S[31 - ty]",
        '            with T.launch_thread("threadIdx.x", 32) as tz:',
        "                B[bx * 32 + tz] = L[0]",
        '        T.tvm_storage_sync("shared")',
    )
    a, b = arrays()
    run(program, a, b)
    assert (b == a.reshape(2, 32)[:, ::-1].ravel() * 6).all()


@pytest.mark.meaning("thread")
def test_different_extents_of_an_axis_are_refused() -> None:
    nested = (
        'tx = T.launch_thread("threadIdx.x", 4)',
        'ty = T.launch_thread("threadIdx.x", 8)',
        "B[tx] = ty",
    )
    refused(script(PAIR, *nested), arrays(), "thread", "8 and for 4 of threadIdx.x")
    beside = (
        'with T.launch_thread("blockIdx.x", 1):',
        '    with T.launch_thread("threadIdx.x", 4) as tx:',
        "        B[tx] = 0",
        '    with T.launch_thread("threadIdx.x", 8) as ty:',
        "        B[ty] = 1",
    )
    refused(script(PAIR, *beside), arrays(), "thread")


@pytest.mark.meaning("thread")
def test_extents_that_only_the_kernel_knows_are_refused() -> None:
    program = script(
        PAIR,
        'bx = T.launch_thread("blockIdx.x", 2)',
        "for i in range(1, 3):",
        '    with T.launch_thread("threadIdx.x", i) as tx:',
        "        B[tx] = bx",
    )
    with pytest.raises(
        InterpreterError, match=r"extent of threadIdx.x, i, must be known where the kernel is launched"
    ):
        run(program, *arrays())


def test_unknown_tags_are_refused() -> None:
    program = script(PAIR, 'tx = T.launch_thread("threadIdx.w", 4)', "B[tx] = 0")
    with pytest.raises(InterpreterError, match=r"no threads along 'threadIdx.w'.*threadIdx.z and vthread"):
        run(program, *arrays())


@pytest.mark.meaning("thread")
def test_nothing_runs_where_an_extent_is_zero() -> None:
    program = script(
        {**PAIR, "n": ((1,), "int32")},
        'bx = T.launch_thread("blockIdx.x", n[0])',
        'tx = T.launch_thread("threadIdx.x", 4)',
        "B[bx * 4 + tx] = 0",
    )
    a, b = arrays()
    run(program, a, b, np.array([0], "int32"))
    assert (b == -1).all()
    run(program, a, b, np.array([2], "int32"))
    assert (b[:8] == 0).all() and (b[8:] == -1).all()


@pytest.mark.meaning("thread")
def test_ret_ends_its_thread() -> None:
    program = script(
        PAIR,
        'with T.launch_thread("threadIdx.x", 64) as tx:',
        "    if A[tx] % 2 == 0:",
        "        T.evaluate(T.ret())",
        "    B[tx] = tx",
        "B[0] = 7",
    )
    a, b = arrays()
    run(program, a, b)
    assert b[0] == 7 and (b[1::2] == a[1::2]).all() and (b[2::2] == -1).all()


@pytest.mark.meaning("thread")
def test_virtual_threads_are_instances_within_a_thread() -> None:
    program = script(
        PAIR,
        'bx = T.launch_thread("blockIdx.x", 2)',
        'vx = T.launch_thread("vthread.x", 4)',
        'tx = T.launch_thread("threadIdx.x", 8)',
        'l = T.allocate([1], "int32", "local")',
        'L = T.Buffer((1,), "int32", data=l, scope="local")',
        "L[0] = A[bx * 32 + vx * 8 + tx]",
        "B[bx * 32 + vx * 8 + tx] = L[0] + vx * 1000",
    )
    a, b = arrays()
    run(program, a, b)
    assert (b == a + a % 32 // 8 * 1000).all()


@pytest.mark.meaning("thread")
def test_virtual_threads_without_threads_are_a_loop() -> None:
    a, b = arrays()
    run(script(PAIR, 'vx = T.launch_thread("vthread.x", 4)', "B[vx] = A[vx] * 2"), a, b)
    assert (b[:4] == a[:4] * 2).all() and (b[4:] == -1).all()


# ---- several kernels, modules ------------------------------------------------------------------------------------


@pytest.mark.meaning("thread", "thread-race")
def test_one_kernel_after_the_other() -> None:
    """The second one reads what other threads and blocks of the first wrote; it runs once for each turn of the host's loop."""
    program = script(
        PAIR,
        "for turn in range(3):",
        '    with T.launch_thread("blockIdx.x", 2) as bx:',
        '        with T.launch_thread("threadIdx.x", 32) as tx:',
        "            B[bx * 32 + tx] = A[bx * 32 + tx] * 2",
        '    with T.launch_thread("blockIdx.x", 4) as bx:',
        '        with T.launch_thread("threadIdx.x", 16) as tx:',
        "            A[bx * 16 + tx] = B[63 - bx * 16 - tx]",
    )
    a, b = arrays()
    expected = a.copy()
    run(program, a, b)
    for _ in range(3):
        expected = (expected * 2)[::-1]
    assert (a == expected).all()


DEVICE_AND_HOST = """
@I.ir_module
class Module:
    @T.prim_func
    def twice(x: T.int32) -> T.int32:
        return x * 2

    @T.prim_func
    def kernel(a: T.handle("int32", "global"), b: T.handle("int32", "global"), n: T.int32):
        T.func_attr({"calling_conv": 2, "tir.is_global_func": True, "tir.kernel_launch_params": ["blockIdx.x", "threadIdx.x"]})
        bx = T.launch_thread("blockIdx.x", n)
        tx = T.launch_thread("threadIdx.x", 16)
        s = T.allocate([16], "int32", "shared")
        A = T.decl_buffer((n * 16,), "int32", data=a)
        B = T.decl_buffer((n * 16,), "int32", data=b)
        S = T.decl_buffer((16,), "int32", data=s, scope="shared")
        S[tx] = Module.twice(A[bx * 16 + tx])
        T.tvm_storage_sync("shared")
        B[bx * 16 + tx] = S[15 - tx]

    @T.prim_func
    def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        c = T.allocate([64], "int32", "global")
        Module.kernel(A.data, c, 4)
        Module.kernel(c, B.data, 4)
"""


@pytest.mark.meaning("thread")
def test_a_host_function_calls_a_kernel() -> None:
    module = from_source(DEVICE_AND_HOST)
    a, b = arrays()
    run(module, a, b)
    assert (b == a * 4).all()
    run(module, a, b, 2, name="kernel")
    assert (b[:32] == a.reshape(4, 16)[:2, ::-1].ravel() * 2).all()


LAUNCHED = """
@I.ir_module
class Module:
    @T.prim_func
    def kernel(a: T.handle("int32", "global"), n: T.int32):
        T.func_attr({{"calling_conv": 2, "global_symbol": "the_kernel", "tir.is_global_func": True,
            "tir.kernel_launch_params": ["blockIdx.x", "threadIdx.x", "tir.use_dyn_shared_memory"]}})
        bx = T.launch_thread("blockIdx.x", n)
        tx = T.launch_thread("threadIdx.x", 16)
        s = T.allocate([16], "int32", "shared.dyn")
        A = T.decl_buffer((n * 16,), "int32", data=a)
        S = T.decl_buffer((16,), "int32", data=s, scope="shared.dyn")
        S[tx] = A[bx * 16 + tx]
        T.tvm_storage_sync("shared.dyn")
        A[bx * 16 + tx] = S[15 - tx]

    @T.prim_func
    def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        T.call_packed("the_kernel", A.data, {arguments})
"""


@pytest.mark.meaning("thread")
def test_the_host_launches_a_kernel_by_its_name() -> None:
    """As LowerDeviceKernelLaunch makes it do."""
    a, b = arrays()
    run(from_source(LAUNCHED.format(arguments="3, 3, 16, 64")), a, b)
    assert (a[:48].reshape(3, 16) == np.arange(48).reshape(3, 16)[:, ::-1]).all() and (
        a[48:] == np.arange(48, 64)
    ).all()


@pytest.mark.parametrize(
    ("arguments", "rule", "told"),
    [
        ("3, 3, 16", "call", "takes 2 arguments and its launch blockIdx.x, threadIdx.x, tir.use_dyn_shared_memory; got 4 in all"),
        ("3, 2, 16, 64", "thread", "launched with blockIdx.x = 2, threadIdx.x = 16"),
        ("3, 3, 16, 60", "thread-memory", "64 bytes of dynamic shared memory are allocated, of 60"),
    ],
)  # fmt: skip
def test_a_launch_that_does_not_fit_is_refused(arguments: str, rule: str, told: str) -> None:
    refused(from_source(LAUNCHED.format(arguments=arguments)), arrays(), rule, told)


def test_a_kernel_within_a_kernel_is_refused() -> None:
    source = DEVICE_AND_HOST.replace(
        "T.int32) -> T.int32:", "T.int32) -> T.int32:\n        T.evaluate(0)"
    ).replace(
        "        return x * 2",
        '        with T.launch_thread("threadIdx.x", 8) as tx:\n            T.evaluate(tx)\n        return x * 2',
    )
    refused(
        from_source(source),
        arrays(),
        "thread",
        "8 of threadIdx.x are asked for in a kernel that is launched for 16",
    )


@pytest.mark.meaning("thread", "thread-memory")
def test_blocks_within_threads() -> None:
    """Programs with blocks have kernels, too: what a block allocates for threads to share, they share."""
    program = script(
        PAIR,
        'bx = T.launch_thread("blockIdx.x", 2)',
        'tx = T.launch_thread("threadIdx.x", 32)',
        'with T.block("turn"):',
        '    S = T.alloc_buffer((32,), "int32", scope="shared")',
        '    L = T.alloc_buffer((1,), "int32", scope="local")',
        "    for i in T.vectorized(1):",
        "        L[i] = A[bx * 32 + tx]",
        "    S[tx] = L[0]",
        f"    {SYNC}",
        "    for i in T.parallel(1):",
        "        B[bx * 32 + tx] = S[31 - tx]",
    )
    a, b = arrays()
    run(program, a, b)
    assert (b == a.reshape(2, 32)[:, ::-1].ravel()).all()


@pytest.mark.meaning("thread")
def test_threads_meet_within_their_loops_and_calls() -> None:
    """What a thread was in the middle of, it goes on with."""
    source = """
@I.ir_module
class Module:
    @T.prim_func
    def down(S: T.handle("int32", "shared"), n: T.int32, tx: T.int32):
        B = T.decl_buffer((8,), "int32", data=S, scope="shared")
        if n > 0:
            Module.down(S, n - 1, tx)
        else:
            B[tx] = B[tx] + tx
            T.tvm_storage_sync("shared")

    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        tx = T.launch_thread("threadIdx.x", 8)
        s = T.allocate([8], "int32", "shared")
        S = T.decl_buffer((8,), "int32", data=s, scope="shared")
        S[tx] = A[tx]
        for i in T.parallel(1):
            Module.down(s, 300, tx)
            B[tx] = S[7 - tx]
"""
    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    run(from_source(source), a, b)
    assert (b == 2 * a[::-1]).all()


# ---- shared memory and barriers ----------------------------------------------------------------------------------

REDUCTION = (
    'bx = T.launch_thread("blockIdx.x", 2)',
    's = T.allocate([32], "int32", "shared")',
    'S = T.Buffer((32,), "int32", data=s, scope="shared")',
    'tx = T.launch_thread("threadIdx.x", 32)',
    "S[tx] = A[bx * 32 + tx]",
    "{first}",
    "for step in range(5):",
    "    if tx < T.shift_right(16, step):",
    "        S[tx] = S[tx] + S[tx + T.shift_right(16, step)]",
    "    {each}",
    "if tx == 0:",
    "    B[bx] = S[0]",
)


def reduction(first: str = SYNC, each: str = SYNC) -> tir.PrimFunc:
    return script(PAIR, *[line.format(first=first, each=each) for line in REDUCTION])


@pytest.mark.meaning("thread-barrier")
@pytest.mark.parametrize("scope", ["shared", "shared.dyn", "global"])
def test_a_reduction_through_shared_memory(scope: str) -> None:
    a, b = arrays()
    sync = f'T.tvm_storage_sync("{scope}")'
    run(reduction(sync, sync), a, b)
    assert b[:2].tolist() == a.reshape(2, 32).sum(1).tolist()


@pytest.mark.meaning("thread", "thread-barrier")
def test_no_result_depends_on_the_order_of_threads() -> None:
    a, b = arrays()
    Backwards().call(reduction(), [a, b])
    assert b[:2].tolist() == a.reshape(2, 32).sum(1).tolist()


@pytest.mark.meaning("thread-race", "unwritten")
def test_a_reduction_without_its_barriers_is_refused() -> None:
    told = "which thread (threadIdx.x", "no barrier lies between", "S[tx] + S[tx +", "for bx = 0, tx = "
    refused(reduction(each="T.evaluate(0)"), arrays(), "thread-race", *told)
    refused(reduction(first="T.evaluate(0)"), arrays(), "unwritten", "S[16] is read, which nobody wrote")


@pytest.mark.meaning("thread-barrier")
def test_a_tile_is_transposed() -> None:
    parameters = {"A": ((32, 32), "float32"), "B": ((32, 32), "float32")}
    program = script(
        parameters,
        'by = T.launch_thread("blockIdx.y", 4)',
        'bx = T.launch_thread("blockIdx.x", 4)',
        's = T.allocate([72], "float32", "shared.dyn")',
        'tile = T.Buffer((8, 9), data=s, scope="shared.dyn")',
        'ty = T.launch_thread("threadIdx.y", 8)',
        'tx = T.launch_thread("threadIdx.x", 8)',
        "tile[ty, tx] = A[by * 8 + ty, bx * 8 + tx]",
        'T.tvm_storage_sync("shared.dyn")',
        "B[bx * 8 + ty, by * 8 + tx] = tile[tx, ty]",
    )
    a, b = np.random.default_rng(0).random((32, 32), "float32"), np.zeros((32, 32), "float32")
    run(program, a, b)
    assert (b == a.T).all()


@pytest.mark.meaning("thread-barrier")
def test_a_barrier_under_a_condition_that_all_threads_share() -> None:
    program = script(
        {**PAIR, "n": ((1,), "int32")},
        'bx = T.launch_thread("blockIdx.x", 2)',
        'tx = T.launch_thread("threadIdx.x", 32)',
        's = T.allocate([32], "int32", "shared")',
        'S = T.Buffer((32,), "int32", data=s, scope="shared")',
        "S[tx] = A[bx * 32 + tx]",
        "if n[0] + bx > 0:",
        '    T.tvm_storage_sync("shared")',
        "    B[bx * 32 + tx] = S[31 - tx]",
        "else:",
        "    B[bx * 32 + tx] = S[tx]",
    )
    a, b = arrays()
    run(program, a, b, np.array([0], "int32"))
    assert (b == np.concatenate([a[:32], a[:31:-1]])).all()


@pytest.mark.meaning("thread-barrier")
@pytest.mark.parametrize(
    ("body", "told"),
    [
        (("if tx < 5:", f"    {SYNC}"), ["thread (threadIdx.x = 5) has ended, and 58 more do not come"]),
        (("if tx != 3:", f"    {SYNC}"), ["thread (threadIdx.x = 3) has ended [thread-barrier]"]),
        (
            ("if tx < 5:", f"    {SYNC}", "else:", f"    {SYNC}"),
            ["meeting point 1, T.tvm_storage_sync", "(threadIdx.x = 5) waits at meeting point 2, T.tvm_storage_sync"],
        ),
        (("for i in range(T.if_then_else(tx == 9, 1, 2)):", f"    {SYNC}"), ["thread (threadIdx.x = 9) has ended", "for tx = 0, i = 1"]),
    ],
)  # fmt: skip
def test_a_barrier_that_not_all_threads_come_to(body: Sequence[str], told: Sequence[str]) -> None:
    program = script(PAIR, 'tx = T.launch_thread("threadIdx.x", 64)', *body)
    refused(program, arrays(), "thread-barrier", "thread (threadIdx.x = 0) waits at", f"at {SYNC}", *told)


@pytest.mark.meaning("thread-barrier")
def test_a_barrier_within_virtual_threads_is_refused() -> None:
    lines = ('vx = T.launch_thread("vthread", 2)', 'tx = T.launch_thread("threadIdx.x", 4)')
    refused(
        script(PAIR, *lines, "B[vx * 4 + tx] = 0", SYNC), arrays(), "thread-barrier", "InjectVirtualThread"
    )


@pytest.mark.parametrize("arguments", ['"local"', '"global", True, 4'])
def test_barriers_of_something_else_are_refused(arguments: str) -> None:
    """Such as one of all blocks."""
    program = script(PAIR, 'tx = T.launch_thread("threadIdx.x", 4)', f"T.tvm_storage_sync({arguments})")
    with pytest.raises(InterpreterError, match="is no barrier of a block or of a warp"):
        run(program, *arrays())


def test_a_barrier_without_threads_is_refused() -> None:
    loop = script(PAIR, 'for tx in T.thread_binding(4, "threadIdx.x"):', f"    {SYNC}")
    with pytest.raises(InterpreterError, match="tvm_storage_sync has a meaning in threads only"):
        run(loop, *arrays())


@pytest.mark.meaning("thread-barrier", "thread-race")
def test_a_barrier_of_a_warp_is_for_the_warp_alone() -> None:
    def program(source: str) -> tir.PrimFunc:
        return script(
            PAIR,
            'tx = T.launch_thread("threadIdx.x", 64)',
            's = T.allocate([64], "int32", "shared")',
            'S = T.Buffer((64,), "int32", data=s, scope="shared")',
            "S[tx] = A[tx]",
            'T.tvm_storage_sync("warp")',
            f"B[tx] = S[{source}]",
        )

    a, b = arrays()
    run(program("tx // 32 * 32 + (31 - tx % 32)"), a, b)
    assert (b == a.reshape(2, 32)[:, ::-1].ravel()).all()
    with pytest.raises(InterpreterError, match="thread-race|unwritten"):
        run(program("63 - tx"), a, b)


# ---- memory ------------------------------------------------------------------------------------------------------


@pytest.mark.meaning("thread-memory")
def test_memory_of_a_warp_and_of_a_thread() -> None:
    program = script(
        PAIR,
        'tx = T.launch_thread("threadIdx.x", 48)',
        'w = T.allocate([32], "int32", "warp")',
        'W = T.Buffer((32,), "int32", data=w, scope="warp")',
        'l = T.allocate([1], "int32", "local")',
        'L = T.Buffer((1,), "int32", data=l, scope="local")',
        "L[0] = A[tx] + 1",
        "W[tx % 32] = A[tx]",
        'T.tvm_storage_sync("warp")',
        "B[tx] = L[0] * 100 + W[tx % 32 // 2]",
    )
    a, b = arrays()
    run(program, a, b)
    number = np.arange(48)
    assert (b[:48] == (number + 1) * 100 + number // 32 * 32 + number % 32 // 2).all()


@pytest.mark.meaning("thread-memory")
def test_shared_memory_is_new_in_each_block_and_each_time() -> None:
    stale = script(
        PAIR,
        'bx = T.launch_thread("blockIdx.x", 2)',
        'tx = T.launch_thread("threadIdx.x", 4)',
        's = T.allocate([4], "int32", "shared")',
        'S = T.Buffer((4,), "int32", data=s, scope="shared")',
        "if bx == 0:",
        "    S[tx] = A[tx]",
        "B[bx * 4 + tx] = S[tx]",
    )
    refused(stale, arrays(), "unwritten", "for bx = 1, tx = 0")
    again = script(
        PAIR,
        'tx = T.launch_thread("threadIdx.x", 4)',
        "for turn in range(2):",
        '    s = T.allocate([4], "int32", "shared")',
        '    S = T.Buffer((4,), "int32", data=s, scope="shared")',
        "    if turn == 0:",
        "        S[tx] = A[tx]",
        "    B[tx] = S[tx]",
    )
    refused(again, arrays(), "unwritten", "for tx = 0, turn = 1")


@pytest.mark.meaning("thread-memory", "thread-race")
def test_the_bytes_of_shared_memory_stay_the_same() -> None:
    """What a thread writes in the second turn another one may still read in the first."""

    def program(end: str) -> tir.PrimFunc:
        return script(
            PAIR,
            'tx = T.launch_thread("threadIdx.x", 32)',
            "for turn in range(2):",
            '    s = T.allocate([32], "int32", "shared")',
            '    S = T.Buffer((32,), "int32", data=s, scope="shared")',
            "    S[tx] = A[turn * 32 + tx]",
            f"    {SYNC}",
            "    B[turn * 32 + tx] = S[31 - tx]",
            f"    {end}",
        )

    a, b = arrays()
    run(program(SYNC), a, b)
    assert (b == a.reshape(2, 32)[:, ::-1].ravel()).all()
    refused(program("T.evaluate(0)"), (a, b), "thread-race", "(threadIdx.x = 16) reads S[15]", "turn = 0")


@pytest.mark.meaning("thread-memory")
def test_threads_must_allocate_one_size() -> None:
    program = script(
        PAIR,
        'tx = T.launch_thread("threadIdx.x", 4)',
        's = T.allocate([tx + 1], "int32", "shared")',
        'S = T.Buffer((4,), "int32", data=s, scope="shared")',
        "S[tx] = 0",
    )
    refused(program, arrays(), "thread-memory", "4 and 8 bytes")


# ---- races -------------------------------------------------------------------------------------------------------


@pytest.mark.meaning("thread-race")
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("B[tx // 2] = tx", ["thread (threadIdx.x = 1) writes B[0], which thread (threadIdx.x = 0) writes", "at B[tx // 2] = tx"]),
        ("B[tx] = B[(tx + 1) % 32]", ["thread (threadIdx.x = 1) writes B[1], which thread (threadIdx.x = 0) reads"]),
        ("B[tx] = B[T.max(tx - 1, 0)]", ["thread (threadIdx.x = 1) reads B[0], which thread (threadIdx.x = 0) writes"]),
        ("B[T.max(tx, 30)] = B[40] + tx", ["thread (threadIdx.x = 1) writes B[30]"]),
    ],
)  # fmt: skip
def test_threads_of_a_block_that_disturb_each_other(body: str, told: Sequence[str]) -> None:
    refused(script(PAIR, 'tx = T.launch_thread("threadIdx.x", 32)', body), arrays(), "thread-race", *told)


@pytest.mark.meaning("thread-race")
def test_several_readers_and_a_writer() -> None:
    for writer in (0, 5, 63):
        body = ("B[tx] = A[7] + B[tx]", f"if tx == {writer}:", "    A[7] = 1")
        program = script(PAIR, 'tx = T.launch_thread("threadIdx.x", 64)', *body)
        refused(program, arrays(), "thread-race", "A[7]")
        for order in (Interpreter, Backwards):
            with pytest.raises(InterpreterError, match="thread-race"):
                order().call(program, list(arrays()))


@pytest.mark.meaning("thread-race")
def test_blocks_have_no_barriers() -> None:
    lines = ('bx = T.launch_thread("blockIdx.x", 2)', 'tx = T.launch_thread("threadIdx.x", 32)')
    told = (
        "block (blockIdx.x = 1) writes B[0], which block (blockIdx.x = 0) writes, and blocks have no order",
        "tx = 0",
    )
    refused(script(PAIR, *lines, "B[tx] = bx"), arrays(), "thread-race", *told)
    reads = ("if bx == 0:", "    B[tx] = 1", SYNC, "if bx == 1:", "    B[tx + 32] = B[tx]")
    refused(script(PAIR, *lines, *reads), arrays(), "thread-race", "block (blockIdx.x = 1) reads B[0]")


SHARED = ('s = T.allocate([32], "int32", "shared")', 'S = T.Buffer((32,), "int32", data=s, scope="shared")')


@pytest.mark.meaning("thread-race")
def test_several_may_write_the_same() -> None:
    """Copies that threads make of one element, and blocks of a launch: whoever runs first, it is there behind the barrier."""
    lines = ('bx = T.launch_thread("blockIdx.x", 2)', 'tx = T.launch_thread("threadIdx.x", 32)')
    copies = script(PAIR, *lines, *SHARED, "S[tx // 4] = A[tx // 4]", SYNC, "B[tx] = S[7 - tx // 4]")
    for order in (Interpreter, Backwards):
        a, b = arrays()
        order().call(copies, [a, b])
        assert (b[:32] == a[7 - np.arange(32) // 4]).all()


@pytest.mark.meaning("thread-race")
@pytest.mark.parametrize(
    "lines",
    [
        ["S[tx // 4] = A[tx // 4]", "B[tx] = S[tx // 4]"],  # each has to wait for those that write the same
        ["S[tx // 4] = A[tx // 4]", "S[tx // 4] = 7"],
        ["if tx == 0:", "    S[0] = 1", "    S[0] = 2", "if tx == 3:", "    S[0] = 2"],
        ["if tx == 3:", "    S[0] = 1", "    S[0] = 2", "if tx == 0:", "    S[0] = 2"],
        ["S[0] = tx // 16"],
        ["S[0] = 5", 'T.evaluate(T.atomic_add("int32", T.address_of(S[0]), 0))'],
    ],
)
def test_several_that_write_the_same_at_times_disturb_each_other(lines: Sequence[str]) -> None:
    program = script(PAIR, 'tx = T.launch_thread("threadIdx.x", 32)', *SHARED, *lines)
    for order in (Interpreter, Backwards):
        with pytest.raises(InterpreterError, match="thread-race"):
            order().call(program, list(arrays()))


@pytest.mark.meaning("thread-race")
def test_the_same_means_the_same_bits() -> None:
    """NaN is what NaN is, and 0.0 is not -0.0."""
    pair = {"A": ((32,), "float32"), "B": ((32,), "float32")}
    program = script(pair, 'tx = T.launch_thread("threadIdx.x", 32)', "B[0] = A[tx]")
    run(program, np.full(32, np.nan, "float32"), np.zeros(32, "float32"))
    refused(program, [np.where(np.arange(32) == 9, -0.0, 0.0).astype("float32")] * 2, "thread-race")


@pytest.mark.meaning("thread-race")
def test_what_overlaps_disturbs_at_any_width() -> None:
    b = tir.decl_buffer((64,), "int32", "B")
    wide = tir.decl_buffer((32,), "int64", "wide", data=b.data)
    tx = tir.Var("tx", "int32")
    stores = tir.SeqStmt(
        [
            tir.IfThenElse(tx < 2, tir.BufferStore(wide, tir.const(5, "int64"), [tx])),
            tir.IfThenElse(tx >= 2, tir.BufferStore(b, tx, [tx])),
        ]
    )
    axis = tir.IterVar((0, 8), tx, tir.IterVar.ThreadIndex, "threadIdx.x")
    program = tir.PrimFunc([b], tir.AttrStmt(axis, "thread_extent", 8, stores))
    refused(program, [arrays()[1]], "thread-race", "thread (threadIdx.x = 2) writes B[2]")


STEPS = st.lists(
    st.tuples(st.sampled_from(["mine", "yours", "sync"]), st.integers(0, 7), st.integers(0, 7)),
    min_size=1,
    max_size=6,
)


def _disturbed(steps: Sequence[tuple[str, int, int]], threads: int) -> bool:
    """Whether two threads meet at an element between two barriers, and one of them writes it."""
    touched: list[tuple[int, int, bool]] = []
    for kind, shift, other in steps:
        if kind == "sync":
            touched = []
        for thread in range(threads) if kind != "sync" else ():
            where = thread if kind == "mine" else (thread + shift) % threads
            touched += [
                (thread, where, True),
                (thread, (where + other) % threads if kind == "yours" else where, False),
            ]
        if any(
            a[0] != b[0] and a[1] == b[1] and (a[2] or b[2])
            for at, a in enumerate(touched)
            for b in touched[at + 1 :]
        ):
            return True
    return False


@pytest.mark.meaning("thread-race", "thread-barrier")
@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_random_kernels(steps: Sequence[tuple[str, int, int]]) -> None:
    """A kernel runs exactly if its barriers lie between what disturbs, and leaves what its steps leave one after the other."""
    lines, expected = [], np.arange(8, dtype="int32")
    for kind, shift, other in steps:
        if kind == "sync":
            lines.append(SYNC)
            continue
        where = "tx" if kind == "mine" else f"(tx + {shift}) % 8"
        source = where if kind == "mine" else f"(tx + {shift + other}) % 8"
        lines.append(f"S[{where}] = S[{source}] * 3 + 1")
    program = script(
        {"A": ((8,), "int32"), "B": ((8,), "int32")},
        'tx = T.launch_thread("threadIdx.x", 8)',
        's = T.allocate([8], "int32", "shared")',
        'S = T.Buffer((8,), "int32", data=s, scope="shared")',
        "S[tx] = A[tx]",
        SYNC,
        *lines,
        SYNC,
        "B[tx] = S[tx]",
    )
    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    if _disturbed(steps, 8):
        refused(program, [a, b], "thread-race")
        return
    run(program, a, b)
    for kind, shift, other in steps:
        if kind != "sync":
            where = np.arange(8) if kind == "mine" else (np.arange(8) + shift) % 8
            before = expected.copy()
            expected[where] = before[where if kind == "mine" else (where + other) % 8] * 3 + 1
    assert (b == expected).all()

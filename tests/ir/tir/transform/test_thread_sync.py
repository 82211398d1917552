"""ThreadSync: barriers where threads meet, as few as that takes, and none where threads part."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ir import IRModule, assert_structural_equal, tir
from ir.error import IRValueError
from ir.node import Mutator
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import InterpreterError, run
from ir.tir.transform import ThreadSync
from tests.programs.thread_kernels import thread_kernel

KERNEL = """
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", {threads})
    s = T.allocate([1024], "float32", "{scope}")
    S = T.Buffer((1024,), data=s, scope="{scope}")
{body}"""


def kernel(body, threads=32, scope="shared"):
    """A kernel of four blocks around a body, whose memory S its threads share."""
    lines = [f"    {line}" for line in body.strip("\n").split("\n")]
    return from_source(KERNEL.format(body="\n".join(lines), threads=threads, scope=scope) + "\n")


def synchronized(func, scope="shared"):
    return ThreadSync(scope)(IRModule({"main": func}))["main"]


def expect(before, after, threads=32, scope="shared"):
    """The body becomes the other one; ``sync`` stands for the scope's barrier."""
    barrier = 'T.tvm_storage_sync("warp")' if scope == "warp" else 'T.tvm_storage_sync("shared")'
    wanted = kernel(after.replace("sync\n", f"{barrier}\n"), threads, scope)
    found = synchronized(kernel(before, threads, scope), scope)
    assert_structural_equal(found, wanted)
    assert synchronized(found, scope) is found  # barriers that are there count


def unchanged(body, threads=32, scope="shared"):
    func = kernel(body, threads, scope)
    assert synchronized(func, scope) is func


def barriers(func):
    return func.script().count("tvm_storage_sync")


# ---- the usual forms -------------------------------------------------------------------------------------------------


def test_fetch_and_compute():
    expect(
        """
for k in range(8):
    S[tx] = A[k * 32 + tx]
    B[tx] = B[tx] + S[31 - tx]
""",
        """
for k in range(8):
    S[tx] = A[k * 32 + tx]
    sync
    B[tx] = B[tx] + S[31 - tx]
    sync
""",
    )


def test_two_buffers_in_turn():
    """What is fetched is not what is used: one barrier in an iteration, which serves what was fetched before the loop, too."""
    expect(
        """
S[tx] = A[tx]
for k in range(8):
    S[(k + 1) % 2 * 32 + tx] = A[(k + 1) * 32 + tx]
    B[tx] = B[tx] + S[k % 2 * 32 + 31 - tx]
B[tx] = B[tx] + S[31 - tx]
""",
        """
S[tx] = A[tx]
for k in range(8):
    sync
    S[(k + 1) % 2 * 32 + tx] = A[(k + 1) * 32 + tx]
    B[tx] = B[tx] + S[k % 2 * 32 + 31 - tx]
sync
B[tx] = B[tx] + S[31 - tx]
""",
    )


def test_transposition_through_a_tile():
    expect(
        """
for i in range(8):
    S[i * 33 + tx] = A[i * 32 + tx]
for j in range(8):
    B[j * 32 + tx] = S[tx * 33 + j]
""",
        """
for i in range(8):
    S[i * 33 + tx] = A[i * 32 + tx]
sync
for j in range(8):
    B[j * 32 + tx] = S[tx * 33 + j]
""",
    )


def test_reduction_by_halves():
    expect(
        """
S[tx] = A[tx]
for k in range(5):
    if tx < T.shift_right(16, k):
        S[tx] = S[tx] + S[tx + T.shift_right(16, k)]
B[tx] = S[0]
""",
        """
S[tx] = A[tx]
for k in range(5):
    sync
    if tx < T.shift_right(16, k):
        S[tx] = S[tx] + S[tx + T.shift_right(16, k)]
sync
B[tx] = S[0]
""",
    )


def test_two_tiles_are_waited_for_once():
    expect(
        """
for k in range(8):
    S[tx] = A[k * 32 + tx]
    S[32 + tx] = A[k * 32 + tx + 1024]
    for j in range(32):
        B[tx] = B[tx] + S[j] * S[32 + j]
""",
        """
for k in range(8):
    S[tx] = A[k * 32 + tx]
    S[32 + tx] = A[k * 32 + tx + 1024]
    sync
    for j in range(32):
        B[tx] = B[tx] + S[j] * S[32 + j]
    sync
""",
    )


def test_a_barrier_that_serves_the_next_iteration_too():
    """As late as possible, before the last statement, it would not, and a second one would stand at the end."""
    expect(
        """
for k in range(8):
    S[k * 32 + tx] = A[tx]
    S[512 + k * 32 + tx] = A[k]
    B[tx] = S[k * 32 + 31 - tx] + S[544 + k * 32 + 31 - tx]
""",
        """
for k in range(8):
    S[k * 32 + tx] = A[tx]
    sync
    S[512 + k * 32 + tx] = A[k]
    B[tx] = S[k * 32 + 31 - tx] + S[544 + k * 32 + 31 - tx]
""",
    )


# ---- where none is wanted ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "S[tx] = A[tx]\nB[tx] = S[tx]",
        "S[tx * 4] = A[tx]\nB[tx] = S[tx * 4]",
        "S[tx] = A[tx]\nB[tx] = S[tx + 32]",
        "for k in range(8):\n    S[k * 32 + tx] = A[tx]\n    B[tx] = S[k * 32 + tx]",
        "S[tx // 8 * 9 + tx % 8] = A[tx]\nB[tx] = S[tx // 8 * 9 + tx % 8]",
        "S[T.bitwise_xor(tx, 5)] = A[tx]\nB[tx] = S[T.bitwise_xor(tx, 5)]",
        "if tx < 16:\n    S[tx] = A[tx]\nif tx >= 16:\n    B[tx] = S[tx]",
        "if tx == 3:\n    S[7] = A[tx]\n    B[tx] = S[7]",
        "S[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]\nB[tx] = S[tx * 4 + 3]",
        "B[tx] = S[0] + S[tx]\nB[tx] = S[31 - tx]",
        "for k in range(1):\n    S[tx] = A[tx]\n    B[tx] = S[tx]",
        "for k in range((4096 - tx) // 32):\n    S[tx + k * 32] = A[tx]\nB[tx] = S[tx]",
        'T.evaluate(T.atomic_add("float32", T.address_of(S[0]), A[tx]))\nT.evaluate(T.atomic_add("float32", T.address_of(S[0]), A[tx]))',
    ],
)
def test_none(body):
    unchanged(body)


def test_neighbours_within_a_vector_meet():
    body = "S[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]\nB[tx] = S[tx * 4 + 4]"
    assert barriers(synchronized(kernel(body))) == 1


def test_bytes_count_not_buffers():
    """Another buffer over the same memory, in elements of half the size."""
    body = """
H = T.Buffer((2048,), "float16", data=s, scope="shared")
S[tx] = A[tx]
B[tx] = T.Cast("float32", H[{index}])
"""
    unchanged(body.format(index="tx * 2 + 1"))
    unchanged(body.format(index="tx + 64"))
    assert barriers(synchronized(kernel(body.format(index="tx + 63")))) == 1


def test_one_thread_needs_none():
    unchanged("S[tx] = A[tx]\nB[tx] = S[0]", threads=1)


def test_blocks_do_not_share():
    unchanged("S[tx] = A[bx]\nB[tx + bx] = S[tx] + A[bx + 1]")


def test_another_scope_is_left_alone():
    func = kernel("S[tx] = A[tx]\nB[tx] = S[0]", scope="shared.dyn")
    assert synchronized(func, "shared") is func
    assert 'T.tvm_storage_sync("shared")' in synchronized(func, "shared.dyn").script()


# ---- loops -----------------------------------------------------------------------------------------------------------------


def test_outside_of_the_loop_that_only_reads():
    expect(
        "S[tx] = A[tx]\nfor j in range(8):\n    B[tx] = B[tx] + S[j]",
        "S[tx] = A[tx]\nsync\nfor j in range(8):\n    B[tx] = B[tx] + S[j]",
    )


def test_an_inner_loop_separates_what_is_around_it():
    """It may not run at all where its extent is not known."""
    body = "S[tx] = A[tx]\nfor j in range({extent}):\n    B[j] = S[0]\n    S[tx] = A[j]\nB[tx] = S[1]"
    assert barriers(synchronized(kernel(body.format(extent=2)))) == 3
    assert barriers(synchronized(kernel(body.format(extent='T.Cast("int32", A[0])')))) == 3


def test_while():
    expect(
        """
while S[0] < T.float32(4):
    B[tx] = S[1]
    if tx == 0:
        S[0] = S[0] + T.float32(1)
""",
        """
while S[0] < T.float32(4):
    B[tx] = S[1]
    sync
    if tx == 0:
        S[0] = S[0] + T.float32(1)
    sync
""",
    )


def test_an_allocation_in_a_loop_is_the_same_memory_each_time():
    @T.prim_func
    def inside(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
        tx = T.launch_thread("threadIdx.x", 32)
        for k in range(8):
            s = T.allocate([32], "float32", "shared")
            S = T.Buffer((32,), data=s, scope="shared")
            S[tx] = A[k * 32 + tx]
            B[k * 32 + tx] = S[31 - tx]

    assert barriers(synchronized(inside)) == 2


def test_unrolled_copies_of_a_loop():
    """Many accesses, each of another place."""
    fetch = "\n".join(f"S[{i * 32} + tx] = A[{i * 32} + tx]" for i in range(16))
    use = "\n".join(f"B[tx] = B[tx] + S[{i * 32 + 31} - tx]" for i in range(16))
    assert barriers(synchronized(kernel(f"{fetch}\n{use}\n{fetch}"))) == 2


# ---- conditions --------------------------------------------------------------------------------------------------------------


def test_a_condition_on_threads_goes_around_what_stands_between_barriers():
    expect(
        """
if tx < 20:
    for k in range(8):
        S[tx] = A[k * 32 + tx]
        v = S[19 - tx]
        B[tx] = B[tx] + v
""",
        """
for k in range(8):
    if tx < 20:
        S[tx] = A[k * 32 + tx]
    sync
    if tx < 20:
        v = S[19 - tx]
        B[tx] = B[tx] + v
    sync
""",
    )


def test_a_condition_that_all_threads_share_keeps_its_barriers():
    expect(
        "if bx < 2:\n    S[tx] = A[tx]\n    B[tx] = S[31 - tx]",
        "if bx < 2:\n    S[tx] = A[tx]\n    sync\n    B[tx] = S[31 - tx]",
    )


def test_both_branches():
    """The threads of one branch read what those of the other one wrote."""
    expect(
        """
if tx < 16:
    S[tx] = A[tx]
else:
    B[tx] = S[tx - 16]
""",
        """
if tx < 16:
    S[tx] = A[tx]
sync
if not tx < 16:
    B[tx] = S[tx - 16]
""",
    )


def test_a_condition_on_memory_is_decided_once():
    expect(
        """
if A[tx] < T.float32(4):
    S[tx] = A[tx]
    A[tx] = S[31 - tx]
""",
        """
holds: T.bool = A[tx] < T.float32(4)
if holds:
    S[tx] = A[tx]
sync
if holds:
    A[tx] = S[31 - tx]
""",
    )


def test_what_a_condition_guards_stays_guarded():
    """A let that would read elsewhere, a condition inside, an assertion."""
    expect(
        """
if tx < 20:
    v = A[tx * 200]
    S[tx] = v
    if B[tx * 200] < v:
        S[tx + 1] = v
    assert v < B[tx * 100], "small"
    S[tx + 64] = v
    B[tx] = S[83 - tx]
""",
        """
v: T.float32 = T.if_then_else(tx < 20, A[tx * 200], T.float32(0))
if tx < 20:
    S[tx] = v
sync
if tx < 20:
    if B[tx * 200] < v:
        S[tx + 1] = v
assert not tx < 20 or v < B[tx * 100], "small"
if tx < 20:
    S[tx + 64] = v
sync
if tx < 20:
    B[tx] = S[83 - tx]
""",
    )


def test_barriers_in_conditions_on_threads_move_out():
    body = 'if tx < 16:\n    S[tx] = A[tx]\n    T.tvm_storage_sync("shared")\n    B[tx] = S[15 - tx]\nS[tx] = A[tx]'
    expect(
        body,
        """
if tx < 16:
    S[tx] = A[tx]
sync
if tx < 16:
    B[tx] = S[15 - tx]
sync
S[tx] = A[tx]
""",
    )


def test_a_loop_that_depends_on_what_all_threads_read_is_one_of_all():
    assert (
        barriers(
            synchronized(
                kernel('for k in range(T.Cast("int32", A[bx])):\n    S[tx] = A[k]\n    B[tx] = S[0]')
            )
        )
        == 2
    )


def test_registers_differ_where_threads_write_them_differently():
    body = """
r = T.allocate([1], "int32", "local")
R = T.Buffer((1,), "int32", data=r, scope="local")
R[0] = {value}
while R[0] < 8:
    S[tx] = A[tx]
    B[tx] = S[31 - tx]
    R[0] = R[0] + 1
"""
    assert barriers(synchronized(kernel(body.format(value="bx")))) == 2
    with pytest.raises(IRValueError, match="run differently often"):
        synchronized(kernel(body.format(value="tx")))


# ---- existing barriers, copies ---------------------------------------------------------------------------------------------------


def test_barriers_that_are_there_count():
    unchanged(
        'for k in range(8):\n    S[tx] = A[k]\n    T.tvm_storage_sync("shared")\n    B[tx] = S[0]\n    T.tvm_storage_sync("shared")'
    )
    unchanged('S[tx] = A[tx]\nT.tvm_storage_sync("shared.dyn")\nB[tx] = S[0]')
    assert barriers(synchronized(kernel('S[tx] = A[tx]\nT.tvm_storage_sync("warp")\nB[tx] = S[0]'))) == 2


COPY = """
T.evaluate(T.ptx_cp_async("float32", s, tx * 4, A.data, tx * 4, 16))
T.evaluate(T.ptx_commit_group())
T.evaluate(T.ptx_cp_async("float32", s, 128 + tx * 4, A.data, 128 + tx * 4, 16))
T.evaluate(T.ptx_commit_group())
for k in range(8):
    T.evaluate(T.ptx_wait_group(1))
    {barrier}B[tx] = B[tx] + S[k % 3 * 128 + 127 - tx]
    T.evaluate(T.ptx_cp_async("float32", s, (k + 2) % 3 * 128 + tx * 4, A.data, k * 128 + 256 + tx * 4, 16))
    T.evaluate(T.ptx_commit_group())
"""


def test_copies_in_three_stages():
    """One barrier behind the wait: it also keeps the copy of this iteration from what the last one reads."""
    expect(COPY.format(barrier=""), COPY.format(barrier="sync\n    "))


def test_a_wait_is_for_copies_of_earlier_iterations():
    """That it waits for what this very iteration begins later on would not say."""
    alone = COPY[COPY.index("for k") :]
    expect(alone.format(barrier=""), alone.format(barrier="sync\n    "))


def test_a_copy_is_done_at_the_wait():
    body = """
T.evaluate(T.ptx_cp_async("float32", s, tx * 4, A.data, tx * 4, 16))
T.tvm_storage_sync("shared")
T.evaluate(T.ptx_wait_group(0))
B[tx] = S[127 - tx]
"""
    assert barriers(synchronized(kernel(body))) == 2


def test_matrices_of_a_warp_are_of_all_its_threads():
    """Each thread gives the address of a row, which others get: not its own, though it wrote it."""
    body = """
r = T.allocate([8], "float16", "local")
h = T.allocate([512], "float16", "shared")
H = T.Buffer((512,), "float16", data=h, scope="shared")
for i in range(8):
    H[tx * 8 + i] = T.float16(0)
T.evaluate(T.ptx_ldmatrix("float16", 0, 4, ".b16", r, 0, h, {offset}))
"""
    assert barriers(synchronized(kernel(body.format(offset="tx * 8")))) == 1
    assert barriers(synchronized(kernel(body.format(offset="256 + tx * 8")))) == 0


def test_who_gets_an_address_may_touch_anything():
    assert barriers(synchronized(kernel('S[tx] = A[tx]\nT.evaluate(T.call_extern("int32", "f", s))'))) == 1
    reading = 'S[tx] = A[tx]\nT.evaluate(T.call_extern("int32", "f", S.access_ptr("r")))\nB[tx] = S[tx]'
    assert barriers(synchronized(kernel(reading))) == 1


# ---- other groups of threads ---------------------------------------------------------------------------------------------------


def test_lanes_of_a_warp():
    """Other warps have memory of their own."""
    expect(
        "S[tx] = A[tx]\nB[tx] = S[tx // 32 * 32 + 31 - tx % 32]",
        "S[tx] = A[tx]\nsync\nB[tx] = S[tx // 32 * 32 + 31 - tx % 32]",
        128,
        "warp",
    )
    unchanged("S[tx] = A[tx]\nB[tx] = S[tx]", 128, "warp")
    unchanged("S[tx] = A[tx]\nB[tx] = S[(tx + 32) % 128]", 128, "warp")
    unchanged('S[tx] = A[tx]\nT.tvm_storage_sync("shared")\nB[tx] = S[0]', 128, "warp")


def test_a_condition_that_warps_differ_in_keeps_their_barriers():
    expect(
        "if tx // 32 < 2:\n    S[tx] = A[tx]\n    B[tx] = S[tx // 32 * 32]",
        "if tx // 32 < 2:\n    S[tx] = A[tx]\n    sync\n    B[tx] = S[tx // 32 * 32]",
        128,
        "warp",
    )


TWO_AXES = """
@T.prim_func
def main(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    tx = T.launch_thread("threadIdx.x", 8)
    ty = T.launch_thread("threadIdx.y", 8)
    s = T.allocate([64], "float32", "warp")
    S = T.Buffer((64,), data=s, scope="warp")
    S[ty * 8 + tx] = A[ty * 8 + tx]
    B[ty * 8 + tx] = S[{index}]
"""


@pytest.mark.parametrize(
    ("index", "expected"),
    [("ty // 4 * 32 + (3 - ty % 4) * 8 + tx", 1), ("(1 - ty // 4) * 32 + ty % 4 * 8 + tx", 0)],
)
def test_lanes_over_two_axes(index, expected):
    func = from_source(TWO_AXES.replace("{index}", index))
    assert barriers(synchronized(func, "warp")) == expected


@pytest.mark.parametrize(
    ("index", "expected"), [("bx * 32 + tx", 0), ("bx * 32 + 31 - tx", 1), ("(bx + 4) * 32 + tx", 0)]
)
def test_global_memory(index, expected):
    """Threads of a block wait for each other; blocks cannot."""
    body = f"B[bx * 32 + tx] = T.float32(1)\nA[bx * 32 + tx] = B[{index}]"
    assert barriers(synchronized(kernel(body), "global")) == expected


def test_kernels_in_a_host_function():
    @T.prim_func
    def host(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(2):
            with T.launch_thread("threadIdx.x", 32) as tx:
                s = T.allocate([32], "float32", "shared")
                S = T.Buffer((32,), data=s, scope="shared")
                S[tx] = A[i * 32 + tx]
                B[i * 32 + tx] = S[31 - tx]
        with T.launch_thread("threadIdx.x", 32) as ty:
            q = T.allocate([32], "float32", "shared")
            Q = T.Buffer((32,), data=q, scope="shared")
            Q[ty] = A[ty]
            B[ty] = Q[ty]

    assert barriers(synchronized(host)) == 1


# ---- what threads do ------------------------------------------------------------------------------------------------------------


def is_racy(func):
    """Whether the interpreter, which runs the threads, finds that one comes too early, or a race; other errors are none of a barrier."""
    arrays = [
        np.arange(np.prod([int(extent) for extent in buffer.shape]), dtype=buffer.dtype).reshape(
            [int(extent) for extent in buffer.shape]
        )
        for buffer in func.buffer_map.values()
    ]
    try:
        run(func, *arrays)
    except InterpreterError as error:
        if "[thread-race]" in str(error) or "[unwritten]" in str(error):
            return True
        raise
    return False


class Without(Mutator):
    """Takes out one barrier."""

    remembers = False

    def __init__(self, number):
        super().__init__()
        self.left = number

    def visit_Evaluate(self, node):
        if getattr(getattr(node.value, "op", None), "name", "") != "tir.tvm_storage_sync":
            return node
        self.left -= 1
        return tir.Evaluate(tir.const(0)) if self.left == -1 else node


USUAL = {
    "fetch and compute": "for k in range(4):\n    S[tx] = A[k * 32 + tx]\n    B[bx * 32 + tx] = B[bx * 32 + tx] + S[31 - tx]",
    "two buffers in turn": """
S[tx] = A[tx]
for k in range(5):
    S[(k + 1) % 2 * 32 + tx] = A[(k + 1) * 32 + tx]
    B[bx * 32 + tx] = B[bx * 32 + tx] + S[k % 2 * 32 + 31 - tx]
B[bx * 32 + tx] = B[bx * 32 + tx] + S[32 + 31 - tx]
""",
    "transposition": """
for i in range(8):
    S[i * 33 + tx] = A[i * 32 + tx]
for j in range(8):
    B[bx * 256 + j * 32 + tx] = S[tx // 4 * 33 + j]
""",
    "reduction": """
S[tx] = A[tx]
for k in range(5):
    if tx < T.shift_right(16, k):
        S[tx] = S[tx] + S[tx + T.shift_right(16, k)]
B[bx * 32 + tx] = S[0]
""",
    "part of the threads": """
if tx < 20:
    for k in range(4):
        S[tx] = A[k * 32 + tx]
        v = S[19 - tx]
        B[bx * 32 + tx] = B[bx * 32 + tx] + v
""",
    "scan": """
S[tx] = A[tx]
for k in range(5):
    v = T.if_then_else(tx >= T.shift_left(1, k), S[T.max(tx - T.shift_left(1, k), 0)], T.float32(0))
    S[tx] = S[tx] + v
B[bx * 32 + tx] = S[tx]
""",
}


@pytest.mark.parametrize("name", USUAL)
def test_each_barrier_is_needed(name):
    func = synchronized(kernel(USUAL[name]))
    assert not is_racy(func)
    count = barriers(func)
    assert count > 0
    for number in range(count):
        assert is_racy(func.replace(body=Without(number).visit(func.body))), f"barrier {number} is not needed"


@pytest.mark.parametrize("scope", ["shared", "warp"])
@given(st.randoms(use_true_random=False))
def test_random_kernels_do_not_race(scope, rng):
    before = from_source(thread_kernel(rng, scope))
    try:
        after = synchronized(before, scope)
    except IRValueError as error:
        assert "in the same statement" in str(error) and is_racy(before)
        assume(False)
    assert not is_racy(after)
    if not is_racy(before):
        arrays = [np.arange(16, dtype="float32"), np.zeros((2, 16), "float32")]
        found = []
        for func in (before, after):
            threads = int(func.buffer_map[func.params[0]].shape[0])
            output = np.zeros((2, threads), "float32")
            run(func, arrays[0][:threads], output)
            found.append(output)
        np.testing.assert_array_equal(*found)


# ---- refusals -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "for k in range(tx):\n    S[tx] = A[k]\n    B[tx] = S[31 - tx]",
            r"before 'B\[tx\] = S\[31 - tx\]', in loop k, which threads run",
        ),
        (
            "S[tx] = S[31 - tx]",
            r"'S\[tx\] = S\[31 - tx\]' reads what other threads write in the same statement",
        ),
        (
            "if tx < 16:\n    while S[0] < T.float32(4):\n        S[tx] = A[tx]",
            "run differently often|which runs where tx < 16 only",
        ),
        ('with T.launch_thread("vthread.x", 2) as v:\n    S[tx + v] = A[tx]', "virtual thread v is left"),
        (
            'with T.launch_thread("threadIdx.x", 16) as ty:\n    S[ty] = A[tx]',
            "threadIdx.x has extents 32 and 16 in one kernel",
        ),
    ],
)
def test_refused(body, message):
    with pytest.raises(IRValueError, match=message):
        synchronized(kernel(body))


def test_no_such_scope():
    with pytest.raises(IRValueError, match="no threads share memory of scope 'local'; there are shared"):
        ThreadSync("local")


def test_warps_of_unknown_blocks():
    n = tir.Var("n", "int32")
    func = kernel("S[tx] = A[tx]\nB[tx] = S[0]", scope="warp")
    launch = func.body.body
    unknown = launch.replace(value=n, node=launch.node.replace(dom=tir.Range(0, n)))
    func = func.replace(params=[*func.params, n], body=func.body.replace(body=unknown))
    with pytest.raises(IRValueError, match="number of threads is not constant"):
        synchronized(func, "warp")


MATRICES = """@T.prim_func
def main(C: T.Buffer((256,), "float32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.allocate([256], "float16", "shared")
    left = T.allocate([256], "float16", "warp")
    right = T.allocate([128], "float16", "warp")
    sums = T.allocate([128], "float32", "warp")
    T.evaluate(T.mma_fill("float32", 4, sums, tx * 4))
    for k in range(4):
        T.evaluate(T.ptx_ldmatrix("float16", False, 4, ".b16", left, tx * 8, S, tx * 8))
        T.evaluate(T.ptx_ldmatrix("float16", False, 2, ".b16", right, tx * 4, S, tx * 4))
        T.evaluate(T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", left, tx * 8, right, {read}, sums, tx * 4, False))
    T.evaluate(T.mma_store("float32", 16, 8, T.tvm_access_ptr(T.type_annotation("float32"), C.data, 0, 128, 2), sums, tx * 4, 8))
"""


@pytest.mark.parametrize(("read", "barriers"), [("tx * 4", 0), ("(tx + 1) % 32 * 4", 2)])
def test_lanes_do_not_wait_for_what_they_hold_themselves(read, barriers):
    """Registers that an instruction is given are the lane's own; those of another lane are waited for, in each iteration twice."""
    assert (
        str(synchronized(from_source(MATRICES.format(read=read)), "warp").script()).count("storage_sync")
        == barriers
    )

"""LowerWarpMemory: registers of each thread, shuffles between them, and all threads of a warp at each shuffle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir import IRModule, assert_structural_equal
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.error import IRValueError
from ir.script import from_source
from ir.target import Target
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.tir.transform import LowerWarpMemory, ThreadSync

KERNEL = """
@T.prim_func
def main(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    tx = T.launch_thread("threadIdx.x", {threads})
{body}
"""
WARP = 'w = T.allocate([{size}], "float32", "warp")\nW = T.Buffer(({size},), data=w, scope="warp")\n'
LOCAL = 'w = T.allocate([{size}], "float32", "local")\nW = T.Buffer(({size},), data=w, scope="local")\n'
SHUFFLE = "T.tvm_warp_shuffle(T.tvm_warp_activemask(), W[{place}], {lane}, 32, 32)"


def kernel(body, threads=64):
    """A kernel of one block around a body; ``sync`` stands for a barrier of the warp."""
    body = body.replace("sync\n", 'T.tvm_storage_sync("warp")\n')
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    return from_source(KERNEL.format(threads=threads, body=lines))


def lowered(func):
    return LowerWarpMemory()(IRModule({"main": func}))["main"]


def results(func):
    given_ = np.random.default_rng(0).integers(-8, 9, 512).astype("float32")
    found = np.zeros(512, "float32")
    run(func, given_, found)
    return found


def expect(before, after, size, count, threads=64):
    func = kernel(WARP.format(size=size) + before, threads)
    found = lowered(func)
    assert_structural_equal(found, kernel(LOCAL.format(size=count) + after, threads), True)
    np.testing.assert_array_equal(results(found), results(func))


def test_own_elements_are_registers():
    expect("W[tx % 32] = A[tx]\nB[tx] = W[tx % 32]", "W[0] = A[tx]\nB[tx] = W[0]", 32, 1)


def test_elements_of_others_come_by_shuffles():
    expect(
        "W[tx % 32] = A[tx]\nsync\nB[tx] = W[31 - tx % 32] + W[3]",
        f"""
W[0] = A[tx]
sync
first: T.float32 = {SHUFFLE.format(place=0, lane="31 - tx % 32")}
second: T.float32 = {SHUFFLE.format(place=0, lane=3)}
B[tx] = first + second
""",
        32,
        1,
    )


def test_several_in_a_row_and_several_rounds():
    expect(
        """
for i in range(4):
    W[i // 2 * 64 + tx % 32 * 2 + i % 2] = A[tx * 4 + i]
sync
for k in range(128):
    B[tx] = B[tx] + W[k]
""",
        f"""
for i in range(4):
    W[i] = A[tx * 4 + i]
sync
for k in range(128):
    other: T.float32 = {SHUFFLE.format(place="k // 64 * 2 + k % 2", lane="k // 2 % 32")}
    B[tx] = B[tx] + other
""",
        128,
        4,
    )


def test_vectors_of_neighbours():
    expect(
        "W[T.Ramp(tx % 32 * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]\nB[T.Ramp(tx * 4 , 1, 2)] = W[T.Ramp(tx % 32 * 4 + 2, 1, 2)]",
        "W[T.Ramp(0, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]\nB[T.Ramp(tx * 4 , 1, 2)] = W[T.Ramp(2, 1, 2)]",
        128,
        4,
    )


def test_fewer_threads_than_a_warp_has():
    expect(
        "W[tx] = A[tx]\nsync\nB[tx] = W[7 - tx]",
        f"W[0] = A[tx]\nsync\nother: T.float32 = {SHUFFLE.format(place=0, lane='7 - tx')}\nB[tx] = other",
        8,
        1,
        threads=8,
    )


def test_all_threads_take_part_before_a_condition():
    expect(
        """
W[tx % 32] = A[tx]
sync
if tx < 5:
    B[tx] = W[tx % 32 + 1]
    B[tx + 64] = T.if_then_else(tx < 3, W[31 - tx % 32], T.float32(0))
""",
        f"""
W[0] = A[tx]
sync
first: T.float32 = {SHUFFLE.format(place=0, lane="(tx + 1) % 32")}
second: T.float32 = {SHUFFLE.format(place=0, lane="31 - tx")}
if tx < 5:
    B[tx] = first
    B[tx + 64] = T.if_then_else(tx < 3, second, T.float32(0))
""",
        32,
        1,
        threads=32,
    )


def test_what_some_threads_write_is_something_in_all():
    """All of them give a register, though nobody looks at what those give that did not write it."""
    func = kernel(
        WARP.format(size=32) + "if tx % 2 == 0:\n    W[tx % 32] = A[tx]\nsync\nB[tx] = W[tx % 32 // 2 * 2]"
    )
    found = lowered(func)
    assert "for i in T.unroll(1):" in found.script()
    np.testing.assert_array_equal(results(found), results(func))


def test_conditions_and_lets_read_others():
    body = """
W[tx % 32] = A[tx]
sync
if W[0] < T.float32(3):
    x = W[1] + W[tx % 32]
    B[tx] = x
for k in range(T.Cast("int32", W[2] * T.float32(0)) + 2):
    B[tx] = B[tx] + W[k]
"""
    func = kernel(WARP.format(size=32) + body)
    found = lowered(func)
    assert found.script().count("tvm_warp_shuffle(") == 4
    np.testing.assert_array_equal(results(found), results(func))


def test_threads_over_two_axes():
    """Lanes count along x first."""
    source = """
@T.prim_func
def main(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    tx = T.launch_thread("threadIdx.x", 8)
    ty = T.launch_thread("threadIdx.y", 8)
    w = T.allocate([32], "float32", "warp")
    W = T.Buffer((32,), data=w, scope="warp")
    W[ty % 4 * 8 + tx] = A[ty * 8 + tx]
    T.tvm_storage_sync("warp")
    B[ty * 8 + tx] = W[ty % 4 * 8 + 7 - tx]
"""
    func = from_source(source)
    found = lowered(func)
    assert 'T.allocate([1], "float32", "local")' in found.script()
    np.testing.assert_array_equal(results(found), results(func))


def test_matrices_of_a_warp():
    """Their instructions get the thread's registers, or those of all threads from the first one's on."""
    body = """
h = T.allocate([512], "float16", "warp")
c = T.allocate([256], "float32", "warp")
s = T.allocate([256], "float16", "shared")
T.evaluate(T.mma_fill("float32", 8, c, 0))
T.evaluate(T.ptx_ldmatrix("float16", 0, 4, ".b16", h, 256 + tx * 8, s, tx * 8))
T.evaluate(T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", h, 256 + tx * 8, h, 256 + tx * 8 + 4, c, tx * 8, False))
T.evaluate(T.mma_store("float32", 16, 16, B.data, c, 0, 16))
"""
    found = lowered(kernel(body, 32))
    expected = kernel(
        """
h = T.allocate([16], "float16", "local")
c = T.allocate([8], "float32", "local")
s = T.allocate([256], "float16", "shared")
T.evaluate(T.mma_fill("float32", 8, c, 0))
T.evaluate(T.ptx_ldmatrix("float16", 0, 4, ".b16", h, 8, s, tx * 8))
T.evaluate(T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", h, 8, h, 12, c, 0, False))
T.evaluate(T.mma_store("float32", 16, 16, B.data, c, 0, 16))
""",
        32,
    )
    assert_structural_equal(found, expected, True)


def test_nothing_of_a_warp_stays_as_it_is():
    func = kernel("B[tx] = A[tx]")
    assert lowered(func) is func


@pytest.mark.parametrize(
    ("size", "body", "message"),
    [
        (
            32,
            "W[0] = A[tx]",
            "does not say which thread has which element of w, of a warp: an index is a number times the lane",
        ),
        (32, "W[31 - tx % 32] = A[tx]", "does not say which thread has which element"),
        (32, "W[tx % 32 // 2] = A[tx]", "does not say which thread has which element"),
        (
            64,
            "W[tx % 32] = A[tx]\nW[tx % 32 * 2] = A[tx]",
            r"'W\[tx % 32 \* 2\] = A\[tx\]' does not say .*, and 1 elsewhere",
        ),
        (33, "W[tx % 32] = A[tx]", "has 33 elements, of which 32 threads cannot have 1 in a row each"),
        (64, "W[tx % 32 + 1] = A[tx]", "W in .* is written by threads that do not have the element"),
        (32, "B[tx] = W[tx % 32]", "no write to w, of a warp, says which thread has which element"),
        (
            64,
            "W[tx % 32 * 2] = A[tx]\nB[tx] = W[tx % 32 + 1]",
            "is, for different threads, at different places",
        ),
        (
            128,
            "W[tx % 32 * 4] = A[tx]\nB[T.Ramp(0, 1, 2)] = W[T.Ramp(4, 1, 2)]",
            "is a vector that another thread may have",
        ),
        (
            128,
            "W[tx % 32 * 4] = A[tx]\nB[T.Ramp(tx * 2, 1, 2)] = W[T.Ramp(tx % 32 * 4 + 3, 1, 2)]",
            "is a vector of which not all elements are surely of one thread",
        ),
        (
            32,
            "W[tx % 32] = A[tx]\nif tx < 3:\n    for k in range(4):\n        B[tx] = W[k]",
            "is read by a part of the threads, at an index that is not known before",
        ),
        (
            32,
            "W[tx % 32] = A[tx]\nif tx < 3:\n    W[tx % 32] = A[tx]\n    B[tx] = W[0]",
            "in a statement that writes such memory as well",
        ),
        (
            64,
            "for i in range(2):\n    W[i * 32 + tx % 32] = A[tx]\n"
            "for j in range(9):\n    B[tx] = T.if_then_else(j < 2 and tx > 3, W[j * 32], T.float32(0))",
            "and lies elsewhere for the others",
        ),
        (
            32,
            "W[tx % 32] = A[tx]\nwhile W[0] < T.float32(0):\n    B[tx] = A[tx]",
            "read it in the body, into a register",
        ),
        (
            32,
            'W[tx % 32] = A[tx]\nT.evaluate(T.call_extern("int32", "f", w))',
            "the address of w, of a warp, is given to a call",
        ),
        (
            32,
            'W[tx % 32] = A[tx]\nT.evaluate(T.call_extern("int32", "f", T.address_of(W[0])))',
            "is another thread's, and has no address",
        ),
        (
            32,
            'W[tx % 32] = A[tx]\nH = T.Buffer((64,), "float16", data=w, scope="warp")\nB[tx] = T.Cast("float32", H[tx % 32])',
            "its threads have whole elements",
        ),
    ],
)
def test_refused(size, body, message):
    with pytest.raises(IRValueError, match=message):
        lowered(kernel(WARP.format(size=size) + body))


def test_more_than_one_dimension_is_refused():
    body = 'w = T.allocate([2, 32], "float32", "warp")\nW = T.Buffer((2, 32), data=w, scope="warp")\nW[0, tx % 32] = A[tx]'
    with pytest.raises(IRValueError, match="it needs one constant extent, which FlattenBuffer gives it"):
        lowered(kernel(body))


# ---- random programs -----------------------------------------------------------------------------------------------------------


def random_body(rng, width, rounds):
    """Each thread writes what it has; reads go anywhere, also under conditions."""
    lines = [
        f"for i in range({rounds * width}):",
        f"    W[i // {width} * {32 * width} + lane * {width} + i % {width}] = A[tx + i]",
    ]

    def index(loops):
        choices = ["lane", "(lane + {}) % 32", "31 - lane", "{}", "lane // 4 * 4 + {} % 4", *loops]
        lane = rng.choice(choices if rounds > 1 else [*choices, "T.bitwise_xor(lane, {})"])
        lane = lane.format(rng.randrange(32))
        return f"{rng.randrange(rounds)} * {32 * width} + ({lane}) * {width} + {rng.randrange(width)}"

    def block(indent, loops, may_differ):
        pad = "    " * indent
        for _ in range(rng.choice([1, 2, 3])):
            kind = rng.random()
            if kind < 0.4:
                lines.append(f"{pad}B[tx] = B[tx] + W[{index(loops)}]")
            elif kind < 0.55 and not may_differ:
                place = f"{rng.randrange(rounds)} * {32 * width} + lane * {width} + {rng.randrange(width)}"
                lines.append(f"{pad}W[{place}] = A[tx + {rng.randrange(9)}] + T.float32(1)")
            elif kind < 0.65:
                lines.append(
                    f"{pad}B[tx] = B[tx] + T.if_then_else(tx < {rng.randrange(64)}, W[{index(loops)}], T.float32(2))"
                )
            elif kind < 0.8 and not may_differ:
                name = f"k{len(lines)}"
                lines.append(f"{pad}for {name} in range({rng.randrange(1, 4)}):")
                block(indent + 1, [*loops, name], may_differ)
            else:
                condition = rng.choice([f"tx < {rng.randrange(64)}", "tx % 2 == 0", "lane < 7"])
                lines.append(f"{pad}if {condition}:")
                block(indent + 1, loops, True)

    block(0, [], False)
    return "\n".join(lines).replace("lane", "(tx % 32)")


@given(st.randoms(use_true_random=False), st.sampled_from([1, 2, 4]), st.integers(1, 2))
def test_random_programs_compute_the_same(rng, width, rounds):
    func = kernel(WARP.format(size=32 * width * rounds) + random_body(rng, width, rounds))
    before = ThreadSync("warp")(IRModule({"main": func}))["main"]
    np.testing.assert_array_equal(results(lowered(before)), results(before))


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
def test_as_cuda():
    body = """
for i in range(2):
    W[tx % 32 * 2 + i] = A[tx + i]
sync
for k in range(64):
    B[tx] = B[tx] + W[63 - k] * T.Cast("float32", k)
"""
    func = kernel(WARP.format(size=64) + body)
    code = lower(lowered(func), Target("nvidia/nvidia-a100"))
    program = EmulatedProgram(code, generate(code))
    given_ = np.random.default_rng(0).integers(-8, 9, 512).astype("float32")
    found = np.zeros(512, "float32")
    program(given_, found, name="main")
    np.testing.assert_array_equal(found, results(func))

"""Calls by which threads exchange values: shuffles, masks of warps, reductions that they share, atomic additions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import tir
from ir.tir.interpreter import InterpreterError, run
from tests.semantics.running import script

from .test_threads import PAIR, Backwards, arrays, refused

FULL = "T.uint32(0xFFFFFFFF)"


def kernel(*lines: str, threads: int = 64) -> tir.PrimFunc:
    return script(PAIR, f'tx = T.launch_thread("threadIdx.x", {threads})', *lines)


# ---- shuffles ----------------------------------------------------------------------------------------------------


def _expected(form: str, values: np.ndarray, operand: int, width: int) -> np.ndarray:
    """What each lane gets, by the words of the CUDA programming guide."""
    found = values.copy()
    for lane in range(32):
        segment = lane // width
        if form == "":
            source = segment * width + operand % width
        elif form == "_up":
            source = lane - operand if lane - operand >= segment * width else lane
        elif form == "_down":
            source = lane + operand if lane + operand < (segment + 1) * width else lane
        else:
            source = lane ^ operand
            source = source if source // width <= segment else lane
        found[lane] = values[source]
    return found


@pytest.mark.meaning("warp-shuffle")
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["", "_up", "_down", "_xor"]), st.integers(0, 31), st.sampled_from([1, 2, 4, 8, 16, 32])
)
def test_shuffles(form: str, operand: int, width: int) -> None:
    a, b = arrays()
    a = a * 7 + 3
    run(kernel(f"B[tx] = T.tvm_warp_shuffle{form}({FULL}, A[tx], {operand}, {width}, 32)"), a, b)
    for warp in (slice(0, 32), slice(32, 64)):
        assert (b[warp] == _expected(form, a[warp], operand, width)).all()


@pytest.mark.meaning("warp-shuffle")
def test_a_lane_of_its_own_and_a_position_behind_the_width() -> None:
    a, b = arrays()
    run(kernel(f"B[tx] = T.tvm_warp_shuffle({FULL}, A[tx], A[tx] * 3 + 40, 8, 32)"), a, b)
    assert (b == a // 8 * 8 + (a * 3 + 40) % 8).all()


@pytest.mark.meaning("warp-shuffle")
def test_a_warp_sums_up() -> None:
    lines = ["x0 = A[tx]"]
    for step, offset in enumerate((16, 8, 4, 2, 1)):
        lines.append(f"x{step + 1} = x{step} + T.tvm_warp_shuffle_xor({FULL}, x{step}, {offset}, 32, 32)")
    for machine in (None, Backwards()):
        a, b = arrays()
        program = kernel(*lines, "B[tx] = x5")
        run(program, a, b) if machine is None else machine.call(program, [a, b])
        assert (b == a.reshape(2, 32).sum(1).repeat(32)).all()


@pytest.mark.meaning("warp-shuffle")
def test_threads_of_a_warp_count_along_x_first() -> None:
    program = script(
        PAIR,
        'ty = T.launch_thread("threadIdx.y", 4)',
        'tx = T.launch_thread("threadIdx.x", 12)',
        f"B[ty * 12 + tx] = T.tvm_warp_shuffle(T.if_then_else(ty * 12 + tx < 32, {FULL}, T.uint32(0xFFFF)), A[ty * 12 + tx], 3, 32, 32)",
    )
    a, b = arrays()
    run(program, a, b)
    assert (b[:32] == 3).all() and (b[32:48] == 35).all()


@pytest.mark.meaning("warp-shuffle")
def test_a_warp_of_which_threads_have_ended() -> None:
    """They need not come, whether the mask names them or not; who reads them is refused."""
    a, b = arrays()
    lines = ("if tx % 2 == 0:", f"    B[tx] = T.tvm_warp_shuffle_down({FULL}, A[tx], {{}}, 32, 32)")
    run(kernel(*[line.format(2) for line in lines]), a, b)
    even = np.arange(0, 64, 2)
    assert (b[even] == np.where(even % 32 < 30, even + 2, even)).all() and (b[1::2] == -1).all()
    refused(
        kernel(*[line.format(1) for line in lines]),
        (a, b),
        "warp-shuffle",
        "lane 0 reads lane 1, which is not there",
    )


@pytest.mark.meaning("warp-shuffle")
def test_the_last_warp_may_have_fewer_threads() -> None:
    a, b = arrays()
    run(kernel(f"B[tx] = T.tvm_warp_shuffle_up({FULL}, A[tx], 3, 32, 32)", threads=41), a, b)
    assert b[:41].tolist() == [*range(3), *range(29), 32, 33, 34, *range(32, 38)]
    program = kernel(f"B[tx] = T.tvm_warp_shuffle_down({FULL}, A[tx], 3, 32, 32)", threads=41)
    refused(program, arrays(), "warp-shuffle", "lane 6 reads lane 9, which is not there", "for tx = 38")


@pytest.mark.meaning("warp-shuffle")
def test_halves_of_a_warp_may_shuffle_apart() -> None:
    program = kernel(
        "if tx < 16:",
        "    B[tx] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFF), A[tx], 1, 32, 32)",
        "else:",
        "    B[tx] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFF0000), A[tx], 2, 32, 32)",
        threads=32,
    )
    a, b = arrays()
    run(program, a, b)
    assert (b[:16] == a[:16] ^ 1).all() and (b[16:32] == a[16:32] ^ 2).all()


@pytest.mark.meaning("warp-shuffle")
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("B[tx] = T.tvm_warp_shuffle(T.uint32(255), A[tx], 0, 32, 32)",), "lane 8 is not in its own mask, 0xff"),
        ((f"B[tx] = T.tvm_warp_shuffle({FULL}, A[tx], 0, 24, 32)",), "the width is 24"),
        ((f"B[tx] = T.tvm_warp_shuffle({FULL}, A[tx], 0, 64, 32)",), "the width is 64"),
        ((f"B[tx] = T.tvm_warp_shuffle({FULL}, A[tx], 0, 32, 64)",), "a warp has 32 threads here, not 64"),
        ((f"B[tx] = T.tvm_warp_shuffle_down({FULL}, A[tx], -1, 32, 32)",), "the offset is -1"),
        ((f"B[tx] = T.tvm_warp_shuffle_xor({FULL}, A[tx], 32, 32, 32)",), "the offset is 32"),
        (
            ("mask = T.if_then_else(tx < 9, T.uint32(0x1FF), T.uint32(0xFFFFFFFF))", "B[tx] = T.tvm_warp_shuffle(mask, A[tx], 0, 32, 32)"),
            "lane 9 reads lane 0, which is not there",
        ),
        (
            ("mask = T.if_then_else(tx < 9, T.uint32(0x3FF), T.uint32(0xFFFFFFFF))", "B[tx] = T.tvm_warp_shuffle(mask, A[tx], 0, 32, 32)"),
            "(threadIdx.x = 9) waits there for other threads",
        ),
        (
            ("if tx == 5:", '    T.tvm_storage_sync("shared")', f"B[tx] = T.tvm_warp_shuffle({FULL}, A[tx], 0, 32, 32)"),
            "waits at meeting point",
        ),
    ],
)  # fmt: skip
def test_shuffles_without_a_meaning(lines: Sequence[str], told: str) -> None:
    with pytest.raises(InterpreterError) as caught:
        run(kernel(*lines), *arrays())
    assert caught.value.rule in ("warp-shuffle", "thread-barrier") and told in str(caught.value)


@pytest.mark.meaning("warp-shuffle", "thread-race")
def test_a_shuffle_orders_no_memory() -> None:
    program = kernel(
        "B[tx] = A[tx]",
        f"x = T.tvm_warp_shuffle({FULL}, A[tx], 0, 32, 32)",
        "A[tx] = B[T.bitwise_xor(tx, 1)] + x",
    )
    refused(program, arrays(), "thread-race")


@pytest.mark.meaning("warp-shuffle")
def test_the_threads_that_come_together() -> None:
    program = kernel(
        "if tx % 4 == 0:",
        "    B[tx] = T.tvm_warp_activemask()",
        'T.tvm_storage_sync("shared")',
        "if tx % 4 == 1:",
        "    B[tx] = T.tvm_warp_activemask()",
        threads=40,
    )
    a, b = arrays()
    run(program, a, b)
    assert (b[0:32:4] == 0x11111111).all() and (b[1:32:4] == 0x22222222).all()
    assert b[32:40].tolist() == [0x11, 0x22, -1, -1, 0x11, 0x22, -1, -1]


def test_shuffles_and_masks_are_of_threads() -> None:
    for call in (f"T.tvm_warp_shuffle({FULL}, A[0], 0, 32, 32)", "T.tvm_warp_activemask()"):
        with pytest.raises(InterpreterError, match="has a meaning in threads only"):
            run(script(PAIR, f"B[0] = {call}"), *arrays())


# ---- reductions --------------------------------------------------------------------------------------------------

SUM = 'T.attr(T.comm_reducer(lambda x, y: x + y, [T.int32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0)))'
GRID = (
    'bx = T.launch_thread("blockIdx.x", 2)',
    'ty = T.launch_thread("threadIdx.y", 4)',
    'tx = T.launch_thread("threadIdx.x", 8)',
    'r = T.allocate([1], "int32", "local")',
    'R = T.Buffer((1,), "int32", data=r, scope="local")',
    "here = bx * 32 + ty * 8 + tx",
)


@pytest.mark.meaning("thread-allreduce")
@pytest.mark.parametrize("result", ["R[0]", "r"])
@pytest.mark.parametrize(
    ("axes", "summed"), [("tx", (2,)), ("ty", (1,)), ("tx, ty", (1, 2)), ("ty, T.int32(0)", (1,))]
)
def test_threads_combine(result: str, axes: str, summed: tuple[int, ...]) -> None:
    program = script(
        PAIR,
        *GRID,
        f"with {SUM}:",
        f"    T.tvm_thread_allreduce(T.uint32(1), A[here], here % 3 != 0, {result}, {axes})",
        "B[here] = R[0]",
    )
    values = np.where(np.arange(64) % 3 != 0, np.arange(64), 0).reshape(2, 4, 8)
    expected = np.broadcast_to(values.sum(summed, keepdims=True), values.shape)
    for machine in (None, Backwards()):
        a, b = arrays()
        run(program, a, b) if machine is None else machine.call(program, [a, b])
        assert (b == expected.ravel()).all()


@pytest.mark.meaning("thread-allreduce")
def test_threads_combine_pairs() -> None:
    """The greatest with its place; over no elements the identities."""
    combiner = (
        "T.comm_reducer(lambda v0, i0, v1, i1: (T.max(v0, v1), T.if_then_else(v0 > v1 or v0 == v1 and i0 < i1, i0, i1)),"
        " [T.int32(-99), T.int32(-1)])"
    )
    program = script(
        {**PAIR, "C": ((64,), "int32")},
        *GRID,
        'p = T.allocate([1], "int32", "local")',
        'P = T.Buffer((1,), "int32", data=p, scope="local")',
        f'with T.attr({combiner}, "reduce_scope", T.reinterpret("handle", T.uint64(0))):',
        "    T.tvm_thread_allreduce(T.uint32(2), A[here], tx, T.tvm_thread_invariant(ty < 3), R[0], P[0], tx)",
        "B[here] = R[0]",
        "C[here] = P[0]",
    )
    a = np.random.default_rng(0).integers(0, 5, 64).astype("int32")
    b, c = np.zeros(64, "int32"), np.zeros(64, "int32")
    run(program, a, b, c)
    rows = a.reshape(8, 8)
    alive = np.arange(8) % 4 < 3
    assert (b.reshape(8, 8) == np.where(alive, rows.max(1), -99)[:, None]).all()
    assert (c.reshape(8, 8) == np.where(alive, rows.argmax(1), -1)[:, None]).all()


@pytest.mark.meaning("thread-allreduce")
def test_all_threads_of_a_reduction_come_to_it() -> None:
    call = "T.tvm_thread_allreduce(T.uint32(1), A[here], True, R[0], tx)"
    program = script(PAIR, *GRID, "if tx < 7:", f"    with {SUM}:", f"        {call}")
    refused(
        program,
        arrays(),
        "thread-barrier",
        "(threadIdx.x = 7, threadIdx.y = 0) has ended",
    )
    other_rows = script(
        PAIR, *GRID, "R[0] = 0", "if ty < 2:", f"    with {SUM}:", f"        {call}", "B[here] = R[0]"
    )
    a, b = arrays()
    run(other_rows, a, b)
    assert b.reshape(2, 4, 8)[:, 2:].sum() == 0 and b[0] == 28


def test_reductions_of_another_form_are_refused() -> None:
    for axis in ("bx", "here"):
        call = f"T.tvm_thread_allreduce(T.uint32(1), A[here], True, R[0], {axis})"
        with pytest.raises(InterpreterError, match=f"along {axis}, which is no axis of threads of a block"):
            run(script(PAIR, *GRID, f"with {SUM}:", f"    {call}"), *arrays())
    with pytest.raises(InterpreterError, match="stands in no attribute 'reduce_scope'"):
        run(script(PAIR, *GRID, "T.tvm_thread_allreduce(T.uint32(1), A[here], True, R[0], tx)"), *arrays())


# ---- atomic additions --------------------------------------------------------------------------------------------


@pytest.mark.meaning("atomic")
def test_atomic_additions_of_all_threads() -> None:
    program = script(
        PAIR,
        'bx = T.launch_thread("blockIdx.x", 4)',
        's = T.allocate([1], "int32", "shared")',
        'S = T.Buffer((1,), "int32", data=s, scope="shared")',
        'tx = T.launch_thread("threadIdx.x", 16)',
        "if tx == 0:",
        "    S[0] = 0",
        'T.tvm_storage_sync("shared")',
        'T.evaluate(T.atomic_add("int32", T.address_of(S[0]), A[bx * 16 + tx]))',
        'T.tvm_storage_sync("shared")',
        "if tx == 0:",
        '    T.evaluate(T.atomic_add("int32", T.address_of(B[0]), S[0]))',
    )
    a, b = arrays()
    run(program, a, b)
    assert b[0] == a.sum() - 1


@pytest.mark.meaning("atomic", "thread-race")
@pytest.mark.parametrize(
    "other", ["A[tx] = B[0]", "if tx == 3:\n        B[0] = 1", "if tx == 0:\n        B[0] = 1"]
)
def test_an_atomic_addition_beside_other_accesses(other: str) -> None:
    program = kernel('T.evaluate(T.atomic_add("int32", T.address_of(B[0]), 1))', other)
    refused(program, arrays(), "thread-race", "B[0]", "atomically updates")


@pytest.mark.meaning("atomic", "thread-race")
def test_an_atomic_addition_beside_accesses_of_another_block() -> None:
    program = script(
        PAIR,
        'bx = T.launch_thread("blockIdx.x", 2)',
        "if bx == 0:",
        '    T.evaluate(T.atomic_add("int32", T.address_of(B[0]), 1))',
        "else:",
        "    A[0] = B[0]",
    )
    refused(
        program,
        arrays(),
        "thread-race",
        "block (blockIdx.x = 1) reads",
        "block (blockIdx.x = 0) atomically updates",
    )

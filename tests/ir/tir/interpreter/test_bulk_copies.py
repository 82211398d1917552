"""Barriers with transactions and bulk copies: what arrives where threads wait for it, and what is refused where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from ir import tir
from ir.tir.interpreter import run
from tests.semantics.running import script

from .test_threads import SYNC, refused

PAIR = {"A": ((16, 64), "float16"), "B": ((1024,), "float16")}
FIRST = "if tx == 0:"


def evaluated(call: str) -> str:
    return f"T.evaluate(T.{call})"


def kernel(*lines: str, count: int = 1) -> tir.PrimFunc:
    """Lines of a kernel of eight threads, with barriers for one arrival each."""
    made = [f"    {evaluated(f'ptx_init_barrier_thread_count({number}, 1)')}" for number in range(count)]
    return script(
        PAIR,
        'tx = T.launch_thread("threadIdx.x", 8)',
        's = T.allocate([1024], "float16", "shared")',
        'S = T.Buffer((1024,), "float16", data=s, scope="shared")',
        evaluated(f"create_barriers({count})"),
        FIRST,
        *made,
        SYNC,
        *lines,
    )


def box(to: int, i: str, j: str, barrier: int = 0) -> str:
    return evaluated(f'ptx_cp_async_bulk_tensor("float16", s, {to}, m, {barrier}, {i}, {j})')


def plain(to: str, source: str) -> str:
    return evaluated(f'ptx_cp_async_bulk("float16", s, {to}, A.data, {source}, 64, 0)')


def mapped(swizzle: int, rows: int, columns: int) -> str:
    encode = f'T.tensor_map_encode_tiled(A.data, "float16", {swizzle}, 16, 64, 64, 1, {rows}, {columns})'
    return f'm: T.handle("uint8", "tensor_map") = {encode}'


ALL = ("for i in range(128):", "    B[i * 8 + tx] = S[i * 8 + tx]")


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(1024).astype("float16").reshape(16, 64), np.full(1024, -1, "float16")


@pytest.mark.meaning("bulk-copy")
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_a_box_arrives_swizzled(swizzle: int) -> None:
    columns = (swizzle or 128) // 2
    size = 16 * columns
    program = kernel(
        mapped(swizzle, 16, columns),
        FIRST,
        f"    {evaluated(f'ptx_arrive_barrier_expect_tx(0, {2 * size})')}",
        f"    {box(0, '0', '0')}",
        evaluated("ptx_wait_barrier(0, 0)"),
        f"for i in range({size // 8}):",
        "    B[i * 8 + tx] = S[i * 8 + tx]",
    )
    a, b = arrays()
    run(program, a, b)
    for row in range(16):
        for piece in range(columns // 8):
            place = row * columns * 2 + piece * 16
            crossed = {0: 0, 32: place >> 7 & 1, 64: place >> 7 & 3, 128: place >> 7 & 7}[swizzle]
            to = (place ^ crossed << 4) // 2
            assert (b[to : to + 8] == a[row, piece * 8 : piece * 8 + 8]).all()


@pytest.mark.meaning("bulk-copy")
def test_what_is_outside_of_a_tensor_is_zero() -> None:
    a, b = arrays()
    program = kernel(
        mapped(0, 16, 64),
        FIRST,
        f"    {evaluated('ptx_arrive_barrier_expect_tx(0, 2048)')}",
        f"    {box(0, '-2', '8')}",
        evaluated("ptx_wait_barrier(0, 0)"),
        *ALL,
    )
    run(program, a, b)
    expected = np.zeros((16, 64), "float16")
    expected[2:, :56] = a[:14, 8:]
    assert (b.reshape(16, 64) == expected).all()


@pytest.mark.meaning("transaction-barrier")
def test_phases_alternate() -> None:
    """Two copies to one place, one in each phase: threads see the first one before the second one begins."""
    program = kernel(
        "for k in range(4):",
        f"    {FIRST}",
        f"        {evaluated('ptx_arrive_barrier_expect_tx(0, 64)')}",
        f"        {plain('0', 'k * 64')}",
        f"    {evaluated('ptx_wait_barrier(0, k % 2)')}",
        "    for i in range(4):",
        "        B[k * 32 + i * 8 + tx] = S[i * 8 + tx]",
        f"    {SYNC}",
    )
    a, b = arrays()
    run(program, a, b)
    assert (b[:128].reshape(4, 32) == a[:4, :32]).all() and (b[128:] == -1).all()


ARRIVE = f"    {evaluated('ptx_arrive_barrier_expect_tx(0, 2048)')}"
COPY = f"    {box(0, '0', '0')}"
WAIT = evaluated("ptx_wait_barrier(0, 0)")


@pytest.mark.meaning("transaction-barrier", "bulk-copy")
@pytest.mark.parametrize(
    ("lines", "rule", "told"),
    [
        ((mapped(0, 16, 64), FIRST, ARRIVE, COPY, *ALL), "unwritten", "which nobody wrote"),
        (
            (mapped(0, 16, 64), FIRST, ARRIVE, COPY, evaluated("ptx_wait_barrier(0, 1)"), *ALL),
            "unwritten",
            "which nobody wrote",
        ),
        ((FIRST, ARRIVE, WAIT), "transaction-barrier", "for what does not come"),
        (
            (mapped(0, 16, 64), FIRST, ARRIVE.replace("2048", "2064"), COPY, WAIT),
            "transaction-barrier",
            "for what does not come",
        ),
        (
            (FIRST, f"    {evaluated('ptx_arrive_barrier(3)')}"),
            "transaction-barrier",
            "there is no barrier 3",
        ),
        ((FIRST, ARRIVE, ARRIVE), "transaction-barrier", "more often than the 1 times"),
        (
            (FIRST, f"    {evaluated('ptx_init_barrier_thread_count(0, 1)')}"),
            "transaction-barrier",
            "made twice",
        ),
        ((mapped(0, 16, 64), FIRST, ARRIVE, f"    {box(8, '0', '0')}"), "bulk-copy", "no multiple of 128"),
        ((mapped(128, 8, 64), FIRST, ARRIVE, f"    {box(64, '0', '0')}"), "bulk-copy", "no multiple of 1024"),
        ((mapped(32, 16, 64), "B[tx] = A[tx, 0]"), "bulk-copy", "no more than the swizzle"),
        ((mapped(0, 16, 4), "B[tx] = A[tx, 0]"), "bulk-copy", "a multiple of 16 bytes"),
        ((mapped(0, 300, 64), "B[tx] = A[tx, 0]"), "bulk-copy", "1 to 256"),
        ((FIRST, ARRIVE, f"    {plain('4', '0')}"), "bulk-copy", "multiples of 16"),
        ((mapped(0, 16, 64), FIRST, ARRIVE, f"    {box(128, '0', '0')}"), "bounds", "outside of the memory"),
    ],
)
def test_refusals(lines: tuple[str, ...], rule: str, told: str) -> None:
    refused(kernel(*lines), arrays(), rule, told)


@pytest.mark.meaning("transaction-barrier")
def test_barriers_are_made_before_they_are_used() -> None:
    program = script(
        PAIR,
        'tx = T.launch_thread("threadIdx.x", 1)',
        evaluated("create_barriers(1)"),
        evaluated("ptx_arrive_barrier(0)"),
    )
    refused(program, arrays(), "transaction-barrier", "has not run")

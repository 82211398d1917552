"""Products of warp groups: sums where the PTX ISA has them, of operands as descriptors tell, and refusals of what is not waited for."""

from __future__ import annotations

import numpy as np
import pytest

from ir import tir
from ir.tir.interpreter import run
from tests.semantics.running import script

from .test_threads import SYNC, refused

PARAMETERS = {"A": ((64, 16), "float16"), "B": ((8, 16), "float16"), "C": ((128, 4), "float32")}
SHARED = (
    'tx = T.launch_thread("threadIdx.x", 128)',
    's = T.allocate([1024], "float16", "shared")',
    'S = T.Buffer((1024,), "float16", data=s, scope="shared")',
    't = T.allocate([128], "float16", "shared")',
    'R = T.Buffer((128,), "float16", data=t, scope="shared")',
    'd = T.allocate([4], "float32", "local")',
    'D = T.Buffer((4,), "float32", data=d, scope="local")',
    # rows of 32 bytes, whose two pieces change places in rows 4 to 7 of 8
    "for i in range(8):",
    "    S[tx // 2 * 16 + (tx % 2 + tx // 8) % 2 * 8 + i] = A[tx // 2, tx % 2 * 8 + i]",
    "R[tx // 16 * 16 + (tx % 16 // 8 + tx // 64) % 2 * 8 + tx % 8] = B[tx // 16, tx % 16]",
)
FENCE, COMMIT = "T.evaluate(T.ptx_wgmma_fence())", "T.evaluate(T.ptx_wgmma_commit_group())"
OUT = ("for i in range(4):", "    C[tx, i] = D[i]")


def wait(count: int) -> str:
    return f"T.evaluate(T.ptx_wgmma_wait_group({count}))"


def product(keeps: str = "T.bool(False)") -> str:
    layout = "32, 16, 256, 16, 256"
    types = '"float16", "float16", "float32"'
    call = f'T.ptx_wgmma_mma_async("float32", "m64n8k16", "row", "col", {types}, s, 0, t, 0, d, 0, {keeps}, {layout})'
    return f"T.evaluate({call})"


def kernel(*lines: str) -> tir.PrimFunc:
    return script(PARAMETERS, *SHARED, SYNC, *lines)


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-8, 8, (64, 16)).astype("float16"), rng.integers(-8, 8, (8, 16)).astype("float16")
    return [a, b, np.zeros((128, 4), "float32")]


def in_registers(whole: np.ndarray) -> np.ndarray:
    """The sums of each thread, by the table of the PTX ISA for wgmma's matrix D."""
    found = np.zeros((128, 4), whole.dtype)
    for thread in range(128):
        warp, group, in_group = thread // 32, thread % 32 // 4, thread % 4
        row = 16 * warp + group
        for i, (down, right) in enumerate([(0, 0), (0, 1), (8, 0), (8, 1)]):
            found[thread, i] = whole[row + down, 2 * in_group + right]
    return found


@pytest.mark.meaning("warp-group")
@pytest.mark.parametrize("count", [1, 2])
def test_a_product_is_there_behind_its_wait(count: int) -> None:
    a, b, c = arrays()
    more = [product("T.bool(True)"), COMMIT] * (count - 1)
    run(kernel(FENCE, product(), COMMIT, *more, wait(0), *OUT), a, b, c)
    assert (c == count * in_registers(a.astype("float32") @ b.astype("float32").T)).all()


@pytest.mark.meaning("warp-group")
@pytest.mark.parametrize(
    ("lines", "rule", "told"),
    [
        ((product(), COMMIT, wait(0), *OUT), "warp-group", "no ptx_wgmma_fence"),
        ((FENCE, product(), COMMIT, *OUT), "unwritten", "D"),
        ((FENCE, product(), COMMIT, wait(1), *OUT), "unwritten", "D"),
        ((FENCE, product(), wait(0), *OUT), "unwritten", "D"),  # it is of no group
        ((FENCE, product("T.bool(True)"), COMMIT, wait(0), *OUT), "unwritten", "sums"),
        ((FENCE, product(), COMMIT, wait(0), product(), COMMIT, wait(0)), "warp-group", "no ptx_wgmma_fence"),
        (("if tx < 7:", f"    {FENCE}"), "thread-barrier", "has ended"),
    ],
)
def test_refusals(lines: tuple[str, ...], rule: str, told: str) -> None:
    refused(kernel(*lines), arrays(), rule, told)


@pytest.mark.meaning("warp-group")
def test_operands_are_copied_before_they_are_read() -> None:
    """One thread of each warp waits for a copy, the others read what it brings: a barrier of the block must lie between."""
    copy = 'T.evaluate(T.ptx_cp_async_bulk("float16", s, 0, A.data, 0, 2048, 0))'
    lines = [
        "T.evaluate(T.create_barriers(1))",
        "if tx == 0:",
        "    T.evaluate(T.ptx_init_barrier_thread_count(0, 1))",
        SYNC,
        "if tx == 0:",
        "    T.evaluate(T.ptx_arrive_barrier_expect_tx(0, 2048))",
        f"    {copy}",
        "if tx % 32 == 0:",
        "    T.evaluate(T.ptx_wait_barrier(0, 0))",
    ]
    rest = [FENCE, product(), COMMIT, wait(0), *OUT]
    a, b, c = arrays()
    run(kernel(*lines, SYNC, *rest), a, b, c)
    swapped = a.reshape(64, 2, 8).copy()
    rows = np.arange(64) % 8 >= 4
    swapped[rows] = swapped[rows, ::-1]  # the copy does not swizzle, the product does
    assert (c == in_registers(swapped.reshape(64, 16).astype("float32") @ b.astype("float32").T)).all()
    refused(kernel(*lines, *rest), [a, b, c], "warp-group", "for which it has not waited")

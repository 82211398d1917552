"""Rows of matrices in shared memory: the accesses of a warp, enumerated, are in different banks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ir import dtype as dt
from ir.tir import decl_buffer
from schedules.rule.bank_rows import row_step

WORD, BANKS = 4, 32


def row_bytes(columns: int, dtype: str, along_sum: bool = False) -> int:
    """From a row of so many columns to the next one."""
    step = row_step(decl_buffer((64, columns), dtype), along_sum).of(np.array(columns))
    return int(step) * dt.bytes_of(dtype)


def conflicts(
    step_bytes: int, of_thread: Callable[[int, int], tuple[int, int]], words: int, threads: int
) -> int:
    """Words that the busiest bank gives to threads of (group of 8, one of 4), each of which accesses some words at (row, byte)."""
    banks: dict[int, set[int]] = {}
    for thread in range(threads):
        row, byte = of_thread(thread // 4, thread % 4)
        for word in range(words):
            address = (row * step_bytes + byte) // WORD + word
            banks.setdefault(address % BANKS, set()).add(address)
    return max(map(len, banks.values()))


@pytest.mark.parametrize("columns", [16, 32, 48, 64, 80, 128, 256])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "float32"])
def test_operands_along_the_sum_are_read_from_different_banks(dtype: str, columns: int) -> None:
    """A thread of each group of four has four bytes of one of eight rows."""
    step = row_bytes(columns, dtype, along_sum=True)
    assert step >= columns * dt.bytes_of(dtype) and step % 16 == 0
    assert conflicts(step, lambda group, own: (group, own * WORD), 1, 32) == 1


@pytest.mark.parametrize("columns", [16, 32, 48, 64, 80, 128, 256])
def test_operands_across_the_sum_are_read_from_different_banks(columns: int) -> None:
    """Of four rows of float32 eight elements each; of 16 bits eight rows of 16 bytes, as ``ldmatrix`` takes them."""
    step = row_bytes(columns, "float32")
    assert conflicts(step, lambda group, own: (own, group * WORD), 1, 32) == 1
    step = row_bytes(columns, "float16")
    assert conflicts(step, lambda group, own: (group, own * WORD), 1, 32) == 1


@pytest.mark.parametrize("columns", [16, 32, 48, 64, 80, 128, 256])
def test_sums_are_stored_to_different_banks(columns: int) -> None:
    """Two neighbours of a row each; of four bytes half a warp at a time."""
    step = row_bytes(columns, "float32")
    assert conflicts(step, lambda group, own: (group, own * 8), 2, 16) == 1
    step = row_bytes(columns, "float16")
    assert conflicts(step, lambda group, own: (group, own * 4), 1, 32) == 1


def test_rows_as_they_come_meet_in_banks() -> None:
    assert conflicts(64 * 2, lambda group, own: (group, own * WORD), 1, 32) == 8

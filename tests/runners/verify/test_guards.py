"""Guarded memory: alignment as in production, and every byte beside an array is watched."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from runners.verify.guards import Guarded


@pytest.mark.parametrize("shape", [(), (0,), (3,), (5, 7), (2, 40_000)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_arrays_are_aligned_and_quiet(shape: tuple[int, ...], dtype: str) -> None:
    memory = Guarded(shape, dtype)
    assert memory.array.shape == shape and memory.array.ctypes.data % 64 == 0
    memory.array[...] = 0
    assert memory.breach() is None


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (-1, "1 bytes before"),
        (-4096, "4096 bytes before"),
        (12, "0 bytes behind"),
        (4107, "4095 bytes behind"),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_store_beside_the_array_shows(offset: int, message: str, which: int) -> None:
    memory = Guarded((3,), "float32")
    memory.arm(which)
    ctypes.memset(memory.array.ctypes.data + offset, 0x42, 1)
    assert message in (memory.breach() or "")
    memory.arm(which)
    assert memory.breach() is None


def test_zones_are_as_large_as_the_array_up_to_a_limit() -> None:
    assert Guarded((1, 5000), "float32").zone >= 20_000
    assert Guarded((4000, 5000), "float32").zone == 1 << 16


def test_a_smaller_array_in_the_same_memory_is_guarded_at_its_own_end() -> None:
    memory = Guarded((100,), "float32")
    array = memory.view((10,), "int16")
    memory.arm(0)
    assert memory.breach() is None
    ctypes.memset(array.ctypes.data + array.nbytes, 0, 2)
    assert "0 bytes behind" in (memory.breach() or "")


def test_what_is_read_beside_an_array_is_nonsense() -> None:
    memory = Guarded((4,), "float32")
    memory.arm(1)
    beside = np.frombuffer((ctypes.c_char * 4).from_address(memory.array.ctypes.data + 16), np.float32)
    assert np.isnan(beside[0])

"""Weights take turns, inputs and outputs stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import IRModule
from ir.tir import IndexMap
from runners import cold_weights
from runners.cold_weights import bind_with_cold_weights, weight_positions
from runners.kernel import Kernel
from runners.verify import entry
from tests.programs.nodes import matmul


def kernel_of(mod: IRModule) -> tuple[Kernel, list[tuple[np.ndarray, ...]]]:
    """A kernel that multiplies, and the arguments of its calls."""
    seen: list[tuple[np.ndarray, ...]] = []

    def call(*arrays: Any) -> None:
        seen.append(arrays)
        np.matmul(arrays[0], arrays[1], out=arrays[2])

    return Kernel(mod, call), seen


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.random(shape, dtype=np.float32) for shape in ((4, 4), (4, 4), (4, 4))]


def test_weights_are_what_is_free_in_its_layout_or_packed() -> None:
    index_map = IndexMap.from_func(lambda k, j: [j, k])
    assert weight_positions(entry(matmul())) == []
    assert weight_positions(entry(matmul(attrs={"layout_free_buffers": [1]}))) == [1]
    assert weight_positions(entry(matmul(attrs={"layout_rewrite_maps": {1: index_map}}))) == [1]


def test_copies_of_the_weights_take_turns_and_are_together_as_large_as_those_of_the_model() -> None:
    kernel, seen = kernel_of(matmul(attrs={"layout_free_buffers": [1]}))
    given = arguments()
    call = bind_with_cold_weights(kernel, given, 200)
    for _ in range(8):
        call()
        np.testing.assert_allclose(given[2], given[0] @ given[1], rtol=1e-6)
        given[2].fill(0)
    places = [arrays[1].ctypes.data for arrays in seen]
    assert len(set(places[:4])) == 4 and places[:4] == places[4:]
    assert 4 * given[1].nbytes >= 200 > 3 * given[1].nbytes
    assert all(np.array_equal(arrays[1], given[1]) for arrays in seen)
    assert all(arrays[0] is given[0] and arrays[2] is given[2] for arrays in seen)


def test_a_kernel_without_weights_is_called_as_it_is() -> None:
    kernel, seen = kernel_of(matmul())
    given = arguments()
    call = bind_with_cold_weights(kernel, given, 100)
    for _ in range(3):
        call()
    assert all(array is own for arrays in seen for array, own in zip(arrays, given, strict=True))


def test_large_weights_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many copies as fit beside each other; of weights that are larger than that, none."""
    kernel, seen = kernel_of(matmul(attrs={"layout_free_buffers": [1]}))
    for most, places in ((2 * 64, 2), (63, 1)):
        monkeypatch.setattr(cold_weights, "_MOST_BYTES", most)
        seen.clear()
        call = bind_with_cold_weights(kernel, arguments(), 1 << 20)
        for _ in range(6):
            call()
        assert len({arrays[1].ctypes.data for arrays in seen}) == places


def test_there_are_not_endless_copies_of_small_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_weights, "_MOST_COPIES", 3)
    kernel, seen = kernel_of(matmul(attrs={"layout_free_buffers": [1]}))
    call = bind_with_cold_weights(kernel, arguments(), 1 << 30)
    for _ in range(7):
        call()
    assert len({arrays[1].ctypes.data for arrays in seen}) == 3


@pytest.mark.parametrize("distance", [0, 64])
def test_a_kernel_by_itself_has_its_weights_at_hand(distance: int) -> None:
    kernel, seen = kernel_of(matmul(attrs={"layout_free_buffers": [1]}))
    given = arguments()
    call = bind_with_cold_weights(kernel, given, distance)
    for _ in range(3):
        call()
    assert all(array is own for arrays in seen for array, own in zip(arrays, given, strict=True))

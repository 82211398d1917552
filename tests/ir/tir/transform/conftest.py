"""Fixtures of the pass tests: run a pass on one function, and compare two programs on random data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ir import IRModule, assert_structural_equal
from ir import dtype as dt
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.transform import Pass


def random_arguments(func: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    """Small integers for every parameter, so that sums are exact in any order."""
    rng = np.random.default_rng(seed)
    arrays = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = [int(extent) for extent in buffer.shape]  # type: ignore[call-overload]
        arrays.append(rng.integers(-8, 9, shape).astype(dt.to_numpy(buffer.dtype)))
    return arrays


def assert_same_results(before: PrimFunc, after: PrimFunc) -> None:
    """Both functions leave the same values in every parameter."""
    first, second = random_arguments(before), random_arguments(before)
    run(before, *first)
    run(after, *second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def apply() -> Callable[[Pass, PrimFunc], PrimFunc]:
    """Runs a pass on a function; the input must not change, and results must stay the same."""

    def transformed(item: Pass, func: PrimFunc, same_results: bool = True) -> PrimFunc:
        module = IRModule({"main": func})
        after = item(module)["main"]
        assert module["main"] is func
        if same_results:
            assert_same_results(func, after)
        return after

    return transformed


@pytest.fixture
def check(apply: Callable[..., PrimFunc]) -> Callable[[Pass, PrimFunc, PrimFunc], None]:
    """A pass turns one function into the other."""

    def compare(item: Pass, before: PrimFunc, expected: PrimFunc, same_results: bool = True) -> None:
        after = apply(item, before, same_results)
        assert_structural_equal(
            after.without_attr("global_symbol"), expected.without_attr("global_symbol"), True
        )

    return compare

"""Fixtures of the pass tests: run a pass on one function, and compare two programs on random data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ir import IRModule, assert_structural_equal
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.transform import Pass
from tests.programs.arguments import PassHook

from .differential import Differential, arguments


def assert_same_results(before: PrimFunc, after: PrimFunc) -> None:
    """Both functions leave the same values in every parameter."""
    first, second = arguments(before), arguments(before)
    run(before, *first)
    run(after, *second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(autouse=True)
def passes_keep_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass that a test calls is held to the functions that it was given; passes inside of others are not."""
    PassHook(monkeypatch, Differential().check)


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

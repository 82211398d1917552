"""Helpers for tests of passes: structure against an expected program, numbers against the program before the pass.

The oracle is the reference evaluator, which shares nothing with the compiler: the program before a pass is never compiled. Every
pass that a test calls is held to it, also where the test is about the structure alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import runners
from ir import assert_structural_equal, relax
from ir.relax.analysis import check_well_formed
from ir.relax.testing import evaluate
from tests.programs.arguments import PassHook

from .differential import Differential, flat


def verify(actual: Any, expected: Any) -> None:
    """Both modules are well-formed and structurally equal."""
    check_well_formed(expected)
    check_well_formed(actual)
    assert_structural_equal(actual, expected)


@pytest.fixture(autouse=True)
def passes_keep_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass that a test calls is held to the module that it was given; what builds call inside is not."""
    hook = PassHook(monkeypatch, Differential().check)
    monkeypatch.setattr(relax, "build", hook.inside(relax.build))


@pytest.fixture
def same_numbers() -> Callable[..., None]:
    """A function that compares what two modules compute from random inputs, evaluated and as native code."""

    def check(
        before: Any,
        after: Any,
        shapes: Sequence[Any],
        rtol: float = 1e-4,
        atol: float = 1e-5,
        scale: float = 1.0,
    ) -> None:
        check_well_formed(after)
        rng = np.random.default_rng(0)
        inputs = [
            shape if isinstance(shape, np.ndarray) else (scale * rng.standard_normal(shape)).astype("float32")
            for shape in shapes
        ]

        def run(function: Callable[..., Any]) -> list[np.ndarray]:
            given = [array.copy() for array in inputs]
            results = flat(function(*given))
            # an input belongs to the caller: what the program leaves in it is compared as well
            return [*results, *given]

        expected = run(lambda *args: evaluate(before, *args))
        native = runners.VirtualMachine(relax.build(after, "llvm", tir_pipeline=None), runners.cpu())
        for found in (run(lambda *args: evaluate(after, *args)), run(native["main"])):
            for got, wanted in zip(found, expected, strict=True):
                assert got.dtype == wanted.dtype and got.shape == wanted.shape
                np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)

    return check

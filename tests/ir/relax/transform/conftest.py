"""Helpers for tests of passes: structure against an expected program, numbers against the program before the pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ir
import runners
from ir import relax
from ir.relax.analysis import well_formed


def verify(actual: Any, expected: Any) -> None:
    """Both modules are well-formed and structurally equal."""
    well_formed(actual)
    ir.assert_structural_equal(actual, expected)


@pytest.fixture
def same_numbers() -> Callable[..., None]:
    """A function that builds two modules and compares what they compute from random inputs."""

    def check(
        before: Any,
        after: Any,
        shapes: Sequence[Any],
        rtol: float = 1e-4,
        atol: float = 1e-5,
        scale: float = 1.0,
    ) -> None:
        well_formed(after)
        rng = np.random.default_rng(0)
        inputs = [
            shape if isinstance(shape, np.ndarray) else (scale * rng.standard_normal(shape)).astype("float32")
            for shape in shapes
        ]
        results = []
        for mod in (before, after):
            vm = runners.VirtualMachine(relax.build(mod, "llvm", tir_pipeline=None), runners.cpu())
            found = vm["main"](*inputs)
            results.append([item.numpy() for item in (found if isinstance(found, tuple) else (found,))])
        for got, expected in zip(results[1], results[0], strict=True):
            np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)

    return check

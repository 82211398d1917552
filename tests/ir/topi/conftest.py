"""Runs tensor expressions natively on numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import te
from ir.codegen.build import build
from ir.dtype import from_numpy, to_numpy


def run_topi(operator: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """``operator`` applied to placeholders of the arrays' shapes, built, and called; all its results."""
    names = "abcdefgh"
    tensors = [
        te.placeholder(item.shape, from_numpy(item.dtype), name=names[n]) for n, item in enumerate(arrays)
    ]
    found = operator(*tensors)
    outputs = list(found) if isinstance(found, tuple | list) else [found]
    func = te.create_prim_func([*tensors, *outputs])
    results = []
    for item in outputs:
        shape = tuple(int(extent) for extent in item.shape)
        results.append(np.full(shape, 77, to_numpy(item.dtype)))
    build(func, "llvm")["main"](*arrays, *results)
    return results


@pytest.fixture
def check() -> Any:
    """``check(operator, arrays, expected, rtol)``: shapes and values agree with numpy's, integers exactly."""

    def compare(
        operator: Any, arrays: list[np.ndarray], expected: Any, rtol: float = 1e-5, atol: float = 1e-5
    ) -> None:
        results = run_topi(operator, arrays)
        wanted = list(expected) if isinstance(expected, tuple | list) else [expected]
        assert len(results) == len(wanted)
        for got, want in zip(results, wanted, strict=True):
            want = np.asarray(want)
            assert got.shape == want.shape
            if got.dtype.kind in "biu":
                np.testing.assert_array_equal(got, want)
            else:
                np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)

    return compare

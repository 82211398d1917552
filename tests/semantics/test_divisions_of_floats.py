"""Divisions of floats and their remainders, over all pairs of edge values: built, interpreted and evaluated, as numpy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir import relax as rx
from ir import te, topi
from ir.codegen.build import build
from ir.relax import op
from ir.relax.testing import evaluate
from ir.tir.interpreter import run

from ..ir.relax.op.native import run_natively

_REFERENCES: dict[str, Callable[..., Any]] = {
    "divide": np.divide,
    "floor_divide": np.floor_divide,
    "trunc_divide": np.divide,
    "floor_mod": np.mod,
    "mod": np.fmod,
}


def _pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    limits = ml_dtypes.finfo(kind)
    small = [limits.smallest_subnormal, limits.tiny, limits.max]
    values = [0.0, 0.1, 0.5, 1, 1.5, 2.5, 3, 7, np.inf, *map(float, small)]
    edges = np.array([*values, *(-value for value in values), np.nan]).astype(kind)
    left, right = np.meshgrid(edges, edges)
    return left.ravel().copy(), right.ravel().copy()


def _expected(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    def wide(values: np.ndarray) -> np.ndarray:
        return values.astype("float32") if values.dtype == ml_dtypes.bfloat16 else values

    found: np.ndarray = _REFERENCES[name](wide(a), wide(b)).astype(a.dtype)
    return np.trunc(found) if name == "trunc_divide" else found


def _same_to_the_sign_of_zero(found: np.ndarray, expected: np.ndarray) -> None:
    found, expected = found.astype("float64"), expected.astype("float64")
    np.testing.assert_array_equal(found, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(expected[there]))


@pytest.mark.meaning("op-reference")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", _REFERENCES)
def test_divisions_are_those_of_numpy(name: str, dtype: str) -> None:
    a, b = _pairs(dtype)
    left, right = te.placeholder(a.shape, dtype, "a"), te.placeholder(b.shape, dtype, "b")
    program = te.create_prim_func([left, right, getattr(topi, name)(left, right)])
    with np.errstate(all="ignore"):
        expected = _expected(name, a, b)
        for execute in (build(program, "cpu")["main"], lambda *args: run(program, *args)):
            found = np.zeros_like(a)
            execute(a, b, found)
            _same_to_the_sign_of_zero(found, expected)


@pytest.mark.meaning("op-reference")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floor_division_of_relax_keeps_the_sign_of_zero(dtype: str) -> None:
    a, b = _pairs(dtype)
    x, y = (rx.Var(name, rx.TensorStructInfo(a.shape, dtype)) for name in "xy")
    builder = rx.BlockBuilder()
    with builder.function("main", [x, y]):
        builder.emit_func_output(builder.emit(op.floor_divide(x, y)))
    with np.errstate(all="ignore"):
        expected = _expected("floor_divide", a, b)
        _same_to_the_sign_of_zero(np.asarray(run_natively(op.floor_divide, a, b)), expected)
        _same_to_the_sign_of_zero(np.asarray(evaluate(builder.finalize(), a, b)), expected)

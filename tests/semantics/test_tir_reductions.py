"""Reductions: their order is free, they begin with their identity, and NaN comes through."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir import te, tir, topi
from ir.dtype import to_numpy

from .running import executors, holds


def reduction(combine: Any, length: int, dtype: str, rows: int = 3) -> tir.PrimFunc:
    """Each row of an array reduced."""
    a = te.placeholder((rows, length), dtype, name="A")
    k = te.reduce_axis((0, length), name="k")
    return te.create_prim_func([a, te.compute((rows,), lambda i: combine(a[i, k], axis=k), name="B")])


@pytest.mark.meaning("reduce-order")
def test_integers_do_not_depend_on_the_order() -> None:
    a = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 100), dtype="int32")
    with np.errstate(all="ignore"):
        holds(reduction(te.sum, 100, "int32"), [a, np.zeros(3, "int32")], {1: a.sum(1, dtype="int32")})


@pytest.mark.meaning("reduce-order")
def test_floats_are_within_the_error_of_some_order() -> None:
    a = np.random.default_rng(0).normal(size=(3, 1000)).astype("float32")
    bound = 1000 * 2.0**-24 * np.abs(a.astype("float64")).sum(1)
    for name, execute in executors(reduction(te.sum, 1000, "float32")):
        out = np.zeros(3, "float32")
        execute(a, out)
        assert np.all(np.abs(out - a.astype("float64").sum(1)) <= bound), name


_IDENTITIES = [
    (te.max, "float32", -np.inf), (te.min, "float32", np.inf), (te.max, "float16", -np.inf), (te.min, "float64", np.inf),
    (te.max, "int8", -128), (te.min, "int8", 127), (te.max, "int32", -(2**31)), (te.min, "int64", 2**63 - 1),
    (te.max, "uint8", 0), (te.min, "uint8", 255), (te.min, "uint64", 2**64 - 1), (te.sum, "float32", 0), (te.sum, "int32", 0),
]  # fmt: skip


@pytest.mark.meaning("reduce-identity", "reduce-empty")
@pytest.mark.parametrize(
    "combine, dtype, identity", _IDENTITIES, ids=lambda item: getattr(item, "__name__", str(item))
)
def test_a_reduction_over_nothing_is_its_identity(combine: Any, dtype: str, identity: Any) -> None:
    empty, out = np.zeros((3, 0), to_numpy(dtype)), np.ones(3, to_numpy(dtype))
    holds(reduction(combine, 0, dtype), [empty, out], {1: np.full(3, identity, to_numpy(dtype))})


@pytest.mark.meaning("reduce-identity")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_a_maximum_of_infinities(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    low, high = np.full((3, 20), -np.inf).astype(kind), np.full((3, 20), np.inf).astype(kind)
    holds(reduction(te.max, 20, dtype), [low, np.zeros(3, kind)], {1: low[:, 0]})
    holds(reduction(te.min, 20, dtype), [high, np.zeros(3, kind)], {1: high[:, 0]})


@pytest.mark.meaning("reduce-identity")
def test_a_maximum_of_the_smallest_integers() -> None:
    for dtype in ("int8", "int32", "int64", "uint8"):
        info = np.iinfo(dtype)
        holds(
            reduction(te.max, 20, dtype),
            [np.full((3, 20), info.min, dtype), np.zeros(3, dtype)],
            {1: np.full(3, info.min, dtype)},
        )
        holds(
            reduction(te.min, 20, dtype),
            [np.full((3, 20), info.max, dtype), np.zeros(3, dtype)],
            {1: np.full(3, info.max, dtype)},
        )


@pytest.mark.meaning("reduce-nan")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("place", [0, 7, 19])
def test_nan_comes_through(place: int, dtype: str) -> None:
    a = np.random.default_rng(0).normal(size=(3, 20)).astype(dtype)
    a[1, place] = np.nan
    holds(reduction(te.max, 20, dtype), [a, np.zeros(3, dtype)], {1: a.max(1)})
    holds(reduction(te.min, 20, dtype), [a, np.zeros(3, dtype)], {1: a.min(1)})


@pytest.mark.meaning("argmax")
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax(name: str) -> None:
    """The first NaN, else the first extremum, of rows of infinities too."""
    rows = np.array(
        [
            [1, 5, 2, 5, 0, -3], [np.nan, 5, 2, 5, 0, np.nan], [1, 5, np.nan, 9, np.nan, 0], [-np.inf] * 6, [np.inf] * 6,
            [0.0, -0.0, 0.0, -0.0, 0.0, 0.0], [-np.inf, np.nan, np.inf, 1, 2, 3], [3, 3, 3, 3, 3, 3], [5, -np.inf, -np.inf, 6, 6, 1],
        ],
        "float32",
    )  # fmt: skip
    a = te.placeholder(rows.shape, "float32", name="A")
    func = te.create_prim_func([a, getattr(topi, name)(a, axis=1)])
    dtype = func.buffer_map[func.params[1]].dtype
    expected = getattr(np, name)(rows, axis=1).astype(dtype)
    holds(func, [rows, np.zeros(len(rows), dtype)], {1: expected})

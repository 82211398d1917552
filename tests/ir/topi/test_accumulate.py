"""Sums of float16 and bfloat16: as exact as a sum in float32 that is rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import te, topi
from ir.dtype import to_numpy
from ir.topi.accumulate import accumulator

from .conftest import run_topi

NARROW = ["float16", "bfloat16"]
RNG = np.random.default_rng(7)


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 1.0, shape)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normalized(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[np.ndarray]]] = {
    "sum": (lambda a: topi.sum(a, 1), lambda a: a.sum(1), [positive(2, 4096)]),
    "prod": (lambda a: topi.prod(a, 1), lambda a: a.prod(1), [1 + normal(2, 512) / 64]),
    "matmul": (topi.matmul, np.matmul, [positive(3, 4096), positive(4096, 2)]),
    "nn.matmul": (topi.nn.matmul, np.matmul, [positive(3, 4096), positive(4096, 2)]),
    "dense": (topi.nn.dense, lambda a, b, c: a @ b.T + c, [positive(3, 4096), positive(2, 4096), normal(2)]),
    "batch_matmul": (
        lambda a, b: topi.nn.batch_matmul(a, b, transpose_b=False),
        np.matmul,
        [positive(2, 3, 4096), positive(2, 4096, 2)],
    ),
    "tensordot": (lambda a, b: topi.tensordot(a, b, 1), np.matmul, [positive(2, 4096), positive(4096, 2)]),
    "einsum": (lambda a, b: topi.einsum("ik,kj", a, b), np.matmul, [positive(2, 4096), positive(4096, 2)]),
    "conv2d": (
        lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 0, 1),
        lambda x, w: np.einsum("nchw,ochw->no", x, w)[..., None, None],
        [positive(1, 512, 3, 3), positive(2, 512, 3, 3)],
    ),
    "depthwise": (
        lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, 1, 0, 1),
        lambda x, w: (x[0] * w[:, 0]).sum((1, 2)).reshape(1, -1, 1, 1),
        [positive(1, 2, 64, 64), positive(2, 1, 64, 64)],
    ),
    "conv1d_transpose": (
        lambda x, w: topi.nn.conv1d_transpose_ncw(x, w, 1, 0, "", 0),
        lambda x, w: np.einsum("ncw,cok->no", x, w)[..., None],
        [positive(1, 4096, 1), positive(4096, 2, 1)],
    ),
    "avg_pool": (
        lambda x: topi.nn.pool2d(x, [64, 64], [1, 1], [1, 1], [0, 0, 0, 0], "avg"),
        lambda x: x.mean((2, 3), keepdims=True),
        [positive(1, 2, 64, 64)],
    ),
    "global_pool": (
        lambda x: topi.nn.global_pool(x, "avg"),
        lambda x: x.mean((2, 3), keepdims=True),
        [positive(1, 2, 64, 64)],
    ),
    "softmax": (topi.nn.softmax, softmax, [normal(2, 4096)]),
    "log_softmax": (topi.nn.log_softmax, lambda x: np.log(softmax(x)), [normal(2, 4096)]),
    "layer_norm": (
        lambda x, g, b: topi.nn.layer_norm(x, g, b, [1]),
        lambda x, g, b: normalized(x) * g + b,
        [normal(2, 4096), positive(4096), normal(4096)],
    ),
    "rms_norm": (
        lambda x, g: topi.nn.rms_norm(x, g, [1]),
        lambda x, g: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * g,
        [normal(2, 4096), positive(4096)],
    ),
    "l2_normalize": (
        lambda x: topi.nn.l2_normalize(x, 1e-6, [1]),
        lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)),
        [normal(2, 4096)],
    ),
    "cumsum": (lambda x: topi.cumsum(x, 1), lambda x: x.cumsum(1), [positive(2, 2048)]),
}


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", CASES)
def test_the_result_is_rounded_once(name: str, dtype: str) -> None:
    operator, reference, inputs = CASES[name]
    narrow = [item.astype(to_numpy(dtype)) for item in inputs]
    (result,) = run_topi(operator, narrow)
    expected = reference(*[item.astype("float64") for item in narrow])
    assert result.dtype == to_numpy(dtype)
    # Half a unit in the last place, and the error of a sum in float32.
    unit = 2.0 ** (-11 if dtype == "float16" else -8)
    np.testing.assert_allclose(result.astype("float64"), expected, rtol=1.03 * unit, atol=1e-4 * unit)


def test_wide_floats_and_integers_are_summed_in_their_own_dtype() -> None:
    assert [accumulator(dtype) for dtype in ("float32", "float64", "int8")] == ["float32", "float64", "int8"]
    a = te.placeholder((4, 8), "float32", name="A")
    assert topi.sum(a, 1).op.name == "A_red"


def test_a_sum_in_another_dtype_stays_in_it(check: Any) -> None:
    check(lambda a: topi.sum(a, 0, dtype="int32"), [np.full(3, 100, "int8")], np.asarray(300, "int32"))

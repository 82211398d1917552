"""What operators compute natively of narrow floats, infinities, and rows that see nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import relax as rx
from ir.dtype import to_numpy
from ir.error import IRValueError

from .native import run_natively

R = rx.op
RNG = np.random.default_rng(3)
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@pytest.mark.meaning("reduce-wide")
@pytest.mark.parametrize("dtype", UNIT)
def test_products_of_narrow_floats_are_summed_in_float32(dtype: str) -> None:
    a = RNG.uniform(0.5, 1, (3, 4096)).astype(to_numpy(dtype))
    b = RNG.uniform(0.5, 1, (4096, 2)).astype(to_numpy(dtype))
    wide = a.astype("float64") @ b.astype("float64")
    result = run_natively(R.matmul, a, b)
    assert result.dtype == a.dtype
    np.testing.assert_allclose(result.astype("float64"), wide, rtol=1.01 * UNIT[dtype])
    kept = run_natively(lambda x, y: R.matmul(x, y, "float32"), a, b)
    assert kept.dtype == np.float32
    np.testing.assert_allclose(kept, wide, rtol=1e-5)
    transposed = run_natively(lambda x, y: R.matmul(x, R.permute_dims(y)), a, np.ascontiguousarray(b.T))
    np.testing.assert_allclose(transposed.astype("float64"), wide, rtol=1.01 * UNIT[dtype])


@pytest.mark.meaning("reduce-wide")
@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("transpose", [False, True])
def test_convolutions_of_narrow_floats_are_summed_in_float32(dtype: str, transpose: bool) -> None:
    x = RNG.uniform(0.5, 1, (1, 512, 3, 3)).astype(to_numpy(dtype))
    w = RNG.uniform(0.5, 1, (512, 2, 3, 3) if transpose else (2, 512, 3, 3)).astype(to_numpy(dtype))
    if transpose:
        result = run_natively(R.nn.conv2d_transpose, x, w)[:, :, 2:3, 2:3]
        flipped = w.astype("float64")[:, :, ::-1, ::-1]
        wide = np.einsum("nchw,cohw->no", x.astype("float64"), flipped)
    else:
        result = run_natively(R.nn.conv2d, x, w)
        wide = np.einsum("nchw,ochw->no", x.astype("float64"), w.astype("float64"))
    np.testing.assert_allclose(result.astype("float64")[..., 0, 0], wide, rtol=1.01 * UNIT[dtype])


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize(("name", "function"), [("mean", np.mean), ("variance", np.var), ("std", np.std)])
def test_statistics_of_more_elements_than_float16_counts(dtype: str, name: str, function) -> None:
    x = (RNG.standard_normal((2, 70000)) + 100).astype(to_numpy(dtype))
    result = run_natively(lambda t: getattr(R, name)(t, 1), x)
    assert result.dtype == x.dtype
    expected = function(x.astype("float64"), 1)
    np.testing.assert_allclose(result.astype("float64"), expected, rtol=3 * UNIT[dtype])


@pytest.mark.parametrize(("name", "function"), [("mean", np.mean), ("variance", np.var), ("std", np.std)])
@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "int64"])
def test_statistics_of_integers_are_exact_until_they_are_truncated(dtype: str, name: str, function) -> None:
    x = np.array([[0, 3, 100], [1, 2, 2], [120, 120, 90]], dtype)
    result = run_natively(lambda t: getattr(R, name)(t, 1), x)
    ends = np.iinfo(dtype)
    np.testing.assert_array_equal(result, np.clip(function(x, 1), ends.min, ends.max).astype(dtype))
    assert result.dtype == x.dtype


@pytest.mark.parametrize("causal", ["TopLeft", "BottomRight"])
def test_a_row_of_attention_that_sees_nothing_is_zero(causal: str) -> None:
    """As in PyTorch's scaled_dot_product_attention; an ordinary softmax of such a row has no number."""
    q, k, v = (RNG.standard_normal((1, n, 2, 4)).astype("float32") for n in (5, 3, 3))
    result = run_natively(lambda a, b, c: R.nn.attention(a, b, c, causal_mask=causal), q, k, v)
    blind = [] if causal == "TopLeft" else [0, 1]
    assert [row for row in range(5) if not result[0, row].any()] == blind
    assert np.isfinite(result).all()
    mask = np.zeros((1, 1, 5, 3), "float32")
    mask[..., 1, :] = -np.inf
    result = run_natively(lambda a, b, c, m: R.nn.attention(a, b, c, bias=m), q, k, v, mask)
    assert [row for row in range(5) if not result[0, row].any()] == [1]
    assert np.isnan(run_natively(lambda x: R.nn.softmax(x), np.full((2, 3), -np.inf, "float32"))).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window_size": 3}, "under a causal mask; give causal_mask='TopLeft'"),
        ({"causal_mask": "TopLeft", "window_size": 2.5}, "must be None or an integer of at least 0, got 2.5"),
        ({"causal_mask": "TopLeft", "window_size": -1}, "must be None or an integer of at least 0, got -1"),
    ],
)
def test_a_window_of_attention_that_would_be_ignored_is_refused(
    options: dict[str, Any], message: str
) -> None:
    x = rx.Var("x", rx.TensorStructInfo((1, 4, 2, 4), "float32"))
    with pytest.raises(IRValueError, match=message):
        R.nn.attention(x, x, x, **options)


def test_a_transposed_convolution_has_no_products_outside_of_its_data() -> None:
    x, w = np.ones((1, 1, 2), "float32"), np.array([[[1, np.inf, 2]]], "float32")
    result = run_natively(lambda a, b: R.nn.conv1d_transpose(a, b, strides=2), x, w)
    np.testing.assert_array_equal(result, [[[1, np.inf, 3, np.inf, 2]]])


def test_an_infinite_element_stays_where_a_transposed_convolution_puts_it() -> None:
    """In the channels-last form too, which convolves by phases: a kernel of 3 has phases of 2 taps and of 1."""
    x, w = np.ones((1, 2, 4), "float32"), np.ones((2, 1, 3), "float32")
    x[0, 0, 1] = np.inf
    result = run_natively(lambda a, b: R.nn.conv1d_transpose(a, b, strides=2), x, w)
    np.testing.assert_array_equal(result, [[[2, 2, np.inf, np.inf, np.inf, 2, 4, 2, 2]]])


@pytest.mark.parametrize("padding", [0, 1])
def test_the_largest_of_infinities_is_infinite(padding: int) -> None:
    x = np.full((1, 1, 4, 4), -np.inf, "float32")
    result = run_natively(lambda a: R.nn.max_pool2d(a, (2, 2), padding=padding), x)
    assert np.isneginf(result).all()
    assert np.isneginf(run_natively(lambda a: R.max(a, 3), x)).all()

"""What operators do with numbers that have no order."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from ir import dtype as dt
from ir import relax as rx
from ir import te, topi
from ir.codegen.build import build
from ir.relax import op
from ir.relax.op.nn.attention import np_attention
from ir.relax.testing import evaluate

from ..ir.relax.op.native import run_natively
from .running import TARGETS

NAN, INF = np.nan, np.inf


@pytest.mark.meaning("op-order")
def test_nan_is_the_greatest_number() -> None:
    x = np.array([2.0, NAN, -INF, INF, -1.0], "float32")
    np.testing.assert_array_equal(run_natively(op.sort, x), [-INF, -1, 2, INF, NAN])
    np.testing.assert_array_equal(
        run_natively(lambda v: op.sort(v, descending=True), x), [NAN, INF, 2, -1, -INF]
    )
    np.testing.assert_array_equal(run_natively(op.argsort, x), [2, 4, 0, 3, 1])
    values, indices = run_natively(lambda v: op.topk(v, 2), x)
    np.testing.assert_array_equal(values, [NAN, INF])
    np.testing.assert_array_equal(indices, [1, 3])


@pytest.mark.meaning("op-weight")
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_elements_without_weight_do_not_count(method: str, mode: str) -> None:
    """The reference and the kernel, wherever an infinity stands."""
    for before, after in ((4, 12), (5, 9), (4, 10), (7, 3)):
        x = np.ones((before, 1, 2, before), "float32")
        x[range(before), :, :, range(before)] = INF
        options = {"method": method, "coordinate_transformation_mode": mode}
        resized = partial(op.image.resize2d, size=(2, after), layout="NCHW", **options)
        data = rx.Var("x", rx.TensorStructInfo(x.shape, "float32"))
        builder = rx.BlockBuilder()
        with builder.function("main", [data]):
            builder.emit_func_output(builder.emit(resized(data)))
        with np.errstate(invalid="ignore"):  # behind the border the weights of an element differ in sign
            expected = np.asarray(evaluate(builder.finalize(), x))
        np.testing.assert_allclose(run_natively(resized, x), expected, rtol=1e-5)


@pytest.mark.meaning("op-hidden")
@pytest.mark.parametrize("options", [{}, {"window_size": 2}])
@pytest.mark.parametrize("place", ["TopLeft", "BottomRight"])
def test_what_attention_hides_does_not_count(place: str, options: dict[str, int]) -> None:
    """The reference and the kernel: rows that do not see a key are as if it held zeros."""
    generator = np.random.default_rng(0)
    query, key, value = (generator.standard_normal((1, n, 1, 2)).astype("float32") for n in (4, 6, 6))
    attend = partial(op.nn.attention, causal_mask=place, **options)
    clean = run_natively(attend, query, key, value)
    rows, columns = np.arange(4)[:, None], np.arange(6)[None]
    last = rows + (2 if place == "BottomRight" else 0)
    seen = (columns <= last) & (columns > last - options.get("window_size", 6))
    for spoilt, number in ((0, NAN), (3, INF), (5, NAN)):
        key[0, spoilt], value[0, spoilt] = number, number
        found = run_natively(attend, query, key, value)
        with np.errstate(invalid="ignore"):
            expected = np_attention(query, key, value, causal_mask=place, **options)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        blind = ~seen[:, spoilt]
        np.testing.assert_allclose(found[:, blind], clean[:, blind], rtol=1e-5)
        assert np.isnan(found[:, ~blind]).all()
        key[0, spoilt] = value[0, spoilt] = 0
        clean = run_natively(attend, query, key, value)


@pytest.mark.meaning("relax-attention-half")
@pytest.mark.parametrize(("dtype", "unit"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
def test_weights_of_attention_are_rounded_to_the_operands_dtype(dtype: str, unit: float) -> None:
    """Two keys, whose weights are 1 and exp(-1): the second one is rounded where it is multiplied, not in the sum."""
    kind = dt.to_numpy(dtype)
    query, key = np.ones((1, 1, 1, 1), kind), np.array([0, -1], kind).reshape(1, 2, 1, 1)
    value = np.array([[0, 1], [1, 0]], kind).reshape(1, 2, 1, 2)
    found = run_natively(op.nn.attention, query, key, value).reshape(2).astype("float64")
    weight = np.float32(np.exp(np.float32(-1)))
    total = 1 + float(weight)
    rounded = np.float32(weight.astype(kind))
    assert rounded != weight
    np.testing.assert_array_equal(
        found, np.array([rounded / total, 1 / total]).astype(kind).astype("float64")
    )
    exact = np.array([float(weight) / total, 1 / total])
    assert (np.abs(found - exact) <= unit * (1 + exact)).all()


_PLACES: dict[str, Any] = {
    "half_pixel": lambda i, before, after: (i + Fraction(1, 2)) * Fraction(before, after) - Fraction(1, 2),
    "pytorch_half_pixel": lambda i, before, after: (
        (i + Fraction(1, 2)) * Fraction(before, after) - Fraction(1, 2) if after > 1 else Fraction(0)
    ),
    "tf_half_pixel_for_nn": lambda i, before, after: (i + Fraction(1, 2)) * Fraction(before, after),
    "asymmetric": lambda i, before, after: i * Fraction(before, after),
    "align_corners": lambda i, before, after: (
        i * Fraction(before - 1, after - 1) if after > 1 else Fraction(0)
    ),
}
_NEAREST: dict[str, Any] = {
    "round_prefer_floor": lambda place: math.ceil(place - Fraction(1, 2)),
    "round_prefer_ceil": lambda place: math.floor(place + Fraction(1, 2)),
    "floor": math.floor,
    "ceil": math.ceil,
}


@pytest.mark.meaning("op-coordinates")
@pytest.mark.parametrize("mode", _PLACES)
def test_nearest_rows_of_a_resize(mode: str) -> None:
    """By fractions, on machines with fused multiplications and without."""
    for before, after in ((3, 7), (7, 3), (10, 3), (41, 123), (25, 60), (64, 48), (5, 1), (1, 5), (49, 343)):
        image = np.arange(before, dtype="float32").reshape(1, 1, before, 1)
        for rounding, round_place in _NEAREST.items():
            data = te.placeholder(image.shape, "float32", "data")
            out = topi.image.resize2d(data, [0.0] * 4, (after, 1), "NCHW", "nearest_neighbor", mode, rounding)
            places = [round_place(_PLACES[mode](i, before, after)) for i in range(after)]
            rows = np.array([min(max(place, 0), before - 1) for place in places], "float32")
            for target in TARGETS:
                found = np.full((1, 1, after, 1), -1, "float32")
                build(te.create_prim_func([data, out]), target)["main"](image, found)
                np.testing.assert_array_equal(
                    found[0, 0, :, 0], rows, f"{before} {after} {rounding} {target}"
                )

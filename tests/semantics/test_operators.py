"""What operators do with numbers that have no order."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from ir import relax as rx
from ir.relax import op
from ir.relax.testing import evaluate

from ..ir.relax.op.native import run_natively

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

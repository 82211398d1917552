"""What operators do with numbers that have no order."""

from __future__ import annotations

import numpy as np
import pytest

from ir.relax import op

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

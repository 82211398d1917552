"""The operator suite computes what its references say."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.operators import first_suite, suite
from experiments.operators.small_shapes import FIRST as SMALL
from ir.codegen.build import build


@pytest.mark.parametrize("name", list(first_suite.WORKLOADS))
def test_workload_agrees_with_its_reference(name):
    shape = SMALL[name]
    arrays = suite.inputs(name, shape, seed=1, integers=name not in ("NRM", "SFM"))
    out = np.zeros(suite.output_shape(name, shape), "float32")
    build(suite.workload(name, shape), "llvm")["main"](*arrays, out)
    exact = name not in ("NRM", "SFM")
    np.testing.assert_allclose(out, suite.reference(name, arrays, shape), rtol=0 if exact else 1e-5)


def test_weights_are_layout_free():
    assert suite.workload("C2D").attrs["layout_free_buffers"] == (1,)
    assert "layout_free_buffers" not in suite.workload("GMM").attrs


def test_flops():
    assert suite.flops("GMM", (1, 128, 128, 128)) == 2 * 128**3
    assert suite.flops("C2D", (1, 14, 14, 256, 256, 3, 1, 1)) == 2 * 14 * 14 * 256 * 256 * 9
    assert suite.flops("T2D", (1, 16, 16, 128, 64, 4, 2, 1)) == 2 * 16 * 16 * 128 * 64 * 16


def test_unknown_names_are_refused():
    with pytest.raises(KeyError, match="no workload 'XYZ'"):
        suite.workload("XYZ")

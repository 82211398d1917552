"""ChooseLayout: convolutions get the layouts that have good kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ir import relax
from ir.relax import transform
from tests.programs.graphs import network

op = relax.op


@pytest.mark.parametrize(("groups", "layout"), [(1, "NHWC"), (2, "NCHW")])
def test_transposed_convolutions_change_layout_where_a_kernel_exists(groups, layout, same_numbers):
    weight = relax.const(np.random.default_rng(0).random((4, 6 // groups, 3, 3), "float32"))
    mod = network(lambda bb, x: op.nn.conv2d_transpose(x, weight, 2, 1, 1, groups=groups), (2, 4, 5, 5))
    after = transform.ChooseLayout()(mod)
    assert f'data_layout="{layout}"' in after.script()
    same_numbers(mod, after, [(2, 4, 5, 5)])

"""FoldBatchnormToConv2D: normalizations of constants go into the convolution's weights."""

from __future__ import annotations

import pytest

from ir import relax
from ir.relax import transform
from tests.programs.graphs import batch_norm, conv, network

from .conftest import verify
from .structure import operators

op = relax.op


@pytest.mark.parametrize("bias", [False, True])
def test_fold_batchnorm_to_conv2d(bias, same_numbers):
    def build(bb, x):
        y = conv(bb, x)
        if bias:
            y = bb.emit(op.add(y, bb.positive(1, 8, 1, 1)))
        return bb.emit(batch_norm(bb, y)[0])

    mod = network(build, (2, 4, 6, 6))
    after = transform.DeadCodeElimination()(
        transform.CanonicalizeBindings()(transform.FoldBatchnormToConv2D()(mod))
    )
    assert operators(after) == ["relax.nn.conv2d", "relax.add"]
    same_numbers(mod, after, [(2, 4, 6, 6)])


def test_batchnorm_of_a_conv_that_others_use_stays():
    def build(bb, x):
        y = conv(bb, x)
        return bb.emit(op.add(bb.emit(batch_norm(bb, y)[0]), y))

    mod = network(build, (2, 4, 6, 6))
    verify(transform.FoldBatchnormToConv2D()(mod), mod)

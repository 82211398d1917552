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


@pytest.mark.parametrize(
    "shape, folded",
    [
        ((1, 8, 1, 1), True),
        ((8, 1, 1), True),
        ((1,), True),
        ((), True),
        ((8,), False),
        ((1, 1, 1, 8), False),
        ((8, 8), False),
        ((8, 1), False),
    ],
    ids=str,
)
def test_only_what_is_added_per_channel_is_a_bias(shape, folded, same_numbers):
    """The image is as wide as it has channels, so that a vector fits both."""

    def build(bb, x):
        biased = bb.emit(op.add(conv(bb, x), bb.positive(*shape)))
        return bb.emit(batch_norm(bb, biased)[0])

    mod = network(build, (2, 4, 8, 8))
    after = transform.FoldBatchnormToConv2D()(mod)
    assert ("relax.nn.batch_norm" not in operators(after)) == folded
    same_numbers(mod, after, [(2, 4, 8, 8)], rtol=1e-3, atol=1e-4)


def test_normalization_by_the_statistics_of_the_batch_is_not_folded(same_numbers):
    def build(bb, x):
        parts = [bb.positive(8) for _ in range(4)]
        normalized = bb.emit(op.nn.batch_norm(conv(bb, x), *parts, axis=1, training=True))
        return bb.emit(relax.TupleGetItem(normalized, 0))

    mod = network(build, (2, 4, 6, 6))
    for before in (mod, transform.DecomposeTrainingBatchNorm()(mod)):
        for step in (transform.FoldBatchnormToConv2D, transform.DecomposeOpsForInference):
            same_numbers(mod, step()(before), [(2, 4, 6, 6)], rtol=1e-3, atol=1e-4)

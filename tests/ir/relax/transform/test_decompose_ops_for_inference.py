"""DecomposeOpsForInference: operators become simpler ones."""

from __future__ import annotations

import pytest

from ir import relax
from ir.error import IRValueError
from ir.relax import transform
from tests.programs.graphs import batch_norm, network

from .structure import operators


def test_decompose_ops(same_numbers):
    mod = network(lambda bb, x: bb.emit(batch_norm(bb, x)[0]), (2, 4, 6, 6))
    inference = transform.DecomposeOpsForInference()(mod)
    assert "relax.nn.batch_norm" not in operators(inference)
    same_numbers(mod, inference, [(2, 4, 6, 6)])
    with pytest.raises(IRValueError, match="no function 'absent'"):
        transform.DecomposeOpsForInference("absent")(mod)


def test_training_is_what_the_program_says(same_numbers):
    """Normalization by the batch's statistics stays that, whoever takes it apart."""

    def build(bb, x):
        parts = [bb.positive(4) for _ in range(4)]
        normalized = bb.emit(relax.op.nn.batch_norm(x, *parts, axis=1, training=True, momentum=0.3))
        return bb.emit(relax.op.add(normalized[0], relax.op.reshape(normalized[2], (1, 4, 1, 1))))

    mod = network(build, (2, 4, 3, 3))
    after = transform.DecomposeOpsForInference()(mod)
    assert "relax.nn.batch_norm" not in operators(after)
    same_numbers(mod, after, [(2, 4, 3, 3)])

"""DecomposeOpsForInference: operators become simpler ones."""

from __future__ import annotations

import pytest

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

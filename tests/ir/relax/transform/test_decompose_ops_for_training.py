"""DecomposeOpsForTraining: a normalization is made of means over the batch, and its moving averages move."""

from __future__ import annotations

import numpy as np
import pytest

from ir import relax
from ir.error import IRValueError
from ir.relax import transform
from ir.relax.op import OPERATORS
from ir.relax.testing import evaluate
from tests.programs.graphs import NetworkBuilder, batch_norm, network

from .structure import operators


def _normalized(bb, x):
    return bb.emit(batch_norm(bb, x)[0])


def test_the_batch_normalizes_itself():
    mod = network(_normalized, (2, 4, 6, 6))
    after = transform.DecomposeOpsForTraining("main")(mod)
    found = operators(after)
    assert "relax.nn.batch_norm" not in found and {"relax.mean", "relax.variance"} <= set(found)
    x = np.random.default_rng(0).standard_normal((2, 4, 6, 6)).astype("float32")
    call = mod["main"].body.blocks[0].bindings[0].value
    vectors = [vector.data for vector in call.args[1:]]
    options = {**call.attrs.dict, "training": True}
    wanted = OPERATORS["relax.nn.batch_norm"].reference(x, *vectors, **options)
    np.testing.assert_allclose(evaluate(after, x), wanted[0], rtol=2e-5, atol=2e-5)


def test_other_functions_are_left_alone():
    bb = NetworkBuilder()
    for name in ("first", "second"):
        x = relax.Var("x", relax.TensorStructInfo((2, 4, 6, 6)))
        with bb.function(name, [x]):
            bb.emit_func_output(bb.emit(batch_norm(bb, x)[0]))
    mod = bb.get()
    after = transform.DecomposeOpsForTraining("second")(mod)
    assert after["first"] is mod["first"] and "relax.nn.batch_norm" not in operators(after, "second")
    with pytest.raises(IRValueError, match="no function 'absent'"):
        transform.DecomposeOpsForTraining("absent")(mod)

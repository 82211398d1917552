"""DecomposeTrainingBatchNorm: a normalization written with training=True normalizes by the batch, in a build too."""

from __future__ import annotations

import numpy as np
import pytest

from ir import relax
from ir.relax import transform
from ir.relax.op.declaration import OPERATORS
from ir.relax.testing import evaluate


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_the_program_s(training):
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo([2, 3, 4, 4], "float32"))
    scales = [relax.Var(name, relax.TensorStructInfo([3], "float32")) for name in "gbmv"]
    with bb.function("main", [x, *scales]):
        out = bb.emit(relax.op.nn.batch_norm(x, *scales, axis=1, momentum=0.2, training=training))
        bb.emit_func_output(out)
    mod = bb.get()
    rng = np.random.default_rng(0)
    data = [rng.random((2, 3, 4, 4), dtype=np.float32)] + [
        rng.random(3, dtype=np.float32) + 0.5 for _ in range(4)
    ]
    call = mod["main"].body.blocks[0].bindings[0].value
    wanted = OPERATORS["relax.nn.batch_norm"].reference(*data, **call.attrs.dict)
    after = transform.DecomposeOpsForInference()(transform.DecomposeTrainingBatchNorm()(mod))
    for found, expected in zip(evaluate(after, *data), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)

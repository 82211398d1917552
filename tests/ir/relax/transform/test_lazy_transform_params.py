"""LazyTransformParams: a function of weights fetches and stores them one by one."""

from __future__ import annotations

import numpy as np

import ir
import runners
from ir import relax
from ir.relax import transform
from tests.programs.graphs import Weights


def test_lazy_transform_params():
    lifted = transform.LiftTransformParams()(Weights)
    name = "main_transform_params"
    only = ir.IRModule({name: lifted[name]})
    mod = transform.LazyTransformParams("test.lazy_get", "test.lazy_set")(
        transform.RemovePurityChecking()(transform.ToNonDataflow()(only))
    )
    weights = [np.arange(12, dtype="float32").reshape(3, 4), np.ones(3, "float32")]
    stored = {}
    ir.register_func("test.lazy_get", lambda index: runners.array(weights[int(index)]), override=True)
    ir.register_func(
        "test.lazy_set", lambda index, value: stored.__setitem__(int(index), value.numpy()), override=True
    )
    runners.VirtualMachine(relax.build(mod, "llvm"), runners.cpu())[name]()
    np.testing.assert_allclose(stored[0], weights[0].T ** 2)
    np.testing.assert_allclose(stored[1], weights[1])

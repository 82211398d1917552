"""LazyGetInput: weights are fetched where they are first used."""

from __future__ import annotations

import numpy as np

import runners
from ir import relax
from ir.relax import transform
from tests.programs.graphs import Weights


def test_lazy_get_input():
    after = transform.LazyGetInput()(Weights)
    assert [param.name_hint for param in after["main"].params] == ["x", "fget_param"]
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype("float32") for shape in ((2, 4), (3, 4), (3,)))
    asked = []

    def fetch(index, name):
        asked.append((int(index), name))
        return runners.array([w, b][int(index)])

    vm = runners.VirtualMachine(relax.build(after, "llvm"), runners.cpu())
    np.testing.assert_allclose(vm["main"](x, fetch).numpy(), x @ (w.T * w.T) + b, rtol=1e-5, atol=1e-5)
    assert asked == [(0, "w"), (1, "b")]

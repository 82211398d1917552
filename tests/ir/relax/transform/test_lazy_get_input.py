"""LazyGetInput: weights are fetched where they are first used."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import relax
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
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


@I.ir_module
class Symbolic:
    """Weights tell extents that are used before they are, in branches, and in what the function returns."""

    @R.function
    def main(
        c: R.Tensor((), "bool"),
        x: R.Tensor((4,), "float32"),
        w: R.Tensor(("n * 2", "m"), "float32"),
        v: R.Tensor(("n",), "float32"),
    ) -> R.Tuple(R.Tensor(("n",), "float32"), R.Tensor(("n", 4), "float32"), R.Tensor(("m",), "float32")):
        n = T.int64()
        m = T.int64()
        R.func_attr({"num_input": 2})
        z = R.zeros(R.shape([n, 4]), "float32")
        if c:
            y = R.add(v, v)
        else:
            y = R.negative(v)
        s = R.sum(w, axis=[0])
        q = R.add(z, x)
        return (y, q, s)


@pytest.mark.parametrize("condition", [True, False])
def test_weights_that_tell_extents_are_fetched_first(condition):
    rng = np.random.default_rng(0)
    x, w, v = (rng.standard_normal(shape).astype("float32") for shape in ((4,), (6, 5), (3,)))
    expected = (v + v if condition else -v, np.zeros((3, 4), "float32") + x, w.sum(0))

    def check(step, *weights):
        after = step(Symbolic)
        check_well_formed(after)
        vm = runners.VirtualMachine(relax.build(after, "llvm", tir_pipeline=None), runners.cpu())
        if after.contains("main_transform_params"):
            weights = vm["main_transform_params"]((w, v))
        found = vm["main"](np.array(condition), x, *weights)
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)

    check(transform.LazyGetInput(), lambda index, name: runners.array([w, v][int(index)]))
    check(transform.BundleModelParams(), (w, v))
    check(transform.LiftTransformParams())

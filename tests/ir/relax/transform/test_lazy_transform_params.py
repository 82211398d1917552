"""LazyTransformParams: a function of weights fetches and stores them one by one."""

from __future__ import annotations

import numpy as np

import ir
import runners
from ir import relax
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
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


def run(mod, name, weights):
    """What a function stores, after the pass, of weights that it fetches."""
    stored = {}
    ir.register_func("test.lazy_get", lambda index: runners.array(weights[int(index)]), override=True)
    ir.register_func(
        "test.lazy_set", lambda index, value: stored.__setitem__(int(index), value), override=True
    )
    after = transform.LazyTransformParams("test.lazy_get", "test.lazy_set")(mod)
    check_well_formed(after)
    vm = runners.VirtualMachine(relax.build(after, "llvm", tir_pipeline=None), runners.cpu())
    assert vm[name]() == ()
    return stored


def test_only_functions_that_transform_weights_are_lazy():
    @I.ir_module
    class Before:
        @R.function
        def first_transform_params(
            params: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")),
        ) -> R.Tuple(R.Tensor((4,), "float32")):
            a = params[0]
            b = R.negative(a)
            return (b,)

        @R.function
        def main(xs: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"))) -> R.Tensor(
            (4,), "float32"
        ):
            a = xs[0]
            b = xs[1]
            c = R.add(a, b)
            return c

    after = transform.LazyTransformParams()(Before)
    assert not after["first_transform_params"].params
    ir.assert_structural_equal(after["main"], Before["main"])


def test_fields_that_tell_extents_are_fetched_first():
    @I.ir_module
    class Before:
        @R.function
        def transform_params(
            params: R.Tuple(R.Tensor(("n * 2",), "float32"), R.Tensor(("n",), "float32")),
        ) -> R.Tuple(
            R.Tensor(("n",), "float32"), R.Tensor(("n * 2",), "float32"), R.Tensor(("n",), "float32")
        ):
            n = T.int64()
            z = R.zeros(R.shape([n]), "float32")
            a = params[0]
            b = R.negative(a)
            d = params[1]
            e = R.add(d, z)
            return (e, b, d)

    weights = [np.arange(6, dtype="float32"), np.ones(3, "float32")]
    stored = run(Before, "transform_params", weights)
    for number, wanted in enumerate((weights[1], -weights[0], weights[1])):
        np.testing.assert_array_equal(stored[number].numpy(), wanted)


def test_the_tuple_of_weights_as_a_whole():
    @I.ir_module
    class Before:
        @R.function
        def transform_params(
            params: R.Tuple(R.Tensor((6,), "float32"), R.Tensor((3,), "float32")),
        ) -> R.Tuple(
            R.Tuple(R.Tensor((6,), "float32"), R.Tensor((3,), "float32")), R.Tensor((3,), "float32")
        ):
            a = params[1]
            b = R.negative(a)
            return (params, b)

    weights = [np.arange(6, dtype="float32"), np.ones(3, "float32")]
    stored = run(Before, "transform_params", weights)
    for value, wanted in zip((*stored[0], stored[1]), (*weights, -weights[1]), strict=True):
        np.testing.assert_array_equal(value.numpy(), wanted)

"""LiftTransformParams: what depends on weights alone becomes a function of its own."""

from __future__ import annotations

import numpy as np

import ir
import runners
from ir import relax
from ir.relax import transform
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from tests.programs.graphs import Weights


def test_lift_transform_params_keeps_the_numbers():
    after = transform.LiftTransformParams()(Weights)
    main = after["main"]
    assert [param.name_hint for param in main.params] == ["x", "transformed_param_0", "b"]
    assert [b.value.op.name for b in main.body.blocks[0].bindings] == ["relax.matmul", "relax.add"]
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype("float32") for shape in ((2, 4), (3, 4), (3,)))
    vm = runners.VirtualMachine(relax.build(after, "llvm"), runners.cpu())
    transformed = vm["main_transform_params"]((w, b))
    result = vm["main"](x, *transformed).numpy()
    np.testing.assert_allclose(result, x @ (w.T * w.T) + b, rtol=1e-5, atol=1e-5)


def test_lift_transform_params_shared():
    both = ir.IRModule(
        {
            "first": Weights["main"].with_attr("global_symbol", "first"),
            "second": relax.copy_with_new_vars(Weights["main"]).with_attr("global_symbol", "second"),
        }
    )
    after = transform.LiftTransformParams(shared_transform=True)(both)
    assert sorted(var.name_hint for var in after.functions) == ["first", "second", "transform_params"]
    assert len(after["first"].params) == len(after["second"].params) == 3


def test_shared_transformed_weights_come_in_the_same_order_for_all_functions():
    @I.ir_module
    class Before:
        @R.function
        def first(
            x: R.Tensor((1, 3), "float32"), w: R.Tensor((3, 1), "float32"), b: R.Tensor((3,), "float32")
        ) -> R.Tensor((1, 3), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                turned = R.permute_dims(w)
                scaled = R.multiply(x, turned)
                root = R.exp(b)
                gv = R.add(scaled, root)
                R.output(gv)
            return gv

        @R.function
        def second(
            x: R.Tensor((1, 3), "float32"), w: R.Tensor((3, 1), "float32"), b: R.Tensor((3,), "float32")
        ) -> R.Tensor((1, 3), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                root = R.exp(b)
                moved = R.add(x, root)
                turned = R.permute_dims(w)
                gv = R.multiply(moved, turned)
                R.output(gv)
            return gv

    after = transform.LiftTransformParams(shared_transform=True)(Before)
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype("float32") for shape in ((1, 3), (3, 1), (3,)))
    weights = evaluate(after, (w, b), name="transform_params")
    for name in ("first", "second"):
        np.testing.assert_array_equal(
            evaluate(after, x, *weights, name=name), evaluate(Before, x, w, b, name=name)
        )

"""LiftTransformParams: what depends on weights alone becomes a function of its own."""

from __future__ import annotations

import numpy as np
import pytest

import ir
import runners
from ir import relax
from ir.error import IRValueError
from ir.pass_context import PassContext, PassError
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.relax.testing import evaluate
from ir.script import from_source
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from tests.programs.graphs import Weights

from .structure import operators


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


def test_a_weight_with_extents_that_only_an_input_tells_is_handed_on():
    """Of n + 1 elements alone nobody can tell n: what is computed from them stays where n is known."""

    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor(("n",), "float32"), w: R.Tensor(("n + 1",), "float32"), b: R.Tensor((2,), "float32")
        ) -> R.Tensor(("n + 1",), "float32"):
            n = T.int64()
            R.func_attr({"num_input": 1})
            with R.dataflow():
                twice: R.Tensor((n + 1,), "float32") = R.add(w, w)
                shift = R.sum(b, keepdims=True)
                longer: R.Tensor((n + 1,), "float32") = R.concat((x, shift))
                gv: R.Tensor((n + 1,), "float32") = R.add(longer, twice)
                R.output(gv)
            return gv

    after = transform.LiftTransformParams()(Before)
    check_well_formed(after)
    assert [b.value.op.name for b in after["main"].body.blocks[0].bindings] == [
        "relax.add",
        "relax.concat",
        "relax.add",
    ]
    vm = runners.VirtualMachine(relax.build(after, "llvm"), runners.cpu())
    x, w, b = np.arange(3, dtype="float32"), np.arange(4, dtype="float32"), np.array([5, 6], "float32")
    result = vm["main"](x, *vm["main_transform_params"]((w, b))).numpy()
    np.testing.assert_array_equal(result, np.concatenate([x, [11]]) + 2 * w)


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


def shared(name: str, weights: str, body: str) -> str:
    """The text of a function of ``x`` and weights of four numbers."""
    params = "".join(f', {weight}: R.Tensor((4,), "float32")' for weight in weights)
    lines = "".join(f"            {line}\n" for line in body.splitlines())
    return (
        f'    @R.function\n    def {name}(x: R.Tensor((4,), "float32"){params}) -> R.Tensor((4,), "float32"):\n'
        f'        R.func_attr({{"num_input": 1}})\n        with R.dataflow():\n{lines}            R.output(y)\n        return y\n'
    )


def module(*functions: str) -> ir.IRModule:
    return from_source("@I.ir_module\nclass Before:\n" + "".join(functions))


@pytest.mark.parametrize("names", [True, ["first", "second"], ["second", "first"]])
def test_functions_with_unequal_weights_share_a_transformation(names):
    """Weights are the same by name; a function takes those of the others and does not look at them."""
    before = module(
        shared("first", "wb", "t = R.exp(w)\nz = R.add(x, t)\ny = R.add(z, b)"),
        shared("second", "vw", "t = R.exp(w)\nu = R.negative(v)\nz = R.multiply(x, t)\ny = R.add(z, u)"),
    )
    after = transform.LiftTransformParams(shared_transform=names)(before)
    check_well_formed(after)
    assert operators(after, "transform_params") == ["relax.exp"]
    rng = np.random.default_rng(0)
    x, w, b, v = (rng.standard_normal(4).astype("float32") for _ in range(4))
    weights = evaluate(after, (w, b, v), name="transform_params")
    for name, own in (("first", (w, b)), ("second", (v, w))):
        np.testing.assert_array_equal(
            evaluate(after, x, *weights, name=name), evaluate(before, x, *own, name=name)
        )


def test_weights_of_one_name_must_be_of_one_type():
    before = module(
        shared("first", "w", "y = R.add(x, w)"),
        shared("second", "w", "y = R.add(x, w)").replace("w: R.Tensor((4,)", "w: R.Tensor((1,)"),
    )
    with pytest.raises(IRValueError, match="w is .* in first and .* in second"):
        transform.LiftTransformParams(shared_transform=True)(before)
    with pytest.raises(IRValueError, match="'third' is no function with the attribute num_input"):
        transform.LiftTransformParams(shared_transform=["third"])(before)


def test_the_option_to_consume_weights_is_refused():
    with pytest.raises(PassError, match="consume_params"):
        PassContext(config={"relax.lift_transform_params.consume_params": True})


def test_what_belongs_to_every_run_stays():
    """Objects that are changed later, memory that is overwritten, extents of inputs."""

    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def add_to(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("b"):
                    vi = T.axis.remap("S", [i])
                    a[vi] = a[vi] + b[vi]

        @R.function
        def main(
            x: R.Tensor((4,), "float32"),
            s: R.Tensor(("n",), "float32"),
            w: R.Tensor((4,), "float32"),
            v: R.Tensor(("m", 4), "float32"),
        ):
            R.func_attr({"num_input": 2})
            n = T.int64()
            m = T.int64()
            cls = Before
            with R.dataflow():
                zeros = R.zeros(R.shape([4]), "float32")
                sum1 = R.call_tir_inplace(
                    cls.add_to, (zeros, x), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0]
                )
                own = R.exp(w)
                sum2 = R.call_tir_inplace(
                    cls.add_to, (own, sum1), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0]
                )
                many = R.ones(R.shape([n]), "float32")
                total = R.sum(v, axis=[0])
                rows = R.ones(R.shape([m]), "float32")
                out = R.add(sum2, total)
                R.output(out, many, rows)
            return (out, many, rows)

    after = transform.LiftTransformParams()(Before)
    check_well_formed(after)
    assert operators(after, "main_transform_params") == ["relax.sum"] or operators(
        after, "main_transform_params"
    ) == ["relax.sum", "relax.ones"]
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(4).astype("float32") for _ in range(2))
    s, v = np.ones(2, "float32"), rng.standard_normal((3, 4)).astype("float32")
    weights = evaluate(after, (w, v), name="main_transform_params")
    for _ in range(2):
        for got, wanted in zip(evaluate(after, x, s, *weights), evaluate(Before, x, s, w, v), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_weights_that_tell_extents_are_taken_along():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((4,), "float32"), s: R.Tensor((1,), "float32"), v: R.Tensor(("m", 4), "float32")
        ):
            R.func_attr({"num_input": 2})
            m = T.int64()
            total = R.sum(v, axis=[0])
            y = R.add(x, total)
            z = R.broadcast_to(s, R.shape([m]))
            return (y, z)

    after = transform.LiftTransformParams()(Before)
    check_well_formed(after)
    x, s, v = np.ones(4, "float32"), np.ones(1, "float32"), np.ones((3, 4), "float32")
    weights = evaluate(after, (v,), name="main_transform_params")
    for got, wanted in zip(evaluate(after, x, s, *weights), evaluate(Before, x, s, v), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("shared", [False, True])
def test_two_names_of_one_lifted_value(shared):
    """A value that is lifted under several names is passed once, and all its names mean it."""
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
        R.func_attr({"num_input": 1})
        a = w
        b = R.exp(w)
        c = R.exp(a)
        y = R.add(x, a)
        z = R.add(y, b)
        u = R.multiply(z, c)
        v = R.multiply(u, w)
        return v
""")
    after = transform.LiftTransformParams(shared)(mod)
    check_well_formed(after)
    x, w = np.arange(4, dtype="float32"), np.arange(4, dtype="float32") / 4
    (name,) = [var.name_hint for var in after.functions if var.name_hint != "main"]
    lifted = evaluate(after, (w,), name=name)
    np.testing.assert_array_equal(evaluate(after, x, *lifted), evaluate(mod, x, w))

"""Changing functions together with their callers: references, arguments, fields of results, and the passes that do it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ir
from ir import relax
from ir.error import IRValueError
from ir.relax import transform
from ir.relax.analysis import well_formed
from ir.relax.function_signature import SignatureChange, change_signatures, replace_calls
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R

X = np.linspace(-1.0, 1.0, 4, dtype="float32").reshape(1, 4)
W = np.arange(16, dtype="float32").reshape(4, 4)
B = np.ones(4, dtype="float32")


@I.ir_module
class TwoLayers:
    """``main`` calls ``layer`` twice; ``outer`` calls ``main``."""

    @R.function
    def main(
        x: R.Tensor((1, 4), "float32"), w: R.Tensor((4, 4), "float32"), b: R.Tensor((4,), "float32")
    ) -> R.Tensor((1, 4), "float32"):
        R.func_attr({"num_input": 1})
        cls = TwoLayers
        y = cls.layer(x, w, b)
        z = cls.layer(y, w, b)
        return z

    @R.function(private=True)
    def layer(
        x: R.Tensor((1, 4), "float32"), w: R.Tensor((4, 4), "float32"), b: R.Tensor((4,), "float32")
    ) -> R.Tensor((1, 4), "float32"):
        R.func_attr({"num_input": 1})
        t = R.permute_dims(w)
        p = R.matmul(x, t)
        q = R.add(p, b)
        return q

    @R.function
    def outer(
        x: R.Tensor((1, 4), "float32"), w: R.Tensor((4, 4), "float32"), b: R.Tensor((4,), "float32")
    ) -> R.Tensor((1, 4), "float32"):
        cls = TwoLayers
        y = cls.main(x, w, b)
        return y


def calls_of(mod: Any, name: str) -> list[Any]:
    """All calls of a function in the module, checked against its signature."""
    func = mod[name]
    found = []
    for caller in mod.functions.values():
        for binding in relax.analysis.all_bindings(caller):
            call = binding.value
            if isinstance(call, relax.Call) and getattr(call.op, "name_hint", "") == name:
                assert call.op is mod.get_global_var(name), "a stale reference"
                assert call.op.struct_info == func.struct_info
                assert len(call.args) == len(func.params)
                for arg, param in zip(call.args, func.params, strict=True):
                    assert param.struct_info.is_base_of(arg.struct_info), (arg.struct_info, param.struct_info)
                assert call.struct_info == func.ret_struct_info
                found.append(call)
    return found


def test_arguments_and_references_follow() -> None:
    layer = TwoLayers.get_global_var("layer")
    func = TwoLayers["layer"]
    turned = relax.Function(
        [func.params[1], func.params[2], func.params[0]],
        func.body,
        func.ret_struct_info,
        func.is_pure,
        func.attrs,
    )

    def turn(builder: Any, call: Any) -> Any:
        x, w, b = call.args
        return call.with_args((w, b, builder.emit(relax.op.nn.relu(x))))

    after = change_signatures(TwoLayers, {layer: SignatureChange(turned, turn, name="turned")})
    assert well_formed(after)
    assert not after.contains("layer") and len(calls_of(after, "turned")) == 2
    first = np.maximum(X, 0) @ W.T + B
    np.testing.assert_allclose(evaluate(after, X, W, B), np.maximum(first, 0) @ W.T + B)
    assert len(calls_of(TwoLayers, "layer")) == 2  # the input is as it was


def test_signatures_of_callers_follow_what_they_return() -> None:
    """A caller that returns what its callee does changes with it, and so does the caller's caller."""
    layer = TwoLayers.get_global_var("layer")
    builder = relax.BlockBuilder()
    params = [relax.Var(p.name_hint, p.struct_info) for p in TwoLayers["layer"].params]
    with builder.function("layer", params, private=True):
        builder.emit_func_output(builder.emit(relax.op.astype(params[0], "float16")))
    new = builder.get()["layer"]

    def widen(b: Any, call: Any) -> Any:
        x, w, bias = call.args
        x = b.emit(relax.op.astype(x, "float32")) if x.struct_info.dtype != "float32" else x
        return call.with_args((x, w, bias))

    after = change_signatures(TwoLayers, {layer: SignatureChange(new, widen)})
    assert well_formed(after)
    for name in ("main", "outer"):
        assert after[name].ret_struct_info.dtype == "float16"
        assert after.get_global_var(name).struct_info == after[name].struct_info
    assert len(calls_of(after, "main")) == 1
    np.testing.assert_array_equal(evaluate(after, X, W, B, name="outer"), X.astype("float16"))


def test_kept_fields_are_read_where_they_are() -> None:
    @I.ir_module
    class Pairs:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Pairs
            t = cls.three(x)
            a = t[2]
            b = t[0]
            c = R.subtract(a, b)
            return c

        @R.function(private=True)
        def three(
            x: R.Tensor((4,), "float32"),
        ) -> R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"), R.Tensor((4,), "float32")):
            a = R.exp(x)
            b = R.negative(x)
            c = R.abs(x)
            return (a, b, c)

    after = transform.RemoveUnusedOutputs()(Pairs)
    assert well_formed(after)
    (call,) = calls_of(after, "three")
    assert len(call.struct_info.fields) == 2
    x = np.array([-1.0, 0.5, 2.0, -3.0], "float32")
    np.testing.assert_allclose(evaluate(after, x), evaluate(Pairs, x))


def test_a_function_used_as_a_value_is_refused() -> None:
    @I.ir_module
    class Closures:
        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Closures
            f = R.make_closure(cls.helper, (w,))
            y = R.invoke_pure_closure(f, (x,), sinfo_args=(R.Tensor((4,), "float32"),))
            return y

        @R.function(private=True)
        def helper(w: R.Tensor((4,), "float32"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"num_input": 1})
            y = R.add(x, w)
            return y

    with pytest.raises(IRValueError, match="helper.*used as a value"):
        transform.BundleModelParams()(Closures)


def test_replaced_calls_only() -> None:
    after = replace_calls(TwoLayers, {"layer": lambda builder, call: relax.op.exp(call.args[0])})
    assert well_formed(after)
    np.testing.assert_allclose(evaluate(after, X, W, B), np.exp(np.exp(X)), rtol=1e-6)
    assert replace_calls(TwoLayers, {"absent": lambda builder, call: call}) is TwoLayers


@pytest.mark.parametrize(
    "passes",
    [
        transform.BundleModelParams(),
        transform.LiftTransformParams(),
        transform.UpdateParamStructInfo(
            lambda p: relax.TensorStructInfo((4, 4), "float32") if p.name_hint == "w" else None
        ),
    ],
    ids=["bundle", "lift", "update"],
)
def test_passes_mend_the_callers_of_public_functions(passes: Any) -> None:
    after = passes(TwoLayers)
    assert well_formed(after)
    assert len(calls_of(after, "main")) == 1
    assert len(calls_of(after, "layer")) == 2
    np.testing.assert_allclose(
        evaluate(after, X, W, B, name="outer"), evaluate(TwoLayers, X, W, B), rtol=1e-6
    )


def test_bind_params_mends_callers() -> None:
    after = transform.BindParams("layer", {"b": B})(TwoLayers)
    assert well_formed(after)
    assert [len(call.args) for call in calls_of(after, "layer")] == [2, 2]
    np.testing.assert_allclose(evaluate(after, X, W, B), evaluate(TwoLayers, X, W, B), rtol=1e-6)


def test_bind_symbolic_vars_updates_references() -> None:
    @I.ir_module
    class Symbolic:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Symbolic
            y: R.Tensor((8,), "float32") = cls.helper(x)
            return y

        @R.function(private=True)
        def helper(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            y = R.exp(x)
            return y

    after = transform.BindSymbolicVars({"n": 8}, "helper")(Symbolic)
    assert well_formed(after)
    assert len(calls_of(after, "helper")) == 1
    assert after.get_global_var("helper").struct_info == after["helper"].struct_info


def test_mixed_precision_inputs_are_cast_by_callers() -> None:
    @I.ir_module
    class Caller:
        @R.function
        def outer(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor(
            (2, 4), "float32"
        ):
            cls = Caller
            y = cls.main(x, w)
            return y

        @R.function
        def main(x: R.Tensor((2, 4), "float32"), weight: R.Tensor((4, 4), "float32")) -> R.Tensor(
            (2, 4), "float32"
        ):
            with R.dataflow():
                y = R.matmul(x, weight)
                R.output(y)
            return y

    after = transform.ToMixedPrecision(fp16_input_names=["weight"])(Caller)
    assert well_formed(after)
    (call,) = calls_of(after, "main")
    assert call.args[1].struct_info.dtype == "float16"
    x, w = np.ones((2, 4), "float32"), np.eye(4, dtype="float32")
    np.testing.assert_allclose(evaluate(after, x, w, name="outer"), x)


def test_callbacks_are_refused_where_a_caller_has_none() -> None:
    for lazy in (transform.LazyGetInput(), transform.LazySetOutput()):
        with pytest.raises(IRValueError, match="main is called in the module.*callback"):
            lazy(ir.IRModule({v: f for v, f in TwoLayers.functions.items() if v.name_hint != "layer"}))


def test_virtual_devices_of_references() -> None:
    @I.ir_module
    class Devices:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def main(x: R.Tensor((4,), "float32", "llvm")) -> R.Tensor((4,), "float32", "llvm"):
            cls = Devices
            y = cls.helper(x)
            return y

        @R.function(private=True)
        def helper(x: R.Tensor((4,), "float32", "llvm")) -> R.Tensor((4,), "float32", "llvm"):
            y = R.exp(x)
            return y

    after = transform.UpdateVDevice(ir.VDevice("cuda", 0, "global"), 0)(Devices)
    assert len(calls_of(after, "helper")) == 1
    assert after["main"].ret_struct_info.vdevice.target.kind.name == "cuda"
    assert Devices["main"].ret_struct_info.vdevice.target.kind.name == "llvm"


def test_functions_that_call_themselves() -> None:
    @I.ir_module
    class M:
        @R.function(private=True)
        def loop(
            i: R.Tensor((), "int32"),
            x: R.Tensor((4,), "float32"),
            dead: R.Tensor((4,), "float32"),
            p: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")),
        ) -> R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")):
            cls = M
            c = R.less(i, R.const(5, "int32"))
            if c:
                j = R.add(i, R.const(1, "int32"))
                p0 = p[0]
                p1 = p[1]
                z = R.add(x, p0)
                t: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")) = cls.loop(
                    j, z, dead, (p1, z)
                )
                t1 = t[0]
                r: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")) = (t1, z)
            else:
                r: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")) = (x, dead)
            return r

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = M
            a = R.negative(x)
            b = cls.loop(R.const(0, "int32"), a, x, (a, x))
            d = b[0]
            return d

    x = np.float32([1, 2, 3, 4])
    for p in (
        transform.RemoveUnusedOutputs(),
        transform.RemoveUnusedParameters(),
        transform.ExpandTupleArguments(),
        transform.InlinePrivateFunctions(),
        transform.DeadCodeElimination(),
        transform.EliminateCommonSubexpr(),
        transform.ToMixedPrecision(fp16_input_names=["dead"]),
    ):
        after = p(M)
        assert well_formed(after)
        np.testing.assert_allclose(evaluate(after, x), evaluate(M, x))
    m = M
    for _ in range(2):
        for p in (
            transform.ExpandTupleArguments(),
            transform.RemoveUnusedOutputs(),
            transform.RemoveUnusedParameters(),
        ):
            m = p(m)
    np.testing.assert_allclose(evaluate(m, x), evaluate(M, x))

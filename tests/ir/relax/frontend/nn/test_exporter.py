"""What export_tvm makes of specifications, effects, parameters and external modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import IRModule, tir
from ir.relax.frontend import nn
from ir.relax.frontend.nn import spec
from ir.relax.function import Function
from ir.relax.struct_info import ObjectStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ir.relax.testing import evaluate
from tests.ir.relax.frontend.operators import op_names


def function_of(mod: IRModule, name: str) -> Function:
    func = mod[name]
    assert isinstance(func, Function)
    return func


def params_of(mod: IRModule, name: str) -> list[str]:
    return [param.name_hint for param in function_of(mod, name).params]


class Scale(nn.Module):
    def __init__(self, size: int | str = 4) -> None:
        self.weight = nn.Parameter((size,))

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return x * self.weight


SPEC = {"forward": {"x": spec.Tensor([2, 4], "float32")}}


def test_plain_export() -> None:
    mod, params = Scale().export_tvm(spec=SPEC)
    func = function_of(mod, "forward")
    assert params_of(mod, "forward") == ["x", "weight"]
    assert func.attrs["num_input"] == 1
    assert [name for name, _ in params] == ["weight"]
    assert func.ret_struct_info == TensorStructInfo((2, 4), "float32")
    x, w = np.ones((2, 4), np.float32), np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(mod, x, w, name="forward"), x * w)


def test_debug_adds_the_effect() -> None:
    mod, _ = Scale().export_tvm(spec=SPEC, debug=True)
    assert {var.name_hint for var in mod.functions} == {"_initialize_effect", "forward"}
    func = function_of(mod, "forward")
    assert params_of(mod, "forward") == ["x", "_io", "weight"]
    assert func.attrs["num_input"] == 2
    result = func.ret_struct_info
    assert isinstance(result, TupleStructInfo)
    assert result.fields[1] == TupleStructInfo([ObjectStructInfo()])
    assert op_names(mod, "_initialize_effect") == ["null_value"]


@pytest.mark.parametrize(
    ("param_mode", "effect_mode", "expected", "num_input"),
    [
        ("plain", "plain", ["x", "_io", "weight"], 2),
        ("packed", "plain", ["x", "_io", "packed_params"], 2),
        ("plain", "packed", ["x", "packed_effects", "weight"], 2),
        ("packed", "none", ["x", "packed_params"], 1),
        ("plain", "none", ["x", "weight"], 1),
    ],
)
def test_modes(param_mode: str, effect_mode: str, expected: list[str], num_input: int) -> None:
    options = {"$": {"param_mode": param_mode, "effect_mode": effect_mode}}
    mod, _ = Scale().export_tvm(spec={"forward": {**SPEC["forward"], **options}}, debug=True)
    assert params_of(mod, "forward") == expected
    assert function_of(mod, "forward").attrs["num_input"] == num_input


def test_packed_parameters_compute_the_same() -> None:
    raw = {"forward": {**SPEC["forward"], "$": {"param_mode": "packed", "effect_mode": "none"}}}
    mod, _ = Scale().export_tvm(spec=raw)
    x, w = np.ones((2, 4), np.float32), np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(mod, x, (w,), name="forward"), x * w)


def test_symbolic_extents_are_shared_by_name() -> None:
    mod, _ = Scale("n").export_tvm(spec={"forward": {"x": spec.Tensor(["m", "n"], "float32")}})
    x, weight = function_of(mod, "forward").params
    assert x.struct_info.shape_values[1] is weight.struct_info.shape_values[0]


class Positions(nn.Module):
    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return x + nn.op.arange(0, x.shape[0], 1, "float32")


@pytest.mark.parametrize("mode", ["plain", "packed", "none"])
def test_extents_of_inputs_are_not_negative_in_a_body(mode: str) -> None:
    """``arange(0, m)`` would have max(m, 0) elements where nothing is known of m."""
    named = {"x": spec.Tensor(["m"], "float32"), "$": {"param_mode": mode, "effect_mode": mode}}
    mod, _ = Positions().export_tvm(spec={"forward": named})
    func = function_of(mod, "forward")
    assert func.ret_struct_info == func.params[0].struct_info
    if mode == "none":
        found = evaluate(mod, np.ones(3, np.float32), name="forward")
        np.testing.assert_array_equal(found, np.array([1, 2, 3], np.float32))


def test_methods_do_not_share_symbols() -> None:
    class Two(Scale):
        def other(self, x: nn.Tensor) -> nn.Tensor:
            return self.forward(x) + x

    raw = {name: {"x": spec.Tensor(["m", "n"], "float32")} for name in ("forward", "other")}
    mod, _ = Two("n").export_tvm(spec=raw)
    first, second = (function_of(mod, name).params[0].struct_info.shape_values[1] for name in raw)
    assert first is not second


def test_integers_are_shapes() -> None:
    class Grow(nn.Module):
        def forward(self, x: nn.Tensor, n: int) -> nn.Tensor:
            return nn.op.broadcast_to(x, [n, 4])

    for kind in (int, "int", spec.Int, spec.Int()):
        mod, _ = Grow().export_tvm(spec={"forward": {"x": spec.Tensor([1, 4], "float32"), "n": kind}})
        param = function_of(mod, "forward").params[1]
        assert isinstance(param.struct_info, ShapeStructInfo)
        assert isinstance(param.struct_info.values[0], tir.Var)
    assert evaluate(mod, np.ones((1, 4), np.float32), (3,), name="forward").shape == (3, 4)


def test_tuples_and_objects() -> None:
    class Paged(nn.Object):
        pass

    class Model(nn.Module):
        def forward(self, pair: Any, cache: Paged) -> Any:
            assert isinstance(pair, list) and isinstance(cache, Paged)
            return pair[0] + pair[1][0], cache

    pair = [spec.Tensor([2], "float32"), (spec.Tensor([2], "float32"),)]
    raw = {"forward": {"pair": pair, "cache": spec.Object(object_type=Paged)}}
    mod, _ = Model().export_tvm(spec=raw)
    first, second = function_of(mod, "forward").params
    assert isinstance(first.struct_info, TupleStructInfo) and isinstance(
        first.struct_info.fields[1], TupleStructInfo
    )
    assert second.struct_info == ObjectStructInfo()
    ones = np.ones(2, np.float32)
    result = evaluate(mod, (ones, (ones,)), "a cache", name="forward")
    assert result[0].tolist() == [2, 2] and result[1] == "a cache"


def test_arguments_with_defaults_may_be_left_out() -> None:
    class Model(nn.Module):
        def forward(self, x: nn.Tensor, factor: float = 3.0, bias: nn.Tensor | None = None) -> nn.Tensor:
            out = x * factor
            return out if bias is None else out + bias

    x = np.ones(2, np.float32)
    mod, _ = Model().export_tvm(spec={"forward": {"x": spec.Tensor([2], "float32")}})
    assert evaluate(mod, x, name="forward").tolist() == [3, 3]
    one = spec.Tensor([2], "float32")
    mod, _ = Model().export_tvm(spec={"forward": {"x": one, "bias": one}})
    assert evaluate(mod, x, x, name="forward").tolist() == [4, 4]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"missing": {}}, "no method 'missing'"),
        ({"forward": {}}, r"lacks \['x'\]"),
        ({"forward": {"x": spec.Tensor([1], "float32"), "y": int}}, r"has \['y'\]"),
        ({"forward": {"x": "float32"}}, "argument 'x'"),
        (
            {"forward": {**SPEC["forward"], "$": {"param_mode": "flat"}}},
            "param_mode is 'plain', 'packed' or 'none'",
        ),
        ({}, "maps method names"),
    ],
)
def test_wrong_specifications(raw: Any, message: str) -> None:
    with pytest.raises(nn.NNError, match=message):
        Scale().export_tvm(spec=raw)


def test_specifications_print() -> None:
    raw = {"x": spec.Tensor([1, "n"], "float32"), "n": int}
    described = spec.MethodSpec.from_raw({**raw}, lambda x, n: x)
    assert "x: Tensor([1, n], 'float32'), n: int" in repr(described)


def test_specification_from_examples() -> None:
    made = spec.MethodSpec.from_torch([np.zeros((2, 3), np.float32), 4], lambda x, n: x)
    assert made.arg_names == ["x", "n"]
    assert made.arg_specs[0].shape == [2, 3] and isinstance(made.arg_specs[1], spec.Int)


def test_results_must_be_tensors() -> None:
    class Bad(nn.Module):
        def forward(self, x: nn.Tensor) -> Any:
            return 3

    with pytest.raises(TypeError, match="returns tensors, objects or tuples of them, got int"):
        Bad().export_tvm(spec=SPEC)


# ----------------------------------------------------------------------------------------------------------- effects
def test_kv_cache() -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            self.cache = nn.KVCache(8, [2, 4])

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            self.cache.append(x)
            return self.cache.view(4)

    mod, _ = Cached().export_tvm(spec={"forward": {"x": spec.Tensor([2, 4], "float32")}}, debug=True)
    assert op_names(mod, "_initialize_effect") == ["null_value", "zeros", "call_pure_packed"]
    assert op_names(mod, "forward") == ["call_inplace_packed", "call_pure_packed"]
    assert params_of(mod, "forward") == ["x", "_io", "cache"]
    result = function_of(mod, "forward").ret_struct_info
    assert isinstance(result, TupleStructInfo)
    assert result.fields[0] == TensorStructInfo((4, 2, 4), "float32")
    cached = Cached()
    cached.to("float16")
    with pytest.raises(TypeError, match='dtype "float16", but got "float32"'):
        cached.export_tvm(spec={"forward": {"x": spec.Tensor([2, 4], "float32")}})


def test_printing_needs_debug() -> None:
    class Printing(nn.Module):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            nn.op.print_(x)
            nn.op.debug_func("my.debug", x, 1, 2.0, "text")
            return x

    mod, _ = Printing().export_tvm(spec=SPEC, debug=True)
    first, second = (
        binding.value for block in function_of(mod, "forward").body.blocks for binding in block.bindings[:2]
    )
    assert first.args[2].value == "vm.builtin.debug_print"
    assert __file__ in first.args[3].value and first.args[3].value.split(":")[-1].isdigit()
    assert second.args[2].value == "my.debug" and len(second.args) == 8
    with pytest.raises(nn.NNError, match="debug=True"):
        Printing().export_tvm(spec=SPEC)


# -------------------------------------------------------------------------------------------------- external modules
def infer(a: nn.Tensor, b: nn.Tensor) -> nn.Tensor:
    x, y, _ = a.shape
    _, z, _ = b.shape
    return nn.Tensor.placeholder((x, y, z, 9), dtype="float32")


class External(nn.Module):
    def __init__(self, module: nn.ExternModule, times: int = 1) -> None:
        self.module, self.times = module, times

    def forward(self, a: nn.Tensor, b: nn.Tensor) -> nn.Tensor:
        for _ in range(self.times):
            nn.add_extern(self.module)
        return self.module["my_func"](a, b)


EXTERNAL_SPEC = {
    "forward": {"a": spec.Tensor(["x", "y", 1], "float32"), "b": spec.Tensor(["y", "z", 5], "float32")}
}


def test_external_modules_are_returned() -> None:
    module = nn.ExternModule(symbols={"my_func": infer})
    mod, params, ext_mods = External(module).export_tvm(spec=EXTERNAL_SPEC, allow_extern=True)
    assert ext_mods == [module] and params == []
    assert op_names(mod, "forward") == ["call_dps_packed"]
    result = function_of(mod, "forward").ret_struct_info
    assert isinstance(result, TensorStructInfo) and str(result.shape_values[2]) == "z"


def test_external_modules_must_be_allowed() -> None:
    module = nn.ExternModule(symbols={"my_func": infer})
    with pytest.raises(ValueError, match="allow_extern=True"):
        External(module).export_tvm(spec=EXTERNAL_SPEC)


def test_symbols_are_registered_once() -> None:
    module = nn.ExternModule(symbols={"my_func": infer})
    with pytest.raises(ValueError, match="'my_func' is already provided"):
        External(module, times=2).export_tvm(spec=EXTERNAL_SPEC, allow_extern=True)


def test_add_extern_needs_an_export() -> None:
    with pytest.raises(nn.NNError, match="no export"):
        nn.add_extern(nn.ExternModule(symbols={}))


def test_unknown_symbols() -> None:
    with pytest.raises(KeyError, match=r"no function 'other'.*\['my_func'\]"):
        nn.ExternModule(symbols={"my_func": infer})["other"]


# -------------------------------------------------------------------------------------------------------- subroutines
class Activation(nn.Module):
    define_subroutine = True

    def forward(self, state: nn.Tensor) -> nn.Tensor:
        return nn.op.tanh(state)


class Layer(nn.Module):
    define_subroutine = True

    def __init__(self, in_features: int, out_features: int) -> None:
        self.weights = nn.Parameter((in_features, out_features), dtype="float32")
        self.activation = Activation()

    def forward(self, state: nn.Tensor) -> nn.Tensor:
        return self.activation(nn.op.matmul(state, self.weights))


def test_subroutines() -> None:
    layer = Layer(64, 32)
    mod, params = layer.export_tvm(
        spec={"forward": {"state": spec.Tensor(("batch_size", 64), "float32")}}, debug=True
    )
    assert {var.name_hint for var in mod.functions} == {
        "_initialize_effect",
        "forward",
        "layer",
        "activation",
    }
    assert params_of(mod, "layer") == ["state", "weights"]
    assert "global_symbol" not in mod["layer"].attrs and "global_symbol" in mod["forward"].attrs
    assert op_names(mod, "forward") == ["layer"]
    assert op_names(mod, "layer") == ["matmul", "activation"]
    assert op_names(mod, "activation") == ["tanh"]
    outer, inner = (
        function_of(mod, name).params[0].struct_info.shape_values[0] for name in ("forward", "layer")
    )
    assert outer is not inner and outer.name == inner.name == "batch_size"
    assert [name for name, _ in params] == ["weights"]


def test_equal_subroutines_are_shared() -> None:
    class Stack(nn.Module):
        def __init__(self) -> None:
            self.layers = nn.ModuleList([Layer(8, 8), Layer(8, 8), Layer(8, 4)])

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return self.layers(x)

    mod, params = Stack().export_tvm(spec={"forward": {"x": spec.Tensor((2, 8), "float32")}})
    assert op_names(mod, "forward") == ["layer", "layer", "layer1"]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 8)).astype(np.float32)
    weights = [rng.standard_normal(param.shape).astype(np.float32) for _, param in params]
    expected = x
    for weight in weights:
        expected = np.tanh(expected @ weight)
    np.testing.assert_allclose(evaluate(mod, x, *weights, name="forward"), expected, rtol=1e-5)


def test_a_shape_alone_is_no_specification() -> None:
    class Net(nn.Module):
        def main(self, x: nn.Tensor) -> nn.Tensor:
            return x

    with pytest.raises(nn.NNError, match=r'got 2; a tensor of a shape is spec.Tensor\(\[2, 5\], "float32"\)'):
        Net().export_tvm(spec={"main": {"x": [2, 5]}})

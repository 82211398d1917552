"""What the importer does around the converters: inputs, weights, shape arithmetic, symbolic dimensions, errors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ir.relax.testing import evaluate
from tests.ir.relax.frontend.operators import op_names

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from ir import IRError  # noqa: E402
from ir.relax.expr import (  # noqa: E402
    Constant,
)
from ir.relax.frontend import detach_params  # noqa: E402
from ir.relax.frontend import onnx as frontend  # noqa: E402
from ir.relax.frontend.onnx import from_onnx  # noqa: E402
from ir.relax.function import Function  # noqa: E402
from ir.relax.struct_info import TensorStructInfo  # noqa: E402

FLOAT = TensorProto.FLOAT


def model(
    nodes: list[Any],
    inputs: dict[str, list[Any]],
    outputs: list[str],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 18,
    dtype: int = FLOAT,
) -> Any:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(op: str, inputs: list[str], outputs: list[str], **attrs: Any) -> Any:
    return helper.make_node(op, inputs, outputs, name=f"{op.lower()}_{outputs[0]}", **attrs)


def main_of(mod: Any) -> Function:
    func = mod["main"]
    assert isinstance(func, Function)
    return func


def shapes_of(mod: Any) -> list[list[str]]:
    return [[str(dim) for dim in param.struct_info.shape_values] for param in main_of(mod).params]


# ------------------------------------------------------------------------------------------------ inputs and weights
def linear_model() -> Any:
    weights = {"w.0": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(3, np.float32)}
    nodes = [node("MatMul", ["0x", "w.0"], ["h"]), node("Add", ["h", "b"], ["y"])]
    return model(nodes, {"0x": [4, 2]}, ["y"], weights)


def test_weights_are_constants_by_default() -> None:
    mod = from_onnx(linear_model())
    func = main_of(mod)
    assert [param.name_hint for param in func.params] == ["input_0x"]
    assert func.attrs["num_input"] == 1
    x = np.ones((4, 2), np.float32)
    np.testing.assert_allclose(evaluate(mod, x), x @ np.arange(6).reshape(2, 3) + 1)


def test_weights_as_inputs_are_detached() -> None:
    mod = from_onnx(linear_model(), keep_params_in_input=True)
    func = main_of(mod)
    assert [param.name_hint for param in func.params] == ["input_0x", "w_0", "b"]
    assert func.attrs["num_input"] == 1
    detached, params = detach_params(mod)
    assert "params" not in main_of(detached).attrs and "params" in main_of(mod).attrs
    assert [array.shape for array in params["main"]] == [(2, 3), (3,)]
    x = np.ones((4, 2), np.float32)
    np.testing.assert_allclose(evaluate(detached, x, *params["main"]), evaluate(from_onnx(linear_model()), x))


def test_names_can_stay_as_they_are() -> None:
    mod = from_onnx(linear_model(), sanitize_input_names=False)
    assert main_of(mod).params[0].name_hint == "0x"


def test_a_weight_used_twice_is_one_input() -> None:
    nodes = [node("Add", ["x", "w"], ["h"]), node("Mul", ["h", "w"], ["y"])]
    source = model(nodes, {"x": [2]}, ["y"], {"w": np.ones(2, np.float32), "unused": np.ones(2, np.float32)})
    assert [param.name_hint for param in main_of(from_onnx(source, keep_params_in_input=True)).params] == [
        "x",
        "w",
    ]


def test_dtypes_of_inputs() -> None:
    source = model([node("Abs", ["x"], ["y"])], {"x": [2]}, ["y"])
    assert main_of(from_onnx(source)).params[0].struct_info.dtype == "float32"
    assert main_of(from_onnx(source, dtype_dict={"x": "float16"})).params[0].struct_info.dtype == "float16"


def test_several_outputs_are_a_tuple() -> None:
    source = model([node("Abs", ["x"], ["y"]), node("Neg", ["x"], ["z"])], {"x": [2]}, ["y", "z"])
    y, z = evaluate(from_onnx(source), np.array([-1, 2], np.float32))
    assert y.tolist() == [1, 2] and z.tolist() == [1, -2]


def test_local_functions_are_inlined() -> None:
    function = helper.make_function(
        "local",
        "twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 18)],
    )
    source = model([], {"x": [2]}, ["y"])
    source.graph.node.append(helper.make_node("twice", ["x"], ["y"], domain="local"))
    source.opset_import.append(helper.make_opsetid("local", 1))
    source.functions.append(function)
    assert op_names(from_onnx(source)) == ["add"]


def test_graphs_without_a_model_and_other_opsets() -> None:
    """A bare graph says nothing of its opset; Softmax normalizes another way before opset 13."""
    source = model([node("Softmax", ["x"], ["y"], axis=1)], {"x": [2, 3, 4]}, ["y"], opset=18)
    x = np.random.default_rng(0).random((2, 3, 4), np.float32)
    newer, older = (evaluate(from_onnx(source.graph, opset=opset), x) for opset in (18, 11))
    np.testing.assert_allclose(newer.sum(1), np.ones((2, 4)), rtol=1e-6)
    np.testing.assert_allclose(older.sum((1, 2)), np.ones(2), rtol=1e-6)
    np.testing.assert_allclose(evaluate(from_onnx(source, opset=11), x), older)
    np.testing.assert_allclose(evaluate(from_onnx(source.graph), x), newer)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(frontend.ONNXImportError, match=r"pip install 'loopsmith\[onnx\]'"):
        from_onnx("model.onnx")


def test_paths_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(linear_model(), path)
    assert op_names(from_onnx(str(path))) == ["matmul", "add"]


# -------------------------------------------------------------------------------------------------- shape arithmetic
def reshape_by_shape(dims: list[Any]) -> Any:
    """What exporters write for ``x.reshape(x.shape[0], -1)``, and a product of extents for good measure."""
    weights = {
        "zero": np.array(0, np.int64),
        "rest": np.array([-1], np.int64),
        "axes": np.array([0], np.int64),
    }
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"], axis=0),
        node("Unsqueeze", ["batch", "axes"], ["batch1"]),
        node("Concat", ["batch1", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    return model(nodes, {"x": dims}, ["y"], weights)


def test_shape_arithmetic_is_folded() -> None:
    mod = from_onnx(reshape_by_shape([2, 3, 4]))
    assert op_names(mod) == ["reshape"]
    assert evaluate(mod, np.zeros((2, 3, 4), np.float32)).shape == (2, 12)


def test_shape_arithmetic_on_symbolic_extents() -> None:
    mod = from_onnx(reshape_by_shape(["batch", 3, 4]))
    assert op_names(mod) == ["reshape"]
    assert shapes_of(mod) == [["batch", "T.int64(3)", "T.int64(4)"]]
    for batch in (1, 5):
        assert evaluate(mod, np.zeros((batch, 3, 4), np.float32)).shape == (batch, 12)


def test_a_symbolic_shape_as_an_output() -> None:
    source = model([node("Shape", ["x"], ["y"])], {"x": ["n", 3]}, ["y"])
    mod = from_onnx(source)
    info = main_of(mod).ret_struct_info
    assert isinstance(info, TensorStructInfo) and info.dtype == "int64"


def test_constants_stay_constants() -> None:
    value = numpy_helper.from_array(np.array([1.0, 2.0], np.float32))
    nodes = [node("Constant", [], ["c"], value=value), node("Constant", [], ["k"], value_float=2.0)]
    nodes += [node("Mul", ["c", "k"], ["d"]), node("Add", ["x", "d"], ["y"])]
    mod = from_onnx(model(nodes, {"x": [2]}, ["y"]))
    assert op_names(mod) == ["add"]
    (binding,) = [item for item in main_of(mod).body.blocks[0].bindings if hasattr(item.value, "args")]
    assert isinstance(binding.value.args[1], Constant) and binding.value.args[1].data.tolist() == [2.0, 4.0]


def branching(condition: list[Any], weights: dict[str, np.ndarray], dims: tuple[Any, ...] = (2, 3)) -> Any:
    """An If that negates or doubles ``x``; its branches read ``x`` from outside."""

    def branch(inner: Any, output: str) -> Any:
        return helper.make_graph([inner], output, [], [helper.make_tensor_value_info(output, FLOAT, None)])

    chosen = node(
        "If",
        ["condition"],
        ["y"],
        then_branch=branch(node("Neg", ["x"], ["negated"]), "negated"),
        else_branch=branch(node("Add", ["x", "x"], ["doubled"]), "doubled"),
    )
    return model([*condition, chosen], {"x": list(dims)}, ["y"], weights)


@pytest.mark.parametrize(("rank", "expected"), [(2, "negative"), (3, "add")])
def test_branches_with_a_known_condition(rank: int, expected: str) -> None:
    """Exporters write an If for code that depends on shapes; only the branch that is taken is left."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Size", ["shape"], ["rank"]),
        node("Equal", ["rank", "r"], ["condition"]),
    ]
    assert op_names(from_onnx(branching(nodes, {"r": np.array(rank, np.int64)}))) == [expected]


def test_a_symbolic_extent_equals_itself() -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["rows"]),
        node("Gather", ["shape", "second"], ["columns"]),
        node("Equal", ["rows", "columns"], ["condition"]),
    ]
    weights = {"first": np.array(0), "second": np.array(1)}
    assert op_names(from_onnx(branching(nodes, weights, ("n", "n")))) == ["negative"]


def test_branches_that_depend_on_data_are_refused() -> None:
    nodes = [
        node("ReduceSum", ["x"], ["total"], keepdims=0),
        node("Greater", ["total", "zero"], ["condition"]),
    ]
    with pytest.raises(frontend.ConversionError, match=r"ONNX If \(node 'if_y'\): the condition is computed"):
        from_onnx(branching(nodes, {"zero": np.array(0, np.float32)}))


def test_operators_that_onnx_defines_by_others() -> None:
    """SwiGLU and its like have no converter; their definition in ONNX is imported in their place."""
    source = model([node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y"])], {"x": [2, 5]}, ["y"])
    source.graph.input.append(helper.make_tensor_value_info("t", TensorProto.INT64, [2]))
    mod = from_onnx(source)
    x, t = np.random.default_rng(0).random((2, 5), np.float32), np.array([1, 4])
    expected = -np.mean(np.log(np.exp(x) / np.exp(x).sum(1, keepdims=True))[[0, 1], t])
    np.testing.assert_allclose(evaluate(mod, x, t), expected, rtol=1e-5)


# ------------------------------------------------------------------------------------------------ symbolic dimensions
def test_dimensions_of_one_name_are_one_variable() -> None:
    source = model([node("Add", ["a", "b"], ["y"])], {"a": ["n", 2], "b": ["n", 2]}, ["y"])
    first, second = main_of(from_onnx(source)).params
    assert first.struct_info.shape_values[0] is second.struct_info.shape_values[0]


def test_shape_dict_gives_dimensions_their_values() -> None:
    source = model([node("Abs", ["x"], ["y"])], {"x": ["n", 2]}, ["y"])
    mod = from_onnx(source, shape_dict={"x": [7, 2]})
    assert evaluate(mod, np.ones((7, 2), np.float32)).shape == (7, 2)
    named = from_onnx(source, shape_dict={"x": ["m", 2]})
    assert shapes_of(named)[0][0] == "m"


def test_unnamed_dimensions_become_variables() -> None:
    source = model([node("Abs", ["x"], ["y"])], {"x": [None, 2]}, ["y"])
    assert shapes_of(from_onnx(source))[0][0] == "x_dim0"


def test_dynamic_dimensions_are_listed_with_the_fix() -> None:
    source = model([node("Add", ["a", "b"], ["y"])], {"a": ["n", 2], "b": [None, 2]}, ["y"])
    assert frontend.dynamic_dimensions(source) == {"a": ["n", 2], "b": ["?", 2]}
    with pytest.raises(frontend.DynamicShapeError) as caught:
        frontend.require_static_shapes(source, {"a": [1, 2]})
    message = str(caught.value)
    assert "b [?, 2]" in message and "shape_dict={'b': [1, ...]}" in message and "--shape" in message
    assert "a [" not in message and "\n" not in message
    frontend.require_static_shapes(source, {"a": [1, 2], "b": [1, 2]})


def test_broadcasting_of_old_opsets() -> None:
    """ONNX Runtime has no such operator any more: before opset 7 an attribute said where the second operand's axes belong."""
    source = model(
        [node("Add", ["a", "b"], ["y"], axis=1, broadcast=1)], {"a": [2, 3, 4], "b": [3]}, ["y"], opset=6
    )
    a, b = np.zeros((2, 3, 4), np.float32), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(from_onnx(source), a, b), a + b[None, :, None])


# ------------------------------------------------------------------------------------------------------------ errors
def test_all_unsupported_operators_are_reported_at_once() -> None:
    source = model([], {"x": [2]}, ["y"])
    for index in range(5):
        source.graph.node.append(
            helper.make_node("Foo", ["x"], [f"f{index}"], name=f"foo{index}", domain="my.domain")
        )
    source.graph.node.append(node("StringNormalizer", ["x"], ["y"]))
    source.opset_import.append(helper.make_opsetid("my.domain", 3))
    with pytest.raises(frontend.UnsupportedOperatorError) as caught:
        from_onnx(source)
    message = str(caught.value)
    assert "Foo (domain my.domain, opset 3): node foo0, foo1, foo2 and 2 more" in message
    assert "StringNormalizer (domain ai.onnx, opset 18): node stringnormalizer_y" in message
    assert "stringnormalizer_y; Foo" in " ".join(message.split())
    assert "2 more. Export the model without" in " ".join(message.split())
    assert ("my.domain", "Foo", 3, [f"foo{i}" for i in range(5)]) in caught.value.operators
    assert isinstance(caught.value, IRError)


def test_inputs_of_strings_are_refused_by_name() -> None:
    source = model([node("Identity", ["x"], ["y"])], {"x": [2]}, ["y"])
    source.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    with pytest.raises(IRError, match="input 'x' is of strings; only tensors of numbers are supported"):
        from_onnx(source)


@pytest.mark.parametrize("keep", [0, 1, 30, 100])
def test_truncated_files(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(linear_model().SerializeToString()[:keep])
    with pytest.raises(frontend.InvalidModelError, match=r"broken.onnx .*truncated"):
        from_onnx(path)


def test_files_that_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("this is not a model, whatever its name says")
    with pytest.raises(frontend.InvalidModelError, match=r"text.onnx"):
        frontend.load_model(path)
    with pytest.raises(frontend.InvalidModelError, match="no such file"):
        frontend.load_model(tmp_path / "missing.onnx")
    with pytest.raises(frontend.InvalidModelError, match="got int"):
        from_onnx(3)


def test_a_value_that_nothing_defines() -> None:
    source = model([node("Add", ["x", "ghost"], ["y"])], {"x": [2]}, ["y"])
    with pytest.raises(frontend.InvalidModelError, match=r"add_y.*'ghost'"):
        from_onnx(source)


def test_errors_of_inference_name_the_node() -> None:
    source = model([node("MatMul", ["a", "b"], ["y"])], {"a": [2, 3], "b": [4, 5]}, ["y"])
    with pytest.raises(frontend.ConversionError, match=r"ONNX MatMul \(node 'matmul_y'\)"):
        from_onnx(source)


def test_shape_dict_must_fit() -> None:
    source = model([node("Abs", ["x"], ["y"])], {"x": ["n", 2]}, ["y"])
    with pytest.raises(frontend.ConversionError, match=r"\['z'\].*it has: x"):
        from_onnx(source, shape_dict={"z": [1, 2]})
    with pytest.raises(frontend.ConversionError, match=r"\[1, 3\].*\[n, 2\]"):
        from_onnx(source, shape_dict={"x": [1, 3]})
    with pytest.raises(frontend.DynamicShapeError, match="from 0 on"):
        from_onnx(source, shape_dict={"x": [-1, 2]})


def test_an_extent_of_zero_is_a_number_and_names_that_say_nothing_are_different_extents() -> None:
    zero = model([node("Abs", ["x"], ["y"])], {"x": [0, 2]}, ["y"])
    assert shapes_of(from_onnx(zero)) == [["T.int64(0)", "T.int64(2)"]]
    open_ends = model([node("Add", ["x", "y"], ["z"])], {"x": ["?", "n"], "y": ["?", "n"]}, ["z"])
    (a, n), (b, m) = [param.struct_info.shape_values for param in main_of(from_onnx(open_ends)).params]
    assert n is m and a is not b


def test_a_shape_that_depends_on_data() -> None:
    graph_inputs = {"x": [4]}
    nodes = [node("Cast", ["x"], ["s"], to=TensorProto.INT64), node("Reshape", ["x", "s"], ["y"])]
    with pytest.raises(frontend.DynamicShapeError, match=r"reshape_y.*shape_dict"):
        from_onnx(model(nodes, graph_inputs, ["y"]))


def test_converters_can_be_added() -> None:
    from ir.relax import op

    @frontend.converter("Twice", since=2, domain="test.domain")
    def _twice(ctx: frontend.NodeContext) -> Any:
        return op.multiply(ctx.expr(0), ctx.scalar(ctx.attr("factor", 2.0), ctx.expr(0)))

    source = model([], {"x": [2]}, ["y"])
    source.graph.node.append(helper.make_node("Twice", ["x"], ["y"], domain="test.domain", factor=3.0))
    source.opset_import.append(helper.make_opsetid("test.domain", 2))
    assert evaluate(from_onnx(source), np.array([1, 2], np.float32)).tolist() == [3, 6]
    assert frontend.find_converter("Twice", "test.domain", 1) is None

"""Files whose parts are none: the error is ours, and names the part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from ir.relax.frontend.onnx import from_onnx  # noqa: E402
from ir.relax.frontend.onnx.error import InvalidModelError, ONNXImportError  # noqa: E402


def model() -> Any:
    """A pad whose result a constant is added to."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    one = numpy_helper.from_array(np.ones(2, "float32"), "one")
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["t"], mode="constant", name="padded"),
        helper.make_node("Constant", [], ["c"], value=one, name="ones"),
        helper.make_node("Add", ["t", "c"], ["y"]),
    ]
    pads = numpy_helper.from_array(np.zeros(2, np.int64), "pads")
    return helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], [pads]),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )


def _weight_type(made: Any) -> None:
    made.graph.initializer[0].data_type = 32768


def _constant_type(made: Any) -> None:
    made.graph.node[1].attribute[0].t.data_type = TensorProto.UNDEFINED


def _text(made: Any) -> None:
    made.graph.node[0].attribute[0].s = b"\xf5"


def _name(made: Any) -> None:
    data = made.SerializeToString().replace(b"padded", b"padd\xf5d")
    made.ParseFromString(data)


def _input_name(made: Any) -> None:
    made.graph.input.append(helper.make_tensor_value_info("unused", TensorProto.FLOAT, ["extent"]))
    made.ParseFromString(made.SerializeToString().replace(b"unused", b"unu\xf5ed"))


def _dimension(made: Any) -> None:
    _input_name(made)
    made.graph.input[1].name = "other"
    made.ParseFromString(made.SerializeToString().replace(b"extent", b"ext\xf5nt"))


def _inputs(made: Any) -> None:
    made.graph.node[2].input.append("x")


def _outputs(made: Any) -> None:
    del made.graph.node[0].output[:]


def _version(made: Any) -> None:
    made.opset_import[0].version = 2**40


def _negative_version(made: Any) -> None:
    made.opset_import[0].version = -3


def _input_type(made: Any) -> None:
    made.graph.input[0].type.tensor_type.elem_type = 77


@pytest.mark.parametrize(
    "breaks, says",
    [
        (_weight_type, "the weight 'pads' has elements of the type 32768"),
        (_constant_type, "the attribute 'value' of Constant (node 'ones') cannot be read: .*UNDEFINED"),
        (_text, "the attribute 'mode' of Pad (node 'padded') cannot be read: .*utf-8"),
        (_name, "a node has the name b'padd.xf5d', which is no text"),
        (_input_name, "an input, an output or a weight has the name b'unu.xf5ed', which is no text"),
        (_dimension, "a dimension has the name b'ext.xf5nt', which is no text"),
        (_inputs, "Add (node 'y') has 3 inputs, and ONNX has it with 2"),
        (_outputs, "Pad (node 'padded') has 0 outputs"),
        (_version, "version 1099511627776 of the operators of 'ONNX'"),
        (_negative_version, "version -3 of the operators"),
        (_input_type, "input 'x' has elements of the type 77, which ONNX does not have"),
    ],
)
def test_what_is_broken_is_named(breaks: Callable[[Any], None], says: str) -> None:
    made = model()
    from_onnx(made)
    breaks(made)
    pattern = says.replace("(node '", r"\(node '").replace("')", r"'\)")
    with pytest.raises(InvalidModelError, match=pattern):
        from_onnx(made)


@pytest.mark.parametrize("op_type", ["Reshape", "ReduceSum", "Add", "Min"])
def test_an_input_that_an_operator_needs_is_missed(op_type: str) -> None:
    """Also where all others are known, so that the operator could be computed at once."""
    made = model()
    made.graph.initializer.append(numpy_helper.from_array(np.array([2], np.int64), "two"))
    made.graph.node.append(helper.make_node(op_type, ["", "two"], ["z"], name="lacking"))
    made.graph.output.append(helper.make_tensor_value_info("z", TensorProto.INT64, None))
    with pytest.raises(ONNXImportError, match="lacking"):
        from_onnx(made)


def test_an_axis_is_not_resized_beyond_what_can_be_computed() -> None:
    made = model()
    made.graph.initializer.append(numpy_helper.from_array(np.array([2**25], np.int64), "sizes"))
    resize = helper.make_node(
        "Resize", ["x", "", "", "sizes"], ["z"], mode="linear", coordinate_transformation_mode="align_corners"
    )
    made.graph.node.append(resize)
    made.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    with pytest.raises(ONNXImportError, match="axis 0 would have 33554432 elements; at most 1048576"):
        from_onnx(made)

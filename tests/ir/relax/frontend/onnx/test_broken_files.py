"""Files whose parts are none: the error is ours, and names the part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from ir.relax.frontend.onnx import from_onnx  # noqa: E402
from ir.relax.frontend.onnx.error import InvalidModelError  # noqa: E402


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

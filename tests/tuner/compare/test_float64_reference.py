"""An ONNX model in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tuner.compare.float64_reference import float64_outputs  # noqa: E402

TINY = 2.0**-30
"""Too small to be seen in a float32 beside one."""


def model(narrow: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """``if p: cast(x) + (one + tiny) else: x``, whose sum only float64 keeps."""
    dtype = helper.tensor_dtype_to_np_dtype(narrow)
    then = helper.make_graph(
        [
            helper.make_node("Constant", [], ["one"], value_float=1.0),
            helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["wide", "one"], ["more"]),
            helper.make_node("Cast", ["tiny"], ["tiny_wide"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["more", "tiny_wide"], ["y_then"]),
        ],
        "then",
        [],
        [helper.make_tensor_value_info("y_then", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(np.asarray([TINY, 0], dtype), "tiny")],
    )
    otherwise = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y_else"], to=TensorProto.FLOAT)],
        "else",
        [],
        [helper.make_tensor_value_info("y_else", TensorProto.FLOAT, [2])],
    )
    graph = helper.make_graph(
        [helper.make_node("If", ["p"], ["y"], then_branch=then, else_branch=otherwise)],
        "main",
        [
            helper.make_tensor_value_info("p", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", narrow, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("narrow", [TensorProto.FLOAT, TensorProto.BFLOAT16])
def test_branches_constants_and_casts_are_wide(narrow: int, tmp_path: Path) -> None:
    x = np.array([0.5, 2], helper.tensor_dtype_to_np_dtype(narrow))
    (found,) = float64_outputs(model(narrow).SerializeToString(), [np.array(True), x]) or [None]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [1.5 + TINY, 3.0])
    onnx.save(model(narrow), tmp_path / "model.onnx")
    (found,) = float64_outputs(tmp_path / "model.onnx", [np.array(False), x]) or [None]
    np.testing.assert_array_equal(found, [0.5, 2])


def test_what_it_cannot_run_has_no_judge() -> None:
    assert float64_outputs(b"no model", []) is None
    assert float64_outputs(model().SerializeToString(), [np.array(True)]) is None

"""An ONNX model in float64, run by ONNX's own reference evaluator: who is right where two runtimes differ.

The evaluator is written in numpy and shares nothing with the runtimes that are compared. It is slow: some seconds to minutes for a model
of usual size.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .reference import OnnxSource


def float64_outputs(source: OnnxSource, arrays: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The outputs of a model whose floats, weights and inputs are all float64; None where the evaluator cannot run it.

    Args:
        source: the model, of float32, float16 or bfloat16.
        arrays: its inputs in order.
    """
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        return None
    try:
        model = onnx.load(str(source)) if isinstance(source, Path) else onnx.load_from_string(source)
        widen(model)
        known = {item.name for item in model.graph.initializer}
        names = [item.name for item in model.graph.input if item.name not in known]
        feed = dict(zip(names, map(_wide, arrays), strict=True))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(model).run(None, feed)
        return [np.asarray(value) for value in found]
    except Exception:  # it knows fewer operators than the runtimes, and raises whatever numpy does
        return None


def widen(model: Any) -> None:
    """Make float64 of each narrower float type of a ``ModelProto``: weights, inputs, constants, and what casts name."""
    for graph in _graphs(model.graph):
        for tensor in graph.initializer:
            _widen_tensor(tensor)
        for value in (*graph.input, *graph.output, *graph.value_info):
            _widen_type(value.type.tensor_type)
    for node in _nodes(model):
        for attribute in node.attribute:
            _widen_attribute(node, attribute)


def _wide(array: np.ndarray) -> np.ndarray:
    is_float = np.issubdtype(array.dtype, np.floating) or "float" in array.dtype.name
    return array.astype(np.float64) if is_float else array


def _narrow_types() -> frozenset[int]:
    from onnx import TensorProto

    return frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16})


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph, and those inside of its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graphs(inner)


def _nodes(model: Any) -> Iterator[Any]:
    for graph in _graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        for node in function.node:
            yield node
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    for graph in _graphs(attribute.g):
                        yield from graph.node


def _widen_tensor(tensor: Any) -> None:
    from onnx import numpy_helper

    if tensor.data_type in _narrow_types():
        value = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))


def _widen_type(tensor_type: Any) -> None:
    from onnx import TensorProto

    if tensor_type.elem_type in _narrow_types():
        tensor_type.elem_type = TensorProto.DOUBLE


def _widen_attribute(node: Any, attribute: Any) -> None:
    from onnx import TensorProto, helper, numpy_helper

    if attribute.HasField("t"):
        _widen_tensor(attribute.t)
    elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
        value = attribute.f if attribute.name == "value_float" else list(attribute.floats)
        tensor = numpy_helper.from_array(np.asarray(value, np.float64))
        attribute.CopyFrom(helper.make_attribute("value", tensor))
    elif attribute.name in ("to", "dtype") and attribute.i in _narrow_types():
        attribute.i = TensorProto.DOUBLE

"""The exporter against ONNX Runtime: every operator that it takes, and what it says of those it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ir.relax.testing import evaluate

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from ir import IRModule, relax  # noqa: E402
from ir.relax import op as R  # noqa: E402
from ir.relax.frontend.onnx import (  # noqa: E402
    ONNXExportError,
    exportable_operators,
    from_onnx,
    to_onnx,
)

IMAGE, WIDE, PAIR = (2, 4, 9, 8), (2, 3, 5), [(2, 3), (3,)]
_EVEN, _ROWS = np.arange(30).reshape(WIDE) % 2 == 0, np.array([[2, 0], [1, 1]], np.int64)
_UNARY = "negative abs exp cos sin tanh erf sigmoid nn.relu nn.gelu nn.silu".split()
_BINARY = "add subtract multiply divide maximum minimum".split()
_POSITIVE = np.linspace(0.5, 3, 6).reshape(2, 3).astype("float32")


def _function(name: str) -> Any:
    return getattr(R.nn if name.startswith("nn.") else R, name.removeprefix("nn."))


# operator, inputs (given by shape or value), the call
CASES: list[tuple[str, Sequence[Any], Callable[..., Any]]] = [
    *((name, [(2, 3)], _function(name)) for name in _UNARY),
    *((name, PAIR, _function(name)) for name in _BINARY),
    ("log", [_POSITIVE], R.log),
    ("sqrt", [_POSITIVE], R.sqrt),
    ("power", [_POSITIVE, (3,)], R.power),
    ("where", [_EVEN, WIDE, (5,)], R.where),
    ("matmul", [(2, 1, 3, 4), (5, 4, 6)], R.matmul),
    ("nn.conv1d", [(1, 4, 9), (6, 4, 3)], lambda x, w: R.nn.conv1d(x, w, strides=2, padding=(1, 0))),
    (
        "nn.conv2d",
        [IMAGE, (6, 2, 3, 2)],
        lambda x, w: R.nn.conv2d(x, w, strides=(2, 1), padding=(0, 1, 2, 3), dilation=(2, 1), groups=2),
    ),
    ("nn.conv3d", [(1, 2, 4, 5, 6), (3, 2, 3, 2, 1)], lambda x, w: R.nn.conv3d(x, w, padding=1)),
    ("nn.max_pool1d", [(1, 2, 9)], lambda x: R.nn.max_pool1d(x, 3, 2, 1)),
    ("nn.max_pool2d", [IMAGE], lambda x: R.nn.max_pool2d(x, (3, 2), (2, 1), (1, 0, 1, 1), dilation=(2, 1))),
    ("nn.max_pool3d", [(1, 2, 4, 5, 6)], lambda x: R.nn.max_pool3d(x, 2, 2)),
    ("nn.avg_pool1d", [(1, 2, 9)], lambda x: R.nn.avg_pool1d(x, 3, 2, 1)),
    ("nn.avg_pool2d", [IMAGE], lambda x: R.nn.avg_pool2d(x, (3, 2), 2, 1, count_include_pad=True)),
    ("nn.avg_pool2d", [IMAGE], lambda x: R.nn.avg_pool2d(x, (3, 2), 2, 1)),
    ("nn.avg_pool3d", [(1, 2, 4, 5, 6)], lambda x: R.nn.avg_pool3d(x, 2, 2)),
    ("nn.softmax", [WIDE], lambda x: R.nn.softmax(x, 1)),
    ("clip", [WIDE], lambda x: R.clip(x, -1, 0.5)),
    ("nn.layer_norm", [WIDE, (3, 5), (3, 5)], lambda x, g, b: R.nn.layer_norm(x, g, b, [1, 2], 1e-3)),
    (
        "nn.layer_norm",
        [WIDE, (5,), (5,)],
        lambda x, g, b: R.nn.layer_norm(x, g, b, -1, center=False, scale=False),
    ),
    ("nn.rms_norm", [WIDE, (3, 5)], lambda x, w: R.nn.rms_norm(x, w, [1, 2])),
    ("mean", [WIDE], lambda x: R.mean(x, [0, -1])),
    ("mean", [WIDE], R.mean),
    ("mean", [WIDE], lambda x: R.mean(x, [])),
    ("max", [WIDE], lambda x: R.max(x, [])),
    ("sum", [WIDE], lambda x: R.sum(x, [])),
    ("sum", [WIDE], lambda x: R.sum(x, 1, keepdims=True)),
    ("sum", [WIDE], R.sum),
    ("max", [WIDE], lambda x: R.max(x, -1)),
    ("min", [WIDE], lambda x: R.min(x, [0, 1])),
    ("reshape", [WIDE], lambda x: R.reshape(x, (5, -1))),
    ("reshape", [(0, 3)], lambda x: R.reshape(x, (0, 7))),
    ("flatten", [WIDE], R.flatten),
    ("expand_dims", [WIDE], lambda x: R.expand_dims(x, [1, -1])),
    ("squeeze", [(2, 1, 3, 1)], lambda x: R.squeeze(x, [1])),
    ("broadcast_to", [(3, 1)], lambda x: R.broadcast_to(x, (2, 3, 4))),
    ("permute_dims", [WIDE], R.permute_dims),
    ("permute_dims", [WIDE], lambda x: R.permute_dims(x, [1, 2, 0])),
    ("permute_dims", [()], R.permute_dims),
    ("concat", [WIDE, (2, 1, 5)], lambda *parts: R.concat(list(parts), 1)),
    ("concat", [(3,), (4,)], lambda x, y: R.concat([x, y], None)),
    ("split", [WIDE], lambda x: R.split(x, [1, 3], -1)),
    ("split", [WIDE], lambda x: R.split(x, 2, 2)),
    ("take", [WIDE, _ROWS], lambda x, i: R.take(x, i, 1)),
    ("take", [(7,), _ROWS], R.take),
    ("astype", [WIDE], lambda x: R.astype(x, "int32")),
]


def module_of(shapes: Sequence[Any], call: Callable[..., Any]) -> tuple[IRModule, list[np.ndarray]]:
    """A module of one call, and inputs to it."""
    rng = np.random.default_rng(0)
    arrays = [i if isinstance(i, np.ndarray) else rng.uniform(-2, 2, i).astype("float32") for i in shapes]
    params = [
        relax.Var(f"x{number}", relax.TensorStructInfo(array.shape, str(array.dtype)))
        for number, array in enumerate(arrays)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(call(*params))
        builder.emit_func_output(out)
    return builder.get(), arrays


def run_onnx(model: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    onnx.checker.check_model(model, full_check=True)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(
        None, dict(zip([item.name for item in session.get_inputs()], arrays, strict=True))
    )
    return found


@pytest.mark.parametrize(
    ("shapes", "call"), [case[1:] for case in CASES], ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)]
)
def test_operator_means_the_same_in_onnx_runtime(shapes: Sequence[Any], call: Callable[..., Any]) -> None:
    mod, arrays = module_of(shapes, call)
    wanted = evaluate(mod, *arrays)
    found = run_onnx(to_onnx(mod), arrays)
    for ours, theirs in zip(wanted if isinstance(wanted, list | tuple) else [wanted], found, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)


def test_every_exportable_operator_has_a_case() -> None:
    assert {f"relax.{name}" for name, *_ in CASES} == set(exportable_operators())


def test_an_input_may_be_returned_and_a_value_twice() -> None:
    mod, (x,) = module_of([(2, 3)], lambda x: relax.Tuple([x, x]))
    model = to_onnx(mod)
    assert len({out.name for out in model.graph.output}) == 2
    for found in run_onnx(model, [x]):
        np.testing.assert_array_equal(found, x)


def test_params_become_initializers_and_come_back_as_constants() -> None:
    mod, (x, w) = module_of([(2, 3), (3, 4)], R.matmul)
    model = to_onnx(mod, {"x1": w})
    assert [item.name for item in model.graph.input] == ["x0"]
    assert [item.name for item in model.graph.initializer] == ["x1"]
    np.testing.assert_allclose(evaluate(from_onnx(model), x), x @ w, rtol=1e-5)


def test_all_operators_without_counterpart_are_named_at_once() -> None:
    mod, _ = module_of([(2, 3)], lambda x: R.cumsum(R.atan(R.exp(x)), 0))
    with pytest.raises(ONNXExportError, match=r"relax\.atan, relax\.cumsum") as caught:
        to_onnx(mod)
    assert caught.value.operators == ["relax.atan", "relax.cumsum"]


@pytest.mark.parametrize(
    ("shapes", "call", "says"),
    [
        ([IMAGE], lambda x: R.nn.max_pool2d(x, 2, ceil_mode=True), r"relax\.nn\.max_pool2d.*ceil_mode"),
        ([IMAGE], lambda x: R.nn.max_pool2d(x, 2, layout="NHWC"), "layout NHWC"),
        ([(4,), (2,)], lambda x, w: R.astype(x, "float8_e4m3"), "dtype float8_e4m3"),
        ([WIDE, (3,)], lambda x, w: R.nn.rms_norm(x, w, 1), r"axes \[1\] of 3"),
    ],
)
def test_attributes_without_counterpart_are_refused(shapes: Any, call: Any, says: str) -> None:
    mod, _ = module_of(shapes, call)
    with pytest.raises(ONNXExportError, match=says):
        to_onnx(mod)


def test_open_dimensions_and_unknown_params_are_refused() -> None:
    from ir import tir

    x = relax.Var("x", relax.TensorStructInfo((tir.Var("n", "int64"), 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(R.exp(x))
        builder.emit_func_output(out)
    with pytest.raises(ONNXExportError, match="parameter x has no static shape"):
        to_onnx(builder.get())
    mod, (array,) = module_of([(2, 3)], R.exp)
    with pytest.raises(ONNXExportError, match="no parameter 'w'; it has: x0"):
        to_onnx(mod, {"w": array})

"""Every converter against ONNX Runtime: a model of one node on random inputs.

The imported module runs twice: on the operators' numpy references, which shows a wrong converter, and built to native code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ir.relax.testing import evaluate

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import runners  # noqa: E402
from ir import relax  # noqa: E402
from ir.relax.frontend.onnx import from_onnx, supported_operators  # noqa: E402

F, I64, B, I32 = np.float32, np.int64, np.bool_, np.int32


@dataclass
class Case:
    """One node; inputs are arrays or shapes of random float arrays, ``weights`` names those given as initializers."""

    op: str
    inputs: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 18
    weights: tuple[int, ...] = ()
    low: float = -2.0
    high: float = 2.0
    domain: str = ""
    label: str = ""
    atol: float = 1e-5

    @property
    def id(self) -> str:
        return "-".join([self.op, str(self.opset), *([self.label] if self.label else [])])


def arrays_of(case: Case) -> list[np.ndarray | None]:
    rng = np.random.default_rng(sum(map(ord, case.id)))
    made: list[np.ndarray | None] = []
    for item in case.inputs:
        if item is None or isinstance(item, np.ndarray):
            made.append(item)
        else:
            made.append(rng.uniform(case.low, case.high, item).astype(F))
    return made


def model_of(case: Case, arrays: list[np.ndarray | None]) -> Any:
    """The model of one node; shapes of outputs are left to inference."""
    names = ["" if array is None else f"in{i}" for i, array in enumerate(arrays)]
    outputs = [f"out{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, name="the_node", domain=case.domain, **case.attrs)
    inputs, weights = [], []
    for i, (name, array) in enumerate(zip(names, arrays)):
        if array is None:
            continue
        if i in case.weights:
            weights.append(numpy_helper.from_array(array, name))
        else:
            code = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(name, code, array.shape))
    infos = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([node], "one", inputs, infos, weights)
    opsets = [helper.make_opsetid("", case.opset)]
    if case.domain:
        opsets.append(helper.make_opsetid(case.domain, 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return onnx.shape_inference.infer_shapes(model)  # the runtime wants the outputs' dtypes


def run_reference(model: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """ONNX Runtime's results."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def run_built(mod: Any, feeds: dict[str, np.ndarray]) -> Any:
    """The module as native code."""
    return runners.VirtualMachine(relax.build(mod), runners.cpu())["main"](*feeds.values())


def check(case: Case, run: Callable[[Any, dict[str, np.ndarray]], Any]) -> None:
    arrays = arrays_of(case)
    model = model_of(case, arrays)
    feeds = {f"in{i}": item for i, item in enumerate(arrays) if item is not None and i not in case.weights}
    expected = run_reference(model, feeds)
    result = run(from_onnx(model), feeds)
    results = [np.asarray(item) for item in (result if isinstance(result, tuple | list) else [result])]
    assert len(results) == len(expected)
    for got, wanted in zip(results, expected, strict=True):
        assert got.dtype == wanted.dtype
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=case.atol)


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


X = (2, 3, 4)
IMAGE = (1, 4, 8, 7)
UNARY = [
    *("Abs Atan Ceil Cos Erf Exp Floor Neg Sigmoid Sign Sin Tan Tanh Relu Identity".split()),
    *("Elu Selu Celu LeakyRelu HardSigmoid HardSwish Softplus Softsign Mish ThresholdedRelu".split()),
    *("Sinh Cosh Asinh Reciprocal Round Hardmax".split()),
]
CASES = [
    *[Case(op, [X]) for op in UNARY],
    Case("Acos", [X], low=-0.9, high=0.9),
    Case("Asin", [X], low=-0.9, high=0.9),
    Case("Atanh", [X], low=-0.9, high=0.9),
    Case("Acosh", [X], low=1.1, high=3.0),
    Case("Log", [X], low=0.1),
    Case("Sqrt", [X], low=0.0),
    Case("Not", [np.array([True, False])]),
    Case("IsNaN", [np.array([1.0, np.nan, np.inf], F)]),
    Case("IsInf", [np.array([1.0, np.nan, np.inf, -np.inf], F)]),
    Case("IsInf", [np.array([1.0, -np.inf, np.inf], F)], {"detect_negative": 0}, label="positive"),
    Case("IsInf", [np.array([1.0, -np.inf, np.inf], F)], {"detect_positive": 0}, label="negative"),
    Case(
        "IsInf",
        [np.array([1.0, -np.inf, np.inf], F)],
        {"detect_positive": 0, "detect_negative": 0},
        label="neither",
    ),
    Case("LeakyRelu", [X], {"alpha": 0.3}, label="alpha"),
    Case("Gelu", [X], opset=20),
    Case("Gelu", [X], {"approximate": "tanh"}, opset=20, label="tanh"),
    Case("PRelu", [X, (3, 1)]),
    Case("Softmax", [X]),
    Case("Softmax", [X], {"axis": 1}, label="axis"),
    Case("Softmax", [X], {"axis": 1}, opset=11, label="flattening"),
    Case("LogSoftmax", [X]),
    Case("Dropout", [X], opset=13),
    # binary and variadic
    *[Case(op, [X, (4,)]) for op in "Add Sub Mul Div".split()],
    *[Case(op, [X, X]) for op in "Less LessOrEqual Greater GreaterOrEqual Equal".split()],
    Case("Div", [np.array([7, -7, 8], I64), np.array([2, 2, -3], I64)], label="integer"),
    Case("Pow", [X, (4,)], low=0.5),
    *[
        Case("Pow", [X, np.array(p, F)], weights=(1,), low=0.1, label=str(p))
        for p in (1.0, 2.0, 3.0, 0.5, 1.7)
    ],
    Case("Pow", [X, np.array(2, I64)], weights=(1,), label="integer exponent"),
    Case("Mod", [np.array([7, -7, 8], I64), np.array([3, 3, -3], I64)]),
    Case("Mod", [X, X], {"fmod": 1}, label="fmod"),
    *[
        Case(op, [np.array([True, False, True]), np.array([True, True, False])])
        for op in ("And", "Or", "Xor")
    ],
    *[Case(op, [X, X, (4,)]) for op in ("Min", "Max", "Sum", "Mean")],
    *[
        Case(op, [np.array([6, 5], I32), np.array([3, 1], I32)])
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    ],
    Case("BitwiseNot", [np.array([6, 5], I32)]),
    Case("BitShift", [np.array([6, 5], np.uint32), np.array([2, 1], np.uint32)], {"direction": "RIGHT"}),
    Case("Where", [np.array([[True], [False]]), (2, 3), (3,)]),
    Case("Clip", [X, np.array(-0.5, F), np.array(0.5, F)], weights=(1, 2)),
    Case("Clip", [X, np.array(-0.5, F), np.array(0.5, F)], label="inputs"),
    Case("Clip", [X, None, np.array(0.5, F)], weights=(2,), label="max only"),
    Case("Clip", [X], {"min": -0.5, "max": 0.25}, opset=6, label="attributes"),
    Case("Cast", [X], {"to": TensorProto.INT32}),
    Case("Cast", [np.array([0, 2, -3], I64)], {"to": TensorProto.FLOAT}, label="to float"),
    Case("CastLike", [np.array([0, 2, -3], I64), (1,)]),
    # reductions
    *[
        Case(
            f"Reduce{name}", [X], {"axes": [1], "keepdims": keep}, opset=13, low=0.1, label=f"keepdims{keep}"
        )
        for name in "Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split()
        for keep in (0, 1)
    ],
    Case("ReduceSum", [X, ints(0, -1)], weights=(1,)),
    Case("ReduceSum", [X], label="all"),
    Case("ReduceSum", [X], {"noop_with_empty_axes": 1}, label="noop"),
    Case("ReduceMean", [X, ints(-1)], weights=(1,), label="axes input"),
    Case("ArgMax", [X], {"axis": 1}),
    Case("ArgMin", [X], {"axis": -1, "keepdims": 0}),
    Case("ArgMax", [np.array([[1.0, 2.0, 2.0]], F)], {"axis": 1, "select_last_index": 1}, label="last"),
    Case("CumSum", [X, np.array(1, I64)], weights=(1,)),
    Case("CumSum", [X, np.array(1, I64)], {"exclusive": 1, "reverse": 1}, weights=(1,), label="reverse"),
    Case("TopK", [X, ints(2)], {"axis": -1}, outputs=2, weights=(1,)),
    Case("TopK", [X, ints(2)], {"axis": 1, "largest": 0}, outputs=2, weights=(1,), label="smallest"),
    # shapes
    Case("Reshape", [X, ints(0, -1)], weights=(1,)),
    Case("Reshape", [X, ints(4, 6)], weights=(1,), label="plain"),
    Case("Flatten", [X], {"axis": 2}),
    Case("Flatten", [X], {"axis": 0}, label="axis0"),
    Case("Transpose", [X], {"perm": [2, 0, 1]}),
    Case("Transpose", [X], label="reverse"),
    Case("Squeeze", [(1, 3, 1), ints(0)], weights=(1,)),
    Case("Squeeze", [(1, 3, 1)], {"axes": [2]}, opset=11, label="attribute"),
    Case("Unsqueeze", [X, ints(0, -1)], weights=(1,)),
    Case("Unsqueeze", [X], {"axes": [0, 3]}, opset=11, label="attribute"),
    Case("Concat", [X, (2, 1, 4)], {"axis": 1}),
    Case("Split", [X, ints(1, 3)], {"axis": 2}, outputs=2, weights=(1,)),
    Case("Split", [(5, 2)], {"num_outputs": 2}, outputs=2, label="uneven"),
    Case("Split", [X], {"axis": 2, "split": [3, 1]}, outputs=2, opset=11, label="attribute"),
    Case("Slice", [X, ints(0, 1), ints(2, 100), ints(0, 2), ints(1, 2)], weights=(1, 2, 3, 4)),
    Case("Slice", [X, ints(-1), ints(-100), ints(2), ints(-1)], weights=(1, 2, 3, 4), label="reversed"),
    Case("Slice", [X, ints(-3), ints(-1), ints(2)], weights=(1, 2, 3), label="negative"),
    Case("Slice", [X], {"starts": [1], "ends": [3], "axes": [2]}, opset=9, label="attributes"),
    Case("Expand", [(3, 1), ints(2, 1, 4)], weights=(1,)),
    Case("Expand", [(3, 1), ints(1, 1)], weights=(1,), label="same"),
    Case("Tile", [(2, 3), ints(2, 1)], weights=(1,)),
    Case("Shape", [X]),
    Case("Shape", [X], {"start": 1, "end": -1}, label="part"),
    Case("Size", [X]),
    Case("Trilu", [(3, 4)]),
    Case("Trilu", [(3, 4), np.array(1, I64)], {"upper": 0}, weights=(1,), label="lower"),
    Case("Pad", [(2, 3), ints(1, 0, 2, 1), np.array(1.5, F)], weights=(1, 2)),
    Case("Pad", [(4, 5), ints(1, 2, 2, 1)], {"mode": "reflect"}, weights=(1,), label="reflect"),
    Case("Pad", [(4, 5), ints(1, 2, 2, 1)], {"mode": "edge"}, weights=(1,), label="edge"),
    Case("Pad", [(4, 5), ints(-1, 0, 0, 1)], weights=(1,), label="negative"),
    Case("DepthToSpace", [(1, 8, 2, 3)], {"blocksize": 2}),
    Case("DepthToSpace", [(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}, label="CRD"),
    Case("SpaceToDepth", [(1, 2, 4, 6)], {"blocksize": 2}),
    Case(
        "Resize",
        [IMAGE, None, np.array([1, 1, 2, 2], F)],
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        weights=(2,),
    ),
    Case("Resize", [IMAGE, None, None, ints(1, 4, 12, 14)], {"mode": "linear"}, weights=(3,), label="linear"),
    Case(
        "Resize",
        [IMAGE, None, np.array([1, 1, 2, 2], F)],
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
        weights=(2,),
        label="cubic",
        atol=1e-4,
    ),
    Case("Upsample", [IMAGE, np.array([1, 1, 2, 2], F)], weights=(1,), opset=9),
    # indexing
    Case("Gather", [X, np.array([[0, 2], [1, 1]], I64)], {"axis": 1}),
    Case("Gather", [X, np.array(-1, I64)], {"axis": 2}, weights=(1,), label="scalar"),
    Case("Gather", [(5, 4), np.array([[0, 4]], I64)], weights=(0,), label="embedding"),
    Case("GatherElements", [(3, 3), np.array([[0, -1, 2]], I64)], {"axis": 0}),
    Case("GatherND", [(2, 3, 4), np.array([[0, 1], [1, 2]], I64)]),
    Case("ScatterElements", [(3, 3), np.array([[0, 2, 1]], I64), (1, 3)], {"axis": 0}),
    Case("ScatterND", [(4, 3), np.array([[1], [3]], I64), (2, 3)]),
    Case("OneHot", [np.array([0, 2, -1], I64), np.array(4, I64), np.array([0.5, 2.0], F)], weights=(1, 2)),
    # creation
    Case(
        "ConstantOfShape",
        [ints(2, 3)],
        {"value": helper.make_tensor("v", TensorProto.FLOAT, [1], [1.5])},
        weights=(0,),
    ),
    Case("Range", [np.array(1, I64), np.array(7, I64), np.array(2, I64)], weights=(0, 1, 2)),
    Case("EyeLike", [(3, 4)], {"k": 1}),
    # products, convolutions, pooling
    Case("MatMul", [(2, 3, 4), (4, 5)]),
    Case("MatMul", [(4,), (2, 4, 5)], label="vector"),
    Case("Gemm", [(3, 4), (5, 4), (5,)], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    Case("Gemm", [(4, 3), (4, 5)], {"transA": 1}, label="no bias"),
    Case("Gemm", [(3, 4), (5, 4), (5,)], {"transB": 1}, weights=(1, 2), label="weights"),
    Case("Einsum", [(2, 3), (3, 4)], {"equation": "ij,jk->ik"}),
    Case("Conv", [IMAGE, (6, 4, 3, 3), (6,)], {"pads": [1, 1, 1, 1], "strides": [2, 1]}, weights=(1, 2)),
    Case("Conv", [IMAGE, (4, 1, 3, 3)], {"group": 4, "dilations": [2, 1]}, label="depthwise"),
    Case("Conv", [IMAGE, (6, 4, 3, 3)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, label="same upper"),
    Case("Conv", [IMAGE, (6, 4, 2, 2)], {"auto_pad": "SAME_LOWER"}, label="same lower"),
    Case("Conv", [IMAGE, (6, 4, 3, 3)], {"pads": [0, 1, 2, 0]}, label="uneven padding"),
    Case("Conv", [(1, 2, 9), (3, 2, 3), (3,)], {"pads": [1, 1]}, label="1d"),
    Case("Conv", [(1, 2, 4, 5, 5), (3, 2, 3, 3, 3)], label="3d"),
    Case(
        "ConvTranspose",
        [IMAGE, (4, 3, 3, 3), (3,)],
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]},
    ),
    Case("ConvTranspose", [(1, 2, 5), (2, 3, 3)], {"strides": [2]}, label="1d"),
    Case("MaxPool", [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    Case("MaxPool", [IMAGE], {"kernel_shape": [3, 2], "ceil_mode": 1, "strides": [2, 2]}, label="ceil"),
    Case("MaxPool", [(1, 2, 9)], {"kernel_shape": [3]}, label="1d"),
    Case("AveragePool", [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    Case(
        "AveragePool",
        [IMAGE],
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        label="include",
    ),
    Case("GlobalAveragePool", [IMAGE]),
    Case("GlobalMaxPool", [IMAGE]),
    Case("GlobalLpPool", [IMAGE]),
    Case(
        "MatMulInteger",
        [np.array([[1, 2]], np.uint8), np.array([[3], [4]], np.uint8), np.array(1, np.uint8)],
        weights=(2,),
    ),
    Case("LpPool", [IMAGE], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 0]}),
    Case("LpPool", [IMAGE], {"kernel_shape": [2, 2], "p": 3, "strides": [2, 2]}, label="p3", opset=18),
    Case("ConvTranspose", [(1, 2, 3, 3, 3), (2, 2, 2, 2, 2)], {"strides": [2, 2, 2]}, label="3d"),
    Case("Shrink", [X], {"bias": 0.2, "lambd": 0.7}),
    Case("NonZero", [np.array([[1.0, 0.0], [2.0, 3.0]], F)]),
    Case("Unique", [np.array([2.0, 1.0, 2.0, 3.0], F)], outputs=4),
    Case("Unique", [np.array([2.0, 1.0, 2.0, 3.0], F)], label="values alone"),
    Case("QuantizeLinear", [X, np.array(0.02, F), np.array(100, np.uint8)], weights=(1, 2)),
    Case(
        "QuantizeLinear",
        [X, np.array([0.1, 0.2, 0.3], F), np.zeros(3, np.int8)],
        {"axis": 1},
        label="per channel",
    ),
    Case(
        "DequantizeLinear",
        [np.array([[1, 255], [128, 7]], np.uint8), np.array(0.1, F), np.array(128, np.uint8)],
    ),
    Case(
        "DequantizeLinear",
        [np.array([[-3, 9]], np.int8), np.array([0.5, 2.0], F)],
        {"axis": 1},
        label="per channel",
    ),
    # normalization
    Case("BatchNormalization", [IMAGE, (4,), (4,), (4,), (4,)], low=0.5, weights=(1, 2, 3, 4), opset=15),
    Case("InstanceNormalization", [IMAGE, (4,), (4,)], atol=1e-4),
    Case("LayerNormalization", [X, (4,), (4,)], atol=1e-4),
    Case("LayerNormalization", [X, (3, 4)], {"axis": 1}, label="axis", atol=1e-4),
    Case("LayerNormalization", [X, (3, 4), (4,)], {"axis": 1}, label="bias of fewer axes", atol=1e-4),
    Case("GroupNormalization", [IMAGE, (2,), (2,)], {"num_groups": 2}, atol=1e-4),
    Case("RMSNormalization", [X, (4,)], opset=23),
    Case("LpNormalization", [X], {"p": 1}),
    Case("MeanVarianceNormalization", [IMAGE], atol=1e-4),
    Case("LRN", [IMAGE], {"size": 3}),
    # ONNX Runtime's own operators, as its optimizer writes them
    Case("BiasGelu", [X, (4,)], domain="com.microsoft"),
    Case("FastGelu", [X], domain="com.microsoft"),
    Case("QuickGelu", [X], domain="com.microsoft"),
    Case("FusedMatMul", [(2, 3), (4, 3)], {"transB": 1, "alpha": 0.5}, domain="com.microsoft"),
    Case(
        "Attention",
        [(2, 5, 8), (8, 24), (24,), np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], I32)],
        {"num_heads": 2},
        domain="com.microsoft",
        atol=1e-4,
    ),
    Case(
        "Attention",
        [(1, 5, 8), (8, 24), (24,)],
        {"num_heads": 4, "unidirectional": 1},
        domain="com.microsoft",
        label="causal",
        atol=1e-4,
    ),
    Case(
        "EmbedLayerNormalization",
        [
            np.array([[1, 2, 0]], I32),
            np.array([[0, 1, 1]], I32),
            (6, 4),
            (8, 4),
            (2, 4),
            (4,),
            (4,),
            np.array([[1, 1, 0]], I32),
        ],
        outputs=2,
        domain="com.microsoft",
        label="mask",
        atol=1e-4,
    ),
    Case(
        "EmbedLayerNormalization",
        [np.array([[1, 2, 0]], I32), np.array([[0, 1, 1]], I32), (6, 4), (8, 4), (2, 4), (4,), (4,)],
        outputs=2,
        domain="com.microsoft",
        atol=1e-4,
    ),
    Case("SkipLayerNormalization", [X, X, (4,), (4,), (4,)], domain="com.microsoft", atol=1e-4),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_matches_onnx_runtime(case: Case) -> None:
    check(case, lambda mod, feeds: evaluate(mod, *feeds.values()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_built_matches_onnx_runtime(case: Case) -> None:
    check(case, run_built)


def test_every_default_operator_has_a_case() -> None:
    """A converter without a case is a converter without a test."""
    tested = {case.op for case in CASES if not case.domain}
    # Tested elsewhere: constants and shapes in test_importer, the rest are older names of tested converters.
    elsewhere = {"Constant", "Scatter", "SimplifiedLayerNormalization", "Swish"}
    assert set(supported_operators()[""]) - tested - elsewhere == set()

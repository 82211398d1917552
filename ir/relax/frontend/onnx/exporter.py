"""From a module to an ONNX model: the bindings of a function become nodes, its weights initializers.

This is for running a model in another runtime, so only modules as a frontend makes them are taken: static shapes, no
control flow, no calls of TIR kernels. What has no counterpart is found first and reported all at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ir.module import IRModule
from ir.node import Node, post_order_visit
from ir.op import Op
from ir.relax.expr import Call, Constant, Expr, If, MatchCast, PrimValue, SeqExpr, TupleGetItem, Var
from ir.relax.expr import Tuple as RxTuple
from ir.relax.function import ExternFunc, Function
from ir.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo

from .error import ONNXExportError

OPSET = 17
"""The opset of exported models, the first with LayerNormalization."""

_IR_VERSION = 8

# A tensor is known by the name of its ONNX value, a tuple by the list of its fields.
Value = str | list[Any]
Lowering = Callable[["GraphWriter", Call], Value]

_LOWERINGS: dict[str, Lowering] = {}


def exportable_operators() -> list[str]:
    """The Relax operators that :func:`to_onnx` takes, sorted."""
    return sorted(_LOWERINGS)


def to_onnx(mod: IRModule, params: Mapping[str, Any] | None = None, func_name: str = "main") -> Any:
    """A function of a module as ``onnx.ModelProto``.

    Args:
        mod: the module, before any pass has legalized its operators.
        params: arrays by the name of the parameter that they bind; these become initializers, the other parameters inputs.
        func_name: the function to export. A tuple that it returns becomes one output per tensor.

    Raises:
        ONNXExportError: the onnx package is not installed, operators or attributes have no counterpart, a shape is not
            static, or ``params`` names no parameter of the function.
    """
    function = mod[func_name]
    if not isinstance(function, Function) or not isinstance(function.body, SeqExpr):
        raise ONNXExportError(
            f"{func_name} is no Relax function with bindings; name one of the module's Relax functions"
        )
    _require_exportable(function)
    writer = GraphWriter(_onnx_library())
    given = dict(params or {})
    inputs = []
    for param in function.params:
        name = writer.fresh(param.name_hint)
        writer.values[param] = name
        if param.name_hint in given:
            writer.add_initializer(name, _array(given.pop(param.name_hint)))
        else:
            inputs.append(writer.value_info(name, param.struct_info, f"parameter {param.name_hint}"))
    if given:
        raise ONNXExportError(
            f"{func_name} has no parameter {next(iter(given))!r}; it has: {', '.join(p.name_hint for p in function.params)}"
        )
    for block in function.body.blocks:
        for binding in block.bindings:
            writer.values[binding.var] = writer.value(binding.value, binding.var.name_hint)
    outputs = writer.outputs(writer.value(function.body.body, "output"), function.body.body.struct_info)
    return writer.model(func_name, inputs, outputs)


def _onnx_library() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ONNXExportError(
            "writing ONNX models needs the onnx package: pip install 'loopsmith[onnx]'"
        ) from error
    return onnx


def _require_exportable(function: Function) -> None:
    """Report everything that has no counterpart in one error."""
    missing: dict[str, None] = {}

    def visit(node: Node) -> None:
        if isinstance(node, Call):
            name = _operator(node)
            if name not in _LOWERINGS:
                missing[name] = None
        elif isinstance(node, If | MatchCast | ExternFunc) or (
            isinstance(node, Function) and node is not function
        ):
            missing[str(type(node).__name__)] = None

    post_order_visit(function, visit)
    if missing:
        raise ONNXExportError(
            f"no ONNX counterpart for: {', '.join(sorted(missing))}; export the module before it is lowered,"
            " or give these operators a lowering in ir/relax/frontend/onnx/exporter.py",
            sorted(missing),
        )


def _operator(call: Call) -> str:
    return str(call.op.name) if isinstance(call.op, Op) else str(call.op)


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _extents(info: StructInfo | None, what: str) -> list[int]:
    """The static extents of a tensor or a shape."""
    shape = info.shape if isinstance(info, TensorStructInfo) else info
    values = getattr(shape, "values", None)
    if values is None or any(not hasattr(extent, "value") for extent in values):
        raise ONNXExportError(
            f"{what} has no static shape: {info}; give its dimensions values before the export"
        )
    return [int(extent.value) for extent in values]


class GraphWriter:
    """The graph so far: nodes, initializers, and the ONNX name of every Relax variable."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.values: dict[Var, Value] = {}
        self._used: set[str] = set()

    def fresh(self, hint: str) -> str:
        """A name that no other value has."""
        name, number = hint, 0
        while name in self._used:
            number += 1
            name = f"{hint}_{number}"
        self._used.add(name)
        return name

    def add_initializer(self, name: str, array: np.ndarray) -> None:
        """A weight or a constant under a fresh name."""
        self.initializers.append(
            self.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        )

    def constant(self, value: Any, dtype: str) -> str:
        """An array or a number as an initializer."""
        name = self.fresh("constant")
        self.add_initializer(name, np.asarray(value, dtype))
        return name

    def emit(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        """A node of one output, which is returned."""
        return self.emit_many(op_type, inputs, 1, **attrs)[0]

    def emit_many(self, op_type: str, inputs: Iterable[str], count: int, **attrs: Any) -> list[str]:
        """A node of several outputs."""
        outputs = [self.fresh(op_type.lower()) for _ in range(count)]
        self.nodes.append(
            self.onnx.helper.make_node(op_type, list(inputs), outputs, name=outputs[0], **attrs)
        )
        return outputs

    def value(self, expr: Expr, what: str) -> Value:
        """The ONNX value of an expression; nodes are added for calls. ``what`` names the binding in errors."""
        if isinstance(expr, Var):
            return self.values[expr]
        if isinstance(expr, Constant):
            array = _array(expr.data)
            return self.constant(array, str(array.dtype))
        if isinstance(expr, RxTuple):
            return [self.value(field, what) for field in expr.fields]
        if isinstance(expr, TupleGetItem):
            return self.value(expr.tuple_value, what)[expr.index]
        if isinstance(expr, Call):
            try:
                return _LOWERINGS[_operator(expr)](self, expr)
            except ONNXExportError as error:
                raise ONNXExportError(f"{_operator(expr)}, bound to {what}: {error}") from error
        raise ONNXExportError(f"{what} is bound to a {type(expr).__name__}, which has no ONNX counterpart")

    def tensor(self, call: Call, index: int) -> str:
        """The tensor that is an argument of a call."""
        found = self.value(call.args[index], f"argument {index}")
        if not isinstance(found, str):
            raise ONNXExportError(f"argument {index} is a tuple where ONNX takes a tensor")
        return found

    def tensors(self, call: Call) -> list[str]:
        """All arguments of a call, which are tensors."""
        return [self.tensor(call, index) for index in range(len(call.args))]

    def value_info(self, name: str, info: StructInfo | None, what: str) -> Any:
        """The declaration of an input or output."""
        if not isinstance(info, TensorStructInfo) or info.dtype is None:
            raise ONNXExportError(
                f"{what} is no tensor of known dtype but {info}; ONNX graphs take and return tensors"
            )
        return self.onnx.helper.make_tensor_value_info(
            name, self.element_type(info.dtype), _extents(info, what)
        )

    def element_type(self, dtype: str) -> int:
        """ONNX's number for a dtype."""
        try:
            return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        except (TypeError, KeyError, ValueError) as error:
            raise ONNXExportError(f"ONNX has no dtype {dtype}") from error

    def outputs(self, value: Value, info: StructInfo | None) -> list[Any]:
        """Declarations of the graph's outputs; each gets a node of its own, as an input may be returned, or a value twice."""
        if isinstance(value, list):
            fields = info.fields if isinstance(info, TupleStructInfo) else [None] * len(value)
            return [
                out for item, field in zip(value, fields, strict=True) for out in self.outputs(item, field)
            ]
        name = self.fresh("output")
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name], name=name))
        return [self.value_info(name, info, "the result")]

    def model(self, name: str, inputs: list[Any], outputs: list[Any]) -> Any:
        """The finished model."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="loopsmith"
        )


def _lowering(*names: str) -> Callable[[Lowering], Lowering]:
    def register(function: Lowering) -> Lowering:
        for name in names:
            _LOWERINGS[f"relax.{name}"] = function
        return function

    return register


# operators that ONNX has too, with the same meaning and no attributes

_SAME = {
    "relax.add": "Add",
    "relax.subtract": "Sub",
    "relax.multiply": "Mul",
    "relax.power": "Pow",
    "relax.maximum": "Max",
    "relax.minimum": "Min",
    "relax.negative": "Neg",
    "relax.abs": "Abs",
    "relax.exp": "Exp",
    "relax.log": "Log",
    "relax.sqrt": "Sqrt",
    "relax.cos": "Cos",
    "relax.sin": "Sin",
    "relax.tanh": "Tanh",
    "relax.erf": "Erf",
    "relax.sigmoid": "Sigmoid",
    "relax.where": "Where",
    "relax.nn.relu": "Relu",
}


def _same_as(op_type: str) -> Lowering:
    return lambda g, call: g.emit(op_type, *g.tensors(call))


_LOWERINGS.update({name: _same_as(op_type) for name, op_type in _SAME.items()})


# what lowerings ask of calls


def _info(call: Call, index: int) -> TensorStructInfo:
    info = call.args[index].struct_info
    if not isinstance(info, TensorStructInfo) or info.dtype is None or info.ndim < 0:
        raise ONNXExportError(f"argument {index} is no tensor of known dtype and rank but {info}")
    return info


def _number(expr: Expr) -> int | float:
    value = expr.value if isinstance(expr, PrimValue) else None
    if value is None or not hasattr(value, "value"):
        raise ONNXExportError(f"{expr} is not a number that is known now")
    number: int | float = value.value
    return number


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ONNXExportError(f"{what} has no ONNX counterpart")


def _first_of_trailing(axes: Iterable[int], ndim: int) -> int:
    """The first of the axes, which must be the last ones of the tensor."""
    places = sorted(axis % ndim for axis in axes)
    _require(places == list(range(places[0], ndim)), f"normalization over axes {places} of {ndim}")
    return places[0]


# multiplication and windows


@_lowering("matmul")
def _matmul(g: GraphWriter, call: Call) -> Value:
    out_dtype = call.attrs["out_dtype"]
    _require(out_dtype in ("", "void", _info(call, 0).dtype), f"out_dtype {out_dtype}")
    return g.emit("MatMul", *g.tensors(call))


@_lowering("nn.conv1d", "nn.conv2d", "nn.conv3d")
def _conv(g: GraphWriter, call: Call) -> Value:
    attrs = call.attrs
    _require_channels_first(attrs["data_layout"], attrs["out_layout"])
    _require(attrs["kernel_layout"] in ("OIW", "OIHW", "OIDHW"), f"kernel_layout {attrs['kernel_layout']}")
    _require(attrs["out_dtype"] in ("", "void", _info(call, 0).dtype), f"out_dtype {attrs['out_dtype']}")
    return g.emit(
        "Conv", *g.tensors(call), strides=list(attrs["strides"]), pads=list(attrs["padding"]),
        dilations=list(attrs["dilation"]), group=int(attrs["groups"]),
    )  # fmt: skip


@_lowering("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
def _max_pool(g: GraphWriter, call: Call) -> Value:
    return g.emit("MaxPool", *g.tensors(call), **_window(call), dilations=list(call.attrs["dilation"]))


@_lowering("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")
def _avg_pool(g: GraphWriter, call: Call) -> Value:
    _require(all(step == 1 for step in call.attrs["dilation"]), "average pooling with dilation")
    counted = int(call.attrs["count_include_pad"])
    return g.emit("AveragePool", *g.tensors(call), **_window(call), count_include_pad=counted)


def _window(call: Call) -> dict[str, Any]:
    attrs = call.attrs
    _require_channels_first(attrs["layout"], attrs["out_layout"])
    # The runtimes disagree on windows that begin in the padding.
    _require(not attrs["ceil_mode"], "pooling with ceil_mode")
    sizes = {"kernel_shape": attrs["pool_size"], "strides": attrs["strides"], "pads": attrs["padding"]}
    return {key: list(value) for key, value in sizes.items()}


def _require_channels_first(layout: str, out_layout: str) -> None:
    for item in (layout, out_layout):
        _require(item in ("", "NCW", "NCHW", "NCDHW"), f"layout {item}")


# activations and normalization


@_lowering("nn.softmax")
def _softmax(g: GraphWriter, call: Call) -> Value:
    return g.emit("Softmax", *g.tensors(call), axis=int(call.attrs["axis"]))


@_lowering("nn.gelu")
def _gelu(g: GraphWriter, call: Call) -> Value:
    """By the error function, in the form that ONNX Runtime recognizes; the operator Gelu came with opset 20."""
    x, dtype = g.tensor(call, 0), _info(call, 0).dtype
    error = g.emit("Erf", g.emit("Div", x, g.constant(math.sqrt(2), dtype)))
    scaled = g.emit("Mul", x, g.emit("Add", error, g.constant(1, dtype)))
    return g.emit("Mul", scaled, g.constant(0.5, dtype))


@_lowering("nn.silu")
def _silu(g: GraphWriter, call: Call) -> Value:
    x = g.tensor(call, 0)
    return g.emit("Mul", x, g.emit("Sigmoid", x))


@_lowering("clip")
def _clip(g: GraphWriter, call: Call) -> Value:
    dtype = _info(call, 0).dtype
    bounds = [g.constant(_number(bound), dtype) for bound in call.args[1:]]
    return g.emit("Clip", g.tensor(call, 0), *bounds)


@_lowering("divide")
def _divide(g: GraphWriter, call: Call) -> Value:
    _require(_info(call, 0).dtype.startswith("float"), "division of integers")
    return g.emit("Div", *g.tensors(call))


@_lowering("nn.layer_norm")
def _layer_norm(g: GraphWriter, call: Call) -> Value:
    attrs, info = call.attrs, _info(call, 0)
    first = _first_of_trailing(attrs["axes"], info.ndim)
    x, scale, offset = g.tensors(call)
    if not attrs["scale"]:
        scale = g.constant(np.ones(_extents(call.args[1].struct_info, "the scale")), info.dtype)
    inputs = [x, scale, offset] if attrs["center"] else [x, scale]
    return g.emit("LayerNormalization", *inputs, axis=first, epsilon=float(attrs["epsilon"]))


@_lowering("nn.rms_norm")
def _rms_norm(g: GraphWriter, call: Call) -> Value:
    """By its formula, in the form that ONNX Runtime recognizes; RMSNormalization came with opset 23."""
    info = _info(call, 0)
    first = _first_of_trailing(call.attrs["axes"], info.ndim)
    x, weight = g.tensors(call)
    squares = g.emit("Pow", x, g.constant(2, info.dtype))
    mean = g.emit("ReduceMean", squares, axes=list(range(first, info.ndim)), keepdims=1)
    root = g.emit("Sqrt", g.emit("Add", mean, g.constant(call.attrs["epsilon"], info.dtype)))
    return g.emit("Mul", g.emit("Div", x, root), weight)


# reductions


def _reduces_nothing(call: Call) -> bool:
    """Whether the list of axes is empty, which in ONNX means all of them, or has no type."""
    return call.attrs["axis"] is not None and not list(call.attrs["axis"])


def _reduction(op_type: str) -> Lowering:
    def lower(g: GraphWriter, call: Call) -> Value:
        axes = call.attrs["axis"]
        if _reduces_nothing(call):
            return g.emit("Identity", g.tensor(call, 0))
        chosen = {} if axes is None else {"axes": [int(axis) for axis in axes]}
        return g.emit(op_type, g.tensor(call, 0), keepdims=int(call.attrs["keepdims"]), **chosen)

    return lower


for _name, _op_type in (("mean", "ReduceMean"), ("max", "ReduceMax"), ("min", "ReduceMin")):
    _LOWERINGS[f"relax.{_name}"] = _reduction(_op_type)


@_lowering("sum")
def _sum(g: GraphWriter, call: Call) -> Value:
    """ReduceSum takes its axes as an input since opset 13, before the other reductions do."""
    axes = call.attrs["axis"]
    if _reduces_nothing(call):
        return g.emit("Identity", g.tensor(call, 0))
    chosen = [] if axes is None else [g.constant(list(axes), "int64")]
    return g.emit("ReduceSum", g.tensor(call, 0), *chosen, keepdims=int(call.attrs["keepdims"]))


# shapes, selection, dtypes


@_lowering("reshape", "flatten", "expand_dims", "squeeze")
def _reshape(g: GraphWriter, call: Call) -> Value:
    """With static shapes these are one: the result's extents say it all."""
    # ONNX reads an extent of 0 as "copy", unless told otherwise; runtimes fuse less when told so.
    empty = {"allowzero": 1} if 0 in _extents(call.struct_info, "the result") else {}
    return g.emit("Reshape", g.tensor(call, 0), _result_shape(g, call), **empty)


@_lowering("broadcast_to")
def _broadcast_to(g: GraphWriter, call: Call) -> Value:
    return g.emit("Expand", g.tensor(call, 0), _result_shape(g, call))


def _result_shape(g: GraphWriter, call: Call) -> str:
    return g.constant(_extents(call.struct_info, "the result"), "int64")


@_lowering("permute_dims")
def _permute_dims(g: GraphWriter, call: Call) -> Value:
    axes = call.attrs["axes"]
    ndim = _info(call, 0).ndim
    order = reversed(range(ndim)) if axes is None else (int(axis) % ndim for axis in axes)
    # an empty list has no type, and is no attribute: a number is transposed without
    return g.emit("Transpose", g.tensor(call, 0), **({"perm": list(order)} if ndim else {}))


@_lowering("concat")
def _concat(g: GraphWriter, call: Call) -> Value:
    parts = g.value(call.args[0], "argument 0")
    if call.attrs["axis"] is None:
        parts = [g.emit("Reshape", part, g.constant([-1], "int64")) for part in parts]
    return g.emit("Concat", *parts, axis=int(call.attrs["axis"] or 0))


@_lowering("split")
def _split(g: GraphWriter, call: Call) -> Value:
    axis = int(call.attrs["axis"])
    fields = call.struct_info.fields if isinstance(call.struct_info, TupleStructInfo) else ()
    sizes = [_extents(field, "a part")[axis] for field in fields]
    return g.emit_many("Split", [g.tensor(call, 0), g.constant(sizes, "int64")], len(sizes), axis=axis)


@_lowering("take")
def _take(g: GraphWriter, call: Call) -> Value:
    _require(call.attrs["mode"] == "fast", f"mode {call.attrs['mode']}")
    x, indices = g.tensors(call)
    if call.attrs["axis"] is None:
        x = g.emit("Reshape", x, g.constant([-1], "int64"))
    return g.emit("Gather", x, indices, axis=int(call.attrs["axis"] or 0))


@_lowering("astype")
def _astype(g: GraphWriter, call: Call) -> Value:
    return g.emit("Cast", g.tensor(call, 0), to=g.element_type(call.attrs["dtype"]))

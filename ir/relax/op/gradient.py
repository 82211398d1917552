"""Gradients of the operators, for reverse-mode differentiation.

A gradient is ``(orig_var, orig_call, output_grad, builder) -> one gradient per argument``: ``orig_var`` is the variable that
the call is bound to (so its value needs no second computation), ``output_grad`` the gradient of the target by it. A None
says that nothing flows to that argument (shapes, indices, conditions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...error import IRValueError
from ...op import Op
from ..expr import Call, Expr, PrimValue, Var, const
from ..struct_info import TensorStructInfo, TupleStructInfo
from ..struct_info_lattice import can_prove_shape_equal
from .binary import add, divide, equal, less, less_equal, multiply, power, subtract
from .create import zeros_like
from .datatype import astype
from .declaration import OPERATORS
from .grad.grad import avg_pool2d_backward, max_pool2d_backward, nll_loss_backward, take_backward
from .index import strided_slice
from .inference import as_int, normalize_axes, normalize_axis, product
from .joining import concat, split
from .linear_algebra import matmul
from .manipulate import broadcast_to, collapse_sum_to, expand_dims, flip, permute_dims, reshape, squeeze
from .nn.conv import conv2d
from .nn.conv_transpose import conv2d_transpose
from .nn.shaping import pad
from .search import where
from .statistical import cumsum, mean, sum
from .unary import cos, erf, exp, log, negative, sigmoid, sin, tanh

Gradient = Callable[[Var, Call, Expr, Any], list[Any]]


def gradient_of(*names: str) -> Callable[[Gradient], Gradient]:
    """Decorator: the gradient of the operators; it becomes part of their declarations."""

    def register(function: Gradient) -> Gradient:
        for name in names:
            OPERATORS[f"relax.{name}"] = replace(OPERATORS[f"relax.{name}"], gradient=function)
            Op.get(f"relax.{name}").set_attr("FPrimalGradient", function)
        return function

    return register


def _info(expr: Expr) -> TensorStructInfo:
    info = expr.struct_info
    if not isinstance(info, TensorStructInfo):
        raise IRValueError(f"the gradient of {expr} needs a tensor, got {info}")
    return info


def _shape(expr: Expr) -> Any:
    """The shape of a tensor for a shape argument; it must be known."""
    info = _info(expr)
    if info.shape is None:
        raise IRValueError(f"the gradient needs the shape of {expr}, which is not known; use match_cast")
    return info.shape


def _scalar(value: float, like: Expr) -> Expr:
    return const(value, _info(like).dtype)


def _fit(builder: Any, grad: Expr, target: Expr) -> Expr:
    """Sum a gradient over what broadcasting repeated."""
    grad = builder.normalize(grad)
    shape = _info(grad).shape
    if shape is not None and can_prove_shape_equal(shape, _shape(target)):
        return grad
    return collapse_sum_to(grad, _shape(target))


def _binary(name: str) -> Callable[[Callable[..., tuple[Expr, Expr]]], None]:
    """Decorator: from ``(x, y, result, grad)`` to both gradients before they are fitted to the operands' shapes."""

    def register(function: Callable[..., tuple[Expr, Expr]]) -> None:
        @gradient_of(name)
        def gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
            x, y = node.args
            left, right = function(x, y, var, grad)
            return [_fit(builder, left, x), _fit(builder, right, y)]

    return register


_binary("add")(lambda x, y, z, g: (g, g))
_binary("subtract")(lambda x, y, z, g: (g, negative(g)))
_binary("multiply")(lambda x, y, z, g: (multiply(g, y), multiply(g, x)))
_binary("divide")(lambda x, y, z, g: (divide(g, y), negative(divide(multiply(g, z), y))))
_binary("power")(
    lambda x, y, z, g: (
        multiply(multiply(g, y), power(x, subtract(y, _scalar(1.0, y)))),
        multiply(multiply(g, z), log(x)),
    )
)
_binary("maximum")(
    lambda x, y, z, g: (where(less(x, y), zeros_like(g), g), where(less(x, y), g, zeros_like(g)))
)
_binary("minimum")(
    lambda x, y, z, g: (where(less_equal(x, y), g, zeros_like(g)), where(less_equal(x, y), zeros_like(g), g))
)
_binary("log_add_exp")(
    lambda x, y, z, g: (multiply(g, exp(subtract(x, z))), multiply(g, exp(subtract(y, z))))
)


@gradient_of(
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
)
def _no_gradient_of_both(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """Comparisons are constant almost everywhere."""
    return [None, None]


def _unary(name: str) -> Callable[[Callable[..., Expr]], None]:
    """Decorator: from ``(x, result, grad)`` to the gradient."""

    def register(function: Callable[..., Expr]) -> None:
        @gradient_of(name)
        def gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
            return [function(node.args[0], var, grad)]

    return register


_unary("abs")(lambda x, y, g: where(less(x, _scalar(0.0, x)), negative(g), g))
_unary("cos")(lambda x, y, g: negative(multiply(g, sin(x))))
_unary("exp")(lambda x, y, g: multiply(g, y))
_unary("log")(lambda x, y, g: divide(g, x))
_unary("negative")(lambda x, y, g: negative(g))
_unary("sigmoid")(lambda x, y, g: multiply(g, multiply(y, subtract(_scalar(1.0, x), y))))
_unary("sin")(lambda x, y, g: multiply(g, cos(x)))
_unary("sqrt")(lambda x, y, g: divide(multiply(g, _scalar(0.5, x)), y))
_unary("rsqrt")(lambda x, y, g: multiply(multiply(g, _scalar(-0.5, x)), multiply(y, multiply(y, y))))
_unary("square")(lambda x, y, g: multiply(g, multiply(_scalar(2.0, x), x)))
_unary("tan")(lambda x, y, g: multiply(g, add(_scalar(1.0, x), multiply(y, y))))
_unary("tanh")(lambda x, y, g: multiply(g, subtract(_scalar(1.0, x), multiply(y, y))))
_unary("erf")(
    lambda x, y, g: multiply(
        multiply(g, _scalar(2.0 / 3.141592653589793**0.5, x)), exp(negative(multiply(x, x)))
    )
)
_unary("nn.relu")(lambda x, y, g: where(less(x, _scalar(0.0, x)), zeros_like(g), g))
_unary("grad.no_grad")(lambda x, y, g: zeros_like(x))
_unary("grad.start_checkpoint")(lambda x, y, g: g)
_unary("grad.end_checkpoint")(lambda x, y, g: g)
_unary("builtin.stop_lift_params")(lambda x, y, g: g)


@gradient_of("nn.silu")
def _silu(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """s(x) + x s(x) (1 - s(x)), with the result for x s(x)."""
    s = builder.emit(sigmoid(node.args[0]))
    return [multiply(grad, add(s, multiply(var, subtract(_scalar(1.0, var), s))))]


@gradient_of("nn.gelu")
def _gelu(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """The cumulative distribution plus x times the density of the normal distribution."""
    x = node.args[0]
    cumulative = multiply(_scalar(0.5, x), add(_scalar(1.0, x), erf(multiply(x, _scalar(0.5**0.5, x)))))
    density = multiply(_scalar(0.3989422804014327, x), exp(multiply(_scalar(-0.5, x), multiply(x, x))))
    return [multiply(grad, add(cumulative, multiply(x, density)))]


@gradient_of("nn.gelu_tanh")
def _gelu_tanh(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """The derivative of x (1 + tanh u) / 2 with u = c (x + 0.044715 x^3)."""
    x = node.args[0]
    c = _scalar((2 / 3.141592653589793) ** 0.5, x)
    square = builder.emit(multiply(x, x))
    inner = multiply(c, multiply(x, add(_scalar(1.0, x), multiply(_scalar(0.044715, x), square))))
    t = builder.emit(tanh(inner))
    slope = multiply(c, add(_scalar(1.0, x), multiply(_scalar(3 * 0.044715, x), square)))
    half = _scalar(0.5, x)
    rest = multiply(multiply(x, subtract(_scalar(1.0, x), multiply(t, t))), slope)
    return [multiply(grad, multiply(half, add(add(_scalar(1.0, x), t), rest)))]


@gradient_of("astype")
def _astype(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [astype(grad, _info(node.args[0]).dtype)]


# Reductions


def _axes(node: Call) -> list[int]:
    info, axis = _info(node.args[0]), node.attrs.get("axis")
    return list(range(info.ndim)) if axis is None else normalize_axes(node, info.ndim, axis)


def _spread(node: Call, grad: Expr) -> Expr:
    """The gradient of a reduction, broadcast back over the reduced axes."""
    axis = node.attrs.get("axis")
    if axis is not None and not node.attrs["keepdims"]:
        grad = expand_dims(grad, sorted(_axes(node)))
    return broadcast_to(grad, _shape(node.args[0]))


def _count(node: Call) -> Expr:
    dims = _info(node.args[0]).shape_values
    total = as_int(product([dims[axis] for axis in _axes(node)])) if dims is not None else None
    if total is None:
        raise IRValueError(f"the gradient of {node.op} needs static extents along the reduced axes")
    return _scalar(float(total), node.args[0])


@gradient_of("sum")
def _sum(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [_spread(node, grad)]


@gradient_of("mean")
def _mean(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [divide(_spread(node, grad), _count(node))]


@gradient_of("variance")
def _variance(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    x = node.args[0]
    distance = subtract(x, mean(x, node.attrs.get("axis"), True))
    return [multiply(divide(multiply(_scalar(2.0, x), _spread(node, grad)), _count(node)), distance)]


@gradient_of("max", "min")
def _extremum(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """The gradient goes to the elements that are the extremum."""
    spread = builder.emit(_spread(node, grad))
    return [where(equal(node.args[0], _spread(node, var)), spread, zeros_like(spread))]


@gradient_of("cumsum")
def _cumsum(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    axis = node.attrs.get("axis")
    x = node.args[0]
    back = flip(cumsum(flip(grad, axis or 0), axis or 0, exclusive=node.attrs["exclusive"]), axis or 0)
    return [reshape(back, _shape(x)) if axis is None else back]


@gradient_of("nn.softmax")
def _softmax(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [multiply(subtract(grad, sum(multiply(grad, var), node.attrs["axis"], True)), var)]


@gradient_of("nn.log_softmax")
def _log_softmax(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [subtract(grad, multiply(sum(grad, node.attrs["axis"], True), exp(var)))]


# Products


def _transposed(x: Expr) -> Expr:
    ndim = _info(x).ndim
    return permute_dims(x, [*range(ndim - 2), ndim - 1, ndim - 2])


@gradient_of("matmul")
def _matmul(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    a, b = node.args
    row, column = _info(a).ndim == 1, _info(b).ndim == 1
    left = builder.emit(expand_dims(a, 0)) if row else a
    right = builder.emit(expand_dims(b, 1)) if column else b
    if row:
        grad = builder.emit(expand_dims(grad, -1 if column else -2))
    if column:
        grad = builder.emit(expand_dims(grad, -1))
    to_left = _fit(builder, matmul(grad, _transposed(right)), left)
    to_right = _fit(builder, matmul(_transposed(left), grad), right)
    return [squeeze(to_left, 0) if row else to_left, squeeze(to_right, 1) if column else to_right]


@gradient_of("nn.conv2d")
def _conv2d(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """By the data: a transposed convolution. By the weight: the data convolved with the gradient, batch for channel."""
    data, weight = node.args
    attrs = node.attrs
    if attrs["data_layout"] != "NCHW" or attrs["kernel_layout"] != "OIHW" or attrs["groups"] != 1:
        raise IRValueError("the gradient of relax.nn.conv2d needs layouts NCHW and OIHW and one group")
    in_dims, out_dims, kernel = _static(data)[2:], _static(grad)[2:], _static(weight)[2:]
    pads, strides, dilation = attrs["padding"], attrs["strides"], attrs["dilation"]
    missing = [
        in_dims[i]
        - ((out_dims[i] - 1) * strides[i] - pads[i] - pads[i + 2] + (kernel[i] - 1) * dilation[i] + 1)
        for i in range(2)
    ]
    to_data = conv2d_transpose(grad, weight, strides, pads, missing, dilation)
    swapped = conv2d(
        permute_dims(data, [1, 0, 2, 3]),
        permute_dims(grad, [1, 0, 2, 3]),
        strides=dilation,
        padding=pads,
        dilation=strides,
    )
    cut = strided_slice(swapped, [2, 3], [0, 0], list(kernel))
    return [to_data, permute_dims(cut, [1, 0, 2, 3])]


def _static(x: Expr) -> list[int]:
    dims = [as_int(dim) for dim in _info(x).shape_values or ()]
    if not dims or any(dim is None for dim in dims):
        raise IRValueError(f"the gradient needs a static shape of {x}, got {_info(x)}")
    return dims  # type: ignore[return-value]


def _pool_arguments(node: Call) -> dict[str, Any]:
    return dict(node.attrs.dict)


@gradient_of("nn.max_pool2d")
def _max_pool2d(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [max_pool2d_backward(grad, node.args[0], **_pool_arguments(node))]


@gradient_of("nn.avg_pool2d")
def _avg_pool2d(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [avg_pool2d_backward(grad, node.args[0], **_pool_arguments(node))]


@gradient_of("nn.cross_entropy_with_logits")
def _cross_entropy(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    x, y = node.args
    scale = negative(grad)
    if _info(x).ndim > 1:
        scale = divide(scale, _scalar(float(_static(x)[0]), x))
    scale = builder.emit(scale)
    return [multiply(scale, y), multiply(scale, x)]


@gradient_of("nn.nll_loss")
def _nll_loss(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    attrs = node.attrs
    weights = node.args[2] if len(node.args) == 3 else None
    back = nll_loss_backward(
        grad, node.args[0], node.args[1], weights, attrs["reduction"], attrs["ignore_index"]
    )
    return [back, None, None][: len(node.args)]


# Moving elements


@gradient_of("permute_dims")
def _permute_dims(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    axes = node.attrs.get("axes")
    if axes is None:
        return [permute_dims(grad)]
    order = normalize_axes(node, len(axes), axes)
    return [permute_dims(grad, [order.index(i) for i in range(len(order))])]


@gradient_of("reshape", "expand_dims", "squeeze", "flatten", "nn.batch_flatten")
def _back_to_shape(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [reshape(grad, _shape(node.args[0])), *[None] * (len(node.args) - 1)]


@gradient_of("broadcast_to")
def _broadcast_to(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [_fit(builder, grad, node.args[0]), None]


@gradient_of("collapse_sum_to", "collapse_sum_like")
def _collapse_sum(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [broadcast_to(grad, _shape(node.args[0])), None]


@gradient_of("flip")
def _flip(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [flip(grad, node.attrs["axis"])]


@gradient_of("concat")
def _concat(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """The gradient of the tuple: the parts of the result's."""
    infos = node.args[0].struct_info
    assert isinstance(infos, TupleStructInfo)
    axis = node.attrs.get("axis")
    first = infos.fields[0]
    assert isinstance(first, TensorStructInfo)
    place = 0 if axis is None else normalize_axis(node, first.ndim, axis)
    marks, total = [], 0
    for info in infos.fields[:-1]:
        assert isinstance(info, TensorStructInfo)
        extent = as_int(info.shape_values[place]) if info.shape_values is not None else None
        if extent is None:
            raise IRValueError("the gradient of relax.concat needs static extents along the axis")
        total += extent
        marks.append(total)
    return [split(grad, marks, place)]


@gradient_of("split")
def _split(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [concat(grad, node.attrs["axis"])]


@gradient_of("take")
def _take(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    if isinstance(node.args[1], PrimValue):
        raise IRValueError("the gradient of relax.take needs a tensor of indices")
    return [take_backward(grad, node.args[0], node.args[1], node.attrs.get("axis")), None]


@gradient_of("where")
def _where(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    condition, x, y = node.args
    zero = builder.emit(zeros_like(grad))
    return [
        None,
        _fit(builder, where(condition, grad, zero), x),
        _fit(builder, where(condition, zero, grad), y),
    ]


@gradient_of("nn.pad")
def _pad(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """Cut off what was added, which is padding by negative widths."""
    if node.attrs["pad_mode"] != "constant":
        raise IRValueError(
            f"the gradient of relax.nn.pad needs constant padding, got {node.attrs['pad_mode']!r}"
        )
    return [pad(grad, [-width for width in node.attrs["pad_width"]])]


@gradient_of("zeros", "ones", "full", "full_like", "zeros_like", "ones_like", "arange")
def _no_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """What is made does not depend on values of arguments (the value of ``full`` is taken as constant)."""
    return [None] * len(node.args)

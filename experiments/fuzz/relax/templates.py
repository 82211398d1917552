"""Calls of operators with random operands and attributes: each template takes what it needs from the scope, or makes it.

What is here has many forms (dtypes, broadcasting, axes, symbolic extents); every operator, with the arguments of its tests, is in
:mod:`.declared`. A template raises :class:`.scope.Rejected` where it finds nothing that it may use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ir import dtype as dt
from ir import relax as rx
from ir import tir

from .scope import Rejected, Scope, Value

R = rx.op
Template = Callable[[Scope], Any]
TEMPLATES: list[Template] = []
FLOATS = ("float32", "float64", "float16", "bfloat16")


def _template(weight: int = 1) -> Callable[[Template], Template]:
    def register(function: Template) -> Template:
        TEMPLATES.extend([function] * weight)
        return function

    return register


# -- operands ------------------------------------------------------------------------
def _float(scope: Scope) -> Value:
    return scope.pick(lambda value: value.dtype in FLOATS)


def _number(scope: Scope) -> Value:
    return scope.pick(lambda value: not dt.is_bool(value.dtype))


def _integer(scope: Scope) -> Value:
    return scope.pick(
        lambda value: dt.is_integral(value.dtype), scope.random.choice(["int32", "int64", "int8", "uint8"])
    )


def _with_axes(scope: Scope, rank: int = 1, wanted: Callable[[Value], bool] = lambda value: True) -> Value:
    return (
        scope.pick(
            lambda value: len(value.shape) >= rank and wanted(value),
            rank=scope.random.choice([rank, rank + 1]),
        )
        if not scope.tensors(lambda value: len(value.shape) >= rank and wanted(value))
        else scope.random.choice(scope.tensors(lambda value: len(value.shape) >= rank and wanted(value)))
    )


def _axis(scope: Scope, value: Value) -> int:
    """An axis, counted from the front or from the back."""
    axis = scope.random.randrange(len(value.shape))
    return axis - len(value.shape) if scope.random.random() < 0.3 else axis


def _broadcast(scope: Scope, value: Value, domain: str | None = None) -> Any:
    """An operand that broadcasts with another: of its shape, of a part of it, or a number."""
    dice = scope.random.random()
    if dice < 0.15:
        number = scope.random.choice([0, 1, 2, 3] if domain is None else [1, 2, 3])
        return rx.const(number, value.dtype)
    if dice < 0.55:
        return scope.like(value.dims, value.dtype, domain).var
    dims = value.dims[scope.random.randint(0, len(value.dims)) :]
    dims = [1 if scope.random.random() < 0.3 else dim for dim in dims]
    if scope.random.random() < 0.1:
        dims = [1, *dims]
    return scope.like(dims, value.dtype, domain).var


# -- element by element ---------------------------------------------------------------
_ANY_UNARY = [R.abs, R.negative, R.square, R.sign]
_FLOAT_UNARY = [
    R.ceil, R.floor, R.round, R.trunc, R.exp, R.sigmoid, R.sin, R.cos, R.tanh, R.erf, R.asinh, R.atan,
    R.nn.relu, R.nn.relu6, R.nn.gelu, R.nn.gelu_tanh, R.nn.silu, R.nn.selu, R.nn.softplus, R.nn.leakyrelu,
    R.isnan, R.isinf, R.isfinite, R.sqrt, R.rsqrt, R.log, R.tan, R.sinh, R.cosh,
]  # fmt: skip


@_template(5)
def unary(scope: Scope) -> Any:
    value = _number(scope)
    choices = _ANY_UNARY + (_FLOAT_UNARY * 2 if value.dtype in FLOATS else [R.nn.relu])
    return scope.random.choice(choices)(value.var)


@_template(8)
def binary(scope: Scope) -> Any:
    value = _number(scope)
    operands = [value.var, _broadcast(scope, value)]
    scope.random.shuffle(operands)
    return scope.random.choice([R.add, R.add, R.subtract, R.multiply, R.maximum, R.minimum])(*operands)


@_template(2)
def division(scope: Scope) -> Any:
    value = _number(scope)
    divisor = _broadcast(scope, value, "positive")
    return scope.random.choice([R.divide, R.floor_divide, R.floor_mod, R.mod])(value.var, divisor)


@_template(2)
def comparison(scope: Scope) -> Any:
    value = scope.pick()
    operators = [R.equal, R.not_equal, R.less, R.less_equal, R.greater, R.greater_equal]
    return scope.random.choice(operators)(value.var, _broadcast(scope, value))


@_template()
def logic(scope: Scope) -> Any:
    value = scope.pick(dtype="bool")
    if scope.random.random() < 0.2:
        return R.logical_not(value.var)
    other = scope.like(value.dims, "bool").var
    return scope.random.choice([R.logical_and, R.logical_or, R.logical_xor])(value.var, other)


@_template()
def bits(scope: Scope) -> Any:
    value = _integer(scope)
    if scope.random.random() < 0.2:
        return R.bitwise_not(value.var)
    return scope.random.choice([R.bitwise_and, R.bitwise_or, R.bitwise_xor])(
        value.var, _broadcast(scope, value)
    )


@_template(2)
def choice(scope: Scope) -> Any:
    value = scope.pick()
    condition = scope.like(value.dims, "bool").var
    return R.where(condition, value.var, _broadcast(scope, value))


@_template()
def fused_multiply_add(scope: Scope) -> Any:
    value = _float(scope)
    return R.ewise_fma(value.var, *(scope.like(value.dims, value.dtype).var for _ in range(2)))


@_template()
def clip(scope: Scope) -> Any:
    return R.clip(_number(scope).var, scope.random.choice([0, 1]), scope.random.choice([1, 3]))


@_template(2)
def cast(scope: Scope) -> Any:
    dtypes = [*scope.dtypes, "float32", "int32", "bool", "float16", "int8", "uint8", "float64"]
    return R.astype(scope.pick().var, scope.random.choice(dtypes))


# -- shapes and parts ------------------------------------------------------------------
@_template(2)
def permute(scope: Scope) -> Any:
    value = _with_axes(scope, 2)
    axes = list(range(len(value.shape)))
    scope.random.shuffle(axes)
    return R.permute_dims(value.var, None if scope.random.random() < 0.2 else axes)


@_template(3)
def reshape(scope: Scope) -> Any:
    value = scope.pick()
    if not value.is_static or scope.random.random() < 0.2:
        return scope.random.choice([lambda: R.flatten(value.var), lambda: R.reshape(value.var, (-1,))])()
    left = math.prod(value.shape)
    dims: list[int] = []
    while left > 1 and len(dims) < 3:
        dims.append(scope.random.choice([factor for factor in range(1, left + 1) if left % factor == 0]))
        left //= dims[-1]
    dims.append(left)
    scope.random.shuffle(dims)
    if left > 0 and scope.random.random() < 0.3:
        dims[scope.random.randrange(len(dims))] = -1
    return R.reshape(value.var, dims)


@_template(2)
def ones(scope: Scope) -> Any:
    """Axes of extent one are added or removed."""
    value = scope.pick()
    if 1 in value.dims and scope.random.random() < 0.6:
        axes = [axis for axis, dim in enumerate(value.dims) if isinstance(dim, int) and dim == 1]
        return R.squeeze(value.var, scope.random.choice(axes))
    return R.expand_dims(value.var, scope.random.randint(-1, len(value.dims)))


@_template(2)
def joined(scope: Scope) -> Any:
    value = _with_axes(scope)
    axis = _axis(scope, value)
    others = []
    for _ in range(scope.random.randint(1, 2)):
        dims = list(value.dims)
        if scope.random.random() < 0.6:
            dims[axis] = scope.dim()
        others.append(scope.like(dims, value.dtype))
    parts = [value, *others]
    scope.random.shuffle(parts)
    return R.concat([part.var for part in parts], axis)


@_template()
def stacked(scope: Scope) -> Any:
    value = scope.pick()
    other = scope.like(value.dims, value.dtype)
    return R.stack([value.var, other.var], scope.random.randint(0, len(value.dims)))


@_template(2)
def split(scope: Scope) -> Any:
    value = _with_axes(scope)
    axis = _axis(scope, value)
    extent = value.shape[axis]
    if not isinstance(value.dims[axis], int):
        raise Rejected
    if scope.random.random() < 0.5:
        return R.split(value.var, scope.random.randint(1, max(1, min(3, extent))), axis)
    places = sorted(scope.random.randint(0, extent) for _ in range(scope.random.randint(1, 2)))
    return R.split(value.var, places, axis)


@_template(2)
def strided_slice(scope: Scope) -> Any:
    value = _with_axes(scope)
    axis = scope.random.randrange(len(value.shape))
    extent = value.shape[axis]
    begin, end = scope.random.randint(-extent - 1, extent), scope.random.randint(-extent - 1, extent + 2)
    return R.strided_slice(value.var, [axis], [begin], [end], [scope.random.choice([1, 1, 2, 3, -1, -2])])


@_template()
def moved(scope: Scope) -> Any:
    value = _with_axes(scope)
    axis = _axis(scope, value)
    return scope.random.choice(
        [
            lambda: R.flip(value.var, axis),
            lambda: R.repeat(value.var, scope.random.randint(1, 3), axis),
            lambda: R.tile(value.var, [scope.random.randint(1, 2) for _ in value.dims]),
            lambda: R.broadcast_to(value.var, [scope.known_dim(), *value.dims]),
            lambda: R.nn.pad(value.var, [scope.random.randint(0, 2) for _ in range(2 * len(value.dims))]),
        ]
    )()


@_template()
def triangle(scope: Scope) -> Any:
    return scope.random.choice([R.tril, R.triu])(_with_axes(scope, 2).var, scope.random.randint(-2, 2))


@_template(2)
def take(scope: Scope) -> Any:
    value = _with_axes(scope)
    axis = scope.random.randrange(len(value.shape))
    extent = value.shape[axis]
    if extent == 0:
        raise Rejected
    dims = [scope.dim() for _ in range(scope.random.randint(0, 2))]
    indices = scope.tensor(dims, scope.random.choice(["int32", "int64"]), f"index{extent}")
    return R.take(value.var, indices.var, axis)


@_template()
def elements(scope: Scope) -> Any:
    """Elements at indices along an axis are read or written."""
    value = _with_axes(scope)
    axis = scope.random.randrange(len(value.shape))
    if value.shape[axis] == 0:
        raise Rejected
    dims = list(value.dims)
    if scope.random.random() < 0.5:
        indices = scope.tensor(dims, "int64", f"index{value.shape[axis]}")
        return R.gather_elements(value.var, indices.var, axis)
    dims[axis] = 1  # one index in each row: no two write the same element
    indices = scope.tensor(dims, "int64", f"index{value.shape[axis]}")
    reduction = scope.random.choice(["update", "update", "add", "mul", "max", "min"])
    return R.scatter_elements(value.var, indices.var, scope.like(dims, value.dtype).var, axis, reduction)


@_template()
def hot(scope: Scope) -> Any:
    indices = scope.tensor([scope.dim() for _ in range(scope.random.randint(0, 2))], "int64", "index4")
    one, zero = (rx.PrimValue(tir.const(float(number), "float32")) for number in (1, 0))
    return R.one_hot(indices.var, one, zero, 4, scope.random.choice([-1, 0]))


@_template()
def made(scope: Scope) -> Any:
    """Tensors of one number, or of numbers in order."""
    value = scope.pick()
    dtype = scope.random.choice([*scope.dtypes, "int64"])
    dims = [scope.known_dim() for _ in range(scope.random.randint(0, 3))]
    return scope.random.choice(
        [
            lambda: R.full(dims, rx.const(3, dtype), dtype),
            lambda: R.zeros(dims, dtype),
            lambda: R.ones(dims, dtype),
            lambda: R.zeros_like(value.var),
            lambda: R.full_like(value.var, rx.const(2, value.dtype)),
            lambda: R.arange(0, scope.random.randint(0, 9), 1, "int64"),
            lambda: R.eye(scope.random.randint(0, 4), 3, scope.random.randint(-1, 1)),
        ]
    )()


# -- reductions, products --------------------------------------------------------------
@_template(4)
def reduction(scope: Scope) -> Any:
    value = _with_axes(scope, 1, lambda item: not dt.is_bool(item.dtype))
    axes: Any = scope.random.sample(
        range(len(value.shape)), scope.random.randint(1, min(2, len(value.shape)))
    )
    axes = scope.random.choice([axes, axes, None, axes[0] - len(value.shape)])
    operators = [R.sum, R.sum, R.max, R.min, R.prod]
    operators += [R.mean, R.variance, R.std] if value.dtype in FLOATS else []
    return scope.random.choice(operators)(value.var, axes, scope.random.random() < 0.4)


@_template(2)
def order(scope: Scope) -> Any:
    value = _with_axes(scope, 1, lambda item: not dt.is_bool(item.dtype))
    axis = _axis(scope, value)
    if value.shape[axis] == 0:
        raise Rejected
    count = scope.random.randint(1, value.shape[axis])
    downwards = scope.random.random() < 0.5
    return scope.random.choice(
        [
            lambda: R.argmax(value.var, axis, downwards),
            lambda: R.argmin(value.var, axis, downwards),
            lambda: R.sort(value.var, axis, downwards),
            lambda: R.argsort(value.var, axis, downwards),
            lambda: R.topk(value.var, count, axis, "both", downwards),
            lambda: R.cumsum(value.var, axis, exclusive=downwards),
        ]
    )()


@_template(2)
def normalization(scope: Scope) -> Any:
    value = _with_axes(scope, 2, lambda item: item.dtype in FLOATS)
    last = value.dims[-1]
    axis = _axis(scope, value)
    return scope.random.choice(
        [
            lambda: R.nn.softmax(value.var, axis),
            lambda: R.nn.log_softmax(value.var, axis),
            lambda: R.nn.layer_norm(
                value.var, scope.like([last], value.dtype).var, scope.like([last], value.dtype).var, -1
            ),
            lambda: R.nn.rms_norm(value.var, scope.like([last], value.dtype).var),
        ]
    )()


@_template(5)
def product(scope: Scope) -> Any:
    dtypes = [dtype for dtype in scope.dtypes if dtype not in ("bool",)] or ["float32"]
    value = _with_axes(scope, 1, lambda item: item.dtype in (*dtypes, "float32"))
    inner, columns = value.dims[-1], scope.dim()
    dims = scope.random.choice(
        [[inner, columns], [inner, columns], [inner, columns], [inner], [2, inner, columns]]
    )
    other = scope.like(dims, value.dtype)
    if len(dims) == 2 and scope.random.random() < 0.25:
        other = scope.bind(R.permute_dims(scope.like([columns, inner], value.dtype).var), "w")
    return R.matmul(value.var, other.var)


@_template(2)
def convolution(scope: Scope) -> Any:
    images = scope.tensors(
        lambda value: len(value.dims) == 4 and value.dtype == "float32" and min(value.shape) > 0
    )
    data = (
        scope.random.choice(images)
        if images
        else scope.tensor(
            [
                scope.random.choice([1, 2]),
                scope.random.choice([1, 2, 4]),
                scope.dim(6),
                scope.random.choice([3, 5, 8]),
            ],
            "float32",
        )
    )
    pick, channels = scope.random.choice, data.dims[1]
    if not isinstance(channels, int):
        raise Rejected
    dice = scope.random.random()
    if dice < 0.2:
        return pick([R.nn.max_pool2d, R.nn.avg_pool2d])(data.var, pick([1, 2, 3]), pick([1, 2]), pick([0, 1]))
    if dice < 0.3:
        return R.nn.adaptive_avg_pool2d(data.var, 1)
    if dice < 0.45:
        parts = [scope.like([channels], "float32").var for _ in range(3)]
        variance = scope.like([channels], "float32", "positive").var
        normalized = R.nn.batch_norm(data.var, parts[0], parts[1], parts[2], variance, 1, training=False)
        return rx.TupleGetItem(scope.bind(normalized, "t").var, 0)
    groups = pick([1, 1, channels])
    filters = groups * pick([1, 2, 3])
    size = pick([1, 2, 3])
    weight = scope.like([filters, channels // groups, size, size], "float32")
    found = R.nn.conv2d(data.var, weight.var, pick([1, 2]), pick([0, 1]), pick([1, 1, 2]), groups)
    if scope.random.random() < 0.4:
        bias = scope.like([1, filters, 1, 1], "float32")
        return R.add(scope.bind(found).var, bias.var)
    return found

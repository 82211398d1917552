"""What the nodes of random ONNX models are: a template for each family of operators, in :data:`TEMPLATES`.

Those that networks are made of stand in :mod:`.onnx_networks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .onnx_models import FLOATS, INTEGERS, Graph, Unfit, Value

TEMPLATES: list[Callable[[Graph], Any]] = []


def template(weight: int = 1) -> Callable[[Callable[[Graph], Any]], Callable[[Graph], Any]]:
    """Adds a template, so many times."""

    def register(make: Callable[[Graph], Any]) -> Callable[[Graph], Any]:
        TEMPLATES.extend([make] * weight)
        return make

    return register


def is_float(value: Value) -> bool:
    return value.is_float


def is_exact(value: Value) -> bool:
    return value.exact


def is_number(value: Value) -> bool:
    return value.dtype != "bool"


def is_integer(value: Value) -> bool:
    return value.dtype in INTEGERS


def has_axes(value: Value) -> bool:
    return value.rank > 0


def has_elements(value: Value) -> bool:
    return value.size > 0


def is_wide(value: Value) -> bool:
    return value.dtype in ("float32", "float64", "int32", "int64")


def _partner(g: Graph, x: Value, small: bool = False, edges: bool = True) -> Value:
    """An operand of a dtype that broadcasts with ``x``: another value, or a new one with some axes left out or of extent 1."""
    found = [
        item for item in g.values if item.dtype == x.dtype and item.shape == x.shape and item.exact >= x.exact
    ]
    if found and edges and g.rng.random() < 0.4:
        return g.rng.choice(found)
    kept = x.shape[g.rng.randint(0, x.rank) if g.rng.random() < 0.3 else 0 :]
    shape = [1 if g.rng.random() < 0.25 else extent for extent in kept]
    return g.given(x.dtype, shape, small, edges)


def _broadcast(a: Value, b: Value) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(a.shape, b.shape))


def without_nan(g: Graph, x: Value) -> Value:
    """The value with zeros where it is NaN."""
    number = g.node("Equal", [x, x], "bool", x.shape)
    return g.node("Where", [number, x, g.weight(0, x.dtype)], x.dtype, x.shape, bound=x.bound)


def finite(g: Graph, x: Value) -> Value:
    """The value with zeros where it is NaN or infinite."""
    nothing = g.node("Sub", [x, x], x.dtype, x.shape, bound=0.0)
    number = g.node("Equal", [nothing, nothing], "bool", x.shape)
    return g.node("Where", [number, x, g.weight(0, x.dtype)], x.dtype, x.shape, bound=x.bound)


# ---- one operand ---------------------------------------------------------------------------------------------------


@template(3)
def exact_unary(g: Graph) -> None:
    op = g.rng.choice(
        ["Abs", "Neg", "Relu", "Identity", "Floor", "Ceil", "Round", "Sign", "Not", "IsNaN", "IsInf"]
    )
    if op == "Not":
        x = g.pick(lambda v: v.dtype == "bool")
    elif op in ("Floor", "Ceil", "Round", "IsNaN", "IsInf"):
        x = g.pick(is_float, is_exact, lambda v: op not in ("IsInf", "IsNaN") or v.dtype == "float32")
    elif op == "Sign":
        x = g.pick(is_number, is_exact)
    else:
        x = g.pick(is_wide) if op in ("Relu", "Neg", "Abs") else g.pick()
    g.node(op, [x], "bool" if op in ("IsNaN", "IsInf") else x.dtype, x.shape, bound=x.bound)


@template(3)
def smooth_unary(g: Graph) -> None:
    op = g.rng.choice(
        "Exp Sqrt Log Sigmoid Tanh Erf Sin Cos Softplus Softsign LeakyRelu Elu Selu HardSigmoid HardSwish Gelu Mish"
        " Reciprocal Atan Celu".split()
    )
    x = g.pick(is_float, lambda v: v.bound <= 8)
    g.node(op, [x], x.dtype, x.shape, exact=False, bound=1e4 if op == "Exp" else 64)


@template(2)
def cast(g: Graph) -> None:
    x = g.pick(is_exact)
    to = g.rng.choice([*FLOATS, *INTEGERS, "bool"])
    narrow = x.is_float and to not in FLOATS
    if narrow:  # out of range, ONNX leaves it open
        x = g.node("Clip", [x, g.weight(0, x.dtype), g.weight(4, x.dtype)], x.dtype, x.shape)
        x = without_nan(g, x)
    code = {
        "bool": 9,
        "float32": 1,
        "float64": 11,
        "float16": 10,
        "int32": 6,
        "int64": 7,
        "int8": 3,
        "uint8": 2,
    }[to]
    bound = float(np.iinfo(to).max) if to in INTEGERS and not narrow else x.bound
    g.node("Cast", [x], to, x.shape, bound=1.0 if to == "bool" else bound, to=code)


@template()
def clip(g: Graph) -> None:
    x = g.pick(is_wide)
    low, high = sorted(g.rng.sample(range(-3, 4), 2), reverse=g.rng.random() < 0.2)
    operands: list[Any] = [x, g.weight(low, x.dtype), g.weight(high, x.dtype)]
    if g.rng.random() < 0.3:
        operands[g.rng.choice([1, 2])] = ""
    g.node("Clip", operands, x.dtype, x.shape, bound=max(x.bound, 4))


# ---- two and three operands ----------------------------------------------------------------------------------------


@template(5)
def arithmetic(g: Graph) -> None:
    x = g.pick(is_wide)
    y = _partner(g, x)
    op = g.rng.choice(["Add", "Sub", "Mul", "Max", "Min"])
    bound = x.bound * y.bound if op == "Mul" else x.bound + y.bound
    operands = [x, y] if g.rng.random() < 0.7 else [y, x]
    g.node(op, operands, x.dtype, _broadcast(x, y), bound=bound if x.is_float else x.bound)


@template(2)
def quotient(g: Graph) -> None:
    x = g.pick(is_wide, is_exact)
    if x.is_float:
        y = _partner(g, x)
        g.node("Div", [x, y], x.dtype, _broadcast(x, y), exact=False, bound=max(8.0, 2 * x.bound))
        return
    divisor = g.weight(g.rng.choice([1, 2, 3, 5, -3, 7]), x.dtype)
    g.node(g.rng.choice(["Div", "Mod"]), [x, divisor], x.dtype, x.shape, bound=x.bound)


@template()
def float_remainder(g: Graph) -> None:
    x = g.pick(is_float, is_exact, lambda v: v.dtype != "float16" and v.bound <= 64)
    y = _partner(g, x)
    if not y.exact or y.bound > 64:
        raise Unfit
    g.node("Mod", [x, y], x.dtype, _broadcast(x, y), bound=y.bound + x.bound, fmod=1)


@template(2)
def comparison(g: Graph) -> None:
    x = g.pick(is_wide, is_exact)
    y = _partner(g, x)
    if not y.exact:
        raise Unfit
    op = g.rng.choice(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
    g.node(op, [x, y], "bool", _broadcast(x, y), bound=1)


@template()
def logic(g: Graph) -> None:
    x = g.pick(lambda v: v.dtype == "bool")
    y = _partner(g, x)
    g.node(g.rng.choice(["And", "Or", "Xor"]), [x, y], "bool", _broadcast(x, y), bound=1)


@template()
def bits(g: Graph) -> None:
    x = g.pick(is_integer)
    y = _partner(g, x)
    op = g.rng.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
    g.node(op, [x, y], x.dtype, _broadcast(x, y), bound=x.bound)


@template(2)
def where(g: Graph) -> None:
    x = g.pick(lambda v: v.dtype in ("float32", "int32", "int64", "uint8"))
    y = _partner(g, x)
    shape = _broadcast(x, y)
    mask = g.given("bool", [1 if g.rng.random() < 0.3 else extent for extent in shape])
    g.node("Where", [mask, x, y], x.dtype, shape, bound=max(x.bound, y.bound))


@template()
def power(g: Graph) -> None:
    x = g.pick(lambda v: v.dtype in ("float32", "float64"), lambda v: v.bound <= 16)
    exponent = g.rng.choice([0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -2.0, 1.5])
    g.node("Pow", [x, g.weight(exponent, x.dtype)], x.dtype, x.shape, exact=False, bound=max(x.bound, 2) ** 3)


# ---- moving elements -----------------------------------------------------------------------------------------------


@template(2)
def reshape(g: Graph) -> None:
    x = g.pick()
    if not x.size:
        shape = list(x.shape)
        g.rng.shuffle(shape)
        g.node("Reshape", [x, g.weight(shape)], x.dtype, shape, bound=x.bound, allowzero=1)
        return
    rest, shape = x.size, []
    while rest > 1:
        factor = g.rng.choice([n for n in range(2, rest + 1) if rest % n == 0])
        shape.append(factor)
        rest //= factor
    while g.rng.random() < 0.3:
        shape.insert(g.rng.randint(0, len(shape)), 1)
    target = list(shape)
    if target and g.rng.random() < 0.5:
        target[g.rng.randrange(len(target))] = -1
    g.node("Reshape", [x, g.weight(target)], x.dtype, shape, bound=x.bound)


@template(2)
def transpose(g: Graph) -> None:
    x = g.pick()
    perm = g.rng.sample(range(x.rank), x.rank)
    attrs: dict[str, Any] = {} if not x.rank or g.rng.random() < 0.2 else {"perm": perm}
    shape = [x.shape[axis] for axis in perm] if attrs else x.shape[::-1]
    g.node("Transpose", [x], x.dtype, shape, bound=x.bound, **attrs)


@template()
def squeeze_and_flatten(g: Graph) -> None:
    x = g.pick()
    kind = g.rng.choice(["Squeeze", "Unsqueeze", "Flatten"])
    if kind == "Flatten":
        axis = g.rng.randint(0, x.rank)
        shape = [int(np.prod(part, dtype=np.int64)) for part in (x.shape[:axis], x.shape[axis:])]
        g.node("Flatten", [x], x.dtype, shape, bound=x.bound, axis=axis)
    elif kind == "Unsqueeze":
        axis = g.rng.randint(0, x.rank)
        shape = [*x.shape[:axis], 1, *x.shape[axis:]]
        g.node("Unsqueeze", [x, g.weight([axis])], x.dtype, shape, bound=x.bound)
    else:
        ones = [axis for axis, extent in enumerate(x.shape) if extent == 1]
        if not ones:
            raise Unfit
        axis = g.rng.choice(ones)
        shape = [*x.shape[:axis], *x.shape[axis + 1 :]]
        g.node("Squeeze", [x, g.weight([axis - x.rank])], x.dtype, shape, bound=x.bound)


@template(2)
def slices(g: Graph) -> None:
    x = g.pick(has_axes)
    axes = g.axes(x)
    if not axes:
        raise Unfit
    starts, ends, steps, shape = [], [], [], list(x.shape)
    for axis in axes:
        extent = x.shape[axis]
        start, end = (
            g.rng.randint(-extent - 2, extent + 2),
            g.rng.choice([*range(-extent - 2, extent + 3), 2**63 - 1]),
        )
        step = g.rng.choice([1, 1, 2, 3, -1, -2])
        first, last = (bound + extent if bound < 0 else bound for bound in (start, end))
        if step > 0:
            places = range(min(max(first, 0), extent), min(max(last, 0), extent), step)
        else:
            if not extent:
                raise Unfit
            places = range(min(max(first, 0), extent - 1), min(max(last, -1), extent - 1), step)
        starts.append(start)
        ends.append(end)
        steps.append(step)
        shape[axis] = len(places)
    operands: list[Any] = [x, g.weight(starts), g.weight(ends), g.weight(axes), g.weight(steps)]
    g.node("Slice", operands, x.dtype, shape, bound=x.bound)


@template()
def split(g: Graph) -> None:
    x = g.pick(has_axes)
    axis = g.axis(x)
    cut = g.rng.randint(0, x.shape[axis])
    sizes = [cut, x.shape[axis] - cut]
    shapes = [[*x.shape] for _ in sizes]
    for shape, size in zip(shapes, sizes, strict=True):
        shape[axis] = size
    results = [(x.dtype, shape) for shape in shapes]
    g.nodes_of("Split", [x, g.weight(sizes)], results, bound=x.bound, axis=axis)


@template(2)
def concat(g: Graph) -> None:
    x = g.pick(has_axes)
    axis = g.axis(x)
    shape = list(x.shape)
    shape[axis] = g.rng.randint(0, 3)
    y = g.given(x.dtype, shape)
    total = list(x.shape)
    total[axis] += shape[axis]
    g.node("Concat", [x, y], x.dtype, total, bound=max(x.bound, y.bound), axis=axis)


@template()
def expand_and_tile(g: Graph) -> None:
    x = g.pick()
    if g.rng.random() < 0.5:
        target: list[int] = [
            *g.shape(0, 1),
            *[g.rng.randint(1, 4) if extent == 1 else extent for extent in x.shape],
        ]
        g.node("Expand", [x, g.weight(target)], x.dtype, target, bound=x.bound)
    elif x.rank:
        repeats = [g.rng.choice([1, 1, 2, 3, 0]) for _ in x.shape]
        shape = [extent * count for extent, count in zip(x.shape, repeats, strict=True)]
        g.node("Tile", [x, g.weight(repeats)], x.dtype, shape, bound=x.bound)


@template(2)
def pad(g: Graph) -> None:
    x = g.pick(has_axes, has_elements, lambda v: v.dtype in ("float32", "float64", "int32", "int64"))
    mode = g.rng.choice(["constant", "constant", "reflect", "edge", "wrap"])
    amounts = [g.rng.choice([0, 0, 1, 2]) for _ in range(2 * x.rank)]
    if mode in ("reflect", "wrap"):
        limit = [extent - (mode == "reflect") for extent in x.shape] * 2
        amounts = [min(amount, most) for amount, most in zip(amounts, limit, strict=True)]
    shape = [
        extent + before + after
        for extent, before, after in zip(x.shape, amounts[: x.rank], amounts[x.rank :], strict=True)
    ]
    operands: list[Any] = [x, g.weight(amounts)]
    if mode == "constant" and g.rng.random() < 0.5:
        operands.append(g.weight(g.rng.choice([1, -2]), x.dtype))
    g.node("Pad", operands, x.dtype, shape, bound=x.bound, mode=mode)


@template(2)
def gather(g: Graph) -> None:
    x = g.pick(has_axes, has_elements)
    kind = g.rng.choice(["Gather", "GatherElements", "GatherND"])
    axis = g.axis(x)
    extent = x.shape[axis]

    def indices(shape: Any, limits: list[int]) -> Any:
        count = int(np.prod(shape, dtype=np.int64))
        found = [g.rng.randrange(-limits[n % len(limits)], limits[n % len(limits)]) for n in range(count)]
        array = np.array(found, g.rng.choice(["int32", "int64"]) if kind != "GatherND" else "int64").reshape(
            shape
        )
        if g.rng.random() < 0.5:
            return g.weight(array, array.dtype.name)
        name = f"x{len(g.inputs)}"
        g.inputs[name] = array
        return name

    if kind == "Gather":
        shape = g.shape(0, 2)
        result = [*x.shape[: axis % x.rank], *shape, *x.shape[axis % x.rank + 1 :]]
        g.node("Gather", [x, indices(shape, [extent])], x.dtype, result, bound=x.bound, axis=axis)
    elif kind == "GatherElements":
        shape = tuple(
            g.rng.randint(0, 4) if n == axis % x.rank else g.rng.randint(1, e) for n, e in enumerate(x.shape)
        )
        g.node("GatherElements", [x, indices(shape, [extent])], x.dtype, shape, bound=x.bound, axis=axis)
    else:
        depth = g.rng.randint(1, x.rank)
        lead = g.shape(0, 2)
        at = indices([*lead, depth], list(x.shape[:depth]))
        g.node("GatherND", [x, at], x.dtype, [*lead, *x.shape[depth:]], bound=x.bound)


@template()
def shapes(g: Graph) -> None:
    x = g.pick()
    if g.rng.random() < 0.5:
        found = g.node("Size", [x], "int64", [], bound=1e4)
    else:
        found = g.node("Shape", [x], "int64", [x.rank], bound=64)
    if g.rng.random() < 0.5:
        g.node("ConstantOfShape", [found], "float32", x.shape) if found.rank and x.size < 64 else None


@template()
def triangle(g: Graph) -> None:
    x = g.pick(lambda v: v.rank >= 2 and v.dtype in ("float32", "float64", "int64"))
    g.node(
        "Trilu",
        [x, g.weight(g.rng.randint(-2, 2))],
        x.dtype,
        x.shape,
        bound=x.bound,
        upper=g.rng.randint(0, 1),
    )


# ---- reductions ----------------------------------------------------------------------------------------------------


@template(4)
def reduction(g: Graph) -> None:
    op = g.rng.choice(
        "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp".split()
    )
    x = g.pick(
        lambda v: v.dtype in ("float32", "float64") or (v.dtype in ("int32", "int64") and op in _OF_INTEGERS)
    )
    axes, keepdims = g.axes(x), g.rng.randint(0, 1)
    reduced = {axis % x.rank for axis in axes} if axes else set(range(x.rank))
    if op == "ReduceMean" and not np.prod([x.shape[axis] for axis in reduced], dtype=np.int64):
        raise Unfit
    count = max(1, int(np.prod([x.shape[axis] for axis in reduced], dtype=np.int64)))
    if op in ("ReduceProd", "ReduceSumSquare") and count * max(x.bound, 1) ** 2 > 1e6:
        raise Unfit
    shape = [
        1 if axis in reduced else extent
        for axis, extent in enumerate(x.shape)
        if axis not in reduced or keepdims
    ]
    exact = op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare") or not x.is_float
    bound = x.bound if op in ("ReduceMax", "ReduceMin", "ReduceMean") else count * max(x.bound, 1) ** 2
    if op == "ReduceProd":
        bound = max(x.bound, 1) ** min(count, 30)
    operands: list[Any] = [x, g.weight(axes)] if axes else [x]
    g.node(op, operands, x.dtype, shape, exact, bound if x.is_float else x.bound, keepdims=keepdims)


_OF_INTEGERS = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")


@template(2)
def position(g: Graph) -> None:
    x = g.pick(
        lambda v: v.dtype in ("float32", "float64", "int32", "int64", "int8", "uint8"), is_exact, has_axes
    )
    axis, keepdims = g.axis(x), g.rng.randint(0, 1)
    if not x.shape[axis]:
        raise Unfit
    shape = list(x.shape)
    shape[axis] = 1
    if not keepdims:
        del shape[axis]
    g.node(
        g.rng.choice(["ArgMax", "ArgMin"]), [x], "int64", shape, bound=64,
        axis=axis, keepdims=keepdims, select_last_index=g.rng.randint(0, 1),
    )  # fmt: skip


@template()
def running_sum(g: Graph) -> None:
    x = g.pick(is_wide, has_axes)
    attrs: dict[str, Any] = {"exclusive": g.rng.randint(0, 1), "reverse": g.rng.randint(0, 1)}
    bound = x.bound * max(1, x.size) if x.is_float else x.bound
    g.node("CumSum", [x, g.weight(g.axis(x))], x.dtype, x.shape, bound=bound, **attrs)


@template()
def top(g: Graph) -> None:
    shape = g.shape(1, 3)
    axis = g.rng.randrange(len(shape))
    if not shape[axis]:
        raise Unfit
    order = list(range(int(np.prod(shape, dtype=np.int64))))  # ties have no order
    g.rng.shuffle(order)
    name = f"x{len(g.inputs)}"
    g.inputs[name] = np.array(order, "float32").reshape(shape)
    x = Value(name, "float32", shape, True, 4096)
    g.values.append(x)
    k = g.rng.randint(1, shape[axis])
    result = [k if n == axis else extent for n, extent in enumerate(shape)]
    results = [("float32", result), ("int64", result)]
    g.nodes_of("TopK", [x, g.weight([k])], results, bound=4096, axis=axis, largest=g.rng.randint(0, 1))

"""What PyTorch says of the operators that it has too: the references that say what programs mean are held to somebody else's opinion."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ir import dtype as dt
from ir import relax as rx
from ir.relax.testing import evaluate

from .arguments import argument

R = rx.op
_UNITS = {"float32": 3e-6, "float64": 1e-10, "float16": 2e-3}
"""Relative errors of functions of one or two operands."""


@dataclass(frozen=True)
class Opinion:
    """An operator by our name and by PyTorch's: both take tensors, and draw options from equal generators."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    operands: int = 1
    dtypes: tuple[str, ...] = ("float32", "float64")
    rank: int = 0
    domain: str = ""
    """What every operand but the first holds."""
    special: bool = True
    """Whether NaN and infinities are asked about."""


_ALL = ("float32", "float64", "int8", "int32", "int64", "uint8")
_INTEGERS = ("int8", "int32", "int64", "uint8")


def _elementwise() -> list[Opinion]:
    """Operators of one name, or nearly, that take tensors and nothing else."""
    names = "acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log round rsqrt sigmoid sin sinh sqrt tan tanh"
    names += " trunc isnan isinf isfinite"
    found = [_of(name, name) for name in names.split()]
    found += [_of(name, name, dtypes=_ALL) for name in ("abs", "negative", "square")]
    # PyTorch takes NaN to have the sign 0; here it is numpy's NaN.
    found += [replace(_of("sign", "sign", dtypes=_ALL), special=False)]
    found += [_of(name, name, 2, _ALL) for name in ("add", "subtract", "multiply", "maximum", "minimum")]
    found += [_of(name, theirs, 2, _ALL) for name, theirs in _COMPARISONS.items()]
    found += [_of(name, name, 2, _INTEGERS) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")]
    found += [_of(name, name, 2, ("bool",)) for name in ("logical_and", "logical_or", "logical_xor")]
    found += [_of("atan2", "atan2", 2), _of("power", "pow", 2), _of("log_add_exp", "logaddexp", 2)]
    found += [_of("divide", "divide", 2), _of("floor_divide", "floor_divide", 2, _ALL, "positive")]
    found += [_of("floor_mod", "remainder", 2, _ALL, "positive"), _of("mod", "fmod", 2, _ALL, "positive")]
    found += [
        _of("bitwise_not", "bitwise_not", dtypes=_INTEGERS),
        _of("logical_not", "logical_not", dtypes=("bool",)),
    ]
    return found


_COMPARISONS = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}  # fmt: skip


def _of(
    ours: str,
    theirs: str,
    operands: int = 1,
    dtypes: tuple[str, ...] = ("float32", "float64"),
    domain: str = "",
) -> Opinion:
    def call(generator: random.Random, *tensors: Any) -> Any:
        import torch

        return getattr(torch, theirs)(*tensors)

    return Opinion(
        ours, lambda generator, *values: getattr(R, ours)(*values), call, operands, dtypes, 0, domain
    )


def _activations() -> list[Opinion]:
    def theirs(name: str, **options: Any) -> Callable[..., Any]:
        def call(generator: random.Random, x: Any) -> Any:
            import torch

            return getattr(torch.nn.functional, name)(x, **options)

        return call

    names = {name: name for name in ("relu", "relu6", "silu", "selu", "softplus")} | {
        "leakyrelu": "leaky_relu"
    }
    found = [
        Opinion(f"nn.{ours}", lambda generator, x, ours=ours: getattr(R.nn, ours)(x), theirs(name))  # type: ignore[misc]
        for ours, name in names.items()
    ]
    # PyTorch's loops and their remainders differ at infinities here.
    gelu = [
        Opinion("nn.gelu", lambda generator, x: R.nn.gelu(x), theirs("gelu"), special=False),
        Opinion(
            "nn.gelu_tanh",
            lambda generator, x: R.nn.gelu_tanh(x),
            theirs("gelu", approximate="tanh"),
            special=False,
        ),
    ]
    return [*found, *gelu]


def _along_axes() -> list[Opinion]:
    """Operators that go along an axis, and reductions."""

    def axis(generator: random.Random, x: Any) -> int:
        rank = len(x.shape) if hasattr(x, "dim") else len(x.struct_info.shape_values)
        return generator.randrange(rank)

    def both(
        name: str, ours: Callable[..., Any], theirs: Callable[[Any, Any, int], Any], dtypes: tuple[str, ...]
    ) -> Opinion:
        def call(generator: random.Random, x: Any) -> Any:
            import torch

            return theirs(torch, x, axis(generator, x))

        return Opinion(name, lambda generator, x: ours(x, axis(generator, x)), call, 1, dtypes, 1)

    floats = ("float32", "float64")
    return [
        both("sum", lambda x, a: R.sum(x, a), lambda t, x, a: t.sum(x, a, dtype=x.dtype), _ALL),
        both("prod", lambda x, a: R.prod(x, a), lambda t, x, a: t.prod(x, a, dtype=x.dtype), _ALL),
        both("max", lambda x, a: R.max(x, a), lambda t, x, a: t.amax(x, a), _ALL),
        both("min", lambda x, a: R.min(x, a), lambda t, x, a: t.amin(x, a), _ALL),
        both("mean", lambda x, a: R.mean(x, a), lambda t, x, a: t.mean(x, a), floats),
        both("variance", lambda x, a: R.variance(x, a), lambda t, x, a: t.var(x, a, correction=0), floats),
        both("argmax", lambda x, a: R.argmax(x, a), lambda t, x, a: t.argmax(x, a), _ALL),
        both("argmin", lambda x, a: R.argmin(x, a), lambda t, x, a: t.argmin(x, a), _ALL),
        both("cumsum", lambda x, a: R.cumsum(x, a), lambda t, x, a: t.cumsum(x, a, dtype=x.dtype), _ALL),
        both("sort", lambda x, a: R.sort(x, a), lambda t, x, a: t.sort(x, a).values, _ALL),
        both(
            "argsort",
            lambda x, a: R.argsort(x, a, dtype="int64"),
            lambda t, x, a: t.sort(x, dim=a, stable=True).indices,
            _ALL,
        ),
        both("nn.softmax", lambda x, a: R.nn.softmax(x, a), lambda t, x, a: t.softmax(x, a), floats),
        both(
            "nn.log_softmax", lambda x, a: R.nn.log_softmax(x, a), lambda t, x, a: t.log_softmax(x, a), floats
        ),
        both("flip", lambda x, a: R.flip(x, a), lambda t, x, a: t.flip(x, [a]), _ALL),
        both("cumprod", lambda x, a: R.cumprod(x, a), lambda t, x, a: t.cumprod(x, a, dtype=x.dtype), _ALL),
        both("std", lambda x, a: R.std(x, a), lambda t, x, a: t.std(x, a, correction=0), floats),
        both("repeat", lambda x, a: R.repeat(x, 3, a), lambda t, x, a: t.repeat_interleave(x, 3, a), _ALL),
        both("expand_dims", lambda x, a: R.expand_dims(x, a), lambda t, x, a: t.unsqueeze(x, a), _ALL),
        both(
            "permute_dims",
            lambda x, a: R.permute_dims(x, [*range(a, x.struct_info.ndim), *range(a)]),
            lambda t, x, a: t.permute(x, [*range(a, x.dim()), *range(a)]),
            _ALL,
        ),
        both("concat", lambda x, a: R.concat([x, R.negative(x)], a), lambda t, x, a: t.cat([x, -x], a), _ALL),
        both("stack", lambda x, a: R.stack([x, x], a), lambda t, x, a: t.stack([x, x], a), _ALL),
        both("nn.layer_norm", _normalized, lambda t, x, a: t.layer_norm(x, x.shape[-1:]), floats),
    ]


def _normalized(x: Any, axis: int) -> Any:
    """Along the last axis, whatever axis was drawn."""
    info = rx.TensorStructInfo(x.struct_info.shape_values[-1:], x.struct_info.dtype)
    ones = R.ones(rx.ShapeExpr(info.shape_values), info.dtype)
    return R.nn.layer_norm(x, ones, R.zeros(rx.ShapeExpr(info.shape_values), info.dtype), [-1], 1e-5)


def _triangles() -> list[Opinion]:
    """What stays of a matrix on one side of a diagonal."""

    def theirs(name: str) -> Callable[..., Any]:
        def call(generator: random.Random, x: Any) -> Any:
            import torch

            return getattr(torch, name)(x, generator.randint(-3, 3))

        return call

    return [
        Opinion("tril", lambda generator, x: R.tril(x, generator.randint(-3, 3)), theirs("tril"), 1, _ALL, 2),
        Opinion("triu", lambda generator, x: R.triu(x, generator.randint(-3, 3)), theirs("triu"), 1, _ALL, 2),
    ]


OPINIONS = [*_elementwise(), *_activations(), *_along_axes(), *_triangles()]


@dataclass(frozen=True)
class Asked:
    """An operator and operands."""

    opinion: Opinion
    arrays: list[np.ndarray]
    seed: int

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.opinion.name} of", *(f"{array.dtype} {array.tolist()}" for array in self.arrays)]
        )


def asked(seed: int) -> Asked:
    """What is asked about for a seed: shapes that broadcast, and often NaN, infinities or the ends of a dtype."""
    generator = random.Random(seed)
    opinion = generator.choice(OPINIONS)
    dtype = generator.choice(opinion.dtypes)
    shape = [generator.choice([1, 1, 2, 3, 5, 8]) for _ in range(generator.randint(opinion.rank, 3))]
    usual = ["whole", "any"] if dt.is_float(dtype) else ["whole"]
    if opinion.special:
        usual.append("special" if dt.is_float(dtype) else "edge")
    arrays = []
    for number in range(opinion.operands):
        domain = opinion.domain if number and opinion.domain else generator.choice(usual)
        extents = shape if number == 0 else [1 if generator.random() < 0.3 else extent for extent in shape]
        arrays.append(argument(f"{domain}_{number}", rx.TensorStructInfo(extents, dtype), seed))
    return Asked(opinion, arrays, seed)


def disagreement(question: Asked) -> str:
    """Where the reference and PyTorch differ; empty where they agree."""
    import torch

    opinion = question.opinion
    params = [
        rx.Var(f"x{number}", rx.TensorStructInfo(array.shape, dt.from_numpy(array.dtype)))
        for number, array in enumerate(question.arrays)
    ]
    builder = rx.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(opinion.ours(random.Random(question.seed), *params)))
    ours = np.asarray(evaluate(builder.finalize(), *question.arrays))
    tensors = [torch.from_numpy(array.copy()) for array in question.arrays]
    theirs = opinion.theirs(random.Random(question.seed), *tensors).numpy()
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype} {ours.shape}, PyTorch {theirs.dtype} {theirs.shape}"
    if ours.dtype.kind == "f":
        unit = _UNITS[str(ours.dtype)]
        wrong = ~np.isclose(ours, theirs, rtol=unit, atol=unit, equal_nan=True)
    else:
        wrong = ours != theirs
    if not wrong.any():
        return ""
    place = tuple(int(index) for index in np.argwhere(wrong)[0])
    return f"at {place} {ours[place]}, PyTorch {theirs[place]}"


def reduced(question: Asked, fails: Callable[[Asked], bool]) -> Asked:
    """The question with as few elements as fail alike, and zeros and ones among them where these do.

    Args:
        question: one whose operands the reference and PyTorch disagree about.
        fails: whether another one fails in the way that matters.
    """
    smaller = True
    while smaller:
        smaller = False
        for arrays in _smaller(question.arrays):
            other = replace(question, arrays=arrays)
            if fails(other):
                question, smaller = other, True
                break
    return question


def _smaller(arrays: list[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Operands with half of an axis, with all of it that is behind the first, or with a simpler element; the rank stays."""
    for axis in range(-max(array.ndim for array in arrays), 0):
        extent = max(array.shape[axis] for array in arrays if array.ndim >= -axis)
        for kept in (slice(0, extent // 2), slice(extent // 2, None), slice(1, None)) if extent > 1 else ():
            yield [_along(array, axis, kept) for array in arrays]
    for number, array in enumerate(arrays):
        for place in np.ndindex(array.shape):
            for value in (0, 1)[: 2 if array[place] != 1 else 1] if array[place] != 0 else ():
                simpler = array.copy()
                simpler[place] = value
                yield [*arrays[:number], simpler, *arrays[number + 1 :]]


def _along(array: np.ndarray, axis: int, kept: slice) -> np.ndarray:
    """A part of an axis, counted from the end; an array that is broadcast along it stays."""
    if array.ndim < -axis or array.shape[axis] == 1:
        return array
    index: list[Any] = [slice(None)] * array.ndim
    index[axis] = kept
    return array[tuple(index)].copy()

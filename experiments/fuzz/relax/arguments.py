"""Arguments for a module: what a parameter holds is written in its name, so that a text is a whole program.

``any_0`` holds small numbers, ``whole_1`` small integers (as floats too), ``positive_2`` numbers from 0.5 to 2, ``unit_3``
numbers inside of (-1, 1), ``index5_4`` integers from 0 to 4, ``special_5`` also NaN, infinities and zeros of both signs, ``edge_6`` also
the ends of an integer dtype, and ``case12x1_7`` what the table of operators' tests gives to the second argument of its case 12. The
symbolic extent ``n4`` is 4.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.relax.function import Function
from ir.relax.struct_info import PrimStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from ir.tir.expr import PrimExpr
from ir.tir.expr import Var as TirVar
from ir.tir.interpreter import Interpreter
from tests.ir.relax.op.cases import CASES

_NAME = re.compile(r"([a-z]+)([0-9x]*)_")
_SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0, 0.5])


def symbol_value(name: str) -> int:
    """The value that the name of a symbolic extent stands for."""
    return int(re.sub(r"\D", "", name.partition("_")[0]) or 3)


def arguments(func: Function, seed: int) -> list[Any]:
    """An argument for each parameter of a function, the same for the same name, struct info and seed."""
    return [argument(param.name_hint, param.struct_info, seed) for param in func.params]


def argument(name: str, info: StructInfo, seed: int) -> Any:
    """What a parameter of a name holds."""
    if isinstance(info, TupleStructInfo):
        return tuple(argument(f"{name}_{number}", field, seed) for number, field in enumerate(info.fields))
    if isinstance(info, PrimStructInfo):
        return symbol_value(str(info.value)) if info.value is not None else 3
    assert isinstance(info, TensorStructInfo) and info.shape_values is not None, (name, info)
    shape = extents(info.shape_values)
    numbers = np.random.default_rng([seed % 2**32, zlib.crc32(name.encode())])
    return _array(name, shape, info.dtype, numbers)


def extents(dims: Sequence[PrimExpr]) -> tuple[int, ...]:
    """A shape whose symbols have the values that their names say."""
    return tuple(_extent(dim) for dim in dims)


def _extent(dim: PrimExpr) -> int:
    interpreter = Interpreter()
    interpreter.values.update({var: np.int64(symbol_value(var.name)) for var in symbols(dim)})
    return int(interpreter.evaluate(dim))


def symbols(dim: PrimExpr) -> list[TirVar]:
    """The symbolic variables of an extent."""
    from ir.relax.analysis import tir_vars_in_struct_info
    from ir.relax.struct_info import ShapeStructInfo

    return list(tir_vars_in_struct_info(ShapeStructInfo([dim])))


def _array(name: str, shape: tuple[int, ...], dtype: str, numbers: np.random.Generator) -> np.ndarray:
    found = _NAME.match(name)
    domain, number = found.groups() if found else ("any", "")
    numpy_dtype = dt.to_numpy(dtype)
    if domain == "case":
        case, _, position = number.partition("x")
        return np.array(CASES[int(case)].inputs[int(position)], order="C").reshape(shape)
    if dt.is_bool(dtype):
        return numbers.integers(0, 2, shape).astype(bool)
    if domain == "index":
        return numbers.integers(0, max(int(number), 1), shape).astype(numpy_dtype)
    if dt.is_integral(dtype):
        return _integers(domain, shape, numpy_dtype, numbers)
    return _FLOATS.get(domain, _FLOATS["any"])(numbers, shape).astype(numpy_dtype)


def _integers(
    domain: str, shape: tuple[int, ...], dtype: np.dtype[Any], numbers: np.random.Generator
) -> np.ndarray:
    least = 1 if domain == "positive" else 0 if dtype.kind == "u" else -6
    drawn = numbers.integers(least, 7, shape).astype(dtype)
    if domain != "edge":
        return drawn
    ends = np.iinfo(dtype)
    edges = np.array([ends.min, ends.max, ends.min + 1, ends.max - 1, 0, 1], dtype)
    return np.where(numbers.random(shape) < 0.5, numbers.choice(edges, shape), drawn)


_FLOATS: dict[str, Any] = {
    "any": lambda numbers, shape: numbers.uniform(-2, 2, shape),
    "whole": lambda numbers, shape: numbers.integers(-4, 5, shape),
    "positive": lambda numbers, shape: numbers.uniform(0.5, 2, shape),
    "unit": lambda numbers, shape: numbers.uniform(-0.95, 0.95, shape),
    "special": lambda numbers, shape: numbers.choice(_SPECIAL, shape),
}

"""Random TIR programs as script text, with arguments for them.

Programs are defined by construction: indices are in bounds (or guarded), divisors are not zero, loops that run in any order do not
touch what another iteration stores, and arithmetic stays in its dtype, unless a program lets integers wrap. Floats hold small
integers, so that no rounding depends on the order of operations, and in some buffers NaN and infinities; where they hold anything, no
sum and product are written that may be rounded once instead of twice, and narrow ones are not computed with. So an interpreter and
native code must agree to the last bit, but for the sign of a zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ir.dtype import to_numpy

from .scope import Scope
from .statements import Statements
from .values import INTEGERS, BufferSpec, Reals

_SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0])
_WIDE = 1000
"""Integers of a larger interval are drawn from all of the dtype, the ends often."""


@dataclass(frozen=True)
class TirProgram:
    """A function ``main`` as script text, and an argument for each of its parameters."""

    text: str
    arguments: list[Any]


def tir_program(seed: int, wrap: bool = False, size: int = 6, plain_memory: bool = False) -> TirProgram:
    """The program of a seed.

    Args:
        seed: says everything about the program and its arguments, together with the other two.
        wrap: whether integers may leave the range of their dtype, and wrap, as they do in a third of the programs anyway.
        size: how many statements there may be in each statement at the top.
        plain_memory: whether all parameters are dense arrays of their own, as schedules take them to be.
    """
    scope = Scope(seed, wrap, plain_memory)
    Statements(scope, size).program()
    parameters = [
        f'{buffer.name}: T.Buffer({tuple(buffer.shape)}, "{buffer.dtype}"{_strides(buffer)})'
        for buffer in scope.buffers
    ]
    parameters += [f"{variable.name}: T.{variable.dtype}" for variable, _ in scope.scalars]
    attributes = '"global_symbol": "main"'
    if scope.noalias:
        attributes += ', "tir.noalias": True'
    lines = [
        "@T.prim_func",
        f"def main({', '.join(parameters)}):",
        f"    T.func_attr({{{attributes}}})",
        *(f'    {name} = T.var("{dtype}")' for name, dtype in scope.let_variables.items()),
        *scope.lines,
    ]
    numbers = np.random.default_rng(seed)
    arrays = _arrays(scope.buffers, numbers)
    return TirProgram("\n".join(lines) + "\n", arrays + [argument for _, argument in scope.scalars])


def _strides(buffer: BufferSpec) -> str:
    """The argument that names the strides, where rows do not follow one another."""
    return f", strides={buffer.strides}" if buffer.padding else ""


def _arrays(buffers: list[BufferSpec], numbers: np.random.Generator) -> list[np.ndarray]:
    """An array for each buffer, in the memory that the buffer has, with elements of the buffer that lies in it first."""
    memories: dict[str, np.ndarray] = {}
    arrays = []
    for buffer in buffers:
        elements = _array(buffer, numbers)
        if buffer.place not in memories:
            most = max(other.span for other in buffers if other.place == buffer.place)
            memories[buffer.place] = np.resize(elements, most)
        memory = memories[buffer.place]
        start = numbers.integers(0, len(memory) - buffer.span, endpoint=True)
        strides = [stride * memory.itemsize for stride in buffer.strides]
        array: np.ndarray = np.ndarray(
            buffer.shape, memory.dtype, memory.view("uint8"), int(start) * memory.itemsize, strides
        )
        if not buffer.memory:
            array[...] = elements
        arrays.append(array)
    return arrays


def _array(buffer: BufferSpec, numbers: np.random.Generator) -> np.ndarray:
    """Elements for a buffer, in its interval."""
    dtype = to_numpy(buffer.dtype)
    if buffer.reals is Reals.SPECIAL:
        return numbers.choice(_SPECIAL, buffer.shape).astype(dtype)
    if buffer.reals is Reals.ANY:
        return _any_floats(buffer.shape, dtype, numbers)
    if buffer.dtype not in INTEGERS:
        return numbers.integers(buffer.low, buffer.high + 1, buffer.shape).astype(dtype)
    if buffer.high - buffer.low <= _WIDE:
        wide = dtype if dtype.kind in "iu" else np.dtype("int8")  # of those that numpy lacks
        return numbers.integers(buffer.low, buffer.high, buffer.shape, dtype=wide, endpoint=True).astype(
            dtype
        )
    least, greatest = INTEGERS[buffer.dtype]
    anywhere = numbers.integers(least, greatest, buffer.shape, dtype=dtype, endpoint=True)
    ends = np.array([least, least + 1, greatest, greatest - 1, 0, 1], dtype=dtype)
    edges = numbers.choice(ends, buffer.shape)
    return np.where(numbers.random(buffer.shape) < 0.4, edges, anywhere).astype(dtype)


def _any_floats(shape: list[int], dtype: np.dtype, numbers: np.random.Generator) -> np.ndarray:
    """Floats of every magnitude, the ends of the dtype's range, NaN and infinities."""
    limits = ml_dtypes.finfo(dtype)
    edges = [limits.max, limits.min, limits.tiny, limits.smallest_subnormal, limits.eps, 2.0**31, 2.0**63]
    chosen = numbers.choice(np.array([*map(float, edges), *_SPECIAL]), shape)
    near = numbers.normal(size=shape) * 10.0 ** numbers.integers(-3, 4, shape)
    with np.errstate(over="ignore"):
        return np.where(numbers.random(shape) < 0.4, chosen, near).astype(dtype)

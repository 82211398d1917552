"""Instructions of matrix units, whose registers are memory here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtype as dt
from .. import expr as E
from ..intrinsic.matrix_registers import (
    MATRIX_PRODUCTS,
    MATRIX_ROW_BYTES,
    MATRIX_ROWS,
    pointed_to,
    register_of,
    rows_of,
)
from .lanes import Closure
from .memory import Elements, Pointer
from .protocol import Translator


def _elements(expressions: Translator, address: E.PrimExpr) -> Callable[[dict[Any, Any]], Elements]:
    """The memory from an address on."""
    pointer, dtype = expressions.data(address), pointed_to(address).buffer.dtype

    def find(env: dict[Any, Any]) -> Elements:
        found: Pointer = pointer(env)
        return found.elements(dtype)

    return find


def matrix_load(expressions: Translator, node: E.Call) -> Closure:
    """Rows of memory to a register."""
    register, memory, stride = node.args
    return _moved(expressions, register, memory, stride, register_is_read=False)


def matrix_store(expressions: Translator, node: E.Call) -> Closure:
    """A register's rows to memory."""
    memory, register, stride = node.args
    return _moved(expressions, register, memory, stride, register_is_read=True)


def _moved(
    expressions: Translator,
    register: E.PrimExpr,
    memory: E.PrimExpr,
    stride: E.PrimExpr,
    register_is_read: bool,
) -> Closure:
    buffer, name = register_of(register), pointed_to(memory).buffer.name
    rows, columns = rows_of(buffer), MATRIX_ROW_BYTES // dt.bytes_of(buffer.dtype)
    inside, outside, step = (
        _elements(expressions, register),
        _elements(expressions, memory),
        expressions.data(stride),
    )

    def move(env: dict[Any, Any]) -> int:
        own, others, distance = inside(env), outside(env), step(env)
        for row in range(rows):
            for column in range(columns):
                here, there = row * columns + column, row * distance + column
                if register_is_read:
                    others.write(there, own.read(here, buffer.name), name)
                else:
                    own.write(here, others.read(there, name), buffer.name)
        return 0

    return move


def matrix_accumulate(expressions: Translator, node: E.Call) -> Closure:
    """Products of a register's groups with another's, in order, each step rounded or wrapped to the dtype of the sums."""
    buffers = [register_of(arg) for arg in node.args]
    sums, first, second = (_elements(expressions, arg) for arg in node.args)
    group = MATRIX_PRODUCTS[buffers[1].dtype, buffers[2].dtype, buffers[0].dtype]
    total_type = dt.to_numpy(buffers[0].dtype)

    def values(elements: Elements, position: int) -> np.ndarray:
        count = rows_of(buffers[position]) * MATRIX_ROW_BYTES // dt.bytes_of(buffers[position].dtype)
        found = [elements.read(place, buffers[position].name) for place in range(count)]
        return np.array(found, total_type)

    def accumulate(env: dict[Any, Any]) -> int:
        total = values(sums(env), 0).reshape(rows_of(buffers[0]), -1)
        rows = values(first(env), 1).reshape(len(total), MATRIX_ROWS, group)
        panels = values(second(env), 2).reshape(MATRIX_ROWS, -1, group)
        with np.errstate(all="ignore"):
            for step in range(MATRIX_ROWS * group):
                k, g = divmod(step, group)
                total = total + rows[:, k, g, None] * panels[None, k, :, g]
        for place, value in enumerate(total.ravel().tolist()):
            sums(env).write(place, value, buffers[0].name)
        return 0

    return accumulate

"""Instructions of a matrix unit (Intel's AMX) on whole registers, which :mod:`.matrix_registers` describes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...error import IRTypeError
from ..buffer import Buffer
from ..expr import BufferLoad, Call, PrimExpr
from ..operators import convert
from .declaration import CallEffectKind, call, intrinsic, primitive
from .matrix_registers import MATRIX_PRODUCTS, MATRIX_ROWS, pointed_to, register_of, rows_of


def _check_load(dtype: str, args: Sequence[PrimExpr]) -> None:
    _check_move(register_of(args[0]), pointed_to(args[1]))


def _check_store(dtype: str, args: Sequence[PrimExpr]) -> None:
    _check_move(register_of(args[1]), pointed_to(args[0]))


def _check_move(register: Buffer, memory: BufferLoad) -> None:
    if memory.buffer.dtype != register.dtype:
        raise IRTypeError(
            f"matrix register {register.name} holds {register.dtype}, buffer {memory.buffer.name} {memory.buffer.dtype}"
        )


def _check_product(dtype: str, args: Sequence[PrimExpr]) -> None:
    sums, first, second = (register_of(arg) for arg in args)
    kinds = (first.dtype, second.dtype, sums.dtype)
    if kinds not in MATRIX_PRODUCTS:
        known = "; ".join(f"{a} and {b} to {c}" for a, b, c in MATRIX_PRODUCTS)
        raise IRTypeError(
            f"matrix_accumulate has no form for products of {kinds[0]} and {kinds[1]} that are added to {kinds[2]}, only {known}"
        )
    if rows_of(sums) != rows_of(first) or rows_of(second) != MATRIX_ROWS:
        raise IRTypeError(
            f"matrix_accumulate takes as many rows of {first.name} as {sums.name} has, and {MATRIX_ROWS} rows of {second.name},"
            f" got {rows_of(first)}, {rows_of(sums)} and {rows_of(second)}"
        )


@intrinsic(
    arity=3,
    result="int32",
    effect=CallEffectKind.UPDATE_STATE,
    lowering={"default": primitive},
    check=_check_load,
)
def matrix_load(register: Any, address: Any, stride: Any) -> Call:
    """Fill a register with rows of memory.

    Args:
        register: address of the register's first element.
        address: of the first element of the first row, which has the register's dtype.
        stride: elements from one row to the next.
    """
    return call("matrix_load", register, address, convert(stride, "int64"))


@intrinsic(
    arity=3,
    result="int32",
    effect=CallEffectKind.UPDATE_STATE,
    lowering={"default": primitive},
    check=_check_store,
)
def matrix_store(address: Any, register: Any, stride: Any) -> Call:
    """Write a register's rows to memory.

    Args:
        address: of the first element of the first row, which has the register's dtype.
        register: address of the register's first element.
        stride: elements from one row to the next.
    """
    return call("matrix_store", address, register, convert(stride, "int64"))


@intrinsic(
    arity=3,
    result="int32",
    effect=CallEffectKind.UPDATE_STATE,
    lowering={"default": primitive},
    check=_check_product,
)
def matrix_accumulate(sums: Any, first: Any, second: Any) -> Call:
    """``sums[i, j] += first[i, k * G + g] * second[k, j * G + g]``, summed over 16 rows ``k`` and the numbers ``g`` of a group.

    A group is what 32 bits hold: ``G = 4`` bytes with sums in int32, which wrap, or ``G = 2`` of bfloat16 with sums in float32, which
    are rounded as if added in order by the interpreter. Instructions may round those otherwise, and take numbers that are not normal
    for zero.

    Args:
        sums: address of a register of int32 or float32, 16 in a row.
        first: address of a register of as many rows.
        second: address of a register of 16 rows, of which each has a group for each column of the sums.
    """
    return call("matrix_accumulate", sums, first, second)

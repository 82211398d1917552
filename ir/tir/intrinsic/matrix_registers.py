"""Registers of a matrix unit (Intel's AMX): up to 16 rows of 64 bytes, loaded, multiplied and stored as a whole.

A register is a buffer of the scope :data:`MATRIX_SCOPE` with one dimension, row behind row. The instructions on them are
:mod:`.matrix`'s; :class:`ir.tir.transform.InjectMatrixTiles` makes programs of them.
"""

from __future__ import annotations

from typing import Any

from ... import dtype as dt
from ...error import IRTypeError
from ..buffer import Buffer
from ..expr import BufferLoad, Call, IntImm, PrimExpr
from .vectors import DOT_GROUPS

MATRIX_SCOPE = "matrix"
"""The storage scope of a matrix unit's registers."""
MATRIX_REGISTERS = 8
"""How many of them a program may use at a time."""
MATRIX_ROWS = 16
"""Rows of a register at most."""
MATRIX_ROW_BYTES = 64
"""Bytes of a row."""

MATRIX_COLUMNS = MATRIX_ROW_BYTES // 4
"""Of a register of sums, which have 32 bits."""

MATRIX_PRODUCTS = {kinds: group for kinds, group in DOT_GROUPS.items() if "int16" not in kinds}
"""How many numbers of a row of the first operand a result takes from each row of the second, by the dtypes of both and of the sums."""


def registers_of_rows(extent: Any) -> Any:
    """How many registers at least hold so many rows; of arrays, too. They are used where each gets an equal share."""
    return -(-extent // MATRIX_ROWS)


def registers_suffice(rows: Any, columns: Any) -> Any:
    """Whether there are registers for the sums of so many by so many, for the rows, and for one of the columns; of arrays, too."""
    return rows * columns + rows + 1 <= MATRIX_REGISTERS


def rows_of(register: Buffer) -> int:
    """How many rows a register has.

    Raises:
        IRTypeError: a buffer is no register: it has another scope, or is no whole number of rows.
    """
    extents = [extent.value if isinstance(extent, IntImm) else 0 for extent in register.shape]
    rows, rest = divmod(
        extents[0] * dt.bytes_of(register.dtype) if len(extents) == 1 else 0, MATRIX_ROW_BYTES
    )
    if register.scope() != MATRIX_SCOPE or rest or not 1 <= rows <= MATRIX_ROWS:
        raise IRTypeError(
            f"buffer {register.name} is no matrix register: one dimension of 1 to {MATRIX_ROWS} rows of {MATRIX_ROW_BYTES} bytes"
            f" in the scope {MATRIX_SCOPE!r}"
        )
    return rows


def register_of(address: PrimExpr) -> Buffer:
    """The register whose address an argument is.

    Raises:
        IRTypeError: it is not the address of a register's first element.
    """
    register = pointed_to(address)
    rows_of(register.buffer)
    if not all(isinstance(index, IntImm) and index.value == 0 for index in register.indices):
        raise IRTypeError(f"matrix registers are used from their first element on, not from {register}")
    return register.buffer


def pointed_to(address: PrimExpr) -> BufferLoad:
    """The element whose address an argument is.

    Raises:
        IRTypeError: it is no call of ``address_of``.
    """
    is_address = isinstance(address, Call) and getattr(address.op, "name", "") == "tir.address_of"
    element = address.args[0] if is_address else None  # type: ignore[attr-defined]
    if not isinstance(element, BufferLoad):
        raise IRTypeError(
            f"instructions of matrix units take addresses of elements, as address_of gives them, not {address}"
        )
    return element

"""What schedules take for granted of a function's parameters: that they are different memory.

Primitives move reads and writes of different buffers past each other. So a function that a schedule has changed says ``tir.noalias``,
and one that denies it is scheduled only where that cannot matter.
"""

from __future__ import annotations

from typing import Any

from ir import structural_equal, tir
from ir.tir import PrimFunc

from .error import ScheduleError

NO_ALIAS = "tir.noalias"


def without_aliases(func: PrimFunc) -> PrimFunc:
    """A scheduled function, which says that its parameters are different memory unless it said something of that before."""
    if NO_ALIAS in func.attrs or len(func.buffer_map) < 2:
        return func
    return func.with_attr(NO_ALIAS, True)


def require_elementwise_aliases(name: str, func: PrimFunc) -> None:
    """Refuse to schedule a function that says that its parameters may be one array, unless it touches them at one place at a time.

    ``C[i] = A[i] + C[i]`` is the same in any order where A and C are one array; ``C[i] = A[i + 1]`` is not.

    Raises:
        ScheduleError: a parameter is written at other indices than others are read or written at.
    """
    if func.attrs.get(NO_ALIAS, True):
        return
    parameters = {buffer.data: buffer for buffer in func.buffer_map.values()}
    places: list[tuple[tir.Buffer, Any]] = []
    written: list[tuple[tir.Buffer, Any]] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer.data in parameters:
            (written if isinstance(node, tir.BufferStore) else places).append((node.buffer, node.indices))

    tir.post_order_visit(func.body, visit)
    for buffer, indices in written:
        for other, others in (*places, *written):
            if other is buffer or (
                len(indices) == len(others)
                and all(structural_equal(a, b) for a, b in zip(indices, others, strict=True))
            ):
                continue
            raise ScheduleError(
                f"function {name!r} says that its parameters may be one array (tir.noalias is False), and touches"
                f" {other.name} at [{', '.join(map(str, others))}] where it writes {buffer.name} at"
                f" [{', '.join(map(str, indices))}]: schedules take them for different memory"
            )

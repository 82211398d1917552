"""Rows of shared memory that are padded such that the threads of a warp find what they access at once in different banks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dtype as dt
from ...arith.analyzer import Analyzer
from ...error import IRValueError
from ...node import Visitor, post_order_visit
from ...target.gpu_facts import BANK_BYTES, BANKS, WARP
from ..buffer import Buffer
from ..evaluate import evaluate
from ..expr import BufferLoad, Call, IntImm, PrimExpr, Range, Var
from ..operators import const
from ..stmt import Block, BufferStore, For, ForKind, Stmt
from ..stmt_functor import substitute, variables_in
from .auto_copy_nest import number
from .auto_copy_threads import ThreadAxis

_FRAGMENT_ROWS, _FRAGMENT_ROW_BYTES = 8, 16
"""What tensor cores load at once."""


def with_pitch(buffer: Buffer) -> tuple[Buffer, Var]:
    """The buffer with rows that begin as many elements apart as a variable says, and the variable."""
    pitch = Var(f"{buffer.name}_pitch", buffer.shape[-1].dtype)
    return buffer.replace(strides=_strides(buffer, pitch)), pitch


def padded(buffer: Buffer, padding: int) -> Buffer:
    """The buffer with so many elements behind each row."""
    if not padding:
        return buffer
    width = buffer.shape[-1] + const(padding, buffer.shape[-1].dtype)
    result: Buffer = buffer.replace(strides=_strides(buffer, width))
    return result


def _strides(buffer: Buffer, pitch: PrimExpr) -> tuple[PrimExpr, ...]:
    strides = [pitch, const(1, pitch.dtype)]
    for extent in reversed(buffer.shape[1:-1]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides)


@dataclass(frozen=True)
class _Access:
    """Where the threads of a warp access a buffer."""

    offset: PrimExpr
    """In elements."""
    size: int
    """Bytes of each thread."""
    step: PrimExpr | None
    """Of fragments: between rows. Their rows are what threads access."""
    weight: int
    """How often, as far as constants tell."""


class _Accesses(Visitor):
    """The accesses of buffers in a statement, by their addresses."""

    def __init__(self, buffers: Mapping[Var, Buffer]) -> None:
        super().__init__()
        self.found: dict[Var, list[_Access]] = {data: [] for data in buffers}
        self._buffers = buffers
        self._weight = 1
        self._vector: For | None = None
        self._analyzer = Analyzer()

    def visit_Buffer(self, buffer: Buffer) -> None:
        """Declarations access nothing."""

    def visit_Block(self, block: Block) -> None:
        """What a block says of its accesses are none."""
        self.visit(block.body)

    def visit_For(self, loop: For) -> None:
        weight, vector = self._weight, self._vector
        self._analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        if loop.kind == ForKind.VECTORIZED:
            self._vector = loop
        elif loop.kind != ForKind.THREAD_BINDING:
            self._weight *= max(number(loop.extent) or 1, 1)
        self.visit(loop.body)
        self._weight, self._vector = weight, vector

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self.generic_visit(load)
        self._access(load)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self.generic_visit(store)
        self._access(store)

    def _access(self, access: BufferLoad | BufferStore) -> None:
        if access.buffer.data not in self._buffers or any(
            dt.lanes(index.dtype) > 1 for index in access.indices
        ):
            return
        offset = access.buffer.offset_of(access.indices)[0]
        size, weight = dt.bytes_of(access.buffer.dtype), self._weight
        if self._vector is not None:
            var, lanes = self._vector.loop_var, number(self._vector.extent) or 1
            first, last = (substitute(offset, {var: const(lane, var.dtype)}) for lane in (0, lanes - 1))
            is_piece = number(self._analyzer.simplify_index(last - first)) == lanes - 1
            size, weight = (size * lanes, weight) if is_piece else (size, weight * lanes)
        self.found[access.buffer.data].append(_Access(offset, size, None, weight))

    def visit_Call(self, call: Call) -> None:
        self.generic_visit(call)
        if getattr(call.op, "name", "") not in ("tir.tvm_load_matrix_sync", "tir.tvm_store_matrix_sync"):
            return
        pointer: Any = call.args[5]
        if pointer.args[1] in self._buffers:
            rows = _Access(pointer.args[2], _FRAGMENT_ROW_BYTES, call.args[6], self._weight)
            self.found[pointer.args[1]].append(rows)


def _turns(offsets: np.ndarray, size: int) -> int:
    """How many turns shared memory takes for accesses of so many bytes at byte offsets: in one, a bank serves one piece."""
    together = max(WARP * BANK_BYTES // max(size, BANK_BYTES), 1)
    turns = 0
    for begin in range(0, len(offsets), together):
        first = offsets[begin : begin + together] // BANK_BYTES
        pieces = np.unique(first[:, None] + np.arange(-(-size // BANK_BYTES)))
        turns += int(np.bincount(pieces % BANKS).max())
    return turns


class BankConflicts:
    """Finds the padding of rows with which a program takes the fewest turns of shared memory.

    Args:
        body: the program.
        buffers: with their pitch, by address.
        axes: the threads of a block, the innermost axis last.
    """

    def __init__(
        self, body: Stmt, buffers: Mapping[Var, tuple[Buffer, Var]], axes: Sequence[ThreadAxis]
    ) -> None:
        accesses = _Accesses({data: buffer for data, (buffer, _) in buffers.items()})
        accesses.visit(body)
        self._found, self._buffers = accesses.found, buffers
        lanes = np.arange(WARP)
        self._threads: dict[Var, np.ndarray] = {}
        for axis in reversed(axes):
            self._threads[axis.var] = lanes % axis.extent
            lanes = lanes // axis.extent

    def padding(self, data: Var) -> int:
        """How many elements to leave free behind each row of a buffer."""
        buffer, _ = self._buffers[data]
        element = dt.bytes_of(buffer.dtype)
        widest = max([access.size for access in self._found[data]], default=element)
        unit = max(widest // element, 1)
        options = range(0, BANKS * BANK_BYTES // element + 1, unit)
        costs = [self._cost(data, padding) for padding in options]
        return options[costs.index(min(costs))]

    def _cost(self, data: Var, padding: int) -> int:
        buffer, pitch = self._buffers[data]
        width = buffer.shape[-1]
        assert isinstance(width, IntImm)
        return sum(
            self._turns_of(access, pitch, width.value + padding, buffer.dtype) for access in self._found[data]
        )

    def _turns_of(self, access: _Access, pitch: Var, width: int, dtype: str) -> int:
        values: dict[Any, Any] = dict.fromkeys(variables_in(access.offset), 0) | {pitch: width}
        try:
            if access.step is None:
                offsets = evaluate(access.offset, values | self._threads)
                offsets = np.broadcast_to(offsets, (WARP,))
            else:
                step = evaluate(access.step, dict.fromkeys(variables_in(access.step), 0) | values)
                offsets = evaluate(access.offset, values) + np.arange(_FRAGMENT_ROWS) * step
        except IRValueError:  # data says where
            return 0
        return access.weight * _turns(np.asarray(offsets) * dt.bytes_of(dtype), access.size)


class _Opaque(Visitor):
    """Addresses that are used other than by loads and stores, and buffers that cannot be padded."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[Var] = set()

    def visit_Buffer(self, buffer: Buffer) -> None:
        """A declaration uses nothing."""

    def visit_Var(self, var: Var) -> None:
        self.found.add(var)

    def visit_DeclBuffer(self, stmt: Any) -> None:
        self.found.add(stmt.buffer.data)
        self.visit(stmt.body)

    def visit_Call(self, call: Call) -> None:
        if getattr(call.op, "name", "") == "tir.address_of":
            self.found.update(item.buffer.data for item in call.args if isinstance(item, BufferLoad))
        self.generic_visit(call)


def paddable(body: Stmt) -> dict[Var, Buffer]:
    """The buffers of shared memory whose rows may be padded, by address: dense, of constant extents, accessed by loads and stores alone."""
    opaque = _Opaque()
    opaque.visit(body)
    found: dict[Var, Buffer] = {}

    def look(node: Any) -> None:
        for buffer in node.alloc_buffers if isinstance(node, Block) else ():
            is_dense = len(buffer.shape) > 1 and not buffer.strides and buffer.elem_offset is None
            is_known = all(isinstance(extent, IntImm) for extent in buffer.shape)
            if (
                buffer.scope().startswith("shared")
                and is_dense
                and is_known
                and buffer.data not in opaque.found
            ):
                found[buffer.data] = buffer

    post_order_visit(body, look)
    return found

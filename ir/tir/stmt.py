"""The vocabulary of TIR statements: stores, loops, blocks, allocations, and control flow.

Blocks are the unit of scheduling: a block names its iteration variables, the regions that it reads and writes, and an
initialization for reductions; a :class:`BlockRealize` binds the iteration variables to values of the loops around.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from operator import is_
from typing import Any, ClassVar

import numpy as np

from .. import dtype as dt
from ..attrs import as_attrs
from ..conversion import constant_array
from ..error import IRTypeError, IRValueError
from ..node import Node, field
from ..span import Span
from .buffer import Buffer, check_extents, check_size
from .expr import (
    BufferLoad,
    IntImm,
    IterVar,
    PrimExpr,
    Ramp,
    Range,
    StringImm,
    Var,
    as_condition,
    as_expr,
    as_exprs,
    as_optional_condition,
)
from .operators import const, index_number


class Stmt(Node):
    """Base of statements."""

    span: Span | None = field(default=None, compare=False, kind="leaf")


class ForKind(IntEnum):
    """How a loop runs."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


def _annotations(value: Any) -> dict[str, Any]:
    return as_attrs(value).dict if value else {}


class LetStmt(Stmt, type_key="tir.LetStmt"):
    """``var = value`` for the body."""

    var: Var = field(defines=True)
    value: PrimExpr = field(convert=as_expr)
    body: Stmt


class AssertStmt(Stmt, type_key="tir.AssertStmt"):
    """Fail with ``message`` unless the condition holds, then run the body."""

    condition: PrimExpr = field(convert=as_condition)
    message: PrimExpr = field(convert=lambda text: StringImm(text) if isinstance(text, str) else text)
    body: Stmt


class AttrStmt(Stmt, type_key="tir.AttrStmt"):
    """An attribute ``attr_key = value`` on ``node`` that holds in the body."""

    node: Any = field(kind="leaf", defines=True)
    attr_key: str
    value: PrimExpr = field(convert=as_expr)
    body: Stmt

    @property
    def thread(self) -> IterVar | None:
        """The axis along which it starts threads; None where it starts none."""
        starts = self.attr_key in ("thread_extent", "virtual_thread")
        return self.node if starts and isinstance(self.node, IterVar) else None


class For(Stmt, type_key="tir.For"):
    """A loop over ``[min, min + extent)``; ``thread_binding`` names the thread axis of a THREAD_BINDING loop."""

    loop_var: Var = field(defines=True)
    min: PrimExpr = field(convert=as_expr)
    extent: PrimExpr = field(convert=as_expr)
    kind: ForKind = field(convert=ForKind, kind="leaf")
    body: Stmt
    thread_binding: IterVar = field(default=None)
    annotations: dict[str, Any] = field(default=None, convert=_annotations, kind="leaf")


class While(Stmt, type_key="tir.While"):
    """Repeat the body while the condition holds."""

    condition: PrimExpr = field(convert=as_condition)
    body: Stmt


class BufferStore(Stmt, type_key="tir.BufferStore"):
    """``buffer[indices] = value``."""

    buffer: Buffer
    value: PrimExpr = field(convert=as_expr)
    indices: tuple[PrimExpr, ...] = field(convert=as_exprs)
    predicate: PrimExpr = field(default=None, convert=as_optional_condition)


class BufferRealize(Stmt, type_key="tir.BufferRealize"):
    """The buffer exists within ``bounds`` for the body where the condition holds."""

    buffer: Buffer = field(defines=True)
    bounds: tuple[Range, ...]
    condition: PrimExpr = field(convert=as_expr)
    body: Stmt


WORKSPACE = "tir.workspace"
"""Annotation of allocations whose memory the runtime keeps between calls."""


SHAPED = "tir.shaped"
"""Annotation of loops that have their form: a backend compiler shall neither unroll nor vectorize them."""


class Allocate(Stmt, type_key="tir.Allocate"):
    """Memory of ``extents`` elements for the body; freed behind it."""

    buffer_var: Var = field(defines=True)
    dtype: str
    extents: tuple[PrimExpr, ...] = field(convert=as_exprs)
    condition: PrimExpr = field(convert=as_expr)
    body: Stmt
    annotations: dict[str, Any] = field(default=None, convert=_annotations, kind="leaf")

    def _check(self) -> None:
        check_extents(self.extents, f"allocation {self.buffer_var.name}")
        check_size(self.extents, self.dtype, f"allocation {self.buffer_var.name}")


class AllocateConst(Stmt, type_key="tir.AllocateConst"):
    """Constant memory initialised from ``data`` for the body: an array of as many elements of the dtype, read-only, in C order."""

    buffer_var: Var = field(defines=True)
    dtype: str
    extents: tuple[PrimExpr, ...] = field(convert=as_exprs)
    data: np.ndarray = field(convert=constant_array, kind="leaf")
    body: Stmt
    annotations: dict[str, Any] = field(default=None, convert=_annotations, kind="leaf")

    def _check(self) -> None:
        what = f"constant {self.buffer_var.name}"
        check_extents(self.extents, what)
        found, wanted = dt.from_numpy(self.data.dtype), dt.element_of(self.dtype)
        if found != wanted:
            raise IRTypeError(
                f"{what} is of dtype {self.dtype}, its data of dtype {found}; convert the array first"
            )
        known = [extent.value for extent in self.extents if isinstance(extent, IntImm)]
        elements = math.prod(known) * dt.lanes(self.dtype)
        if len(known) < len(self.extents) or elements != self.data.size:
            raise IRValueError(
                f"{what} has extents {list(self.extents)} of {self.dtype}, its data {self.data.size} elements; they must be as many"
            )


class DeclBuffer(Stmt, type_key="tir.DeclBuffer"):
    """Declare a buffer over existing data for the body."""

    buffer: Buffer = field(defines=True)
    body: Stmt


def _flat_sequence(statements: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The statements, with those of sequences among them in their place."""
    if not any(item.__class__ is SeqStmt for item in statements):
        return tuple(statements)
    return tuple([part for item in statements for part in stmt_list(item)])


class SeqStmt(Stmt, type_key="tir.SeqStmt"):
    """Statements in order, none of which is a sequence; :func:`seq` drops no-ops, too."""

    seq: tuple[Stmt, ...] = field(convert=_flat_sequence)

    def _map_children(self, f: Callable[[Any], Any]) -> SeqStmt:
        """As for other nodes; what has become a sequence is joined."""
        mapped = [f(item) for item in self.seq]
        return self if all(map(is_, mapped, self.seq)) else self._rebuild(_flat_sequence(mapped), self.span)

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def __len__(self) -> int:
        return len(self.seq)


class IfThenElse(Stmt, type_key="tir.IfThenElse"):
    """Run one of two statements; ``else_case`` may be None."""

    condition: PrimExpr = field(convert=as_condition)
    then_case: Stmt
    else_case: Stmt = field(default=None)


class Evaluate(Stmt, type_key="tir.Evaluate"):
    """Evaluate an expression for its effect."""

    value: PrimExpr = field(convert=as_expr)


def _in_index_numbers(region: Sequence[Range]) -> tuple[Range, ...]:
    """A region whose bounds are index numbers, whatever type the indices have that it was made of."""
    ranges = tuple(region)
    for item in ranges:
        low, extent = index_number(item.min), index_number(item.extent)
        if low is not item.min or extent is not item.extent:
            return tuple(
                Range.from_min_extent(index_number(each.min), index_number(each.extent), each.span)
                for each in ranges
            )
    return ranges


class BufferRegion(Node, type_key="tir.BufferRegion"):
    """A box of a buffer. Its bounds are index numbers: what an index of another type says is converted."""

    buffer: Buffer
    region: tuple[Range, ...] = field(convert=_in_index_numbers)

    def asobject(self) -> PrimExpr:
        """The region as a value, where an expression is expected: a vector load."""
        indices = []
        for item in self.region:
            lanes = item.extent.value if isinstance(item.extent, IntImm) else 0
            if lanes < 1:
                raise IRTypeError(
                    f"a region of buffer {self.buffer.name} of extent {item.extent} cannot be used as a value"
                )
            indices.append(item.min if lanes == 1 else Ramp(item.min, const(1, item.min.dtype), lanes))
        return BufferLoad(self.buffer, indices)


class MatchBufferRegion(Node, type_key="tir.MatchBufferRegion"):
    """Another view (``buffer``) of the region ``source`` inside a block."""

    buffer: Buffer = field(defines=True)
    source: BufferRegion


class Block(Stmt, type_key="tir.Block"):
    """A computation over iteration variables, isolated from the loops around it."""

    iter_vars: tuple[IterVar, ...] = field(defines=True)
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str = field(compare=False)
    body: Stmt
    init: Stmt = field(default=None)
    alloc_buffers: tuple[Buffer, ...] = field(default=(), defines=True)
    match_buffers: tuple[MatchBufferRegion, ...] = field(default=(), defines=False)
    annotations: dict[str, Any] = field(default=None, convert=_annotations, kind="leaf")

    # What a block reads and writes may be of memory that is declared in its body.
    _compare_order: ClassVar[tuple[str, ...]] = (
        "iter_vars",
        "alloc_buffers",
        "match_buffers",
        "annotations",
        "init",
        "body",
        "reads",
        "writes",
    )


class BlockRealize(Stmt, type_key="tir.BlockRealize"):
    """Run a block for values of its iteration variables, where ``predicate`` holds."""

    iter_values: tuple[PrimExpr, ...] = field(convert=as_exprs)
    predicate: PrimExpr = field(convert=as_condition)
    block: Block

    def _check(self) -> None:
        if len(self.iter_values) != len(self.block.iter_vars):
            raise IRTypeError(
                f"block {self.block.name_hint} has {len(self.block.iter_vars)} iteration variables,"
                f" got {len(self.iter_values)} values"
            )


def seq(*statements: Stmt | Sequence[Stmt]) -> Stmt:
    """Statements in order as one statement: nested sequences are flattened, no-ops dropped, one alone stays itself."""
    flat: list[Stmt] = []
    stack: list[Stmt | Sequence[Stmt]] = list(reversed(statements))
    while stack:
        item = stack.pop()
        if isinstance(item, SeqStmt):
            stack.extend(reversed(item.seq))
        elif not isinstance(item, Stmt):
            stack.extend(reversed(item))
        elif not (isinstance(item, Evaluate) and isinstance(item.value, IntImm)):
            flat.append(item)
    if not flat:
        return Evaluate(const(0))
    return flat[0] if len(flat) == 1 else SeqStmt(flat)


def stmt_seq(*args: PrimExpr | Stmt) -> SeqStmt:
    """Statements one after the other; expressions are evaluated."""
    return SeqStmt([item if isinstance(item, Stmt) else Evaluate(item) for item in args])


def stmt_list(stmt: Stmt) -> Sequence[Stmt]:
    """The statements of a sequence, those of nested sequences included."""
    if isinstance(stmt, SeqStmt):
        return [part for item in stmt.seq for part in stmt_list(item)]
    return [stmt]

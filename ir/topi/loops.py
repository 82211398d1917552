"""Statements for the operators that are written as loops (scatter, scan, sort) instead of as element formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..te.access_region import full_region
from ..tir.buffer import Buffer
from ..tir.expr import PrimExpr, Var
from ..tir.operators import const, convert
from ..tir.stmt import (
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)


def loop(
    extent: Any,
    body: Callable[[Var], Stmt],
    name: str = "i",
    kind: ForKind = ForKind.SERIAL,
    begin: Any = None,
) -> Stmt:
    """``for name in range(begin, begin + extent)``; ``body`` is given the loop variable."""
    count = convert(extent)
    var = Var(name, count.dtype)
    start = const(0, count.dtype) if begin is None else begin
    return For(var, start, count, kind, body(var))


def parallel(extent: Any, body: Callable[[Var], Stmt], name: str = "row") -> Stmt:
    """A parallel loop; a single iteration stays serial."""
    count = convert(extent)
    one = getattr(count, "value", None) == 1
    return loop(count, body, name, ForKind.SERIAL if one else ForKind.PARALLEL)


def nest(extents: Sequence[Any], body: Callable[[list[Var]], Stmt], kind: ForKind = ForKind.SERIAL) -> Stmt:
    """Loops over all ``extents``, the first outermost and of ``kind``."""
    loop_vars = [Var(f"i{axis}", convert(extent).dtype) for axis, extent in enumerate(extents)]
    statement = body(loop_vars)
    for axis in reversed(range(len(loop_vars))):
        extent = convert(extents[axis])
        statement = For(
            loop_vars[axis], const(0, extent.dtype), extent, kind if axis == 0 else ForKind.SERIAL, statement
        )
    return statement


def store(buffer: Buffer, indices: Sequence[Any], value: Any) -> Stmt:
    """``buffer[indices] = value``."""
    return BufferStore(buffer, convert(value, buffer.dtype), list(indices))


def when(condition: PrimExpr, then: Stmt, otherwise: Stmt | None = None) -> Stmt:
    """An if statement."""
    return IfThenElse(condition, then, otherwise)


def let(values: Sequence[PrimExpr], body: Callable[..., Stmt]) -> Stmt:
    """Names for values, which are taken before ``body`` runs; it is given the names."""
    names = [Var(f"v{number}", value.dtype) for number, value in enumerate(values)]
    statement = body(*names)
    for name, value in reversed(list(zip(names, values, strict=True))):
        statement = LetStmt(name, value, statement)
    return statement


def scope(
    name: str,
    reads: Sequence[Buffer | BufferRegion],
    writes: Sequence[Buffer | BufferRegion],
    local: Sequence[Buffer],
    body: Stmt,
    annotations: Mapping[str, Any] | None = None,
) -> Stmt:
    """An opaque block that owns temporary buffers; of a buffer without a region it may touch all."""
    block = Block(
        (),
        [full_region(item) if isinstance(item, Buffer) else item for item in reads],
        [full_region(item) if isinstance(item, Buffer) else item for item in writes],
        name,
        body,
        None,
        local,
        annotations=annotations,
    )
    return BlockRealize((), const(True), block)


__all__ = ["let", "loop", "nest", "parallel", "scope", "seq", "store", "when"]

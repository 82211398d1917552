"""Small programs made of plain nodes, for tests of the database and the runners; they need no frontend."""

from __future__ import annotations

from typing import Any

from ir import IRModule
from ir.tir import (
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IterVar,
    PrimFunc,
    Range,
    Var,
    const,
    decl_buffer,
)


def matmul(
    n: int = 4,
    m: int = 4,
    k: int = 4,
    dtype: str = "float32",
    attrs: dict[str, Any] | None = None,
    transposed: bool = False,
) -> IRModule:
    """C[i, j] = sum over r of A[i, r] * B[r, j], or of A[i, r] * B[j, r] when transposed."""
    shapes = (("A", (n, k)), ("B", (m, k) if transposed else (k, m)), ("C", (n, m)))
    a, b, c = (decl_buffer(shape, dtype, name) for name, shape in shapes)
    i, j, r = (Var(name, "int32") for name in "ijr")
    vi, vj, vr = (Var(f"v{name}", "int32") for name in "ijr")
    axes = [
        IterVar(Range(0, n), vi, IterVar.DataPar),
        IterVar(Range(0, m), vj, IterVar.DataPar),
        IterVar(Range(0, k), vr, IterVar.CommReduce),
    ]
    place = (vj, vr) if transposed else (vr, vj)
    block = Block(
        axes,
        [point(a, vi, vr), point(b, *place)],
        [point(c, vi, vj)],
        "C",
        BufferStore(c, c[vi, vj] + a[vi, vr] * b[place], [vi, vj]),
        BufferStore(c, const(0, dtype), [vi, vj]),
    )
    body: Any = BlockRealize([i, j, r], True, block)
    for var, extent in ((r, k), (j, m), (i, n)):
        body = For(var, 0, extent, ForKind.SERIAL, body)
    return IRModule(
        {"main": PrimFunc([a, b, c], root(body), attrs={"global_symbol": "main", **(attrs or {})})}
    )


def scaled(
    n: int = 16, factor: float = 2.0, attrs: dict[str, Any] | None = None, dtype: str = "float32"
) -> IRModule:
    """B[i] = A[i] * factor."""
    a, b = decl_buffer((n,), dtype, "A"), decl_buffer((n,), dtype, "B")
    i, vi = Var("i", "int32"), Var("vi", "int32")
    store = BufferStore(b, a[vi] * const(factor, dtype), [vi])
    block = Block([IterVar(Range(0, n), vi, IterVar.DataPar)], [point(a, vi)], [point(b, vi)], "B", store)
    body = For(i, 0, n, ForKind.SERIAL, BlockRealize([i], True, block))
    return IRModule({"main": PrimFunc([a, b], root(body), attrs={"global_symbol": "main", **(attrs or {})})})


def point(buffer: Any, *indices: Any) -> BufferRegion:
    """The region of one element."""
    return BufferRegion(buffer, [Range.from_min_extent(index, 1) for index in indices])


def root(body: Any) -> BlockRealize:
    """The outermost block that every PrimFunc of TIR has."""
    return BlockRealize([], True, Block([], [], [], "root", body))

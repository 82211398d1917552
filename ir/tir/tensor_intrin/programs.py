"""What descriptions and implementations of tensor intrinsics are made of: a root block over a nest, or over one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..buffer import Buffer, decl_buffer
from ..expr import IterVar, PrimExpr, Range, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import Block, BlockRealize, BufferRegion, BufferStore, For, ForKind, Stmt
from ..stmt_functor import loads_in

Pair = tuple[PrimFunc, PrimFunc]
"""A description and an implementation."""


def tile(name: str, shape: Sequence[int], dtype: str, scope: str, has_strides: bool = False) -> Buffer:
    """A buffer that stands for a part of another one, of any place, and of any strides if it is asked for."""
    strides = [Var(f"{name}_s{axis}", "int32") for axis in range(len(shape))] if has_strides else None
    return decl_buffer(list(shape), dtype, name, scope=scope, offset_factor=1, strides=strides)


def whole(buffer: Buffer) -> BufferRegion:
    """All of a buffer."""
    return BufferRegion(
        buffer, [Range.from_min_extent(const(0, extent.dtype), extent) for extent in buffer.shape]
    )


def function(
    params: Sequence[Buffer], reads: Sequence[Buffer], writes: Sequence[Buffer], body: Stmt
) -> PrimFunc:
    """A function of tiles with one root block."""
    block = Block((), [whole(item) for item in reads], [whole(item) for item in writes], "root", body)
    return PrimFunc(list(params), BlockRealize((), const(True), block))


def nest(
    name: str, axes: Sequence[tuple[str, int]], compute: Callable[..., BufferStore], index: str = "int32"
) -> Stmt:
    """A block in loops, one for each of its variables.

    Args:
        name: of the block.
        axes: "S" or "R" and the extent, from the outermost loop on.
        compute: the statement, given the variables.
        index: the dtype of loops and variables.
    """
    loops = [Var(f"i{axis}", index) for axis in range(len(axes))]
    variables = [Var(f"v{axis}", index) for axis in range(len(axes))]
    kinds = {"S": IterVar.DataPar, "R": IterVar.CommReduce}
    iter_vars = [
        IterVar(Range.from_min_extent(const(0, index), const(extent, index)), var, kinds[kind])
        for (kind, extent), var in zip(axes, variables, strict=True)
    ]
    store = compute(*variables)
    found = Block(iter_vars, (), (), name, store)
    stmt: Stmt = BlockRealize(loops, const(True), _with_regions(found))
    for loop, (_, extent) in reversed(list(zip(loops, axes, strict=True))):
        stmt = For(loop, const(0, index), const(extent, index), ForKind.SERIAL, stmt)
    return stmt


def _with_regions(block: Block) -> Block:
    """The block with what its statement reads and writes."""
    store = block.body
    assert isinstance(store, BufferStore)
    loads = [load for load in loads_in(store.value) if load.buffer is not store.buffer]
    reads = [_element(load.buffer, load.indices) for load in loads]
    has_sum = any(load.buffer is store.buffer for load in loads_in(store.value))
    writes = [_element(store.buffer, store.indices)]
    return block.replace(reads=(*(writes if has_sum else ()), *reads), writes=tuple(writes))


def _element(buffer: Buffer, indices: Sequence[PrimExpr]) -> BufferRegion:
    return BufferRegion(buffer, [Range.from_min_extent(index, const(1, index.dtype)) for index in indices])

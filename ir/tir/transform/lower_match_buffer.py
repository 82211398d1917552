"""LowerMatchBuffer: accesses through a block's buffer views become accesses of the buffers behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..buffer import Buffer, number_of_elements
from ..expr import BufferLoad, Call, PrimExpr, Range, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import Block, BufferRegion, BufferStore, LetStmt, MatchBufferRegion, Stmt
from ..stmt_functor import StmtExprMutator, StmtVisitor, loads_in
from .prim_func_pass import PrimFuncPass


class _Lower(StmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.views: dict[Buffer, BufferRegion] = {}
        self.values: dict[Var, Any] = {}

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.values.get(var, var)

    def visit_Block(self, block: Block) -> Block:
        loaded: list[tuple[Var, PrimExpr]] = []
        for match in block.match_buffers:
            self._bind(match, loaded)
        mapped = self.generic_visit(block.replace(match_buffers=()))
        for var, value in reversed(loaded):
            mapped = mapped.replace(body=LetStmt(var, value, mapped.body))
        return mapped

    def _bind(self, match: MatchBufferRegion, loaded: list[tuple[Var, PrimExpr]]) -> None:
        """Resolves a view; what its region reads from memory, which the block may change, is appended to ``loaded``."""
        view = match.buffer
        source = self._absolute(match.source)
        region = [Range.from_min_extent(_once(r.min, loaded), _once(r.extent, loaded)) for r in source.region]
        source = source.replace(region=region)
        self.views[view] = source
        # pointer, offset, strides and symbolic extents of the view in terms of the source
        self.values[view.data] = source.buffer.data
        if isinstance(view.elem_offset, Var):
            start = source.buffer.offset_of([r.min for r in source.region])[0]
            self.values[view.elem_offset] = start
        strides: list[Any] = list(source.buffer.strides)
        if not strides:
            dense: Any = const(1)
            for extent in reversed(source.buffer.shape):
                strides.insert(0, dense)
                dense = number_of_elements(dense, extent)
        dropped = len(source.region) - len(view.shape)
        for stride, actual in zip(view.strides, strides[dropped:]):
            if isinstance(stride, Var):
                self.values[stride] = actual
        for extent, part in zip(view.shape, source.region[dropped:]):
            if isinstance(extent, Var):
                self.values[extent] = part.extent

    def _absolute(self, region: BufferRegion) -> BufferRegion:
        """A region of a real buffer, with views of views resolved."""
        ranges = [Range.from_min_extent(self.visit(r.min), self.visit(r.extent)) for r in region.region]
        outer = self.views.get(region.buffer)
        if outer is None:
            return BufferRegion(region.buffer, ranges)
        dropped = len(outer.region) - len(ranges)
        absolute = [Range.from_min_extent(r.min, const(1, r.min.dtype)) for r in outer.region[:dropped]]
        for part, inner in zip(outer.region[dropped:], ranges):
            absolute.append(Range.from_min_extent(part.min + inner.min, inner.extent))
        return BufferRegion(outer.buffer, absolute)

    def _indices(self, source: BufferRegion, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        dropped = len(source.region) - len(indices)
        fixed = [r.min for r in source.region[:dropped]]
        return fixed + [r.min + self.visit(index) for r, index in zip(source.region[dropped:], indices)]

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        source = self.views.get(load.buffer)
        if source is None:
            return self.generic_visit(load)
        return BufferLoad(source.buffer, self._indices(source, load.indices), load.predicate)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        source = self.views.get(store.buffer)
        if source is None:
            return self.generic_visit(store)
        return BufferStore(
            source.buffer, self.visit(store.value), self._indices(source, store.indices), store.predicate
        )

    def visit_BufferRegion(self, region: BufferRegion) -> BufferRegion:
        return self._absolute(region) if region.buffer in self.views else self.generic_visit(region)

    def visit_Call(self, call: Call) -> PrimExpr:
        return self.generic_visit(call)


def _once(value: PrimExpr, loaded: list[tuple[Var, PrimExpr]]) -> PrimExpr:
    """The value itself, or a variable for it if it reads memory."""
    if not loads_in(value):
        return value
    var = Var("start", value.dtype)
    loaded.append((var, value))
    return var


class _FindViews(StmtVisitor):
    """Finds out whether some block has a view."""

    def __init__(self) -> None:
        super().__init__()
        self.is_found = False

    def visit_Block(self, block: Block) -> None:
        self.is_found = self.is_found or bool(block.match_buffers)
        self.generic_visit(block)


@dataclass(frozen=True)
class LowerMatchBuffer(PrimFuncPass):
    """Replace ``match_buffer`` views by the buffers they show.

    Before::

        with T.block(""):
            A_view = T.match_buffer(A[i * 4:i * 4 + 4, 0:8], (4, 8), strides=[s0, s1], offset_factor=1)
            A_view[2, 3] = 1.0
            T.evaluate(T.call_extern("f", A_view.data, A_view.elem_offset, s0))

    After::

        with T.block(""):
            A[i * 4 + 2, 3] = 1.0
            T.evaluate(T.call_extern("f", A.data, i * 32, 8))
    """

    pass_name = "tir.LowerMatchBuffer"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without views."""
        finder = _FindViews()
        finder.visit(func.body)
        if not finder.is_found:
            return func
        return func.replace(body=_Lower().visit(func.body))

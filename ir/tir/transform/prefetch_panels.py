"""PrefetchPanels: while a kernel works on one panel of a large operand, the next panel is fetched from memory.

A matrix product or convolution reads a panel of packed weights once per tile of its output: the first time from memory,
then from the cache.  Without help the first tile waits for memory, which is idle during all the others.

Where a panel is used once (a product of few rows), it is fetched a page ahead: processors do so themselves, but each time only up to the
end of a page, and lose sight of the panel where they follow too many other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod

from ... import dtype as dt
from ...arith.index_simplifier import IndexSimplifier, Linear
from ...module import IRModule
from ...node import post_order_visit
from ...transform import PassContext
from ..buffer import Buffer
from ..expr import BufferLoad, IntImm, PrimExpr, Ramp, Var
from ..function import PrimFunc
from ..op import address_of, prefetch
from ..operators import const
from ..stmt import Allocate, BufferStore, Evaluate, For, ForKind, Stmt, seq
from ..stmt_functor import StmtExprMutator, StmtVisitor
from .prim_func_pass import PrimFuncPass

_LINE_BYTES = 64

#: Cache lines that one run of the innermost body may fetch: with more, memory is the limit whatever is fetched when.
_MAX_LINES_PER_BODY = 2

_PAGE_BYTES = 4096

#: Lines of results that a body adds to for each line that it fetches ahead, at least: with fewer, memory is the limit.
_STORES_PER_LINE = 8


@dataclass(frozen=True)
class _Loop:
    """A loop around the statement in view."""

    var: Var
    extent: int
    kind: ForKind


@dataclass(frozen=True)
class _Panel:
    """The part of a buffer that stays in use while one loop outside of it makes one step."""

    start: PrimExpr
    """Flat index of the next panel's first element."""
    elements: int
    runs: list[_Loop]
    """The serial loops inside of that step, outermost first; their bodies' runs share the fetching."""
    most_lines: int = _MAX_LINES_PER_BODY


@dataclass(frozen=True)
class _Access:
    """What a body reads of a buffer, whose flat index is a sum of multiples of loop variables."""

    terms: dict[Var, int]
    const: int
    lanes: int
    dtype: str
    """Of the index."""

    def stretch(self, inner: Mapping[Var, int], extents: Mapping[Var, int]) -> int | None:
        """How many elements some loops access, if they are one stretch of memory."""
        elements = prod(extents[var] for var in inner) * self.lanes
        reach = sum(c * (extents[var] - 1) for var, c in inner.items()) + self.lanes
        return elements if reach == elements and all(c >= 0 for c in inner.values()) else None


class _Prefetch(StmtExprMutator):
    def __init__(self, operands: set[Var], min_bytes: int) -> None:
        super().__init__()
        self.operands = operands
        self.min_bytes = min_bytes
        self.simplifier = IndexSimplifier()
        self.loops: list[_Loop] = []

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_Allocate(self, node: Allocate) -> Stmt:
        body = self.visit(node.body)
        return node if body is node.body else node.replace(body=body)

    def visit_For(self, loop: For) -> Stmt:
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        if not isinstance(loop.extent, IntImm) or not _is_zero(loop.min):
            return loop
        self.loops.append(_Loop(loop.loop_var, loop.extent.value, loop.kind))
        if loop.kind == ForKind.SERIAL and _is_innermost(loop):
            body = seq([*self._fetches(loop.body), loop.body])
        else:
            body = self.visit(loop.body)
        self.loops.pop()
        return loop if body is loop.body else loop.replace(body=body)

    def _fetches(self, body: Stmt) -> list[Stmt]:
        """Prefetches for the panels that the body of an innermost loop reads."""
        extents = {loop.var: loop.extent for loop in self.loops}
        loads: dict[Buffer, BufferLoad] = {}

        def visit(node: object) -> None:
            if isinstance(node, For) and isinstance(node.extent, IntImm):
                extents[node.loop_var] = node.extent.value
            elif (
                isinstance(node, BufferLoad) and node.buffer.data in self.operands and len(node.indices) == 1
            ):
                loads.setdefault(node.buffer, node)

        post_order_visit(body, visit)
        found = []
        for buffer, load in loads.items():
            access = self._access(load, extents) if _bytes(buffer) >= self.min_bytes else None
            if access is not None:
                panel = self._panel(access, extents) or self._ahead(access, buffer, extents, body)
                found += _fetch(buffer, panel) if panel is not None else []
        return found

    def _access(self, load: BufferLoad, extents: Mapping[Var, int]) -> _Access | None:
        """What a load accesses; None where elements lie apart, or an index is of another form."""
        ramp = load.indices[0]
        index, lanes = ramp, 1
        if isinstance(ramp, Ramp):
            if not isinstance(ramp.stride, IntImm) or ramp.stride.value != 1:
                return None
            index, lanes = ramp.base, ramp.lanes
        linear = self.simplifier.linear(index)
        terms = {atom: c for atom, c in linear.terms.items() if isinstance(atom, Var) and atom in extents}
        if len(terms) < len(linear.terms) or self.loops[-1].var not in terms:
            return None
        return _Access(terms, linear.const, lanes, index.dtype)

    def _panel(self, access: _Access, extents: Mapping[Var, int]) -> _Panel | None:
        """The panel behind the one of an access; None where nothing is used again, or where it is not one stretch of memory."""
        terms = access.terms
        step = self._step(terms)
        if step is None:
            return None
        outer = {loop.var for loop in self.loops[: step + 1]}
        elements = access.stretch({var: c for var, c in terms.items() if var not in outer}, extents)
        if elements is None:
            return None
        following = self._start(access, outer, terms[self.loops[step].var])
        runs = [loop for loop in self.loops[step + 1 :] if loop.kind == ForKind.SERIAL]
        return None if following is None else _Panel(following, elements, runs)

    def _ahead(
        self, access: _Access, buffer: Buffer, extents: Mapping[Var, int], body: Stmt
    ) -> _Panel | None:
        """What a body reads a page later, where run after run reads on; None where it computes too little for each line."""
        if self._step(access.terms) is not None:
            return None
        around = {loop.var for loop in self.loops}
        elements = access.stretch({var: c for var, c in access.terms.items() if var not in around}, extents)
        if elements is None or elements != access.terms[self.loops[-1].var]:
            return None
        start = self._start(access, around, _PAGE_BYTES * 8 // dt.bits(buffer.dtype))
        most_lines = _stores(body) // _STORES_PER_LINE
        return None if start is None else _Panel(start, elements, [], most_lines)

    def _start(self, access: _Access, outer: set[Var], distance: int) -> PrimExpr | None:
        """The index so many elements behind what an access begins with in an iteration of outer loops."""
        rest: dict[PrimExpr, int] = {var: c for var, c in access.terms.items() if var in outer}
        return self.simplifier.try_build(Linear(rest, access.const + distance), access.dtype)

    def _step(self, terms: Mapping[Var, int]) -> int | None:
        """The loop whose steps go from panel to panel: the innermost around the first that uses a panel again."""
        step = None
        for position, loop in enumerate(self.loops):
            if loop.var in terms:
                step = position
            elif step is not None and loop.kind == ForKind.SERIAL and loop.extent > 1:
                return step
        return None


def _fetch(buffer: Buffer, panel: _Panel) -> list[Stmt]:
    """The statements that fetch one run's share of the panel."""
    runs = prod(loop.extent for loop in panel.runs)
    share = ceil(panel.elements / runs)
    line = _LINE_BYTES * 8 // dt.bits(buffer.dtype)
    if share > panel.most_lines * line:
        return []
    dtype = panel.start.dtype
    run: PrimExpr = const(0, dtype)
    for loop in panel.runs:
        run = run * const(loop.extent, dtype) + loop.var
    first = panel.start + run * const(share, dtype)
    return [
        Evaluate(prefetch(address_of(BufferLoad(buffer, [first + const(offset, dtype)])), 0, 3, 1))
        for offset in range(0, share, line)
    ]


def _bytes(buffer: Buffer) -> int:
    if not all(isinstance(extent, IntImm) for extent in buffer.shape):
        return 0
    return prod(extent.value for extent in buffer.shape) * dt.bits(buffer.dtype) // 8  # type: ignore[attr-defined]


def _stores(body: Stmt) -> int:
    """Cache lines that an unrolled body stores to, each time that it does."""
    count, runs = 0, 1

    class Counter(StmtVisitor):
        def visit_For(self, loop: For) -> None:
            nonlocal runs
            extent = loop.extent.value if isinstance(loop.extent, IntImm) else 1
            runs *= extent
            self.visit(loop.body)
            runs //= max(extent, 1)

        def visit_BufferStore(self, node: BufferStore) -> None:
            nonlocal count
            count += runs * ceil(dt.lanes(node.value.dtype) * dt.bits(node.value.dtype) / 8 / _LINE_BYTES)

    Counter().visit(body)
    return count


def _is_zero(value: PrimExpr) -> bool:
    return isinstance(value, IntImm) and value.value == 0


class _FindLoop(StmtVisitor):
    """Finds out whether a statement holds a loop that is not unrolled."""

    def __init__(self) -> None:
        super().__init__()
        self.is_found = False

    def visit_For(self, loop: For) -> None:
        if loop.kind in (ForKind.UNROLLED, ForKind.VECTORIZED):
            self.visit(loop.body)
        else:
            self.is_found = True


def _is_innermost(loop: For) -> bool:
    """Whether all loops inside are unrolled."""
    finder = _FindLoop()
    finder.visit(loop.body)
    return not finder.is_found


@dataclass(frozen=True)
class PrefetchPanels(PrimFuncPass):
    """Fetch the next panel of a large operand during the tiles that share the present one.

    A panel is what an innermost loop nest reads of a parameter again and again, while a loop that the access does not
    depend on runs around it.  Each run of the innermost body fetches an equal share of the panel behind it.  An
    address beyond the buffer is harmless: a prefetch never faults. What is read once, run after run, is fetched a page before.

    Before::

        for p in range(16):                  # panels
            for tile in range(8):            # reads the same panel
                for k in range(512):
                    C[tile, ...] += A[tile, k] * W[p * 16384 + k * 32 : +32]

    After: in the loop over ``k`` stands ``prefetch(address_of(W[(p + 1) * 16384 + (tile * 512 + k) * 4]))``.
    """

    min_bytes: int = 1 << 20
    """Smaller buffers stay in the caches anyway."""
    pass_name = "tir.PrefetchPanels"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with prefetches."""
        large = {buffer.data for buffer in func.buffer_map.values() if _bytes(buffer) >= self.min_bytes}
        if not large:
            return func
        body = _Prefetch(large, self.min_bytes).visit(func.body)
        return func if body is func.body else func.replace(body=body)

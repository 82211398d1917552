"""PrefetchPanels: while a kernel works on one panel of a large operand, the next panel is fetched from memory.

A matrix product or convolution reads a panel of packed weights once per tile of its output: the first time from memory,
then from the cache.  Without help the first tile waits for memory, which is idle during all the others.
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
from ..stmt import Allocate, Evaluate, For, ForKind, Stmt, seq
from ..stmt_functor import StmtExprMutator, StmtVisitor
from .prim_func_pass import PrimFuncPass

_LINE_BYTES = 64

#: Cache lines that one run of the innermost body may fetch: with more, memory is the limit whatever is fetched when.
_MAX_LINES_PER_BODY = 2


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
        return [
            item
            for load in loads.values()
            if _bytes(load.buffer) >= self.min_bytes
            for panel in [self._panel(load, extents)]
            if panel is not None
            for item in _fetch(load.buffer, panel)
        ]

    def _panel(self, load: BufferLoad, extents: dict[Var, int]) -> _Panel | None:
        """The panel of a load; None where nothing is used again, or where it is not one stretch of memory."""
        ramp = load.indices[0]
        index, lanes = ramp, 1
        if isinstance(ramp, Ramp):
            if not isinstance(ramp.stride, IntImm) or ramp.stride.value != 1:
                return None
            index, lanes = ramp.base, ramp.lanes
        linear = self.simplifier.linear(index)
        terms = {atom: c for atom, c in linear.terms.items() if isinstance(atom, Var) and atom in extents}
        step = self._step(terms)
        if step is None or len(terms) < len(linear.terms) or self.loops[-1].var not in terms:
            return None
        outer = {loop.var for loop in self.loops[: step + 1]}
        inner = {var: c for var, c in terms.items() if var not in outer}
        elements = prod(extents[var] for var in inner) * lanes
        stretch = sum(c * (extents[var] - 1) for var, c in inner.items()) + lanes
        if stretch != elements or any(c < 0 for c in inner.values()):
            return None
        rest: dict[PrimExpr, int] = {var: c for var, c in terms.items() if var in outer}
        following = Linear(rest, linear.const + terms[self.loops[step].var])
        runs = [loop for loop in self.loops[step + 1 :] if loop.kind == ForKind.SERIAL]
        built = self.simplifier.try_build(following, index.dtype)
        return None if built is None else _Panel(built, elements, runs)

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
    if share > _MAX_LINES_PER_BODY * line:
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
    address beyond the buffer is harmless: a prefetch never faults.

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

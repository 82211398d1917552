"""What a block reads and writes, found in its body: one box per buffer, in order of first access."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ir import tir
from ir.dtype import lanes
from ir.node import Visitor
from ir.tir.stmt_functor import loads_in, substitute

from .affine import mentions
from .bounds import analyzer_of
from .filled_box import may_reduce_over_nothing
from .region import Box, bind_region, contains, relax_domains, relax_loops, relax_region, union_boxes
from .surroundings import elements_along, evaluated_by, names_around
from .tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    SeqNode,
    TreeNode,
    WrapNode,
    loops_below,
    scope_of,
    tree_of,
    walk,
)

Regions = tuple[tir.BufferRegion, ...]


class _Accesses(Visitor):
    """Collects the boxes that statements and expressions touch, relaxed over loops inside them, with what lets inside stand for."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.reads: dict[tir.Buffer, list[Box]] = {}
        self.writes: dict[tir.Buffer, list[Box]] = {}
        self._running: dict[Any, tir.PrimExpr] = {}
        self._starts: dict[Any, tir.PrimExpr] = {}
        self._local: set[tir.Buffer] = set()

    def visit_BufferLoad(self, load: tir.BufferLoad) -> None:
        self._add(self.reads, load.buffer, load.indices)
        for item in (*load.indices, load.predicate):
            if item is not None:
                self.visit(item)

    def visit_BufferStore(self, store: tir.BufferStore) -> None:
        for item in (*store.indices, store.predicate):
            if item is not None:
                self.visit(item)
        self.visit(store.value)
        self._add(self.writes, store.buffer, store.indices)

    def _add(self, table: dict[tir.Buffer, list[Box]], buffer: tir.Buffer, indices: Any) -> None:
        if buffer not in self._local:
            region = [elements_along(index, dim) for index, dim in zip(indices, buffer.shape, strict=True)]
            self.add_region(table, tir.BufferRegion(buffer, region))

    def add_region(self, table: dict[tir.Buffer, list[Box]], region: tir.BufferRegion) -> None:
        """Add a region under the loops that run here."""
        if region.buffer not in self._local:
            ranges = (
                [substitute(item, self._starts) for item in region.region] if self._starts else region.region
            )
            box = relax_region(ranges, self._running, region.buffer.shape)
            table.setdefault(region.buffer, []).append(box)

    def visit_LetStmt(self, let: tir.LetStmt) -> None:
        self.visit(let.value)
        with self._naming(let):
            self.visit(let.body)

    def visit_AttrStmt(self, attr: tir.AttrStmt) -> None:
        self.visit(attr.value)
        with self._naming(attr):
            self.visit(attr.body)

    @contextmanager
    def _naming(self, statement: tir.Stmt) -> Iterator[None]:
        """With the name that a statement gives to a value, or to threads, which run through all of their numbers."""
        if isinstance(statement, tir.LetStmt):
            self._starts[statement.var] = substitute(statement.value, self._starts)
            yield
            del self._starts[statement.var]
        elif isinstance(statement, tir.AttrStmt) and statement.thread is not None:
            var = statement.thread.var
            self._enter(var, tir.const(0, var.dtype), statement.value)
            yield
            self._leave(var)
        else:
            yield

    def visit_Let(self, let: tir.Let) -> None:
        self.visit(let.value)
        self._starts[let.var] = substitute(let.value, self._starts)
        with self.forgetting():  # what is shared with another scope touches other elements there
            self.visit(let.body)
        del self._starts[let.var]

    def visit_For(self, loop: tir.For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self._enter(loop.loop_var, loop.min, loop.extent)
        self.visit(loop.body)
        self._leave(loop.loop_var)

    def _enter(self, var: tir.Var, low: tir.PrimExpr, extent: tir.PrimExpr) -> None:
        if self._starts:  # bounds may name lets, or loops that start elsewhere
            low, extent = substitute(low, self._starts), substitute(extent, self._starts)
        self._running[var] = extent
        if not (isinstance(low, tir.IntImm) and low.value == 0):
            self._starts[var] = low + var

    def _leave(self, var: tir.Var) -> None:
        del self._running[var]
        self._starts.pop(var, None)

    def walk(self, node: TreeNode) -> None:
        """Collect from a loop tree."""
        for expr in evaluated_by(node):
            self.visit(expr)
        if isinstance(node, LoopNode):
            self._enter(node.var, node.min, node.extent)
            self.walk(node.body)
            self._leave(node.var)
        elif isinstance(node, LeafNode):
            self.visit(node.leaf)
        elif isinstance(node, SeqNode):
            for child in node.children():
                self.walk(child)
        elif isinstance(node, WrapNode):
            with self._naming(node.template):
                for child in node.children():
                    self.walk(child)
        elif isinstance(node, BlockNode):
            values = dict(zip([item.var for item in node.iter_vars], node.iter_values, strict=True))
            for regions, table in ((reads_with_init(node), self.reads), (node.writes, self.writes)):
                for region in regions:
                    if region.buffer not in node.alloc_buffers:
                        self.add_region(
                            table, tir.BufferRegion(region.buffer, bind_region(region.region, values))
                        )


def box_touched(
    block: BlockNode, region: tir.BufferRegion, running: Sequence[LoopNode], place: TreeNode
) -> Box:
    """The box that a region of a block covers while some loops around it run, as it may be said at a place around the block.

    Names that lets between the two give to values become these; of a dimension that depends on threads between them it is all.
    """
    values = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    bound = bind_region(region.region, values)
    names = names_around(block, place)
    if not names:
        return relax_loops(bound, running, region.buffer.shape)
    known = {var: value for var, value in names.items() if value is not None}
    threads = names.keys() - known.keys()
    domains = {loop.var: substitute(loop.range(), known) for loop in running}
    box = relax_domains([substitute(item, known) for item in bound], domains, region.buffer.shape)
    return [
        (tir.const(0, dim.dtype), dim)
        if mentions(low, threads) or mentions(extent, threads)
        else (low, extent)
        for (low, extent), dim in zip(box, region.buffer.shape, strict=True)
    ]


def relaxed_below(block: BlockNode, region: tir.BufferRegion, place: TreeNode) -> Box:
    """The box of a buffer that a block touches over those loops around it that lie below ``place``."""
    return box_touched(block, region, loops_below(block, place), place)


def known_before(box: Box, changing: Container[tir.Var], shape: Sequence[Any]) -> Box:
    """What a box is known to be where a block begins: all of a dimension whose ends are loaded from memory that changes inside of it.

    Args:
        box: of what the block touches.
        changing: the pointers of the buffers that it writes, or that are known only inside of it.
        shape: of the buffer.
    """
    return [
        (tir.const(0, dim.dtype), dim)
        if any(load.buffer.data in changing for end in (low, extent) for load in loads_in(end))
        else (low, extent)
        for (low, extent), dim in zip(box, shape, strict=True)
    ]


def access_regions(block: BlockNode, init: tir.Stmt | None) -> tuple[Regions, Regions]:
    """(reads, writes) of a block from its body and ``init``; what a reduction reads of the elements that it writes is no input."""
    found = _Accesses()
    found._local = set(block.alloc_buffers)
    for match in block.match_buffers:
        for item in match.source.region:
            found.visit(item.min)
            found.visit(item.extent)
    if init is not None:
        found.visit(init)
    found.walk(block.body)
    for view in reversed(block.match_buffers):
        for table in (found.reads, found.writes):
            if table.pop(view.buffer, None):
                found.add_region(table, view.source)
    if init is not None:
        for buffer, written in found.writes.items():
            read = [
                box for box in found.reads.pop(buffer, ()) if not any(contains(item, box) for item in written)
            ]
            if read:
                found.reads[buffer] = read
    changing = {buffer.data for buffer in (*found.writes, *block.alloc_buffers)}
    changing.update(view.buffer.data for view in block.match_buffers)
    return _as_regions(found.reads, changing), _as_regions(found.writes, changing)


def reads_with_init(block: BlockNode) -> Regions:
    """What a block states that it reads and, where it may reduce over nothing, what its init reads besides.

    What a block states in terms of variables that have no values is no region at all, and the init runs all the same: rule
    ``[reduce-empty]``.
    """
    return (*block.reads, *read_by_init(block)) if may_reduce_over_nothing(block) else block.reads


def read_by_init(block: BlockNode) -> Regions:
    """What the init of a block reads of what is known around the block: by views in it, too."""
    if block.init is None or not loads_in(block.init):
        return ()
    alone = BlockNode(
        "init",
        (),
        (),
        (),
        (),
        tree_of(block.init),
        alloc_buffers=block.alloc_buffers,
        match_buffers=block.match_buffers,
    )
    reads, _ = access_regions(alone, None)
    return reads


def state_loads_of_indices(copy: BlockNode) -> None:
    """Let a block that was made to copy a buffer state, behind that, what its own indices and bounds load."""
    source = copy.reads[0].buffer
    reads, _ = access_regions(copy, None)
    copy.change(reads=tuple(sorted(reads, key=lambda item: item.buffer is not source)))


def _as_regions(table: dict[tir.Buffer, list[Box]], changing: Container[tir.Var]) -> Regions:
    regions = []
    for buffer, boxes in table.items():
        box = known_before(union_boxes(boxes, buffer.shape), changing, buffer.shape)
        regions.append(
            tir.BufferRegion(buffer, [tir.Range.from_min_extent(low, extent) for low, extent in box])
        )
    return tuple(regions)


def state_around(block: BlockNode) -> None:
    """Let the blocks around a block that was made or moved state that they read and write what it does, where that is more than what
    they state.
    """
    scope = scope_of(block)
    if scope is None or not (scope.reads or scope.writes):
        return  # the block of a function states nothing
    for region in reads_with_init(block):
        _widen(block, region, is_write=False)
    for region in block.writes:
        _widen(block, region, is_write=True)


def _widen(node: BlockNode, region: tir.BufferRegion, *, is_write: bool) -> None:
    """Widen what the blocks around a node state, until one states a region of the node already or has its buffer for itself."""
    buffer, scope = region.buffer, scope_of(node)
    while scope is not None and (scope.reads or scope.writes) and buffer not in scope.alloc_buffers:
        stated = scope.writes if is_write else scope.reads
        box = known_before(relaxed_below(node, region, scope), _changing_in(scope), buffer.shape)
        for view in reversed(scope.match_buffers):
            if view.buffer is buffer:  # known only in this block, which touches what it is a view of
                buffer = view.source.buffer
                box = [(item.min, item.extent) for item in view.source.region]
        known: list[Box] = [
            [(item.min, item.extent) for item in other.region] for other in stated if other.buffer is buffer
        ]
        if any(_holds(item, box, buffer, scope) for item in known):
            return
        ranges = [
            tir.Range.from_min_extent(low, extent) for low, extent in union_boxes([*known, box], buffer.shape)
        ]
        region = tir.BufferRegion(buffer, ranges)
        if known:
            regions = tuple(region if item.buffer is buffer else item for item in stated)
        else:
            regions = (*stated, region)
        if is_write:
            scope.change(writes=regions)
        else:
            scope.change(reads=regions)
        node, scope = scope, scope_of(scope)


def _changing_in(scope: BlockNode) -> set[tir.Var]:
    """The pointers of what a block writes, as far as it states that, or holds."""
    buffers = [region.buffer for region in scope.writes]
    views = [item.buffer for item in scope.match_buffers]
    return {buffer.data for buffer in (*buffers, *scope.alloc_buffers, *views)}


def _holds(outer: Box, inner: Box, buffer: tir.Buffer, scope: BlockNode) -> bool:
    """Whether one box holds all of another that exists, for the values of a block's variables."""
    if contains(outer, inner):
        return True
    analyzer = analyzer_of(variables=scope.iter_vars)
    return all(
        (analyzer.can_prove(first <= 0) or analyzer.can_prove(first <= low))
        and (analyzer.can_prove(first + size >= dim) or analyzer.can_prove(first + size >= low + extent))
        for (first, size), (low, extent), dim in zip(outer, inner, buffer.shape, strict=True)
    )


class _OtherUses(Visitor):
    """Finds uses of a buffer other than by its loads and stores (of single elements)."""

    remembers: ClassVar[bool] = True

    def __init__(self, buffer: tir.Buffer, allows_vectors: bool) -> None:
        super().__init__()
        self._buffer, self._allows_vectors = buffer, allows_vectors
        self.found: str | None = None

    def visit_BufferLoad(self, load: tir.BufferLoad) -> None:
        self._access(load)

    def visit_BufferStore(self, store: tir.BufferStore) -> None:
        self.visit(store.value)
        self._access(store)

    def _access(self, node: tir.BufferLoad | tir.BufferStore) -> None:
        if node.buffer.data is self._buffer.data:
            if node.buffer is not self._buffer:
                self.found = f"as {node.buffer.name}"
            elif not self._allows_vectors and any(lanes(index.dtype) != 1 for index in node.indices):
                self.found = "by vectors"
        for item in (*node.indices, node.predicate):
            if item is not None:
                self.visit(item)

    def visit_BufferRegion(self, region: tir.BufferRegion) -> None:
        """What a block in an init states touches nothing."""
        for item in region.region:
            self.visit(item.min)
            self.visit(item.extent)

    def visit_Var(self, var: tir.Var) -> None:
        if var is self._buffer.data:
            self.found = "by its pointer"


def why_not_elementwise(block: BlockNode, buffer: tir.Buffer) -> str | None:
    """The reason why something in a block does not touch a buffer by loads and stores of single elements, or None."""
    return why_not_loads_and_stores(block, buffer, allows_vectors=False)


def why_not_loads_and_stores(
    block: BlockNode, buffer: tir.Buffer, *, allows_vectors: bool = True
) -> str | None:
    """The reason why something in a block touches a buffer otherwise than by loads and stores of it: by views, by its pointer, or None."""
    uses = _OtherUses(buffer, allows_vectors)
    for node in walk(block):
        if isinstance(node, LeafNode):
            uses.visit(node.leaf)
        elif isinstance(node, BlockNode):
            if node.init is not None:
                uses.visit(node.init)
            if any(item.source.buffer is buffer for item in node.match_buffers):
                uses.found = "by a view"
        if node is not block:
            for expr in evaluated_by(node):
                uses.visit(expr)
    return None if uses.found is None else f"buffer {buffer.name} is accessed {uses.found}"

"""ShareOutputMemory: what a large output is made of, element by element, lives in the output's memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from ... import dtype as dt
from ...arith.deep_equal import expr_deep_equal
from ...arith.index_range import IndexRanges
from ...arith.index_simplifier import IndexSimplifier
from ...module import IRModule
from ...node import Visitor
from ...transform import PassContext
from .. import expr as E
from ..analysis.no_alias import promises_no_alias
from ..buffer import Buffer
from ..conjunction import conjuncts
from ..expr import BufferLoad, IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..row_alignment import BUFFER_DIM_ALIGN
from ..stmt import AttrStmt, Block, BlockRealize, BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt, While
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass


@dataclass(frozen=True)
class _Place:
    """A statement on the way to an access, and which part of it the way goes through: of a sequence the position, else 0."""

    node: Stmt
    part: int = 0


@dataclass(frozen=True)
class _Access:
    """A load or a store, the store whose value it is in (itself, for a store), and the way to it from the outermost statement on."""

    node: BufferLoad | BufferStore
    store: BufferStore | None
    path: tuple[_Place, ...]

    def loops(self) -> Iterator[For]:
        """The loops around it, the outermost first."""
        return (place.node for place in self.path if isinstance(place.node, For))


class _Collect(Visitor):
    """All accesses of some buffers; those of which an address is taken, or a view, have none that are known."""

    remembers: ClassVar[bool] = True

    def __init__(self, buffers: list[Buffer]) -> None:
        super().__init__()
        self.accesses: dict[Buffer, list[_Access] | None] = {buffer: [] for buffer in buffers}
        self.blocks: dict[Buffer, Block] = {}
        self._by_data = {buffer.data: buffer for buffer in buffers}
        self._path: list[_Place] = []
        self._store: BufferStore | None = None

    def _below(self, node: Stmt, *parts: Any, part: int = 0) -> None:
        self._path.append(_Place(node, part))
        for item in parts:
            self.visit(item)
        self._path.pop()

    def visit_For(self, loop: For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self._below(loop, loop.body)

    def visit_While(self, loop: While) -> None:
        self._below(loop, loop.condition, loop.body)

    def visit_LetStmt(self, let: LetStmt) -> None:
        self.visit(let.value)
        self._below(let, let.body)

    def visit_AttrStmt(self, stmt: AttrStmt) -> None:
        self.visit(stmt.value)
        self._below(stmt, stmt.body)

    def visit_SeqStmt(self, seq: SeqStmt) -> None:
        for part, item in enumerate(seq.seq):
            self._below(seq, item, part=part)

    def visit_IfThenElse(self, stmt: IfThenElse) -> None:
        self.visit(stmt.condition)
        self._below(stmt, stmt.then_case)
        if stmt.else_case is not None:
            self._below(stmt, stmt.else_case, part=1)

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        self.visit(realize.predicate)
        self._below(realize, realize.block)

    def visit_Block(self, block: Block) -> None:
        for buffer in block.alloc_buffers:
            if buffer in self.accesses:
                self.blocks[buffer] = block
        for match in block.match_buffers:
            self.accesses[match.source.buffer] = None
        aligned = BUFFER_DIM_ALIGN in block.annotations
        for region in block.writes if aligned else ():
            self.accesses[region.buffer] = None
        self._below(block, *([] if block.init is None else [block.init]), block.body)

    def visit_Var(self, var: Var) -> None:
        if var in self._by_data:
            self.accesses[self._by_data[var]] = None

    def visit_Call(self, call: E.Call) -> None:
        name = getattr(call.op, "name", "")
        if name == "tir.address_of" and isinstance(call.args[0], BufferLoad):
            self.accesses[call.args[0].buffer] = None
        elif name == "tir.ret":  # what is behind it may not happen
            self.accesses = dict.fromkeys(self.accesses)
        self.generic_visit(call)

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self._note(load, self._store)
        for item in load.indices if load.predicate is None else (*load.indices, load.predicate):
            self.visit(item)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self._note(store, store)
        for index in store.indices:
            self.visit(index)
        self._store = store
        self.visit(store.value)
        self._store = None
        if store.predicate is not None:
            self.visit(store.predicate)

    def _note(self, node: BufferLoad | BufferStore, store: BufferStore | None) -> None:
        known = self.accesses.get(node.buffer)
        if known is not None:
            known.append(_Access(node, store, tuple(self._path)))
        elif node.buffer.data in self._by_data and node.buffer not in self.accesses:
            self.accesses[self._by_data[node.buffer.data]] = None  # a view


@dataclass(frozen=True)
class _Digits:
    """A dimension as loops walk through it: ``start`` of the loops around the allocation, and how far those inside go."""

    start: dict[Any, int]
    size: int


class _Sharing:
    """Whether an intermediate may live where the output does.

    Both live in an iteration of the loops around the allocation. The last part of it writes the output, each element once and of the
    intermediate's same element alone; all parts before access nothing but the elements that it writes. In other iterations these are other
    elements, so that nobody sees what was there in between.
    """

    def __init__(self, intermediate: Buffer, output: Buffer, found: _Collect) -> None:
        self.intermediate, self.output = intermediate, output
        self.accesses = found.accesses[intermediate] or []
        self.writes = found.accesses[output] or []
        self.block = found.blocks.get(intermediate)
        self.simplifier = IndexSimplifier()
        self.digits: list[_Digits] = []

    def is_possible(self) -> bool:
        """Whether the output is written by one store, of whole dimensions in the order of loops, behind all else."""
        if self.block is None or len(self.writes) != 1 or not self.accesses:
            return False
        (last,) = self.writes
        own = [item for item in self.accesses if item.store is last.node]
        others = [item for item in self.accesses if item.store is not last.node]
        return (
            isinstance(last.node, BufferStore)
            and last.node.predicate is None
            and all(self._is_same_element(item.node, last.node) for item in own)
            and bool(own)
            and all(self._is_before(item, last) for item in others)
            and self._bind_loops([last, *others])
            and self._walks_through(last)
            and all(self._stays_inside(item) for item in others)
        )

    def blocks_around(self) -> Iterator[Block]:
        """The block that allocates, and those around it."""
        for place in self.writes[0].path:
            if isinstance(place.node, Block):
                yield place.node
                if place.node is self.block:
                    return

    def is_contiguous(self) -> bool:
        """Whether what lives in one iteration of the loops around the allocation is one piece of memory."""
        parts = [item.size < _extent(dim) for item, dim in zip(self.digits, self.output.shape)]
        first_whole = len(parts) - parts[::-1].index(True) if True in parts else 0
        return all(item.size == 1 for item in self.digits[: max(0, first_whole - 1)])

    def _is_same_element(self, load: BufferLoad | BufferStore, store: BufferStore) -> bool:
        return isinstance(load, BufferLoad) and all(
            expr_deep_equal(one, other) for one, other in zip(load.indices, store.indices, strict=True)
        )

    def _inside(self, access: _Access) -> tuple[_Place, ...] | None:
        """The way from the block that allocates on."""
        for depth, place in enumerate(access.path):
            if place.node is self.block:
                return access.path[depth + 1 :]
        return None

    def _is_before(self, access: _Access, last: _Access) -> bool:
        """Whether an access is over before the part of the block begins that writes the output."""
        one, other = self._inside(access), self._inside(last)
        for a, b in zip(one or (), other or ()):
            if a == b and isinstance(a.node, For | While):
                return False  # the next round comes after the last store of this one
            if a != b:
                return a.node is b.node and isinstance(a.node, SeqStmt) and a.part < b.part
        return False

    def _bind_loops(self, accesses: list[_Access]) -> bool:
        for access in accesses:
            for place in access.path:
                starts_threads = isinstance(place.node, AttrStmt) and place.node.thread is not None
                if isinstance(place.node, While) or starts_threads:
                    return False
            for loop in access.loops():
                if loop.thread_binding is not None:
                    return False
                self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        return True

    def _walks_through(self, last: _Access) -> bool:
        """Whether loops are the digits of every index, those around the allocation the higher ones, and each element has its turn once."""
        inside = {place.node for place in self._inside(last) or () if isinstance(place.node, For)}
        loops: dict[PrimExpr, tuple[int, bool]] = {}
        for loop in last.loops():
            if not (isinstance(loop.min, IntImm) and loop.min.value == 0):
                return False
            if not (isinstance(loop.extent, IntImm) and loop.extent.value > 0):
                return False
            loops[loop.loop_var] = (loop.extent.value, loop in inside)
        left = {var for var, (extent, _) in loops.items() if extent > 1}
        assert isinstance(last.node, BufferStore)
        for index in last.node.indices:
            found = self._digits_of(index, loops, left)
            if found is None:
                return False
            self.digits.append(found)
        return not left and all(self._cuts_off(clause, last.node) for clause in self._conditions(last))

    def _digits_of(
        self, index: PrimExpr, loops: dict[PrimExpr, tuple[int, bool]], left: set[PrimExpr]
    ) -> _Digits | None:
        """An index as digits; its loops are taken away from those that are left."""
        found = self.simplifier.linear(index)
        start: dict[Any, int] = {}
        step = size = 1
        for atom, coefficient in sorted(found.terms.items(), key=lambda item: item[1]):
            extent, is_inside = loops.get(atom, (0, False))
            if extent == 1:
                continue
            if atom not in left or coefficient != step or (is_inside and start):
                return None
            left.discard(atom)
            step *= extent
            if is_inside:
                size = step
            else:
                start[atom] = coefficient
        return _Digits(start, size) if found.const == 0 else None

    def _conditions(self, access: _Access) -> Iterator[PrimExpr]:
        for place in self._inside(access) or ():
            if isinstance(place.node, IfThenElse):
                yield place.node.condition if place.part == 0 else E.Not(place.node.condition)
            elif isinstance(place.node, BlockRealize):
                yield from conjuncts(place.node.predicate)

    def _cuts_off(self, clause: PrimExpr, store: BufferStore) -> bool:
        """Whether a condition only says that an index is inside of its dimension."""
        if isinstance(clause, IntImm):
            return clause.value == 1
        if not isinstance(clause, E.LT) or not isinstance(clause.b, IntImm):
            return False
        bounded = self.simplifier.linear(clause.a)
        return any(
            _extent(dim) == clause.b.value
            and self._is_same(bounded.plus(self.simplifier.linear(index), -1).terms)
            and bounded.const == self.simplifier.linear(index).const
            for index, dim in zip(store.indices, store.buffer.shape, strict=True)
        )

    def _is_same(self, difference: dict[Any, int]) -> bool:
        return not self._without_single_rounds(difference)

    def _without_single_rounds(self, terms: dict[Any, int]) -> dict[Any, int]:
        """Terms but for those of loops that run once, from 0."""
        return {
            atom: factor
            for atom, factor in terms.items()
            if not (isinstance(atom, Var) and self.simplifier.bounds(atom) == (0, 0))
        }

    def _stays_inside(self, access: _Access) -> bool:
        """Whether an access of the intermediate reaches nothing but what the output's store writes in the same iteration."""
        running = {place.node.loop_var for place in self._inside(access) or () if isinstance(place.node, For)}
        ranges = IndexRanges(self.simplifier)
        for index, digits, dim in zip(access.node.indices, self.digits, self.output.shape, strict=True):
            found = ranges.split(self.simplifier.linear(index), lambda var: var in running)
            if found is None:
                return False
            fixed, low, high = found
            if self._without_single_rounds(fixed.terms) != digits.start:
                return False
            low, high = fixed.const + low, fixed.const + high
            if not digits.start:  # what a condition cuts off is beyond the dimension
                low, high = max(low, 0), min(high, _extent(dim) - 1)
            if low < 0 or high >= digits.size:
                return False
        return True


def _extent(dim: PrimExpr) -> int:
    return dim.value if isinstance(dim, IntImm) else 0


class _Share(StmtExprMutator):
    """Puts outputs in the place of intermediates.

    Args:
        shared: the output for each intermediate.
        readers: blocks around allocations, with the outputs that they read now.
    """

    def __init__(self, shared: dict[Buffer, Buffer], readers: dict[Block, list[Buffer]]) -> None:
        super().__init__()
        self._shared, self._readers = shared, readers

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return self._shared.get(buffer, buffer)

    def visit_Block(self, block: Block) -> Block:
        kept = tuple(buffer for buffer in block.alloc_buffers if buffer not in self._shared)
        read = [region for region in block.writes if region.buffer in self._readers.get(block, ())]
        mapped = self.generic_visit(block)
        return mapped.replace(alloc_buffers=kept, reads=(*mapped.reads, *read))


@dataclass(frozen=True)
class ShareOutputMemory(PrimFuncPass):
    """Keep an intermediate in the output's memory, where each element of the output is made of the same element of it.

    A softmax writes its exponentials, adds them up, and divides them. Where the output comes from memory, exponentials with memory of their
    own make the core wait when it divides, which is quickly done; in the output's they are computed meanwhile. Outputs that stay in
    a cache are better left alone: the intermediate is nearer to the core.

    Args:
        at_least: bytes of the output.

    Before::

        for i in range(16):
            with T.block(""):
                B = T.alloc_buffer((16, 4096))
                for j in range(4096):
                    B[i, j] = T.exp(A[i, j])
                for j in range(4096):
                    S[i] = S[i] + B[i, j]
                for j in range(4096):
                    C[i, j] = B[i, j] / S[i]

    After::

        for i in range(16):
            with T.block(""):
                for j in range(4096):
                    C[i, j] = T.exp(A[i, j])
                for j in range(4096):
                    S[i] = S[i] + C[i, j]
                for j in range(4096):
                    C[i, j] = C[i, j] / S[i]
    """

    pass_name = "tir.ShareOutputMemory"
    at_least: int = 0

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with fewer allocations."""
        plain = (buffer for buffer in func.buffer_map.values() if _is_plain(buffer))
        outputs = [buffer for buffer in plain if _n_bytes(buffer) >= self.at_least]
        allocated = [
            buffer for buffer in _allocated(func) if any(_is_alike(buffer, item) for item in outputs)
        ]
        if not allocated or not promises_no_alias(func):
            return func
        found = _Collect([*outputs, *allocated])
        found.visit(func.body)
        shared: dict[Buffer, Buffer] = {}
        readers: dict[Block, list[Buffer]] = {}
        for buffer in allocated:
            for output in outputs:
                if output in shared.values() or not _is_alike(buffer, output):
                    continue
                sharing = _Sharing(buffer, output, found)
                if sharing.is_possible() and sharing.is_contiguous():
                    shared[buffer] = output
                    for block in sharing.blocks_around():
                        readers.setdefault(block, []).append(output)
                    break
        return func.replace(body=_Share(shared, readers).visit(func.body)) if shared else func


def _is_plain(buffer: Buffer) -> bool:
    return (
        buffer.scope() == "global"
        and not buffer.strides
        and buffer.elem_offset is None
        and all(isinstance(dim, IntImm) for dim in buffer.shape)
    )


def _n_bytes(buffer: Buffer) -> int:
    return prod(_extent(dim) for dim in buffer.shape) * dt.bytes_of(buffer.dtype)


def _is_alike(buffer: Buffer, output: Buffer) -> bool:
    """Whether both hold the same number of elements in the same way."""
    return buffer.dtype == output.dtype and [_extent(dim) for dim in buffer.shape] == [
        _extent(dim) for dim in output.shape
    ]


class _Allocations(Visitor):
    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Buffer] = []

    def visit_Block(self, block: Block) -> None:
        self.found += block.alloc_buffers
        self.visit(block.body)


def _allocated(func: PrimFunc) -> list[Buffer]:
    collector = _Allocations()
    collector.visit(func.body)
    return [buffer for buffer in collector.found if _is_plain(buffer)]

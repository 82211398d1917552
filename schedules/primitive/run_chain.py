"""run_chain: the parts of a chain of reductions are combined as they come, so that none of them is kept.

:mod:`schedules.primitive.rfactor_chain` leaves partial results of all parts, and combines them at the end:

    for k0: m_rf[k0], s_rf[k0] = ...                          for k0:
    for k0: m = max(m, m_rf[k0])                                  m_rf, s_rf = ...
    for k0: scale[k0] = exp(m_rf[k0] - m)                         before = m
    for k0: s = s + scale[k0] * s_rf[k0]               ->         m = max(before, m_rf)
                                                                  scale, again = exp(m_rf - m), exp(before - m)
                                                                  s = again * s + scale * s_rf

What was summed up relative to the maximum of the parts so far is brought to the new one by the same kind of factor that brings a part
to it. (Milakov, Gimelshein: "Online normalizer calculation for softmax", 2018; Dao et al.: "FlashAttention", 2022.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ir import dtype as dt
from ir import structural_equal, tir
from ir.op import Op
from ir.tir import IterVar
from ir.tir.analysis.reducer import Abstraction, Reduction
from ir.tir.stmt_functor import loads_in, substitute

from ..affine import mentions
from ..analysis import (
    consumers_of,
    is_output_block,
    require,
    why_not_complete,
    why_not_reduction,
    written_buffers,
)
from ..argument import Flag, Loop
from ..declaration import PrimitiveFamily, primitive
from ..error import ScheduleError
from ..moved_accesses import MovedAccesses
from ..random_variable import LoopRV
from ..region import point_region
from ..rescaling import EXPONENTIALS
from ..rewriting import rewrite_block
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    SeqNode,
    TreeNode,
    blocks_below,
    detach,
    fresh_block_name,
    insert_beside,
    is_ancestor,
    loops_around,
    loops_of_its_own,
    scope_of,
)
from .joined_parts import JoinedParts
from .rfactor import reduction_of

_NAME = "run_chain"


class RunChainPrimitives(PrimitiveFamily):
    """Chains of reductions that are combined as they come."""

    @primitive("RunChain", loop=Loop(), joins_parts=Flag())
    def run_chain(self, loop: LoopRV, joins_parts: bool = False) -> None:
        """Combine the parts that a loop computes in this loop, where ``rfactor_chain`` has left that behind it.

        ``loop`` is the one over the parts, in which all of a part is computed (:meth:`merge` makes it), and the nests of the blocks that
        combine them stand behind it in the same sequence: the maximum over the parts, their factors, and the sums of multiples.
        Rows that a mask hides to the end are NaN as before.

        With ``joins_parts`` the terms of a part are relative to the maximum so far from the beginning, of which the part's own is one, and
        its sums need no factor::

            m_rf = ...
            before = m
            m = max(before, m_rf)
            again = exp(before - m)
            s_rf = ...                              # relative to m
            s = again * s + s_rf

        Args:
            loop: over the parts.
            joins_parts: whether terms are relative to the maximum so far.

        Raises:
            ScheduleError: what stands behind the loop does not combine its parts in this form; a factor is no exponential of the difference
                of two maxima; or others read partial results or factors.
        """
        node = self._loop(loop)
        _Run(node, joins_parts).rewrite()


@dataclass
class _Factor:
    """A block that computes what brings each part to the maximum of all."""

    block: BlockNode
    store: tir.BufferStore
    value: tir.PrimExpr
    """In terms of :attr:`_Run.before` and :attr:`_Run.after`."""
    again: tir.Buffer
    """Room for what brings the parts before to it."""


@dataclass
class _Total:
    """A block that adds up multiples of the parts."""

    block: BlockNode
    reduction: Reduction
    scale: tir.BufferLoad
    part: tir.PrimExpr


class _Run:
    """The blocks that combine the parts of a loop: checked first, then moved."""

    def __init__(self, loop: LoopNode, joins_parts: bool) -> None:
        self._loop, self._joins_parts = loop, joins_parts
        scope = scope_of(loop)
        assert scope is not None
        self._scope = scope
        inside = blocks_below(loop)
        self._inside = {id(node) for node in inside}
        readers = [item for node in inside for item in consumers_of(node) if id(item) not in self._inside]
        self._extreme, self._reduction = self._find_extreme(readers)
        self.result = self._reduction.outputs[0]
        self.identity = self._reduction.inits[0].value
        part = self._reduction.operands[0]
        assert isinstance(part, tir.BufferLoad)
        self._part = part
        self.before, self.after = (tir.Var(name, self.result.dtype) for name in ("before", "after"))
        self._factors = [
            self._factor(node) for node in consumers_of(self._extreme) if part.buffer in _read_by(node)
        ]
        rooms = {item.store.buffer: item for item in self._factors}
        self._totals: list[tuple[_Total, _Factor]] = []
        for factor in self._factors:
            for node in consumers_of(factor.block):
                total = self._total(node, rooms)
                self._totals.append((total, rooms[total.scale.buffer]))
        self._require_nothing_else(readers)
        if joins_parts:
            self._require_that_parts_join()
        self._place: TreeNode | None = None
        """Behind which nest of the loop the next one is put; at the end of the loop, if that is not said."""

    # ---- what stands behind the loop -----------------------------------------------------------------------------

    def _require_that_parts_join(self) -> None:
        """The factor of each sum is the one by which its terms change with the maximum."""
        parts = JoinedParts(self._loop, self._part.buffer, self._kind is tir.Max, _NAME)
        for total, factor in self._totals:
            parts.require_factor(total.part, total.scale.indices, factor.value, self.before, self.after)

    def _find_extreme(self, readers: list[BlockNode]) -> tuple[BlockNode, Reduction]:
        for node in readers:
            if why_not_reduction(node) is None:
                reduction = reduction_of(node, _NAME)
                there, coming = (tir.Var(name, reduction.outputs[0].dtype) for name in "xy")
                kind = type(reduction.combine([there], [coming])[0]) if len(reduction.outputs) == 1 else None
                begin = getattr(reduction.inits[0].value, "value", None)
                if kind in (tir.Max, tir.Min) and begin == (
                    float("-inf") if kind is tir.Max else float("inf")
                ):
                    axis = self._axis_of(node)
                    require(
                        isinstance(reduction.operands[0], tir.BufferLoad)
                        and self._is_of_its_part(reduction.operands[0], axis),
                        _NAME,
                        f"block {node.name!r} does not take the maximum of what is stored of each part",
                    )
                    self._kind: Any = kind
                    return node, reduction
        raise ScheduleError(
            f"{_NAME}: no block behind loop {self._loop.var.name!r} takes the maximum of its parts"
        )

    def _axis_of(self, node: BlockNode) -> tir.Var:
        """The variable of a block behind the loop that counts parts: of its outermost own loop, which runs over all of them."""
        own = self._own_loops(node)
        require(
            bool(own)
            and structural_equal(own[0].extent, self._loop.extent)
            and own[0].begins_at_zero
            and self._loop.begins_at_zero
            and node.is_unconditional,
            _NAME,
            f"the loops of block {node.name!r} do not begin with one over all parts",
        )
        bound = [
            item.var
            for item, value in zip(node.iter_vars, node.iter_values, strict=True)
            if mentions(value, {own[0].var})
        ]
        exact = [
            item.var
            for item, value in zip(node.iter_vars, node.iter_values, strict=True)
            if value is own[0].var
        ]
        require(
            len(bound) == 1 and bound == exact,
            _NAME,
            f"the parts are not counted by one variable of block {node.name!r}",
        )
        return exact[0]  # type: ignore[no-any-return]

    def _is_of_its_part(self, load: tir.BufferLoad, axis: tir.Var) -> bool:
        """Whether a load that ``axis`` counts reads what the loop has computed up to its iteration."""
        for node in blocks_below(self._loop):
            counting = {
                item.var
                for item, value in zip(node.iter_vars, node.iter_values, strict=True)
                if value is self._loop.var
            }
            for region in node.writes:
                if region.buffer is load.buffer:
                    dims = [i for i, item in enumerate(region.region) if item.min in counting]
                    if len(dims) != 1 or load.indices[dims[0]] is not axis:
                        return False
        return True

    def _own_loops(self, node: BlockNode) -> list[LoopNode]:
        """The loops of a nest that stands beside the loop over parts."""
        around = {id(item) for item in loops_around(self._loop)}
        own = [item for item in loops_around(node) if id(item) not in around]
        nest: TreeNode = own[0] if own else node
        require(
            nest.parent is self._loop.parent
            and isinstance(nest.parent, SeqNode)
            and nest.parent.index(nest) > nest.parent.index(self._loop)
            and own == loops_of_its_own(node)
            and all(item.thread_binding is None and not item.annotations for item in own),
            _NAME,
            f"block {node.name!r} has no nest of its own behind loop {self._loop.var.name!r}",
        )
        return own

    def _factor(self, node: BlockNode) -> _Factor:
        axis = self._axis_of(node)
        store = node.body.leaf if isinstance(node.body, LeafNode) else None
        plain = (
            isinstance(store, tir.BufferStore)
            and why_not_complete(node) is None
            and not is_output_block(node)
        )
        require(plain, _NAME, f"block {node.name!r} is no elementwise block of factors")
        assert isinstance(store, tir.BufferStore)
        names = dict(zip(self._reduction.indices, self._row_of(node), strict=True))
        names[self._axis_of(self._extreme)] = axis
        part = substitute(self._part, names)
        value = _replaced(
            store.value,
            [(part, self.before), (tir.BufferLoad(self.result, self._row_of(node)), self.after)],
        )
        exponent = self._exponential_in(value)
        require(
            exponent is not None
            and all(
                structural_equal(one, other) for one, other in zip(store.indices, part.indices, strict=False)
            )
            and len(store.indices) == len(part.indices),
            _NAME,
            f"block {node.name!r} computes {store.value}, which is no exponential of the difference of two maxima",
        )
        assert exponent is not None
        name = f"{store.buffer.name}_again"
        room = tir.decl_buffer(self.result.shape, store.buffer.dtype, name, scope=self.result.scope())
        return _Factor(node, store, exponent, room)

    def _row_of(self, node: BlockNode) -> list[tir.PrimExpr]:
        """Which maximum a block reads."""
        regions = [item for item in node.reads if item.buffer is self.result]
        require(
            len(regions) == 1, _NAME, f"block {node.name!r} does not read one element of {self.result.name}"
        )
        return [item.min for item in regions[0].region]

    def _exponential_in(self, value: tir.PrimExpr) -> tir.PrimExpr | None:
        """The exponential of a multiple of ``before - after``, without the choice that gives 1 for two infinities."""
        if isinstance(value, tir.Select) and getattr(value.true_value, "value", None) == 1:
            value = value.false_value
        return value if self._is_factor(value) else None

    def _is_factor(self, value: Any) -> bool:
        """Whether a value is at most 1 for a later maximum, and 0 for the infinity that maxima begin with."""
        if isinstance(value, tir.Mul):
            return self._is_factor(value.a) and self._is_factor(value.b)
        if isinstance(value, tir.Cast):
            return dt.is_float(value.dtype) and self._is_factor(value.value)
        name = value.op.name if isinstance(value, tir.Call) and isinstance(value.op, Op) else ""
        direction = 1 if self._kind is tir.Max else -1
        return name in EXPONENTIALS and self._gaps(value.args[0]) * direction > 0

    def _gaps(self, value: Any) -> float:
        """How many times ``before - after`` a value is; 0 where it is something else."""
        if isinstance(value, tir.Mul):
            return next(
                (
                    float(one.value) * self._gaps(other)
                    for one, other in ((value.a, value.b), (value.b, value.a))
                    if isinstance(one, tir.FloatImm)
                ),
                0.0,
            )
        is_gap = isinstance(value, tir.Sub) and _uncast(value.a) is self.before
        return float(is_gap and self._is_after(_uncast(value.b)))

    def _is_after(self, value: Any) -> bool:
        """Whether a number is the later maximum, or that with 0 for the infinity that it begins with."""
        is_empty = tir.EQ(self.after, self.identity)
        if isinstance(value, tir.Select) and structural_equal(value.condition, is_empty):
            return getattr(value.true_value, "value", None) == 0 and value.false_value is self.after
        return value is self.after

    def _total(self, node: BlockNode, rooms: dict[tir.Buffer, _Factor]) -> _Total:
        require(
            why_not_reduction(node) is None,
            _NAME,
            f"block {node.name!r}, which reads factors, is no reduction",
        )
        axis, reduction = self._axis_of(node), reduction_of(node, _NAME)
        operand = reduction.operands[0]
        there, coming = (tir.Var(name, reduction.outputs[0].dtype) for name in "xy")
        is_sum = len(reduction.outputs) == 1 and isinstance(reduction.combine([there], [coming])[0], tir.Add)
        sides = (operand.a, operand.b) if isinstance(operand, tir.Mul) else ()
        scales = [item for item in sides if isinstance(item, tir.BufferLoad) and item.buffer in rooms]
        others = [item for item in sides if item is not scales[0]] if scales else []
        fits = is_sum and len(scales) == len(others) == 1 and scales[0].indices[-1] is axis
        fits = fits and not any(load.buffer in rooms for load in loads_in(others[0]))
        fits = fits and all(self._is_of_its_part(load, axis) for load in loads_in(others[0]))
        require(fits, _NAME, f"block {node.name!r} does not add up multiples of parts by their factors")
        zero = getattr(reduction.inits[0].value, "value", None)
        require(zero == 0, _NAME, f"block {node.name!r} begins with {reduction.inits[0].value}, not with 0")
        return _Total(node, reduction, scales[0], others[0])

    def _require_nothing_else(self, readers: list[BlockNode]) -> None:
        """What is computed of parts is read by what combines them only, and their results by what stands behind that."""
        known = [
            self._extreme,
            *[item.block for item in self._factors],
            *[item.block for item, _ in self._totals],
        ]
        names = {id(node) for node in known}
        require(bool(self._factors) and bool(self._totals), _NAME, "no sums depend on the maximum")
        parts = [*readers, *[item for factor in self._factors for item in consumers_of(factor.block)]]
        for node in parts:
            require(
                id(node) in names,
                _NAME,
                f"block {node.name!r} reads parts, too, behind loop {self._loop.var.name!r}, where they are gone",
            )
        parent = self._loop.parent
        assert isinstance(parent, SeqNode)
        begin = parent.index(self._loop)
        last = max(parent.index(self._own_loops(node)[0]) for node in known)
        mine = {buffer for node in known for buffer in written_buffers(node)}
        for nest in parent.nodes[begin + 1 : last]:
            for node in blocks_below(nest):
                require(
                    id(node) in names or not mine & _read_by(node),
                    _NAME,
                    f"block {node.name!r} stands among the blocks that combine parts, and reads what they write",
                )

    # ---- the new blocks ------------------------------------------------------------------------------------------

    def rewrite(self) -> None:
        """Put the blocks into the loop."""
        name = f"{self.result.name}_before"
        before = tir.decl_buffer(self.result.shape, self.result.dtype, name, scope=self.result.scope())
        if self._joins_parts:
            self._relate_to_all()
        self._keep(before)
        self._run_extreme(before)
        for factor in self._factors:
            self._run_factor(factor, before)
        self._place = None
        for total, factor in self._totals:
            self._run_total(total, factor)
        rooms = [before, *[item.again for item in self._factors]]
        gone = {item.store.buffer for item in self._factors if self._joins_parts}
        kept = [item for item in self._scope.alloc_buffers if item not in gone]
        self._scope.change(alloc_buffers=(*kept, *rooms))

    def _relate_to_all(self) -> None:
        """Let the terms of a part be relative to the maximum so far, which is taken before them."""
        part = self._part.buffer
        writers = [node for node in blocks_below(self._loop) if part in written_buffers(node)]
        body = self._loop.body
        require(
            len(writers) == 1 and isinstance(body, SeqNode),
            _NAME,
            f"there is no one nest in loop {self._loop.var.name!r} that computes the maximum of a part",
        )
        assert isinstance(body, SeqNode)
        place = next(nest for nest in body.nodes if is_ancestor(nest, writers[0]))
        table = dict(zip(self._part.indices, range(len(self._part.indices)), strict=True))
        own = [table[index] for index in self._reduction.indices]
        counted = table[self._axis_of(self._extreme)]
        mapper = _Rows(part, self.result, own)
        for node in blocks_below(self._loop):
            if node is writers[0] or part not in _read_by(node):
                continue
            values: dict[Any, Any] = dict(
                zip([item.var for item in node.iter_vars], node.iter_values, strict=True)
            )
            regions = [item for item in node.reads if item.buffer is part]
            require(
                all(values.get(item.region[counted].min) is self._loop.var for item in regions)
                and body.nodes.index(place)
                < next(i for i, nest in enumerate(body.nodes) if is_ancestor(nest, node)),
                _NAME,
                f"block {node.name!r} reads the maximum of another part than its own, or before it is computed",
            )
            rewrite_block(node, mapper.visit, mapper.region)
        self._place = place

    def _is_first(self, axis: tir.Var) -> tir.PrimExpr:
        return tir.EQ(axis, tir.const(0, axis.dtype))

    def _keep(self, before: tir.Buffer) -> None:
        """A block for the maximum of the parts so far."""
        axis = self._axis_of(self._extreme)
        at = list(self._reduction.indices)
        load = tir.BufferLoad(self.result, at)
        value = tir.if_then_else(self._is_first(axis), self.identity, load)
        self._beside(
            self._extreme,
            before.name,
            tir.BufferStore(before, value, at),
            (point_region(self.result, at),),
            (point_region(before, at),),
        )

    def _run_extreme(self, before: tir.Buffer) -> None:
        node = self._extreme
        at = list(self._reduction.indices)
        value = self._kind(tir.BufferLoad(before, at), self._part)
        reads = (point_region(before, at), point_region(self._part.buffer, self._part.indices))
        self._move(node, tir.BufferStore(self.result, value, at), reads)

    def _run_factor(self, factor: _Factor, before: tir.Buffer) -> None:
        node, axis = factor.block, self._axis_of(factor.block)
        at = self._row_of(node)
        after = tir.BufferLoad(self.result, at)
        names = dict(zip(self._reduction.indices, at, strict=True))
        names[self._axis_of_moved(self._extreme)] = axis
        part = substitute(self._part, names)
        kept = tir.BufferLoad(before, at)
        self._beside(
            node,
            factor.again.name,
            tir.BufferStore(factor.again, self._scale(factor, kept, after, axis), at),
            (point_region(before, at), point_region(self.result, at)),
            (point_region(factor.again, at),),
        )
        store = factor.store
        if self._joins_parts:
            detach(self._own_loops(node)[0])
            return
        self._move(
            node,
            tir.BufferStore(store.buffer, self._scale(factor, part, after, axis), store.indices),
            (point_region(part.buffer, part.indices), point_region(self.result, at)),
            is_kept=False,
        )

    def _axis_of_moved(self, node: BlockNode) -> tir.Var:
        return next(item.var for item in node.iter_vars if item.iter_type == IterVar.Ordered)

    def _scale(self, factor: _Factor, one: tir.PrimExpr, after: tir.PrimExpr, axis: tir.Var) -> tir.PrimExpr:
        """The factor from one maximum to another: 1 where they are the same, infinities included, but NaN where all parts are empty."""
        last = tir.EQ(axis, self._loop.extent - tir.const(1, axis.dtype))
        is_empty = tir.operators.logical_and(last, tir.EQ(after, self.identity))
        same = tir.operators.logical_and(tir.EQ(one, after), tir.operators.logical_not(is_empty))
        value = substitute(factor.value, {self.before: one, self.after: after})
        return tir.Select(same, tir.const(1, value.dtype), value)

    def _run_total(self, total: _Total, factor: _Factor) -> None:
        node, axis = total.block, self._axis_of(total.block)
        (out,), at = total.reduction.outputs, list(total.reduction.indices)
        again = tir.BufferLoad(factor.again, total.scale.indices[:-1])
        old = tir.if_then_else(self._is_first(axis), total.reduction.inits[0].value, tir.BufferLoad(out, at))
        part = total.part if self._joins_parts else total.scale * total.part
        others = _reads_without(node, out)
        if self._joins_parts:
            others = tuple(item for item in others if item.buffer is not total.scale.buffer)
        value = again * old + part
        reads = (point_region(out, at), point_region(again.buffer, again.indices), *others)
        self._move(node, tir.BufferStore(out, value, at), reads)

    # ---- moving --------------------------------------------------------------------------------------------------

    def _move(
        self,
        node: BlockNode,
        store: tir.BufferStore,
        reads: tuple[tir.BufferRegion, ...],
        is_kept: bool = True,
    ) -> None:
        """Put a block, which does something else by now, to the end of the loop; what is kept from one part to the next has an order."""
        axis = self._axis_of(node)
        own = self._own_loops(node)
        nest: TreeNode = own[0].body
        part = own[0].var
        detach(own[0])
        node.change(
            iter_vars=_ordered(node.iter_vars, axis) if is_kept else node.iter_vars,
            iter_values=tuple(substitute(value, {part: self._loop.var}) for value in node.iter_values),
            reads=reads,
            init=None,
        )
        node.set_body(LeafNode(store))
        self._append(nest)

    def _beside(
        self,
        node: BlockNode,
        name: str,
        store: tir.BufferStore,
        reads: tuple[tir.BufferRegion, ...],
        writes: tuple[tir.BufferRegion, ...],
    ) -> None:
        """Put a block that runs as another one does, which is not moved yet, to the end of the loop."""
        axis, own = self._axis_of(node), self._own_loops(node)
        fresh = {loop.var: tir.Var(loop.var.name, loop.var.dtype) for loop in own[1:]}
        names: dict[Any, Any] = {**fresh, own[0].var: self._loop.var}
        variables = {item.var: tir.Var(item.var.name, item.var.dtype) for item in node.iter_vars}
        made = BlockNode(
            fresh_block_name(self._loop, name),
            tuple(
                IterVar(item.dom, variables[item.var], item.iter_type)
                for item in _ordered(node.iter_vars, axis)
            ),
            tuple(substitute(value, names) for value in node.iter_values),
            tuple(substitute(region, variables) for region in reads),
            tuple(substitute(region, variables) for region in writes),
            LeafNode(substitute(store, variables)),
        )
        nest: TreeNode = made
        for loop in reversed(own[1:]):
            nest = LoopNode(fresh[loop.var], loop.extent, nest, loop.kind, loop.min)
        self._append(nest)

    def _append(self, nest: TreeNode) -> None:
        body = self._loop.body
        last = body.nodes[-1] if isinstance(body, SeqNode) else body
        insert_beside(self._place or last, nest, before=False)
        self._place = None if self._place is None else nest


class _Rows(MovedAccesses):
    """What is read of the parts' maxima becomes a read of the maximum so far.

    Args:
        own: which dimensions of the parts' maxima the rows are.
    """

    def __init__(self, old: tir.Buffer, new: tir.Buffer, own: list[int]) -> None:
        super().__init__(old, new)
        self._own = own

    def indices(self, indices: Sequence[Any]) -> Sequence[Any]:
        return [indices[i] for i in self._own]

    def visit_BufferRegion(self, region: tir.BufferRegion) -> tir.BufferRegion:
        return self.region(region)

    def region(self, region: tir.BufferRegion) -> tir.BufferRegion:
        """Of the maximum so far."""
        if region.buffer is not self._old:
            return region
        return tir.BufferRegion(self._new, [region.region[i] for i in self._own])


def _ordered(iter_vars: tuple[IterVar, ...], axis: tir.Var) -> tuple[IterVar, ...]:
    """The variables of a block of which one is to run in order."""
    return tuple(
        IterVar(item.dom, item.var, IterVar.Ordered) if item.var is axis else item for item in iter_vars
    )


def _read_by(node: BlockNode) -> set[tir.Buffer]:
    return {region.buffer for region in node.reads}


def _reads_without(node: BlockNode, buffer: tir.Buffer) -> tuple[tir.BufferRegion, ...]:
    return tuple(region for region in node.reads if region.buffer is not buffer)


def _uncast(value: Any) -> Any:
    """What is cast to a wider float."""
    wider = isinstance(value, tir.Cast) and dt.is_float(value.dtype) and dt.is_float(value.value.dtype)
    return value.value if wider and dt.bits(value.dtype) >= dt.bits(value.value.dtype) else value


def _replaced(expr: tir.PrimExpr, table: list[tuple[tir.PrimExpr, tir.PrimExpr]]) -> tir.PrimExpr:
    return Abstraction(table).visit(expr)  # type: ignore[no-any-return]

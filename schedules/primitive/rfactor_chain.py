"""rfactor_chain: factor a loop out of a chain of reductions over one axis, of which later ones depend on the result of the first.

A softmax takes the maximum of a row and then the sum of ``exp(x - maximum)``; attention takes the products with the values beside it.
Each part of the axis has a maximum, a sum and products of its own, relative to its own maximum, and these are partial results of the
whole like any others: before they are combined, each is multiplied by the factor that brings it to the maximum of all
(:mod:`schedules.rescaling`). So a tile of keys needs to be looked at once, in any order, and by any core. (Milakov, Gimelshein: "Online
normalizer calculation for softmax", 2018; Rabe, Staats: "Self-attention does not need O(n²) memory", 2021; Dao et al.: "FlashAttention",
2022.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ir import dtype as dt
from ir import structural_equal, tir
from ir.tir import IterVar
from ir.tir.analysis.reducer import Abstraction, Reduction
from ir.tir.stmt_functor import StmtExprMutator, loads_in, substitute

from ..affine import mentions
from ..analysis import (
    consumers_of,
    is_output_block,
    read_buffers,
    require,
    require_blocks_only,
    scope_children,
    why_not_complete,
    why_not_reduction,
    written_buffers,
)
from ..argument import Loops
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..region import point_region
from ..rescaling import NotRescalable, Rescaling, finite_forms
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    TreeNode,
    blocks_below,
    fresh_block_name,
    insert_beside,
    loops_of_its_own,
    scope_of,
)
from .axis_parts import Parts, parts_of, share_out
from .partial_results import PartLoops, Terms, factored, partial_buffer
from .rfactor import reduction_below, reduction_of

_NAME = "rfactor_chain"
_IDENTITIES: dict[type, float] = {tir.Max: -math.inf, tir.Min: math.inf}


class RFactorChainPrimitives(PrimitiveFamily):
    """Chains of reductions in two steps."""

    @primitive("RFactorChain", moves=True, loops=Loops())
    def rfactor_chain(self, *loops: LoopRV) -> list[BlockRV]:
        """Factor loops over the same parts of an axis out of a maximum (or minimum) and of what depends on it.

        ``for i: for k: m[i] = max(m[i], x[i, k])``, ``for i: for k: s[i] += exp(x[i, k] - m[i])`` by the outer loops k0 of both becomes::

            for i, k0, k1: m_rf[i, k0] = max(m_rf[i, k0], x[i, k0 * 8 + k1])
            for i, k0:     m[i] = max(m[i], m_rf[i, k0])
            for i, k0:     scale[i, k0] = exp(m_rf[i, k0] - m[i])
            for i, k0, k1: s_rf[i, k0] += exp(x[i, k0 * 8 + k1] - finite(m_rf[i, k0]))
            for i, k0:     s[i] += scale[i, k0] * s_rf[i, k0]

        where ``finite`` is 0 for the infinity that the maximum begins with, so that a part of nothing but that adds exactly what it adds
        to the whole: zeros. All of this are ordinary blocks; the parts need not be computed in order.

        Args:
            loops: first that of the maximum, then those of the blocks that depend on it, producers first: sums; elementwise blocks
                that these read (the weights of attention), whose results are then kept part by part, relative to the maximum of
                their part; and elementwise blocks behind the sums that read weights too (the division of a softmax), which
                bring them to the maximum of all.

        Returns:
            For each loop the block that computes the parts; references to the reductions follow the blocks that combine them.

        Raises:
            ScheduleError: the first block is no maximum or minimum of floats that begins with an infinity; a loop does not split its axis
                into the same parts as the first, or leaves something of it out; a term has no factor, or depends on a maximum at a
                place that is read from memory; or rfactor would refuse one of the reductions.
        """
        nodes = [self._loop(loop) for loop in loops]
        require(
            len(nodes) > 1,
            _NAME,
            "needs the loop of a maximum and that of at least one block that depends on it",
        )
        chain = _Chain(nodes[0])
        for node in nodes[1:]:
            chain.add(node)
        return self._new(chain.rewrite())


# ---- the chain --------------------------------------------------------------------------------------------------


@dataclass
class _Weight:
    """An elementwise block between the maximum and the sums."""

    parts: Parts
    store: tir.BufferStore
    buffer: tir.Buffer
    """Room for its results part by part."""
    at: tuple[tir.PrimExpr, ...]
    """Relative to which maximum an element is, in variables of the block."""
    value: tir.PrimExpr
    """The value relative to the part's maximum."""
    reads: tuple[tir.BufferRegion, ...]
    factor: tir.PrimExpr | None
    name: tir.Var
    """Stands for an element in terms."""

    @property
    def dim(self) -> int:
        """Which dimension of its results is shared out."""
        return next(i for i, index in enumerate(self.store.indices) if index is self.parts.axis.var)

    def indices(self, load: Any, part: tir.PrimExpr, within: tir.PrimExpr) -> list[tir.PrimExpr]:
        """The place in the new room of an element that a load names."""
        return [*load.indices[: self.dim], part, within, *load.indices[self.dim + 1 :]]


@dataclass
class _Sum:
    """A sum that depends on the maximum."""

    parts: Parts
    reduction: Reduction
    terms: Terms


@dataclass
class _Reader:
    """An elementwise block behind the sums, such as the division of a softmax."""

    parts: Parts
    store: tir.BufferStore
    value: tir.PrimExpr
    reads: tuple[tir.BufferRegion, ...]


@dataclass
class _Reading:
    """What a block reads of the chain."""

    at: tuple[tir.PrimExpr, ...]
    """Relative to which maximum its terms are, in variables of the block."""
    values: list[tir.PrimExpr]
    factors: list[tir.PrimExpr | None]
    shares: list[bool]
    """Which values may be rounded, relative to whatever maximum."""
    reads: tuple[tir.BufferRegion, ...]


@dataclass
class _Scale:
    """Factors of all parts."""

    factor: tir.PrimExpr
    buffer: tir.Buffer


class _Chain:
    """A maximum and what depends on it: checked first, then rewritten."""

    def __init__(self, loop: LoopNode) -> None:
        block = reduction_below(loop, _NAME)
        require_blocks_only(block, _NAME)
        require_no_effects([block], _NAME)
        self._parts = parts_of(block, loop, _NAME)
        self._reduction = reduction_of(block, _NAME)
        self._rescaling = self._of_extreme()
        self._factored = factored(block, loop, len(self._reduction.indices), self._reduction)
        self.result = self._reduction.outputs[0]
        self.identity = self._reduction.inits[0].value
        self.part_of_result = self._factored.partial[0]
        self.part = tir.Var("part", loop.var.dtype)
        self.within = tir.Var("within", loop.var.dtype)
        self.weights: dict[tir.Buffer, _Weight] = {}
        self._sums: list[_Sum] = []
        self._readers: list[_Reader] = []
        self._order: list[_Weight | _Sum | _Reader] = []
        self._scales: list[_Scale] = []

    def _of_extreme(self) -> Rescaling:
        """What the first reduction is."""
        block, reduction = self._parts.block, self._reduction
        kinds: list[type] = [type(item) for item in _combined(reduction)]
        infinity = _IDENTITIES.get(kinds[0]) if len(kinds) == 1 else None
        begin = getattr(reduction.inits[0].value, "value", None)
        others = [
            item
            for item in block.iter_vars
            if item.iter_type == IterVar.CommReduce and item is not self._parts.axis
        ]
        spatial = {item.var for item in block.iter_vars if item.iter_type == IterVar.DataPar}
        plain = set(reduction.indices) <= spatial and len(set(reduction.indices)) == len(reduction.indices)
        require(
            infinity is not None and begin == infinity and not others and plain,
            _NAME,
            f"block {block.name!r} is no maximum or minimum of floats over one axis that begins with an infinity and is stored at its"
            " data-parallel variables",
        )
        dtype = reduction.outputs[0].dtype
        return Rescaling(tir.Var("result", dtype), tir.Var("extreme", dtype), kinds[0] is tir.Max)

    def add(self, loop: LoopNode) -> None:
        """Take a block that depends on the maximum into the chain."""
        below = blocks_below(loop)
        require(
            len(below) == 1, _NAME, f"loop {loop.var.name!r} has {len(below)} blocks below it, it needs one"
        )
        block = below[0]
        first = self._parts
        require(
            all(block is not item.parts.block for item in self._order),
            _NAME,
            f"loops of block {block.name!r} are given twice",
        )
        require(
            scope_of(block) is scope_of(first.block),
            _NAME,
            f"block {block.name!r} is in another scope than block {first.block.name!r}",
        )
        is_sum = why_not_reduction(block) is None
        if is_sum:
            reduction_below(loop, _NAME)
        else:
            reason = why_not_complete(block)
            require(
                reason is None,
                _NAME,
                f"block {block.name!r} is neither a reduction nor elementwise: {reason}",
            )
        require_blocks_only(block, _NAME)
        require_no_effects([block], _NAME)
        parts = parts_of(block, loop, _NAME)
        reason = parts.why_not_of_the_axis_of(first)
        require(reason is None, _NAME, f"{reason}")
        if is_sum:
            self._order.append(self._sum(parts))
        else:
            self._order.append(self._reader(parts) if self._is_behind(block) else self._weight(parts))

    def _is_behind(self, block: BlockNode) -> bool:
        """Whether a block needs the sums, or is read elsewhere, so that its results are those of the whole."""
        return is_output_block(block) or bool(read_buffers(block) & self._summed())

    def _summed(self) -> set[tir.Buffer]:
        return {buffer for item in self._sums for buffer in item.reduction.outputs}

    def _sum(self, parts: Parts) -> _Sum:
        block = parts.block
        reduction = reduction_of(block, _NAME)
        require(
            all(isinstance(item, tir.Add) for item in _combined(reduction)),
            _NAME,
            f"block {block.name!r} is no sum; only of those is a common factor one of the result",
        )
        reading = self._read(parts, reduction.operands)
        for factor in reading.factors:
            require(
                factor is None or dt.bits(factor.dtype) <= dt.bits(reduction.outputs[0].dtype),
                _NAME,
                f"block {block.name!r} adds up in {reduction.outputs[0].dtype} what is relative to a {self.result.dtype}",
            )
        scales = [self._scale(factor, reading.at) for factor in reading.factors]
        terms = Terms(reading.values, reading.reads, scales, self.part, self.within, parts.place)
        made = _Sum(parts, reduction, terms)
        self._sums.append(made)
        return made

    def _scale(self, factor: tir.PrimExpr | None, at: tuple[tir.PrimExpr, ...]) -> tir.BufferLoad | None:
        """The factor of each part; sums that have the same share it."""
        if factor is None:
            return None
        known = next((item for item in self._scales if structural_equal(item.factor, factor)), None)
        if known is None:
            result = self.result
            room = self.part_of_result
            name = f"{result.name}_scale" + (f"_{len(self._scales)}" if self._scales else "")
            known = _Scale(factor, tir.decl_buffer(room.shape, factor.dtype, name, scope=room.scope()))
            self._scales.append(known)
        return tir.BufferLoad(known.buffer, [*at, self.part])

    def _weight(self, parts: Parts) -> _Weight:
        block = parts.block
        store = block.body.leaf if isinstance(block.body, LeafNode) else None
        plain = (
            isinstance(store, tir.BufferStore)
            and all(isinstance(index, tir.Var) for index in store.indices)
            and len(set(store.indices)) == len(store.indices)
            and {item.var for item in block.iter_vars} <= set(store.indices)
        )
        require(
            plain and not is_output_block(block),
            _NAME,
            f"block {block.name!r} is no elementwise block of a result that is only used inside",
        )
        assert isinstance(store, tir.BufferStore)
        reading = self._read(parts, [store.value])
        axis = next(i for i, index in enumerate(store.indices) if index is parts.axis.var)
        room = partial_buffer(store.buffer, parts.loop.extent, axis)
        shape = [*room.shape[: axis + 1], parts.size, *room.shape[axis + 2 :]]
        room = tir.decl_buffer(shape, room.dtype, room.name, scope=store.buffer.scope())
        name = tir.Var(store.buffer.name, store.buffer.dtype)
        self._rescaling.know(name, reading.factors[0], reading.shares[0])
        made = _Weight(
            parts, store, room, reading.at, reading.values[0], reading.reads, reading.factors[0], name
        )
        self.weights[store.buffer] = made
        return made

    def _reader(self, parts: Parts) -> _Reader:
        block = parts.block
        store = block.body.leaf if isinstance(block.body, LeafNode) else None
        loads = [load for load in loads_in(store) if load.buffer in self.weights] if store is not None else []
        require(
            isinstance(store, tir.BufferStore) and loads,
            _NAME,
            f"block {block.name!r} behind the sums is no elementwise block that reads weights of the chain",
        )
        assert isinstance(store, tir.BufferStore)
        whole: list[tuple[tir.PrimExpr, tir.PrimExpr]] = []
        reads = [region for region in block.reads if region.buffer not in self.weights]
        for load in loads:
            weight = self.weights[load.buffer]
            scale = self._scale(weight.factor, self._at_of_weight(parts, load))
            indices = weight.indices(load, self.part, self.within)
            value: tir.PrimExpr = tir.BufferLoad(weight.buffer, indices)
            reads.append(point_region(weight.buffer, indices))
            if scale is not None:
                value = scale * value
                reads.append(point_region(scale.buffer, scale.indices))
            whole.append((load, value))
        made = _Reader(parts, store, Abstraction(whole).visit(store.value), tuple(reads))
        self._readers.append(made)
        return made

    # ---- terms --------------------------------------------------------------------------------------------------

    def _read(self, parts: Parts, terms: list[tir.PrimExpr]) -> _Reading:
        """What terms are relative to the maximum of their part, and by which factors they are brought to that of all."""
        block, axis, result = parts.block, parts.axis.var, self.result
        loads = [load for term in terms for load in loads_in(term)]
        at = [tuple(load.indices) for load in loads if load.buffer is result]
        at += [self._at_of_weight(parts, load) for load in loads if load.buffer in self.weights]
        require(
            at,
            _NAME,
            f"block {block.name!r} does not depend on {result.name}, that of block {self._parts.block.name!r}",
        )
        summed = {item.var for item in block.iter_vars if item.iter_type == IterVar.CommReduce} | {axis}
        same = all(
            structural_equal(one, other) for item in at for one, other in zip(item, at[0], strict=True)
        )
        require(
            same and not any(mentions(index, summed) for index in at[0]),
            _NAME,
            f"terms of block {block.name!r} depend on several elements of {result.name}",
        )
        require(
            not any(loads_in(index) for index in at[0]),
            _NAME,
            f"which element of {result.name} terms of block {block.name!r} depend on is read from memory, which may change until the parts"
            " are combined",
        )
        self._require_still_the_same(block)
        return self._relative(parts, terms, at[0])

    def _at_of_weight(self, parts: Parts, load: tir.BufferLoad) -> tuple[tir.PrimExpr, ...]:
        """Relative to which maximum a weight is that a block reads, which must be of the part at hand."""
        weight, axis = self.weights[load.buffer], parts.axis.var
        others = [index for i, index in enumerate(load.indices) if i != weight.dim]
        require(
            load.indices[weight.dim] is axis and not any(mentions(index, {axis}) for index in others),
            _NAME,
            f"block {parts.block.name!r} reads {load.buffer.name} at {load.indices[weight.dim]}, maybe of other parts than its own",
        )
        names = dict(zip(weight.store.indices, load.indices, strict=True))
        return tuple(substitute(index, names) for index in weight.at)

    def _require_still_the_same(self, block: BlockNode) -> None:
        """What the maximum was taken of must not be overwritten before it is read again."""
        source = {load.buffer for load in loads_in(self._reduction.operands[0])}
        between = scope_children(block)
        between = between[between.index(self._parts.block) : between.index(block)]
        for other in between:
            require(
                not (written_buffers(other) & source),
                _NAME,
                f"block {other.name!r} overwrites what block {self._parts.block.name!r} is the maximum of",
            )

    def _relative(self, parts: Parts, terms: list[tir.PrimExpr], at: tuple[tir.PrimExpr, ...]) -> _Reading:
        rescaling, result = self._rescaling, self.result
        names: dict[Any, Any] = dict(zip(self._reduction.indices, at, strict=True))
        names[self._parts.axis.var] = parts.axis.var
        extreme = substitute(self._reduction.operands[0], names)
        own = tir.BufferLoad(result, at)
        stored = [
            (load, self.weights[load.buffer].name)
            for term in terms
            for load in loads_in(term)
            if load.buffer in self.weights
        ]
        factors, shares = [], []
        for term in terms:
            try:
                factor, is_share = rescaling.factor_in_program(term, extreme, own, stored, self.identity)
            except NotRescalable as reason:
                raise ScheduleError(
                    f"{_NAME}: the terms of block {parts.block.name!r}, {term}, are no multiples of themselves relative to another"
                    f" {result.name}: {reason}"
                ) from None
            factors.append(factor)
            shares.append(is_share)
        rewriting = _InParts(self, at)
        return _Reading(
            at,
            [rewriting.visit(term) for term in terms],
            factors,
            shares,
            tuple(map(rewriting.region, parts.block.reads)),
        )

    # ---- the new blocks -----------------------------------------------------------------------------------------

    def rewrite(self) -> list[BlockNode]:
        """Put the new blocks in place of the old ones; returns those that compute parts."""
        read = {weight.store.buffer: weight for weight in self.weights.values()}
        inside = {id(item.parts.block) for item in self._order}
        for buffer, weight in read.items():
            for other in consumers_of(weight.parts.block):
                require(
                    id(other) in inside,
                    _NAME,
                    f"block {other.name!r}, outside of the chain, reads {buffer.name}; take it in, or inline {weight.parts.block.name}",
                )
        scaling = [self._scale_nest(scale) for scale in self._scales]
        sums = [
            (
                item,
                factored(item.parts.block, item.parts.loop, self._axis_of(item), item.reduction, item.terms),
            )
            for item in self._sums
        ]
        scope = scope_of(self._parts.block)
        assert scope is not None
        behind = self._last_nest()
        self._factored.put_in_place_of(self._parts.block, behind)
        made: dict[int, BlockNode] = {}
        last = self._factored.nest
        for nest in scaling:
            insert_beside(last, nest, before=False)
            last = nest
        for item, new in sums:
            new.put_in_place_of(item.parts.block, None if behind is None else last)
            made[id(item)] = new.rf_block
            last = new.nest
        for weight in self.weights.values():
            self._put_weight(weight)
            made[id(weight)] = weight.parts.block
        for reader in self._readers:
            self._put_reader(reader)
            made[id(reader)] = reader.parts.block
        gone = set(self.weights)
        kept = [buffer for buffer in scope.alloc_buffers if buffer not in gone]
        rooms = [weight.buffer for weight in self.weights.values()] + [scale.buffer for scale in self._scales]
        scope.change(alloc_buffers=(*kept, *rooms))
        return [self._factored.rf_block, *[made[id(item)] for item in self._order]]

    def _last_nest(self) -> TreeNode | None:
        """The nest behind which all parts are known, where the blocks stand in one sequence and no other needs a result earlier."""
        within = [item for item in self._order if not isinstance(item, _Reader)]
        blocks = [self._parts.block, *[item.parts.block for item in within]]
        nests = [loops_of_its_own(block)[0] for block in blocks]
        order = scope_children(self._parts.block)
        last = max(blocks, key=lambda block: order.index(block))
        results = {buffer for block in blocks for buffer in written_buffers(block)}
        between = order[order.index(self._parts.block) : order.index(last)]
        waits = any(
            read_buffers(block) & results for block in between if all(block is not item for item in blocks)
        ) or any(read_buffers(item.parts.block) & self._summed() for item in within)
        if waits or any(nest.parent is not nests[0].parent for nest in nests):
            return None
        return loops_of_its_own(last)[0]

    def _axis_of(self, item: _Sum) -> int:
        """Where the parts of a sum are counted: behind the indices that it shares with the maximum, before those of its own."""
        return min(len(self._reduction.indices), len(item.reduction.indices))

    def _scale_nest(self, scale: _Scale) -> TreeNode:
        """What brings each part's results to the maximum of all."""
        first, room = self._parts, self.part_of_result
        loops = PartLoops(first.block, first.loop, IterVar.DataPar)
        at = [substitute(index, loops.names) for index in self._reduction.indices]
        before, after = tir.BufferLoad(room, [*at, loops.part]), tir.BufferLoad(self.result, at)
        value = self._rescaling.at(scale.factor, before, after)
        # two infinities have no gap that is a number, though their parts need no factor; of those that a maximum begins with NaN is right
        far = tir.const(-getattr(self.identity, "value", math.nan), before.dtype)
        same = tir.operators.logical_and(tir.EQ(before, far), tir.EQ(after, far))
        value = tir.Select(same, tir.const(1, value.dtype), value)
        block = BlockNode(
            fresh_block_name(first.block, scale.buffer.name),
            loops.iter_vars,
            loops.iter_values,
            (point_region(room, before.indices), point_region(after.buffer, at)),
            (point_region(scale.buffer, before.indices),),
            LeafNode(tir.BufferStore(scale.buffer, value, before.indices)),
            loops.predicate,
        )
        return loops.around(block)

    def _put_weight(self, weight: _Weight) -> None:
        """Let an elementwise block keep its results part by part."""
        indices = weight.indices(weight.store, self.part, self.within)
        store = tir.BufferStore(weight.buffer, weight.value, indices)
        share_out(
            weight.parts, self.part, self.within, store, weight.reads, [point_region(weight.buffer, indices)]
        )

    def _put_reader(self, reader: _Reader) -> None:
        """Let a block bring the weights that it reads to the maximum of all."""
        store = tir.BufferStore(reader.store.buffer, reader.value, reader.store.indices)
        share_out(reader.parts, self.part, self.within, store, reader.reads, reader.parts.block.writes)


def _combined(reduction: Reduction) -> list[tir.PrimExpr]:
    """What a reduction makes of what is there and what comes in."""
    there, coming = ([tir.Var(name, item.dtype) for item in reduction.outputs] for name in ("x", "y"))
    return reduction.combine(there, coming)


class _InParts(StmtExprMutator):
    """Makes terms read the maximum of their part, and weights that are kept part by part."""

    def __init__(self, chain: _Chain, at: tuple[tir.PrimExpr, ...]) -> None:
        super().__init__()
        self._chain = chain
        self._own = tir.BufferLoad(chain.part_of_result, [*at, chain.part])
        self._finite = finite_forms(self._own, chain.identity)[0]
        self._forms = finite_forms(tir.BufferLoad(chain.result, at), chain.identity)

    def visit(self, node: Any) -> Any:
        """What is written for a finite maximum is one already."""
        is_form = isinstance(node, tir.Select | tir.Call) and any(
            structural_equal(node, form) for form in self._forms
        )
        return self._finite if is_form else super().visit(node)

    def visit_BufferLoad(self, load: tir.BufferLoad) -> tir.PrimExpr:
        """A part of nothing but infinities is 0 times what it is multiplied by, and not NaN."""
        if load.buffer is self._chain.result:
            return self._finite
        weight = self._chain.weights.get(load.buffer)
        if weight is not None:
            return tir.BufferLoad(weight.buffer, weight.indices(load, self._chain.part, self._chain.within))
        return self.generic_visit(load)  # type: ignore[no-any-return]

    def region(self, region: tir.BufferRegion) -> tir.BufferRegion:
        """The region that is read instead."""
        if region.buffer is self._chain.result:
            return point_region(self._own.buffer, self._own.indices)
        weight = self._chain.weights.get(region.buffer)
        if weight is None:
            return region
        load = tir.BufferLoad(region.buffer, [item.min for item in region.region])
        return point_region(weight.buffer, weight.indices(load, self._chain.part, self._chain.within))

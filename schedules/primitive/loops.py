"""Primitives that restructure loops: split, fuse, reorder, add_unit_loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import mul
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.arith import Analyzer
from ir.dtype import is_int, is_uint
from ir.tir.analysis.empty_domains import may_be_empty
from ir.tir.buffer import exactly
from ir.tir.faults import may_fault

from ..affine import Polynomial, mentions, polynomial
from ..analysis import is_affine, leaves_beside_blocks, loop_chain, require, why_two_names
from ..argument import BlockOrLoop, Factors, Flag, Loop, Loops
from ..bounds import analyzer_of
from ..declaration import PrimitiveFamily, primitive
from ..dependence import require_own_elements, runs_each_instance_once, why_iterations_conflict
from ..effects import require_no_effects
from ..error import ScheduleError
from ..first_instance import is_unit
from ..random_variable import BlockRV, DecisionVar, ExprRV, LoopRV
from ..reduction_order import loops_of_sums, why_not_begun_once
from ..returns import require_no_return
from ..rewriting import rewrite_expressions
from ..simplify import simplify_bindings
from ..surroundings import evaluated_by
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    SeqNode,
    TreeNode,
    blocks_below,
    loops_around,
    replace_node,
    scope_of,
)


class LoopPrimitives(PrimitiveFamily):
    """Splitting, joining and ordering loops."""

    @primitive(
        "Split", loop=Loop(), factors=Factors(), preserve_unit_iters=Flag(), disable_predication=Flag()
    )
    def split(
        self,
        loop: LoopRV,
        factors: Sequence[int | ExprRV | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Replace a loop by nested loops; one factor may be None and is inferred.

        ``for i in 64: B[i]`` with factors [None, 8] becomes ``for i_0 in 8: for i_1 in 8: B[i_0 * 8 + i_1]``. Factors that
        do not divide the extent add a predicate (unless ``disable_predication``).

        Raises:
            ScheduleError: the loop does not start at 0, has annotations, the factors are too small or more than one is None, or they do not
                divide the extent of a loop that loops below read data for.
        """
        node = self._loop(loop)
        values = [self._value(item) for item in factors]
        _require_plain_loop(node, "split")
        _require_start_at_zero(node, "split")
        extents, divides = _infer_factors(node, values, _are_of_tiles(values))
        dtype = _dtype_that_counts([node.var.dtype], extents)
        extents = [tir.cast(dtype, extent) for extent in extents]
        variables = [tir.Var(f"{node.var.name}_{i}", dtype) for i in range(len(extents))]
        value: Any = tir.const(0, dtype)
        for var, extent in zip(variables, extents, strict=True):
            value = value * extent + var
        body = node.body
        if not divides and not disable_predication:
            condition = value < tir.cast(dtype, node.extent)
            _require_in_blocks(body, node)
            for block in blocks_below(body):
                first, last = block.predicate, condition
                if may_fault(first):  # past the end it has no value
                    first, last = last, first
                block.change(predicate=tir.operators.logical_and(first, last))
        placeholder = LeafNode(tir.Evaluate(tir.const(0)))
        replace_node(node, placeholder)
        inner: TreeNode = body
        loops: list[LoopNode] = []
        for var, extent in zip(reversed(variables), reversed(extents), strict=True):
            inner = LoopNode(var, extent, inner)
            loops.append(inner)
        replace_node(placeholder, inner)
        fresh = set(variables)
        rewrite_expressions(
            body,
            {node.var: tir.cast(node.var.dtype, value)},
            lambda block: simplify_bindings(block, fresh, not preserve_unit_iters),
        )
        return self._new(loops[::-1])

    @primitive("Fuse", loops_to_fuse=Loops(), preserve_unit_iters=Flag())
    def fuse(self, *loops_to_fuse: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Join directly nested loops into one, the outermost first.

        ``for i in 4: for j in 8: B[i, j]`` becomes ``for i_j_fused in 32: B[i_j_fused // 8, i_j_fused % 8]``.

        Raises:
            ScheduleError: a loop is not the only child of the one before it, does not start at 0, or has annotations; or one feeds a
                reduction that may be over nothing and another one does not.
        """
        chain = [self._loop(item) for item in loops_to_fuse]
        _check_fuse(chain)
        _require_identity_kept(chain)
        dtype = _dtype_that_counts([loop.var.dtype for loop in chain], [loop.extent for loop in chain])
        fused = tir.Var("_".join(loop.var.name for loop in chain) + "_fused", dtype)
        values = _digits_of(fused, chain)
        total: Any = tir.const(1, dtype)
        for loop in chain:
            total = total * tir.cast(dtype, loop.extent)
        body = chain[-1].body
        new = LoopNode(fused, total, LeafNode(tir.Evaluate(tir.const(0))))
        replace_node(chain[0], new)
        new.set_body(body)
        rewrite_expressions(
            body, values, lambda block: simplify_bindings(block, {fused}, not preserve_unit_iters)
        )
        return self._new(new)

    @primitive("Reorder", ordered_loops=Loops())
    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put loops of one chain into the given order, outermost first; the other loops of the chain keep their places.

        ``for i: for j: for k: S`` reordered by (k, i) becomes ``for k: for j: for i: S``.

        Raises:
            ScheduleError: the loops are not on one chain, or a block below must run in order: what it does in iterations depends on each
                other, or the init of a reduction would not come once to each element, before its updates.
        """
        chosen = [self._loop(item) for item in ordered_loops]
        if not chosen:
            return
        chain = loop_chain(chosen, "reorder")
        innermost = chain[-1]
        below = blocks_below(innermost)
        for block in below:
            _require_independent_bindings(block, chain)
        new_order = iter(chosen)
        selected = {id(loop) for loop in chosen}
        order = [next(new_order) if id(loop) in selected else loop for loop in chain]
        if all(a is b for a, b in zip(order, chain, strict=True)):
            return
        _require_extents_known(order, chain)
        require_no_effects(below, "reorder")
        require_no_return([chain[0]], "reorder", "what the loops hold")
        names = why_two_names(below)
        require(names is None, "reorder", f"the order of block {below[0].name!r} must stay: {names}")
        moved = [position for position, (a, b) in enumerate(zip(order, chain, strict=True)) if a is not b]
        _require_blocks_apart(chain[moved[0] : moved[-1] + 1], innermost)
        for block in below:
            require_own_elements(block, chain[moved[0] : moved[-1] + 1], "reorder")
            _require_begun_once(block, chain, order)
        top_parent = chain[0].parent
        assert top_parent is not None
        body = innermost.body
        placeholder = LeafNode(tir.Evaluate(tir.const(0)))
        top_parent.replace_child(chain[0], placeholder)
        for loop in chain:
            loop.parent = None  # the old nesting must not form a cycle with the new one
        inner: TreeNode = body
        for loop in reversed(order):
            loop.set_body(inner)
            inner = loop
        top_parent.replace_child(placeholder, inner)

    @primitive("AddUnitLoop", block_or_loop=BlockOrLoop())
    def add_unit_loop(self, block_or_loop: LoopRV | BlockRV) -> LoopRV:
        """A loop of extent 1 around a block or loop: ``B[0]`` becomes ``for u in 1: B[0]``."""
        node = self._node(block_or_loop)
        dtype = node.var.dtype if isinstance(node, LoopNode) else "int32"
        if isinstance(node, BlockNode):
            require(scope_of(node) is not None, "add_unit_loop", "the root block cannot get a loop around it")
            around = loops_around(node)
            dtype = around[-1].var.dtype if around else dtype
        placeholder = LeafNode(tir.Evaluate(tir.const(0)))
        replace_node(node, placeholder)
        loop = LoopNode(tir.Var("u", dtype), tir.const(1, dtype), node)
        replace_node(placeholder, loop)
        return self._new(loop)


def _require_plain_loop(loop: LoopNode, primitive: str) -> None:
    require(
        not loop.annotations and loop.thread_binding is None,
        primitive,
        f"loop {loop.var.name!r} has annotations or a thread binding; {primitive} works on plain loops only",
    )


def _require_in_blocks(body: TreeNode, loop: LoopNode) -> None:
    """Only blocks have predicates: statements beside them, and the bounds of loops, are evaluated in the iterations past the end, too."""
    pending = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, BlockNode):
            continue
        require(
            isinstance(node, LoopNode | SeqNode),
            "split",
            f"the factors do not divide the extent {loop.extent} of loop {loop.var.name!r}, and not everything under it is in a"
            " block, which could get a predicate",
        )
        for bound in evaluated_by(node):
            require(
                not mentions(bound, {loop.var}) or not may_fault(bound),
                "split",
                f"the factors do not divide the extent {loop.extent} of loop {loop.var.name!r}, and a loop below runs over {bound}, which"
                " has no value past the end",
            )
        pending += node.children()


def _require_start_at_zero(loop: LoopNode, primitive: str) -> None:
    require(
        loop.begins_at_zero,
        primitive,
        f"loop {loop.var.name!r} starts at {loop.min}, not at 0",
    )


def _are_of_tiles(factors: Sequence[Any]) -> bool:
    """Whether factors are open decisions of perfect tiles, which multiply to the extent whatever they will be; other choices need not."""
    decisions = [item for item in factors if isinstance(item, DecisionVar)]
    return bool(decisions) and all(getattr(item, "tiled", None) is not None for item in decisions)


def _infer_factors(loop: LoopNode, factors: Sequence[Any], exact: bool) -> tuple[list[Any], bool]:
    """All extents with the open one filled in, and whether they multiply to exactly the loop's extent."""
    require(len(factors) > 0, "split", f"loop {loop.var.name!r} needs at least one factor")
    require(sum(item is None for item in factors) <= 1, "split", "at most one factor may be None")
    dtype = loop.var.dtype
    product: Any = tir.const(1, dtype)
    for item in factors:
        if item is None:
            continue
        factor = tir.convert(item)
        require(
            isinstance(factor, tir.PrimExpr) and (is_int(factor.dtype) or is_uint(factor.dtype)),
            "split",
            f"factors of loop {loop.var.name!r} are integers, integer expressions or None, got {item!r}",
        )
        if isinstance(factor, tir.IntImm):
            require(
                factor.value > 0,
                "split",
                f"factors of loop {loop.var.name!r} must be positive, got {factor.value}",
            )
        product = exactly(mul, product, tir.cast(dtype, factor))
    extents: list[Any] = [None if item is None else tir.cast(dtype, tir.convert(item)) for item in factors]
    if any(item is None for item in extents):
        inferred: Any
        if isinstance(loop.extent, tir.IntImm) and isinstance(product, tir.IntImm):
            inferred = tir.const(-(-loop.extent.value // product.value), dtype)
            divides = loop.extent.value % product.value == 0
        else:
            quotient = _even_quotient(loop.extent, product)
            divides = quotient is not None
            inferred = tir.floordiv(loop.extent + (product - 1), product) if quotient is None else quotient
        return [inferred if item is None else item for item in extents], divides
    if exact:
        return extents, True
    if isinstance(loop.extent, tir.IntImm) and isinstance(product, tir.IntImm):
        require(
            product.value >= loop.extent.value,
            "split",
            f"factors {[int(item.value) for item in extents]} of loop {loop.var.name!r} multiply to {product.value},"
            f" less than its extent {loop.extent.value}",
        )
        return extents, product.value == loop.extent.value
    if polynomial(product - loop.extent).constant() == 0:
        return extents, True
    analyzer = analyzer_of(loops_around(loop))
    require(
        analyzer.can_prove(product >= loop.extent),
        "split",
        f"the factors of loop {loop.var.name!r} are not certain to cover its extent {loop.extent}; leave one of them None",
    )
    return extents, False


def _even_quotient(extent: tir.PrimExpr, divisor: tir.PrimExpr) -> tir.PrimExpr | None:
    """A symbolic extent by a number that divides each of its terms, such as one that was rounded up to multiples of it; None of others."""
    if not isinstance(divisor, tir.IntImm):
        return None
    found = polynomial(extent)
    if any(coefficient % divisor.value for coefficient in found.terms.values()):
        return None
    parts = {monomial: coefficient // divisor.value for monomial, coefficient in found.terms.items()}
    return tir.cast(divisor.dtype, Polynomial(parts, found.dtype).to_expr())


def _check_fuse(chain: list[LoopNode]) -> None:
    require(chain, "fuse", "needs at least one loop")
    for outer, inner in pairwise(chain):
        require(
            outer.body is inner,
            "fuse",
            f"loop {inner.var.name!r} is not the only child of {outer.var.name!r}; loops must be nested directly, outer first",
        )
    for loop in chain:
        _require_plain_loop(loop, "fuse")
        _require_start_at_zero(loop, "fuse")
        require(
            not any(mentions(loop.extent, {other.var}) for other in chain),
            "fuse",
            f"the extent of loop {loop.var.name!r} depends on another of the loops",
        )


def _require_identity_kept(chain: list[LoopNode]) -> None:
    """A reduction over nothing is its identity for each iteration of the other loops: these must not end with those of the reduction."""
    fused = {loop.var for loop in chain}
    running = {loop.var for loop in chain if not is_unit(loop.extent)}
    for block in blocks_below(chain[-1]):
        axes = list(zip(block.iter_vars, block.iter_values, strict=True))
        reduced = [(axis, value) for axis, value in axes if axis.iter_type == tir.IterVar.CommReduce]
        others = [value for axis, value in axes if axis.iter_type != tir.IterVar.CommReduce]
        if block.init is None or not any(mentions(value, fused) for value in others):
            continue
        # One empty domain is enough: the iterations that feed other variables of the reduction are not there to run its init.
        are_both = all(
            any(mentions(value, running) for value in values)
            for values in (others, [value for _, value in reduced])
        )
        for axis, value in reduced:
            extent = axis.dom.extent
            require(
                not (are_both or mentions(value, fused))
                or not may_be_empty(extent)
                or Analyzer().can_prove(extent > 0),
                "fuse",
                f"reduction {axis.var.name!r} of block {block.name!r} has {extent} steps, which may be none; fused with loops that feed"
                " other variables, it would not be initialised then",
            )


def _digits_of(fused: tir.Var, chain: list[LoopNode]) -> dict[Any, Any]:
    """The loop variables as digits of the fused one; the outermost is the slowest.

    Those of an empty loop have no value: any will do, but reductions that the loop feeds must still be fed by it.
    """
    values: dict[Any, Any] = {}
    below: Any = tir.const(1, fused.dtype)
    for position in range(len(chain) - 1, -1, -1):
        loop = chain[position]
        extent = tir.cast(fused.dtype, loop.extent)
        if isinstance(loop.extent, tir.IntImm) and loop.extent.value <= 1:
            only = tir.const(0, fused.dtype) if loop.extent.value == 1 else fused
            values[loop.var] = tir.cast(loop.var.dtype, only)
            continue
        is_first = all(
            isinstance(item.extent, tir.IntImm) and item.extent.value == 1 for item in chain[:position]
        )
        digit = fused if is_first else tir.floormod(fused, below * extent)
        values[loop.var] = tir.cast(loop.var.dtype, tir.floordiv(digit, below))
        below = below * extent
    return values


def _dtype_that_counts(dtypes: Sequence[str], extents: Sequence[Any]) -> str:
    """The widest of some dtypes of loops, or a wider one: that of a number with these extents of digits."""
    widest = max(dtypes, key=dt.bits)
    are_known = all(isinstance(extent, tir.IntImm) for extent in extents)
    most = math.prod(extent.value for extent in extents) if are_known else 0
    for dtype in (widest, "int32", "int64"):
        is_enough = most <= dt.integer_range(dtype)[1] if are_known else dt.is_index(dtype)
        if dt.bits(dtype) >= dt.bits(widest) and is_enough:
            return dtype
    raise ScheduleError(f"{most} iterations are more than int64 counts")


def _require_extents_known(order: list[LoopNode], chain: list[LoopNode]) -> None:
    """No loop may come to lie outside of one that its begin or extent depends on."""
    inside = {id(loop) for loop in chain}
    for position, loop in enumerate(order):
        outer = {item.var for item in order[:position]}
        for what, bound in (("begin", loop.min), ("extent", loop.extent)):
            needed = [item for item in chain if item.var not in outer and mentions(bound, {item.var})]
            require(
                not any(id(item) in inside and item is not loop for item in needed),
                "reorder",
                f"the {what} of loop {loop.var.name!r} depends on a loop that would come to lie inside it",
            )


def _require_blocks_apart(moved: list[LoopNode], innermost: LoopNode) -> None:
    """Where the loops hold more than a block, other iterations than before may come between one that writes and one that reads."""
    blocks = blocks_below(innermost)
    if len(blocks) == 1 and not leaves_beside_blocks(innermost):
        return
    for loop in moved:
        reason = why_iterations_conflict(loop, blocks, between_blocks=True)
        require(reason is None, "reorder", f"{reason}")


def _require_begun_once(block: BlockNode, chain: list[LoopNode], order: list[LoopNode]) -> None:
    """Where the order changes in which an element is reduced, its init must have come once and first, and still do."""
    if block.init is None:
        return
    before = loops_around(block)
    start = next(position for position, loop in enumerate(before) if loop is chain[0])
    after = [*before[:start], *order, *before[start + len(order) :]]
    sums = [loops_of_sums(block, nest) for nest in (before, after)]
    if len(sums[0]) == len(sums[1]) and all(a is b for a, b in zip(*sums, strict=True)):
        return
    reason = why_not_begun_once(block, *sums)
    require(reason is None, "reorder", f"{reason}")


def _require_independent_bindings(block: BlockNode, chain: Sequence[LoopNode]) -> None:
    """Every block variable that the loops feed must be of a kind whose iterations commute, and every iteration must run once."""
    variables = {loop.var for loop in chain}
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        require(
            item.iter_type in (tir.IterVar.DataPar, tir.IterVar.CommReduce) or not mentions(value, variables),
            "reorder",
            f"block {block.name!r} has variable {item.var.name!r} that must run in order",
        )
    if is_affine(block):
        return
    around = loops_around(block)
    start = next(position for position, loop in enumerate(around) if loop is chain[0])
    require(
        runs_each_instance_once(block, around[start:]),
        "reorder",
        f"the bindings of block {block.name!r} are not an affine map of the loops around it, which may run an instance more than once",
    )

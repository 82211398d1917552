"""rfactor: factor a loop out of a reduction, so that partial results can be computed independently of each other.

(Suriana, Adams, Kamil: "Parallel associative reductions in Halide", CGO 2017.)
"""

from __future__ import annotations

from typing import Any

from ir.tir import IterVar
from ir.tir.analysis.reducer import Reduction, UnknownReducerError
from ir.tir.analysis.reducer import reduction_of as reduction_of_statements
from ir.tir.conjunction import conjuncts
from ir.tir.stmt_functor import substitute

from ..affine import mentions
from ..analysis import require, require_blocks_only, why_not_reduction
from ..argument import Argument, Loop
from ..bounds import analyzer_of
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..reduction_order import loops_of_sums
from ..surroundings import why_not_only_loops
from ..touches import buffers_read_elsewhere
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    blocks_below,
    loops_around,
    loops_of_its_own,
)
from .partial_results import factored
from .reduction import require_begun_once


class RFactorPrimitives(PrimitiveFamily):
    """Reductions in two steps."""

    @primitive("RFactor", moves=True, loop=Loop(), factor_axis=Argument())
    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Factor a reduction loop out into partial results: returns the block that computes them.

        ``for i: for k: C[i] += A[i, k]`` by k becomes ``for i: for k: C_rf[k, i] = A[i, k]`` and ``for i: for k: C[i] += C_rf[k, i]``.
        ``factor_axis`` says where the new dimension of the partial results is. Loops that the block shares with others stay around both:
        the partial results of one iteration are combined before the next.

        Raises:
            ScheduleError: the loop does not only run the reduction of one block, that block does not begin each element once and first,
                more than loops decides whether it runs, a loop of its reduction runs other blocks too, or the axis is out of range.
        """
        node = self._loop(loop)
        block = reduction_below(node, "rfactor")
        require_blocks_only(block, "rfactor")
        require_no_effects([block], "rfactor")
        reduction = reduction_of(block, "rfactor")
        ndim = len(reduction.outputs[0].shape)
        require(
            -(ndim + 1) <= factor_axis <= ndim,
            "rfactor",
            f"factor_axis {factor_axis} is outside [{-(ndim + 1)}, {ndim}] for buffer {reduction.outputs[0].name}",
        )
        axis = factor_axis if factor_axis >= 0 else factor_axis + ndim + 1
        parts = factored(block, node, axis, reduction)
        parts.put_in_place_of(block)
        return self._new(parts.rf_block)


def reduction_below(loop: LoopNode, primitive: str) -> BlockNode:
    """The only block under the loop, which must reduce over it."""
    blocks = list(blocks_below(loop))
    require(
        len(blocks) == 1, primitive, f"loop {loop.var.name!r} has {len(blocks)} blocks below it, it needs one"
    )
    block = blocks[0]
    reason = why_not_reduction(block)
    require(reason is None, primitive, f"block {block.name!r} is not a reduction block: {reason}")
    require(
        not buffers_read_elsewhere(block),
        primitive,
        f"block {block.name!r} reads elements that other instances of it write, which the parts would come before",
    )
    reason = why_not_only_loops(block)
    require(reason is None, primitive, f"{reason}")
    own = loops_of_its_own(block)
    for around in loops_around(block):
        require(
            around in own
            or not any(
                mentions(value, {around.var})
                for item, value in zip(block.iter_vars, block.iter_values, strict=True)
                if item.iter_type == IterVar.CommReduce
            ),
            primitive,
            f"loop {around.var.name!r} reduces in block {block.name!r} and runs other blocks too, which would see parts of its results",
        )
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if item.iter_type == IterVar.DataPar:
            require(
                not mentions(value, {loop.var}),
                primitive,
                f"loop {loop.var.name!r} feeds data-parallel variable {item.var.name!r}; it must be a reduction loop",
            )
    bound: dict[int, list[Any]] = {IterVar.DataPar: [], IterVar.CommReduce: []}
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        bound[item.iter_type].append(value)
    for around in loops_around(block):
        require(
            not all(any(mentions(value, {around.var}) for value in values) for values in bound.values()),
            primitive,
            f"loop {around.var.name!r} feeds both data-parallel and reduction variables of block {block.name!r}",
        )
    require(
        any(mentions(value, {loop.var}) for value in block.iter_values),
        primitive,
        f"loop {loop.var.name!r} is not used by block {block.name!r}",
    )
    for around in loops_around(block):
        others = {other.var for other in loops_around(block)}
        require(
            not mentions(around.extent, others) and not mentions(around.min, others),
            primitive,
            f"loop {around.var.name!r} runs over {around.extent} from {around.min}, which another loop says: there is no number of parts,"
            " or of their elements",
        )
    require_begun_once(block, loops_of_sums(block, loops_around(block)), primitive)
    _require_parts_begin(block, loop, primitive)
    return block


def _require_parts_begin(block: BlockNode, loop: LoopNode, primitive: str) -> None:
    """Every part must have its first iteration inside the predicate, for there it is initialised."""
    reductions = {
        item.var: item.min
        for item in loops_around(block)
        if item is not loop
        and any(
            mentions(value, {item.var})
            for var, value in zip(block.iter_vars, block.iter_values, strict=True)
            if var.iter_type == IterVar.CommReduce
        )
    }
    analyzer = analyzer_of(loops_around(block))
    for condition in conjuncts(block.predicate):
        if mentions(condition, {loop.var}):
            require(
                analyzer.can_prove(substitute(condition, reductions)),
                primitive,
                f"some iteration of loop {loop.var.name!r} lies outside the predicate {condition} of block {block.name!r} altogether",
            )


def reduction_of(block: BlockNode, primitive: str) -> Reduction:
    """The reduction in a block's body; refuses combiners that are not known to be associative and commutative."""
    require(isinstance(block.body, LeafNode), primitive, f"block {block.name!r} has loops or blocks inside")
    assert isinstance(block.body, LeafNode)
    try:
        return reduction_of_statements(block.init, block.body.leaf, block.name)
    except UnknownReducerError as error:
        raise ScheduleError(f"{primitive}: {error}") from error

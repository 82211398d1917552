"""skip_masked: leave out the iterations of a loop in which a mask hides everything, and the mask where it hides nothing.

Attention to earlier keys masks half of all pairs, and a product with a triangular matrix is half zeros. In tiles, most of these pairs lie
in tiles that hold no others: there is nothing to compute in them; and most of the rest in tiles that the mask does not touch.
What must be shown for that is in :mod:`schedules.masked`. (Such tiles are left out in Dao et al.: "FlashAttention", 2022, section 3.)
"""

from __future__ import annotations

from collections.abc import Sequence

from ir import tir
from ir.tir.analysis.reducer import Abstraction
from ir.tir.conjunction import conjunction
from ir.tir.transform.fresh_copy import fresh_copy

from ..affine import constant_difference, mentions
from ..analysis import leaves_beside_blocks, require, require_one_name, scope_children
from ..argument import Blocks, Loop
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..masked import Iteration, plain_store
from ..random_variable import BlockRV, LoopRV
from ..stored_value import choices_in
from ..surroundings import why_not_only_loops
from ..tree import BlockNode, LeafNode, WrapNode, fresh_block_name, loops_around, replace_node, tree_of

_NAME = "skip_masked"


class SkipMaskedPrimitives(PrimitiveFamily):
    """Masks as bounds of what is computed."""

    @primitive("SkipMasked", loop=Loop(), blocks=Blocks())
    def skip_masked(self, loop: LoopRV, blocks: Sequence[BlockRV | str] | None = None) -> None:
        """Let blocks below a loop run only in those iterations in which a mask leaves something for them to do.

        ``for i: C[i] = 0; for k0: for k1: C[i] += if_then_else(k0 * 4 + k1 <= i, A[i, k0 * 4 + k1], 0)`` at k0 becomes::

            for i:
                C[i] = 0
                for k0:
                    for k1:
                        if k0 * 4 + 3 <= i:          # nothing is hidden
                            C[i] += A[i, k0 * 4 + k1]
                        else:
                            where k0 * 4 <= i:       # else all is hidden: C[i] + 0 is C[i]
                                C[i] += if_then_else(k0 * 4 + k1 <= i, A[i, k0 * 4 + k1], 0)

        Both conditions are the same in all inner iterations, and lowering tests them outside. A mask is a condition of an
        ``if_then_else`` or a ``Select`` that compares indices. A block is left out where it stores what is there already, or what is then
        read by nobody (the scores of a tile); what others read, such as the 0 with which a tile's results begin, is stored as before.
        Reductions with an ``init`` are not left out: decompose them first.

        Args:
            loop: whose iterations are left out.
            blocks: those that may be, and whose masks are taken off; None stands for all below the loop. What threads share must be
                written in every iteration to lie within one, say.

        Raises:
            ScheduleError: below the loop are more than loops and blocks, no mask depends on the loop, or each block may change something
                where all is hidden: the program multiplies what is hidden by 0, say, which is NaN if it is infinite.
        """
        node = self._loop(loop)
        iteration = Iteration(node)
        _require_loops_only(iteration)
        require(
            iteration.masks,
            _NAME,
            f"no condition below loop {node.var.name!r} is a comparison of indices that its iterations decide",
        )
        chosen = (
            {id(self._block(block)) for block in blocks}
            if blocks
            else {id(item) for item in iteration.blocks}
        )
        skips = {
            id(block): _conditions(iteration, block) if id(block) in chosen else []
            for block in iteration.blocks
        }
        require(any(skips.values()), _NAME, _why_none(iteration))
        for block in iteration.blocks:
            for condition in skips[id(block)]:
                block.change(predicate=tir.operators.logical_and(block.predicate, condition))
        for block in iteration.blocks:
            if id(block) in chosen:
                _take_mask_off(iteration, block)


def _require_loops_only(iteration: Iteration) -> None:
    loop, blocks = iteration.loop, iteration.blocks
    require(blocks, _NAME, f"there is no block below loop {loop.var.name!r}")
    require(
        not leaves_beside_blocks(loop),
        _NAME,
        f"loop {loop.var.name!r} holds statements that are in no block",
    )
    require_no_effects(blocks, _NAME)
    require_one_name(blocks, scope_children(blocks[0]), _NAME)
    for block in blocks:
        reason = why_not_only_loops(block)
        require(reason is None, _NAME, f"{reason}")


def _conditions(iteration: Iteration, block: BlockNode) -> list[tir.PrimExpr]:
    """Where a block has something to do."""
    return [
        _not_negative(hidden.mask)
        for hidden in iteration.hidden
        if any(block is item for item in hidden.skipped)
    ]


def _not_negative(number: tir.PrimExpr) -> tir.PrimExpr:
    """A condition that is tested where it stands: to split loops around it would copy all of a tile."""
    return tir.ignore_loop_partition(number >= tir.const(0, number.dtype))


def _why_none(iteration: Iteration) -> str:
    """Why nothing may be left out, by the last block that has a mask."""
    hidden = iteration.hidden[0]
    masked = [block for block in iteration.blocks if plain_store(block) is not None]
    names = ", ".join(repr(block.name) for block in masked) or "none"
    return (
        f"where {hidden.mask} is negative, which hides all of an iteration of loop {iteration.loop.var.name!r}, each block still stores"
        f" something that may be read; looked at were {names}, for only blocks of one statement can be left out, without an init"
    )


def _take_mask_off(iteration: Iteration, block: BlockNode) -> None:
    """Put a version of a block beside it for iterations in which its masks hide nothing."""
    store = plain_store(block)
    if store is None:
        return
    moving = {loop.var for loop in (*loops_around(iteration.loop), iteration.loop)}
    shown: list[tir.PrimExpr] = []
    chosen: list[tuple[tir.PrimExpr, tir.PrimExpr]] = []
    for node, condition, true, _ in choices_in(store.value):
        lows = iteration.lowest(block, condition)
        if lows and any(mentions(low, moving) for low in lows):
            chosen.append((node, true))
            shown += [low for low in lows if all(constant_difference(low, other) != 0 for other in shown)]
    condition = conjunction(map(_not_negative, shown))
    if condition is None:
        return
    plain = tir.BufferStore(store.buffer, Abstraction(chosen).visit(store.value), store.indices)
    masked = tree_of(fresh_copy(block.stmt()))
    assert isinstance(masked, BlockNode)
    masked.change(name=fresh_block_name(block, f"{block.name}_masked"))
    template = tir.IfThenElse(condition, tir.Evaluate(tir.const(0)), tir.Evaluate(tir.const(0)))
    place = LeafNode(tir.Evaluate(tir.const(0)))
    replace_node(block, place)
    block.set_body(LeafNode(plain))
    replace_node(place, WrapNode(template, {"then_case": block, "else_case": masked}))

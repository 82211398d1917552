"""RewriteLayout: store constant operands in the order in which the innermost block reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import tir
from ir.tir import IndexMap
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC
from ir.tir.stmt_functor import variables_in

from ..affine import polynomial, split_by
from ..layout_rewrite import layout_free_parameters
from ..rule.block_facts import is_one
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, all_blocks, loops_around
from .base import Postproc


class RewriteLayout(Postproc):
    """Copy each operand that is free in its layout (``layout_free_buffers``) once, loop by loop, and let its reader use the copy.

    The copy is annotated ``meta_schedule.layout_rewrite_preproc``: it runs when a model is compiled. Operands that are read more
    than once, or in overlapping windows, stay as they are; so do those that a rule has packed already.
    """

    def apply(self, sch: Schedule) -> bool:
        func = sch.func_working_on
        assert func is not None
        function = sch.mod[func]
        assert isinstance(function, tir.PrimFunc)
        for buffer in layout_free_parameters(function):
            readers = [
                block
                for block in all_blocks(sch._root(func))
                if block.iter_vars and any(region.buffer is buffer for region in block.reads)
            ]
            if len(readers) == 1 and LAYOUT_REWRITE_PREPROC not in readers[0].annotations:
                self._rewrite(sch, readers[0], buffer)
        return True

    def _rewrite(self, sch: Schedule, block: BlockNode, buffer: Any) -> None:
        found = [i for i, region in enumerate(block.reads) if region.buffer is buffer]
        index_map = suggest_index_map(block, block.reads[found[0]].region) if len(found) == 1 else None
        if index_map is None:
            return
        reader = sch.get_block(block.name)
        copy = sch.cache_read(reader, found[0], "global")
        sch.transform_layout(copy, ("write", 0), index_map)
        sch.annotate(copy, LAYOUT_REWRITE_PREPROC, 1)


def suggest_index_map(block: BlockNode, region: Sequence[tir.Range]) -> IndexMap | None:
    """The map to the layout in which a block reads an operand from front to back; None if it is in that order, or in none.

    Every index must be a number whose digits are loops: ``i0 * 16 + i1`` with ``i1`` below 16. The digits become dimensions, in
    the order of the loops.
    """
    values = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    loops = [loop for loop in loops_around(block) if not is_one(loop.extent)]
    order = {loop.var: n for n, loop in enumerate(loops)}
    initial = [tir.Var(f"i{n}", item.min.dtype) for n, item in enumerate(region)]
    digits: list[tuple[int, int, Any]] = []  # (loop, dimension, index)
    for dim, item in enumerate(region):
        index = tir.substitute(item.min, values)
        found = _digits(index, loops) if not variables_in(item.extent) else None
        if found is None:
            return None
        for loop, weight, is_first in found:
            digit = initial[dim] if weight == 1 else tir.floordiv(initial[dim], weight)
            if not is_first:
                digit = tir.floormod(digit, loop.extent)
            digits.append((order[loop.var], dim, digit))
        if not found:
            digits.append((-1, dim, initial[dim]))  # one element only
    arranged = sorted(digits, key=lambda entry: entry[:2])
    if [entry[1] for entry in arranged] == list(range(len(region))):
        return None  # as it is
    return IndexMap(initial, [digit for _, _, digit in arranged])


def _digits(index: tir.PrimExpr, loops: Sequence[LoopNode]) -> list[tuple[LoopNode, int, bool]] | None:
    """(loop, weight, whether it is the first digit) of an index, first digit first; None where it is no such number."""
    parts = split_by(polynomial(index), {loop.var: loop.extent for loop in loops})
    if parts is None or any(parts[1].values()):
        return None
    weighted: list[tuple[int, LoopNode]] = []
    for loop in loops:
        terms = parts[0].get(loop.var)
        if terms is None:
            continue
        if set(terms) != {()} or not isinstance(loop.extent, tir.IntImm):
            return None
        weighted.append((int(terms[()]), loop))
    weighted.sort(key=lambda entry: -entry[0])
    expected = 1
    for weight, loop in reversed(weighted):
        if weight != expected:
            return None
        expected *= loop.extent.value  # type: ignore[attr-defined]
    return [(loop, weight, n == 0) for n, (weight, loop) in enumerate(weighted)]

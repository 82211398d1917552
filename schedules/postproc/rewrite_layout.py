"""RewriteLayout: store constant operands in the order in which the innermost block reads them."""

from __future__ import annotations

from typing import Any

from ir import tir
from ir.tir import IndexMap
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ..access_layout import access_digits, layout_of
from ..block_facts import is_one
from ..layout_rewrite import layout_free_parameters
from ..schedule import Schedule
from ..tree import BlockNode, all_blocks, loops_around
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
        index_map = _layout_of_reader(block, block.reads[found[0]]) if len(found) == 1 else None
        if index_map is None:
            return
        reader = sch.get_block(block.name)
        copy = sch.cache_read(reader, found[0], "global")
        sch.transform_layout(copy, ("write", 0), index_map)
        sch.annotate(copy, LAYOUT_REWRITE_PREPROC, 1)


def _layout_of_reader(block: BlockNode, region: tir.BufferRegion) -> IndexMap | None:
    """The layout in which a block reads an operand from front to back; None if that is the order in memory, or if there is none."""
    if not all(is_one(item.extent) for item in region.region):
        return None
    values = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    indices = [tir.substitute(item.min, values) for item in region.region]
    digits = access_digits(region.buffer, indices, loops_around(block), block.predicate)
    if digits is None or digits == sorted(digits, reverse=True):
        return None
    return layout_of(region.buffer, digits)

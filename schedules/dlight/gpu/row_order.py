"""RowOrder: sorting and top-k, a block of threads for each row."""

from __future__ import annotations

from ir.topi.row_order import ROW_ORDER
from ir.topi.row_threads import usual_threads

from ...rule.row_threads import order_rows_by_threads, row_length
from ...tree import all_blocks
from .rule import GPUScheduleRule, Nests


class RowOrder(GPUScheduleRule):
    """Let the threads of a block sort a row, or find its first elements, in registers: the algorithms of :mod:`ir.topi.row_threads`.

    Rows of unknown lengths, and such as are too long for that, are left to the rules behind.
    """

    def schedule(self, nests: Nests) -> bool:
        sch = nests.sch
        rows = [item for node in nests.nodes() for item in all_blocks(node) if ROW_ORDER in item.annotations]
        found = False
        for row in rows:
            known = row_length(row)
            usual = None if known is None else usual_threads(*known)
            if known is None or usual is None:
                continue
            algorithm, (threads,) = usual
            order_rows_by_threads(sch, sch.get_block(row.name), algorithm, threads)
            found = True
        return found

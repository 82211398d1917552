"""LowBatchGEMV: products of a matrix and a few vectors."""

from __future__ import annotations

from ...block_facts import is_one
from ...rule.product_form import NARROW, extent_of, product_axes
from ...tree import BlockNode
from .gemv import RowAxes, schedule_rows_of_matrix
from .rule import GPUScheduleRule, Nests


class LowBatchGEMV(GPUScheduleRule):
    """Share each row of ``Y[b, i] = sum_k(X[b, k] * A[i, k])`` among threads, for a few b that are known.

    Like :class:`~schedules.dlight.gpu.gemv.GEMV`, but that each element of the matrix is loaded once for all b, of which each thread has
    a sum of its own. It needs a matrix that is contiguous along k.
    """

    def stays(self, node: BlockNode) -> bool:
        return self._axes(node) is not None

    def schedule(self, nests: Nests) -> bool:
        return schedule_rows_of_matrix(nests, self._axes)

    def _axes(self, node: BlockNode) -> RowAxes | None:
        axes = product_axes(node)
        if axes is None or len(axes.k) != 1 or not axes.m or not axes.n:
            return None
        sides = [(axes.m, axes.n, axes.rhs), (axes.n, axes.m, axes.lhs)]
        few = [side for side in sides if 1 < (extent_of(node, side[0]) or NARROW) < NARROW]
        if len(few) != 1 or any(is_one(item.dom.extent) for item in node.iter_vars if item.var in axes.k):
            return None
        ((own, rows, matrix),) = few
        return RowAxes((*axes.batch, *rows), own, axes.k[0], matrix)

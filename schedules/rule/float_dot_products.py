"""FloatDotProducts: products of narrow floats by the processor's dot-product instructions, beside the exact form.

Such an instruction (x86's ``vdpbf16ps``, ARM's ``bfdot``) multiplies pairs of bfloat16 numbers and adds them to sums of float32 in one
step. It takes subnormal numbers for zeros, and rounds a pair in its own way, which the program does not say. So it is for searches, which
check what they measure; schedules of builds without records multiply one number at a time.
"""

from __future__ import annotations

from ir import dtype as dt

from ..block_facts import has_data_reuse, node_of, stands_alone
from ..random_variable import BlockRV
from ..schedule import Schedule
from .dot_product import dot_product_of
from .register_tiling import RegisterTiling


class FloatDotProducts(RegisterTiling):
    """Offer register tiles of products of narrow floats in groups; arguments are those of :class:`~schedules.rule.RegisterTiling`."""

    changes_rounding = True

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if not (node.is_unconditional and has_data_reuse(node) and stands_alone(node)):
            return [sch]
        vector_var = self._vector_axis(node)
        dot = dot_product_of(node, vector_var, self.target)
        if dot is None or not dt.is_float(node.writes[0].buffer.dtype):
            return [sch]
        return [*self._in_groups(sch, block, vector_var, self._packable(sch, node, vector_var), dot), sch]

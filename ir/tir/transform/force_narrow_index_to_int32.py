"""ForceNarrowIndexToInt32: index arithmetic in 32 bits, or an error."""

from __future__ import annotations

from dataclasses import dataclass

from ...error import IRValueError
from ...module import IRModule
from ...node import post_order_visit
from ...transform import PassContext
from ..function import PrimFunc
from ..stmt import For
from .narrow_block_indices import narrowed_function
from .narrow_data_type import Narrower
from .prim_func_pass import PrimFuncPass


@dataclass(frozen=True)
class ForceNarrowIndexToInt32(PrimFuncPass):
    """NarrowBlockIndices, then NarrowDataType to 32 bits; a loop that does not fit is an error."""

    pass_name = "tir.ForceNarrowIndexToInt32"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with 32-bit indices."""
        narrow = narrowed_function(func) or func
        result = narrow.replace(body=Narrower(32).visit(narrow.body))

        def check(node: object) -> None:
            if isinstance(node, For) and node.loop_var.dtype == "int64":
                raise IRValueError(
                    f"ForceNarrowIndexToInt32: loop {node.loop_var.name} does not fit into int32"
                )

        post_order_visit(result.body, check)
        return result

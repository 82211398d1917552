"""OptimizeLayoutTransform: layout transforms that undo each other disappear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...structural import structural_equal
from ...tir.index_map import IndexMap
from ...transform import PassContext
from ..analysis.remove_unused import remove_all_unused
from ..expr import Call, DataflowVar, Var, is_call_to
from ..function import Function
from .function_pass import FunctionPass
from .matmul_rewrites import shape_values
from .memory_mutator import MemoryMutator


class _Transforms(MemoryMutator):
    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        first = self.lookup_binding(call.args[0]) if is_call_to(call, "relax.layout_transform") else None
        if is_call_to(first, "relax.layout_transform"):
            source = first.args[0]
            if (
                self._undoes(first, call)
                and source.struct_info_ == call.struct_info_
                and not self.aliases.is_written(source)
            ):
                return source
        return call

    def visit_var_binding_(self, binding: Any) -> None:
        stays = isinstance(binding.value, Call) and self.aliases.is_written(binding.var)  # it must be a copy
        value = (self.visit_expr_post_order if stays else self.visit_expr)(binding.value)
        var = self.reemit_binding(binding, value)
        if isinstance(value, Var) and isinstance(var, DataflowVar):
            self.set_var_remap(var.vid, value)

    def _undoes(self, first: Call, second: Call) -> bool:
        there, back = first.attrs.get("index_map"), second.attrs.get("index_map")
        if not isinstance(there, IndexMap) or not isinstance(back, IndexMap):
            return False
        shape = shape_values(first.args[0])
        if shape is None:
            return False
        # Padding is cut off again by the transform back, whose result has the original shape.
        inverse, _ = there.non_surjective_inverse(shape)
        return structural_equal(inverse, back)


@dataclass(frozen=True)
class OptimizeLayoutTransform(FunctionPass):
    """Remove pairs of ``R.layout_transform`` that undo each other, as AlterOpImpl leaves them between operators.

    Before::

        lv = R.layout_transform(x, index_map=lambda i: (i // 4, i % 4))
        lv1 = R.layout_transform(lv, index_map=lambda i, j: (i * 4 + j,))
        gv = R.exp(lv1)

    After: ``gv = R.exp(x)``
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with fewer transforms."""
        new = _Transforms(mod).visit_expr(func)
        return func if new is func else remove_all_unused(new)

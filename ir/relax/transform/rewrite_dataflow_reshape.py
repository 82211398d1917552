"""RewriteDataflowReshape: a kernel that only renumbers elements becomes a reshape, which copies nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.function import PrimFunc
from ...transform import PassContext
from ..analysis.memory import Aliases, MemoryAnalysis
from ..analysis.tir_op_pattern import has_reshape_pattern
from ..expr import Call, Constant, ShapeExpr, Var, is_call_to, known_shape
from ..expr_functor import ExprMutator
from ..function import Function
from ..struct_info import TensorStructInfo
from .function_pass import FunctionPass


class _Rewriter(ExprMutator):
    def __init__(self, mod: IRModule, func: Function) -> None:
        super().__init__()
        self._mod = mod
        self._func = func

    def visit_var_binding_(self, binding: Any) -> None:
        if not self._may_copy(binding.value) and self._stays(binding):
            self.builder_.emit_normalized(binding)
            return
        value = self.visit_expr(binding.value)
        view = self._reshape(value) if isinstance(value, Call) else None
        if view is not None and not self._is_overwritten(binding):
            value = view
        self.reemit_binding(binding, value)

    def _may_copy(self, value: Any) -> bool:
        """Whether a value is of a kernel that copies elements in order."""
        if (
            not self.builder_.current_block_is_dataflow()
            or not is_call_to(value, "relax.call_tir")
            or len(value.args) > 2
            or not isinstance(value.args[0], GlobalVar)
        ):
            return False
        kernel = self._mod[value.args[0]]
        return isinstance(kernel, PrimFunc) and has_reshape_pattern(kernel)

    @cached_property
    def _aliases(self) -> Aliases:
        return MemoryAnalysis(self._mod).aliases(self._func)

    def _is_overwritten(self, binding: Any) -> bool:
        """Whether the function writes to the copy, or to what is copied: they must then stay two."""
        touched = self._aliases.roots(binding.var)
        for arg in binding.value.args:
            touched |= self._aliases.roots(arg)
        return not touched.isdisjoint(self._aliases.written)

    def _reshape(self, call: Call) -> Call | None:
        if not self._may_copy(call):
            return None
        fields: tuple[Any, ...] = getattr(call.args[1], "fields", ())
        info = call.sinfo_args[0]
        if (
            len(fields) != 1
            or not isinstance(info, TensorStructInfo)
            or not isinstance(fields[0], Var | Constant)
        ):
            return None
        shape = known_shape(info)
        if shape is None:
            return None
        return Call(
            Op.get("relax.reshape"), (fields[0], ShapeExpr(shape.values)), None, None, call.span, info
        )


@dataclass(frozen=True)
class RewriteDataflowReshape(FunctionPass):
    """Replace ``call_tir`` of kernels that copy elements in order by ``R.reshape``, which is a view when the program runs.

    Before: ``y = R.call_tir(cls.flatten, (x,), out_sinfo=R.Tensor((1, 12), "float32"))``

    After: ``y = R.reshape(x, R.shape([1, 12]))``

    A copy of what is overwritten in place, or that is overwritten itself, stays a copy.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with views."""
        new: Function = _Rewriter(mod, func).visit_expr(func)
        return new

"""AllocateWorkspace: one tensor that is large enough for all external functions that need temporary storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...transform import ModulePass, PassContext
from ..expr import BindingBlock, Call, DataflowVar, DataTypeImm, PrimValue, ShapeExpr, Var
from ..expr_functor import ExprMutator
from ..function import Function
from ..function_signature import SignatureChange, change_signatures
from ..struct_info import TensorStructInfo

WORKSPACE_SIZE = "WorkspaceSize"
"""Attribute of external functions: the bytes that they need."""


class _Allocator(ExprMutator):
    """Allocates the workspace before the first call that needs it, and passes it to all."""

    def __init__(self, mod: IRModule, needy: set[str], size: int) -> None:
        super().__init__(mod)
        self._needy = needy
        self._info = TensorStructInfo((size,), "uint8")
        self._workspace: Var | None = None

    def visit_seq_expr_(self, expr: Any) -> Any:
        outer = self._workspace
        try:
            return super().visit_seq_expr_(expr)
        finally:
            self._workspace = outer

    def visit_bindings(self, block: BindingBlock) -> None:
        outer = self._workspace
        super().visit_bindings(block)
        if isinstance(self._workspace, DataflowVar):
            self._workspace = outer  # it is not visible in the next block

    def visit_call_(self, call: Any) -> Any:
        if not isinstance(call.op, GlobalVar) or call.op.name_hint not in self._needy:
            return super().visit_call_(call)
        if self._workspace is None:
            args = (ShapeExpr(self._info.shape_values), DataTypeImm("uint8"), PrimValue(0))
            alloc = Call(Op.get("relax.builtin.alloc_tensor"), args, None, None, None, self._info)
            self._workspace = self.builder_.emit(alloc, "workspace_main")
        args = (*super().visit_call_(call).args, self._workspace)
        return call.replace(args=args, struct_info_=call.struct_info)  # the signature follows


@dataclass(frozen=True)
class AllocateWorkspace(ModulePass):
    """Give external functions (attribute ``Codegen``) with ``WorkspaceSize`` a workspace as their last argument.

    Before: ``y = cls.attention_cutlass(q, k, v)``, where the function has ``WorkspaceSize: 65536``

    After::

        workspace_main = R.builtin.alloc_tensor(R.shape([65536]), R.dtype("uint8"), R.prim_value(0))
        y = cls.attention_cutlass(q, k, v, workspace_main)
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with a workspace."""
        needy = {
            var: func
            for var, func in mod.functions.items()
            if isinstance(func, Function) and "Codegen" in func.attrs and WORKSPACE_SIZE in func.attrs
        }
        if not needy:
            return mod
        size = max(func.attrs.get_int(WORKSPACE_SIZE) for func in needy.values())
        changes: dict[GlobalVar, SignatureChange] = {}
        for var, func in needy.items():
            workspace = Var("workspace", TensorStructInfo((size,), "uint8"))
            new = Function(
                [*func.params, workspace],
                func.body,
                func.ret_struct_info,
                func.is_pure,
                func.attrs,
                func.span,
            )
            changes[var] = SignatureChange(new)
        allocator = _Allocator(mod, {var.name_hint for var in needy}, size)
        mod = allocator.rewrite_module(mod, lambda var, func: "Codegen" not in func.attrs)
        return change_signatures(mod, changes)

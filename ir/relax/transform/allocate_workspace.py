"""AllocateWorkspace: one tensor that is large enough for all external functions that need temporary storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...transform import ModulePass, PassContext
from ..expr import Call, DataTypeImm, PrimValue, SeqExpr, ShapeExpr, Var
from ..function import Function
from ..struct_info import TensorStructInfo
from .binding_rewriter import BindingRewriter
from .interprocedural import change_functions

WORKSPACE_SIZE = "WorkspaceSize"
"""Attribute of external functions: the bytes that they need."""


class _Allocator(BindingRewriter):
    """Allocates the workspace before the first call that needs it, and passes it to all."""

    def __init__(self, mod: IRModule, needy: set[str], size: int) -> None:
        super().__init__(mod)
        self._needy = needy
        self._info = TensorStructInfo((size,), "uint8")
        self._workspace: Var | None = None

    def visit_seq(self, seq: SeqExpr) -> SeqExpr:
        outer = self._workspace
        try:
            return super().visit_seq(seq)
        finally:
            self._workspace = outer

    def visit_block(self, block: Any) -> None:
        outer = self._workspace
        super().visit_block(block)
        if self._workspace is not None and type(self._workspace) is not Var:
            self._workspace = outer  # a dataflow variable is not visible in the next block

    def visit_call(self, var: Var, call: Call) -> None:
        if isinstance(call.op, GlobalVar) and call.op.name_hint in self._needy:
            if self._workspace is None:
                args = (ShapeExpr(self._info.shape_values), DataTypeImm("uint8"), PrimValue(0))
                alloc = Call(Op.get("relax.builtin.alloc_tensor"), args, None, None, None, self._info)
                self._workspace = self.emit(alloc, "workspace_main")
            info = call.struct_info_ if call.struct_info_ is not None else var.struct_info_
            call = Call(call.op, (*call.args, self._workspace), call.attrs, call.sinfo_args, call.span, info)
        self.bind(var, call)


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
        changed: dict[GlobalVar, Any] = {}
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
            changed[var] = (new, lambda rewriter, call: call)
        result = change_functions(mod, changed)
        names = {var.name_hint for var in needy}
        functions = {
            var: _Allocator(result, names, size).rewrite(func)
            if isinstance(func, Function) and "Codegen" not in func.attrs
            else func
            for var, func in result.functions.items()
        }
        return result.replace(functions=functions)

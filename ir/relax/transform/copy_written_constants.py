"""CopyWrittenConstants: what a call overwrites is no constant but a copy of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..expr import Call, Constant, Expr, Tuple, Var
from ..op.memory_effect import Path
from ..struct_info import TensorStructInfo
from .copied_tensor import emit_copy
from .memory_mutator import MemoryMutator


class _Copier(MemoryMutator):
    def visit_function_(self, func: Any) -> Any:
        if self._function is None and not self.memory.aliases(func).writes_constants:
            return func
        return super().visit_function_(func)

    def visit_call_(self, call: Any) -> Any:
        new: Call = super().visit_call_(call)
        args = list(new.args)
        for path in self.memory.effect_of(call).writes:
            if path[0] < len(args):
                args[path[0]] = self._copied(args[path[0]], call.args[path[0]], path[1:])
        same = all(made is old for made, old in zip(args, new.args, strict=True))
        return new if same else new.replace(args=tuple(args), struct_info_=new.struct_info_)

    def _copied(self, arg: Expr, before: Expr, path: Path) -> Expr:
        """The argument with the tensor at ``path`` copied, if it may be a constant; ``before`` is what it was."""
        if isinstance(arg, Tuple) and path:
            assert isinstance(before, Tuple)
            fields = list(arg.fields)
            fields[path[0]] = self._copied(fields[path[0]], before.fields[path[0]], path[1:])
            return arg if fields[path[0]] is arg.fields[path[0]] else Tuple(fields)
        if not isinstance(arg, Var | Constant) or not isinstance(arg.struct_info_, TensorStructInfo):
            return arg
        if not self.aliases.may_be_constant(before):
            return arg
        return emit_copy(self.builder_, arg)


@dataclass(frozen=True)
class CopyWrittenConstants(ModulePass):
    """Let in-place calls overwrite copies of constants: constants belong to the module, and the next call reads them again.

    Before: ``y = R.call_tir_inplace(cls.add_one, (constant,), ..., inplace_indices=[0])``

    After::

        lv = R.call_tir(cls.copy, (constant,), ...)
        y = R.call_tir_inplace(cls.add_one, (lv,), ..., inplace_indices=[0])
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module, none of whose calls overwrites a constant."""
        return _Copier(mod).rewrite_module(mod, lambda var, func: "Codegen" not in func.attrs)


__all__ = ["CopyWrittenConstants"]

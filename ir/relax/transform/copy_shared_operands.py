"""CopySharedOperands: what a call reads is other memory than what it overwrites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...tir.function import PrimFunc
from ...transform import ModulePass, PassContext
from ..analysis.operands_apart import OperandsApart, Pair, roots_at
from ..expr import Call, Expr, Tuple, TupleGetItem, Var
from ..op.memory_effect import Path
from ..struct_info import ObjectStructInfo, TupleStructInfo
from .copied_tensor import emit_copy
from .memory_mutator import MemoryMutator


class _Copier(MemoryMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._apart = OperandsApart(self.memory)

    def visit_function_(self, func: Any) -> Any:
        if self._function is None and not self.memory.aliases(func).written:
            return func
        return super().visit_function_(func)

    def visit_call_(self, call: Any) -> Any:
        new: Call = super().visit_call_(call)
        args = list(new.args)
        copied: set[Path] = set()
        for written, other in self._pairs(call):
            if copied.isdisjoint((written, other)) and self._share(call, written, other):
                args[other[0]] = self._copied(args[other[0]], other[1:])
                copied.add(other)
        return new.replace(args=tuple(args), struct_info_=new.struct_info_) if copied else new

    def _pairs(self, call: Call) -> list[Pair]:
        """What may be copied for a call. The memory of one that was lowered is explicit, and what a function overwrites is its caller's."""
        pairs = self._apart.of_call(call)
        if not isinstance(call.op, GlobalVar):
            return pairs
        if isinstance(self.memory.called_function(call), PrimFunc):
            return []
        writes = self.memory.effect_of(call).writes
        return [(written, other) for written, other in pairs if other not in writes]

    def _share(self, call: Call, written: Path, other: Path) -> bool:
        """Whether two tensors among the arguments may be one: those that a plan has put into one storage are not."""
        roots = roots_at(call, written, self.aliases) & roots_at(call, other, self.aliases)
        return any(root.owner is None or not _is_storage(root.owner) for root in roots)

    def _copied(self, arg: Expr, path: Path) -> Expr:
        """The argument with the tensor at ``path`` copied."""
        if not path:
            return emit_copy(self.builder_, arg)
        fields = list(self._fields(arg))
        fields[path[0]] = self._copied(fields[path[0]], path[1:])
        return Tuple(fields)

    def _fields(self, arg: Expr) -> list[Expr]:
        if isinstance(arg, Tuple):
            return list(arg.fields)
        info = arg.struct_info_
        assert isinstance(info, TupleStructInfo)
        return [self.builder_.emit(TupleGetItem(arg, index)) for index in range(len(info.fields))]


def _is_storage(owner: Var) -> bool:
    return type(owner.struct_info_) is ObjectStructInfo


@dataclass(frozen=True)
class CopySharedOperands(ModulePass):
    """Let calls that overwrite an argument read copies of what lies in the same memory: values do not change while they are read.

    Before: ``y = R.call_tir_inplace(cls.add_reversed, (x, x), ..., inplace_indices=[0])``

    After::

        lv = R.call_tir(cls.copy, (x,), ...)
        y = R.call_tir_inplace(cls.add_reversed, (x, lv), ..., inplace_indices=[0])

    Kernels that say that they take one array for several parameters (``tir.noalias`` is False) get it. One array that a caller gives for
    two parameters is not seen here; who calls compares what :class:`~ir.relax.analysis.operands_apart.OperandsApart` finds.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module, none of whose calls reads what it overwrites by another name."""
        return _Copier(mod).rewrite_module(mod, lambda var, func: "Codegen" not in func.attrs)


__all__ = ["CopySharedOperands"]

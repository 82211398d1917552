"""LowerRuntimeBuiltin: general operators become those of the virtual machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from ..expr import Call
from ..expr_functor import ExprMutator
from ..function import Function
from ..op.declaration import declaration_of
from ..op.lowering import packed
from .function_pass import FunctionPass
from .to_non_dataflow import allowing_effects


class _Lowerer(ExprMutator):
    def looks_at(self, callee: Any) -> bool:
        return _lowering_of(callee) is not None

    def visit_call_(self, expr: Any) -> Any:
        call: Any = self.builder_.normalize(super().visit_call_(expr))
        lower = _lowering_of(call.op)
        return call if lower is None else lower(call)


def _lowering_of(callee: Any) -> Callable[[Call], Any] | None:
    """What an operator declares to become, or the function that it is said to be."""
    if not isinstance(callee, Op):
        return None
    declared = declaration_of(callee)
    if declared is not None and declared.lowering is not None:
        return declared.lowering
    function = callee.get_attr("FCallPacked")
    return None if function is None else packed(str(function))


@dataclass(frozen=True)
class LowerRuntimeBuiltin(FunctionPass):
    """Replace operators by what they declare to become in the virtual machine: allocation, reshaping, shapes, closures.

    Before: ``x = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))``

    After: ``x = R.vm.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))``

    Calls of the machine are effects: the dataflow blocks of a function that gets some become plain, a pure function ``relax.force_pure``.

    Raises:
        IRValueError: the shape of a view is not known.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The lowered function."""
        new: Function = _Lowerer(mod).visit_expr(func)
        return allowing_effects(new)

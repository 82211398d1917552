"""KillAfterLastUse: say where tensors and storage are no longer needed."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from ..analysis.binding import used_vars
from ..expr import BindingBlock, Call, Expr, SeqExpr, StringImm, Tuple, TupleGetItem, Var
from ..function import Function
from ..struct_info import FuncStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .binding_rewriter import BindingRewriter, is_call_to
from .canonicalize_bindings import CanonicalizeBindings
from .function_pass import FunctionPass

_KILLS = ("relax.memory.kill_storage", "relax.memory.kill_tensor", "relax.vm.kill_object")


class _Killer(BindingRewriter):
    def visit_seq(self, seq: SeqExpr) -> SeqExpr:
        outer = getattr(self, "_kills", None)
        self._kills = _planned_kills(seq)
        result = super().visit_seq(seq)
        self._kills = outer or {}
        return result

    def visit_block(self, block: BindingBlock) -> None:
        for binding in block.bindings:
            kills = self._kills.get(id(binding), ())
            self._visit_nested(binding)
            for var, operator in kills:
                self.emit(Call(Op.get(operator), (var,), None, None, None, TupleStructInfo(())), "_")

    def visit_local_function(self, var: Var, func: Function) -> Function:
        return _Killer(self.mod).rewrite(func)


def _killer(var: Var, value: Expr) -> str | None:
    """The operator that lets go of what a binding made; None for what holds no memory of its own."""
    info = var.struct_info
    if isinstance(info, ShapeStructInfo | PrimStructInfo | FuncStructInfo):
        return None
    if not isinstance(value, Call | Tuple | TupleGetItem | StringImm):
        return None  # constants live as long as the module, results of branches may be older objects
    if is_call_to(value, "relax.memory.alloc_storage"):
        return "relax.memory.kill_storage"
    if isinstance(info, TensorStructInfo) and not is_call_to(value, "relax.vm.alloc_tensor"):
        return "relax.memory.kill_tensor"
    return "relax.vm.kill_object"


def _planned_kills(seq: SeqExpr) -> dict[int, list[tuple[Var, str]]]:
    """What to kill behind which binding (by identity): the variables of the sequence whose last use it is."""
    operator: dict[Var, str] = {}
    last: dict[Var, int] = {}
    for block in seq.blocks:
        for binding in block.bindings:
            value: Expr = binding.value  # type: ignore[attr-defined]
            used = set(used_vars(value))
            if is_call_to(value, *_KILLS):
                for var in used:
                    operator.pop(var, None)
            for var in used & operator.keys():
                last[var] = id(binding)
            name = _killer(binding.var, value)
            if name is not None:
                operator[binding.var] = name
    returned = used_vars(seq.body)
    plan: dict[int, list[tuple[Var, str]]] = {}
    for var, name in operator.items():
        if var in last and var not in returned:
            plan.setdefault(last[var], []).append((var, name))
    return plan


@dataclass(frozen=True)
class KillAfterLastUse(FunctionPass):
    """Insert kills behind the last use of storage, tensors and other objects.

    A tensor keeps its storage alive, so that storage is let go of behind the last tensor that is made in it. The bindings
    are made canonical first: a variable that merely renames another has no lifetime of its own.

    Before::

        storage = R.memory.alloc_storage(...)
        x = R.memory.alloc_tensor(storage, ...)
        _ = cls.exp(a, x)
        _1 = cls.add(x, b, y)

    After::

        storage = R.memory.alloc_storage(...)
        x = R.memory.alloc_tensor(storage, ...)
        _3 = R.memory.kill_storage(storage)
        _ = cls.exp(a, x)
        _1 = cls.add(x, b, y)
        _2 = R.memory.kill_tensor(x)
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with kills."""
        return _Killer(mod).rewrite(CanonicalizeBindings().transform_function(func, mod, ctx))

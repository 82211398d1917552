"""KillAfterLastUse: say where tensors and storage are no longer needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from ..analysis.binding import all_bindings, used_vars
from ..analysis.memory import MemoryAnalysis
from ..expr import Binding, Call, Expr, SeqExpr, StringImm, Tuple, TupleGetItem, Var, is_call_to
from ..expr_functor import ExprMutator
from ..function import Function
from ..struct_info import FuncStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .canonicalize_bindings import CanonicalizeBindings
from .function_pass import FunctionPass
from .to_non_dataflow import allowing_effects

_NOTHING = TupleStructInfo(())


class _Killer(ExprMutator):
    def __init__(self, mod: IRModule, analysis: MemoryAnalysis | None) -> None:
        super().__init__(mod)
        self._analysis = analysis
        self._kills: dict[int, list[tuple[Var, str]]] = {}

    def visit_seq_expr_(self, expr: Any) -> Any:
        outer = self._kills
        self._kills = _planned_kills(expr, self._analysis)
        try:
            return super().visit_seq_expr_(expr)
        finally:
            self._kills = outer

    def visit_binding(self, binding: Binding) -> None:
        if self._stays(binding):
            self.builder_.emit_normalized(binding)
        else:
            super().visit_binding(binding)
        for var, operator in self._kills.get(id(binding), ()):
            self.builder_.emit(Call(Op.get(operator), (var,), None, None, None, _NOTHING), "_")


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


def _released(value: Expr, analysis: MemoryAnalysis | None) -> list[Var]:
    """The variables whose life the program ends by itself; without an analysis it is known that there are none."""
    if analysis is None or not isinstance(value, Call):
        return []
    given = [value.args[path[0]] for path in analysis.effect_of(value).releases]
    return [arg for arg in given if isinstance(arg, Var)]


def _planned_kills(seq: SeqExpr, analysis: MemoryAnalysis | None) -> dict[int, list[tuple[Var, str]]]:
    """What to kill behind which binding (by identity): the variables of the sequence whose last use it is."""
    operator: dict[Var, str] = {}
    last: dict[Var, int] = {}
    for block in seq.blocks:
        for binding in block.bindings:
            value: Expr = binding.value  # type: ignore[attr-defined]
            for var in _released(value, analysis):
                operator.pop(var, None)
            for var in used_vars(value):
                if var in operator:
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


def _releases(func: Function, analysis: MemoryAnalysis) -> bool:
    """Whether the function ends the life of a value by itself."""
    return any(_released(binding.value, analysis) for binding in all_bindings(func))  # type: ignore[attr-defined]


@dataclass(frozen=True)
class KillAfterLastUse(FunctionPass):
    """Insert kills behind the last use of storage, tensors and other objects.

    A tensor keeps its storage alive, so that storage is let go of behind the last tensor that is made in it. The bindings
    are made canonical first: a variable that merely renames another has no lifetime of its own. What the program kills by
    itself is not killed again. Kills are effects: dataflow blocks that get some become plain, and pure functions ``relax.force_pure``.

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
        # Where lives end already, a value must not be read by way of what it was made of.
        analysis = MemoryAnalysis(mod)
        ends = _releases(func, analysis)
        canonical = func if ends else CanonicalizeBindings().transform_function(func, mod, ctx)
        new: Function = _Killer(mod, analysis if ends else None).visit_expr(canonical)
        return allowing_effects(new)

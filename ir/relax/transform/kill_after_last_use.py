"""KillAfterLastUse: say where tensors and storage are no longer needed."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from ..analysis import used_vars
from ..expr import Binding, BindingBlock, Call, Expr, SeqExpr, Tuple, TupleGetItem, Var
from ..function import Function
from ..struct_info import TupleStructInfo
from .binding_rewriter import BindingRewriter, is_call_to
from .function_pass import FunctionPass

_KILLERS = {
    "relax.memory.alloc_storage": "relax.memory.kill_storage",
    "relax.memory.alloc_tensor": "relax.memory.kill_tensor",
    "relax.builtin.alloc_tensor": "relax.memory.kill_tensor",
    "relax.vm.alloc_storage": "relax.vm.kill_object",
    "relax.vm.alloc_tensor": "relax.vm.kill_object",
}
_KILLS = ("relax.memory.kill_storage", "relax.memory.kill_tensor", "relax.vm.kill_object")


class _Killer(BindingRewriter):
    def visit_seq(self, seq: SeqExpr) -> SeqExpr:
        self._kills = _planned_kills(seq)
        return super().visit_seq(seq)

    def visit_block(self, block: BindingBlock) -> None:
        for binding in block.bindings:
            self._visit_nested(binding)
            for var, operator in self._kills.get(id(binding), ()):
                self.emit(Call(Op.get(operator), (var,), None, None, None, TupleStructInfo(())), "_")

    def visit_local_function(self, var: Var, func: Function) -> Function:
        return _Killer(self.mod).rewrite(func)


def _planned_kills(seq: SeqExpr) -> dict[int, list[tuple[Var, str]]]:
    """What to kill behind which binding (by identity): allocations whose last use, through any alias, it is."""
    sources: dict[Var, set[Var]] = {}
    """The allocations that a variable may refer to."""
    operator: dict[Var, str] = {}
    last: dict[Var, Binding] = {}
    killed: set[Var] = set()

    for block in seq.blocks:
        for binding in block.bindings:
            value: Expr = binding.value  # type: ignore[attr-defined]
            used = set(used_vars(value))
            roots = {root for var in used for root in sources.get(var, ())}
            for root in roots:
                last[root] = binding
            name = getattr(getattr(value, "op", None), "name", "")
            if is_call_to(value, *_KILLS):
                killed |= {var for var in used if var in operator}
            if name in _KILLERS:
                operator[binding.var] = _KILLERS[name]
                last[binding.var] = binding
                # A tensor keeps its storage.
                sources[binding.var] = {binding.var} | (roots if name.endswith(".alloc_tensor") else set())
            elif isinstance(value, Var | Tuple | TupleGetItem) or (
                isinstance(value, Call) and _may_alias(value)
            ):
                sources[binding.var] = roots
    returned = {root for var in used_vars(seq.body) for root in sources.get(var, ())}
    plan: dict[int, list[tuple[Var, str]]] = {}
    for var, binding in last.items():
        if var in operator and var not in returned and var not in killed:
            plan.setdefault(id(binding), []).append((var, operator[var]))
    for kills in plan.values():
        # Tensors before the storage that they are in.
        kills.sort(key=lambda item: len(sources[item[0]]), reverse=True)
    return plan


def _may_alias(call: Call) -> bool:
    """Whether a call's result may share memory with its arguments."""
    name = getattr(call.op, "name", "")
    if not name:
        return not isinstance(call.struct_info_, TupleStructInfo) or bool(call.struct_info_.fields)
    return name in (
        "relax.reshape",
        "relax.memory.view",
        "relax.memory.ensure_zero_offset",
        "relax.to_vdevice",
    )


@dataclass(frozen=True)
class KillAfterLastUse(FunctionPass):
    """Insert kills behind the last use of allocated tensors and storage.

    Before::

        storage = R.memory.alloc_storage(...)
        x = R.memory.alloc_tensor(storage, ...)
        _ = cls.exp(a, x)
        _1 = cls.add(x, b, y)

    After::

        ...
        _1 = cls.add(x, b, y)
        _2 = R.memory.kill_tensor(x)
        _3 = R.memory.kill_storage(storage)
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with kills."""
        return _Killer(mod).rewrite(func)

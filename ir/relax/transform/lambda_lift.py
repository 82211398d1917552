"""LambdaLift: local functions become functions of the module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...transform import ModulePass, PassContext
from ..analysis.binding import free_vars
from ..bind import bind, copy_with_new_vars
from ..expr import Call, Id, ShapeExpr, Tuple, Var
from ..expr_functor import ExprMutator
from ..expr_substitution import ExprSubstitution
from ..function import Function
from ..struct_info import FuncStructInfo, ObjectStructInfo
from ..symbolic_vars import free_symbolic_vars
from .grouping import NameTable


class _Lifter(ExprMutator):
    def __init__(
        self, names: NameTable, prefix: str, closures: Mapping[Id, FuncStructInfo] | None = None
    ) -> None:
        super().__init__()
        self._names_free = names
        self._prefix = prefix
        self.lifted: dict[GlobalVar, Function] = {}
        self._closures: dict[Id, FuncStructInfo] = dict(closures or {})
        """The variables that hold closures, with the signatures of the local functions that they were."""

    def visit_var_binding_(self, binding: Any) -> None:
        if isinstance(binding.value, Function):
            # lifted as a whole, its own local functions with it
            self._lift(binding, ExprSubstitution(self._var_remap).visit_expr(binding.value))
        else:
            super().visit_var_binding_(binding)

    def _lift(self, binding: Any, func: Function) -> None:
        var = binding.var
        recursive = any(item.vid is var.vid for item in free_vars(func))
        captured = [item for item in free_vars(func) if item.vid is not var.vid]
        name = self._names_free.fresh(f"{self._prefix}_{var.name_hint}")
        params = [Var(item.name_hint, item.struct_info_) for item in captured]
        values: dict[Var, Any] = dict(zip(captured, params, strict=True))
        given: list[Any] = [*captured]
        extents = free_symbolic_vars(Function([*params, *func.params], func.body, func.ret_struct_info))
        if extents:
            # extents of the function around it that nothing else tells: n of a parameter of n - 1 elements
            shape = ShapeExpr(extents)
            params.append(Var("extents", shape.struct_info_))
            given.append(shape)
        info = FuncStructInfo(
            [*[p.struct_info_ for p in params], *[p.struct_info_ for p in func.params]],
            func.ret_struct_info,
            func.is_pure,
        )
        target = GlobalVar(name, info)
        body = bind(func.body, values) if values else func.body
        attrs = {key: value for key, value in func.attrs.items() if key != "global_symbol"}
        lifted = Function([*params, *func.params], body, func.ret_struct_info, func.is_pure, attrs, func.span)
        if recursive:
            lifted = _SelfCaller(var, target, params).visit_expr(lifted)
        inside = {
            param.vid: self._closures[item.vid]
            for item, param in zip(captured, params, strict=False)
            if item.vid in self._closures
        }
        inner = _Lifter(self._names_free, name, inside)
        self.lifted[target] = copy_with_new_vars(inner.visit_expr(lifted))
        self.lifted.update(inner.lifted)
        if not given:
            self.set_var_remap(var.vid, target)
            return
        closure = Call(
            Op.get("relax.make_closure"), (target, Tuple(given)), None, None, None, ObjectStructInfo()
        )
        own = FuncStructInfo([p.struct_info_ for p in func.params], func.ret_struct_info, func.is_pure)
        self._closures[self.reemit_binding(binding, closure).vid] = own

    def visit_call_(self, call: Any) -> Any:
        new = super().visit_call_(call)
        closure = self._closures.get(call.op.vid) if isinstance(call.op, Var) else None
        if closure is None:
            return new
        info = call.struct_info
        invoke = "relax.invoke_pure_closure" if closure.purity else "relax.invoke_closure"
        return Call(invoke, (new.op, Tuple(new.args)), None, [info], call.span, info)


class _SelfCaller(ExprMutator):
    """A local function that calls itself calls the lifted one, handing on what it captured."""

    def __init__(self, var: Var, target: GlobalVar, captured: list[Var]) -> None:
        super().__init__()
        self._var, self._target, self._captured = var, target, captured

    def visit_call_(self, call: Any) -> Any:
        new = super().visit_call_(call)
        if not isinstance(call.op, Var) or call.op.vid is not self._var.vid:
            return new
        args = (*self._captured, *new.args)
        return new.replace(op=self._target, args=args, struct_info_=call.struct_info_)


@dataclass(frozen=True)
class LambdaLift(ModulePass):
    """Lift local functions to the module; those that capture variables become closures.

    Before::

        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
            @R.function
            def inner(z: R.Tensor((8,), "float32")):
                return R.add(x, z)
            return inner(y)

    After::

        @R.function
        def main(x, y):
            inner = R.make_closure(cls.main_inner, (x,))
            return R.invoke_pure_closure(inner, (y,), sinfo_args=(R.Tensor((8,), "float32"),))

        @R.function(private=True)
        def main_inner(x: R.Tensor((8,), "float32"), z: R.Tensor((8,), "float32")):
            return R.add(x, z)
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module without local functions."""
        names = NameTable(mod)
        result = mod.clone()
        changed = False
        for var, func in list(mod.functions.items()):
            if not isinstance(func, Function) or "Codegen" in func.attrs:
                continue
            lifter = _Lifter(names, var.name_hint)
            new = lifter.visit_expr(func)
            if new is not func:
                changed = True
                result.functions[var] = new
                result.functions.update(lifter.lifted)
        return result if changed else mod


__all__ = ["LambdaLift"]

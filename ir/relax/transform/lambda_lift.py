"""LambdaLift: local functions become functions of the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...transform import ModulePass, PassContext
from ..analysis.binding import free_vars
from ..bind import bind, copy_with_new_vars
from ..expr import Call, Tuple, Var, VarBinding
from ..function import Function
from ..struct_info import FuncStructInfo, ObjectStructInfo
from .binding_rewriter import BindingRewriter
from .grouping import NameTable


class _Lifter(BindingRewriter):
    def __init__(self, mod: IRModule, names: NameTable, prefix: str) -> None:
        super().__init__(mod)
        self._names_free = names
        self._prefix = prefix
        self.lifted: dict[GlobalVar, Function] = {}
        self._closures: set[Var] = set()

    def visit_local_function(self, var: Var, func: Function) -> Function:
        return func  # lifted as a whole in visit_binding, its own local functions with it

    def visit_binding(self, binding: Any) -> None:
        value = binding.value
        if isinstance(binding, VarBinding) and isinstance(value, Function):
            self._lift(binding.var, value)
        else:
            super().visit_binding(binding)

    def _lift(self, var: Var, func: Function) -> None:
        func = self.substitute(func)
        recursive = any(item.vid is var.vid for item in free_vars(func))
        captured = [item for item in free_vars(func) if item.vid is not var.vid]
        name = self._names_free.fresh(f"{self._prefix}_{var.name_hint}")
        params = [Var(item.name_hint, item.struct_info_) for item in captured]
        values: dict[Var, Any] = dict(zip(captured, params, strict=True))
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
            lifted = _SelfCaller(self.mod, var, target, params).rewrite(lifted)
        inner = _Lifter(self.mod or IRModule(), self._names_free, name)
        self.lifted[target] = copy_with_new_vars(inner.rewrite(lifted))
        self.lifted.update(inner.lifted)
        if not captured:
            self.replace_var(var, target)
            return
        closure = Call(
            Op.get("relax.make_closure"), (target, Tuple(captured)), None, None, None, ObjectStructInfo()
        )
        new = self.bind(var, closure)
        self._closures |= {new, var}

    def visit_call(self, var: Var, call: Call) -> None:
        if isinstance(call.op, Var) and call.op in self._closures:
            info = call.struct_info_ if call.struct_info_ is not None else var.struct_info_
            pure = Op.get("relax.invoke_pure_closure")
            call = Call(pure, (call.op, Tuple(call.args)), None, [info], call.span, info)
        elif isinstance(call.op, GlobalVar) and call.struct_info_ is None:
            call = Call(call.op, call.args, call.attrs, call.sinfo_args, call.span, var.struct_info_)
        self.bind(var, call)


class _SelfCaller(BindingRewriter):
    """A local function that calls itself calls the lifted one, handing on what it captured."""

    def __init__(self, mod: IRModule | None, var: Var, target: GlobalVar, captured: list[Var]) -> None:
        super().__init__(mod)
        self._var, self._target, self._captured = var, target, captured

    def visit_call(self, var: Var, call: Call) -> None:
        if isinstance(call.op, Var) and call.op.vid is self._var.vid:
            info = call.struct_info_ if call.struct_info_ is not None else var.struct_info_
            call = Call(
                self._target, (*self._captured, *call.args), call.attrs, call.sinfo_args, call.span, info
            )
        self.bind(var, call)


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
            lifter = _Lifter(mod, names, var.name_hint)
            new = lifter.rewrite(func)
            if new is not func:
                changed = True
                result.functions[var] = new
                result.functions.update(lifter.lifted)
        return result if changed else mod


__all__ = ["LambdaLift"]

"""UpdateParamStructInfo: give parameters other struct infos, and infer everything behind them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRError
from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..analysis.binding import all_global_vars
from ..expr import Var
from ..function import Function
from ..function_signature import ReferenceMutator, SignatureChange, change_signatures, reference_to
from ..struct_info import FuncStructInfo, StructInfo, TupleStructInfo
from ..symbolic_vars import tir_vars_in


@dataclass(frozen=True)
class UpdateParamStructInfo(ModulePass):
    """Change the struct infos of parameters; bindings and return types follow by inference.

    Before: ``def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32")``

    After, where the function returned ``R.Tensor((8,), "float16")`` for ``x``:
    ``def main(x: R.Tensor((8,), "float16")) -> R.Tensor((8,), "float16")``

    Args:
        sinfo_func: the new struct info of a parameter, or None to keep it.
    """

    sinfo_func: Callable[[Var], StructInfo | None]

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with other signatures."""
        return change_signatures(mod, _Signatures(mod, self.sinfo_func).changes())


class _Signatures:
    """Gives the functions of a module other parameters, callees before their callers.

    So a call is inferred by what its callee is, and not by what it was. A function that calls itself is known to these calls by a result
    that is assumed: what one of the branches gives that do not call it, or its former result. It is accepted where the function then
    gives what was assumed. Functions that call each other know the one that is entered first by its former result;
    :func:`change_signatures` infers them again.
    """

    def __init__(self, mod: IRModule, sinfo_func: Callable[[Var], StructInfo | None]) -> None:
        self._mod = mod
        self._by_name = {var.name_hint: var for var in mod.functions}
        self._infos = {
            var: [sinfo_func(param) or param.struct_info_ for param in func.params]
            for var, func in mod.functions.items()
            if isinstance(func, Function)
        }
        self._references: dict[GlobalVar, GlobalVar] = {}
        """What callers call, of functions whose signature has changed."""
        self._changes: dict[GlobalVar, SignatureChange] = {}
        self._entered: set[GlobalVar] = set()

    def changes(self) -> dict[GlobalVar, SignatureChange]:
        """What becomes of the functions that are not what they were."""
        for var in self._infos:
            self._enter(var)
        return self._changes

    def _enter(self, var: GlobalVar) -> None:
        func = self._mod.functions[var]
        if var in self._entered or not isinstance(func, Function):
            return
        self._entered.add(var)
        infos = self._infos[var]
        has_others = any(info != param.struct_info_ for info, param in zip(infos, func.params, strict=True))
        if has_others:
            self._references[var] = GlobalVar(
                var.name_hint, FuncStructInfo(infos, func.ret_struct_info, func.is_pure)
            )
        named = [self._by_name.get(item.name_hint) for item in all_global_vars(func.body)]
        callees = [callee for callee in named if callee is not None]
        for callee in callees:
            self._enter(callee)
        if not has_others and not any(callee in self._references for callee in callees):
            return
        new = self._updated_recursive(var, func, infos) if var in callees else self._updated(func, infos)
        self._changes[var] = SignatureChange(new)
        self._references[var] = reference_to(var.name_hint, new)

    def _updated_recursive(self, var: GlobalVar, func: Function, infos: Sequence[StructInfo]) -> Function:
        """The function with other parameters, its own calls inferred by the first assumed result that proves right.

        Raises:
            IRError: no assumption fits the body; the error is that of the first one.
        """
        refused: IRError | None = None
        joined: Function | None = None
        for result in [*self._results_without_calls(var, func, infos), func.ret_struct_info]:
            self._references[var] = GlobalVar(var.name_hint, FuncStructInfo(infos, result, func.is_pure))
            try:
                new = self._updated(func, infos)
            except IRError as error:
                refused = refused or error
                continue
            if new.ret_struct_info == result:
                return new
            joined = new
        if joined is None:
            assert refused is not None
            raise refused
        return joined

    def _results_without_calls(
        self, var: GlobalVar, func: Function, infos: Sequence[StructInfo]
    ) -> list[StructInfo]:
        """What the branches of a function give that do not call it, without those that mention what only the body defines."""
        mutator, params = self._prepared(func, infos)
        mutator.own = var
        try:
            mutator.visit_with_new_scope(func.body, tuple(params))
        except IRError:
            pass  # by its former result the function does not fit; what was found before counts
        known = set(tir_vars_in(TupleStructInfo(infos)))
        return [info for info in dict.fromkeys(mutator.results) if known.issuperset(tir_vars_in(info))]

    def _updated(self, func: Function, infos: Sequence[StructInfo]) -> Function:
        """The function with other parameters; every value that used one is inferred again where it is bound."""
        mutator, params = self._prepared(func, infos)
        body = mutator.visit_with_new_scope(func.body, tuple(params))
        return Function(params, body, None, func.is_pure, func.attrs, func.span)

    def _prepared(self, func: Function, infos: Sequence[StructInfo]) -> tuple[_Inferred, list[Var]]:
        """What infers the body of a function again, and the parameters that it knows."""
        mutator = _Inferred(self._mod, {var.name_hint: new for var, new in self._references.items()})
        params: list[Var] = []
        for param, info in zip(func.params, infos, strict=True):
            params.append(param if info is param.struct_info_ else mutator.with_struct_info(param, info))
            mutator.set_var_remap(param.vid, params[-1])
        return mutator, params


class _Inferred(ReferenceMutator):
    """Infers a body again; notes what the branches give that do not refer to the function ``own``."""

    def __init__(self, mod: IRModule, references: Mapping[str, GlobalVar]) -> None:
        super().__init__(mod, references)
        self.own: GlobalVar | None = None
        self.results: list[StructInfo] = []

    def visit_if_(self, expr: Any) -> Any:
        """The branches that end a recursion first: the others may not fit the result that is assumed meanwhile."""
        for branch in (expr.true_branch, expr.false_branch):
            if self.own is not None and all(
                item.name_hint != self.own.name_hint for item in all_global_vars(branch)
            ):
                self.results.append(self.visit_with_new_scope(branch).struct_info)
        return super().visit_if_(expr)

"""UpdateParamStructInfo: give parameters other struct infos, and infer everything behind them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from ...error import IRError
from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..analysis.binding import all_global_vars
from ..analysis.recursion_groups import recursion_groups
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

    So a call is inferred by what its callee is, and not by what it was. Functions that call themselves or each other are known to these
    calls by results that are assumed: what one of the branches gives that does not call them, or their former results. They are accepted
    where each then gives what was assumed.
    """

    def __init__(self, mod: IRModule, sinfo_func: Callable[[Var], StructInfo | None]) -> None:
        self._mod = mod
        self._functions = {var: func for var, func in mod.functions.items() if isinstance(func, Function)}
        self._infos = {
            var: [sinfo_func(param) or param.struct_info_ for param in func.params]
            for var, func in self._functions.items()
        }
        by_name = {var.name_hint: var for var in self._functions}
        self._callees = {
            var: [by_name[item.name_hint] for item in all_global_vars(func.body) if item.name_hint in by_name]
            for var, func in self._functions.items()
        }
        self._references: dict[GlobalVar, GlobalVar] = {}
        """What callers call, of functions whose signature has changed."""
        self._changes: dict[GlobalVar, SignatureChange] = {}

    def changes(self) -> dict[GlobalVar, SignatureChange]:
        """What becomes of the functions that are not what they were."""
        for group in recursion_groups(self._callees):
            self._change(group)
        return self._changes

    def _change(self, group: Sequence[GlobalVar]) -> None:
        callees = {callee for var in group for callee in self._callees[var]}
        if not any(map(self._has_other_parameters, group)) and callees.isdisjoint(self._references):
            return
        is_recursive = not callees.isdisjoint(group)
        functions = self._updated_together(group) if is_recursive else {group[0]: self._updated(group[0])}
        for var, new in functions.items():
            self._changes[var] = SignatureChange(new)
            self._references[var] = reference_to(var.name_hint, new)

    def _has_other_parameters(self, var: GlobalVar) -> bool:
        params = self._functions[var].params
        return any(info != param.struct_info_ for info, param in zip(self._infos[var], params, strict=True))

    def _updated_together(self, group: Sequence[GlobalVar]) -> dict[GlobalVar, Function]:
        """Functions that call each other, their calls inferred by the first assumed results that prove right.

        Raises:
            IRError: no assumption fits the bodies; the error is that of the first one.
        """
        refused: IRError | None = None
        joined: dict[GlobalVar, Function] | None = None
        for results in self._assumptions(group):
            self._assume(results)
            try:
                functions = {var: self._updated(var) for var in group}
            except IRError as error:
                refused = refused or error
                continue
            if all(functions[var].ret_struct_info == result for var, result in results.items()):
                return functions
            joined = functions
        if joined is None:
            assert refused is not None
            raise refused
        return joined

    def _assumptions(self, group: Sequence[GlobalVar]) -> Iterator[dict[GlobalVar, StructInfo | None]]:
        """Results that may prove right, the likely ones first."""
        candidates = self._candidates(group)
        for index in range(max(map(len, candidates.values()), default=0)):
            yield self._former_results(group) | {
                var: results[min(index, len(results) - 1)] for var, results in candidates.items()
            }
        yield self._former_results(group)

    def _former_results(self, group: Sequence[GlobalVar]) -> dict[GlobalVar, StructInfo | None]:
        return {var: self._functions[var].ret_struct_info for var in group}

    def _assume(self, results: Mapping[GlobalVar, StructInfo | None]) -> None:
        for var, result in results.items():
            signature = FuncStructInfo(self._infos[var], result, self._functions[var].is_pure)
            self._references[var] = GlobalVar(var.name_hint, signature)

    def _candidates(self, group: Sequence[GlobalVar]) -> dict[GlobalVar, list[StructInfo]]:
        """What the functions may give, of those where that is to be seen; each one that is known tells more of those that call it."""
        found: dict[GlobalVar, list[StructInfo]] = {}
        unknown = set(group)
        self._assume(self._former_results(group))
        while unknown:
            seen = {var: self._results_without(var, unknown) for var in group if var in unknown}
            seen = {var: results for var, results in seen.items() if results}
            if not seen:
                break
            found |= seen
            unknown -= seen.keys()
            self._assume({var: results[0] for var, results in seen.items()})
        return found

    def _results_without(self, var: GlobalVar, unknown: Set[GlobalVar]) -> list[StructInfo]:
        """What a function gives, or its branches do that call nothing unknown, in terms of what its parameters define."""
        mutator, params = self._prepared(var)
        mutator.unknown = frozenset(item.name_hint for item in unknown)
        try:
            body = mutator.visit_with_new_scope(self._functions[var].body, tuple(params))
        except IRError:
            pass  # by former results the function does not fit; what was found before counts
        else:
            if unknown.isdisjoint(self._callees[var]):
                mutator.results = [body.struct_info]
        known = set(tir_vars_in(TupleStructInfo(self._infos[var])))
        return [info for info in dict.fromkeys(mutator.results) if known.issuperset(tir_vars_in(info))]

    def _updated(self, var: GlobalVar) -> Function:
        """The function with other parameters; every value that used one is inferred again where it is bound."""
        func = self._functions[var]
        mutator, params = self._prepared(var)
        body = mutator.visit_with_new_scope(func.body, tuple(params))
        return Function(params, body, None, func.is_pure, func.attrs, func.span)

    def _prepared(self, var: GlobalVar) -> tuple[_Inferred, list[Var]]:
        """What infers the body of a function again, and the parameters that it knows."""
        mutator = _Inferred(self._mod, {var.name_hint: new for var, new in self._references.items()})
        params: list[Var] = []
        for param, info in zip(self._functions[var].params, self._infos[var], strict=True):
            params.append(param if info is param.struct_info_ else mutator.with_struct_info(param, info))
            mutator.set_var_remap(param.vid, params[-1])
        return mutator, params


class _Inferred(ReferenceMutator):
    """Infers a body again; notes what the branches give that do not refer to functions that are ``unknown``, given by name."""

    def __init__(self, mod: IRModule, references: Mapping[str, GlobalVar]) -> None:
        super().__init__(mod, references)
        self.unknown: frozenset[str] = frozenset()
        self.results: list[StructInfo] = []

    def visit_if_(self, expr: Any) -> Any:
        """The branches that end a recursion first: the others may not fit the result that is assumed meanwhile."""
        for branch in (expr.true_branch, expr.false_branch):
            if self.unknown and self.unknown.isdisjoint(item.name_hint for item in all_global_vars(branch)):
                self.results.append(self.visit_with_new_scope(branch).struct_info)
        return super().visit_if_(expr)

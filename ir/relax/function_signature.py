"""Changing functions of a module together with everything that refers to them: their GlobalVars and all their calls.

A pass that gives a function other parameters, another result or another name says for each function what it becomes and what
becomes of a call; :func:`change_signatures` does the rest, so that no caller is left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..error import IRValueError
from ..expr import GlobalVar
from ..function import BaseFunc
from ..module import IRModule
from ..tir.function import PrimFunc
from .block_builder import BlockBuilder
from .expr import Call, Expr, Id, Tuple, TupleGetItem, Var, is_call_to
from .expr_functor import ExprMutator
from .function import Function
from .function_names import is_entry, references_renamed
from .struct_info import FuncStructInfo, StructInfo, TupleStructInfo, callee_struct_info
from .struct_info_lattice import contradicts, derive_call_ret_struct_info

MapCall = Callable[[BlockBuilder, Call], Expr]
"""What replaces a call; may emit bindings before it.

The call has the new callee and rewritten arguments, and as struct info what the old function returned.
"""

_CALLS_OF_KERNELS = (
    "relax.call_tir",
    "relax.call_tir_inplace",
    "relax.call_tir_with_grad",
    "relax.vm.call_tir_dyn",
)
"""Operators whose first argument is the function that they call."""


@dataclass(frozen=True)
class SignatureChange:
    """What becomes of a function and of its calls.

    Attributes:
        function: the new function.
        map_call: what replaces each call; None leaves the arguments as they are.
        kept_fields: the fields of the former result, a tuple, that the new one returns (one alone is returned by itself). Callers
            that read a field read it where it is now; none may read another.
        name: the function's new name, None keeps it.
    """

    function: BaseFunc
    map_call: MapCall | None = None
    kept_fields: Sequence[int] | None = None
    name: str | None = None


def change_signatures(mod: IRModule, changes: Mapping[GlobalVar, SignatureChange]) -> IRModule:
    """The module with functions replaced and all their callers mended.

    Functions get new references. What a caller returns is inferred again; where that changes the caller's own signature, its
    callers follow.

    Raises:
        IRValueError: a function whose calls have to change is used as a value, so that not all of its calls are known.
    """
    while changes:
        references: dict[str, GlobalVar] = {}
        renamed: dict[GlobalVar, GlobalVar] = {}
        functions: dict[GlobalVar, BaseFunc] = {}
        for var, func in mod.functions.items():
            change = changes.get(var)
            if change is None:
                functions[var] = func
                continue
            new = reference_to(change.name or var.name_hint, change.function)
            references[var.name_hint] = new
            functions[new] = change.function
            if new.name_hint != var.name_hint:
                renamed[var] = new
        if renamed:
            functions = {
                var: references_renamed(func, renamed) if isinstance(func, PrimFunc) else func
                for var, func in functions.items()
            }
        before = mod.replace(functions=functions)
        calls = {var.name_hint: change.map_call for var, change in changes.items() if change.map_call}
        fields = {
            var.name_hint: change.kept_fields
            for var, change in changes.items()
            if change.kept_fields is not None
        }
        mod = _CallMapper(before, references, calls, fields).rewrite_module(before)
        changes = {
            var: SignatureChange(func)
            for var, func in mod.functions.items()
            if isinstance(func, Function)
            and (old := before.functions.get(var)) is not func
            and old is not None
            and func.struct_info_ != old.struct_info_  # type: ignore[attr-defined]
        }
    return mod


def replace_calls(mod: IRModule, calls: Mapping[str, MapCall]) -> IRModule:
    """The module with all calls of some functions, given by name, replaced; the functions stay (or are gone already)."""
    if not calls:
        return mod
    return _CallMapper(mod, {}, calls, {}).rewrite_module(mod)


def reference_to(name: str, func: BaseFunc) -> GlobalVar:
    """A new reference to a function."""
    return GlobalVar(name, callee_struct_info(func))


def private_functions(mod: IRModule) -> dict[GlobalVar, Function]:
    """Relax functions that only the module's own calls reach: private, and never used as a value."""
    private = {
        var: func
        for var, func in mod.functions.items()
        if isinstance(func, Function) and not is_entry(var, func)
    }
    used_as_value: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, GlobalVar):
            used_as_value.add(node.name_hint)
        elif isinstance(node, Call):
            for arg in node.args:
                visit(arg)
            if not isinstance(node.op, GlobalVar):
                visit(node.op)
        else:
            node._visit_children(visit)

    for func in mod.functions.values():
        if isinstance(func, Function):
            visit(func.body)
    return {var: func for var, func in private.items() if var.name_hint not in used_as_value}


class ReferenceMutator(ExprMutator):
    """Puts new references to functions in place of old ones, and lets what closures of them give follow.

    A call of a closure says itself what it gives. Where that contradicts what the function gives now, the call says the latter.

    Args:
        references: the new reference of each function that has one, by its old name.
    """

    def __init__(self, mod: IRModule, references: Mapping[str, GlobalVar]) -> None:
        super().__init__(mod)
        self._references = references
        self._closures: dict[Id, Call] = {}
        """The call of ``make_closure`` that made what a variable holds, by the variable's identity."""

    def visit_global_var_(self, var: Any) -> Any:
        """A function, called or as a value."""
        return self._references.get(var.name_hint, var)

    def visit_var_binding_(self, binding: Any) -> None:
        """Note which variables hold closures."""
        made = self._closures.get(binding.value.vid) if isinstance(binding.value, Var) else None
        if is_call_to(binding.value, "relax.make_closure"):
            made = binding.value
        if made is not None:
            self._closures[binding.var.vid] = made
        super().visit_var_binding_(binding)

    def visit_call_(self, call: Any) -> Any:
        """A call of a closure gives what its function gives now."""
        new = super().visit_call_(call)
        if not is_call_to(new, "relax.invoke_closure", "relax.invoke_pure_closure"):
            return new
        given = self._result_of_closure(call)
        said = new.sinfo_args[0] if len(new.sinfo_args) == 1 else TupleStructInfo(new.sinfo_args)
        if given is None or not contradicts(given, said):
            return new
        return new.replace(sinfo_args=(given,), struct_info_=None)

    def _result_of_closure(self, call: Call) -> StructInfo | None:
        """What a call of a closure gives, if it is known what the closure is of."""
        closure, given = call.args
        made = self._closures.get(closure.vid) if isinstance(closure, Var) else None
        if made is None or not isinstance(given, Tuple) or not isinstance(made.args[1], Tuple):
            return None
        function = self.visit_expr(made.args[0])
        signature = function.struct_info_
        if not isinstance(function, GlobalVar) or not isinstance(signature, FuncStructInfo):
            return None
        operands = [self.visit_expr(item) for item in (*made.args[1].fields, *given.fields)]
        return derive_call_ret_struct_info(signature, Call(function, operands), self.builder_)


class _CallMapper(ReferenceMutator):
    """Puts new references in place of old ones and maps calls.

    Args:
        references: as of the base.
        calls: what becomes of calls, by the function's name.
        kept_fields: the fields of results that are still there, by the function's name.
    """

    def __init__(
        self,
        mod: IRModule,
        references: Mapping[str, GlobalVar],
        calls: Mapping[str, MapCall],
        kept_fields: Mapping[str, Sequence[int]],
    ) -> None:
        super().__init__(mod, references)
        self._calls = calls
        self._kept_fields = kept_fields
        self._results: dict[Id, Sequence[int]] = {}
        """The fields that are left of the results that variables are bound to."""

    def visit_global_var_(self, var: Any) -> Any:
        """A function as a value."""
        if var.name_hint in self._calls:
            raise IRValueError(
                f"the signature of {var.name_hint} cannot change: the function is used as a value, which may be called anywhere"
            )
        return super().visit_global_var_(var)

    def visit_call_(self, call: Any) -> Any:
        """A call of a changed function becomes what its change says."""
        callee = called_function(call)
        if callee is None:
            return super().visit_call_(call)
        name = callee.name_hint
        new = self._references.get(name, callee)
        make = self._calls.get(name)
        if make is None and new is callee:
            return super().visit_call_(call)
        operands = call.args if call.op is callee else call.args[1:]
        args = self._map(operands, self.visit_expr)
        sinfo_args = self._map(call.sinfo_args, self.visit_struct_info)
        op, args = (new, args) if call.op is callee else (call.op, (new, *args))
        mapped: Expr = Call(op, args, call.attrs, sinfo_args, call.span, call.struct_info_)
        if make is not None:
            mapped = make(self.builder_, mapped)  # type: ignore[arg-type]
        if isinstance(mapped, Call) and mapped.op is new is not callee:
            return mapped.replace(struct_info_=None)  # what the new function returns is inferred
        return mapped

    def visit_var_binding_(self, binding: Any) -> None:
        """Note what has fewer fields now."""
        if isinstance(binding.value, Call) and isinstance(binding.value.op, GlobalVar):
            kept = self._kept_fields.get(binding.value.op.name_hint)
            if kept is not None:
                self._results[binding.var.vid] = kept
        super().visit_var_binding_(binding)

    def visit_tuple_getitem_(self, expr: Any) -> Any:
        """A field is read where it is now."""
        kept = self._results.get(expr.tuple_value.vid) if isinstance(expr.tuple_value, Var) else None
        if kept is None:
            return super().visit_tuple_getitem_(expr)
        source = self.visit_expr(expr.tuple_value)
        return source if len(kept) == 1 else TupleGetItem(source, list(kept).index(expr.index))


def called_function(call: Call) -> GlobalVar | None:
    """The module's function that a call calls, directly or as the kernel of a ``call_tir``."""
    callee = call.op
    if not isinstance(callee, GlobalVar) and call.args and is_call_to(call, *_CALLS_OF_KERNELS):
        callee = call.args[0]
    return callee if isinstance(callee, GlobalVar) else None


__all__ = [
    "MapCall",
    "ReferenceMutator",
    "SignatureChange",
    "called_function",
    "change_signatures",
    "private_functions",
    "reference_to",
    "replace_calls",
]

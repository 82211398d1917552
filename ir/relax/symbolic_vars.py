"""Symbolic shape variables: which ones struct infos and functions mention, define, or leave free."""

from __future__ import annotations

from typing import Any

from ..node import Visitor
from ..tir.expr import IntImm, PrimExpr
from ..tir.expr import Var as TirVar
from .struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)


class _TirVars(Visitor):
    """TIR variables in order of appearance; those that a signature within defines are its own."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[TirVar, None] = {}

    def visit_Var(self, var: Any) -> None:
        if isinstance(var, TirVar):
            self.found.setdefault(var)
        elif isinstance(var.struct_info_, ShapeStructInfo):
            self.visit(var.struct_info_)

    def visit_FuncStructInfo(self, info: FuncStructInfo) -> None:
        inner = _TirVars()
        inner.generic_visit(info)
        own = {var for param in info.params or () for var in definable_tir_vars_in_struct_info(param)}
        for var in inner.found:
            if var not in own:
                self.found.setdefault(var)


def tir_vars_in(node: Any) -> list[TirVar]:
    """The TIR variables in a struct info or an expression, in order of appearance, each once."""
    visitor = _TirVars()
    visitor.visit(node)
    return list(visitor.found)


def tir_vars_in_struct_info(sinfo: StructInfo) -> list[TirVar]:
    """The symbolic variables that a struct info mentions, in order of appearance, each once."""
    return tir_vars_in(sinfo)


def _dims_of(sinfo: StructInfo) -> list[PrimExpr]:
    if isinstance(sinfo, TensorStructInfo):
        return list(sinfo.shape_values or ())
    if isinstance(sinfo, ShapeStructInfo):
        return list(sinfo.values or ())
    if isinstance(sinfo, PrimStructInfo):
        return [] if sinfo.value is None else [sinfo.value]
    if isinstance(sinfo, TupleStructInfo):
        return [dim for item in sinfo.fields for dim in _dims_of(item)]
    return []


def definable_tir_vars_in_struct_info(sinfo: StructInfo) -> list[TirVar]:
    """The symbolic variables that a value of this struct info defines: those that are an extent by themselves."""
    return list(dict.fromkeys(dim for dim in _dims_of(sinfo) if isinstance(dim, TirVar)))


class _Symbolic(Visitor):
    """Definitions and uses of symbolic variables in a function or block of bindings."""

    def __init__(self) -> None:
        super().__init__()
        self.defined: dict[TirVar, None] = {}
        self.free: dict[TirVar, None] = {}

    def _use(self, node: Any) -> None:
        for var in tir_vars_in(node):
            if var not in self.defined:
                self.free.setdefault(var)

    def _define(self, info: StructInfo) -> None:
        for var in definable_tir_vars_in_struct_info(info):
            if var not in self.free:
                self.defined.setdefault(var)

    def visit_Var(self, var: Any) -> None:
        if isinstance(var, TirVar):
            self._use(var)

    def visit_StructInfo(self, info: StructInfo) -> None:
        self._use(info)

    def visit_Function(self, func: Any) -> None:
        for param in func.params:
            self._define(param.struct_info)
        for param in func.params:
            self._use(param.struct_info)
        self.visit(func.body)
        if func.ret_struct_info is not None:
            self._use(func.ret_struct_info)

    def visit_VarBinding(self, binding: Any) -> None:
        self.visit(binding.value)
        if binding.var.struct_info_ is not None:
            self._use(binding.var.struct_info_)

    def visit_MatchCast(self, binding: Any) -> None:
        self.visit(binding.value)
        self._define(binding.struct_info)
        self._use(binding.struct_info)

    def visit_PrimFunc(self, func: Any) -> None:
        """A TIR function's variables are its own."""


def defined_symbolic_vars(func: Any) -> list[TirVar]:
    """The symbolic variables that a function's parameters and match casts define."""
    visitor = _Symbolic()
    visitor.visit(func)
    return list(visitor.defined)


def free_symbolic_vars(func: Any) -> list[TirVar]:
    """The symbolic variables that a function uses without defining them."""
    visitor = _Symbolic()
    visitor.visit(func)
    return list(visitor.free)


def collect_non_negative_expressions(sinfo: StructInfo) -> list[PrimExpr]:
    """The expressions in a struct info that are at least zero because they are extents; scalars do not count."""
    found: list[PrimExpr] = []
    seen: set[Any] = set()

    def collect(info: StructInfo) -> None:
        if isinstance(info, TupleStructInfo):
            for item in info.fields:
                collect(item)
        elif not isinstance(info, PrimStructInfo):
            for dim in _dims_of(info):
                if not isinstance(dim, IntImm) and id(dim) not in seen:
                    seen.add(id(dim))
                    found.append(dim)

    collect(sinfo)
    return found

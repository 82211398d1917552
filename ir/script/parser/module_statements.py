"""How modules are read: a class of functions, in two rounds, so that functions can refer to each other."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ...error import IRError
from ...expr import GlobalVar
from ...function import BaseFunc
from ...global_info import VDevice
from ...module import IRModule
from ...relax.expr import update_struct_info
from ...relax.struct_info import FuncStructInfo, TupleStructInfo
from ...tir.function import PrimFunc
from .core import CALL_HOOKS, Parser, statement
from .relax_statements import builder_of, call_global, declare_function, relax_function
from .struct_info import VDEVICE_LOOKUP
from .tir_statements import annotation_type, call_function, prim_func


class ModuleReference:
    """The module being read, as its functions see it: ``cls.f`` and ``Module.f`` are references."""

    def __init__(self, name: str, functions: dict[str, GlobalVar]) -> None:
        self._name, self._functions = name, functions

    def __getattr__(self, name: str) -> GlobalVar:
        found = self.__dict__["_functions"].get(name)
        if found is None:
            known = ", ".join(sorted(self.__dict__["_functions"]))
            raise AttributeError(
                f"module {self.__dict__['_name']} has no function {name!r}; it has: {known or 'none'}"
            )
        return found

    def __getitem__(self, name: str) -> GlobalVar:
        return getattr(self, name)


def read_function(
    parser: Parser, node: ast.FunctionDef, dialect: str, check: bool, options: dict[str, Any]
) -> Any:
    """Read one function that stands alone."""
    if dialect == "tir":
        func: Any = prim_func(parser, node, bool(options.get("private")))
    elif dialect == "relax":
        func = relax_function(parser, node, bool(options.get("private")), bool(options.get("pure", True)))
    else:
        raise parser.error(node, f"unknown dialect {dialect!r}; expected T.prim_func or R.function")
    if check:
        name = func.attrs.get("global_symbol") or node.name
        _verify(parser, node, IRModule({str(name): func}))
    return func


def read_module(parser: Parser, node: ast.ClassDef, check: bool) -> IRModule:
    """Read a class as an IRModule."""
    from .entry import function_decorator

    module = IRModule()
    functions: dict[str, GlobalVar] = {}
    reference = ModuleReference(node.name, functions)
    parser.set(node.name, reference)
    parser.set("cls", reference)
    builder_of(parser)._mod = module
    parser.module = module
    VDEVICE_LOOKUP.append(lambda text: _module_vdevice(module, text))
    try:
        with parser.scope("ir"):
            found: list[tuple[ast.FunctionDef, str, dict[str, Any], GlobalVar]] = []
            for item in node.body:  # devices and attributes first: signatures refer to them
                if not isinstance(item, ast.FunctionDef):
                    parser.stmt(item)
            for name, func in module.functions.items():
                functions[name.name_hint] = name
                parser.set(name.name_hint, name)
                del func
            for item in node.body:
                if isinstance(item, ast.FunctionDef):
                    if item.name in functions:
                        raise parser.error(item, f"module {node.name} has two functions {item.name!r}")
                    dialect, options = function_decorator(parser, item)
                    if dialect is None:
                        raise parser.error(
                            item, f"function {item.name!r} needs the decorator T.prim_func or R.function"
                        )
                    var = functions[item.name] = GlobalVar(item.name)
                    found.append((item, dialect, options, var))
            for item, dialect, options, var in found:
                _declare(parser, item, dialect, options, var)
            for item, _dialect, _options, var in found:
                if parser.lookup(item.name, None) is None:
                    parser.set(item.name, var)
            for item, dialect, options, var in found:
                func = read_function(parser, item, dialect, False, options)
                module.functions[var] = func
                if dialect == "relax":
                    update_struct_info(var, func.struct_info)
    finally:
        VDEVICE_LOOKUP.pop()
    if check:
        _verify(parser, node, module)
    return module


def _declare(
    parser: Parser, node: ast.FunctionDef, dialect: str, options: dict[str, Any], var: GlobalVar
) -> None:
    if dialect == "relax":
        update_struct_info(var, declare_function(parser, node, bool(options.get("pure", True))))
        return
    update_struct_info(var, FuncStructInfo.opaque_func(ret=TupleStructInfo(())))
    if node.returns is not None:
        with parser.at(node.returns):
            parser.functions[var] = annotation_type(parser.eval(node.returns))


def _module_vdevice(module: IRModule, text: str) -> VDevice:
    """A device by ``"kind:index:scope"``; without one in the module, a new device."""
    kind, _, rest = text.partition(":")
    index, _, scope = rest.partition(":")
    number = int(index or 0)
    same_kind = [
        item
        for item in module.global_infos.get("vdevice", ())
        if isinstance(item, VDevice) and item.target_kind == kind
    ]
    for item in same_kind[number : number + 1]:
        if not scope or item.memory_scope == scope:
            return item
    return VDevice(kind, number, scope or "global")


def _verify(parser: Parser, node: Any, module: IRModule) -> None:
    """Check the program as a whole; a violation is reported at the function or class."""
    for check in _checks():
        try:
            check(module)
        except IRError as error:
            raise parser.error(node, f"the program is not well-formed: {error}") from error


def _checks() -> list[Callable[[IRModule], Any]]:
    from ...relax import analysis as relax_analysis
    from ...tir import analysis as tir_analysis

    found: list[Callable[[IRModule], Any]] = []
    relax_check = getattr(relax_analysis, "check_well_formed", None)
    if relax_check is not None:
        found.append(relax_check)
    tir_check = getattr(tir_analysis, "verify_well_formed", None)
    if tir_check is not None:

        def check_tir(module: IRModule) -> None:
            for func in module.functions.values():
                if isinstance(func, PrimFunc):
                    tir_check(func)

        found.append(check_tir)
    return found


# ---- statements of a module --------------------------------------------------------------------------------------


@statement("ir", ast.Expr)
def _expr(parser: Parser, node: ast.Expr) -> None:
    value = parser.eval(node.value)
    if value is not None and not isinstance(value, str):
        raise parser.error(node, f"a {type(value).__name__} is no statement of a module")


@statement("ir", ast.Pass)
def _pass(parser: Parser, node: ast.Pass) -> None:
    return None


@statement("ir", ast.Assign)
def _assign(parser: Parser, node: ast.Assign) -> None:
    target = node.targets[0]
    if len(node.targets) != 1 or not isinstance(target, ast.Name):
        raise parser.error(node, "a module binds one name at a time")
    value = parser.eval(node.value)
    if isinstance(value, BaseFunc):
        var = GlobalVar(target.id, getattr(value, "struct_info_", None))
        parser.module.functions[var] = value
    else:
        parser.set(target.id, value)


@statement("ir", ast.AnnAssign)
def _ann_assign(parser: Parser, node: ast.AnnAssign) -> None:
    if node.value is None or not isinstance(node.target, ast.Name):
        raise parser.error(node, "a module binds names to values")
    parser.set(node.target.id, parser.eval(node.value))


def module_of(parser: Any) -> IRModule:
    """The module being read."""
    module = getattr(parser, "module", None)
    if module is None:
        raise IRError("this belongs into a class that I.ir_module decorates")
    return module


# ---- calls -------------------------------------------------------------------------------------------------------


def _call_global_var(
    parser: Parser, node: ast.Call, var: GlobalVar, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    if kwargs:
        raise parser.error(
            node, f"call of {var.name_hint}: functions of a module take positional arguments only"
        )
    if parser.dialect == "tir":
        return call_function(parser, node, var, args, kwargs)
    return call_global(parser, var, args)


CALL_HOOKS[GlobalVar] = _call_global_var

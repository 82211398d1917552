"""How modules are read: a class of functions, in two rounds, so that functions can refer to each other."""

from __future__ import annotations

import ast
from types import FrameType
from typing import Any

from ...error import IRError
from ...expr import GlobalVar
from ...function import BaseFunc
from ...global_info import VDevice
from ...module import IRModule
from ...relax.expr import update_struct_info
from ...relax.struct_info import callee_struct_info
from ..ir_builder.core import IRBuilder
from .core import Parser, statement
from .decorated import enclosing
from .functions import function_decorator, read_function, verify
from .relax_statements import builder_of, declare_function
from .source import source_of_class
from .struct_info import VDEVICE_LOOKUP
from .tir_statements import annotation_type


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


def read_module(parser: Parser, node: ast.ClassDef, check: bool) -> IRModule:
    """Read a class as an IRModule."""
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
            # kernels first: what a call of one returns, and whether it has effects, is known from its body
            for item, dialect, options, var in sorted(found, key=lambda entry: entry[1] == "relax"):
                func = read_function(parser, item, dialect, False, options)
                module.functions[var] = func
                update_struct_info(var, callee_struct_info(func))
            for *_, var in found:
                module.functions[var] = module.functions.pop(var)  # in the order of the text
    finally:
        VDEVICE_LOOKUP.pop()
    if check:
        verify(parser, node, module)
    return module


def parse_class(cls: type, frame: FrameType, check_well_formed: bool = True) -> Any:
    """Read a class as an IRModule."""
    source = source_of_class(cls, frame.f_code.co_filename, frame.f_lineno)
    captured: dict[str, Any] = {}
    for value in vars(cls).values():
        if hasattr(value, "__code__"):
            captured.update(enclosing(value, frame)[0])
    node = source.body[0]
    parser = Parser(source, [captured, dict(frame.f_locals), frame.f_globals])
    if not isinstance(node, ast.ClassDef):
        raise parser.error(node, "expected a class definition")
    with IRBuilder():
        return read_module(parser, node, check_well_formed)


def _declare(
    parser: Parser, node: ast.FunctionDef, dialect: str, options: dict[str, Any], var: GlobalVar
) -> None:
    if dialect == "relax":
        update_struct_info(var, declare_function(parser, node, bool(options.get("pure", True))))
        return
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

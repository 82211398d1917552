"""The decorators of TIR: ``T.prim_func``, ``T.macro``, and ``T.meta_var``."""

from __future__ import annotations

import ast
import sys
from typing import Any

from ...error import IRValueError
from .decorated import enclosing, is_in_module, parse_function
from .evaluator import Evaluator
from .source import Source, source_of_function
from .tir_statements import MetaVar


def prim_func(func: Any = None, private: bool = False, check_well_formed: bool = True) -> Any:
    """Read a Python function as a PrimFunc.

    Args:
        func: the function, when used as ``@T.prim_func`` without arguments.
        private: the function gets no ``global_symbol``: nothing outside of its module can refer to it.
        check_well_formed: verify the function after reading it.

    Returns:
        The PrimFunc; inside a class that ``I.ir_module`` reads, the Python function itself.
    """
    frame = sys._getframe(1)

    def decorate(function: Any) -> Any:
        if is_in_module(function, frame):
            return function
        return parse_function(function, "tir", frame, check_well_formed=check_well_formed, private=private)

    if func is not None:
        return decorate(func)
    decorate.dispatch_token = "tir"  # type: ignore[attr-defined]
    decorate.options = {"private": private, "check_well_formed": check_well_formed}  # type: ignore[attr-defined]
    return decorate


prim_func.dispatch_token = "tir"  # type: ignore[attr-defined]
prim_func.options = {"private": False, "check_well_formed": True}  # type: ignore[attr-defined]


def meta_var(value: Any) -> Any:
    """Bind a Python value in a script as it is, rather than as a variable of the program."""
    return MetaVar(value)


class ScriptMacro:
    """A piece of script that is inserted where it is called; see :func:`macro`."""

    def __init__(
        self, name: str, source: Source, node: ast.FunctionDef, outer: Any, scopes: Any, hygienic: bool
    ) -> None:
        self.__name__ = name
        self._source, self._node = source, node
        self._outer, self._scopes = outer, scopes
        self.hygienic = hygienic

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method, the macro gets its object as first argument."""
        return self if instance is None else _BoundMacro(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise IRValueError(f"macro {self.__name__!r} can be called from a script only")

    def __script_call__(self, parser: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        arguments = self._bind(parser, node, args, kwargs)
        saved = parser.source, parser.scopes, parser.outer, parser.macro
        if self.hygienic:  # names mean what they mean where the macro was defined
            defined = Evaluator(self._source, self._outer)
            parser.outer = defined.outer
            parser.scopes = [*self._scopes, arguments]
        else:
            parser.scopes = [*parser.scopes, arguments]
        parser.source, parser.macro = self._source, self.__name__
        try:
            return self._insert(parser)
        finally:
            parser.source, parser.scopes, parser.outer, parser.macro = saved

    def _insert(self, parser: Any) -> Any:
        """Read the body in place; in Relax, where everything is an expression, it may end by returning a value."""
        body = self._node.body
        for position, stmt in enumerate(body):
            if isinstance(stmt, ast.Return) and parser.dialect == "relax":
                if position + 1 != len(body):
                    raise parser.error(stmt, f"macro {self.__name__!r}: return must be the last statement")
                return None if stmt.value is None else parser.eval(stmt.value)
            parser.stmt(stmt)
        return None

    def _bind(self, parser: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        params = self._node.args
        names = [item.arg for item in (*params.posonlyargs, *params.args)]
        found = dict(zip(names, args, strict=False))
        if params.vararg is not None:
            found[params.vararg.arg] = tuple(args[len(names) :])
        elif len(args) > len(names):
            raise parser.error(node, f"macro {self.__name__!r} takes {len(names)} arguments, got {len(args)}")
        allowed = {*names, *[item.arg for item in params.kwonlyargs]}
        for key, value in kwargs.items():
            if key not in allowed:
                raise parser.error(node, f"macro {self.__name__!r} has no parameter {key!r}")
            found[key] = value
        evaluator = Evaluator(self._source, self._outer)
        for name, default in zip(reversed(names), reversed(params.defaults), strict=False):
            if name not in found:
                found[name] = evaluator.eval(default)
        for item, given in zip(params.kwonlyargs, params.kw_defaults, strict=True):
            if item.arg not in found and given is not None:
                found[item.arg] = evaluator.eval(given)
        missing = [name for name in allowed if name not in found]
        if missing:
            raise parser.error(node, f"macro {self.__name__!r}: argument {sorted(missing)[0]!r} is missing")
        return found


class _BoundMacro:
    """A macro that is a method of an object."""

    def __init__(self, function: ScriptMacro, instance: Any) -> None:
        self._function, self._instance = function, instance

    def __script_call__(self, parser: Any, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return self._function.__script_call__(parser, node, [self._instance, *args], kwargs)


def macro(*args: Any, hygienic: bool = True) -> Any:
    """Make a function a macro: calling it in a script inserts its statements there.

    Args:
        hygienic: names in the macro are looked up where it is defined; otherwise where it is called.
    """
    frame = sys._getframe(1)

    def decorate(function: Any) -> ScriptMacro:
        source = source_of_function(function)
        (node,) = source.body
        assert isinstance(node, ast.FunctionDef)
        return ScriptMacro(function.__name__, source, node, enclosing(function, frame), [], hygienic)

    if args and callable(args[0]):
        return decorate(args[0])

    def define(parser: Any, node: ast.FunctionDef) -> ScriptMacro:
        return ScriptMacro(node.name, parser.source, node, parser.outer[:-1], list(parser.scopes), hygienic)

    decorate.__script_define__ = define  # type: ignore[attr-defined]
    return decorate


def _define_hygienic(parser: Any, node: ast.FunctionDef) -> ScriptMacro:
    return ScriptMacro(node.name, parser.source, node, parser.outer[:-1], list(parser.scopes), True)


macro.__script_define__ = _define_hygienic  # type: ignore[attr-defined]

"""Functions of all dialects: which one a definition's decorator asks for, how it is read, and what is verified of the result."""

from __future__ import annotations

import ast
from typing import Any

from ...error import IRError
from ...module import IRModule
from ..ir_builder.core import IRBuilder
from .core import CHECKS, FUNCTIONS, Parser


def function_decorator(parser: Parser, node: ast.FunctionDef) -> tuple[str | None, dict[str, Any]]:
    """The dialect and the options that a function's decorators ask for."""
    for item in node.decorator_list:
        value = parser.eval(item)
        token = getattr(value, "dispatch_token", None)
        if token is not None:
            return token, dict(value.options)
    return None, {}


def read_function(
    parser: Parser, node: ast.FunctionDef, dialect: str, check: bool, options: dict[str, Any]
) -> Any:
    """Read one function that stands alone, or without checking one of a module."""
    read = FUNCTIONS.get(dialect)
    if read is None:
        raise parser.error(node, f"unknown dialect {dialect!r}; expected T.prim_func or R.function")
    seen: set[str] = set()
    for item in (*node.args.posonlyargs, *node.args.args):
        if item.arg in seen:
            raise parser.error(item, f"function {node.name!r} has two parameters {item.arg!r}")
        seen.add(item.arg)
    func = read(parser, node, options)
    if check:
        name = func.attrs.get("global_symbol") or node.name
        verify(parser, node, IRModule({str(name): func}))
    return func


def read_definition(parser: Parser, node: Any, dialect: str, check: bool, options: dict[str, Any]) -> Any:
    """Read the one function of a source, in a builder of its own."""
    if not isinstance(node, ast.FunctionDef):
        raise parser.error(node, "expected a function definition")
    with IRBuilder():
        return read_function(parser, node, dialect, check, options)


def verify(parser: Parser, node: Any, module: IRModule) -> None:
    """Check the program as a whole; a violation is reported at its statement, or else at the function or class."""
    for check in CHECKS:
        try:
            check(module)
        except IRError as error:
            place = IRBuilder.current().place_of(getattr(error, "statement", None))
            raise parser.error(place or node, f"the program is not well-formed: {error}") from error

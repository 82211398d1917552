"""How modules are read: a class of functions, in two rounds, so that functions can refer to each other."""

from __future__ import annotations

import ast
from typing import Any

from .core import Parser


def read_function(parser: Parser, node: ast.FunctionDef, dialect: str, check: bool, options: dict[str, Any]) -> Any:
    """Read one function that stands alone."""
    if dialect == "tir":
        from .tir import prim_func

        return prim_func(parser, node, bool(options.get("private")))
    raise parser.error(node, f"unknown dialect {dialect!r}")


def read_module(parser: Parser, node: ast.ClassDef, check: bool) -> Any:
    """Read a class as an IRModule."""
    raise parser.error(node, "modules are not read yet")

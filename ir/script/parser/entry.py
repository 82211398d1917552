"""Programs given as text, or as Python functions and classes that no decorator has read."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from typing import Any

from ...error import DiagnosticError
from ...tir.stmt import Stmt
from .. import ir as I
from .. import relax as R
from .. import tir as T
from ..ir_builder.core import Frame, IRBuilder
from ..ir_builder.tir_frames import PrimFuncFrame
from .core import Parser
from .functions import function_decorator, read_definition
from .module_statements import read_module
from .source import Source, source_of_function, source_of_text
from .tir_statements import bind


def from_source(
    program: Any,
    extra_vars: Mapping[str, Any] | None = None,
    check_well_formed: bool = True,
    filename: str = "<string>",
) -> Any:
    """Read a program from its text form.

    Args:
        program: the text of one module, function, statement list or expression; or a Python function or class that a
            decorator of a script would be applied to.
        extra_vars: names that the program may use beside I, T, R and ``metadata``.
        check_well_formed: verify the program after reading it.
        filename: what error messages call the text.

    Returns:
        An IRModule, a PrimFunc, a Relax function, a statement or an expression; of several definitions, the last.

    Raises:
        DiagnosticError: the text cannot be read; the message marks the place.
    """
    names = {**default_names(), **(extra_vars or {})}
    if not isinstance(program, str):
        return _from_object(program, names, check_well_formed)
    source = source_of_text(program, filename)
    parser = Parser(source, [names])
    found: Any = None
    statements: list[ast.stmt] = []
    for node in source.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found = _read_definition(parser, node, check_well_formed)
            parser.set(node.name, found)
        elif _is_metadata(node):
            parser.set("metadata", parser.eval(node.value))  # type: ignore[attr-defined]
        else:
            statements.append(node)
    if found is None:
        if not statements:
            raise DiagnosticError(
                f"{filename}:{len(source.lines)}:1: the text contains no program: expected a module, a function or a statement"
            )
        return _read_statements(parser, statements)
    if statements:
        raise parser.error(
            statements[0], "expected only definitions of modules and functions beside each other"
        )
    return found


parse = from_source


def _is_metadata(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "metadata"
    )


def default_names() -> dict[str, Any]:
    """The names that a program may use without importing them."""
    return {
        "I": I,
        "ir": sys.modules["ir"],  # the package that this one is in
        "T": T,
        "tir": T,
        "R": R,
        "relax": R,
    }


def _from_object(program: Any, names: dict[str, Any], check: bool) -> Any:
    if isinstance(program, type):
        lines, first = inspect.getsourcelines(program)
        source = Source("".join(lines).rstrip("\n"), inspect.getsourcefile(program) or "<string>", first)
        outer: list[Mapping[str, Any]] = [names, vars(sys.modules[program.__module__])]
    elif callable(program):
        source = source_of_function(program)
        closure = {
            name: cell.cell_contents
            for name, cell in zip(program.__code__.co_freevars, program.__closure__ or (), strict=False)  # type: ignore[attr-defined]
        }
        outer = [names, closure, program.__globals__]  # type: ignore[attr-defined]
    else:
        raise DiagnosticError(
            f"expected the text of a program, a function or a class, got {type(program).__name__}"
        )
    parser = Parser(source, outer)
    return _read_definition(parser, source.body[0], check)


def _read_definition(parser: Parser, node: Any, check: bool) -> Any:
    if isinstance(node, ast.ClassDef):
        with IRBuilder():
            return read_module(parser, node, check)
    dialect, options = function_decorator(parser, node)
    if dialect is None:
        raise parser.error(node, f"function {node.name!r} needs the decorator T.prim_func or R.function")
    return read_definition(parser, node, dialect, check and options.pop("check_well_formed", True), options)


def _read_statements(parser: Parser, nodes: list[ast.stmt]) -> Any:
    """Bare TIR: statements as one statement, or the value when the last line is an expression."""
    *front, final = nodes
    if isinstance(final, ast.Expr):
        with IRBuilder(), parser.scope("tir"):
            frame = PrimFuncFrame("main", True)
            frame.__enter__()
            for node in front:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    name = node.targets[0].id
                    parser.set(name, bind(parser, node, name, parser.eval(node.value)))
                else:
                    parser.stmt(node)
            if not frame.stmts and not frame.callbacks:
                value = parser.eval(final.value)
                if value is not None and not _opens(value):
                    return value
    with IRBuilder(), parser.scope("tir"):
        frame = PrimFuncFrame("main", True)
        frame.__enter__()
        parser.body(nodes)
        while frame.callbacks:
            frame.callbacks.pop()()
        return frame.body()


def _opens(value: Any) -> bool:
    return isinstance(value, Frame | Stmt)

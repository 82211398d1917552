"""Entry points of the parser: decorated functions and classes, and programs given as text."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping
from types import FrameType
from typing import Any

from ...error import DiagnosticError
from ..ir_builder.core import IRBuilder
from .core import Parser
from .source import Source, source_of_class, source_of_function, source_of_text


def _load_dialects() -> None:
    """Register how all dialects are read; done on first use."""
    from . import module_statements, relax_statements, tir_statements  # noqa: F401


def enclosing(func: Any, frame: FrameType) -> list[Mapping[str, Any]]:
    """The variables around a function: what it captured, the frame that defines it, and its globals."""
    captured: dict[str, Any] = {}
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=False):
        try:
            captured[name] = cell.cell_contents
        except ValueError:  # assigned only after the function is defined
            continue
    return [captured, dict(frame.f_locals), func.__globals__]


def is_in_module(func: Any, frame: FrameType) -> bool:
    """Whether a function is being defined in a class that ``I.ir_module`` will read as a whole."""
    parts = func.__qualname__.split(".")
    if len(parts) < 2 or parts[-2] == "<locals>" or frame.f_back is None:
        return False
    outer = frame.f_back
    lines = linecache.getlines(outer.f_code.co_filename)
    line = outer.f_lineno - 1
    if not 0 <= line < len(lines):
        return False
    # The class statement runs on its own line or on that of a decorator: look at the decorators around it.
    indent = _indent(lines[line])
    position = line
    while position >= 0 and _belongs_to_decorators(lines[position], indent):
        if lines[position].strip().startswith("@") and "ir_module" in lines[position]:
            return True
        position -= 1
    position = line + 1
    while position < len(lines) and not lines[position].strip().startswith("class "):
        if not _belongs_to_decorators(lines[position], indent):
            return False
        if lines[position].strip().startswith("@") and "ir_module" in lines[position]:
            return True
        position += 1
    return False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _belongs_to_decorators(line: str, indent: int) -> bool:
    """Whether a line is a decorator, a line that continues one, or the class statement itself."""
    text = line.strip()
    if not text:
        return False
    return _indent(line) > indent or (_indent(line) == indent and text.startswith(("@", "class ", ")")))


def parse_function(
    func: Any, dialect: str, frame: FrameType, check_well_formed: bool = True, **options: Any
) -> Any:
    """Read a Python function in a dialect."""
    _load_dialects()
    source = source_of_function(func)
    return _read_function(
        Parser(source, enclosing(func, frame)), source.body[0], dialect, check_well_formed, options
    )


def _read_function(parser: Parser, node: Any, dialect: str, check: bool, options: dict[str, Any]) -> Any:
    from .module_statements import read_function

    if not isinstance(node, ast.FunctionDef):
        raise parser.error(node, "expected a function definition")
    with IRBuilder():
        return read_function(parser, node, dialect, check, options)


def parse_class(cls: type, frame: FrameType, check_well_formed: bool = True) -> Any:
    """Read a class as an IRModule."""
    from .module_statements import read_module

    _load_dialects()
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
    _load_dialects()
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
            raise DiagnosticError(f"{filename} contains no program")
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
    import ir

    from .. import ir as I
    from .. import relax as R
    from .. import tir as T

    return {"I": I, "ir": ir, "T": T, "tir": T, "R": R, "relax": R}


def _from_object(program: Any, names: dict[str, Any], check: bool) -> Any:
    if isinstance(program, type):
        import inspect

        lines, first = inspect.getsourcelines(program)
        source = Source("".join(lines).rstrip("\n"), inspect.getsourcefile(program) or "<string>", first)
        outer: list[Mapping[str, Any]] = [names, vars(__import__("sys").modules[program.__module__])]
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
    from .module_statements import read_module

    if isinstance(node, ast.ClassDef):
        with IRBuilder():
            return read_module(parser, node, check)
    dialect, options = function_decorator(parser, node)
    if dialect is None:
        raise parser.error(node, f"function {node.name!r} needs the decorator T.prim_func or R.function")
    return _read_function(parser, node, dialect, check and options.pop("check_well_formed", True), options)


def function_decorator(parser: Parser, node: ast.FunctionDef) -> tuple[str | None, dict[str, Any]]:
    """The dialect and the options that a function's decorators ask for."""
    for item in node.decorator_list:
        value = parser.eval(item)
        token = getattr(value, "dispatch_token", None)
        if token is not None:
            return token, dict(value.options)
    return None, {}


def _read_statements(parser: Parser, nodes: list[ast.stmt]) -> Any:
    """Bare TIR: statements as one statement, or the value when the last line is an expression."""
    from ..ir_builder.tir_frames import PrimFuncFrame
    from .tir_statements import bind

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
    from ...tir.stmt import Stmt
    from ..ir_builder.core import Frame

    return isinstance(value, Frame | Stmt)

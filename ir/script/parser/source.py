"""The source text of what is parsed, its position in its file, and error messages that quote it."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from typing import Any

from ...error import DiagnosticError
from ...span import SourceName, Span


class Source:
    """A piece of Python source: its syntax tree and where it stands in its file.

    Args:
        text: the source, possibly indented.
        filename: what messages call it.
        first_line: the file's line of the text's first line.

    Raises:
        DiagnosticError: the text is not valid Python.
    """

    def __init__(self, text: str, filename: str = "<string>", first_line: int = 1) -> None:
        self.lines = text.split("\n")
        self.filename = filename
        self.first_line = first_line
        indented = text[:1] in (" ", "\t")
        self._offset = 1 if indented else 0
        code = "if True:\n" + text if indented else text  # keeps the columns of indented code
        try:
            tree = ast.parse(code, filename)
        except SyntaxError as error:
            line = (error.lineno or 1) - self._offset
            end = error.end_offset if error.end_lineno == error.lineno else None
            column = (error.offset or 1) - 1
            message = self._render(f"syntax error: {error.msg}", line, column, (end or column + 2) - 1)
            raise DiagnosticError(message) from None
        self.body: list[ast.stmt] = tree.body
        if indented and isinstance(tree.body[0], ast.If):
            self.body = tree.body[0].body

    def span(self, node: Any) -> Span:
        """The region of a syntax node."""
        shift = self.first_line - 1 - self._offset
        return Span(
            SourceName(self.filename),
            node.lineno + shift,
            (node.end_lineno or node.lineno) + shift,
            node.col_offset + 1,
            (node.end_col_offset or node.col_offset) + 1,
        )

    def error(self, node: Any, message: str) -> DiagnosticError:
        """An error at a syntax node, with its line marked."""
        line = node.lineno - self._offset
        start = self._column(line, node.col_offset)
        single = node.end_lineno == node.lineno
        end = self._column(line, node.end_col_offset) if single else len(self.lines[line - 1])
        return DiagnosticError(self._render(message, line, start, end))

    def _column(self, line: int, byte_offset: int) -> int:
        """Syntax trees count bytes; messages count characters."""
        text = self.lines[line - 1]
        return byte_offset if text.isascii() else len(text.encode()[:byte_offset].decode(errors="ignore"))

    def _render(self, message: str, line: int, start: int, end: int) -> str:
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        number = str(line + self.first_line - 1)
        pad = " " * len(number)
        mark = " " * start + "^" * max(1, end - start)
        return (
            f"error: {message}\n {pad}--> {self.filename}:{number}:{start + 1}\n"
            f" {pad} |\n {number} | {text}\n {pad} | {mark}"
        )


def source_of_function(func: Any) -> Source:
    """The source of a Python function with its decorators.

    Raises:
        DiagnosticError: there is no source, as for functions typed into an interpreter.
    """
    try:
        lines, first = inspect.getsourcelines(func)
    except (OSError, TypeError) as error:
        raise DiagnosticError(
            f"the source of {func.__qualname__!r} cannot be read ({error}); scripts must be in a file,"
            " or be parsed from text with ir.script.from_source"
        ) from error
    return Source("".join(lines).rstrip("\n"), inspect.getsourcefile(func) or "<string>", first)


def source_of_class(cls: type, filename: str, line: int) -> Source:
    """The source of a class whose decorator is on ``line`` of a file.

    Raises:
        DiagnosticError: there is no source.
    """
    lines = linecache.getlines(filename)
    start = line - 1
    while 0 < start < len(lines) and lines[start - 1].strip().startswith("@"):
        start -= 1
    if start < len(lines):
        try:
            block = inspect.getblock(lines[start:])
        except (SyntaxError, IndentationError):
            block = []
        if any(text.strip().startswith(f"class {cls.__name__}") for text in block):
            return Source("".join(block).rstrip("\n"), filename, start + 1)
    try:
        found, first = inspect.getsourcelines(cls)
    except (OSError, TypeError) as error:
        raise DiagnosticError(
            f"the source of class {cls.__qualname__!r} cannot be read ({error}); scripts must be in a file,"
            " or be parsed from text with ir.script.from_source"
        ) from error
    return Source("".join(found).rstrip("\n"), filename, first or 1)


def source_of_text(text: str, filename: str = "<string>") -> Source:
    """The source of a program given as text, whatever its indentation."""
    return Source(textwrap.dedent(text).strip("\n"), filename)

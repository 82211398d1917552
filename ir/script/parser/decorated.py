"""Functions that a decorator of a namespace is applied to: where they are, what surrounds them, and reading them."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from types import FrameType
from typing import Any

from .core import Parser
from .functions import read_definition
from .source import source_of_function


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
    source = source_of_function(func)
    return read_definition(
        Parser(source, enclosing(func, frame)), source.body[0], dialect, check_well_formed, options
    )

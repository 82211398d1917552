"""Marking parts of a printed program: underlines below nodes, comments beside them.

Marked text carries private-use characters while it is printed; the finished lines are cleared of them, and each is
followed by its underline.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...error import IRValueError
from .config import PrinterConfig
from .core import Printer, Text

_OPEN, _CLOSE, _NOTE = "\ue000", "\ue001", "\ue002"
_NOTES = re.compile(f"{_NOTE}(\\d+){_NOTE}")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[[\"']([^\"']*)[\"']\]")
_NO_PLACE = re.compile(f"[{_OPEN}{_CLOSE}]|{_NOTE}\\d+{_NOTE}")


class MarkingPrinter(Printer):
    """A printer that notes where some nodes are written."""

    def __init__(self, config: PrinterConfig, underlined: Iterable[Any], noted: Mapping[Any, str]) -> None:
        super().__init__(config)
        self._underlined = {id(node) for node in underlined}
        self._noted: dict[int, int] = {}
        self.notes: list[str] = []
        for node, text in noted.items():
            self._noted[id(node)] = len(self.notes)
            self.notes.append(text)

    def _marked(self, node: Any, text: str) -> str:
        if id(node) in self._underlined:
            text = f"{_OPEN}{text}{_CLOSE}"
        note = self._noted.get(id(node))
        return text if note is None else f"{text}{_NOTE}{note}{_NOTE}"

    def expr(self, node: Any) -> Text:
        """The text of an expression with its precedence, and marks around."""
        text, precedence = super().expr(node)
        return self._marked(node, text), precedence

    def text(self, node: Any, above: int = 0) -> str:
        """The text of an expression, and marks around."""
        return self._marked(node, super().text(node, above))

    def stmt(self, node: Any, last: bool = True) -> None:
        """Emit a statement; all of its lines are underlined, and a comment stands before or beside it."""
        frame = self.frames[-1]
        start = len(frame.lines)
        super().stmt(node, last)
        lines = frame.lines
        if id(node) in self._underlined:
            lines[start:] = [
                (depth, f"{_OPEN}{line}{_CLOSE}" if line else line) for depth, line in lines[start:]
            ]
        note = self._noted.get(id(node))
        if note is not None and len(lines) == start + 1:
            depth, line = lines[start]
            lines[start] = (depth, f"{line}{_NOTE}{note}{_NOTE}")
        elif note is not None:
            lines.insert(start, (frame.depth, f"# {self.notes[note]}"))


def at_path(root: Any, path: Any) -> Any:
    """The node at a path such as ``<root>.body.seq[0]``; raises IRValueError where there is none."""
    node = root
    for name, index, key in _STEP.findall(str(path).removeprefix("<root>")):
        try:
            node = getattr(node, name) if name else node[int(index) if index else key]
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise IRValueError(
                f"path {path} leads nowhere: {type(node).__name__} has no {name or index or key}"
            ) from error
    return node


def resolved(text: str, notes: list[str], context: int) -> str:
    """The finished text: marks become underlines and comments.

    Args:
        text: the printed program with marks.
        notes: the comments by number.
        context: how many lines to show before and after an underlined one; negative for the whole program.
    """
    lines: list[str] = []
    underlined: list[int] = []
    for line in text.split("\n"):
        comments = [notes[int(number)] for number in _NOTES.findall(line)]
        below = _underline(line)
        plain = _NO_PLACE.sub("", line)
        lines.append(f"{plain}  # {'; '.join(comments)}" if comments else plain)
        if below:
            underlined += [len(lines) - 1, len(lines)]
            lines.append(below)
    if context < 0 or not underlined:
        return "\n".join(lines)
    shown = {
        near for at in underlined for near in range(at - context, at + context + 1) if 0 <= near < len(lines)
    }
    result: list[str] = []
    skipped = 0
    for number, line in enumerate(lines):
        if number not in shown:
            skipped += 1
            continue
        if skipped:
            result.append(f"(... {skipped} lines skipped ...)")
            skipped = 0
        result.append(line)
    if skipped:
        result.append(f"(... {skipped} lines skipped ...)")
    return "\n".join(result)


def _underline(line: str) -> str:
    below: list[str] = []
    depth, inside_note = 0, False
    for char in line:
        if char == _NOTE:
            inside_note = not inside_note
        elif char == _OPEN:
            depth += 1
        elif char == _CLOSE:
            depth -= 1
        elif not inside_note:
            below.append("^" if depth else " ")
    return "".join(below).rstrip()

"""Where a node came from: a file, a model's node, or a line of script; error messages quote it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceName:
    """The name of a source: a file path, ``<string>``, or a model node's name."""

    name: str


@dataclass(frozen=True, slots=True)
class Span:
    """A region of a source, lines and columns counted from 1."""

    source_name: SourceName
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.source_name.name}:{self.line}:{self.column}"

"""Which tests run a mutant's statement, in whatever process: a call before the statement marks a byte of shared memory.

The marks are a file that every process of a test maps: workers that are forked or started anew mark the same bytes. Only the sampled
statements are marked, so that the tests take as long as without.
"""

from __future__ import annotations

import ast
import mmap
from collections import defaultdict
from pathlib import Path

from .operators import Mutant, offsets

MODULE = '''"""Marks a byte of the file that MUTATION_MARKS names."""

import mmap
import os

_name = os.environ.get("MUTATION_MARKS")
_bytes = mmap.mmap(os.open(_name, os.O_RDWR), 0) if _name else bytearray(1 << 16)


def mark(number):
    _bytes[number] = 1
'''


class Marks:
    """The bytes, one per mutant."""

    def __init__(self, path: Path, number: int) -> None:
        path.write_bytes(bytes(number))
        with path.open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), 0)

    def take(self) -> list[int]:
        """What was marked since the last call."""
        found = [number for number, byte in enumerate(self._bytes[:]) if byte]
        self._bytes[:] = bytes(len(self._bytes))
        return found


def with_probes(source: str, mutants: list[tuple[int, Mutant]]) -> str:
    """The program with a call before the statement of each mutant.

    A mutant outside of functions counts as run by whatever runs a function of the file.
    """
    tree = ast.parse(source)
    position = offsets(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {id(node) for function in functions for body in function.body for node in ast.walk(body)}
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and id(node) in inside]
    spans = [
        (
            position(node.lineno, node.col_offset),
            position(node.end_lineno or 0, node.end_col_offset or 0),
            node,
        )
        for node in statements
    ]
    before: dict[int, list[int]] = defaultdict(list)
    for number, mutant in mutants:
        around = [
            (end - begin, node) for begin, end, node in spans if begin <= mutant.begin and mutant.end <= end
        ]
        if around:
            before[id(min(around, key=lambda item: item[0])[1])].append(number)
            continue
        for function in functions:
            first = (
                function.body[1]
                if _is_text(function.body[0]) and len(function.body) > 1
                else function.body[0]
            )
            before[id(first)].append(number)
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                setattr(node, field, [new for old in body for new in (*_probes(before[id(old)]), old)])
    header = [node for node in tree.body[:2] if _is_text(node) or _is_future(node)]
    tree.body.insert(len(header), ast.parse("from mutation_probe import mark as _mutation_mark").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def _probes(numbers: list[int]) -> list[ast.stmt]:
    return [ast.parse(f"_mutation_mark({number})").body[0] for number in numbers]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"

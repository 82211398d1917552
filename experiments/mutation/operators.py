"""Small changes of a program that its tests ought to notice: one :class:`Mutant` per change, made on the text of the file.

Comparisons, arithmetic, boundaries, negations, connectives, arguments, results, statements, breaks. What only words a message (the
arguments of ``raise``, docstrings, ``__repr__``) and what only types see is left alone.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

_COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_ORDER_IS_CLEAR = {"isinstance", "issubclass", "getattr", "setattr", "hasattr", "cast", "super"}
"""Swapped, these fail at once, whatever is tested."""

_WORDS_ONLY = {"__repr__", "__str__", "explain", "_explain", "describe"}


@dataclass(frozen=True)
class Mutant:
    """One change: the characters from ``begin`` to ``end`` of a file become ``text``."""

    path: str
    operator: str
    line: int
    begin: int
    end: int
    text: str
    source: str
    function: str = ""
    """The qualified name of what is changed."""
    number: int = 0
    """Among the changes of the function that read the same."""

    @property
    def key(self) -> tuple[str, ...]:
        """What the change reads like, wherever in the file its function stands."""
        first = self.source.rfind("\n", 0, self.begin) + 1
        last = self.source.find("\n", self.end)
        lines = self.source[first : last if last >= 0 else None]
        old = self.source[self.begin : self.end]
        return self.path, self.function, self.operator, " ".join(lines.split()), old, self.text

    @cached_property
    def id(self) -> str:
        """The same as long as the changed lines are, whatever else changes in the file."""
        return hashlib.sha256("\0".join((*self.key, str(self.number))).encode()).hexdigest()[:12]

    @property
    def parses(self) -> bool:
        """Whether the changed file is a Python program."""
        try:
            ast.parse(self.mutated)
        except SyntaxError:
            return False
        return True

    @property
    def mutated(self) -> str:
        """The whole file with the change."""
        return self.source[: self.begin] + self.text + self.source[self.end :]

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        lines = difflib.unified_diff(
            self.source.splitlines(keepends=True),
            self.mutated.splitlines(keepends=True),
            f"a/{self.path}",
            f"b/{self.path}",
            n=2,
        )
        return "".join(lines)


def offsets(source: str) -> Callable[[int, int], int]:
    """From the lines and columns of ast, which count bytes, to characters of the file."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return lambda line, column: starts[line - 1] + len(lines[line - 1].encode()[:column].decode())


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: str) -> None:
        self.path, self.source = path, source
        self.found: list[Mutant] = []
        self._offset = offsets(source)
        self._names: list[str] = []
        self._function = ""

    def _add(self, operator: str, node: ast.AST, replacement: ast.AST | str) -> None:
        begin = self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        end = self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        if isinstance(replacement, str):
            text = replacement
        else:
            text = f"({ast.unparse(replacement)})"
        line: int = node.lineno  # type: ignore[attr-defined]
        self.found.append(
            Mutant(self.path, operator, line, begin, end, text, self.source, ".".join(self._names))
        )

    # -- what is walked, and what is not -----------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in _WORDS_ONLY:
            return
        outer, self._function = self._function, node.name
        self._names.append(node.name)
        for item in (*node.args.defaults, *(default for default in node.args.kw_defaults if default)):
            self.visit(item)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()
        self._function = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add("statement deleted", node, "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        """What is asserted for type checkers is no behaviour."""

    def visit_keyword(self, node: ast.keyword) -> None:
        """``strict=True`` of zip asserts too."""
        if node.arg != "strict":
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Parts of texts."""

    def visit_Import(self, node: ast.Import) -> None:
        """Nothing to change."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Nothing to change."""

    # -- changes -----------------------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        for number, operator in enumerate(node.ops):
            ops = list(node.ops)
            ops[number] = _COMPARISONS[type(operator)]()
            self._add("comparison", node, ast.Compare(node.left, ops, node.comparators))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = _ARITHMETIC.get(type(node.op))
        texts = isinstance(node.left, ast.Constant | ast.JoinedStr) and not _is_number(node.left)
        if other is not None and not texts:
            self._add("arithmetic", node, ast.BinOp(node.left, other(), node.right))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add("and/or", node, ast.BoolOp(other, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            self._add("not dropped" if isinstance(node.op, ast.Not) else "sign dropped", node, node.operand)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            self._add("boundary", node, str(node.value + 1))
            if node.value > 0:
                self._add("boundary", node, str(node.value - 1))
        elif isinstance(node.value, float):
            self._add("constant", node, repr(node.value * 2 if node.value else 1.0))

    def _condition(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if not isinstance(node.test, ast.Compare | ast.UnaryOp):  # those are negated by their own operators
            self._add("condition negated", node.test, ast.UnaryOp(ast.Not(), node.test))

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self._condition(node)
            self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._condition(node)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        first, second, *_ = (*node.args, None, None)
        known = isinstance(node.func, ast.Name) and node.func.id in _ORDER_IS_CLEAR
        if first is not None and second is not None and not known:
            starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
            if not starred and ast.dump(first) != ast.dump(second):
                swapped = ast.Call(node.func, [second, first, *node.args[2:]], node.keywords)
                self._add("arguments swapped", node, swapped)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            if not (
                isinstance(node.value, ast.Constant) and node.value.value in (None, False)
            ):  # as good as None
                self._add("result dropped", node.value, "None")
            self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._add("break/continue", node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add("break/continue", node, "break")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        self._add("statement deleted", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add("statement deleted", node, "pass")
        other = _ARITHMETIC.get(type(node.op))
        if other is not None:
            self._add("arithmetic", node, ast.unparse(ast.AugAssign(node.target, other(), node.value)))
        self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._add("statement deleted", node, "pass")
        if self._function or not (isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"):
            self.generic_visit(node)


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """Every change of a file, in order of position; a few are no Python (:attr:`Mutant.parses`)."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    seen: Counter[tuple[str, ...]] = Counter()
    for mutant in sorted(finder.found, key=lambda item: (item.begin, item.end, item.operator, item.text)):
        yield replace(mutant, number=seen[mutant.key])
        seen[mutant.key] += 1

"""What a rule claims, in any kind of numbers: where the left side is defined, the right side is, and has the same value."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import numpy as np
import z3

from ir.arith.pattern import Formula

from .numbers import DIVISIONS, WORD, Floats, Numbers, Samples

WIDTHS = (8, 16, 32, 64)


@dataclass
class Term:
    """A value, and whether computing it divides by zero nowhere."""

    value: Any
    defined: Any


class Interpretation:
    """One formula over one kind of numbers."""

    def __init__(self, formula: Formula, numbers: Numbers, truths: frozenset[str] = frozenset()) -> None:
        self.numbers, self.formula = numbers, formula
        self._truths = truths
        self._constants = {name: numbers.variable(name) for name in names_of(formula) if is_constant(name)}
        self.fits: list[Any] = []

    def claim(self) -> tuple[Any, Any]:
        """(hypotheses, what follows)."""
        n = self.numbers
        left = self.term(self.formula.pattern)
        right = self.term(self.formula.replacement)
        hypotheses = [left.defined, *self.fits]
        if self.formula.condition:
            hypotheses.append(self._condition(ast.parse(self.formula.condition, mode="eval").body))
        same = _same(left.value, right.value)
        return n.both(*hypotheses, *n.axioms), n.both(right.defined, same)

    def term(self, pattern: Any) -> Term:
        n = self.numbers
        if isinstance(pattern, bool):
            return Term(n.always(pattern), n.always(True))
        if isinstance(pattern, int):
            return Term(n.literal(pattern), n.always(True))
        if len(pattern) == 1:
            name = pattern[0]
            if name in self._constants:
                return Term(self._constants[name], n.always(True))
            value = n.truth(name) if name in self._truths else n.variable(name)
            return Term(value, n.truth(f"{name}_is_defined"))
        if is_computed(pattern):
            value, fits = n.of_whole(self._whole(pattern))
            self.fits.append(fits)
            return Term(value, n.always(True))
        return self._operation(pattern[0], [self.term(item) for item in pattern[1:]])

    def _operation(self, name: str, operands: list[Term]) -> Term:
        n = self.numbers
        a = operands[0]
        if name == "Not":
            return Term(n.opposite(a.value), a.defined)
        b = operands[1]
        if name == "And":
            return Term(n.both(a.value, b.value), n.both(a.defined, n.either(n.opposite(a.value), b.defined)))
        if name == "Or":
            return Term(n.either(a.value, b.value), n.both(a.defined, n.either(a.value, b.defined)))
        defined = n.both(a.defined, b.defined)
        if name in DIVISIONS and not isinstance(n, Floats):
            defined = n.both(defined, n.opposite(n.eq(b.value, n.literal(0))))
        return Term(_apply(n, name, a.value, b.value), defined)

    # conditions compute with numbers of ℤ

    def _whole(self, pattern: Any) -> Any:
        """A constant that the replacement computes, in ℤ."""
        exact = self.numbers.exact
        if isinstance(pattern, int):
            return exact.literal(pattern)
        if len(pattern) == 1:
            return self.numbers.whole(self._constants[pattern[0]])
        value = _apply(exact, pattern[0], *[self._whole(item) for item in pattern[1:]])
        self._take_axioms(exact)
        return value

    def _take_axioms(self, exact: Numbers) -> None:
        if exact is not self.numbers:
            self.numbers.axioms += exact.axioms

    def _condition(self, node: ast.expr) -> Any:
        n = self.numbers
        if isinstance(node, ast.BoolOp):
            parts = [self._condition(item) for item in node.values]
            return n.both(*parts) if isinstance(node.op, ast.And) else n.either(*parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return n.opposite(self._condition(node.operand))
        if isinstance(node, ast.Compare):
            sides = [self._number(item) for item in (node.left, *node.comparators)]
            return n.both(
                *[_compare(n.exact, type(op).__name__, a, b) for op, a, b in zip(node.ops, sides, sides[1:])]
            )
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name), ast.unparse(node)
        asked = self.numbers.whole(self._expression(node.args[0]))
        limit = n.exact.literal(0) if node.func.id == "zero" else self._number(node.args[1])
        return _compare(n.exact, {"ge": "GtE", "lt": "Lt", "zero": "Eq"}[node.func.id], asked, limit)

    def _number(self, node: ast.expr) -> Any:
        """Arithmetic of constants in a condition."""
        exact = self.numbers.exact
        if isinstance(node, ast.Constant):
            return exact.literal(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            return self.numbers.whole(self._constants[node.id])
        if isinstance(node, ast.UnaryOp):
            return exact.sub(exact.literal(0), self._number(node.operand))  # type: ignore[attr-defined]
        assert isinstance(node, ast.BinOp), ast.unparse(node)
        method = {
            ast.Add: "add",
            ast.Sub: "sub",
            ast.Mult: "mul",
            ast.FloorDiv: "floordiv",
            ast.Mod: "floormod",
        }
        value = getattr(exact, method[type(node.op)])(self._number(node.left), self._number(node.right))
        self._take_axioms(exact)
        return value

    def _expression(self, node: ast.expr) -> Any:
        """What a condition asks the analyzer about: an expression that the rule builds."""
        n = self.numbers
        if isinstance(node, ast.Name):
            return self._constants[node.id] if node.id in self._constants else n.variable(node.id)
        if _is_constant_node(node):
            value, fits = n.of_whole(self._number(node))
            self.fits.append(fits)
            return value
        assert isinstance(node, ast.BinOp), ast.unparse(node)
        method = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}[type(node.op)]
        return getattr(n, method)(self._expression(node.left), self._expression(node.right))


def _is_constant_node(node: ast.expr) -> bool:
    return not any(isinstance(item, ast.Name) and not is_constant(item.id) for item in ast.walk(node))


def _same(a: Any, b: Any) -> Any:
    return a == b  # identity for z3's floats: NaN is NaN, 0.0 is not -0.0


def _apply(n: Any, name: str, a: Any, b: Any) -> Any:
    if name == "NE":
        return n.opposite(n.eq(a, b))
    if name == "GT":
        return n.lt(b, a)
    if name == "GE":
        return n.le(b, a)
    return getattr(n, WORD[name])(a, b)


def _compare(n: Any, name: str, a: Any, b: Any) -> Any:
    return _apply(
        n, {"Lt": "LT", "LtE": "LE", "Gt": "GT", "GtE": "GE", "Eq": "EQ", "NotEq": "NE"}[name], a, b
    )


def is_constant(name: str) -> bool:
    """Whether a name of a rule stands for a constant."""
    return name[0] == "c" and name[1:].isdigit()


def is_computed(pattern: Any) -> bool:
    """Whether a part of a replacement is a constant that the rule computes."""
    if isinstance(pattern, bool) or not isinstance(pattern, tuple) or len(pattern) == 1:
        return False
    if pattern[0] not in WORD or WORD[pattern[0]] in ("lt", "le", "eq"):
        return False
    return all(
        (isinstance(item, int) and not isinstance(item, bool))
        or (isinstance(item, tuple) and (is_constant(item[0]) if len(item) == 1 else is_computed(item)))
        for item in pattern[1:]
    )


def names_of(formula: Formula) -> list[str]:
    """The variables and constants of a rule."""
    found: list[str] = []

    def walk(pattern: Any) -> None:
        if isinstance(pattern, tuple):
            if len(pattern) == 1:
                found.append(pattern[0])
            for item in pattern[1:]:
                walk(item)

    walk(formula.pattern)
    walk(formula.replacement)
    return sorted(set(found))


def truths_of(formula: Formula) -> frozenset[str]:
    """The names of a rule that stand for truth values: operands of connectives."""
    found: set[str] = set()

    def walk(pattern: Any) -> None:
        if isinstance(pattern, tuple) and len(pattern) > 1:
            for item in pattern[1:]:
                if pattern[0] in ("And", "Or", "Not") and isinstance(item, tuple) and len(item) == 1:
                    found.add(item[0])
                walk(item)

    walk(formula.pattern)
    return frozenset(found)


def prove(formula: Formula, numbers: Numbers, seconds: float = 10.0) -> str | None:
    """None where z3 proves the claim, "unknown" where it gives up, else a counterexample.

    Products of unknowns are found or not by luck: several searches begin differently and share the time.
    """
    hypotheses, follows = Interpretation(formula, numbers, truths_of(formula)).claim()
    for attempt in range(_ATTEMPTS):
        solver = z3.Tactic("qfnia").solver() if attempt == 1 else z3.Solver()
        solver.set("timeout", int(seconds * 1000 / _ATTEMPTS))
        if attempt > 1:
            solver.set("random_seed", attempt)
        solver.add(hypotheses, z3.Not(follows))
        answer = solver.check()
        if answer == z3.unsat:
            return None
        if answer == z3.sat:
            return f"fails for {solver.model()}"
    return "unknown"


_ATTEMPTS = 5


def enumerate_all(formula: Formula, bits: int = 0, signed: bool = True, reach: int = 0) -> str | None:
    """The claim for all numbers of a width, or all of ℤ up to ``reach``; None where it holds, else where it fails."""
    names = names_of(formula)
    undefined = [f"{name}_is_defined" for name in names]
    numbers = Samples([*names, *undefined], bits, signed, reach)
    numbers.truth = lambda name: (  # type: ignore[method-assign]
        np.bool_(True) if name.endswith("_is_defined") else Samples.truth(numbers, name)
    )
    with np.errstate(all="ignore"):
        hypotheses, follows = Interpretation(formula, numbers, truths_of(formula)).claim()
    wrong = np.argwhere(hypotheses & ~follows)
    if not len(wrong):
        return None
    return f"fails for {dict(zip(names, (wrong[0][: len(names)] + numbers.low).tolist()))}"

"""Rewrite rules written as text, compiled to Python functions that match a node and build its replacement.

A rule is a line ``pattern -> replacement`` with an optional ``if condition``. Names ``x y z w`` stand for any
expression, ``c1 c2 c3`` for integer constants; a name that occurs twice must match equal expressions. ``=>`` instead of
``->`` says that the replacement is simplified again. A ``~`` in front adds all variants in which operands of
commutative operators are swapped. Conditions are Python over the values of constants; the functions in them
(``ge(x, 0)``, ``lt(x, c1)``, ``zero(x - y)``) ask the analyzer. ``#`` starts a comment.

What a rule holds for stands in brackets at the end of its line, as letters of :class:`.domain.Domain`: ``[Z]`` numbers of ℤ (index
arithmetic), ``[W]`` integers of every width and sign, which wrap, ``[F]`` floats, ``[B]`` truth values. Nothing in brackets means
``[Z]`` alone, the usual case. A rule is applied to nothing else, and ``tests/ir/arith/proofs`` proves it for each letter. Three
things hold for every rule, and the proofs assume them: a constant that a replacement computes must fit into the type, or the rule
does not apply; a division by zero may become anything, but nothing else may become a division by zero; and connectives evaluate
their right operand only where the left one does not decide, before as after.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..dtype import integer_range
from ..error import IRValueError
from ..integer import truncated_quotient, truncated_remainder
from ..tir import expr as E
from . import build
from .deep_equal import expr_deep_equal
from .domain import Domain
from .rewrite_rules import RULES

_OPERATORS: dict[type, str] = {
    ast.Add: "Add",
    ast.Sub: "Sub",
    ast.Mult: "Mul",
    ast.FloorDiv: "FloorDiv",
    ast.Mod: "FloorMod",
    ast.BitAnd: "And",
    ast.BitOr: "Or",
    ast.Lt: "LT",
    ast.LtE: "LE",
    ast.Gt: "GT",
    ast.GtE: "GE",
    ast.Eq: "EQ",
    ast.NotEq: "NE",
}
_FUNCTIONS = {"min": "Min", "max": "Max", "truncdiv": "Div", "truncmod": "Mod"}
_BUILDERS = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "FloorDiv": "floordiv",
    "FloorMod": "floormod",
    "Div": "truncdiv",
    "Mod": "truncmod",
    "Min": "minimum",
    "Max": "maximum",
    "And": "logical_and",
    "Or": "logical_or",
    "LT": "lt",
    "LE": "le",
    "EQ": "eq",
    "NE": "ne",
}
_COMMUTATIVE = frozenset(("Add", "Mul", "Min", "Max", "And", "Or", "EQ", "NE"))

# Patterns are ("name",) for variables, ("c1",) for constants, an int, or (operator, left, right) and ("Not", operand).
Pattern = Any


def _pattern_of(node: ast.expr) -> Pattern:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp):
        return (_OPERATORS[type(node.op)], _pattern_of(node.left), _pattern_of(node.right))
    if isinstance(node, ast.Compare):
        return (_OPERATORS[type(node.ops[0])], _pattern_of(node.left), _pattern_of(node.comparators[0]))
    if isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.Invert):
            return ("Not", _pattern_of(node.operand))
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return -node.operand.value  # type: ignore[operator]
        return ("Sub", 0, _pattern_of(node.operand))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return (_FUNCTIONS[node.func.id], *[_pattern_of(item) for item in node.args])
    raise IRValueError(f"a rewrite rule cannot contain {ast.unparse(node)}")


def _swapped(pattern: Pattern) -> list[Pattern]:
    """All variants of a pattern with operands of commutative operators in either order."""
    if not isinstance(pattern, tuple) or len(pattern) == 1:
        return [pattern]
    found = []
    for operands in itertools.product(*[_swapped(item) for item in pattern[1:]]):
        found.append((pattern[0], *operands))
        if pattern[0] in _COMMUTATIVE:
            found.append((pattern[0], *reversed(operands)))
    return list(dict.fromkeys(found))


def _is_constant_name(name: str) -> bool:
    return name[0] == "c" and name[1:].isdigit()


class _Matcher:
    """Writes the Python code of one rule."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bound: set[str] = set()
        self._count = itertools.count()

    def match(self, pattern: Pattern, place: str) -> None:
        fail = "return None"
        if isinstance(pattern, int):
            self.lines.append(f"if {place}.__class__ is not IntImm or {place}.value != {pattern}: {fail}")
        elif len(pattern) == 1:
            name = pattern[0]
            if _is_constant_name(name):
                self.lines.append(f"if {place}.__class__ is not IntImm: {fail}")
                if name in self.bound:
                    self.lines.append(f"if {place}.value != {name}: {fail}")
                else:
                    self.lines.append(f"{name} = {place}.value")
            elif name in self.bound:
                self.lines.append(f"if {name} is not {place} and not same({name}, {place}): {fail}")
            else:
                self.lines.append(f"{name} = {place}")
            self.bound.add(name)
        else:
            self.lines.append(f"if {place}.__class__ is not {pattern[0]}: {fail}")
            self._match_operands(pattern, place)

    def _match_operands(self, pattern: Pattern, place: str) -> None:
        fields = ("a",) if pattern[0] == "Not" else ("a", "b")
        # Classes and constants are checked before deep comparisons of repeated names.
        inner = []
        for item, attribute in zip(pattern[1:], fields):
            local = f"n{next(self._count)}"
            self.lines.append(f"{local} = {place}.{attribute}")
            inner.append((item, local))
        for item, local in sorted(inner, key=lambda pair: self._cost(pair[0])):
            self.match(item, local)

    def _cost(self, pattern: Pattern) -> int:
        if isinstance(pattern, int):
            return 0
        if len(pattern) == 1:
            return (
                3
                if pattern[0] in self.bound and not _is_constant_name(pattern[0])
                else 1 - _is_constant_name(pattern[0])
            )
        return 2


def _value(pattern: Pattern) -> str | None:
    """The Python expression of a constant pattern; None where it holds an expression."""
    if isinstance(pattern, bool):
        return None
    if isinstance(pattern, int):
        return str(pattern)
    if len(pattern) == 1:
        return pattern[0] if _is_constant_name(pattern[0]) else None
    signs = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%"}
    parts = [_value(item) for item in pattern[1:]]
    if any(item is None for item in parts):
        return None
    if pattern[0] in signs:
        return f"({parts[0]} {signs[pattern[0]]} {parts[1]})"
    if pattern[0] in ("Min", "Max"):
        return f"{pattern[0].lower()}({parts[0]}, {parts[1]})"
    if pattern[0] in ("Div", "Mod"):
        return f"py_{pattern[0].lower()}({parts[0]}, {parts[1]})"
    return None


def _build(pattern: Pattern, computed: list[str]) -> str:
    """The Python expression that builds a replacement; constants that must be computed are added to ``computed``."""
    if isinstance(pattern, bool):
        return f"boolean({pattern}, t)"
    value = _value(pattern)
    if value is not None:
        if isinstance(pattern, tuple) and len(pattern) > 1:
            computed.append(value)
            value = f"k{len(computed) - 1}"
        return f"const({value}, t)"
    if len(pattern) == 1:
        return str(pattern[0])
    operands = [_build(item, computed) for item in pattern[1:]]
    if pattern[0] == "Not":
        return f"logical_not({operands[0]})"
    if pattern[0] in ("GT", "GE"):
        return f"{'lt' if pattern[0] == 'GT' else 'le'}({operands[1]}, {operands[0]})"
    return f"{_BUILDERS[pattern[0]]}({operands[0]}, {operands[1]})"


def _replacement(pattern: Pattern) -> list[str]:
    """The lines that build a replacement, unless a constant of it does not fit into the type."""
    computed: list[str] = []
    built = _build(pattern, computed)
    lines = ["low, high = integer_range(t)"] if computed else []
    for number, value in enumerate(computed):
        lines += [f"k{number} = {value}", f"if not low <= k{number} <= high: return None"]
    return [*lines, f"return {built}"]


@dataclass(frozen=True, slots=True)
class Formula:
    """What one rule says, one order of the operands of commutative operators at a time."""

    text: str
    """The line of the table, without its domains."""
    pattern: Pattern
    replacement: Pattern
    condition: str
    """Python over constants and questions, or nothing."""
    again: bool
    """Whether the replacement is simplified again."""
    domains: frozenset[Domain]


def parse_formulas(text: str) -> list[Formula]:
    """The rules of a table in order."""
    found = []
    for raw in text.splitlines():
        line = raw.split("#")[0].strip()
        if not line:
            continue
        letters = "Z"
        if line.endswith("]"):
            line, _, letters = line[:-1].rpartition("[")
        domains = frozenset(Domain(letter) for letter in letters.replace(" ", ""))
        commute, line = line.startswith("~"), line.strip("~ ")
        again = "=>" in line
        left, right = line.split("=>" if again else "->")
        right, _, condition = right.partition(" if ")
        pattern = _pattern_of(ast.parse(left.strip(), mode="eval").body)
        replacement = _pattern_of(ast.parse(right.strip(), mode="eval").body)
        for variant in _swapped(pattern) if commute else [pattern]:
            found.append(Formula(line, variant, replacement, condition.strip(), again, domains))
    return found


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule: ``apply(analyzer, a, b, dtype)`` returns the replacement or None."""

    text: str
    apply: Callable[[Any, Any, Any, str], Any]
    again: bool
    """Whether the replacement is simplified again."""
    left: type | None
    """The class that the left operand must have; None for any."""
    right: type | None


def _required(pattern: Pattern) -> type | None:
    if isinstance(pattern, int):
        return E.IntImm
    if len(pattern) == 1:
        return E.IntImm if _is_constant_name(pattern[0]) else None
    return getattr(E, pattern[0])  # type: ignore[no-any-return]


def parse_rules(text: str, domain: Domain, same: Callable[[Any, Any], bool]) -> dict[type, list[Rule]]:
    """Compile the rules for a domain; they are grouped by the class of the node that they match, in the order of the text."""
    env: dict[str, Any] = {name: getattr(build, name) for name in dir(build) if not name.startswith("_")}
    env |= {name: getattr(E, name) for name in (*_OPERATORS.values(), *_FUNCTIONS.values(), "IntImm", "Not")}
    env |= {"same": same, "integer_range": integer_range}
    env |= {"py_div": truncated_quotient, "py_mod": truncated_remainder}
    code: list[str] = []
    # What holds for truth values holds for every condition, whatever it compares.
    formulas = [
        item for item in parse_formulas(text) if domain in item.domains or Domain.BOOL in item.domains
    ]
    for number, formula in enumerate(formulas):
        matcher = _Matcher()
        operands = list(zip(formula.pattern[1:], ("a", "b")))
        for item, place in sorted(operands, key=lambda pair: matcher._cost(pair[0])):
            matcher.match(item, place)
        body = matcher.lines
        if formula.condition:
            body.append(f"if not ({_condition(formula.condition)}): return None")
        body += _replacement(formula.replacement)
        code.append(f"def rule{number}(A, a, b, t):\n    " + "\n    ".join(body))
    exec(compile("\n".join(code), "<rewrite rules>", "exec"), env)
    rules: dict[type, list[Rule]] = {}
    for number, formula in enumerate(formulas):
        head, left, right = formula.pattern
        rule = Rule(formula.text, env[f"rule{number}"], formula.again, _required(left), _required(right))
        rules.setdefault(getattr(E, head), []).append(rule)
    return rules


def _condition(text: str) -> str:
    """Calls of the analyzer's questions get the analyzer in front."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("ge", "lt", "zero", "nonzero")
        ):
            node.func = ast.Attribute(ast.Name("A", ast.Load()), f"_prove_{node.func.id}", ast.Load())
    return ast.unparse(ast.fix_missing_locations(tree))


class RuleTable:
    """The rules of one node class, with those that can match a pair of operand classes picked out once."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        self._picked: dict[tuple[type, type], tuple[Rule, ...]] = {}

    def __call__(self, a: type, b: type) -> tuple[Rule, ...]:
        key = (a, b)
        found = self._picked.get(key)
        if found is None:
            found = self._picked[key] = tuple(
                rule for rule in self._rules if rule.left in (None, a) and rule.right in (None, b)
            )
        return found


class _RuleTables(dict[type, "RuleTable | None"]):
    """The table of each operator's rules for a domain, compiled when the operator is met first; None where it has none."""

    def __init__(self, domain: Domain) -> None:
        super().__init__()
        self._domain = domain

    def __missing__(self, cls: type) -> RuleTable | None:
        text = RULES.get(cls.__name__)
        rules = None if text is None else parse_rules(text, self._domain, expr_deep_equal).get(cls)
        table = self[cls] = RuleTable(rules) if rules else None
        return table


RULE_TABLES = {domain: _RuleTables(domain) for domain in Domain}
"""By domain and operator."""


def compile_all_rules() -> None:
    """Compile what is otherwise compiled operator by operator: a process from which others are forked does it for all of them."""
    for table in RULE_TABLES.values():
        for name in RULES:
            table[getattr(E, name)]

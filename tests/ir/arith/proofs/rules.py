"""The rules of the tables by operator and kind of numbers, and those that z3 does not decide, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import z3

from ir.arith.domain import Domain
from ir.arith.pattern import Formula, parse_formulas
from ir.arith.rewrite_rules import RULES

from .formulas import WIDTHS, enumerate_all, prove
from .lemmas import LEMMAS
from .numbers import BitVectors, Floats, Integers, Numbers

FORMULAS: dict[str, list[Formula]] = {operator: parse_formulas(text) for operator, text in RULES.items()}
"""Every order of operands of every rule of the tables, by operator."""
LEMMA_FORMULAS: dict[str, list[Formula]] = {module: parse_formulas(text) for module, text in LEMMAS.items()}
"""What code relies on, by module."""

NONLINEAR = (
    "products of three unknowns: z3's theory of integers is undecidable there, and its heuristics give up"
)
CIRCUIT = (
    "a division of 64 bits by an unknown: the circuit is too large for the SAT solver (32 bits are proved)"
)
UNDECIDED = {
    ("(x + c1) // c3 - (x + c2) // c3 -> ((x + c2 % c3) % c3 + (c1 - c2)) // c3 if c3 > 0", "Z"): NONLINEAR,
    ("(x // c1) % c2 -> (x % (c1 * c2)) // c1 if c1 > 0 and c2 > 0", "Z"): NONLINEAR,
    (
        "truncmod(truncdiv(x, c1), c2) -> truncdiv(truncmod(x, c1 * c2), c1) if c1 > 0 and c2 > 0",
        "Z",
    ): NONLINEAR,
    ("(x % c1) // c2 -> (x // c2) % (c1 // c2) if c1 > 0 and c2 > 0 and c1 % c2 == 0", "Z"): NONLINEAR,
    ("x // y -> truncdiv(x, y) if ge(x, 0) and ge(y, 0)", "int64"): CIRCUIT,
    ("x % y -> truncmod(x, y) if ge(x, 0) and ge(y, 0)", "int64"): CIRCUIT,
}
"""By text and kind: what z3 does not prove in 10 s, and why. It is enumerated instead, at 4 bits or over a cube of ℤ."""


@dataclass(frozen=True)
class Kind:
    """Numbers that a domain is about."""

    name: str
    domain: Domain
    make: Callable[[], Numbers]

    def holds(self, formula: Formula) -> str:
        """ "proved" or "enumerated"; raises AssertionError where the rule fails or is not decided."""
        if (formula.text.strip(), self.name) in UNDECIDED:
            wrong = self._enumerated(formula)
            answer = "enumerated"
        else:
            wrong = prove(formula, self.make())
            answer = "proved"
        assert wrong is None, f"{formula.text} as {formula.pattern} for {self.name}: {wrong}"
        return answer

    def _enumerated(self, formula: Formula) -> str | None:
        if self.domain is Domain.WRAPPING:
            return enumerate_all(formula, bits=4, signed=self.name.startswith("int"))
        return enumerate_all(formula, reach=12)


KINDS = [
    Kind("Z", Domain.INDEX, Integers),
    Kind("bool", Domain.BOOL, Integers),
    *[
        Kind(f"{'int' if signed else 'uint'}{width}", Domain.WRAPPING, partial(BitVectors, width, signed))
        for width in WIDTHS
        for signed in (True, False)
    ],
    Kind("float16", Domain.FLOAT, lambda: Floats(z3.Float16())),
    Kind("float32", Domain.FLOAT, lambda: Floats(z3.Float32())),
]


def claims(tables: dict[str, list[Formula]]) -> list[tuple[str, Kind]]:
    """(table, kind of numbers) of all that tables claim."""
    return [
        (table, kind)
        for table, formulas in tables.items()
        for kind in KINDS
        if any(kind.domain in formula.domains for formula in formulas)
    ]

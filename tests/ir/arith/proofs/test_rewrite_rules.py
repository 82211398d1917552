"""Every rule of the tables holds for all numbers that it says, by z3 or, where z3 gives up, by enumeration."""

from __future__ import annotations

import pytest
import z3

from ir.arith.domain import Domain
from ir.arith.pattern import parse_formulas

from .formulas import WIDTHS, enumerate_all, prove
from .numbers import BitVectors, Floats, Integers
from .rules import FORMULAS, LEMMA_FORMULAS, UNDECIDED, Kind, claims


@pytest.mark.parametrize(("operator", "kind"), claims(FORMULAS), ids=lambda item: getattr(item, "name", item))
def test_rules_hold(operator: str, kind: Kind) -> None:
    for formula in FORMULAS[operator]:
        if kind.domain in formula.domains:
            kind.holds(formula)


@pytest.mark.parametrize(
    ("module", "kind"), claims(LEMMA_FORMULAS), ids=lambda item: getattr(item, "name", item)
)
def test_lemmas_hold(module: str, kind: Kind) -> None:
    for formula in LEMMA_FORMULAS[module]:
        if kind.domain in formula.domains:
            kind.holds(formula)


def test_what_is_undecided_is_in_the_tables() -> None:
    tables = (*FORMULAS.values(), *LEMMA_FORMULAS.values())
    texts = {formula.text.strip() for formulas in tables for formula in formulas}
    assert {text for text, _ in UNDECIDED} <= texts


@pytest.mark.parametrize(
    ("rule", "numbers"),
    [
        ("(x * c1) // c1 -> x if c1 > 0", BitVectors(8, True)),
        ("x + 1 < y + 1 -> x < y", BitVectors(16, False)),
        ("x < x + 1 -> True", BitVectors(32, True)),
        ("truncdiv(x, c1) -> x // c1 if c1 > 0", Integers()),
        ("x // y + z // y -> (x + z) // y", Integers()),
        ("x + 0 -> x", Floats(z3.Float16())),
        ("x - x -> 0", Floats(z3.Float32())),
        ("x // x -> 0", Integers()),
        ("(x // c1) // c2 -> x // (c1 - c2) if c1 > 0 and c2 > 0", Integers()),
        ("(y & x) | (z & x) -> x & (y | z)", Integers()),
        ("(x < y) | (y <= x) -> True", Floats(z3.Float16())),
    ],
)
def test_wrong_rules_are_found(rule: str, numbers) -> None:  # type: ignore[no-untyped-def]
    (formula,) = parse_formulas(rule)
    found = prove(formula, numbers)
    assert found is not None and found.startswith("fails for")


@pytest.mark.parametrize("signed", [True, False])
def test_enumeration_agrees_with_proofs(signed: bool) -> None:
    """The two ways to decide a rule were written apart, and say the same of every rule with few unknowns, right or wrong."""
    bits, compared = 4, 0
    for formula in (item for formulas in FORMULAS.values() for item in formulas):
        if "&" in formula.text or "|" in formula.text or formula.text.count("c") > 3 or "z" in formula.text:
            continue
        by_hand, by_solver = enumerate_all(formula, bits, signed), prove(formula, BitVectors(bits, signed))
        assert (by_hand is None) is (by_solver is None), (formula.text, by_hand, by_solver)
        compared += 1
    assert compared > 100


def test_every_width_is_claimed() -> None:
    assert WIDTHS == (8, 16, 32, 64)
    assert sum(Domain.WRAPPING in item.domains for formulas in FORMULAS.values() for item in formulas) > 150

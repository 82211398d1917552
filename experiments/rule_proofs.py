"""How many rewrite rules are proved, for which numbers, and how many enumerated: ``python -m experiments.rule_proofs``.

The proofs are those of ``tests/ir/arith/proofs``; with two processes they take about a minute. They need z3 (the extra ``test``).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.ir.arith.proofs.rules import FORMULAS, KINDS, LEMMA_FORMULAS, UNDECIDED

_TABLES = {**FORMULAS, **LEMMA_FORMULAS}


def _decide(claim: tuple[str, str]) -> Counter[str]:
    """How the formulas of one table are decided for one kind of numbers."""
    table, name = claim
    kind = next(item for item in KINDS if item.name == name)
    return Counter(kind.holds(item) for item in _TABLES[table] if kind.domain in item.domains)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prove everything, and print a row for each table."""
    argparse.ArgumentParser(
        "python -m experiments.rule_proofs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args(arguments)
    names = [kind.name for kind in KINDS]
    claims = [(table, name) for table in _TABLES for name in names]
    with ProcessPoolExecutor(2) as pool:
        found = dict(zip(claims, pool.map(_decide, claims), strict=True))
    print(f"{'':22}{'rules':>6}{'orders':>7}  " + "".join(f"{name:>9}" for name in names))
    for title, tables in (("rewrite_rules", FORMULAS), ("lemmas of code", LEMMA_FORMULAS)):
        print(title)
        for table, formulas in tables.items():
            cells = "".join(f"{_cell(found[table, name]):>9}" for name in names)
            print(f"  {table:20}{len({item.text for item in formulas}):>6}{len(formulas):>7}  {cells}")
        total = Counter[str]()
        for (table, _), counted in found.items():
            if table in tables:
                total += counted
        rules = sum(len({item.text for item in formulas}) for formulas in tables.values())
        orders = sum(map(len, tables.values()))
        print(
            f"  {'all':20}{rules:>6}{orders:>7}  {total['proved']} proofs, {total['enumerated']} enumerated"
        )
    print("\nenumerated (p+e in the table):")
    for (text, name), reason in UNDECIDED.items():
        print(f"  {name}: {text}\n      {reason}")


def _cell(counted: Mapping[str, int]) -> str:
    if not counted:
        return "."
    enumerated = counted.get("enumerated", 0)
    return f"{counted.get('proved', 0)}" + (f"+{enumerated}" if enumerated else "")


if __name__ == "__main__":
    main()

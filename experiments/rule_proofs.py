"""How many rewrite rules are proved, for which numbers, and how many enumerated: ``python -m experiments.rule_proofs``.

The proofs are those of ``tests/ir/arith/proofs``; with two processes they take about a minute. They need z3 (the extra ``test``).
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from experiments.fuzz.verdict import INTERRUPTED
from tests.ir.arith.proofs.rules import FORMULAS, KINDS, LEMMA_FORMULAS, UNDECIDED

_TABLES = {**FORMULAS, **LEMMA_FORMULAS}


def _decide(claim: tuple[str, str]) -> Counter[str]:
    """How the formulas of one table are decided for one kind of numbers."""
    table, name = claim
    kind = next(item for item in KINDS if item.name == name)
    return Counter(kind.holds(item) for item in _TABLES[table] if kind.domain in item.domains)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove everything, and print a row for each table; the exit code."""
    argparse.ArgumentParser(
        "python -m experiments.rule_proofs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args(arguments)
    claims = [(table, kind.name) for table in _TABLES for kind in KINDS]
    found: dict[tuple[str, str], Counter[str]] = {}
    try:
        _decide_all(claims, found)
    except KeyboardInterrupt:
        print(f"interrupted: {len(found)} of {len(claims)} claims are decided")
        _report(found)
        return INTERRUPTED
    _report(found)
    print("\nenumerated (p+e in the table):")
    for (text, name), reason in UNDECIDED.items():
        print(f"  {name}: {text}\n      {reason}")
    return 0


def _decide_all(claims: Sequence[tuple[str, str]], found: dict[tuple[str, str], Counter[str]]) -> None:
    """Decides claims in two processes, and says on standard error how far it is."""
    begin = time.monotonic()
    with ProcessPoolExecutor(2, initializer=_ignore_interrupts) as pool:
        futures = {pool.submit(_decide, claim): claim for claim in claims}
        try:
            for done, future in enumerate(as_completed(futures), 1):
                found[futures[future]] = future.result()
                print(
                    f"\r{done} of {len(claims)} claims, {time.monotonic() - begin:.0f} s",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )
        except KeyboardInterrupt:
            for process in list(pool._processes.values()):
                process.terminate()  # a proof may take long; nobody waits for it
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            print(file=sys.stderr)


def _ignore_interrupts() -> None:
    """Ctrl-C goes to all processes of a terminal; the parent ends these."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _report(found: Mapping[tuple[str, str], Counter[str]]) -> None:
    """The rows; a cell is empty where nothing is decided yet."""
    names = [kind.name for kind in KINDS]
    print(f"{'':22}{'rules':>6}{'orders':>7}  " + "".join(f"{name:>9}" for name in names))
    for title, tables in (("rewrite_rules", FORMULAS), ("lemmas of code", LEMMA_FORMULAS)):
        print(title)
        for table, formulas in tables.items():
            cells = "".join(
                f"{_cell(found[table, name]) if (table, name) in found else '':>9}" for name in names
            )
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


def _cell(counted: Mapping[str, int]) -> str:
    if not counted:
        return "."
    enumerated = counted.get("enumerated", 0)
    return f"{counted.get('proved', 0)}" + (f"+{enumerated}" if enumerated else "")


if __name__ == "__main__":
    sys.exit(main())

"""The table of a run, and its survivors."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .exempt import EQUIVALENT, HINTS
from .packages import PACKAGES

Row = dict[str, Any]


def kind(row: Row) -> str:
    """killed, equivalent, hint or open."""
    if row["status"] in ("killed", "timeout"):
        return "killed"
    return "equivalent" if row["id"] in EQUIVALENT else "hint" if row["id"] in HINTS else "open"


def table(rows: list[Row]) -> str:
    """How many were killed, by package; equivalent ones do not count."""
    lines = [
        "| package | mutants | killed | of them by time limit | survived | equivalent | hint | open | score |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in [*sorted({row["package"] for row in rows}, key=list(PACKAGES).index), "all"]:
        mine = [row for row in rows if name in ("all", row["package"])]
        counts = Counter(map(kind, mine))
        late = sum(row["status"] == "timeout" for row in mine)
        survived = len(mine) - counts["killed"]
        score = counts["killed"] / max(1, len(mine) - counts["equivalent"])
        numbers = (
            len(mine),
            counts["killed"],
            late,
            survived,
            counts["equivalent"],
            counts["hint"],
            counts["open"],
        )
        lines.append(f"| {name} | {' | '.join(map(str, numbers))} | {score:.1%} |")
    return "\n".join(lines) + "\n"


def page(rows: list[Row]) -> str:
    """The table and a line for each survivor."""
    parts = [
        "# Mutation score of the test suite\n",
        "Made by `python experiments/mutation/run.py --number 432 --show --page experiments/results/mutation.md`.\n",
        table(rows),
    ]
    reasons = {"equivalent": EQUIVALENT, "hint": HINTS, "open": {}}
    for title, why in reasons.items():
        found = [row for row in rows if kind(row) == title]
        if found:
            lines = [
                f"- `{row['path']}` in `{row['function']}`: {row['operator']}, `{changed(row)}`"
                + (f": {why[row['id']]}" if row["id"] in why else "")
                for row in found
            ]
            parts.append(f"## Survivors: {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def changed(row: Row) -> str:
    """The new line of a change, as it reads."""
    new = [
        line[1:].strip()
        for line in row["diff"].splitlines()
        if line.startswith("+") and not line.startswith("+++")
    ]
    return " ".join(new)[:140].replace("`", "'")


def diffs(rows: list[Row]) -> str:
    """The survivors that are not exempt, to read."""
    return "\n".join(
        f"# {row['id']} {row['package']}: {row['function']}, {row['operator']}, {row['tests']} of {row['of_tests']} tests\n{row['diff']}"
        for row in rows
        if kind(row) == "open"
    )

"""The table that ``VirtualMachine.profile`` prints: what each part of one call took, slowest first."""

from __future__ import annotations

from collections.abc import Iterable


def profile_table(rows: Iterable[tuple[float, str]]) -> str:
    """A line per (seconds, label) with its share of all, and their sum last.

    >>> print(profile_table([(1e-6, "relu"), (3e-6, "conv2d")]))
       time (us)   share  what
             3.0   75.0%  conv2d
             1.0   25.0%  relu
             4.0          all
    """
    rows = sorted(rows, reverse=True)
    total = sum(seconds for seconds, _ in rows)
    lines = [f"{'time (us)':>12} {'share':>7}  what"]
    for seconds, label in rows:
        share = seconds / total if total else 0.0
        lines.append(f"{seconds * 1e6:12.1f} {share:7.1%}  {label}")
    return "\n".join([*lines, f"{total * 1e6:12.1f} {'':7}  all"])

"""Functions in groups of those that call each other, callees first."""

from __future__ import annotations

from ir.expr import GlobalVar
from ir.relax.analysis.recursion_groups import recursion_groups


def test_callees_come_first_and_a_cycle_is_one_group():
    main, left, right, leaf, own = (GlobalVar(name) for name in ("main", "left", "right", "leaf", "own"))
    groups = recursion_groups(
        {main: [left, own], left: [right, leaf], right: [left], leaf: [], own: [own, right]}
    )
    assert [{var.name_hint for var in group} for group in groups] == [
        {"leaf"},
        {"left", "right"},
        {"own"},
        {"main"},
    ]

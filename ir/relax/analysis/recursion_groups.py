"""Functions in the order in which they can be known: callees before callers, those that call each other in one group.

The groups are the strongly connected components of the graph of references, found in one walk (Tarjan).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...expr import GlobalVar


def recursion_groups(callees: Mapping[GlobalVar, Sequence[GlobalVar]]) -> list[list[GlobalVar]]:
    """All functions in groups, each after those that it refers to; a function that no other one calls back is alone.

    Args:
        callees: what each function refers to; all of it is a key, too.
    """
    walk = _Walk(callees)
    for var in callees:
        if var not in walk.order:
            walk.enter(var)
    return walk.groups


class _Walk:
    """Enters functions depth first; the first one of a group that is entered closes it."""

    def __init__(self, callees: Mapping[GlobalVar, Sequence[GlobalVar]]) -> None:
        self.callees = callees
        self.groups: list[list[GlobalVar]] = []
        self.order: dict[GlobalVar, int] = {}
        self._open: list[GlobalVar] = []

    def enter(self, var: GlobalVar) -> int:
        """The place in the order of the first function that this one reaches and whose group is open."""
        first = self.order[var] = len(self.order)
        self._open.append(var)
        for callee in self.callees[var]:
            if callee not in self.order:
                first = min(first, self.enter(callee))
            elif callee in self._open:
                first = min(first, self.order[callee])
        if first == self.order[var]:
            place = self._open.index(var)
            self.groups.append(self._open[place:])
            del self._open[place:]
        return first

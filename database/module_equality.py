"""When a database takes two programs for the same: MetaSchedule's module equalities.

Storage is always exact: a record belongs to the program of which its trace is. The equality says which other programs' records answer a
query for a program that has none of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ir import IRModule, structural_equal, structural_hash
from ir.error import did_you_mean
from ir.node import Mutator
from ir.tir import AllocateConst
from ir.tir.analysis import find_anchor_block

from .damage import FAULTS
from .error import DatabaseError
from .workload import Workload, entry_function, structural_key


class ModuleEquality:
    """One of ``structural``, ``ignore-tensor`` and ``anchor-block``; remembers the keys of a database's workloads.

    - ``structural``: equal up to the names of variables.
    - ``ignore-tensor``: constants of equal dtype and shape count as equal.
    - ``anchor-block``: the reduction with the most arithmetic is equal, constants left out; programs without a reduction are compared as by
      ``ignore-tensor``.

    Raises:
        DatabaseError: there is none of that name.
    """

    NAMES = ("structural", "ignore-tensor", "anchor-block")
    _ALIASES = {"ignore-ndarray": "ignore-tensor"}
    """What MetaSchedule called them before."""

    def __init__(self, name: str = "structural") -> None:
        self.name = self._ALIASES.get(name, name)
        if self.name not in self.NAMES:
            raise DatabaseError(
                f"unknown module equality {name!r}; there are {', '.join(self.NAMES)}{did_you_mean(str(name), list(self.NAMES))}"
            )
        self._keys: dict[str, str] = {}

    @property
    def is_structural(self) -> bool:
        """Whether only a program itself equals it."""
        return self.name == "structural"

    def key(self, mod: IRModule) -> str:
        """A text that is equal for equal programs."""
        return structural_key(mod) if self.is_structural else str(structural_hash(self._compared(mod)))

    def equal(self, lhs: IRModule, rhs: IRModule) -> bool:
        """Whether two programs are the same."""
        if self.is_structural:
            return structural_equal(lhs, rhs)
        return structural_equal(self._compared(lhs), self._compared(rhs), map_free_vars=True)

    def key_of(self, workload: Workload) -> str:
        """The key of a stored program; of one that cannot be read, one that no other has."""
        if workload.shash not in self._keys:
            try:
                self._keys[workload.shash] = self.key(workload.mod)
            except FAULTS:
                self._keys[workload.shash] = f"unreadable {workload.shash}"
        return self._keys[workload.shash]

    def _compared(self, mod: IRModule) -> Any:
        """What of a program is compared."""
        anchor = find_anchor_block(mod) if self.name == "anchor-block" else None
        if anchor is not None:
            return _WithoutTensors().visit(anchor)
        name, func = entry_function(mod)
        return IRModule({name: func.replace(body=_WithoutTensors().visit(func.body))})

    def __repr__(self) -> str:
        return f"ModuleEquality({self.name!r})"


STRUCTURAL = ModuleEquality()
"""The default."""


def renamed_anchor(here: IRModule, there: IRModule) -> dict[str, str]:
    """The name of a program's anchor block, by that of another program's."""
    own, other = find_anchor_block(here), find_anchor_block(there)
    return {} if own is None or other is None else {other.name_hint: own.name_hint}


class _WithoutTensors(Mutator):
    """Constants are zeros."""

    def visit_AllocateConst(self, node: AllocateConst) -> Any:
        return self.generic_visit(node.replace(data=np.zeros_like(node.data)))

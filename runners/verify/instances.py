"""How often the stores of a program run, how often they write one element, and what they choose by comparing.

Reductions need not be blocks that say so: what writes an element several times, computed from what it was, combines as many terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ir.tir.expr import And, BufferLoad, CmpExpr, IntImm, IterVar, Max, Min, Or, PrimExpr, Var
from ir.tir.stmt import Block, BlockRealize, BufferStore, For, IfThenElse, LetStmt, While

_TURNS = 16
"""Loops of which the extent is not known are taken to run so often."""
_MOST_TURNS = 1 << 10
"""The same, where errors are bounded."""
_SIGNS: Mapping[type, frozenset[int]] = {
    Max: frozenset({1}),
    Or: frozenset({1}),
    Min: frozenset({-1}),
    And: frozenset({-1}),
    CmpExpr: frozenset({1, -1}),
}


@dataclass(frozen=True, slots=True)
class Instances:
    """The instances of one store.

    Attributes:
        store: the statement.
        sources: the data variables of what it is computed from, by way of names and of conditions around it.
        compares: which numbers stay where it compares the element with others: large ones (1), low ones (-1), either, or it does not.
        extents: of the loops around; None where they are not known.
        repeats: which of them run while the element is the same.
        reduced: what blocks around say of how many values they combine.
    """

    store: BufferStore
    sources: frozenset[Any]
    compares: frozenset[int]
    extents: tuple[int | None, ...]
    repeats: tuple[bool, ...]
    reduced: int

    @property
    def runs(self) -> int:
        """How often it runs, about."""
        return math.prod(_TURNS if extent is None else max(extent, 0) for extent in self.extents)

    @property
    def per_element(self) -> int:
        """How often it writes one element, at most."""
        return math.prod([self._known, *[_MOST_TURNS] * self._unknown])

    @property
    def terms(self) -> int:
        """How many values one element is combined of, about."""
        if self.store.buffer.data not in self.sources:
            return 1
        return max(self._known, _TURNS) if self._unknown else self._known

    @property
    def _known(self) -> int:
        """How often loops of known extents repeat an element."""
        found = (extent for extent, repeats in zip(self.extents, self.repeats) if repeats)
        return max(1, self.reduced, math.prod(extent for extent in found if extent is not None))

    @property
    def _unknown(self) -> int:
        """How many others do."""
        return sum(repeats and extent is None for extent, repeats in zip(self.extents, self.repeats))

    @property
    def chooses(self) -> frozenset[int]:
        """Which of several numbers an element is in the end: the largest, the least, either, or it is none of them."""
        return self.compares if self.terms > 1 else frozenset()


def instances_of(body: Any) -> list[Instances]:
    """Those of all stores in a statement, in program order; views are to be lowered before."""
    walk = _Walk()
    walk.visit(body, _Place())
    return walk.found


def chosen_from(found: Sequence[Instances]) -> set[Any]:
    """The data variables of all that choices depend on, by way of other buffers."""
    needed = {data for item in found if item.chooses for data in item.sources}
    before = 0
    while before < len(needed):
        before = len(needed)
        needed.update(data for item in found if item.store.buffer.data in needed for data in item.sources)
    return needed


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a walk is: loops around, what variables stand for, conditions."""

    loops: tuple[tuple[Any, int | None], ...] = ()
    values: Mapping[Any, Any] = field(default_factory=dict)
    conditions: tuple[Any, ...] = ()
    reduced: int = 1


class _Walk:
    def __init__(self) -> None:
        self.found: list[Instances] = []
        self._depths: dict[Any, int] = {}
        """By data variable of an allocation: how many loops are around it."""

    def visit(self, node: Any, place: _Place) -> None:
        if isinstance(node, BufferStore):
            self.found.append(self._instances(node, place))
            return
        if isinstance(node, For):
            extent = node.extent.value if isinstance(node.extent, IntImm) else None
            place = replace(place, loops=(*place.loops, (node.loop_var, extent)))
        elif isinstance(node, While):
            place = replace(place, loops=(*place.loops, (None, None)))
            place = replace(place, conditions=(*place.conditions, node.condition))
        elif isinstance(node, IfThenElse):
            place = replace(place, conditions=(*place.conditions, node.condition))
        elif isinstance(node, LetStmt):
            place = replace(place, values={**place.values, node.var: node.value})
        elif isinstance(node, BlockRealize):
            bound = {axis.var: value for axis, value in zip(node.block.iter_vars, node.iter_values)}
            lengths = [
                getattr(axis.dom.extent, "value", 1)
                for axis in node.block.iter_vars
                if axis.iter_type == IterVar.CommReduce
            ]
            place = replace(place, values={**place.values, **bound}, reduced=math.prod(lengths))
        elif isinstance(node, Block):
            self._depths.update({buffer.data: len(place.loops) for buffer in node.alloc_buffers})
        below: list[Any] = []
        node._visit_children(below.append)
        for child in below:
            if not isinstance(child, PrimExpr):
                self.visit(child, place)

    def _instances(self, store: BufferStore, place: _Place) -> Instances:
        data = store.buffer.data
        # An index that is loaded may be the same in each turn.
        known = [item for index in store.indices for item in _nodes(index, place.values, False)]
        used = {item for item in known if isinstance(item, Var)}
        computed = [item for expr in (store.value, *place.conditions) for item in _nodes(expr, place.values)]
        sources = frozenset(item.buffer.data for item in computed if isinstance(item, BufferLoad))
        compares: set[int] = set()
        for kind, signs in _SIGNS.items():
            if any(isinstance(item, kind) and _loads(item, data, place.values) for item in computed):
                compares |= signs
        depth = self._depths.get(data, 0)
        repeats = [level >= depth and name not in used for level, (name, _) in enumerate(place.loops)]
        extents = tuple(extent for _, extent in place.loops)
        return Instances(store, sources, frozenset(compares), extents, tuple(repeats), place.reduced)


def _loads(expr: Any, data: Any, values: Mapping[Any, Any]) -> bool:
    return any(isinstance(item, BufferLoad) and item.buffer.data is data for item in _nodes(expr, values))


def _nodes(expr: Any, values: Mapping[Any, Any], in_loads: bool = True) -> Iterator[Any]:
    """An expression and all below it, each once, by way of names; ``in_loads``: also those in the indices of loads."""
    seen: set[int] = set()
    left = [expr]
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, Var) and node in values:
            left.append(values[node])
        elif in_loads or not isinstance(node, BufferLoad):
            node._visit_children(left.append)

"""How often the stores of a program run, how often they write one element, and what they choose by comparing.

Reductions need not be blocks that say so: what writes an element several times, computed from what it was, combines as many terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from ir.arith.linear_equations import detect_linear_equation
from ir.tir.expr import And, BufferLoad, Call, CmpExpr, IntImm, IterVar, Max, Min, Or, PrimExpr, Var
from ir.tir.stmt import Block, BlockRealize, BufferStore, For, IfThenElse, LetStmt, While
from ir.tir.stmt_functor import loads_in, substitute, variables_in

_TURNS = 16
"""Loops of which the extent is not known are taken to run so often."""
_MOST_NAMES = 8
"""So many names are followed from one to the next: each may stand twice in what the next one is."""
_EITHER = frozenset({1, -1})
_SIGNS: Mapping[type, frozenset[int]] = {
    Max: frozenset({1}),
    Or: frozenset({1}),
    Min: frozenset({-1}),
    And: frozenset({-1}),
    CmpExpr: _EITHER,
}
_BITS: Mapping[str, frozenset[int]] = {
    "tir.bitwise_or": frozenset({1}),
    "tir.bitwise_and": frozenset({-1}),
}
"""Each bit is chosen as an "or" or "and" of bools is."""


@dataclass(frozen=True, slots=True)
class Instances:
    """The instances of one store.

    Attributes:
        store: the statement.
        sources: the data variables of what it is computed from, by way of names and of conditions around it.
        compares: which numbers stay where it compares the element with others: large ones (1), low ones (-1), either, or it does not.
            Where data decides whether it runs, the element may stay what it was, whatever is stored.
        extents: of the loops around; None where they are not known.
        repeats: which of them run while the element is the same.
        distinct: whether the others are known to write another element in each turn.
        restarts: in each turn of which of them the element gets a first value, computed from others.
        reduced: what blocks around say of how many values they combine.
    """

    store: BufferStore
    sources: frozenset[Any]
    compares: frozenset[int]
    extents: tuple[int | None, ...]
    repeats: tuple[bool, ...]
    distinct: bool
    restarts: tuple[bool, ...]
    reduced: int

    @property
    def runs(self) -> int:
        """How often it runs, about."""
        return math.prod(_TURNS if extent is None else max(extent, 0) for extent in self.extents)

    @property
    def per_element(self) -> float:
        """How often it writes one element, at most; infinity where that is not known."""
        known, unknown = self._turns(self.repeats)
        return math.inf if unknown or not self.distinct else known

    @property
    def terms(self) -> int:
        """How many values one element is combined of, about."""
        if self.store.buffer.data not in self.sources:
            return 1
        known, unknown = self._turns(
            [repeats and not begins for repeats, begins in zip(self.repeats, self.restarts)]
        )
        if not self.distinct:
            # loops share elements in a way that is not known: as many as all turns have for each, but it is several
            n_elements = math.prod(getattr(extent, "value", 1) for extent in self.store.buffer.shape)
            known = max(2, known, -(-self.runs // max(1, n_elements)))
        return max(known, _TURNS) if unknown else known

    def _turns(self, counted: Sequence[bool]) -> tuple[int, int]:
        """(How many turns those loops have together whose extents are known, how many others there are)."""
        found = [extent for extent, counts in zip(self.extents, counted) if counts]
        known = math.prod(extent for extent in found if extent is not None)
        return max(1, self.reduced, known), sum(extent is None for extent in found)

    @property
    def chooses(self) -> frozenset[int]:
        """Which of several numbers an element is in the end: the largest, the least, either, or it is none of them."""
        return self.compares if self.terms > 1 else frozenset()


def instances_of(body: Any) -> list[Instances]:
    """Those of all stores in a statement, in program order; views are to be lowered before."""
    walk = _Walk()
    walk.visit(body, _Place())
    return walk.instances()


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
    branches: frozenset[tuple[int, bool]] = frozenset()
    """The choices and guarded blocks that it is in, by identity, and on which side."""
    reduced: int = 1
    reducing: frozenset[Any] = frozenset()
    """The loops that feed the reductions of the innermost block."""


class _Walk:
    def __init__(self) -> None:
        self._found: list[tuple[Instances, _Place]] = []
        self._depths: dict[Any, int] = {}
        """By data variable of an allocation: how many loops are around it."""

    def instances(self) -> list[Instances]:
        """What was found, knowing where elements begin anew."""
        begins: dict[Any, list[_Place]] = {}
        for item, place in self._found:
            data = item.store.buffer.data
            if data not in item.sources:
                begins.setdefault(data, []).append(place)
        return [
            replace(item, restarts=_restarts(place, begins.get(item.store.buffer.data, ())))
            for item, place in self._found
        ]

    def visit(self, node: Any, place: _Place) -> None:
        if isinstance(node, BufferStore):
            self._found.append((self._instances(node, place), place))
            return
        if isinstance(node, IfThenElse):
            place = replace(place, conditions=(*place.conditions, node.condition))
            for side, body in ((True, node.then_case), (False, node.else_case)):
                if body is not None:
                    self.visit(body, replace(place, branches=place.branches | {(id(node), side)}))
            return
        if isinstance(node, Block):
            self._depths.update({buffer.data: len(place.loops) for buffer in node.alloc_buffers})
            if node.init is not None:
                first = tuple(loop for loop in place.loops if loop[0] not in place.reducing)
                self.visit(node.init, replace(place, loops=first, reduced=1))
            self.visit(node.body, place)
            return
        if isinstance(node, For):
            # of one that begins elsewhere in each turn of another loop the same number is another turn
            stands = not variables_in(node.min)
            extent = node.extent.value if stands and isinstance(node.extent, IntImm) else None
            place = replace(place, loops=(*place.loops, (node.loop_var, extent)))
        elif isinstance(node, While):
            place = replace(place, loops=(*place.loops, (Var("turn"), None)))
            place = replace(place, conditions=(*place.conditions, node.condition))
        elif isinstance(node, LetStmt):
            place = replace(place, values={**place.values, node.var: node.value})
        elif isinstance(node, BlockRealize):
            place = _in_block(node, place)
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
        value = list(_nodes(store.value, place.values))
        around = [item for condition in place.conditions for item in _nodes(condition, place.values)]
        sources = _loaded([*value, *around])
        compares: set[int] = set()
        if any(isinstance(item, BufferLoad) for item in around) and data not in _loaded(value):
            sources |= {data}
            compares |= _EITHER
        for item in (*value, *around):
            signs = _signs_of(item)
            if signs and _loads(item, data, place.values):
                compares |= signs
        depth = self._depths.get(data, 0)
        repeats = [level >= depth and name not in used for level, (name, _) in enumerate(place.loops)]
        extents = tuple(extent for _, extent in place.loops)
        restarts = (False,) * len(extents)  # until all stores are known
        others = {
            name: extent for (name, extent), same in zip(place.loops, repeats) if not same and name in used
        }
        distinct = _tell_apart([_resolved(index, place.values) for index in store.indices], others)
        return Instances(
            store, sources, frozenset(compares), extents, tuple(repeats), distinct, restarts, place.reduced
        )


def _resolved(expr: PrimExpr, values: Mapping[Any, Any]) -> PrimExpr | None:
    """An expression of loops alone, with what names stand for; None for one that has names of names of names."""
    for _ in range(_MOST_NAMES):
        named = [item for item in variables_in(expr) if item in values]
        if not named:
            return expr
        expr = substitute(expr, {name: values[name] for name in named})
    return None


def _tell_apart(indices: Sequence[PrimExpr | None], loops: Mapping[Any, int | None]) -> bool:
    """Whether each turn of some loops has other indices: each loop is a digit of one that its loops determine altogether."""
    told: set[Any] = set()
    before = -1
    while before < len(told):
        before = len(told)
        for index in indices:
            if index is not None and not loads_in(index):  # what is loaded may change from turn to turn
                told |= _digits(
                    index, {name: extent for name, extent in loops.items() if name not in told}, told
                )
    return told == set(loops)


def _digits(index: PrimExpr, loops: Mapping[Any, int | None], told: Set[Any]) -> set[Any]:
    """The loops that an index is a number of, one digit each; none if it has another form."""
    here = [name for name in variables_in(index) if name in loops or name in told]
    if any(item.dtype not in ("int32", "int64") for item in (index, *here)):  # others wrap
        return set()
    steps = [step.value for step in detect_linear_equation(index, here)[:-1] if isinstance(step, IntImm)]
    if len(steps) < len(here):
        return set()
    digits = [(abs(step), name) for step, name in zip(steps, here) if name in loops]
    reach: float = 0
    for step, name in sorted(digits, key=lambda item: item[0]):
        if step <= reach:
            return set()
        extent = loops[name]
        reach = math.inf if extent is None else reach + step * (extent - 1)
    return {name for _, name in digits}


def _in_block(node: BlockRealize, place: _Place) -> _Place:
    """In a block: what its variables stand for, and what it reduces."""
    bound = {axis.var: value for axis, value in zip(node.block.iter_vars, node.iter_values)}
    reduced = [axis for axis in node.block.iter_vars if axis.iter_type == IterVar.CommReduce]
    fed = [item for axis in reduced for item in _nodes(bound[axis.var], place.values, False)]
    always = isinstance(node.predicate, IntImm)
    return replace(
        place,
        branches=place.branches if always else place.branches | {(id(node), True)},
        values={**place.values, **bound},
        reduced=math.prod(getattr(axis.dom.extent, "value", 1) for axis in reduced),
        reducing=frozenset(item for item in fed if isinstance(item, Var)),
    )


def _restarts(place: _Place, begins: Sequence[_Place]) -> tuple[bool, ...]:
    """In which of the loops around a store an element begins anew: where it is stored to, unless under a condition of its own."""
    held = [item for item in begins if item.branches <= place.branches]
    around = {name for item in held for name, _ in item.loops}
    return tuple(name in around for name, _ in place.loops)


def _signs_of(node: Any) -> frozenset[int]:
    """Which of several numbers an operation chooses."""
    if isinstance(node, Call):
        return _BITS.get(getattr(node.op, "name", ""), frozenset())
    return next((signs for kind, signs in _SIGNS.items() if isinstance(node, kind)), frozenset())


def _loaded(nodes: Iterable[Any]) -> frozenset[Any]:
    return frozenset(item.buffer.data for item in nodes if isinstance(item, BufferLoad))


def _loads(expr: Any, data: Any, values: Mapping[Any, Any]) -> bool:
    return data in _loaded(_nodes(expr, values))


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

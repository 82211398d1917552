"""Whether two accesses of different threads of a group may touch the same bytes, one of them writing.

Bytes are sums over the variables of threads and loops. First a search over these sums, as integers with bounds, tells accesses apart that
never meet, or meet within one thread only. Where sums do not say all (quotients, remainders, bits, conditions), the bytes of all
threads are enumerated, as long as there are not too many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from math import gcd, lcm, prod
from typing import Any

import numpy as np

from ...arith.index_simplifier import INF, Linear
from ...error import IRValueError
from .. import expr as E
from ..evaluate import Evaluator
from ..expr import IntImm, PrimExpr, Var
from ..operators import const
from ..stmt_functor import substitute, variables_in
from .thread_accesses import Access, Step, Touch
from .thread_groups import ThreadGroup

_MOST_POINTS = 1 << 19
"""How many accesses are enumerated at most, for each of the two."""

_MOST_VALUES = 64
"""How many values of what is the same for both are enumerated for the sake of conditions, at most."""

_MOST_STEPS = 4000
"""How many assignments of variables are looked at."""


_Touched = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of many accesses: the first byte, the thread, and the values of what is the same for both sides as one number."""


class Meets(IntEnum):
    """Whether different threads touch the same bytes."""

    NEVER = 0
    PERHAPS = 1
    SURELY = 2


class Apart(IntEnum):
    """How many iterations of a loop lie between two accesses."""

    NONE = 0
    ONE = 1
    MORE = 2


@dataclass(frozen=True)
class _Term:
    """``factor * v`` with ``low <= v <= high``; what v says of the two threads."""

    factor: int
    low: int
    high: int
    tells: bool
    """Whether it is the difference of a thread variable, which is not 0 only in different threads."""


class Conflicts:
    """Answers for the accesses of one kernel, each asked once."""

    def __init__(self, group: ThreadGroup) -> None:
        self.group = group
        self._simplifier = group.simplifier
        self._answers: dict[tuple[int, int, int, int], Meets] = {}
        self._forms: dict[tuple[int, int, int], Linear | None] = {}
        self._later: dict[tuple[Var, Apart], PrimExpr] = {}

    def between(self, first: Access, second: Access, depth: int, apart: Apart = Apart.NONE) -> Meets:
        """Whether two accesses meet.

        Args:
            first: runs before.
            second: runs behind, in the same iteration of the loops around both, or later on.
            depth: how many of the steps around them are the same ones for both.
            apart: if they lie in different iterations of a loop, the step number ``depth``, how many turns later the second is.
        """
        if first.data is not second.data or Touch.READ is first.touch is second.touch:
            return Meets.NEVER
        if Touch.ATOMIC is first.touch is second.touch:
            return Meets.NEVER
        shared = common_steps(first, second)
        if shared < depth + (apart is not Apart.NONE):  # one of them may be of any iteration
            depth, apart = min(shared, depth), Apart.NONE
        key = first.content, second.content, depth, int(apart)
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = self._decide(first, second, depth, apart)
        return found

    def _decide(self, first: Access, second: Access, depth: int, apart: Apart) -> Meets:
        if first.index is None or second.index is None:
            return Meets.PERHAPS
        if first.is_collective or second.is_collective:
            # as if any thread did it
            pair = _Pair(self, first, second, depth, apart)
            return Meets.NEVER if pair.search(any_thread=True) is Meets.NEVER else Meets.PERHAPS
        pair = _Pair(self, first, second, depth, apart)
        found = pair.search(any_thread=False)
        if found is Meets.PERHAPS:
            exact = pair.enumerated()
            return found if exact is None else exact
        return found

    def form(self, access: Access, loop: Step | None, apart: Apart) -> Linear:
        """The first byte of an access, with the variable of a loop so many iterations later."""
        key = access.content, id(loop), int(apart)
        found = self._forms.get(key)
        if found is None:
            index = self.later(access.index, loop, apart)
            form = self._simplifier.linear(index).times(access.scale)
            found = self._forms[key] = form.plus(Linear({}, access.base))
        return found

    def later(self, expr: Any, loop: Step | None, apart: Apart) -> Any:
        """An expression so many iterations later."""
        if loop is None or loop.var is None or apart is Apart.NONE:
            return expr
        value = self._later.get((loop.var, apart))
        if value is None:
            var, dtype = loop.var, loop.var.dtype
            if apart is Apart.ONE:
                value = var + const(1, dtype)
            else:
                turns = Var("turns", dtype)
                low, high = self._simplifier.bounds(var)
                self._simplifier.bind(turns, 2, max(2, high - low) if high < INF and low > -INF else INF)
                value = var + turns
            self._later[loop.var, apart] = value
        return substitute(expr, {loop.var: value})

    def turns(self, loop: Step | None, apart: Apart) -> list[Var]:
        """The variables that stand for how many iterations are between."""
        if loop is None or loop.var is None or apart is not Apart.MORE:
            return []
        return [var for var in variables_in(self.later(loop.var, loop, apart)) if var is not loop.var]


def common_steps(first: Access, second: Access) -> int:
    """How many steps around two accesses are the same."""
    count = 0
    for a, b in zip(first.path, second.path):
        if a is not b:
            break
        count += 1
    return count


class _Pair:
    """Two accesses."""

    def __init__(self, conflicts: Conflicts, first: Access, second: Access, depth: int, apart: Apart) -> None:
        self.conflicts = conflicts
        self.group = conflicts.group
        self._simplifier = conflicts.group.simplifier
        self.accesses = (first, second)
        self.loop = first.path[depth] if apart is not Apart.NONE else None
        self.apart = apart
        common = first.path[:depth]
        self.periodic: set[Var] = set()
        """Variables of which one period is enumerated, instead of all values."""
        self._same = {
            step.var for step in common if step.var is not None and not step.varies
        } | self.group.uniform
        if self.loop is not None and self.loop.var is not None and not self.loop.varies:
            self._same |= {self.loop.var, *conflicts.turns(self.loop, apart)}
        self._steps = [
            {step.var for step in access.path if step.var is not None and step.var not in self._same}
            for access in self.accesses
        ]
        self.forms = [
            conflicts.form(first, None, Apart.NONE),
            conflicts.form(second, self.loop, apart),
        ]
        self.guards = [
            first.guards,
            tuple([conflicts.later(guard, self.loop, apart) for guard in second.guards]),
        ]

    def is_own(self, var: Var, side: int) -> bool:
        """Whether a variable may have different values for the two."""
        return var in self.group.identity or var in self._steps[side]

    # -- sums ------------------------------------------------------------------------------------------------------------
    def search(self, any_thread: bool) -> Meets:
        """What the sums say; PERHAPS where these are not all that there is to say."""
        first, second = self.forms
        terms: list[_Term] = []
        is_exact = self._is_box() and not any(self.guards)
        limits = [self._limits(side) for side in (0, 1)]
        for atom in {**first.terms, **second.terms}:
            a, b = first.terms.get(atom, 0), second.terms.get(atom, 0)
            is_var = isinstance(atom, Var)
            own = [any(self.is_own(var, side) for var in variables_in(atom)) for side in (0, 1)]
            if not any(own):  # the same for both
                if a != b:
                    terms.append(_Term(a - b, *self.bounds(atom), False))
                    is_exact = False
                continue
            is_thread = is_var and atom in self.group.identity
            is_exact &= is_var
            low, high = zip(*[self.bounds(atom, limits[side]) for side in (0, 1)])
            if is_var and a == b:
                terms.append(_Term(a, _minus(low[0], high[1]), _minus(high[0], low[1]), is_thread))
            else:
                # whether two values of a thread variable are those of one thread is not looked at
                terms += [
                    _Term(f, lo, hi, False)
                    for f, lo, hi in ((a, low[0], high[0]), (-b, low[1], high[1]))
                    if f
                ]
                any_thread |= is_thread
        differs = any_thread
        for var in self.group.identity:
            if var in first.terms or var in second.terms:
                continue
            (a, b), (c, d) = (self.bounds(var, limits[side]) for side in (0, 1))
            differs |= not a == b == c == d
        sizes = [access.size for access in self.accesses]
        # of the difference of the first bytes
        window = 1 - sizes[0], sizes[1] - 1
        start = first.const - second.const
        found = _solve(terms, window[0] - start, window[1] - start, differs)
        if found is False:
            return Meets.NEVER
        return Meets.SURELY if found and is_exact and not self._mixed(terms) else Meets.PERHAPS

    def _is_box(self) -> bool:
        """Whether the loops around run over constant numbers."""
        return all(step.is_box for access in self.accesses for step in access.path)

    def _mixed(self, terms: list[_Term]) -> bool:
        """Whether a thread variable stands in the two sums with different factors: then one thread may be taken for two."""
        first, second = self.forms
        return any(first.terms.get(var, 0) != second.terms.get(var, 0) for var in self.group.identity)

    def bounds(self, atom: PrimExpr, limits: Mapping[Any, tuple[int, int]] | None = None) -> tuple[int, int]:
        low, high = self._simplifier.bounds_of(Linear({atom: 1}, 0))
        if self.loop is not None and atom is self.loop.var:  # the later one is in the loop as well
            high = high if high >= INF else high - int(self.apart)
        known = None if limits is None else limits.get(atom)
        return (low, high) if known is None else (max(low, known[0]), min(high, known[1]))

    def _limits(self, side: int) -> dict[PrimExpr, tuple[int, int]]:
        """What conditions say of single variables."""
        found: dict[PrimExpr, tuple[int, int]] = {}
        for guard in self.guards[side]:
            if not isinstance(guard, E.CmpExpr) or not self._simplifier.compares_numbers(guard):
                continue
            difference = self._simplifier.linear(guard.a).plus(self._simplifier.linear(guard.b), -1)
            if len(difference.terms) != 1:
                continue
            ((atom, factor),) = difference.terms.items()
            low, high = found.get(atom, (-INF, INF))
            a, b = _interval(guard.__class__, factor, difference.const)
            found[atom] = max(low, a), min(high, b)
        return found

    # -- all threads -------------------------------------------------------------------------------------------------------
    def enumerated(self) -> Meets | None:
        """What the bytes of all threads say; None where they are too many, or not all is a number."""
        first, second = self.forms
        same = {
            atom: factor
            for atom, factor in first.terms.items()
            if second.terms.get(atom) == factor
            and isinstance(atom, Var)
            and not self.is_own(atom, 0)
            and not self.is_own(atom, 1)
        }
        rest = [
            Linear({a: f for a, f in form.terms.items() if a not in same}, form.const) for form in self.forms
        ]
        ranges: dict[Var, tuple[int, int]] = {}
        for var in variables_in(*[atom for form in rest for atom in form.terms]):
            if self.is_own(var, 0) or self.is_own(var, 1):
                continue
            found = self._range_of_shared(var, rest)
            if found is None:
                return None
            ranges[var] = found
        for var in variables_in(*self.guards[0], *self.guards[1]):
            low, high = self.bounds(var)
            is_same = var not in ranges and not self.is_own(var, 0) and not self.is_own(var, 1)
            values = (high - low + 1) * prod(b - a + 1 for a, b in ranges.values())
            if is_same and values <= _MOST_VALUES:  # what conditions say of it counts
                ranges[var] = low, high
        keys = prod(high - low + 1 for low, high in ranges.values())
        touched: list[_Touched] = []
        is_exact = self._is_box()
        for side in (0, 1):
            points = _Points(self, side, ranges)
            found_points = points.of(rest[side])
            if found_points is None:
                return None
            is_exact &= points.is_exact
            touched.append(found_points)
        if _meet(touched[0], touched[1], [access.size for access in self.accesses], keys):
            return Meets.SURELY if is_exact else Meets.PERHAPS
        return Meets.NEVER

    def _range_of_shared(self, var: Var, forms: list[Linear]) -> tuple[int, int] | None:
        """The values of a variable that has the same one for both: of what is in remainders only, one period."""
        low, high = self.bounds(var)
        period: int | None = 1
        for form in forms:
            for atom in form.terms:
                if var in variables_in(atom):
                    found = self._period(atom, var)
                    period = None if found is None or period is None else lcm(period, found)
        if period is not None and (low <= -INF or high >= INF or high - low >= period):
            self.periodic.add(var)
            return 0, period - 1
        if low <= -INF or high >= INF:
            return None
        return low, high

    def _period(self, atom: Any, var: Var) -> int | None:
        """After how many steps of the variable an atom has the same value again."""
        inside = self._simplifier.dividend(atom)
        if atom.__class__ is not E.FloorMod or inside is None or not isinstance(atom.b, IntImm):
            return None
        factor = inside.terms.get(var, 0)
        others = [item for item in inside.terms if item is not var and var in variables_in(item)]
        if others:
            return None
        return atom.b.value // gcd(factor, atom.b.value)


class _Points:
    """What one access touches, in all threads, for all values of its loops and of what is the same for both accesses."""

    def __init__(self, pair: _Pair, side: int, shared: dict[Var, tuple[int, int]]) -> None:
        self.pair = pair
        self.side = side
        self.shared = shared
        self.is_exact = True

    def of(self, form: Linear) -> _Touched | None:
        """Bytes, threads, and the values of what is the same as one number; None where they are too many."""
        group, pair = self.pair.group, self.pair
        used = {var for atom in form.terms for var in variables_in(atom)}
        ranges: dict[Var, tuple[int, int]] = dict(self.shared)
        threads: list[Var] = [*group.identity]
        for var in threads:
            extent = group.identity[var]
            if extent is None:
                return None
            ranges[var] = (0, extent - 1)
        guards = []
        for guard in pair.guards[self.side]:
            needed = variables_in(guard)
            if all(
                pair.is_own(var, self.side) or (var in ranges and var not in pair.periodic) for var in needed
            ):
                guards.append(guard)
                used |= set(needed)
            else:
                self.is_exact = False
        for var in sorted(used - ranges.keys(), key=lambda item: item.name):
            low, high = pair.bounds(var)
            if low <= -INF or high >= INF:
                return None
            ranges[var] = (low, high)
        extents = [high - low + 1 for low, high in ranges.values()]
        if prod(extents) > _MOST_POINTS:
            return None
        values: dict[Var, Any] = {}
        for axis, (var, (low, high)) in enumerate(ranges.items()):
            shape = [1] * len(extents)
            shape[axis] = -1
            values[var] = np.arange(low, high + 1).reshape(shape)
        try:
            evaluator = Evaluator(values)
            start: Any = form.const
            for atom, factor in form.terms.items():
                start = start + factor * evaluator.visit(atom)
            holds: Any = True
            for guard in guards:
                holds = holds & evaluator.visit(guard)
        except IRValueError:
            return None
        thread: Any = 0
        for var in threads:
            thread = thread * (ranges[var][1] + 1) + values[var]
        key: Any = 0
        for var, (low, high) in self.shared.items():
            key = key * (high - low + 1) + (values[var] - low)
        arrays = np.broadcast_arrays(start, thread, key, holds, np.zeros(extents, bool))
        chosen = arrays[3].reshape(-1).astype(bool)
        return tuple(item.reshape(-1)[chosen].astype("int64") for item in arrays[:3])  # type: ignore[return-value]


def _meet(first: _Touched, second: _Touched, sizes: list[int], keys: int) -> bool:
    """Whether different threads touch a byte for the same values of what is the same, of which there are so many."""
    if not len(first[0]) or not len(second[0]):
        return False
    unit = gcd(*sizes)
    for start, _, _ in (first, second):
        unit = gcd(unit, int(np.gcd.reduce(start)))
    low = min(int(first[0].min()), int(second[0].min()))
    owners = [_owners(points, size, unit, low, keys) for points, size in zip((first, second), sizes)]
    (places, least, most), (other_places, other_least, other_most) = owners
    _, here, there = np.intersect1d(places, other_places, assume_unique=True, return_indices=True)
    if not len(here):
        return False
    same = (
        (least[here] == most[here])
        & (other_least[there] == other_most[there])
        & (least[here] == other_least[there])
    )
    return not bool(same.all())


def _owners(
    points: _Touched, size: int, unit: int, low: int, keys: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By unit of memory, together with the values of what is the same: the smallest and largest thread that touches it."""
    start, thread, key = points
    first = (start - low) // unit
    count = size // unit
    where = (first[:, None] + np.arange(count)).reshape(-1)
    threads = np.repeat(thread, count)
    place = where * keys + np.repeat(key, count)
    order = np.lexsort((threads, place))
    place, threads = place[order], threads[order]
    begins = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
    ends = np.r_[begins[1:], len(place)] - 1
    return place[begins], threads[begins], threads[ends]


def _minus(a: int, b: int) -> int:
    """The difference of two bounds."""
    if abs(a) >= INF or abs(b) >= INF:
        return INF if a >= INF or b <= -INF else -INF
    return a - b


def _interval(kind: type, factor: int, constant: int) -> tuple[int, int]:
    """The values of v for which ``factor * v + constant`` compares so with 0."""
    if kind is E.EQ:
        return (-constant // factor,) * 2 if constant % factor == 0 else (1, 0)
    if kind is E.GT or kind is E.GE:
        factor, constant, kind = -factor, -constant, E.LT if kind is E.GT else E.LE
    if kind is E.LT:
        constant, kind = constant + 1, E.LE
    if kind is not E.LE:
        return -INF, INF
    bound = -constant  # factor * v <= bound
    return (-INF, bound // factor) if factor > 0 else (-(bound // -factor), INF)


def _solve(terms: list[_Term], low: int, high: int, differs: bool) -> bool | None:
    """Whether a sum of terms may lie within bounds, for different threads; None where that takes too long to find out."""
    if any(term.low > term.high for term in terms):
        return False
    loose = 0
    for term in terms:
        if term.low <= -INF or term.high >= INF:
            loose = gcd(loose, term.factor)
            differs |= term.tells
    bounded = [term for term in terms if term.low > -INF and term.high < INF and term.factor]
    differs |= any(term.tells and not term.factor and (term.low or term.high) for term in terms)
    bounded.sort(key=lambda term: -abs(term.factor))
    reach = [(0, 0)]
    steps = [loose]
    for term in reversed(bounded):
        ends = term.factor * term.low, term.factor * term.high
        reach.append((reach[-1][0] + min(ends), reach[-1][1] + max(ends)))
        steps.append(gcd(steps[-1], term.factor))
    reach.reverse()
    steps.reverse()
    last_teller = max([at for at, term in enumerate(bounded) if term.tells], default=-1)
    budget = _MOST_STEPS

    def within(total: int, position: int) -> bool:
        """Whether the rest can bring a sum into the bounds, as far as its range and its greatest common divisor tell."""
        step = steps[position]
        a, b = low - total, high - total
        if not loose:
            a, b = max(a, reach[position][0]), min(b, reach[position][1])
        if a > b:
            return False
        return b // step * step >= a if step else a <= 0 <= b

    def values(total: int, position: int) -> Iterator[int]:
        term = bounded[position]
        first, last = term.low, term.high
        if not loose:
            rest = reach[position + 1]
            a, b = low - total - rest[1], high - total - rest[0]
            if term.factor < 0:
                a, b = -b, -a
            factor = abs(term.factor)
            first, last = max(first, -(-a // factor)), min(last, b // factor)
        yield from sorted(range(first, last + 1), key=abs) if last - first < 4096 else range(first, last + 1)

    def search(position: int, total: int, told: bool) -> bool | None:
        nonlocal budget
        budget -= 1
        if budget < 0:
            return None
        if not within(total, position) or (not told and position > last_teller):
            return False
        if position == len(bounded):
            return told
        term = bounded[position]
        for value in values(total, position):
            found = search(position + 1, total + term.factor * value, told or (term.tells and value != 0))
            if found is not False:
                return found
        return False

    return search(0, 0, differs)

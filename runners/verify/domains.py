"""Which integers an input may hold so that everything that the program does with them is defined.

An input whose values end up in indices, divisors, shifts or extents of loops is given values from the whole legal range, so that a
kernel that reads another row, forgets a guard or makes one turn too few shows. The range is found by trying: each of the program's
:mod:`.obligations` is evaluated, with the conditions that guard it, for every value in question at the ends of all loops.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.structural import structural_hash
from ir.tir.expr import BufferLoad, Var
from ir.tir.intrinsic.declaration import INTRINSICS

from .arrays import ArrayEvaluator, Unknown, converted
from .obligations import Obligation, Scope, Survey, loaded, survey_of

Array = np.ndarray[Any, Any]
Site = tuple[Any, ...]
"""One load of an input: how it was reached, which input, and its indices (their hash, and their variables)."""

_MOST = 1 << 18
"""Larger indices are not tried: a table of more rows is covered up to here."""
_CORNERS = 4
"""Of so many loops all combinations of ends are tried; of more, all at their begin and all at their end."""
_COMBINATIONS = 20_000
"""So many values of several loads are tried together."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The integers from ``low`` to ``high``, without zero if it may not be that."""

    low: int
    high: int
    zero: bool = True
    index: bool = False
    """The values are positions in other tensors: a permutation of all of them tells most."""
    distinct: bool = False
    """No position may stand twice, where there are enough."""


def integer_domains(func: Any) -> dict[Any, Domain]:
    """By the data variable of a parameter: the integers that are legal in it; nothing for those that may hold any.

    Where an obligation cannot be evaluated, the values that it depends on are 0 and 1.
    """
    inputs = {
        buffer.data: buffer.dtype for buffer in func.buffer_map.values() if dt.is_integral(buffer.dtype)
    }
    if not inputs:
        return {}
    survey = survey_of(func)
    inputs = {data: dtype for data, dtype in inputs.items() if data not in survey.stores}
    trials = [_Trial(survey, inputs, obligation) for obligation in survey.obligations]
    trials = [trial for trial in trials if trial.inputs]
    if not trials and not survey.turns:
        return {}
    reach = min(max([1, *((trial.obligation.high or 0) + 1 for trial in trials)]), _MOST)
    found = {data: _Legal(dtype, reach) for data, dtype in inputs.items()}
    with np.errstate(all="ignore"):
        for trial in trials:
            trial.narrow(found)
    for condition in survey.turns:
        for data in _sources(survey, condition, Scope()) & found.keys():
            found[data].between(0, 1)
    for extent, scope in survey.trips:
        for data in _sources(survey, extent, scope) & found.keys():
            found[data].at_least(-1)
    domains = {data: legal.domain() for data, legal in found.items()}
    return {data: domain for data, domain in domains.items() if domain is not None}


class _Legal:
    """The values of one input that have not been ruled out: all around zero, and the ends and powers of two beyond."""

    def __init__(self, dtype: str, reach: int) -> None:
        self.least, self.most = dt.integer_range(dtype)
        self.reach = reach
        powers = [sign << exponent for exponent in range(63) for sign in (1, -1)]
        ends = [max(self.least, -(1 << 62)), min(self.most, 1 << 62)]
        tried = np.union1d(np.arange(-2 * reach, 2 * reach + 1), np.array([*powers, *ends], np.int64))
        self.values = tried[(tried >= max(self.least, -(1 << 62))) & (tried <= min(self.most, 1 << 62))]
        self.mask = np.ones(self.values.shape, np.bool_)
        self.is_index = self.distinct = False

    def between(self, low: int, high: int) -> None:
        """Rule out what is not from ``low`` to ``high``."""
        self.mask &= (self.values >= low) & (self.values <= high)

    def at_least(self, low: int) -> None:
        """Rule out what is less, unless nothing would be left."""
        kept = self.mask & (self.values >= low)
        if kept.any():
            self.mask = kept

    def domain(self) -> Domain | None:
        """The run of legal values around zero, or else the longest one; None where any will do."""
        mask = self.mask.copy()
        zero = int(np.searchsorted(self.values, 0))
        # A divisor may have either sign: its two runs are one domain.
        hole = 0 < zero < mask.size - 1 and not mask[zero] and bool(mask[zero - 1] and mask[zero + 1])
        mask[zero] |= hole
        runs = _runs(mask)
        if not runs:
            return Domain(0, 1, index=self.is_index, distinct=self.distinct)
        first, last = next(
            ((a, b) for a, b in runs if a <= zero <= b), max(runs, key=lambda run: run[1] - run[0])
        )
        low, high = int(self.values[first]), int(self.values[last])
        low = self.least if first == 0 else low
        high = self.most if last == mask.size - 1 else high
        if self.is_index:
            low, high = max(low, -2 * self.reach), min(high, 2 * self.reach)
        if (low, high) == (self.least, self.most) and not hole and not self.is_index:
            return None
        return Domain(low, high, not hole, self.is_index, self.distinct)


def _runs(mask: Array) -> list[tuple[int, int]]:
    """First and last position of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(first), int(end) - 1) for first, end in zip(edges[::2], edges[1::2])]


class _Trial:
    """One obligation, tried at the ends of the loops that it depends on."""

    def __init__(self, survey: Survey, inputs: Mapping[Any, str], obligation: Obligation) -> None:
        self.obligation = obligation
        self._survey, self._params = survey, inputs
        sources = _sources(survey, obligation.operand, obligation.scope)
        self.inputs = sources & inputs.keys()
        """The inputs that its operand is computed from."""

    def narrow(self, found: Mapping[Any, _Legal]) -> None:
        """Rule out the values for which it is not met."""
        for data in self.inputs:
            found[data].is_index |= self.obligation.is_index
            found[data].distinct |= self.obligation.distinct
        try:
            for ends in self._corners():
                self._narrow_at(ends, found)
        except Unknown:
            for data in self.inputs:
                self._by_default(found[data])

    def _by_default(self, legal: _Legal) -> None:
        if self.obligation.is_divisor:
            legal.mask &= legal.values != 0
        else:
            legal.between(0, 1)

    def _corners(self) -> list[dict[Any, int]]:
        """Which end of each loop, for all combinations."""
        loops: list[Any] = []
        for end in (0, 1):
            follow = _Followed(self._survey, self._params, _all(end), _zeros)
            follow.within(self.obligation.scope)(self.obligation.operand)
            loops += [loop for loop in follow.loops if loop not in loops]
        if len(loops) > _CORNERS:
            return [dict.fromkeys(loops, 0), dict.fromkeys(loops, 1)]
        return [dict(zip(loops, ends)) for ends in itertools.product((0, 1), repeat=len(loops))]

    def _narrow_at(self, ends: Mapping[Any, int], found: Mapping[Any, _Legal]) -> None:
        look = _Followed(self._survey, self._params, ends, _zeros)
        look.within(self.obligation.scope)(self.obligation.operand)
        sites = look.sites
        if len(sites) == 1:
            legal = found[sites[0][-2]]
            met = self._met(ends, sites, [legal.values])
            guarding = [] if met.all() else self._guarding(ends, sites[0])
            if not guarding or not self._met_together(ends, [*sites, *guarding], found):
                legal.mask &= met
        elif sites:
            self._narrow_together(ends, sites, found)

    def _met(self, ends: Mapping[Any, int], sites: Sequence[Site], values: Sequence[Array]) -> Array:
        """For which values of its loads it is met, or a condition around it does not hold."""
        given = dict(zip(sites, values))
        follow = _Followed(self._survey, self._params, ends, lambda site: given[site])
        within = follow.within(self.obligation.scope)
        met = self.obligation.holds(within(self.obligation.operand))
        for condition in self.obligation.scope.conditions:
            try:
                met = met | ~np.asarray(within(condition), np.bool_)
            except (
                Unknown,
                KeyError,
            ):  # a guard that is not understood, or asks other inputs, guards nothing
                continue
        return np.broadcast_to(met, values[0].shape)

    def _narrow_together(
        self, ends: Mapping[Any, int], sites: Sequence[Site], found: Mapping[Any, _Legal]
    ) -> None:
        """Several loads meet in one operand: the longest range from zero, or one, of which they may hold any values."""
        if not self._met_together(ends, sites, found):
            raise Unknown

    def _guarding(self, ends: Mapping[Any, int], site: Site) -> list[Site]:
        """Other loads of the same input in conditions around: a row ends where the next one begins, the last one behind all elements."""
        look = _Followed(self._survey, self._params, ends, _zeros)
        within = look.within(self.obligation.scope)
        for condition in self.obligation.scope.conditions:
            try:
                within(condition)
            except (Unknown, KeyError):  # it is not understood, or depends on loops that the operand does not
                continue
        return [other for other in look.sites if other != site and other[-2] is site[-2]]

    def _met_together(
        self, ends: Mapping[Any, int], sites: Sequence[Site], found: Mapping[Any, _Legal]
    ) -> bool:
        """Keep to the longest range of which several loads may hold any values; whether there is one."""
        first = int(self.obligation.is_divisor)
        reach = max(found[site[-2]].reach for site in sites)
        for high in _halves(reach):
            some = {first, first + 1, 2, high // 3, high // 2, high - 1, high}
            points = sorted(point for point in some if first <= point <= high)
            if not points or len(points) ** len(sites) > _COMBINATIONS:
                break
            grid = np.meshgrid(*[np.array(points, np.int64)] * len(sites), indexing="ij")
            if self._met(ends, sites, [axis.reshape(-1) for axis in grid]).all():
                for site in sites:
                    found[site[-2]].between(first, high)
                return True
        return False


def _halves(reach: int) -> Iterable[int]:
    """Ends of ranges to try, the longest first."""
    yield from (reach, reach - 1)
    parts = 2
    while reach // parts > 0:
        yield from (reach // parts, reach // parts - 1)
        parts += 1 if parts < 4 else parts // 2
    yield 0


def _all(end: int) -> Mapping[Any, int]:
    return defaultdict(lambda: end)


def _zeros(site: Site) -> Array:
    return np.zeros(1, np.int64)


@dataclass(slots=True)
class _Followed:
    """Evaluates what is computed from inputs, through names, loops and buffers that are stored to in one place.

    Attributes:
        ends: by loop variable: whether it is at its first (0) or last value (1).
        values: the values of a load of an input.
        loops: the loop variables that were met, sites: the loads.
    """

    survey: Survey
    params: Mapping[Any, str]
    ends: Mapping[Any, int]
    values: Callable[[Site], Array]
    loops: list[Any] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)

    def within(self, scope: Scope, path: Site = ()) -> _Within:
        """An evaluator of what stands in a scope."""
        return _Within(self, scope, path)


class _Within(ArrayEvaluator):
    """Evaluates in one scope; the path is how it was reached: which buffers, by which indices."""

    def __init__(self, followed: _Followed, scope: Scope, path: Site) -> None:
        super().__init__({})
        self._followed, self._scope, self._path = followed, scope, path

    def _var(self, node: Any) -> Any:
        if node not in self._scope.variables:
            raise Unknown
        first, last = self._scope.variables[node]
        if first is last:
            return self(first)
        if node not in self._followed.loops:
            self._followed.loops.append(node)
        return self((first, last)[self._followed.ends[node]])

    def _floatimm(self, node: Any) -> Any:
        return np.float64(node.value)

    def _cast(self, node: Any) -> Any:
        value = np.asarray(self(node.value))
        if dt.is_float(node.dtype):
            return value.astype(np.float64)
        if value.dtype.kind == "f" and not dt.is_bool(node.dtype):
            value = np.nan_to_num(np.trunc(value)).astype(np.int64)
        return converted(value, node.dtype)

    def _call(self, node: Any) -> Any:
        record = INTRINSICS.get(getattr(node.op, "name", ""))
        if record is None or not record.rounds:
            return super()._call(node)
        assert record.meaning is not None
        return record.meaning(self(node.args[0]))

    def load(self, node: Any) -> Any:
        """An element of an input, or of a buffer that is stored to in one place."""
        followed, data = self._followed, node.buffer.data
        if not dt.is_integral(node.dtype):
            raise Unknown
        variables = tuple([variable for index in node.indices for variable in _variables(index)])
        site = (*self._path, data, (structural_hash(node.indices), variables))
        if data in followed.params:
            if site not in followed.sites:
                followed.sites.append(site)
            return followed.values(site)
        stores = followed.survey.stores.get(data, [])
        if len(stores) != 1 or data in self._path:
            raise Unknown
        ((value, scope),) = stores
        return followed.within(scope, site)(value)


def _sources(survey: Survey, expr: Any, scope: Scope) -> set[Any]:
    """The buffers of integers that an expression is computed from, by way of names, loops and other buffers."""
    found: set[Any] = set()
    seen: set[Any] = set()

    def visit(expr: Any, scope: Scope) -> None:
        for variable in _variables(expr):
            if variable in scope.variables and (variable, id(scope)) not in seen:
                seen.add((variable, id(scope)))
                for end in scope.variables[variable]:
                    visit(end, scope)
        for data in loaded(expr) - found:
            found.add(data)
            for value, place in survey.stores.get(data, ()):
                visit(value, place)

    visit(expr, scope)
    return found


def _variables(expr: Any) -> list[Any]:
    """The variables of an expression, but not those in the indices of what it loads."""
    found: dict[Any, None] = {}
    seen: set[int] = set()

    def visit(node: Any) -> None:
        if isinstance(node, Var):
            found.setdefault(node)
        elif not isinstance(node, BufferLoad) and id(node) not in seen:
            seen.add(id(node))
            node._visit_children(visit)

    visit(expr)
    return list(found)

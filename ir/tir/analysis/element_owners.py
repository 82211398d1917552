"""Whether uses of memory by different owners may meet in an element: sums over the variables of threads and loops that may be equal.

Both uses have variables of their own for what tells owners apart, and for loops. An element is one for both where in each dimension the
difference of two sums is 0. In such an equation, the difference of the values of one variable is 0 if it has so large a factor that all
the rest does not reach it, or if it does not reach what divides all the rest, as digits of a number are told; what is known to be 0 leaves
the other equations. Where that does not say all, elements are enumerated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import gcd
from typing import Any, NamedTuple

from ...arith.index_simplifier import INF, IndexSimplifier, Linear
from ...error import IRValueError
from .. import stmt as S
from ..buffer import Buffer
from ..expr import IntImm, PrimExpr, Var
from ..operators import const
from ..stmt_functor import substitute, variables_in
from .memory_uses import Use
from .thread_accesses import Access, Step, Touch
from .thread_conflicts import Conflicts, Meets
from .thread_groups import BLOCK, ThreadGroup


class _Term(NamedTuple):
    """A number in an equation: ``factor`` times something between ``low`` and ``high``."""

    factor: int
    low: int
    high: int
    var: Any
    """The variable of which it is the difference of both values; None for anything else."""

    @property
    def reach(self) -> tuple[int, int]:
        """What the product may be."""
        ends = _times(self.factor, self.low), _times(self.factor, self.high)
        return min(ends), max(ends)


class ElementOwners:
    """Asks whether uses of a buffer meet.

    Args:
        buffer: the buffer.
        depth: how many loops stand still for all uses.
        axes: for loops that are bound to an axis: the variable of that, which the loop's is.
        extents: of these axes; None where they are not constant.
    """

    def __init__(
        self,
        buffer: Buffer,
        depth: int,
        axes: Mapping[Var, PrimExpr],
        extents: Mapping[Var, int | None],
    ) -> None:
        self._buffer, self._depth = buffer, depth
        self._values = dict(axes)
        self._extents = dict(extents)
        self._simplifier = IndexSimplifier()
        for var, extent in extents.items():
            self._simplifier.bind(var, 0, INF if extent is None else extent - 1)
        self._forms: dict[Use, list[tuple[Linear, int | None]]] = {}

    # -- sums ----------------------------------------------------------------------------------------------------------
    def _known(self, node: Any) -> Any:
        return substitute(node, self._values)

    def _form(self, use: Use) -> list[tuple[Linear, int | None]]:
        """For each dimension where a use begins, and how far it goes from there."""
        found = self._forms.get(use)
        if found is None:
            for loop in use.loops:
                if loop.loop_var not in self._values:
                    self._simplifier.bind_range(
                        loop.loop_var, self._known(loop.min), self._known(loop.extent)
                    )
            ends = [(self._known(item.min), item.extent) for item in use.box]
            found = [
                (self._simplifier.linear(begin), extent.value if isinstance(extent, IntImm) else None)
                for begin, extent in ends
            ]
            if any(not isinstance(atom, Var) for form, _ in found for atom in form.terms):
                found += self._flat(found)  # in which digits become a number again
            self._forms[use] = found
        return found

    def _flat(self, form: Sequence[tuple[Linear, int | None]]) -> list[tuple[Linear, int | None]]:
        """The number of the first element, and how many lie side by side from there; of a box that is no such run nothing is said."""
        total, size = Linear({}, 0), 1
        for (begin, extent), dim in zip(form, self._buffer.shape, strict=True):
            if not isinstance(dim, IntImm) or extent is None:
                return []
            is_whole = extent == dim.value and not begin.terms and not begin.const
            if size > 1 and not is_whole:
                return []
            total, size = total.times(dim.value).plus(begin), size * extent
        return [(self._simplifier.recombine(total), size)]

    def meet(self, writer: Use, reader: Use, telling: Collection[Var], fixed: Collection[Var]) -> Var | None:
        """An axis along which a use and one by another owner may meet; None where they never do.

        Args:
            writer: the one.
            reader: the other.
            telling: the axes that tell owners apart.
            fixed: those that are the same for both.
        """
        still = {loop.loop_var for loop in writer.loops[: self._depth]} | {*fixed}
        moving = {*telling, *self._extents} - still
        moving |= {loop.loop_var for use in (writer, reader) for loop in use.loops[self._depth :]} - still
        equations = []
        forms = self._form(writer), self._form(reader)
        for (one, size), (other, other_size) in zip(*forms, strict=False):
            if size is not None and other_size is not None:
                terms = list(self._terms(one, other, moving))
                terms += [
                    _Term(factor, 0, count - 1, None)
                    for factor, count in ((1, size), (-1, other_size))
                    if count > 1
                ]
                equations.append((one.const - other.const, terms))
        known = _equal_variables(equations)
        if known is None:
            return None
        return next((var for var in telling if var not in known and self._extents.get(var) != 1), None)

    def _terms(self, one: Linear, other: Linear, moving: Collection[Var]) -> Iterator[_Term]:
        for atom in {**one.terms, **other.terms}:
            a, b = one.terms.get(atom, 0), other.terms.get(atom, 0)
            low, high = self._simplifier.bounds_of(Linear({atom: 1}, 0))
            if not any(var in moving for var in variables_in(atom)):
                if a != b:
                    yield _Term(a - b, low, high, None)
            elif a == b:
                reach = INF if high >= INF or low <= -INF else high - low
                yield _Term(a, -reach, reach, atom if isinstance(atom, Var) else None)
            else:
                yield from (_Term(factor, low, high, None) for factor in (a, -b) if factor)

    # -- element by element --------------------------------------------------------------------------------------------
    def meet_exactly(
        self, writer: Use, reader: Use, telling: Collection[Var], fixed: Collection[Var]
    ) -> bool:
        """Whether they may meet, as far as that can be told of all elements."""
        if not all(isinstance(dim, IntImm) for dim in self._buffer.shape):
            return True
        group = ThreadGroup(BLOCK, self._simplifier)
        group.identity.update({var: self._extents[var] for var in telling})
        one, other = (self._access(use, {*telling, *fixed}) for use in (writer, reader))
        try:
            return Conflicts(group).between(one, other, depth=0) is not Meets.NEVER
        except IRValueError:
            return True

    def _access(self, use: Use, others: Collection[Var]) -> Access:
        """A use whose loops, and axes but for some, are its own."""
        loops = {
            loop.loop_var: loop for loop in use.loops[self._depth :] if loop.loop_var not in self._values
        }
        steps = [Step(var, loop, True, _is_box(loop)) for var, loop in loops.items()]
        index = self._buffer.offset_of([self._known(item.min) for item in use.box])[0]
        for number, (item, dim) in enumerate(zip(use.box, self._buffer.shape, strict=True)):
            assert isinstance(dim, IntImm)
            extent = item.extent.value if isinstance(item.extent, IntImm) else dim.value
            if extent > 1:  # a loop of its own
                stride = self._buffer.offset_of(
                    [const(int(at == number), one.min.dtype) for at, one in enumerate(use.box)]
                )[0]
                var = Var("within", index.dtype)
                self._simplifier.bind(var, 0, extent - 1)
                steps.append(Step(var, S.Evaluate(const(0)), True, True))
                index = index + var * stride
        steps += [Step(var, S.Evaluate(const(0)), True, True) for var in self._extents if var not in others]
        touch = Touch.WRITE if use.is_write else Touch.READ
        access = Access(
            self._buffer.data, touch, index, 1, 1, tuple(steps), tuple(map(self._known, use.guards)),
            S.Evaluate(const(0)),
        )  # fmt: skip
        return access.of_any_iteration()


def _equal_variables(equations: Sequence[tuple[int, list[_Term]]]) -> set[Var] | None:
    """The variables that have one value for both sides where all equations hold; None where they never do."""
    known: set[Var] = set()
    pending = True
    while pending:
        pending = False
        for start, terms in equations:
            rest = [term for term in terms if term.var is None or term.var not in known]
            low, high = (
                _sum([start, *[term.reach[0] for term in rest]]),
                _sum([start, *[term.reach[1] for term in rest]]),
            )
            if low > 0 or high < 0:
                return None
            for term in rest:
                if term.var is None:
                    continue
                others = [item.reach for item in rest if item is not term]
                least, most = (
                    _sum([start, *[item[0] for item in others]]),
                    _sum([start, *[item[1] for item in others]]),
                )
                step = gcd(start, *[item.factor for item in rest if item is not term])
                is_a_digit = (
                    max(-term.reach[0], term.reach[1]) < step
                )  # of a number of which the rest are higher digits
                if is_a_digit or (-abs(term.factor) < least and most < abs(term.factor)):
                    known.add(term.var)
                    pending = True
    return known


def _sum(numbers: Sequence[int]) -> int:
    """The sum of bounds, of which some are infinite, all of these in one direction."""
    infinite = next((number for number in numbers if abs(number) >= INF), None)
    return sum(numbers) if infinite is None else infinite


def _times(factor: int, bound: int) -> int:
    if abs(bound) < INF:
        return factor * bound
    return INF if (factor > 0) == (bound > 0) else -INF


def _is_box(loop: S.For) -> bool:
    return isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)

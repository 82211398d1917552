"""Whether an iteration of a parallel loop writes what it reads of the memory that it has for itself.

Lowering gives every iteration its own copy of a buffer that only iterations use (``[parallel-local]``). What an iteration reads there
and has not written before was another one's, or nobody's. Each instance of a load and of a store has a number by program order, and a load
is right where a store of the same iteration to its element has a smaller one. Where iterations do the same in places of their own, as
tiles do, one of them tells of all: of those that are full, and of those that end early.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir.tir.expr import Add, IntImm, Mul, Ramp, Sub, Var
from ir.tir.stmt import For
from ir.tir.stmt_functor import variables_in

from . import accesses
from .accesses import Access, Layout, OnArguments, Touched, touched
from .arrays import Unknown

Array = np.ndarray[Any, Any]
_NO_LOOP = Var("no_loop", "int32")
_FEW = 1 << 18
"""As many instances of an access are looked at where nothing needs to be certain."""
_NEVER = np.iinfo(np.int64).max
"""Later than every instance."""
_SPARSE = 4
"""A table of first stores may have so many entries for each instance of an access; beyond that elements are numbered by rank."""


def read_before_written(
    own: Sequence[Access],
    loop: For,
    extent: int,
    around: Mapping[Any, int],
    given: Mapping[Any, Array],
) -> tuple[str | None, bool]:
    """(what an iteration reads before it writes that, in one sentence; whether all loads were looked at).

    Args:
        own: the accesses to memory of an iteration, in program order.
        loop, extent: the parallel loop.
        around: values of variables of loops around it.
        given: the arrays of a call that the program only reads.
    """
    followed, begin = True, int(getattr(loop.min, "value", 0))
    for group in _by_memory(own):
        try:
            memory = _Memory(group, loop.loop_var, np.arange(begin, begin + extent), around, given)
            iteration = memory.wrong()
        except Unknown:
            followed = False
            continue
        if iteration is not None:
            where = f"iteration {iteration} of the parallel loop {loop.loop_var.name}"
            return f"{where} reads an element of {group[0].buffer.name} before it writes it", False
        followed = followed and memory.is_followed
    return None, followed


def read_unwritten(own: Sequence[Access], around: Mapping[Any, int]) -> str | None:
    """What a program reads of memory that it allocates before it writes it, in one sentence, as far as that is known.

    Args:
        own: the accesses to memory that a block allocates, in program order.
        around: values of variables of loops around the block.
    """
    for group in _by_memory(own):
        try:
            memory = _Memory(group, _NO_LOOP, np.zeros(1, np.int64), around, {}, samples=True)
            if memory.wrong() is not None:
                return f"it reads an element of {group[0].buffer.name} before it writes it"
        except Unknown:
            continue
    return None


def _by_memory(own: Sequence[Access]) -> Iterator[list[Access]]:
    """The accesses to each piece of memory that is read."""
    groups: dict[Any, list[Access]] = {}
    for item in own:
        groups.setdefault(item.buffer.data, []).append(item)
    return (group for group in groups.values() if not all(item.stores for item in group))


class _Memory:
    """The accesses to one piece of memory.

    Attributes:
        is_followed: all instances of its accesses are looked at.
    """

    def __init__(
        self,
        group: Sequence[Access],
        variable: Var,
        iterations: Array,
        around: Mapping[Any, int],
        given: Mapping[Any, Array],
        samples: bool = False,
    ) -> None:
        """``samples``: only some loads are looked at where they are many, or depend on data, so that nothing is certain then."""
        known = {variable, *around, *(name for item in group for name in item.extents)}
        if samples:
            group = [item for item in group if item.stores or _used(item) <= known]
        self._group, self._variable, self._samples = group, variable, samples
        self._most = _FEW if samples else accesses.MOST
        self._around, self._given = around, given
        self._layout = Layout.of([item.buffer for item in group])
        self._weights = _weights(group)
        self._used = [_used(item) for item in group]
        used: set[Any] = set().union(*self._used)
        if not used <= known:
            raise Unknown  # loops around in indices, extents that are no numbers, data
        self.is_followed = not used & around.keys()
        self._begin = int(iterations[0])
        self._iterations = iterations if variable in used else iterations[:1]

    def wrong(self) -> int | None:
        """An iteration that reads an element before it writes it, counted from zero; None where none does.

        Raises:
            Unknown: some access is over data that is not known, or has too many elements.
        """
        most = max(_count(item, used) for item, used in zip(self._group, self._used))
        for iterations in (self._different(), self._iterations):
            if iterations is not None and (self._samples or len(iterations) * most <= self._most):
                return self._wrong_in(iterations)
        self.is_followed = False
        return self._wrong_in(np.unique(self._iterations[[0, min(1, len(self._iterations) - 1), -1]]))

    def _different(self) -> Array | None:
        """Iterations of which each of the others does the same as one, in another place; None where that is not known."""
        if len(self._iterations) < 2:
            return None
        shifts, groups = self._shifts(), self._groups()
        if shifts is None or groups is None:
            return None
        for group in groups:
            first, *_ = group
            moved = [shift[group - self._begin] - shift[first - self._begin] for shift in shifts]
            if not self._stay_within(first, moved):
                return None
        return np.array([group[0] for group in groups])

    def _groups(self) -> list[Array] | None:
        """Iterations in groups that answer all conditions alike; None where those depend on too much."""
        variable = self._variable
        answers = [np.zeros((len(self._iterations), 1), np.bool_)]
        for item in self._group:
            for condition in (*item.conditions, *item.begins):
                used = set(variables_in(condition))
                if variable not in used:
                    continue
                spans = [np.arange(begin, begin + extent) for begin, extent in _spans(item, used)]
                if math.prod(map(len, (self._iterations, *spans))) > accesses.MOST:
                    return None
                names = [variable, *(name for name in item.extents if name in used)]
                axes = np.meshgrid(self._iterations, *spans, indexing="ij", sparse=True)
                evaluate = OnArguments({**self._around, **dict(zip(names, axes, strict=True))}, self._given)
                found = np.asarray(evaluate(condition), np.bool_)
                shape = np.broadcast_shapes(*(axis.shape for axis in axes))
                answers.append(np.broadcast_to(found, shape).reshape(len(self._iterations), -1))
        _, which = np.unique(np.concatenate(answers, axis=1), axis=0, return_inverse=True)
        return [self._iterations[which.ravel() == group] for group in range(int(which.max()) + 1)]

    def _shifts(self) -> list[Array] | None:
        """What each iteration adds to each index of all accesses [axes][N]; None unless all agree in how that grows.

        Then iterations of the same conditions do the same, each in another place, if none of them leaves the memory.
        """
        variable, iterations = self._variable, self._iterations
        if self._layout.is_shared:
            return None
        evaluate = OnArguments({**self._around, variable: iterations}, self._given)
        first, *others = [
            [_added(index, variable, self._around.keys(), evaluate) for index in item.indices]
            for item in self._group
        ]
        shifts = [np.broadcast_to(added, iterations.shape) for added in first if added is not None]
        agree = len(shifts) == len(first) and all(
            added is not None and np.array_equal(np.broadcast_to(added, iterations.shape), shift)
            for other in others
            for added, shift in zip(other, shifts, strict=True)
        )
        return shifts if agree else None

    def _stay_within(self, first: int, shifts: Sequence[Array]) -> bool:
        """Whether all accesses of iterations are to elements that exist, as those of the first one tell."""
        moved = [(int(shift.min()), int(shift.max())) for shift in shifts]
        return all(
            _exist(self._touched(item, used, np.array([first])).ends, item.buffer, moved)
            for item, used in zip(self._group, self._used)
        )

    def _wrong_in(self, iterations: Array) -> int | None:
        loads = self._loads(iterations)
        stores = [item for item in self._group if item.stores]
        iteration: int | None = None
        # An init in the first iteration of loops that only it asks for is enough, where there is one.
        for loops_of in (_placed, _used):
            written = [self._instances(item, loops_of(item), iterations) for item in stores]
            iteration = _first_early(loads, written)
            if iteration is None:
                return None
        return None if iteration is None else iteration - self._begin

    def _loads(self, iterations: Array) -> list[_Instances]:
        """The instances of all loads; of those that can be followed, where not all need to be."""
        found = []
        for item, used in zip(self._group, self._used):
            if not item.stores:
                try:
                    found.append(self._instances(item, used, iterations))
                except Unknown:
                    if not self._samples:
                        raise
        return found

    def _touched(self, item: Access, running: set[Any], iterations: Array) -> Touched:
        """What an access touches while loops run that are asked for and the others are at their begin.

        Raises:
            Unknown: it has too many elements, or none.
        """
        if any(isinstance(index, Ramp) for index in item.indices) or any(
            extent <= 0 for _, extent in item.extents.values()
        ):
            raise Unknown
        ranges = {
            variable: np.arange(begin, begin + extent)
            for variable, (begin, extent) in item.extents.items()
            if variable in running
        }
        if len(iterations) * math.prod(len(values) for values in ranges.values()) > self._most:
            if item.stores or not self._samples:
                raise Unknown
            ranges = {
                variable: np.unique(values[[0, min(1, len(values) - 1), -1]])
                for variable, values in ranges.items()
            }
        known = {**{variable: begin for variable, (begin, _) in item.extents.items()}, **self._around}
        ranges = {self._variable: iterations, **ranges}
        found = touched(item, self._layout, ranges, known, self._given, (*item.conditions, *item.begins))
        if not _exist(found.ends, item.buffer):
            self.is_followed = False  # what lies there the calls tell
        return found

    def _instances(self, item: Access, running: set[Any], iterations: Array) -> _Instances:
        """The instances of an access while loops run."""
        found = self._touched(item, running, iterations)
        steps: dict[Any, tuple[int, int]] = {}
        number = 0
        for step, weight in zip(item.path, self._weights):
            if isinstance(step, int):
                number += step * weight
            elif step in running:
                steps[step] = (item.extents[step][0], weight)
        per_element = found.cells.shape[1]
        return _Instances(
            np.repeat(found.sum_of({self._variable: (0, 1)}), per_element),
            found.cells.ravel(),
            np.repeat(found.sum_of(steps, number), per_element),
        )


def _exist(
    ends: Sequence[tuple[int, int]], buffer: Any, moved: Sequence[tuple[int, int]] | None = None
) -> bool:
    """Whether indices between ends, which are moved back and forth, are those of elements."""
    return all(
        low + back >= 0 and high + forth < int(getattr(length, "value", 0))
        for (low, high), (back, forth), length in zip(
            ends, moved or [(0, 0)] * len(ends), buffer.shape, strict=True
        )
    )


@dataclass(frozen=True, slots=True)
class _Instances:
    """Instances of an access [N each]: in which iteration, which cell, and when by program order."""

    iterations: Array
    cells: Array
    times: Array


def _first_early(loads: Sequence[_Instances], stores: Sequence[_Instances]) -> int | None:
    """An iteration in which a load comes before every store to its element; None where there is none."""
    numbers, count = _numbers([*loads, *stores])
    written = np.full(count, _NEVER)
    for store, places in zip(stores, numbers[len(loads) :], strict=True):
        np.minimum.at(written, places, store.times)
    for load, places in zip(loads, numbers):
        early = written[places] >= load.times
        if early.any():
            return int(load.iterations[np.argmax(early)])
    return None


def _numbers(accesses_of: Sequence[_Instances]) -> tuple[list[Array], int]:
    """(a number for the iteration and cell of each instance, the same where both are; one more than the highest)."""
    iterations, cells = (
        np.concatenate([getattr(item, name) for item in accesses_of]) for name in ("iterations", "cells")
    )
    if not cells.size:
        return [item.cells for item in accesses_of], 0
    width = int(cells.max()) + 1
    keys = (iterations - iterations.min()) * width + cells
    count = int(keys.max()) + 1
    if count > _SPARSE * len(keys):
        kept, keys = np.unique(keys, return_inverse=True)
        count = len(kept)
    return np.split(keys, np.cumsum([item.cells.size for item in accesses_of])[:-1]), count


def _added(index: Any, variable: Any, known: Collection[Any], evaluate: OnArguments) -> Any:
    """What a variable adds to an index, as an array of its values; None where that depends on others that are not known."""
    total: Any = np.int64(0)
    for factor, summand in _summands(index, 1):
        variables = set(variables_in(summand))
        if variable in variables:
            if not variables <= {variable, *known}:
                return None
            total = total + factor * evaluate(summand)
    return total


def _summands(expr: Any, factor: int) -> Iterator[tuple[int, Any]]:
    """What an index is the sum of, each with a number that it is multiplied by; sums of types that wrap stay whole."""
    if expr.dtype not in ("int32", "int64"):
        yield factor, expr
    elif isinstance(expr, Add | Sub):
        yield from _summands(expr.a, factor)
        yield from _summands(expr.b, factor if isinstance(expr, Add) else -factor)
    elif isinstance(expr, Mul) and isinstance(expr.b, IntImm):
        yield from _summands(expr.a, factor * expr.b.value)
    else:
        yield factor, expr


def _used(item: Access) -> set[Any]:
    """The variables that say where, and whether, an access happens."""
    return set(variables_in(*item.indices, *item.conditions, *item.begins))


def _placed(item: Access) -> set[Any]:
    """The same but for those of which only an init asks whether they begin."""
    return set(variables_in(*item.indices, *item.conditions))


def _spans(item: Access, running: set[Any]) -> list[tuple[int, int]]:
    """Begin and extent of the loops that run."""
    return [span for variable, span in item.extents.items() if variable in running]


def _count(item: Access, running: set[Any]) -> int:
    return math.prod(max(extent, 1) for _, extent in _spans(item, running))


def _weights(group: Sequence[Access]) -> list[int]:
    """What a step at each depth of the paths counts in program order.

    Raises:
        Unknown: loops without a known extent, or more steps than 64 bits number.
    """
    depth = max(len(item.path) for item in group)
    most = [0] * depth
    for item in group:
        for position, step in enumerate(item.path):
            if not isinstance(step, int) and step not in item.extents:
                raise Unknown
            last = step if isinstance(step, int) else item.extents[step][1] - 1
            most[position] = max(most[position], last)
    weights = [1] * depth
    for position in reversed(range(depth - 1)):
        weights[position] = weights[position + 1] * (most[position + 1] + 1)
    if weights[0] * (most[0] + 1) >= 1 << 62:
        raise Unknown
    return weights

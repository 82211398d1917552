"""Loop structure of a nest as arrays: products of extents, parallel chains, and the straight-line body at the bottom.

Loops that run once for every candidate are left out, and nothing here depends on loops that run once for some of them, so
that facts do not change when unit loops come and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from schedules.population.skeleton import Nest, Skeleton

Array = np.ndarray


@dataclass
class NestLoops:
    """The loops of one nest, outermost first; ``L`` of them run more than once for some candidate.

    Levels count from 0 to L: level l stands for the loops l, l + 1, ..., so level 0 is the whole nest and level L one iteration.
    """

    kept: list[int]
    """Positions of the loops in the nest."""
    extents: Array
    """float64 [L, N]."""
    marks: list[str]
    reductions: list[bool]
    keys: list[int]
    inner: Array
    """Iterations of the loops from each level inwards: float64 [L + 1, N]."""
    outer: Array
    """How often each level is entered: float64 [L + 1, N]."""
    body: Array
    """Level of the straight-line body: all loops from there on are unrolled or vectorized. int64 [N]."""
    jobs: Array
    """Iterations of the parallel region: float64 [N]."""
    launches: Array
    """How often the parallel region is entered: float64 [N], 0 without one."""
    opens_region: bool
    """Whether this is the first nest of its parallel region."""
    vector: int | None
    """Position (among the kept loops) of the loop marked as vector loop."""

    @property
    def count(self) -> int:
        """L."""
        return len(self.kept)

    def product(self, chosen: Sequence[bool]) -> Array:
        """Product of the extents of the chosen loops: float64 [N]."""
        result = np.ones(self.inner.shape[1])
        for position, take in enumerate(chosen):
            if take:
                result = result * self.extents[position]
        return result

    def product_inside(self, level: Array, chosen: Sequence[bool]) -> Array:
        """Product of the extents of those chosen loops that lie at or inside a level [N]: float64 [N]."""
        result = np.ones(self.inner.shape[1])
        for position, take in enumerate(chosen):
            if take:
                result = result * np.where(position >= level, self.extents[position], 1.0)
        return result

    def innermost(self, values: Array, default: float = 0.0) -> Array:
        """Of values [L, N] of loops, that of the innermost loop that runs more than once: [N]."""
        always = self._last_that_always_runs
        result = np.full(self.inner.shape[1], default) if always is None else values[always]
        for position in range(0 if always is None else always + 1, self.count):
            result = np.where(self.extents[position] > 1, values[position], result)
        return np.asarray(result)

    @cached_property
    def _last_that_always_runs(self) -> int | None:
        """The innermost loop that runs more than once for all candidates."""
        found = np.flatnonzero((self.extents > 1).all(axis=1))
        return int(found[-1]) if len(found) else None


def at_level(values: Array, level: Array) -> Array:
    """Of values [L + 1, N], those at each candidate's level [N]; not to be changed in place."""
    if (level == level[:1]).all():
        return np.asarray(values[level[0] if len(level) else 0])
    return np.asarray(values[level, np.arange(values.shape[1])])


def nest_loops(skeleton: Skeleton) -> list[NestLoops]:
    """Loop facts of every nest."""
    users: dict[int, frozenset[int]] = {}
    for number, nest in enumerate(skeleton.nests):
        for loop in nest.loops:
            users[loop.key] = users.get(loop.key, frozenset()) | {number}
    opened: set[int] = set()
    result = []
    for nest in skeleton.nests:
        chain = _parallel_chain(nest, users)
        first = nest.loops[chain[0]].key if chain else None
        opens = first is not None and first not in opened
        # A loop around several nests is not turned into vector instructions.
        shared = {loop.key for loop in nest.loops if len(users[loop.key]) > 1}
        result.append(_loops_of(nest, skeleton.size, chain, opens, shared))
        if first is not None:
            opened.add(first)
    return result


def _parallel_chain(nest: Nest, users: dict[int, frozenset[int]]) -> list[int]:
    """Positions of the marked loops that become one parallel region: adjacent, with nothing between them."""
    chain: list[int] = []
    for position, loop in enumerate(nest.loops):
        if loop.mark == "parallel":
            if chain and (position != chain[-1] + 1 or users[loop.key] != users[nest.loops[chain[0]].key]):
                break
            chain.append(position)
        elif chain:
            break
    return chain


def _loops_of(nest: Nest, size: int, chain: list[int], opens: bool, shared: set[int]) -> NestLoops:
    kept = [position for position, loop in enumerate(nest.loops) if (loop.extent != 1).any()]
    count = len(kept)
    extents = np.empty((count, size))
    for row, position in enumerate(kept):
        # A loop without iterations counts as one: what follows are ratios.
        extents[row] = np.maximum(nest.loops[position].extent, 1)
    inner = np.ones((count + 1, size))
    outer = np.ones((count + 1, size))
    for level in range(count):
        outer[level + 1] = outer[level] * extents[level]
    for level in range(count - 1, -1, -1):
        inner[level] = inner[level + 1] * extents[level]
    kept_loops = [nest.loops[position] for position in kept]
    marks = ["" if loop.mark == "vectorize" and loop.key in shared else loop.mark for loop in kept_loops]
    body = np.full(size, count, dtype=np.int64)
    straight = np.ones(size, dtype=bool)
    for level in range(count - 1, -1, -1):
        if marks[level] not in ("unroll", "vectorize"):
            straight = straight & (extents[level] == 1)
            if not straight.any():
                break
        body = np.where(straight, level, body)
    jobs, launches = np.ones(size), np.zeros(size)
    if chain:
        launches = np.ones(size)
        for position, loop in enumerate(nest.loops[: chain[-1] + 1]):
            if position in chain:
                jobs = jobs * loop.extent
            else:
                launches = launches * loop.extent
    vector = next((row for row in range(count - 1, -1, -1) if marks[row] == "vectorize"), None)
    return NestLoops(
        kept,
        extents,
        marks,
        [loop.is_reduction for loop in kept_loops],
        [loop.key for loop in kept_loops],
        inner,
        outer,
        body,
        jobs,
        launches,
        opens,
        vector,
    )

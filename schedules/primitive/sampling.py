"""Sampling: random decisions, drawn from a seeded generator so that the same seed gives the same schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

import numpy as np

from ir import tir
from ir.tir import IterVar

from ..affine import mentions
from ..analysis import consumers_of, is_output_block, require, why_not_complete, why_not_reduction
from ..argument import Argument, Block, Decision, Loop
from ..declaration import PrimitiveFamily, primitive
from ..error import ScheduleError
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..state import INLINE, ROOT, ComputeLocation, ScheduleState
from ..tree import BlockNode, LoopNode, blocks_below, loops_around
from .inline import why_not_inlinable


def _tile(sch: ScheduleState, decision: Any, given: Mapping[str, Any]) -> list[int]:
    """A random row of :func:`perfect_tiles`."""
    method, loop, n, limit = "sample_perfect_tile", given["loop"], given["n"], given["max_innermost_factor"]
    extent = _constant_extent(sch, loop)
    if decision is not None:
        return _given_tile(extent, n, decision, method)
    require(n >= 1, method, f"n must be at least 1, got {n}")
    table = perfect_tiles(extent, n, limit) if n > 1 else np.array([[extent]])
    require(len(table) > 0, method, f"extent {extent} has no tile with factors up to {limit}")
    return _random_row(sch, table)


def _partitioned_tile(sch: ScheduleState, decision: Any, given: Mapping[str, Any]) -> list[int]:
    """A random factorization whose factors from ``partition_pos`` on multiply to a multiple of ``innerpart_factor``."""
    loop, n, position, factor = (given[name] for name in ("loop", "n", "partition_pos", "innerpart_factor"))
    extent = _constant_extent(sch, loop)
    if decision is not None:
        return _given_tile(extent, n, decision, "sample_partitioned_tile")
    return _random_row(sch, partitioned_tiles(extent, n, position, factor))


def _constant_extent(sch: ScheduleState, loop: LoopRV) -> int:
    node = sch._loop(loop)
    if not isinstance(node.extent, tir.IntImm):
        raise ScheduleError(
            f"{sch._step}: loop {node.var.name!r} has extent {node.extent}, it must be constant"
        )
    return int(node.extent.value)


def _random_row(sch: ScheduleState, table: np.ndarray) -> list[int]:
    return [int(item) for item in table[int(sch._generator.integers(len(table)))]]


def _given_tile(extent: int, n: int, decision: Sequence[Any], method: str) -> list[int]:
    factors = [int(getattr(item, "value", item)) for item in decision]
    require(len(factors) == n, method, f"the decision has {len(factors)} factors, expected {n}")
    # A decision made for another extent: keep the inner tiles as far as they fit, cover the loop with the outer.
    return factors if math.prod(factors) == extent else _fit_tile(extent, factors)


def _fit_tile(extent: int, factors: Sequence[int]) -> list[int]:
    """Divide ``extent`` by the inner factors from the innermost outwards, taking the largest divisor up to each."""
    rest, inner = extent, []
    for factor in reversed(list(factors[1:])):
        best = max(d for d in range(1, min(factor, rest) + 1) if rest % d == 0)
        inner.append(best)
        rest //= best
    return [rest, *reversed(inner)]


def _category(sch: ScheduleState, decision: Any, given: Mapping[str, Any]) -> int:
    """The position of a candidate drawn with the given probabilities."""
    method, candidates, probs = "sample_categorical", given["candidates"], given["probs"]
    require_choice(candidates, probs)
    if decision is None:
        weights = np.asarray(probs, dtype=np.float64)
        return int(sch._generator.choice(len(candidates), p=weights / weights.sum()))
    require(
        0 <= decision < len(candidates),
        method,
        f"decision {decision} is not a position among {len(candidates)} candidates",
    )
    return int(decision)


def require_choice(candidates: Sequence[Any], probs: Sequence[Any]) -> None:
    """Refuse what ``sample_categorical`` cannot draw from: candidates are integers, probabilities numbers that say how they are to each
    other.
    """
    method = "sample_categorical"
    require(
        len(candidates) == len(probs) and len(probs) > 0,
        method,
        f"got {len(candidates)} candidates and {len(probs)} probabilities; their numbers must agree and be positive",
    )
    odd = [item for item in candidates if not isinstance(getattr(item, "value", item), Integral)]
    require(
        not odd,
        method,
        f"candidates are integers, got {odd[:1]!r}; sample the positions of other things, range(n), and look them up by sch.get",
    )
    are_weights = all(isinstance(item, Real) and 0 <= float(item) < math.inf for item in probs)
    require(
        are_weights and any(item > 0 for item in probs),
        method,
        f"probabilities are numbers of at least 0, one of them larger, got {list(probs)!r}",
    )


def _location(sch: ScheduleState, decision: Any, given: Mapping[str, Any]) -> int:
    """One of :func:`compute_locations`."""
    choices = compute_locations(sch._block(given["block"]))
    if decision is None:
        return int(sch._generator.choice(list(choices)))
    if decision in choices:
        return int(decision)
    # A decision made for another structure: the nearest location further out.
    return max((item for item in choices if ROOT <= item < decision), default=ROOT)


class _Values(Argument):
    """A sequence of numbers, kept as a list."""

    def record(self, sch: ScheduleState, value: Any) -> Sequence[Any]:
        return (list(value),)


class SamplingPrimitives(PrimitiveFamily):
    """Random decisions, recorded in the trace."""

    @primitive(
        "SampleCategorical",
        is_pure=True,
        candidates=_Values(),
        probs=_Values(),
        decision=Decision(_category),
    )
    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> ExprRV:
        """One of ``candidates``, which are integers, drawn with probabilities ``probs``; ``decision`` is its position.

        Raises:
            ScheduleError: there are not as many probabilities as candidates, one of either is none, or the decision is no position.
        """
        assert decision is not None
        return self._sampled([int(candidates[decision])], "int32")[0]

    @primitive(
        "SamplePerfectTile",
        is_pure=True,
        loop=Loop(),
        n=Argument(),
        max_innermost_factor=Argument(),
        decision=Decision(_tile),
    )
    def sample_perfect_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
    ) -> list[ExprRV]:
        """``n`` factors whose product is the loop's extent, uniformly among all; the innermost is bounded.

        Raises:
            ScheduleError: the extent is not constant, or the decision has another number of factors.
        """
        assert decision is not None
        return self._sampled(decision, self._loop(loop).var.dtype)

    @primitive("SampleComputeLocation", is_pure=True, block=Block(), decision=Decision(_location))
    def sample_compute_location(self, block: BlockRV | str, decision: int | None = None) -> LoopRV:
        """A loop at which the block may be computed.

        ``decision`` is the position of the loop around the first consumer; -1 leaves the block at the root, and -2 inlines it.
        """
        assert decision is not None
        rv = LoopRV()
        is_loop = decision not in (INLINE, ROOT)
        loops = _loops_of_consumers(self._block(block)) if is_loop else []
        self._table[rv] = loops[decision] if is_loop else ComputeLocation(decision)
        return rv

    @primitive(
        "SamplePartitionedTile",
        is_pure=True,
        loop=Loop(),
        n=Argument(),
        partition_pos=Argument(),
        innerpart_factor=Argument(),
        decision=Decision(_partitioned_tile),
    )
    def sample_partitioned_tile(
        self,
        loop: LoopRV,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        """``n`` factors whose product is the loop's extent; those from ``partition_pos`` on multiply to a multiple of
        ``innerpart_factor``.

        Raises:
            ScheduleError: the extent is not constant or no such multiple, or the decision has another number of factors.
        """
        assert decision is not None
        return self._sampled(decision, self._loop(loop).var.dtype)

    # What follows narrows decisions while they are open, in a :class:`~schedules.population.SketchSchedule`; a number that is drawn stays.

    def restrict_tile(self, rvs: Sequence[ExprRV], keep: Callable[[np.ndarray], np.ndarray]) -> None:
        """Leave open only those factors of a tile, rows of int64 [rows, n], that ``keep(table)``, bool [rows], accepts."""

    def constrain(self, rvs: Sequence[ExprRV], allowed: Callable[..., np.ndarray]) -> None:
        """Leave open only candidates for which ``allowed(*values)`` holds; values are arrays [N], one per random variable."""

    def constrain_numbers(self, numbers: Sequence[tir.PrimExpr], allowed: Callable[..., np.ndarray]) -> None:
        """Leave open only candidates for which ``allowed(*values)`` holds; ``numbers`` are expressions of what is open, such as extents."""

    def has_candidates(self) -> bool:
        """Whether some decisions that were left open are found."""
        return True

    def largest_of(self, rv: ExprRV) -> int:
        """The largest number that a random variable may be."""
        return int(getattr(self._table[rv], "value", self._table[rv]))

    def _sampled(self, values: Sequence[int], dtype: str) -> list[ExprRV]:
        rvs = [ExprRV() for _ in values]
        self._table.update(zip(rvs, [tir.const(item, dtype) for item in values], strict=True))
        return rvs


@lru_cache(maxsize=4096)
def perfect_tiles(extent: int, n: int, max_innermost_factor: int) -> np.ndarray:
    """All ordered factorizations of ``extent`` into ``n`` factors with a bounded last one, as rows of int64 [rows, n].

    There is always a row: when no divisor respects the bound, the last factor is 1.
    """
    limit = max(1, max_innermost_factor)
    rows = [(tile,) for tile in _divisors(extent) if tile <= limit]
    full: list[tuple[int, ...]] = []
    for (innermost,) in rows:
        full += [(*outer, innermost) for outer in _factorizations(extent // innermost, n - 1)]
    table = np.array(full, dtype=np.int64).reshape(-1, n)
    table.setflags(write=False)
    return table


def partitioned_tiles(extent: int, n: int, position: int, factor: int) -> np.ndarray:
    """All ordered factorizations of ``extent`` into ``n`` factors whose factors from ``position`` on multiply to a multiple of
    ``factor``, as rows of int64 [rows, n].

    Raises:
        ScheduleError: there are none.
    """
    method = "sample_partitioned_tile"
    require(n >= 1, method, f"n must be at least 1, got {n}")
    require(
        0 <= position < n and factor >= 1,
        method,
        f"partition_pos {position} is no position among {n} factors, or innerpart_factor {factor} is below 1",
    )
    require(extent % factor == 0, method, f"extent {extent} is no multiple of {factor}")
    table = perfect_tiles(extent, n, extent) if n > 1 else np.array([[extent]], dtype=np.int64)
    return table[np.prod(table[:, position:], axis=1) % factor == 0]


@lru_cache(maxsize=65536)
def _divisors(extent: int) -> tuple[int, ...]:
    small = [d for d in range(1, int(extent**0.5) + 1) if extent % d == 0]
    return tuple(sorted({*small, *[extent // d for d in small]}))


@lru_cache(maxsize=65536)
def _factorizations(extent: int, n: int) -> tuple[tuple[int, ...], ...]:
    if n == 0:
        return ((),) if extent == 1 else ()
    if n == 1:
        return ((extent,),)
    return tuple(
        (first, *rest) for first in _divisors(extent) for rest in _factorizations(extent // first, n - 1)
    )


def compute_locations(block: BlockNode) -> dict[int, LoopNode | None]:
    """The places at which a block may be computed: decision -> loop (None for the root and for inlining).

    Loops are those around all consumers, by their position around the first; behind a reduction loop no data-parallel loop
    follows, since the block would be computed anew for each of its iterations.
    """
    choices: dict[int, LoopNode | None] = {ROOT: None}
    if why_not_inlinable(block) is None:
        choices[INLINE] = None
    consumers = consumers_of(block)
    if is_output_block(block) or not consumers:
        return choices
    complete_or_reduction = why_not_complete(block) is None or why_not_reduction(block) is None
    if not complete_or_reduction:
        return choices
    reduction_seen = False
    for position, loop in enumerate(_loops_of_consumers(block)):
        if any(loop is item for item in loops_around(block)):
            continue
        reduces = _reduces(loop)
        if reduction_seen and not reduces:
            break
        reduction_seen = reduction_seen or reduces
        choices[position] = loop
    return choices


def _loops_of_consumers(block: BlockNode) -> list[LoopNode]:
    """The loops around all consumers of a block, outermost first."""
    first, *others = consumers_of(block)
    common = loops_around(first)
    for consumer in others:
        around = loops_around(consumer)
        common = [loop for loop in common if any(loop is item for item in around)]
    return common


def _reduces(loop: LoopNode) -> bool:
    """Whether a block below uses the loop for a reduction variable."""
    return any(
        item.iter_type == IterVar.CommReduce and mentions(value, {loop.var})
        for block in blocks_below(loop)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
    )

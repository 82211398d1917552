"""Methods that make random decisions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir import tir

from ..error import ScheduleError
from ..primitive import sampling
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..state import ComputeLocation, ScheduleState


class SamplingMethods(ScheduleState):
    """Random decisions, recorded in the trace."""

    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> ExprRV:
        """One of ``candidates``, drawn with probabilities ``probs``; ``decision`` is its position."""
        if len(candidates) != len(probs):
            raise ScheduleError(
                f"sample_categorical: {len(candidates)} candidates but {len(probs)} probabilities"
            )
        if decision is None:
            decision = sampling.sample_categorical(self._generator, candidates, probs)
        if not 0 <= decision < len(candidates):
            raise ScheduleError(
                f"sample_categorical: decision {decision} is not a position among {len(candidates)} candidates"
            )
        rv = ExprRV()
        self._table[rv] = tir.const(int(candidates[decision]), "int32")
        self._record("SampleCategorical", [], [list(candidates), list(probs)], [rv], int(decision))
        return rv

    def sample_perfect_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
    ) -> list[ExprRV]:
        """``n`` factors whose product is the loop's extent, uniformly among all; the innermost is bounded."""
        node = self._loop(loop, "sample_perfect_tile")
        if not isinstance(node.extent, tir.IntImm):
            raise ScheduleError(
                f"sample_perfect_tile: loop {node.var.name!r} has extent {node.extent}, it must be constant"
            )
        extent = node.extent.value
        factors = self._tile_decision(extent, n, max_innermost_factor, decision)
        rvs = [ExprRV() for _ in factors]
        self._table.update(zip(rvs, [tir.const(item, node.var.dtype) for item in factors], strict=True))
        self._record("SamplePerfectTile", [loop], [n, max_innermost_factor], rvs, list(factors))
        return rvs

    def _tile_decision(
        self, extent: int, n: int, max_innermost_factor: int, decision: Sequence[int] | None
    ) -> list[int]:
        if decision is None:
            return list(sampling.sample_perfect_tile(self._generator, extent, n, max_innermost_factor))
        factors = [int(getattr(item, "value", item)) for item in decision]
        if len(factors) != n:
            raise ScheduleError(f"sample_perfect_tile: the decision has {len(factors)} factors, expected {n}")
        inner = int(np.prod(factors[1:], dtype=np.int64))
        if inner * factors[0] != extent:
            # A decision made for another extent: keep the inner tiles as far as they fit, cover the loop with the outer.
            factors = _fit_tile(extent, factors)
        return factors

    def sample_compute_location(self, block: BlockRV | str, decision: int | None = None) -> LoopRV:
        """A loop at which the block may be computed.

        ``decision`` is the position of the loop around the first consumer; -1 leaves the block at the root, and -2 inlines it.
        """
        block = self._as_rv(block)
        node = self._block(block, "sample_compute_location")
        choices = sampling.compute_locations(node)
        if decision is None:
            decision = int(self._generator.choice(list(choices)))
        if decision not in choices:
            # A decision made for another structure: the nearest location further out.
            decision = max((item for item in choices if -1 <= item < decision), default=-1)
        rv = LoopRV()
        self._table[rv] = choices[decision] or ComputeLocation(decision)
        self._record("SampleComputeLocation", [block], [], [rv], decision)
        return rv

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
        """
        node = self._loop(loop, "sample_partitioned_tile")
        if not isinstance(node.extent, tir.IntImm):
            raise ScheduleError(
                f"sample_partitioned_tile: loop {node.var.name!r} has extent {node.extent}, it must be constant"
            )
        extent = node.extent.value
        if decision is None:
            factors = sampling.sample_partitioned_tile(
                self._generator, extent, n, partition_pos, innerpart_factor
            )
        else:
            factors = tuple(self._tile_decision(extent, n, extent, decision))
        rvs = [ExprRV() for _ in factors]
        self._table.update(zip(rvs, [tir.const(item, node.var.dtype) for item in factors], strict=True))
        self._record(
            "SamplePartitionedTile", [loop], [n, partition_pos, innerpart_factor], rvs, list(factors)
        )
        return rvs


def _fit_tile(extent: int, factors: Sequence[int]) -> list[int]:
    """Divide ``extent`` by the inner factors from the innermost outwards, taking the largest divisor up to each."""
    rest, inner = extent, []
    for factor in reversed(list(factors[1:])):
        best = max(d for d in range(1, min(factor, rest) + 1) if rest % d == 0)
        inner.append(best)
        rest //= best
    return [rest, *reversed(inner)]

"""Methods that choose where a block is computed."""

from __future__ import annotations

from ir import tir

from ..primitive import compute_at, inline
from ..primitive import rolling_buffer as rolling
from ..random_variable import BlockRV, LoopRV
from ..state import ComputeLocation, ScheduleState


class PlacementMethods(ScheduleState):
    """Moving blocks under loops, and into other blocks."""

    def compute_at(
        self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a producer under a loop of its consumers, computing only what one iteration needs.

        ``B = f(A); for i: C[i] = g(B[i])`` becomes ``for i: B[i] = f(A[i]); C[i] = g(B[i])``.

        Raises:
            ScheduleError: a consumer is not under the loop, or the block writes an output, or it is neither complete nor a
                reduction.
        """
        block = self._as_rv(block)

        def step() -> None:
            node = self._block(block, "compute_at")
            target = self._node(loop)
            if isinstance(target, ComputeLocation):
                if target.decision == -2:
                    inline.compute_inline(node)
                return
            compute_at.compute_at(node, self._loop(loop, "compute_at"), preserve_unit_loops, index)

        self._run("ComputeAt", [block, loop], [preserve_unit_loops, index], step)

    def reverse_compute_at(
        self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a consumer under a loop of its producers, consuming what one iteration produces.

        ``for i: B[i] = f(A[i])`` followed by ``C = g(B)`` becomes ``for i: B[i] = f(A[i]); C[i] = g(B[i])``.
        """
        block = self._as_rv(block)

        def step() -> None:
            node = self._block(block, "reverse_compute_at")
            target = self._node(loop)
            if isinstance(target, ComputeLocation):
                if target.decision == -2:
                    inline.reverse_compute_inline(node)
                return
            compute_at.reverse_compute_at(
                node, self._loop(loop, "reverse_compute_at"), preserve_unit_loops, index
            )

        self._run("ReverseComputeAt", [block, loop], [preserve_unit_loops, index], step)

    def compute_inline(self, block: BlockRV | str) -> None:
        """Replace every load of the block's result by its expression.

        ``B[i] = A[i] + 1; C[i] = B[i] * 2`` becomes ``C[i] = (A[i] + 1) * 2``.
        """
        block = self._as_rv(block)
        self._run(
            "ComputeInline", [block], [], lambda: inline.compute_inline(self._block(block, "compute_inline"))
        )

    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        """Merge a block into its only producer: ``B[i] = A[i] + 1; C[i] = B[i] * 2`` becomes ``C[i] = (A[i] + 1) * 2``."""
        block = self._as_rv(block)
        self._run(
            "ReverseComputeInline",
            [block],
            [],
            lambda: inline.reverse_compute_inline(self._block(block, "reverse_compute_inline")),
        )

    def rolling_buffer(self, block: BlockRV | str, write_buffer_index: int | str | tir.Buffer) -> None:
        """Keep only a window of what a block computes for overlapping tiles, and compute only what is new in each step.

        ``for i in 8: for k in 3: B[i + k] = f(i + k)`` becomes
        ``for i in 8: for k in 3: if i < 1 or 2 <= k: B[(i + k) % 3] = f(i + k)``.
        """
        block = self._as_rv(block)
        index = self._buffer_index(block, write_buffer_index, True, "rolling_buffer")
        self._run(
            "RollingBuffer",
            [block],
            [index],
            lambda: rolling.rolling_buffer(self._block(block, "rolling_buffer"), index),
        )

"""Methods for reductions and for padding."""

from __future__ import annotations

from collections.abc import Sequence

from ..primitive import padding as padding_primitive
from ..primitive import reduction
from ..primitive import rfactor as rfactor_primitive
from ..random_variable import BlockRV, LoopRV
from ..state import ScheduleState


class ReductionMethods(ScheduleState):
    """Splitting reductions and paddings into blocks."""

    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split a reduction into an init block before ``loop`` and an update block; returns the init block.

        ``for i: for k: (init: C[i] = 0) C[i] += A[i, k]`` at loop k becomes ``for i: C[i] = 0; for k: C[i] += A[i, k]``.
        """
        block = self._as_rv(block)
        return self._run(
            "DecomposeReduction",
            [block, loop],
            [],
            lambda: reduction.decompose_reduction(
                self._block(block, "decompose_reduction"), self._loop(loop, "decompose_reduction")
            ),
        )

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Factor a reduction loop out into partial results: returns the block that computes them.

        ``for i: for k: C[i] += A[i, k]`` by k becomes ``for i: for k: C_rf[k, i] = A[i, k]`` and ``for i: for k: C[i] += C_rf[k, i]``.
        """
        return self._run(
            "RFactor",
            [loop],
            [factor_axis],
            lambda: rfactor_primitive.rfactor(self._loop(loop, "rfactor"), factor_axis),
        )

    def decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split padding into filling with the constant (returned, placed before ``loop``) and copying the inside.

        ``for i in 10: B[i] = if_then_else(1 <= i < 9, A[i - 1], 0)`` becomes
        ``for i in 10: B[i] = 0`` and ``for i in 8: B[i + 1] = A[i]``.
        """
        block = self._as_rv(block)
        return self._run(
            "DecomposePadding",
            [block, loop],
            [],
            lambda: padding_primitive.decompose_padding(
                self._block(block, "decompose_padding"), self._loop(loop, "decompose_padding")
            ),
        )

    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int]) -> None:
        """Round the extents of an einsum up to multiples of ``padding``, one per iteration variable.

        A matmul of 127 by padding 16 runs over 128, on inputs ``A_pad``, ``B_pad`` filled up with zeros, and its result
        ``C_pad`` is cut to ``C`` afterwards.
        """
        block = self._as_rv(block)
        factors = [int(item) for item in padding]
        self._run(
            "PadEinsum",
            [block],
            [factors],
            lambda: padding_primitive.pad_einsum(self._block(block, "pad_einsum"), factors),
        )

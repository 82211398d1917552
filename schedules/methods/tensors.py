"""Methods that treat loop nests as units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import tir

from ..error import ScheduleError
from ..primitive import blockize as blockize_primitive
from ..primitive import tensorize as tensorize_primitive
from ..random_variable import BlockRV, LoopRV
from ..state import ScheduleState
from ..tree import BlockNode


class TensorMethods(ScheduleState):
    """Blocks of blocks, and tensor intrinsics."""

    def blockize(self, target: LoopRV | Sequence[BlockRV], preserve_unit_iters: bool = True) -> BlockRV:
        """Turn the nest under a loop, or consecutive blocks, into one block.

        ``for i_0: for i_1 in 16: B[i_0 * 16 + i_1]`` by i_1 becomes ``for i_0: block B_o(vi_o = i_0): for i_1 in 16:
        B[vi_o * 16 + i_1]``.

        Raises:
            ScheduleError: the loop holds several blocks, or bindings cannot be divided at the loop.
        """
        if isinstance(target, list | tuple):
            blocks = [self._as_rv(item) for item in target]
            return self._run(
                "Blockize",
                [blocks],
                [preserve_unit_iters],
                lambda: blockize_primitive.blockize_blocks(
                    [self._block(item, "blockize") for item in blocks], preserve_unit_iters
                ),
            )
        return self._run(
            "Blockize",
            [target],
            [preserve_unit_iters],
            lambda: blockize_primitive.blockize_loop(self._loop(target, "blockize"), preserve_unit_iters),
        )

    def tensorize(
        self, block_or_loop: BlockRV | LoopRV | str, tensor_intrin: str, preserve_unit_iters: bool = True
    ) -> None:
        """Replace a block, or the nest under a loop, by a registered tensor intrinsic that computes the same.

        The nest is blockized, its body becomes the intrinsic's implementation, and the intrinsic's buffers are views of the
        block's tiles.

        Raises:
            ScheduleError: no such intrinsic, or its description does not match; the message says where.
        """
        target = self._as_rv(block_or_loop)

        def step() -> None:
            intrin = tir.TensorIntrin.get(tensor_intrin, allow_missing=True)
            if intrin is None:
                known = ", ".join(sorted(tir.TensorIntrin.registry)) or "none"
                raise ScheduleError(
                    f"tensorize: no tensor intrinsic {tensor_intrin!r} is registered; there are: {known}"
                )
            node: Any = self._node(target)
            node = (
                self._block(target, "tensorize")
                if isinstance(node, BlockNode)
                else self._loop(target, "tensorize")
            )
            tensorize_primitive.tensorize(node, intrin, preserve_unit_iters)

        self._run("Tensorize", [target], [tensor_intrin, preserve_unit_iters], step)

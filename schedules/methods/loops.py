"""Methods that restructure loops and say how they run."""

from __future__ import annotations

from collections.abc import Sequence

from ..primitive import for_kind, loops, partition
from ..random_variable import BlockRV, DecisionVar, ExprRV, LoopRV
from ..state import ScheduleState
from ..tree import LoopNode


class LoopMethods(ScheduleState):
    """Splitting, joining, ordering, and binding loops."""

    def fuse(self, *loops_to_fuse: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Join directly nested loops into one.

        ``for i in 4: for j in 8: B[i, j]`` becomes ``for i_j_fused in 32: B[i_j_fused // 8, i_j_fused % 8]``.

        Raises:
            ScheduleError: a loop is not the only child of the one before it, does not start at 0, or has annotations.
        """
        items = (
            list(loops_to_fuse[0])
            if len(loops_to_fuse) == 1 and isinstance(loops_to_fuse[0], list)
            else list(loops_to_fuse)
        )
        return self._run(
            "Fuse",
            items,
            [preserve_unit_iters],
            lambda: loops.fuse([self._loop(item, "fuse") for item in items], preserve_unit_iters),
        )

    def split(
        self,
        loop: LoopRV,
        factors: Sequence[int | ExprRV | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Replace a loop by nested loops; one factor may be None and is inferred.

        ``for i in 64: B[i]`` with factors [None, 8] becomes ``for i_0 in 8: for i_1 in 8: B[i_0 * 8 + i_1]``. Factors that
        do not divide the extent add a predicate (unless ``disable_predication``).

        Raises:
            ScheduleError: the loop does not start at 0, has annotations, or the factors are too small or more than one is None.
        """
        values = [self._value(item) for item in factors]
        exact = any(isinstance(item, DecisionVar) for item in values)

        def step() -> list[LoopNode]:
            node = self._loop(loop, "split")
            return loops.split(node, values, preserve_unit_iters, disable_predication, exact)

        return self._run("Split", [loop, *factors], [preserve_unit_iters, disable_predication], step)

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put loops of one chain into the given order, outermost first.

        ``for i: for j: for k: S`` reordered by (k, i) becomes ``for k: for j: for i: S``.

        Raises:
            ScheduleError: the loops are not on one chain, or a block below must run in order.
        """
        items = (
            list(ordered_loops[0])
            if len(ordered_loops) == 1 and isinstance(ordered_loops[0], list)
            else list(ordered_loops)
        )
        self._run(
            "Reorder", items, [], lambda: loops.reorder([self._loop(item, "reorder") for item in items])
        )

    def add_unit_loop(self, block_or_loop: LoopRV | BlockRV) -> LoopRV:
        """A loop of extent 1 around a block or loop: ``B[0]`` becomes ``for u in 1: B[0]``."""
        return self._run(
            "AddUnitLoop", [block_or_loop], [], lambda: loops.add_unit_loop(self._node(block_or_loop))
        )

    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations on several cores; every block below must allow any order of this loop."""
        self._run("Parallel", [loop], [], lambda: for_kind.parallel(self._loop(loop, "parallel")))

    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations as vector lanes; every block below must allow any order of this loop."""
        self._run("Vectorize", [loop], [], lambda: for_kind.vectorize(self._loop(loop, "vectorize")))

    def unroll(self, loop: LoopRV) -> None:
        """Write out the iterations."""
        self._run("Unroll", [loop], [], lambda: for_kind.unroll(self._loop(loop, "unroll")))

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind to a GPU axis: blockIdx.x/y/z, threadIdx.x/y/z, vthread.x/y/z."""
        self._run("Bind", [loop], [thread_axis], lambda: for_kind.bind(self._loop(loop, "bind"), thread_axis))

    def loop_partition(
        self, loop: LoopRV, factors: Sequence[int | ExprRV | None], preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        """Cut a loop into consecutive loops of the given extents; None (or what is left over) takes the rest.

        ``for i in 64: B[i]`` with factors [16] becomes ``for i0 in 16: B[i0]`` and ``for i1 in range(16, 64): B[i1]``, each in
        a block of its own.
        """
        values = [self._value(item) for item in factors]
        return self._run(
            "LoopPartition",
            [loop, *factors],
            [preserve_unit_iters],
            lambda: partition.loop_partition(self._loop(loop, "loop_partition"), values, preserve_unit_iters),
        )

    def merge(self, *loops_to_merge: LoopRV) -> LoopRV:
        """Run loops that stand beside each other in one loop.

        ``for i: B[i] = A[i]`` followed by ``for i: C[i] = B[i]`` becomes ``for i_m: B[i_m] = A[i_m]; C[i_m] = B[i_m]``.

        Raises:
            ScheduleError: the extents differ, other statements lie between, or an iteration needs what a later one computes.
        """
        items = (
            list(loops_to_merge[0])
            if len(loops_to_merge) == 1 and isinstance(loops_to_merge[0], list)
            else list(loops_to_merge)
        )
        return self._run(
            "Merge", items, [], lambda: partition.merge([self._loop(item, "merge") for item in items])
        )

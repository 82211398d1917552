"""Random steps of a schedule that most often are about reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ir.tir import IterVar
from schedules import ScheduleError
from schedules.affine import mentions
from schedules.tree import BlockNode, all_blocks, loops_around

from .candidates.intrinsics import product
from .schedules_steps import WiderStep


class ReductionStep(WiderStep):
    """Steps that most often are about reductions, and patterns of such."""

    often: ClassVar[Sequence[str]] = (
        *(
            "split",
            "split",
            "fuse",
            "reorder",
            "reorder some",
            "reorder some",
            "decompose_reduction",
            "rfactor",
        ),
        *(
            "rfactor",
            "decompose_reduction",
            "split and rfactor",
            "blockize",
            "vectorize last",
            "parallel first",
        ),
        *("compute_at", "reverse_compute_at", "reverse_compute_inline", "compute_inline", "bind"),
    )

    def drawn_block(self) -> str:
        reduced = [name for name in self.names if self._reduces(name)]
        return self.random.choice(reduced if reduced and self.random.random() < 0.7 else self.names)

    def _reduces(self, name: str) -> bool:
        return any(item.iter_type == IterVar.CommReduce for item in self._node(name).iter_vars)

    def _node(self, name: str) -> BlockNode:
        return next(block for block in all_blocks(self.sch._root("main")) if block.name == name)

    def actions(self) -> dict[str, Callable[[], Any]]:
        sch, pick = self.sch, self.random.choice
        return {
            **super().actions(),
            "bind": lambda: sch.bind(
                self.loop(), pick(["threadIdx.x", "threadIdx.y", "blockIdx.x", "vthread.x"])
            ),
            "reorder some": self.reorder_some,
            "rfactor": self.rfactor,
            "decompose_reduction": self.decompose_reduction,
            "split and rfactor": self.split_and_rfactor,
            "tensorize": self.tensorize,
            "compute_inline": lambda: sch.compute_inline(self.other_block()),
            "reverse_compute_inline": lambda: sch.reverse_compute_inline(self.other_block()),
            "parallel": lambda: sch.parallel(self.loop(IterVar.DataPar)),
            "vectorize": lambda: sch.vectorize(self.loop(IterVar.DataPar)),
        }

    def loop(self, kind: int | None = None) -> Any:
        """A loop of the block; most often one that feeds variables of a kind alone, if one is given and there is such a one."""
        fitting = [] if kind is None or self.random.random() < 0.2 else self.feeding(kind)
        return self.random.choice(fitting) if fitting else super().loop()

    def feeding(self, kind: int) -> list[Any]:
        """The loops that feed variables of a kind alone, outermost first."""
        node = self._node(self.name)
        found = []
        for loop, variable in zip(self.loops, loops_around(node), strict=True):
            fed = {
                item.iter_type
                for item, value in zip(node.iter_vars, node.iter_values, strict=True)
                if mentions(value, {variable.var})
            }
            if fed == {kind}:
                found.append(loop)
        return found

    def turn_to_init(self) -> None:
        """Most often the step is then about a block that has an init, if there is such a one."""
        with_init = [name for name in self.names if self._node(name).init is not None]
        if with_init and self.random.random() < 0.9:
            self.name = self.random.choice(with_init)
            self.loops, self.block = (
                self.sch.get_loops(self.name),
                self.sch.get(self.sch.get_block(self.name)),
            )

    def rfactor(self) -> None:
        self.turn_to_init()
        self.sch.rfactor(self.loop(IterVar.CommReduce), self.random.choice([0, 0, 0, -1, 1]))

    def decompose_reduction(self) -> None:
        self.turn_to_init()
        self.sch.decompose_reduction(self.name, self.outermost_or_any())

    def outermost_or_any(self) -> Any:
        """A loop before which an init may stand: the first that feeds a reduction, one outside of it, or any."""
        first = self.feeding(IterVar.CommReduce)[:1]
        return first[0] if first and self.random.random() < 0.7 else self.loop()

    def other_block(self) -> str:
        """A block without reductions, if there is one."""
        return self.random.choice([name for name in self.names if not self._reduces(name)] or self.names)

    def other_loop(self) -> Any:
        """A loop around other blocks only, if there is one."""
        own = loops_around(self._node(self.name))
        others = [
            loop
            for name in self.names
            for loop, node in zip(self.sch.get_loops(name), loops_around(self._node(name)), strict=True)
            if not any(node is item for item in own)
        ]
        return self.random.choice(others) if others else self.loop()

    def reorder_some(self) -> None:
        """Neighbouring loops in another order."""
        chain = self.chain()
        self.sch.reorder(*self.random.sample(chain, len(chain)))

    def split_and_rfactor(self) -> None:
        """A common pattern: partial results of the tiles of a loop."""
        self.turn_to_init()
        halves = self.sch.split(self.loop(IterVar.CommReduce), [None, self.random.randint(1, 4)])
        self.before = self.sch.mod
        self.sch.rfactor(self.random.choice(halves), self.random.randint(0, 1))

    def tensorize(self) -> None:
        """The innermost loops as an intrinsic that does what they do."""
        inner = self.loops[-self.random.randint(1, 3) :]
        if not inner:
            raise ScheduleError("the block has no loops")
        self.sch.tensorize(inner[0], product(*[self.random.choice([1, 2, 3, 4]) for _ in range(3)]))

"""Random steps of a schedule that most often are about reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ir.tir import IterVar
from schedules import ScheduleError

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
        block = self.sch.get(self.sch.get_block(name))
        return any(item.iter_type == IterVar.CommReduce for item in block.iter_vars)

    def actions(self) -> dict[str, Callable[[], Any]]:
        sch, pick = self.sch, self.random.choice
        return {
            **super().actions(),
            "bind": lambda: sch.bind(
                self.loop(), pick(["threadIdx.x", "threadIdx.y", "blockIdx.x", "vthread.x"])
            ),
            "reorder some": self.reorder_some,
            "split and rfactor": self.split_and_rfactor,
            "tensorize": self.tensorize,
        }

    def reorder_some(self) -> None:
        """Neighbouring loops in another order."""
        chain = self.chain()
        self.sch.reorder(*self.random.sample(chain, len(chain)))

    def split_and_rfactor(self) -> None:
        """A common pattern: partial results of the tiles of a loop."""
        halves = self.sch.split(self.loop(), [None, self.random.randint(1, 4)])
        self.before = self.sch.mod
        self.sch.rfactor(self.random.choice(halves), self.random.randint(0, 1))

    def tensorize(self) -> None:
        """The innermost loops as an intrinsic that does what they do."""
        inner = self.loops[-self.random.randint(1, 3) :]
        if not inner:
            raise ScheduleError("the block has no loops")
        self.sch.tensorize(inner[0], product(*[self.random.choice([1, 2, 3, 4]) for _ in range(3)]))

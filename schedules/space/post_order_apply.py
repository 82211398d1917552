"""PostOrderApply: the design space that rules make when they are applied block by block, consumers before producers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ir import IRModule, tir
from ir.target import Target
from ir.tir import PrimFunc

from ..error import ScheduleError
from ..mutator.base import Mutator
from ..population.sketch import Sketch, SketchSchedule
from ..postproc.base import Postproc
from ..rule.base import Alternatives, ScheduleRule
from ..rule.default import default_rules
from ..schedule import Schedule
from ..tree import child_blocks
from .base import FROM_TARGET, SpaceGenerator
from .refusals import Refusals
from .structure_tree import Step, StructureTree
from .structures import Structures

_LOG = logging.getLogger(__name__)


@SpaceGenerator.kinds.register("post-order-apply")
class PostOrderApply(SpaceGenerator):
    """Generates the sketches of a program.

    Rules run one after the other; each visits the blocks from the output backwards (so that producers find their consumers
    tiled), and every schedule that a rule returns is taken further by the rules behind it.

    Args:
        f_block_filter: which blocks rules visit, a function of the Block; all by default.
        sch_rules, postprocs, mutator_probs: as :class:`SpaceGenerator`'s.
        max_sketches: structures that a search begins with, at most; it finds others on its way.
    """

    def __init__(
        self,
        f_block_filter: Callable[[tir.Block], bool] | None = None,
        sch_rules: Sequence[ScheduleRule | Callable[..., Any]] | str | None = FROM_TARGET,
        postprocs: Sequence[Postproc] | str | None = FROM_TARGET,
        mutator_probs: Mapping[Mutator, float] | str | None = FROM_TARGET,
        *,
        max_sketches: int = 32,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        if f_block_filter is not None and not callable(f_block_filter):
            raise ScheduleError(
                f"PostOrderApply: f_block_filter must be a function of a block, got {f_block_filter!r};"
                " rules are passed as sch_rules=[...]"
            )
        self.max_sketches = max_sketches
        self.f_block_filter = f_block_filter

    def generate_sketches(self, mod: PrimFunc | IRModule, target: Target) -> list[Sketch]:
        return self.structures(mod, target).known

    def structures(self, mod: PrimFunc | IRModule, target: Target) -> Structures:
        rules = self.sch_rules if self.sch_rules is not None else default_rules(target)
        for rule in rules:
            rule.initialize(target)
        start, refusals = SketchSchedule(mod, seed=0), Refusals()
        if rules and not self._block_names(start):
            self._warn_of_no_blocks(start)

        def next_step(sch: SketchSchedule, then: tuple[int, list[str]] | None) -> Step | None:
            """A rule on a block; ``then`` is the number of the rule and the blocks that it has not visited."""
            number, names = then or (0, self._block_names(sch))
            while number < len(rules):
                for place, name in enumerate(names):
                    if _is_there(sch, name):
                        then = number, names[place + 1 :]
                        return _application(
                            rules[number], name, then, partial(refusals.tell, rules[number], name)
                        )
                # The blocks that exist when the rule's turn comes.
                number, names = number + 1, self._block_names(sch)
            return None

        return StructureTree(start, next_step, self.max_sketches)

    def _warn_of_no_blocks(self, sch: Schedule) -> None:
        func = sch.func_working_on
        assert func is not None
        if child_blocks(sch._root(func)):
            _LOG.warning(
                "f_block_filter accepts no block of the kernel: its only candidate is the kernel as it is"
            )
        else:
            _LOG.warning(
                "the kernel has no blocks, and schedules work on blocks: its only candidate is the kernel as it is. In script,"
                ' what a loop nest computes stands in `with T.block("name"):`; te.create_prim_func makes blocks by itself'
            )

    def _block_names(self, sch: Schedule) -> list[str]:
        """Blocks in the root's scope (nested scopes belong to whoever made them), last one first."""
        func, accept = sch.func_working_on, self.f_block_filter
        assert func is not None
        blocks = reversed(child_blocks(sch._root(func)))
        return [node.name for node in blocks if accept is None or accept(node.block())]


def _application(
    rule: ScheduleRule, name: str, then: tuple[int, list[str]], refused: Callable[[ScheduleError], None]
) -> Step:
    def offer(sch: SketchSchedule) -> list[Schedule] | Alternatives:
        return rule.applied(sch, sch.get_block(name))

    return Step(offer, then, rule.may_read, refused)


def _is_there(sch: Schedule, name: str) -> bool:
    """Whether there is one block of the name: a rule may have inlined it meanwhile."""
    func = sch.func_working_on
    assert func is not None
    return sum(node.name == name for node in child_blocks(sch._root(func))) == 1

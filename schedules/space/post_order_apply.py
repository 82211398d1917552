"""PostOrderApply: the design space that rules make when they are applied block by block, consumers before producers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir import IRModule, tir
from ir.target import Target
from ir.tir import PrimFunc

from ..error import ScheduleError
from ..mutator.base import Mutator
from ..population.sketch import Sketch, SketchSchedule
from ..postproc.base import Postproc
from ..random_variable import BlockRV
from ..rule.base import ScheduleRule
from ..rule.default import default_rules
from ..schedule import Schedule
from ..tree import BlockNode, child_blocks
from .base import FROM_TARGET, SpaceGenerator


@SpaceGenerator.kinds.register("post-order-apply")
class PostOrderApply(SpaceGenerator):
    """Generates the sketches of a program.

    Rules run one after the other; each visits the blocks from the output backwards (so that producers find their consumers
    tiled), and every schedule that a rule returns is taken further by the rules behind it.

    Args:
        f_block_filter: which blocks rules visit, a function of the Block; all by default.
        sch_rules, postprocs, mutator_probs: as :class:`SpaceGenerator`'s.
        max_sketches: structures kept at most.
    """

    def __init__(
        self,
        f_block_filter: Callable[[tir.Block], bool] | None = None,
        sch_rules: Sequence[ScheduleRule | Callable[..., Any]] | str | None = FROM_TARGET,
        postprocs: Sequence[Postproc] | str | None = FROM_TARGET,
        mutator_probs: Mapping[Mutator, float] | str | None = FROM_TARGET,
        *,
        max_sketches: int = 12,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        if f_block_filter is not None and not callable(f_block_filter):
            raise ScheduleError(
                f"PostOrderApply: f_block_filter must be a function of a block, got {f_block_filter!r};"
                " rules are passed as sch_rules=[...]"
            )
        self.max_sketches = max_sketches
        self.f_block_filter = f_block_filter

    def _rules(self, target: Target) -> list[ScheduleRule]:
        rules = self.sch_rules if self.sch_rules is not None else default_rules(target)
        for rule in rules:
            rule.initialize(target)
        return rules

    def generate_design_space(self, mod: PrimFunc | IRModule, target: Target | None = None) -> list[Schedule]:
        """Random schedules of the space, one per structure (MetaSchedule's view of a design space)."""
        chosen = target or Target("cpu")
        return self._expand(Schedule(mod, error_render_level="none", seed=0), chosen)

    def generate_sketches(self, mod: PrimFunc | IRModule, target: Target) -> list[Sketch]:
        """The structures of the space with open decisions."""
        schedules = self._expand(SketchSchedule(mod, seed=0), target)
        return [
            Sketch(sch, f"sketch{i}") for i, sch in enumerate(schedules) if isinstance(sch, SketchSchedule)
        ]

    def _expand(self, start: Schedule, target: Target) -> list[Schedule]:
        states = [start]
        for rule in self._rules(target):
            grown: list[Schedule] = []
            for state in states:
                grown += _apply_everywhere(rule, state, self.f_block_filter)
            states = grown[: self.max_sketches]
        return states


def _apply_everywhere(
    rule: ScheduleRule, start: Schedule, accept: Callable[[tir.Block], bool] | None
) -> list[Schedule]:
    """Apply a rule to every block that exists when the rule's turn comes, last block first."""
    func = start.func_working_on
    assert func is not None
    names = [node.name for node in _all_blocks(start._root(func)) if accept is None or accept(node.block())]
    states = [start]
    for name in reversed(names):
        grown: list[Schedule] = []
        for state in states:
            block = _find(state, name)
            grown += [state] if block is None else rule.offers(state, block)
        states = grown
    return states


def _find(sch: Schedule, name: str) -> BlockRV | None:
    """The block, unless a rule has inlined it meanwhile."""
    func = sch.func_working_on
    assert func is not None
    if sum(node.name == name for node in _all_blocks(sch._root(func))) != 1:
        return None
    return sch.get_block(name)


def _all_blocks(root: BlockNode) -> list[BlockNode]:
    """Blocks in the root's scope (nested scopes belong to whoever made them)."""
    return child_blocks(root)

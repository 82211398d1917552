"""What the rules for GPUs have in common: they look at a function whose chains are inlined, and offer only what a GPU can run."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence

from ir.target import Target
from ir.tir import PrimFunc

from ...analysis import consumers_of
from ...block_facts import is_spatial
from ...error import ScheduleError
from ...postproc.base import Postproc
from ...postproc.rewrite_cooperative_fetch import RewriteCooperativeFetch
from ...postproc.rewrite_reduction_block import RewriteReductionBlock
from ...postproc.rewrite_tensorize import RewriteTensorize
from ...postproc.verify_gpu_code import VerifyGPUCode
from ...random_variable import BlockRV, ExprRV
from ...rule.group_axes import split_groups
from ...schedule import Schedule
from ...tree import BlockNode, child_blocks
from ..base import ScheduleRule
from .unbound import bind_unbound_blocks

_LOG = logging.getLogger(__name__)


class Nests:
    """A function on its way to a GPU: what a rule reads and changes.

    Args:
        sch: the function's schedule.
        target: a GPU.
        tunable: whether numbers are sampled.
    """

    def __init__(self, sch: Schedule, target: Target, tunable: bool) -> None:
        self.sch, self.target, self._tunable = sch, target, tunable

    def nodes(self) -> list[BlockNode]:
        """The blocks directly in the function, in order."""
        func = self.sch.func_working_on
        assert func is not None
        return child_blocks(self.sch._root(func))

    def blocks(self) -> list[BlockRV]:
        """References to :meth:`nodes`."""
        return [self.sch.get_block(node.name) for node in self.nodes()]

    def number(self, preferred: int, candidates: Sequence[int]) -> int | ExprRV:
        """A number of the schedule: the preferred one, which a trace may change to other candidates if it is tunable."""
        if not self._tunable or len(candidates) < 2:
            return preferred
        values = sorted({preferred, *candidates})
        return self.sch.sample_categorical(values, [1.0 / len(values)] * len(values), values.index(preferred))


class GPUScheduleRule(ScheduleRule):
    """A rule for GPUs: subclasses schedule the nests that they know; what is left over becomes kernels as :class:`Fallback` makes them."""

    splits_groups = True
    """Whether axes of groups are taken apart first, so that each group is a product of its own; heads that share keys stay one axis."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool = False) -> Schedule | None:
        if not target.is_gpu:
            return None
        sch = Schedule(func, error_render_level="fast")
        nests = Nests(sch, target, tunable)
        if self.splits_groups:
            for block in nests.blocks():
                split_groups(sch, block)
        self._inline_spatial_blocks(nests)
        try:
            if not self.schedule(nests):
                return None
            sch = bind_unbound_blocks(nests.sch, target)
            return sch if _is_valid(sch, target) else None
        except ScheduleError as refusal:
            _LOG.debug("%s does not apply: %s", type(self).__name__, refusal)
            return None

    def stays(self, node: BlockNode) -> bool:
        """Whether the rule wants to inline what a block reads itself."""
        return False

    def _inline_spatial_blocks(self, nests: Nests) -> None:
        """Inline each block that computes every element once into the blocks that read it."""
        for node in nests.nodes():
            if is_spatial(node) and not any(self.stays(consumer) for consumer in consumers_of(node)):
                try:
                    nests.sch.compute_inline(nests.sch.get_block(node.name))
                except ScheduleError:
                    continue  # an output, or not a single store: it stays a nest

    @abstractmethod
    def schedule(self, nests: Nests) -> bool:
        """Schedule the nests of the rule's pattern; False where there are none.

        Raises:
            ScheduleError: a primitive refuses a step: the rule does not fit.
        """


def _is_valid(sch: Schedule, target: Target) -> bool:
    sch.enter_postproc()
    steps: list[Postproc] = [
        RewriteCooperativeFetch(), RewriteReductionBlock(), VerifyGPUCode(), RewriteTensorize()
    ]  # fmt: skip
    for step in steps:
        step.initialize(target)
    return all(step.accepts(sch) for step in steps)

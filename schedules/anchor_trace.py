"""A trace on another program that has the same anchor block: the product or convolution with other elementwise blocks around it.

As MetaSchedule's ``schedule_using_anchor_trace``: the blocks that the trace does not know are inlined where that is possible, its steps on
blocks that are not there are left out, and what is left gets parallel loops.
"""

from __future__ import annotations

from collections.abc import Mapping

from ir.target import Target

from .error import ScheduleError
from .schedule import Schedule
from .trace import Trace


def schedule_using_anchor_trace(
    sch: Schedule, anchor_trace: Trace, target: Target | None = None, renamed: Mapping[str, str] | None = None
) -> None:
    """Schedule a program by the trace of another one.

    Args:
        sch: of the program, without steps.
        anchor_trace: of the other program.
        target: of the record; None for a processor.
        renamed: names of blocks here, by their names there: that of the anchor block at least, where it differs.

    Raises:
        ScheduleError: a step on a block that is there does not apply, or blocks are left that a GPU would have to run.
    """
    names = {(renamed or {}).get(name, name) for name in anchor_trace.block_names()}
    others = [name for name in _block_names(sch) if name not in names]
    left = [name for name in others if not _is_inlined(sch, name)]
    anchor_trace.apply_where_blocks_are(sch, renamed or {})
    if left and target is not None and target.is_gpu:
        raise ScheduleError(f"the trace of another program does not schedule the blocks {', '.join(left)}")
    for name in left:
        _run_in_parallel(sch, name)


def _block_names(sch: Schedule) -> list[str]:
    """The blocks of the outermost one, in program order."""
    return [sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_block("root"))]


def _is_inlined(sch: Schedule, name: str) -> bool:
    for inline in (sch.compute_inline, sch.reverse_compute_inline):
        try:
            inline(name)
        except ScheduleError:
            continue
        return True
    return False


def _run_in_parallel(sch: Schedule, name: str) -> None:
    try:
        loops = sch.get_loops(name)
        if loops:
            sch.parallel(loops[0])
    except ScheduleError:  # it stays as it was given
        pass

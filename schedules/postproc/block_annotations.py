"""What a root block asks for all nests below it: ``meta_schedule.parallel``, ``vectorize`` and ``unroll_explicit``/``implicit``."""

from __future__ import annotations

from ir import tir
from ir.tir import ForKind
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ..annotation import PARALLEL, UNROLL_EXPLICIT, UNROLL_IMPLICIT, UNROLL_IN_TIR, UNROLL_MAX_STEP, VECTORIZE
from ..block_facts import contiguous_var, is_data_parallel
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, child_blocks, loops_around

_ON_ROOT = (PARALLEL, VECTORIZE, UNROLL_EXPLICIT, UNROLL_IMPLICIT)


def apply_root_annotations(sch: Schedule) -> None:
    """Take the annotations off the root block and apply them to each nest."""
    func = sch.func_working_on
    assert func is not None
    root = sch._root(func)
    found = {key: _number(root.annotations[key]) for key in _ON_ROOT if key in root.annotations}
    if not found:
        return
    rv = sch.get_block(root.name)
    for key in found:
        sch.unannotate(rv, key)
    for node in child_blocks(root):
        if LAYOUT_REWRITE_PREPROC not in node.annotations:
            block = sch.get_block(node.name)
            _parallelize(sch, block, node, found.get(PARALLEL, 0))
            _vectorize(sch, block, node, found.get(VECTORIZE, 0))
            for key, explicit in ((UNROLL_EXPLICIT, 1), (UNROLL_IMPLICIT, 0)):
                _unroll(sch, block, node, found.get(key, 0), explicit)


def _number(value: object) -> int:
    return int(getattr(value, "value", value))  # type: ignore[call-overload, no-any-return]


def _is_free(loop: LoopNode) -> bool:
    """A serial loop that nobody has marked."""
    return loop.kind == ForKind.SERIAL and not loop.annotations and isinstance(loop.extent, tir.IntImm)


def _parallelize(sch: Schedule, block: BlockRV, node: BlockNode, most: int) -> None:
    """Run the outer loops in parallel as one, up to ``most`` iterations."""
    chosen: list[LoopRV] = []
    jobs = 1
    loops = loops_around(node)
    for loop, rv in zip(loops, sch.get_loops(block), strict=True):
        if not _is_free(loop) or not is_data_parallel(loop):
            break
        if chosen and not (loops[0].begins_at_zero and loop.begins_at_zero):  # these cannot be fused
            break
        jobs *= _number(loop.extent)
        if jobs > most:
            break
        chosen.append(rv)
        if not isinstance(loop.body, LoopNode):
            break
    if chosen:
        try:
            sch.parallel(sch.fuse(*chosen) if len(chosen) > 1 else chosen[0])
        except ScheduleError:
            return  # iterations that are not known to be independent are not for the cores


def _vectorize(sch: Schedule, block: BlockRV, node: BlockNode, most: int) -> None:
    """Run the contiguous innermost loop as lanes, where they are at most ``most``."""
    loops = loops_around(node)
    if not loops or not _is_free(loops[-1]) or not is_data_parallel(loops[-1]):
        return
    var = contiguous_var(node)
    value = next((v for i, v in zip(node.iter_vars, node.iter_values, strict=True) if i.var is var), None)
    if value is loops[-1].var and 1 < loops[-1].extent.value <= most:  # type: ignore[attr-defined]
        try:
            sch.vectorize(sch.get_loops(block)[-1])
        except ScheduleError:
            return  # other blocks under the loop do not allow it


def _unroll(sch: Schedule, block: BlockRV, node: BlockNode, steps: int, explicit: int) -> None:
    """Let lowering unroll the nest as far as ``steps`` statements."""
    loops = loops_around(node)
    if steps > 0 and loops and UNROLL_MAX_STEP not in loops[0].annotations:
        outermost = sch.get_loops(block)[0]
        sch.annotate(outermost, UNROLL_MAX_STEP, steps)
        sch.annotate(outermost, UNROLL_IN_TIR, explicit)

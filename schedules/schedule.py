"""Schedule: a program together with the primitives that transform it step by step, and the trace of those steps.

Every method checks its legality before it changes anything and raises :class:`~schedules.error.ScheduleError` when it would
change the program's meaning; a failed step leaves the schedule as it was. The primitives themselves are functions on the
loop tree in :mod:`schedules.primitive`; the methods, by family, are in :mod:`schedules.methods`.
"""

from __future__ import annotations

from .methods import (
    AnnotationMethods,
    CachingMethods,
    LayoutMethods,
    LookupMethods,
    LoopMethods,
    PlacementMethods,
    ReductionMethods,
    SamplingMethods,
    TensorMethods,
)


class Schedule(
    LookupMethods,
    SamplingMethods,
    LoopMethods,
    CachingMethods,
    PlacementMethods,
    ReductionMethods,
    TensorMethods,
    LayoutMethods,
    AnnotationMethods,
):
    """A schedulable program.

    Args:
        mod: an IRModule, or a PrimFunc (which becomes ``main``).
        seed: of all random decisions; None draws one.
        debug_mask: "all" verifies the program after each step, "none" does not.
        error_render_level: "detail" quotes the program in errors, "fast" and "none" do not (searches want that).
        enable_check: kept for compatibility; legality is always checked.

    >>> from ir import te
    >>> A = te.placeholder((64, 64), name="A")
    >>> B = te.compute((64, 64), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]))
    >>> i, j = sch.get_loops(sch.get_block("B"))
    >>> i0, i1 = sch.split(i, [None, 8])
    >>> [sch.get(loop).extent.value for loop in sch.get_loops("B")]
    [8, 8, 64]
    """

    def enter_postproc(self) -> None:
        """Mark that what follows in the trace is postprocessing, not design space."""
        self._record("EnterPostproc", [], [], [])

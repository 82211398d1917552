"""Schedule: a program together with the primitives that transform it step by step, and the trace of those steps.

Every method checks its legality before it changes anything and raises :class:`~schedules.error.ScheduleError` when it would
change the program's meaning; a failed step leaves the schedule as it was. The primitives are declared by family in
:mod:`schedules.primitive`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from .declaration import primitive
from .primitive.add_into import AddIntoPrimitives
from .primitive.annotate import AnnotationPrimitives
from .primitive.block_layout import BlockLayoutPrimitives
from .primitive.blockize import BlockizePrimitives
from .primitive.cache_index import CacheIndexPrimitives
from .primitive.caching import CachingPrimitives
from .primitive.compute_at import ComputeAtPrimitives
from .primitive.decompose_padding import DecomposePaddingPrimitives
from .primitive.for_kind import ForKindPrimitives
from .primitive.hidden_values import HiddenValuePrimitives
from .primitive.inline import InlinePrimitives
from .primitive.interleave import InterleavePrimitives
from .primitive.layout import LayoutPrimitives
from .primitive.lookup import LookupPrimitives
from .primitive.loops import LoopPrimitives
from .primitive.pad_einsum import PadEinsumPrimitives
from .primitive.partition import PartitionPrimitives
from .primitive.reduction import ReductionPrimitives
from .primitive.reindex import ReindexPrimitives
from .primitive.replicate import ReplicatePrimitives
from .primitive.reverse_compute_at import ReverseComputeAtPrimitives
from .primitive.rfactor import RFactorPrimitives
from .primitive.rfactor_chain import RFactorChainPrimitives
from .primitive.rolling_buffer import RollingBufferPrimitives
from .primitive.row_order import RowOrderPrimitives
from .primitive.run_chain import RunChainPrimitives
from .primitive.sampling import SamplingPrimitives
from .primitive.scan_blocks import ScanBlockPrimitives
from .primitive.scan_threads import ScanThreadPrimitives
from .primitive.separate import SeparatePrimitives
from .primitive.separate_rest import SeparateRestPrimitives
from .primitive.skip_masked import SkipMaskedPrimitives
from .primitive.staging import StagingPrimitives
from .primitive.storage import StoragePrimitives
from .primitive.tensorize import TensorizePrimitives
from .primitive.unsafe import UnsafePrimitives
from .primitive.winograd import WinogradPrimitives
from .random_variable import BlockRV, LoopRV


class Schedule(
    LookupPrimitives,
    SamplingPrimitives,
    LoopPrimitives,
    ForKindPrimitives,
    PartitionPrimitives,
    InterleavePrimitives,
    CachingPrimitives,
    ReindexPrimitives,
    StagingPrimitives,
    CacheIndexPrimitives,
    ComputeAtPrimitives,
    ReverseComputeAtPrimitives,
    InlinePrimitives,
    RollingBufferPrimitives,
    ReductionPrimitives,
    RFactorPrimitives,
    RunChainPrimitives,
    AddIntoPrimitives,
    ReplicatePrimitives,
    SeparatePrimitives,
    SeparateRestPrimitives,
    RowOrderPrimitives,
    ScanBlockPrimitives,
    ScanThreadPrimitives,
    RFactorChainPrimitives,
    SkipMaskedPrimitives,
    HiddenValuePrimitives,
    PadEinsumPrimitives,
    DecomposePaddingPrimitives,
    BlockizePrimitives,
    TensorizePrimitives,
    LayoutPrimitives,
    BlockLayoutPrimitives,
    StoragePrimitives,
    AnnotationPrimitives,
    UnsafePrimitives,
    WinogradPrimitives,
):
    """A schedulable program.

    Args:
        mod: an IRModule, or a PrimFunc (which becomes ``main``).
        seed: of all random decisions; None draws one.
        debug_mask: "all" verifies the program after each step, "none" does not.
        error_render_level: "detail" quotes the program in errors, "fast" and "none" do not (searches want that).
        enable_check: legality is always checked; False is refused.

    >>> from ir import te
    >>> A = te.placeholder((64, 64), name="A")
    >>> B = te.compute((64, 64), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]))
    >>> i, j = sch.get_loops(sch.get_block("B"))
    >>> i0, i1 = sch.split(i, [None, 8])
    >>> [sch.get(loop).extent.value for loop in sch.get_loops("B")]
    [8, 8, 64]
    """

    @primitive("EnterPostproc")
    def enter_postproc(self) -> None:
        """Mark that what follows in the trace is postprocessing, not design space."""


if TYPE_CHECKING:

    def _types_of_primitives(sch: Schedule, loop: LoopRV) -> None:
        """Type checkers see through the declaration: they refuse the file when it hides what a method takes or returns."""
        assert_type(sch.get_block("B"), BlockRV)
        assert_type(sch.split(loop, [None, 8], preserve_unit_iters=False), list[LoopRV])
        assert_type(sch.fuse(loop, loop), LoopRV)

"""Lowering: from scheduled TIR with blocks to what code generation prints, by a list of passes for each kind of target."""

from __future__ import annotations

from collections.abc import Callable

from ..error import IRValueError
from ..module import IRModule
from ..pass_context import PassContext
from ..target.gpu_facts import ACCESS_BYTES, STATIC_SHARED_MEMORY_BYTES
from ..target.target import Target
from ..transform import Pass, Sequential
from . import transform as T
from .analysis.verify_well_formed import assert_calls_fit
from .function import PrimFunc

#: Statements of an unrolled nest at most: LLVM needs about a tenth of a second for that many vector statements.
_MAX_UNROLLED = 320

#: A thread of a GPU reads and writes so much at once.
_THREAD_BITS = 8 * ACCESS_BYTES


def _llvm(target: Target, added: Callable[[int], list[Pass]]) -> list[Pass]:
    return [
        *added(0),
        T.KeepFloatOrder(),  # what is no reduction is marked, while blocks tell
        # from blocks to loops
        T.LowerInitBlock(),  # a reduction's first value is written under a condition
        T.PlanAndUpdateBufferAllocationLocation(),  # buffers move to the innermost loop that holds all their uses
        T.ConvertBlocksToOpaque(),  # block variables become what loops give them
        T.LowerMatchBuffer(),  # views become what they look at
        T.ShareOutputMemory(target.l3_cache_bytes // 4),  # parts of large outputs lie there
        T.CompactBufferAllocation(),  # buffers shrink to what is used of them
        T.LowerOpaqueBlock(),  # blocks disappear
        *added(1),
        T.FlattenBuffer(),  # one index for each access
        *added(2),
        *(
            [T.SkipAssert()] if PassContext.current().get("tir.disable_assert") else ()
        ),  # only where asked for
        # loops as the schedule wants them
        T.SimplifyIndices(),  # indices and conditions under the bounds of loops
        T.HoistIfThenElse(),  # conditions leave the loops that do not change them
        T.PartitionChoices(),  # each source of a concatenation in a loop of its own
        T.LoopPartition(),  # the insides of tiles need no conditions
        T.InjectMatrixTiles(),  # instructions for whole tiles of products
        T.VectorizeLoop(vector_bits=target.vector_bits),  # vectors instead of loops
        T.InjectDotProduct(),  # instructions for groups of products
        T.TransposeInRegisters(target.vector_bits, target.vector_registers),  # instead of element by element
        T.PrefetchPanels(),  # what is used next comes from memory early
        T.UnrollLoop(expand=False, unroll_local_access=True, max_statements=_MAX_UNROLLED),  # which to copy
        T.RemoveNoOp(),  # statements without effect disappear
        T.StorageRewrite(),  # buffers share memory
        *added(3),
        # what the machine and the runtime do
        T.LowerFloorDiv(),  # divisions that round towards zero, as machines do
        T.LowerParallel(),  # parallel loops become functions that threads share
        T.PlanWorkspace(),  # large buffers come from the runtime
        T.BF16ComputeLegalize(),  # no machine computes with these,
        T.FP8ComputeLegalize(),  # nor with those
        T.LowerIntrin(target.kind_name),  # intrinsics become what the emitter knows
        # what a backend compiler would not do, or take long for
        T.IfConversion(),  # small choices become selections
        T.WidenIndices(),  # indices have the width of addresses
        T.CommonSubexprElimTIR(barrier=True),  # what indices share is computed once
        T.KeepShapedLoops(),  # the backend leaves vectors and tiles as they are
        T.UnrollLoop(max_statements=_MAX_UNROLLED),  # copies instead of loops
    ]


def _cuda(target: Target, added: Callable[[int], list[Pass]]) -> list[Pass]:
    return [
        *added(0),
        T.BindTarget(target if target.host is not None else target.with_host("llvm")),
        T.KeepFloatOrder(),
        # from blocks to loops
        T.LowerCrossThreadReduction(),  # reductions that threads share become parts of each, and an exchange
        T.VerifyThreadMemory(),  # threads read of their own memory what they wrote there
        T.LowerInitBlock(),
        T.PlanAndUpdateBufferAllocationLocation(),
        T.PlaceThreadMemory(),  # what a kernel allocates belongs to a thread or a block
        T.ConvertBlocksToOpaque(),
        T.UnifyThreadBinding(),  # each axis of threads once, around all that they run
        T.ManifestSharedMemoryLocalStage(),  # copies that ask for it go by registers
        T.CompactBufferAllocation(),
        T.LowerAutoCopy(),  # copies that ask for it are shared out among threads
        T.LowerMatchBuffer(),  # views tell what is accessed through their addresses
        T.InjectSoftwarePipeline(),  # iterations overlap
        T.LowerOpaqueBlock(),
        T.HoistTensorMaps(),  # the host makes what describes tensors to the copy engine
        *added(1),
        T.FlattenBuffer(),
        *added(2),
        *([T.SkipAssert()] if PassContext.current().get("tir.disable_assert") else ()),
        T.SimplifyIndices(),
        T.HoistIfThenElse(),
        T.VectorizeLoop(vector_bits=_THREAD_BITS),
        T.UniteMasks(),  # threads have no masks
        T.InjectVirtualThread(),  # virtual threads are a thread's own copies
        T.UnrollLoop(expand=False, unroll_local_access=True),  # NVRTC copies what is marked
        T.RemoveNoOp(),
        *([T.InjectPTXAsyncCopy()] if target.supports_async_copy else ()),  # copies that nobody waits for
        *added(3),
        T.UseDynamicSharedMemory(  # more than kernels may declare, whatever a block has
            min(target.max_shared_memory_per_block, STATIC_SHARED_MEMORY_BYTES)
        ),
        T.ThreadSync("shared"),  # threads wait for what others put into memory that they share
        T.ThreadSync("shared.dyn"),
        T.ThreadSync("warp"),
        T.MergeSharedMemoryAllocations(),  # dynamic shared memory is one allocation
        T.LowerWarpMemory(),  # memory of warps becomes registers and shuffles
        T.InjectPTXLDG32(),  # loads with a predicate, where that is asked for
        T.LowerThreadAllreduce(),  # the exchange: shuffles within warps, and shared memory between them
        T.InferFragment(),  # what tensor cores work on has a shape
        T.AnnotateDeviceRegions(),
        T.SplitHostDevice(),  # kernels, and the host's functions that launch them
        T.LowerDeviceKernelLaunch(),
        T.LowerFloorDiv(),
        T.BF16ComputeLegalize(),  # in float32, where the architecture does not compute with these
        T.FP8ComputeLegalize(),
        T.LowerIntrin(),
        T.BF16StorageLegalize(),  # integers that hold the bits, where it does not convert them
        T.FP8StorageLegalize(),
        T.WidenIndices(large_only=True),  # offsets that 32 bits may not hold
        T.CommonSubexprElimTIR(),
    ]


_PASSES: dict[str, Callable[[Target, Callable[[int], list[Pass]]], list[Pass]]] = {
    "llvm": _llvm,
    "cuda": _cuda,
}
"""By kind of target: the passes in order, given the target and what a user adds at a phase."""


def lowering_pipeline(target: Target) -> Sequential:
    """The passes of :func:`lower` in order.

    ``PassContext(config={"tir.add_lower_pass": [(phase, pass), ...]})`` adds passes: phase 0 runs before everything,
    1 behind the removal of blocks, 2 behind flattening, 3 when loops have their final form. ``"tir.disable_assert": True`` leaves
    assertions out.

    Raises:
        IRValueError: there is no way to lower for this kind of target, or an added pass has no such place.
    """
    make = _PASSES.get(target.kind_name)
    if make is None:
        raise IRValueError(
            f"nothing lowers programs for targets of kind {target.kind_name!r}; there are {', '.join(_PASSES)}"
        )
    extra = [_added(entry) for entry in PassContext.current().get("tir.add_lower_pass") or ()]
    passes = make(target, lambda phase: [item for at, item in extra if at == phase])
    return Sequential(passes, name="tir.lower")


def _added(entry: object) -> tuple[int, Pass]:
    """One entry of ``tir.add_lower_pass``."""
    if not isinstance(entry, tuple | list) or len(entry) != 2 or entry[0] not in range(4):
        raise IRValueError(
            f"config option 'tir.add_lower_pass' takes (phase, pass) pairs with a phase of 0, 1, 2 or 3, got {entry!r}"
        )
    return int(entry[0]), entry[1]


def lower(program: PrimFunc | IRModule, target: Target | str | None = None, name: str = "main") -> IRModule:
    """Lower all PrimFuncs of a program.

    Args:
        program: a PrimFunc or a module; scheduled or not.
        target: what it is for; when None, the target in force (``with Target(...)``) or the host.
        name: name of the function when a PrimFunc without ``global_symbol`` is given.

    Returns:
        Functions without blocks, with one-dimensional accesses, explicit vectors, and calls of functions that were made of
        parallel loops: what code generation prints, statement by statement.

    Raises:
        WellFormedError: a call of a PrimFunc does not fit it.
    """
    if isinstance(program, PrimFunc):
        symbol = str(program.attrs.get("global_symbol", name))
        program = IRModule({symbol: program})
    assert_calls_fit(program)
    if target is None:
        target = Target.current(allow_none=True) or "cpu"
    return lowering_pipeline(target if isinstance(target, Target) else Target(target))(program)

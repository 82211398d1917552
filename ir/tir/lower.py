"""The default lowering: from scheduled TIR with blocks to flat loops that code generation takes."""

from __future__ import annotations

from ..module import IRModule
from ..transform import PassContext, Sequential
from . import transform as T
from .function import PrimFunc

#: Statements of an unrolled nest at most: LLVM needs about a tenth of a second for that many vector statements.
_MAX_UNROLLED = 320


def lowering_pipeline(vector_bits: int = 512) -> Sequential:
    """The passes of :func:`lower` in order.

    ``PassContext(config={"tir.add_lower_pass": [(phase, pass), ...]})`` adds passes: phase 0 runs before everything,
    1 behind the removal of blocks, 2 behind flattening, 3 at the end. ``"tir.disable_assert": True`` leaves assertions out.
    """
    extra: dict[int, list[object]] = {}
    context = PassContext.current()
    for phase, item in context.get("tir.add_lower_pass") or ():
        extra.setdefault(min(int(phase), 3), []).append(item)
    passes = [
        *extra.get(0, ()),
        T.LowerInitBlock(),
        T.PlanAndUpdateBufferAllocationLocation(),
        T.ConvertBlocksToOpaque(),
        T.LowerMatchBuffer(),
        T.CompactBufferAllocation(),
        T.LowerOpaqueBlock(),
        *extra.get(1, ()),
        T.FlattenBuffer(),
        *extra.get(2, ()),
        *([T.SkipAssert()] if context.get("tir.disable_assert") else ()),
        T.SimplifyIndices(),
        T.HoistIfThenElse(),
        T.LoopPartition(),
        T.VectorizeLoop(vector_bits=vector_bits),
        T.PrefetchPanels(),
        T.UnrollLoop(expand=False, unroll_local_access=True, max_statements=_MAX_UNROLLED),
        T.RemoveNoOp(),
        T.StorageRewrite(),
        *extra.get(3, ()),
        T.LowerIntrin("llvm"),
    ]
    return Sequential(passes, name="tir.lower")  # type: ignore[arg-type]


def lower(program: PrimFunc | IRModule, name: str = "main", vector_bits: int = 512) -> IRModule:
    """Lower all PrimFuncs of a program for a CPU.

    Args:
        program: a PrimFunc or a module; scheduled or not.
        name: name of the function when a PrimFunc without ``global_symbol`` is given.
        vector_bits: width of the target's vector registers.

    Returns:
        Functions without blocks, with one-dimensional accesses and explicit vectors.  Loops to be unrolled are marked
        ``UNROLLED``; code generation copies their bodies.
    """
    if isinstance(program, PrimFunc):
        symbol = str(program.attrs.get("global_symbol", name))
        program = IRModule({symbol: program})
    return lowering_pipeline(vector_bits)(program)

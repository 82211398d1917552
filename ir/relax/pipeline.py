"""The way of a Relax module down to what code is generated from, as lists of passes.

    model --graph_passes--> fused kernels --scheduling_passes--> scheduled kernels --lowering_passes--> explicit memory

Tuning shares the first list, so that a build finds the records of the kernels that tuning saw. :func:`ir.relax.build` applies
all three; the native and the bytecode compiler (:mod:`ir.relax.vm`) both read what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..error import IRValueError
from ..external import external
from ..target.target import Target
from ..transform import Pass, Sequential
from . import transform


def graph_passes(*, enable_warning: bool = False) -> list[Pass]:
    """From an imported model to fused kernels.

    Args:
        enable_warning: warn of operators that have no legalization.
    """
    return [
        transform.RealizeVDevice(),
        transform.CanonicalizeBindings(),
        transform.DecomposeTrainingBatchNorm(),
        transform.FoldBatchnormToConv2D(),
        transform.DecomposeOpsForInference(),
        transform.CanonicalizeBindings(),
        transform.FoldConstant(),
        transform.ChooseLayout(),
        transform.FoldConstant(),
        transform.EliminateCommonSubexpr(),
        transform.CanonicalizeBindings(),
        transform.DeadCodeElimination(),
        transform.FuseAttention(),
        transform.LegalizeOps(enable_warning=enable_warning),
        transform.AnnotateTIROpPattern(),
        transform.FoldConstant(),
        transform.DeadCodeElimination(),
        transform.FuseOps(),
        transform.FuseTIR(),
        transform.FusePairs(),
        transform.DeadCodeElimination(),
        transform.NarrowKernelIndices(),
    ]


def scheduling_passes() -> list[Pass]:
    """Schedules for the kernels: the records of the enclosing ``with database:``, others without tuning."""
    return [
        transform.AttachAttrLayoutFreeBuffers(),
        transform.CopyBetweenDevices(),
        external("MetaScheduleApplyDatabase")(),
    ]


def weight_passes() -> list[Pass]:
    """Weights take the layouts that schedules chose, once, while building."""
    return [
        transform.SplitLayoutRewritePreproc(),
        transform.FoldConstant(),
        transform.RewriteDataflowReshape(),
        transform.DeadCodeElimination(),
    ]


def lowering_passes(target: Target | None = None) -> list[Pass]:
    """From calls of kernels to explicit, planned memory and calls of the runtime's functions.

    What was lowered before stays as it is.

    Args:
        target: what the module is built for; one of a GPU has two passes more.
    """
    on_gpu = target is not None and target.is_gpu
    return [
        transform.RewriteDataflowReshape(),
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CopyWrittenConstants(),
        transform.CopySharedOperands(),
        transform.CallTIRRewrite(),
        *([transform.AllocateKernelScratch(target)] if on_gpu else ()),
        transform.StaticPlanBlockMemory(arena=True),
        *([transform.RewriteCUDAGraph()] if on_gpu else ()),
        transform.LowerAllocTensor(),
        transform.KillAfterLastUse(),
        transform.LowerRuntimeBuiltin(),
        transform.ComputePrimValue(),
        transform.VMShapeLower(),
        transform.AttachGlobalSymbol(),
    ]


def zero_pipeline(*, enable_warning: bool = False) -> Sequential:
    """The graph optimizations: everything up to fused kernels, without schedules."""
    return Sequential(graph_passes(enable_warning=enable_warning), name="zero")


def default_build_pipeline() -> Sequential:
    """The lowering of kernels' calls, without graph optimizations."""
    return Sequential(lowering_passes(), name="default_build")


def default_pipeline() -> Sequential:
    """``zero``, then ``default_build``; kernels get no schedules."""
    return Sequential([*graph_passes(), *lowering_passes()], name="default")


def get_default_pipeline(target: Any = None) -> Sequential:
    """All that :func:`ir.relax.build` applies unless it is told otherwise.

    Args:
        target: what the module is built for, by default the host.

    Raises:
        IRValueError: the target is a GPU for which no code is generated.
    """
    chosen = target if target is None or isinstance(target, Target) else Target(target)
    if chosen is not None and chosen.is_gpu and chosen.kind_name != "cuda":
        raise IRValueError(
            f"there is no default pipeline for {chosen}: models are built for processors and for CUDA devices"
        )
    passes = [*graph_passes(), *scheduling_passes(), *weight_passes(), *lowering_passes(chosen)]
    return Sequential(passes, name="build")


PIPELINES: dict[str, Callable[..., Pass]] = {
    "zero": zero_pipeline,
    "default_build": default_build_pipeline,
    "default": default_pipeline,
}
"""Pipelines by name; :func:`register_pipeline` adds to them."""


def get_pipeline(name: str = "zero", **kwargs: Any) -> Pass:
    """The pipeline of that name; keyword arguments are its options.

    Raises:
        IRValueError: the name is unknown.
    """
    if name not in PIPELINES:
        raise IRValueError(f"unknown pipeline {name!r}; expected one of {', '.join(sorted(PIPELINES))}")
    return PIPELINES[name](**kwargs)


def register_pipeline(name: str) -> Callable[[Callable[..., Pass]], Callable[..., Pass]]:
    """Decorator that makes a function returning a pass known to :func:`get_pipeline` under ``name``."""
    if name in PIPELINES:
        raise IRValueError(f"pipeline {name!r} is registered already")

    def register(factory: Callable[..., Pass]) -> Callable[..., Pass]:
        PIPELINES[name] = factory
        return factory

    return register

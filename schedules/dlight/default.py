"""The schedule of kernels that no record covers."""

from __future__ import annotations

from ir import IRModule
from ir.target import Target
from ir.tir import PrimFunc

from ..error import ScheduleError
from ..schedule import Schedule
from . import cpu
from .apply_default_schedule import first_schedule, only_function
from .base import ScheduleRule
from .gpu import (
    GEMV,
    Attention,
    DecodeAttention,
    Fallback,
    GeneralReduction,
    LowBatchGEMV,
    Matmul,
    Reduction,
    RMSNorm,
    RowOrder,
    Scan,
    Transpose,
    WarpGroupMatmul,
)


def gpu_rules() -> list[ScheduleRule]:
    """The rules for GPUs, special ones first; the last one knows every function."""
    return [
        Attention(),
        DecodeAttention(),
        LowBatchGEMV(),
        WarpGroupMatmul(),
        Matmul(),
        GEMV(),
        Reduction(),
        RMSNorm(),
        GeneralReduction(),
        RowOrder(),
        Scan(),
        Transpose(),
        Fallback(),
    ]


def default_schedule(mod: IRModule | PrimFunc, target: Target, rank: cpu.Rank | None = None) -> Schedule:
    """A schedule that needs no measurement, ready to be lowered.

    On GPUs it is the one of the first of :func:`gpu_rules` that knows the kernel, whose shapes may be symbolic; on CPUs the best structure
    of the design space by an estimate, of static shapes.

    Args:
        mod: the kernel.
        target: what it is for.
        rank: an estimate of cost, such as :func:`cost_models.estimate_seconds`, for CPUs.

    Raises:
        ScheduleError: nothing applies; of a GPU because the kernel does what only a host can, such as calling packed functions.
    """
    if not target.is_gpu:
        return cpu.default_schedule(mod, target, rank)
    func = mod if isinstance(mod, PrimFunc) else only_function(mod)
    sch = first_schedule(gpu_rules(), func, target)
    if sch is None:
        raise ScheduleError(
            f"default schedule: no rule makes kernels of this function for {target.kind_name}"
        )
    return sch

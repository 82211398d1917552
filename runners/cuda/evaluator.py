"""Timing a function of a CUDA module by the device's clock, as the runner times candidates."""

from __future__ import annotations

from typing import Any

from ..evaluator import EvaluatorConfig, group_timer, warm_call
from .module import CudaFunction


def time_evaluator(
    function: CudaFunction, *args: Any, config: EvaluatorConfig | None = None
) -> tuple[float, ...]:
    """Seconds of one call in each of ``config.repeat`` groups of calls, after calls that bring the device to its clocks.

    Args:
        function: of a :class:`~.module.CudaModule`.
        args: its arguments, on a device; what they hold afterwards is what many calls leave.
        config: how often it is called; ``enable_cpu_cache_flush`` empties the device's level-2 cache before each call.

    Raises:
        KernelError: arguments do not fit.
        CudaError: a call fails.
    """
    settings = EvaluatorConfig() if config is None else config
    call = function.bind(*args)
    call()  # an error shows here
    group = group_timer(call, settings, warm_call(call))
    return tuple(group() for _ in range(settings.repeat))

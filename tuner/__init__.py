"""Tuning as a whole: tasks, search, scheduling, the measure loop, and the command line.

Names are loaded when first used, so that ``import tuner`` stays light.
"""

from __future__ import annotations

from loopsmith_import_check import require_needs

require_needs(__name__, __file__)

from importlib import import_module
from typing import Any

_LAZY = {
    "TuneContext": "context",
    "TunerError": "error",
    "SearchStrategy": "search",
    "EvolutionarySearch": "search",
    "ReplayTrace": "search",
    "OptunaSearch": "search",
    "MeasureCandidate": "search",
    "TaskScheduler": "scheduler",
    "GradientBased": "scheduler",
    "RoundRobin": "scheduler",
    "MeasureCallback": "callback",
    "OptunaExport": "callback",
    "ExtractedTask": "task",
    "extract_tasks": "task",
    "contexts_of": "tune",
    "tune_tasks": "tune",
    "tune_tir": "tune",
    "tune_relax": "tune",
    "tune_relax_on_ray": "ray_jobs",
    "compile_relax": "compile",
    "compile_tir": "compile",
    "prepare": "compile",
    "profile_model": "profile",
    "write_report": "report",
}

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tuner' has no attribute {name!r}")
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)


def __dir__() -> list[str]:
    """What is loaded later is there too, as for :func:`help` and for completion."""
    return sorted({*globals(), *__all__})

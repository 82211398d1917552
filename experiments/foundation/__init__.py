"""What the parts cost that everything stands on: nodes, script, code generation, parallel loops.

Each module has ``figures()``: the value and the unit of everything it measures, by name. They are costs of our own code, so there
are no peers; every figure is the best or the median of several repetitions, in a process of its own.
"""

from __future__ import annotations

from typing import Any

THEMES = ("nodes", "script", "candidate", "dispatch", "microkernel")


def measure(name: str) -> dict[str, Any]:
    """The figures of one module."""
    from ..harness.contestant import Job, run_job

    return {"row": name, "figures": run_job(Job(name, f"experiments.foundation.{name}:figures"))}

"""How lists, tables and pages name kernels and targets."""

from __future__ import annotations

from collections.abc import Iterable

from database import Session, WorkloadSummary
from ir.target import Target


def kernel_names(sessions: Iterable[Session]) -> dict[str, str]:
    """The names that kernels had in the model that was tuned last, by the hashes of their workloads.

    Args:
        sessions: of a database, the oldest first.
    """
    given = [item for session in sessions for item in session.kernels.items()]
    return {shash: str(name) for shash, name in given if name != "main"}


def target_text(target: Target | None) -> str:
    """A target in a few words: a device by its card, or by what its code is for; a processor as it is written."""
    if target is None:
        return "no target"
    if not target.is_gpu:
        return str(target)
    if target.tag:
        return target.tag
    shown = {name: target.attrs[name] for name in ("arch", "multi_processor_count") if name in target.attrs}
    return " ".join([target.kind_name, *(f"-{name}={value}" for name, value in shown.items())])


def shapes_text(summary: WorkloadSummary) -> str:
    """The shapes of a kernel's tensors, as ``1x3x224x224, 64x3x7x7, scalar``."""
    return ", ".join("x".join(map(str, shape)) or "scalar" for _, _, shape in summary.args)

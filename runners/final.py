"""The last word between rivals whose times are close: measure them again, taking turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import candidate
from .builder import Artifact, BuilderInput
from .pool import WorkerPool, shared_pool


def final_choice(
    inputs: Sequence[BuilderInput | Artifact],
    *,
    reference: Any = None,
    rounds: int = 7,
    round_secs: float = 0.02,
    timeout_sec: float = 60.0,
    pool: WorkerPool | None = None,
) -> list[float | None]:
    """Median seconds per call of each candidate over ``rounds`` interleaved rounds of about ``round_secs`` seconds.

    ``reference`` is the unscheduled module: every candidate goes through the whole check first, since one of them is to be the
    best, and one that is wrong gets None. Without it inputs are made from each candidate, and nothing is checked. A
    candidate whose process dies gets None too, and the others are measured again without it.
    """
    processes = pool or shared_pool()
    artifacts = [_artifact(item) for item in inputs]
    alive = list(range(len(artifacts)))
    medians: list[float | None] = [None] * len(artifacts)
    found = _together([artifacts[i] for i in alive], reference, rounds, round_secs, timeout_sec, processes)
    if found is None and len(alive) > 1:
        # Somebody ruins it for all; find out who, and let the others take turns.
        alive = [
            i for i in alive if _together([artifacts[i]], reference, 1, round_secs, timeout_sec, processes)
        ]
        found = (
            _together([artifacts[i] for i in alive], reference, rounds, round_secs, timeout_sec, processes)
            if alive
            else None
        )
    for index, secs in zip(alive, found or ()):
        medians[index] = None if isinstance(secs, str) else secs
    return medians


def _artifact(item: BuilderInput | Artifact) -> Artifact:
    return item if isinstance(item, Artifact) else Artifact(item.mod, item.target)


def _together(
    artifacts: list[Artifact],
    reference: Any,
    rounds: int,
    round_secs: float,
    timeout_sec: float,
    pool: WorkerPool,
) -> list[float | str] | None:
    entries = [(item.number, item.mod, item.target, item.build) for item in artifacts]
    call = pool.submit(
        candidate.under,
        artifacts[0].context,  # rivals are built alike
        candidate.run_rivals,
        entries,
        reference,
        rounds,
        round_secs,
        timeout_sec,
        limit=timeout_sec,
    )
    outcome = call.result()
    value: Any = outcome.value
    return value if outcome.kind == "returned" else None

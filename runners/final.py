"""The last word between rivals whose times are close: measure them again, taking turns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from . import candidate
from .builder import Artifact, BuilderInput, failure_kind, message_of
from .candidate import RunReport
from .evaluator import EvaluatorConfig
from .pool import WorkerPool, shared_pool
from .result import ResultKind
from .runner import RunnerResult

if TYPE_CHECKING:
    from .cuda.place import Place

_LOST = set(ResultKind) - {ResultKind.OK, ResultKind.WRONG_RESULT}
"""How one candidate ends that takes the process, or the call, of all with it."""


def final_choice(
    inputs: Sequence[BuilderInput | Artifact],
    *,
    reference: Any = None,
    rounds: int = 7,
    round_secs: float = 0.02,
    timeout_sec: float = 60.0,
    evaluator_config: EvaluatorConfig | None = None,
    pool: WorkerPool | None = None,
    confirmed: Collection[int] = (),
    place: Place | None = None,
) -> list[RunnerResult]:
    """Time candidates in ``rounds`` interleaved rounds of about ``round_secs`` seconds; ``run_secs`` is one time for each.

    ``reference`` is the unscheduled module: every candidate goes through the whole check first, since one of them is to be the
    best, and one that is wrong gets no time; those whose places are in ``confirmed`` have gone through it before, and only through its
    first cases again. Without it inputs are made from each candidate, and nothing is checked. A
    candidate whose process dies gets none either, and the others are measured again without it. ``evaluator_config`` tells what the
    caches hold before each call. ``place`` has the devices that they run on; None stands for the processor.
    """
    processes, config = pool or shared_pool(), EvaluatorConfig._normalized(evaluator_config)
    artifacts = [_artifact(item) for item in inputs]

    def contest(rivals: list[int], rounds: int) -> list[RunnerResult]:
        chosen = [(artifacts[index], index in confirmed) for index in rivals]
        return _together(chosen, reference, rounds, round_secs, timeout_sec, config, processes, place)

    everyone = list(range(len(artifacts)))
    results = contest(everyone, rounds)
    if len(everyone) > 1 and all(item.kind in _LOST for item in results):
        # Somebody ruins it for all; find out who, and let the others take turns.
        alone = [contest([index], 1)[0] for index in everyone]
        alive = [index for index in everyone if alone[index].kind not in _LOST]
        together = dict(zip(alive, contest(alive, rounds) if alive else ()))
        results = [together.get(index, alone[index]) for index in everyone]
    return results


def _artifact(item: BuilderInput | Artifact) -> Artifact:
    return item if isinstance(item, Artifact) else Artifact(item.mod, item.target)


def _together(
    artifacts: list[tuple[Artifact, bool]],
    reference: Any,
    rounds: int,
    round_secs: float,
    timeout_sec: float,
    config: EvaluatorConfig,
    pool: WorkerPool,
    place: Place | None,
) -> list[RunnerResult]:
    """The results of rivals in one process; how it ended for each of them if it did."""
    entries = [(item.number, item.mod, item.target, item.build, passed) for item, passed in artifacts]
    call = pool.submit(
        candidate.under,
        artifacts[0][0].context,  # rivals are built alike
        candidate.run_rivals,
        entries,
        reference,
        rounds,
        round_secs,
        timeout_sec,
        config,
        place,
        limit=timeout_sec,
    )
    outcome = call.result()
    if outcome.kind != "returned":
        kind, message = failure_kind(outcome, in_build=False), message_of(outcome)
        return [RunnerResult(None, message, kind) for _ in artifacts]
    reports: list[RunReport] = outcome.value
    return [report.result() for report in reports]

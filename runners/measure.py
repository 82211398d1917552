"""Build and measure a batch: builds on all cores first, then one measurement after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .builder import Builder, BuilderInput, BuilderResult
from .result import ResultKind
from .runner import Runner, RunnerInput, RunnerResult


@dataclass(slots=True)
class MeasureRequest:
    """One candidate; see :class:`BuilderInput` and :class:`RunnerInput` for the fields."""

    mod: Any
    target: Any
    reference: Any = None
    best_secs: float | None = None
    device_type: str = "cpu"
    args_info: Sequence[Any] | None = None


@dataclass(slots=True)
class MeasureResult:
    """What came of it; ``run_secs`` for ``ResultKind.OK``, ``error_msg`` for everything else."""

    kind: ResultKind
    run_secs: tuple[float, ...] | None
    error_msg: str | None
    cut: bool = False
    verified: bool = False
    build_secs: float = 0.0
    baseline_secs: float | None = None
    check: str = ""
    check_secs: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether there is a time."""
        return self.kind is ResultKind.OK


def measure_candidates(
    requests: Iterable[MeasureRequest], builder: Builder, runner: Runner
) -> Iterator[tuple[int, MeasureResult]]:
    """Yield (position, result) as results come: failed builds first, then the measured ones in order, but for those that
    are faster than the best time of their request: they wait until the fastest of them has passed the rest of the check.

    The best time of a workload is updated on the way, so that hopeless candidates of the same batch are cut. Candidates
    that were not reached when the caller stops are simply not measured. Making the requests may take time: the first are
    built meanwhile.
    """
    made: list[MeasureRequest] = []

    def inputs() -> Iterator[BuilderInput]:
        for request in requests:
            made.append(request)
            yield BuilderInput(request.mod, request.target)

    built = [future.result() for future in builder.submit(inputs())]
    for position, result in enumerate(built):
        if result.artifact is None:
            yield position, MeasureResult(result.kind, None, result.error_msg, build_secs=result.build_secs)
    best: dict[int, float] = {}
    waiting: dict[int, list[tuple[int, RunnerResult]]] = {}
    for position, (request, result) in enumerate(zip(made, built, strict=True)):
        if result.artifact is None:
            continue
        known = [secs for secs in (request.best_secs, best.get(id(request.reference))) if secs is not None]
        item = RunnerInput(
            result.artifact,
            request.device_type,
            request.args_info,
            reference=request.reference,
            best_secs=min(known, default=None),
            confirm_later=True,
        )
        (future,) = runner.run([item])
        run = future.result()
        if run.run_secs and request.reference is not None:
            best[id(request.reference)] = min(_mean(run), best.get(id(request.reference), math.inf))
        if run.confirm is not None and (request.best_secs is None or _mean(run) < request.best_secs):
            waiting.setdefault(id(request.reference), []).append((position, run))
        else:
            yield position, _measured(run, result)
    for rivals in waiting.values():
        for position, run in _confirmed(rivals):
            yield position, _measured(run, built[position])


def _confirmed(rivals: list[tuple[int, RunnerResult]]) -> Iterator[tuple[int, RunnerResult]]:
    """The fastest once it has passed the rest of the check; if it does not, the next one. Slower ones need not."""
    found = False
    for position, run in sorted(rivals, key=lambda item: _mean(item[1])):
        if not found and run.confirm is not None:
            run = run.confirm()
            found = run.kind is ResultKind.OK
        yield position, run


def _mean(run: RunnerResult) -> float:
    assert run.run_secs
    return sum(run.run_secs) / len(run.run_secs)


def _measured(run: RunnerResult, built: BuilderResult) -> MeasureResult:
    secs = None if run.run_secs is None else tuple(run.run_secs)
    return MeasureResult(
        run.kind,
        secs,
        run.error_msg,
        run.cut,
        run.verified,
        built.build_secs,
        run.baseline_secs,
        run.check,
        run.check_secs,
    )

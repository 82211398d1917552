"""Build and measure a batch: builds on all cores first, then one measurement after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .builder import Builder, BuilderInput, BuilderResult
from .result import ResultKind
from .runner import Runner, RunnerInput


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
    """Yield (position, result) as results come: failed builds first, then the measured ones in order.

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
        )
        (future,) = runner.run([item])
        measured = _measured(future.result(), result)
        if measured.run_secs and request.reference is not None:
            secs = sum(measured.run_secs) / len(measured.run_secs)
            best[id(request.reference)] = min(secs, best.get(id(request.reference), secs))
        yield position, measured


def _measured(run: Any, built: BuilderResult) -> MeasureResult:
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

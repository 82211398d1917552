"""Build and measure a batch: builds on all cores first, then one measurement after the other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ir.time_interval import UNKNOWN_NOISE, noise_of

from .builder import Builder, BuilderInput, BuilderResult
from .error import RunnerError
from .result import ResultKind
from .runner import Runner, RunnerInput, RunnerResult, require_results

STOPS = (KeyboardInterrupt, SystemExit)
"""What ends a search before its budget does, without being an error: Ctrl-C, and a request that the process should end."""


@dataclass(slots=True)
class MeasureRequest:
    """One candidate; see :class:`BuilderInput` and :class:`RunnerInput` for the fields."""

    mod: Any
    target: Any
    reference: Any = None
    best_secs: float | None = None
    best_noise: float = UNKNOWN_NOISE
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
    confirmed: bool = False
    """It has passed the whole check."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What builder and runner measured beside the time, by name: ``code_size``, ``memory``, ``energy``, ``disturbance``."""
    artifact: Any = None
    """What was built, for measuring it again; of candidates that ran."""

    @property
    def secs(self) -> float:
        """The median of the times, infinite without any."""
        return statistics.median(self.run_secs) if self.run_secs else math.inf

    @property
    def ok(self) -> bool:
        """Whether there is a time."""
        return self.kind is ResultKind.OK


def measure_candidates(
    requests: Iterable[MeasureRequest], builder: Builder, runner: Runner
) -> Generator[tuple[int, MeasureResult], None, None]:
    """Yield (position, result) as results come: failed builds first, then the measured ones in order, but for those that
    are faster than the best time of their request: they wait until the fastest of them has passed the rest of the check.

    The best time of a workload is updated on the way, so that hopeless candidates of the same batch are cut. What a time cut
    that waits for its check waits too, and is measured again if that check fails. Candidates that were not reached when
    the caller stops are simply not measured; on one of :data:`STOPS`, also one that :func:`finished_results` throws, what waits is
    checked and comes before the exception does. Making the requests may take time: the first are built meanwhile.

    Raises:
        RunnerError: builder or runner answers with something else than a result for each candidate.
    """
    made: list[MeasureRequest] = []

    def inputs() -> Iterator[BuilderInput]:
        for request in requests:
            made.append(request)
            yield BuilderInput(request.mod, request.target)

    built = [future.result() for future in builder.submit(inputs())]
    if len(built) != len(made) or not all(isinstance(result, BuilderResult) for result in built):
        raise RunnerError(
            f"{type(builder).__name__}.build gives a BuilderResult for each candidate, in their order; of {len(made)} it gave"
            f" [{', '.join(type(result).__name__ for result in built)}]"
        )
    for position, result in enumerate(built):
        if result.artifact is None:
            yield position, MeasureResult(result.kind, None, result.error_msg, build_secs=result.build_secs)
    batch = _Batch(made, built, runner)
    left = [position for position, result in enumerate(built) if result.artifact is not None]
    try:
        while left:
            for position in left:
                yield from batch.measured(position)
            left = yield from batch.settled()
    except STOPS:
        yield from batch.settled()
        raise


def finished_results(
    results: Generator[tuple[int, MeasureResult], None, None], stop: BaseException
) -> Iterator[tuple[int, MeasureResult]]:
    """What :func:`measure_candidates` has measured and not yielded yet when one of :data:`STOPS` comes."""
    with suppress(*STOPS):
        yield results.throw(stop)
        yield from results


_Time = tuple[float, float]
"""Seconds, and how certain they are (:func:`ir.time_interval.noise_of`)."""
_NEVER: _Time = (math.inf, 0.0)


class _Batch:
    """The best times of a batch's workloads, and the results that wait until the check of a faster one has ended.

    Workloads are told apart by the identity of their reference.
    """

    def __init__(
        self, requests: Sequence[MeasureRequest], built: Sequence[BuilderResult], runner: Runner
    ) -> None:
        self._requests, self._built, self._runner = requests, built, runner
        self._best: dict[int, _Time] = {}
        self._rivals: dict[int, list[tuple[int, RunnerResult]]] = {}
        self._behind: dict[int, list[tuple[int, RunnerResult, _Time]]] = {}
        """What the time of a rival has cut, with that time."""

    def measured(self, position: int) -> Iterator[tuple[int, MeasureResult]]:
        """Measure a candidate; nothing comes where the result has to wait."""
        request = self._requests[position]
        workload, best = id(request.reference), self._best_time(request)
        hoped = min([best, *[_time(run) for _, run in self._rivals.get(workload, ())]])
        item = RunnerInput(
            self._built[position].artifact,
            request.device_type,
            request.args_info,
            reference=request.reference,
            best_secs=None if hoped[0] == math.inf else hoped[0],
            best_noise=hoped[1],
            confirm_later=True,
        )
        run = self._run(item)
        if (run.cut or run.kind is ResultKind.RUN_TIMEOUT) and hoped < best:
            self._behind.setdefault(workload, []).append((position, run, hoped))
        elif run.confirm is not None and _time(run) < best:
            self._rivals.setdefault(workload, []).append((position, run))
        else:
            if run.run_secs and request.reference is not None:
                self._best[workload] = min(_time(run), best)
            yield self._result(position, run)

    def _run(self, item: RunnerInput) -> RunnerResult:
        name, futures = type(self._runner).__name__, self._runner.run([item])
        futures = list(futures) if isinstance(futures, Iterable) else [futures]
        if len(futures) != 1 or not callable(getattr(futures[0], "result", None)):
            shown = ", ".join(type(future).__name__ for future in futures)
            raise RunnerError(
                f"{name}.run gives a RunnerFuture for each candidate, one here; it gave [{shown}]"
            )
        return require_results(futures[0].result(), 1, f"the future of {name}.run")[0]

    def settled(self) -> Generator[tuple[int, MeasureResult], None, list[int]]:
        """What has waited. The fastest goes through the rest of the check; if it fails, the next one. Slower ones need not.

        Returns:
            The candidates that a time has cut which did not stand.
        """
        again: list[int] = []
        for workload, rivals in self._rivals.items():
            rivals.sort(key=lambda item: _time(item[1]))
            while rivals:
                position, run = rivals[0]
                if run.confirm is not None and _time(run) < self._best_time(self._requests[position]):
                    run = run.confirm()
                    if run.kind is ResultKind.OK:
                        self._best[workload] = _time(run)
                del rivals[0]
                yield self._result(position, run)
            behind = self._behind.get(workload, [])
            while behind:
                position, run, hoped = behind.pop(0)
                if self._best_time(self._requests[position]) <= hoped:
                    yield self._result(position, run)
                else:
                    again.append(position)
        return again

    def _best_time(self, request: MeasureRequest) -> _Time:
        """The best time of candidates that need no further check."""
        known = math.inf if request.best_secs is None else request.best_secs
        return min((known, request.best_noise), self._best.get(id(request.reference), _NEVER))

    def _result(self, position: int, run: RunnerResult) -> tuple[int, MeasureResult]:
        return position, _measured(run, self._built[position])


def _time(run: RunnerResult) -> _Time:
    assert run.run_secs
    return run.secs, noise_of(run.run_secs)


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
        run.confirmed,
        {**built.metrics, **run.metrics},
        built.artifact if run.run_secs is not None else None,
    )

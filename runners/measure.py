"""Build and measure a batch.

Where measurements have this machine to themselves, builds run on all cores first, and then one measurement after the other. Where they
happen elsewhere, each candidate is measured as soon as it is built, and as many at a time as the runner has devices.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from ir.time_interval import UNKNOWN_NOISE, median_secs, noise_of

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
        return median_secs(self.run_secs)

    @property
    def ok(self) -> bool:
        """Whether there is a time."""
        return self.kind is ResultKind.OK


def measure_candidates(
    requests: Iterable[MeasureRequest], builder: Builder, runner: Runner
) -> Generator[tuple[int, MeasureResult], None, None]:
    """Yield (position, result) as results come, but for those that are faster than the best time of their request: they wait until the
    fastest of them has passed the rest of the check.

    Where the runner measures on this machine, all candidates are built first, those that failed come first, and the others in
    order. The best time of a workload is updated on the way, so that hopeless candidates of the same batch are cut. What a time cut
    that waits for its check waits too, and is measured again if that check fails. Candidates that were not reached when
    the caller stops are simply not measured; on one of :data:`STOPS`, also one that :func:`finished_results` throws, what is being
    measured is waited for, what waits is checked, and both come before the exception does. Making the requests may take time: the first
    are built meanwhile.

    Raises:
        RunnerError: builder or runner answers with something else than a result for each candidate.
    """
    made: list[MeasureRequest] = []

    def inputs() -> Iterator[BuilderInput]:
        for request in requests:
            made.append(request)
            yield BuilderInput(request.mod, request.target)

    builds = builder.submit(inputs())
    if len(builds) != len(made):
        _refuse_builds(builder, len(made), builds)
    with ExitStack() as stack:
        batch = _Batch(made, builder, runner, _Calls(runner.measures_at_once, stack))
        try:
            waiting = list(enumerate(builds))
            if not runner.measures_elsewhere:
                built = [build.result() for build in builds]
                for position, result in enumerate(built):
                    yield from batch.take_build(position, result)
                waiting = []
            yield from batch.measured({build: position for position, build in waiting})
            yield from batch.settled()
            while batch.ready:
                yield from batch.measured()
                yield from batch.settled()
        except STOPS:
            yield from batch.under_way()
            yield from batch.settled()
            raise


def _refuse_builds(builder: Builder, count: int, found: Sequence[Any]) -> None:
    shown = ", ".join(type(item).__name__ for item in found)
    raise RunnerError(
        f"{type(builder).__name__}.build gives a BuilderResult for each candidate, in their order; of {count} it gave [{shown}]"
    )


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


class _Calls:
    """Makes calls: at once where one is made at a time, in threads where it may be several."""

    def __init__(self, at_once: int, stack: ExitStack) -> None:
        self.at_once = at_once
        self._threads = None if at_once == 1 else stack.enter_context(ThreadPoolExecutor(at_once))

    def start(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Make a call, whose future may be finished on return."""
        if self._threads is not None:
            return self._threads.submit(function, *args)
        future: Future[Any] = Future()
        future.set_result(function(*args))
        return future


class _Batch:
    """The best times of a batch's workloads, and the results that wait until the check of a faster one has ended.

    Workloads are told apart by the identity of their reference.
    """

    def __init__(
        self, requests: Sequence[MeasureRequest], builder: Builder, runner: Runner, calls: _Calls
    ) -> None:
        self._requests, self._builder, self._runner, self._calls = requests, builder, runner, calls
        self._built: dict[int, BuilderResult] = {}
        self.ready: deque[int] = deque()
        """Candidates that are built, and are not being measured yet."""
        self._under_way: dict[Future[RunnerResult], tuple[int, _Time]] = {}
        """Candidates that are being measured, with the time that may cut them."""
        self._best: dict[int, _Time] = {}
        self._rivals: dict[int, list[tuple[int, RunnerResult]]] = {}
        self._behind: dict[int, list[tuple[int, RunnerResult, _Time]]] = {}
        """What the time of a rival has cut, with that time."""

    def take_build(self, position: int, result: BuilderResult) -> Iterator[tuple[int, MeasureResult]]:
        """What was built is ready to be measured; a build that failed comes back."""
        if not isinstance(result, BuilderResult):
            _refuse_builds(self._builder, len(self._requests), [result])
        self._built[position] = result
        if result.artifact is None:
            yield position, MeasureResult(result.kind, None, result.error_msg, build_secs=result.build_secs)
        else:
            self.ready.append(position)

    def measured(
        self, builds: dict[Future[BuilderResult], int] | None = None
    ) -> Iterator[tuple[int, MeasureResult]]:
        """Measure what is ready, and what of these builds gets ready; nothing comes of those whose results have to wait."""
        building = builds or {}
        while building or self.ready or self._under_way:
            while self.ready and len(self._under_way) < self._calls.at_once:
                self._start(self.ready.popleft())
            pending: list[Future[Any]] = [*building, *self._under_way]
            finished = wait(pending, return_when=FIRST_COMPLETED).done
            for build in [item for item in building if item in finished]:
                yield from self.take_build(building.pop(build), build.result())
            for run in [item for item in self._under_way if item in finished]:
                yield from self._take_run(run)

    def under_way(self) -> Iterator[tuple[int, MeasureResult]]:
        """Wait for what is being measured."""
        while self._under_way:
            yield from self._take_run(next(iter(self._under_way)))

    def _start(self, position: int) -> None:
        request = self._requests[position]
        rivals = self._rivals.get(id(request.reference), ())
        hoped = min([self._best_time(request), *[_time(run) for _, run in rivals]])
        item = RunnerInput(
            self._built[position].artifact,
            request.device_type,
            request.args_info,
            reference=request.reference,
            best_secs=None if hoped[0] == math.inf else hoped[0],
            best_noise=hoped[1],
            confirm_later=True,
        )
        self._under_way[self._calls.start(self._run, item)] = position, hoped

    def _take_run(self, future: Future[RunnerResult]) -> Iterator[tuple[int, MeasureResult]]:
        position, hoped = self._under_way.pop(future)
        run, request = future.result(), self._requests[position]
        workload, best = id(request.reference), self._best_time(request)
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

    def settled(self) -> Iterator[tuple[int, MeasureResult]]:
        """What has waited. The fastest goes through the rest of the check; if it fails, the next one. Slower ones need not.

        What a time has cut that did not stand is ready to be measured again.
        """
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
                    self.ready.append(position)

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

"""Measuring without running: times come from a record or a function, so that whole searches are tested in no time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from ir import structural_hash

from .builder import Builder, BuilderInput, BuilderResult, require_no_params
from .error import RecordedTimeMissing
from .result import ResultKind
from .runner import Runner, RunnerFuture, RunnerInput, RunnerResult


class ReplayBuilder(Builder):
    """Builds nothing: the artifact is the program itself (the function that makes it is called)."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [self._one(item) for item in build_inputs]

    def _one(self, item: BuilderInput) -> BuilderResult:
        require_no_params(self, item)
        if hasattr(item.mod, "functions") or not callable(item.mod):
            return BuilderResult(item.mod, None)
        try:
            return BuilderResult(item.mod(), None)
        except Exception as error:
            # As in the worker: whatever making the program raises is the candidate's failure.
            return BuilderResult(None, f"{type(error).__name__}: {error}", ResultKind.ILLEGAL_SCHEDULE)


class ReplayRunner(Runner):
    """Answers from recorded times.

    ``times`` maps keys of artifacts to seconds, to lists of seconds, or to whole results; or it is a function from the
    artifact to one of these. What it has no time for is a failed result, or ``default`` seconds.
    """

    def __init__(
        self,
        times: Mapping[Hashable, Any] | Callable[[Any], Any],
        *,
        key: Callable[[Any], Hashable] | None = None,
        default: float | None = None,
    ) -> None:
        """``key`` makes the key of an artifact; by default it is the structural hash of the program, as text."""
        self._times = times
        self._key = key or _structural_key
        self._default = default
        self.count = 0
        """Measurements so far."""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [_done(self._one(item)) for item in runner_inputs]

    def _one(self, item: RunnerInput) -> RunnerResult:
        self.count += 1
        try:
            found = self._look_up(item.artifact)
        except RecordedTimeMissing as error:
            return RunnerResult(None, str(error), ResultKind.RUN_ERROR)
        if isinstance(found, RunnerResult):
            return found
        if isinstance(found, ResultKind):
            return RunnerResult(None, f"recorded as {found}", found)
        secs = [float(found)] if isinstance(found, int | float) else [float(value) for value in found]
        return RunnerResult(secs, None, verified=item.reference is not None)

    def _look_up(self, artifact: Any) -> Any:
        if not isinstance(self._times, Mapping):
            return self._times(artifact)
        key = self._key(artifact)
        if key in self._times:
            return self._times[key]
        if self._default is None:
            raise RecordedTimeMissing(f"no recorded time for candidate {key!r} among {len(self._times)}")
        return self._default


def _structural_key(artifact: Any) -> Hashable:
    return str(structural_hash(artifact))


def _done(result: RunnerResult) -> RunnerFuture:
    return RunnerFuture(lambda: True, lambda: result)

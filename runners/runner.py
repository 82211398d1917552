"""The interface of runners: artifacts in, measured times or the kind of failure out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ir.kinds import Kinds
from ir.time_interval import UNKNOWN_NOISE, TimeInterval, median_secs

from .error import RunnerError
from .result import ResultKind


@dataclass(slots=True)
class RunnerInput:
    """One measurement. The first three fields are MetaSchedule's."""

    artifact: Any
    """What the matching builder made."""
    device_type: str = "cpu"
    args_info: Sequence[Any] | None = None
    """Dtypes and shapes of the arguments (objects with ``dtype`` and ``shape``), for runners of artifacts that do not tell themselves. Of
    what :class:`LocalBuilder` built they are known, and must be these."""
    reference: Any = None
    """The unscheduled IRModule; outputs are compared with its outputs before the time counts."""
    best_secs: float | None = None
    """The best time known; a candidate that is certainly behind is measured no further."""
    best_noise: float = UNKNOWN_NOISE
    """How certain that time is; see :func:`ir.time_interval.noise_of`."""
    confirm_later: bool = False
    """Whoever asks lets the best of several go through the rest of the check: see :attr:`RunnerResult.confirm`. Otherwise every
    candidate faster than ``best_secs`` does, before its time counts."""

    @property
    def artifact_path(self) -> Any:
        """MetaSchedule's name for the artifact."""
        return self.artifact

    @property
    def best(self) -> TimeInterval | None:
        """The interval of the best time."""
        return None if self.best_secs is None else TimeInterval.around(self.best_secs, self.best_noise)


@dataclass(slots=True)
class RunnerResult:
    """Times in seconds, or a message and the kind of failure; never both, never neither.

    Times that are none (an empty list, zero, negative, not finite, no numbers) become a failure of the kind ``RUN_ERROR``, and so do
    measures that are none: whoever made the runner reads it in the summary, and the search goes on. A single number or a numpy array are
    times, too.

    Raises:
        RunnerError: there are times and a message or a kind of failure, or neither times nor a message.
    """

    run_secs: Sequence[float] | None
    error_msg: str | None
    kind: ResultKind = ResultKind.OK
    cut: bool = False
    """``run_secs`` is one call of a candidate that was far behind."""
    verified: bool = False
    """The outputs were compared with the unscheduled program's."""
    baseline_secs: float | None = None
    """What one run of the reference takes in the order of :mod:`runners.reference_order`, when there is one."""
    check: str = ""
    """The version of the check that was passed, where this runner names one; a record keeps it."""
    check_secs: float = 0.0
    """What checking took, without timing."""
    confirmed: bool = False
    """It has passed the whole check."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What was measured beside the time: ``energy`` (joules of one call), and where it was not quiet, ``disturbance`` (the share of the
    machine that others took)."""
    confirm: Callable[[], RunnerResult] | None = None
    """Does the rest of the check, which a candidate must pass before it may be the best, and gives the result that counts
    then; None where there is nothing left to do."""

    def __post_init__(self) -> None:
        if self.run_secs is None and self.kind is ResultKind.OK:
            self.kind = ResultKind.RUN_ERROR
        is_ok = self.kind is ResultKind.OK
        if (self.run_secs is None) == (self.error_msg is None) or (self.run_secs is not None) != is_ok:
            raise RunnerError(
                f"a result has times, or a message and the kind of failure, got {self.run_secs=}, {self.error_msg=}, {self.kind=}"
            )
        if self.run_secs is None:
            return
        times = _times_of(self.run_secs)
        if times is None:
            self._refuse(f"no time: it is one or more positive, finite seconds, got {self.run_secs!r}")
        elif not are_measures(self.metrics):
            self._refuse(f"no measures: they are finite numbers by name, not negative, got {self.metrics!r}")
        else:
            self.run_secs = list(times) if isinstance(self.run_secs, list) else times

    def _refuse(self, what: str) -> None:
        self.error_msg = f"the runner gave {what}"
        self.run_secs, self.kind, self.cut, self.verified = None, ResultKind.RUN_ERROR, False, False
        self.metrics = {}

    @property
    def secs(self) -> float:
        """The median of the times, infinite without any."""
        return median_secs(self.run_secs)


def _times_of(values: Any) -> tuple[float, ...] | None:
    """What a runner gave as times; None where it is something else."""
    try:
        times = () if isinstance(values, str) else tuple(float(item) for item in np.atleast_1d(values))
    except (TypeError, ValueError):
        return None
    return times if times and all(math.isfinite(secs) and secs > 0 for secs in times) else None


def are_measures(values: Any) -> bool:
    """Whether something holds measures by name as databases keep them: finite numbers that are not negative."""
    try:
        return all(math.isfinite(value) and value >= 0 for value in values.values())
    except (AttributeError, TypeError):
        return False


def require_results(found: Any, count: int, what: str) -> list[RunnerResult]:
    """What somebody's runner answered, if it is as many results as were asked for.

    Args:
        found: the answer.
        count: of what was measured.
        what: method that answered, for the message.

    Raises:
        RunnerError: it is something else.
    """
    results = list(found) if isinstance(found, list | tuple) else [found]
    if len(results) != count or not all(isinstance(item, RunnerResult) for item in results):
        shown = ", ".join(type(item).__name__ for item in results)
        raise RunnerError(f"{what} gives a RunnerResult for each candidate, {count} here; it gave [{shown}]")
    return results


class RunnerFuture:
    """A result that comes later."""

    def __init__(self, f_done: Callable[[], bool], f_result: Callable[[], RunnerResult]) -> None:
        """``f_done`` tells whether ``f_result`` returns at once."""
        self._done, self._result = f_done, f_result

    def done(self) -> bool:
        """Whether the result is there."""
        return self._done()

    def result(self) -> RunnerResult:
        """Wait for the result."""
        return self._result()


class Runner(ABC):
    """Measures artifacts.

    The contract, held by ``tests/runners/contract.py``: ``run`` returns at once with a future for each input, in order; a
    bad candidate gives a failed result, never an exception, and the next candidate is measured all the same.
    """

    kinds: ClassVar[Kinds[Callable[..., Runner]]] = Kinds("runner", RunnerError, __package__)
    """The runners that :meth:`create` knows; each registers itself where it is defined."""

    @abstractmethod
    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Start measuring."""

    def final_choice(
        self, artifacts: Sequence[Any], reference: Any = None, confirmed: Collection[int] = ()
    ) -> list[RunnerResult] | None:
        """Measure a few candidates, which were checked before, in turns; each has a time for every turn.

        ``reference`` is the unscheduled module, from which inputs are made. The places of those that this runner has put through the
        whole check are in ``confirmed``: they need not go through all of it again.

        The answer None says that this runner cannot, and is the default.
        """
        return None

    measures_at_once: int = 1
    """How many candidates it measures at a time, on as many devices."""
    measures_elsewhere: bool = False
    """Whether what happens on this machine, as builds do, leaves its measurements alone: candidates are then measured as soon as they are
    built, and otherwise when all of a batch are."""
    takes_bytes: bool = False
    """Whether it wants what is built as bytes (:class:`runners.kernel_code.KernelCode`), which it sends to its devices."""
    measures_again: bool = False
    """Whether :meth:`measure_again` can."""

    def measure_again(self, item: RunnerInput) -> RunnerResult:
        """Time a candidate once more that this runner has checked before, in full, to see whether the machine is what it was.

        Raises:
            RunnerError: this runner cannot, which is the default.
        """
        raise RunnerError(f"{type(self).__name__} measures no candidate again")

    def hardware(self) -> dict[str, Any] | None:
        """What records say of the machine that it measures on, as :func:`ir.target.host.fingerprint`; None for this machine."""
        return None

    @staticmethod
    def create(kind: str = "local", *args: Any, **kwargs: Any) -> Runner:
        """A runner by name.

        Raises:
            RunnerError: the name is unknown.
        """
        return Runner.kinds[kind](*args, **kwargs)

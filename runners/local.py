"""The runner of this machine: candidates run in the worker processes that built them, one at a time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from . import candidate
from .builder import REQUEST_SECONDS, Artifact, answer, failure_kind, message_of
from .candidate import RunReport, RunSettings
from .energy import EnergyMeter
from .error import RunnerError
from .evaluator import EvaluatorConfig
from .final import final_choice
from .kernel_code import ProgramText
from .outcome import Outcome
from .pool import WorkerPool
from .result import ResultKind
from .runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from .session import MeasuringPart, SessionSettings
from .settings import check_seconds
from .verify import ReferenceStore

if TYPE_CHECKING:
    from .cuda.place import Place


@Runner.kinds.register("local")
class LocalRunner(MeasuringPart, Runner):
    """Checks and times artifacts of :class:`LocalBuilder` in isolated processes, with the machine to themselves."""

    device_types: ClassVar[tuple[str, ...]] = ("cpu", "llvm", "c")
    """What it runs on, by name."""
    place: Place | None = None
    """The devices that candidates are measured on; None for the processor."""

    def __init__(
        self,
        timeout_sec: float = 30.0,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        *,
        cut_ratio: float | None = None,
        reference_timeout_sec: float = candidate.REFERENCE_SECONDS,
        measure_energy: bool = False,
        pool: WorkerPool | None = None,
    ) -> None:
        """
        Args:
            timeout_sec: seconds that one call may take at most; what is known of the workload makes it shorter.
            evaluator_config: how often to call, and which data the caches hold.
            cooldown_sec: pause before each measurement.
            cut_ratio: a candidate whose first calls take this many times the best time, and 20 milliseconds more, is not
                called again; one that is as far behind once it is warm is not timed further. The others are timed until they are
                certainly slower than the best; with an infinite ratio, all are timed in full. By default 3.5, and infinite in a
                search that minimizes several objectives.
            reference_timeout_sec: seconds that one run of the unscheduled program may take, which is slow; the user is told after a few.
            measure_energy: tell the joules of a call as ``metrics["energy"]`` of each result that was not cut, also where no search
                minimizes them; see :class:`runners.energy.EnergyMeter`.
            pool: worker processes; those that the builder uses. By default those of the session, else those that all share.

        Raises:
            RunnerError: a setting is of another type, or energy is to be measured and this machine does not tell it.
        """
        for name, seconds in (
            ("timeout_sec", timeout_sec),
            ("cooldown_sec", cooldown_sec),
            ("reference_timeout_sec", reference_timeout_sec),
        ):
            check_seconds(f"LocalRunner: {name}", seconds)
        if measure_energy:
            self._require_energy()
        self._measure_energy = measure_energy
        self.timeout_sec = timeout_sec
        self._config = EvaluatorConfig._normalized(evaluator_config)
        self.cooldown_sec = cooldown_sec
        self._cut_ratio = cut_ratio
        self.reference_timeout_sec = reference_timeout_sec
        self._pool = pool

    def _require_energy(self) -> None:
        """Raises RunnerError where the energy of a call cannot be measured."""
        EnergyMeter()

    @contextmanager
    def serving(self, session: SessionSettings) -> Iterator[None]:
        """As every part of a session.

        Raises:
            RunnerError: energy is to be measured and this machine does not tell it.
        """
        if session.measure_energy:
            self._require_energy()
        with super().serving(session):
            yield

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [_future(self.submit(item)) for item in runner_inputs]

    def final_choice(
        self, artifacts: Sequence[Any], reference: Any = None, confirmed: Collection[int] = ()
    ) -> list[RunnerResult] | None:
        if not all(isinstance(artifact, Artifact) for artifact in artifacts):
            return None
        return final_choice(
            artifacts,
            reference=reference,
            timeout_sec=2 * self.timeout_sec,
            evaluator_config=self.evaluator_config,
            pool=self.pool,
            confirmed=confirmed,
            place=self.place,
        )

    measures_again = True

    def measure_again(self, item: RunnerInput) -> RunnerResult:
        return self.submit(item, again=True).result()

    def submit(self, item: RunnerInput, *, again: bool = False) -> Future[RunnerResult]:
        """Start one measurement; without a check where the candidate is measured ``again``.

        Raises:
            RunnerError: the artifact was not built by a :class:`LocalBuilder`, or the device is not this machine's.
        """
        artifact = item.artifact
        if not isinstance(artifact, Artifact):
            raise RunnerError(
                f"{type(self).__name__} runs what LocalBuilder built, got {type(artifact).__name__}: {artifact!r}"
            )
        if item.device_type not in self.device_types:
            raise RunnerError(
                f"{type(self).__name__} runs on {self.device_types[0]}, not on {item.device_type!r}"
            )
        future: Future[RunnerResult] = Future()
        self._start(item, artifact, future, again)
        return future

    def _start(
        self, item: RunnerInput, artifact: Artifact, future: Future[RunnerResult], again: bool
    ) -> None:
        settings = RunSettings(
            self.evaluator_config,
            self.timeout_sec,
            self.cut_ratio,
            self.cooldown_sec,
            self.reference_timeout_sec,
            self.measure_energy,
            self.place,
        )
        key = None if item.reference is None else _reference_key(item.reference, artifact.target)
        worker, generation = artifact.worker, artifact.generation
        alive = worker is not None and worker in self.pool.workers and worker.pid is not None
        if not alive or worker is None or generation != worker.generation:
            worker = None

        def submit(*, everything: bool) -> None:
            # Programs go along only when the worker does not have them: pickling takes longer than many kernels.
            program = artifact.mod if everything else None
            known = not everything and worker is not None and (generation, key) in worker.references
            call = self.pool.submit(
                candidate.under,
                artifact.context,
                candidate.run_candidate,
                artifact.number,
                program,
                artifact.target,
                artifact.build,
                key,
                None if known else item.reference,
                item.best,
                settings,
                again,
                item.args_info,
                limit=max(self.timeout_sec, REQUEST_SECONDS),
                phase="request",
                worker=worker,
                owner=artifact,
            )
            call.add_done_callback(lambda done: answer(done, future, judged))

        def judged(outcome: Outcome) -> RunnerResult | None:
            if outcome.kind == "raised" and outcome.error == "Forgotten":
                submit(everything=True)
                return None
            if outcome.kind == "returned" and key is not None and artifact.worker is not None:
                artifact.worker.references.add((artifact.generation, key))
            result = _run_result(outcome)
            if key is not None and result.verified and not result.cut and not again:
                report: RunReport = outcome.value
                if item.confirm_later:
                    result.confirm = partial(self._confirmed, item, artifact, key, report.kernel, result)
                elif report.best:
                    self._confirm(item, artifact, key, report.kernel, result, future)
                    return None
            return result

        submit(everything=worker is None)

    def _confirmed(
        self, item: RunnerInput, artifact: Artifact, key: str, shipped: bytes | None, result: RunnerResult
    ) -> RunnerResult:
        future: Future[RunnerResult] = Future()
        self._confirm(item, artifact, key, shipped, result, future)
        return future.result()

    def _confirm(
        self,
        item: RunnerInput,
        artifact: Artifact,
        key: str,
        shipped: bytes | None,
        result: RunnerResult,
        future: Future[RunnerResult],
    ) -> None:
        """Check the new best candidate in full, in a process that has not seen it, before its time counts."""

        begin = time.monotonic()

        def judged(outcome: Outcome) -> RunnerResult:
            result.confirm = None
            result.check_secs += time.monotonic() - begin
            if outcome.kind != "returned":
                kind, message = failure_kind(outcome, in_build=False), message_of(outcome)
            elif outcome.value is not None:
                kind = ResultKind.WRONG_RESULT
                message = f"{outcome.value}, when it was checked again as the best"
            else:
                result.confirmed = True
                return result
            return RunnerResult(None, message, kind, check_secs=result.check_secs)

        call = self.pool.submit(
            candidate.under,
            artifact.context,
            candidate.confirm_candidate,
            shipped,
            artifact.number,
            artifact.mod if shipped is None else None,
            artifact.target,
            artifact.build,
            key,
            item.reference,
            self.timeout_sec,
            self.timeout_sec,
            self.place,
            limit=max(self.timeout_sec, REQUEST_SECONDS),
            phase="request",
            apart=True,
        )
        call.add_done_callback(lambda done: answer(done, future, judged))


_KEYS: OrderedDict[int, tuple[Any, str, str]] = OrderedDict()


def _reference_key(mod: Any, target: Any) -> str:
    """The key of a workload; hashing a program takes milliseconds, and the same few are asked for again and again."""
    if isinstance(
        mod, ProgramText
    ):  # it knows its own; a server has another one for each request, of any size
        return ReferenceStore.key(mod, target)
    found = _KEYS.get(id(mod))
    if found is not None and found[0] is mod and found[1] == str(target):
        return found[2]
    key = ReferenceStore.key(mod, target)
    _KEYS[id(mod)] = (mod, str(target), key)
    while len(_KEYS) > 64:
        _KEYS.popitem(last=False)
    return key


def _run_result(outcome: Outcome) -> RunnerResult:
    if outcome.kind != "returned":
        return RunnerResult(None, message_of(outcome), failure_kind(outcome, in_build=False))
    report: RunReport = outcome.value
    return report.result()


def _future(waiting: Future[RunnerResult]) -> RunnerFuture:
    return RunnerFuture(waiting.done, waiting.result)

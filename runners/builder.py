"""Builders: scheduled programs in, loaded machine code in worker processes out, or the kind of failure."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ir.kinds import Kinds
from ir.pass_context import PassContext

from . import candidate
from .error import RunnerError
from .kernel_code import KernelCode
from .outcome import CONTEXT_LOST, Outcome
from .pool import Worker, WorkerPool
from .result import ResultKind
from .runner import are_measures
from .session import SessionPart
from .settings import check_seconds, check_whole

_NUMBERS = itertools.count(1)
REQUEST_SECONDS = 30.0
"""Until a worker has read what it is asked, which on a busy machine may take longer than a build or a call may: no candidate's fault."""


@dataclass(slots=True)
class BuilderInput:
    """What is to be built."""

    mod: Any
    """An IRModule, or a picklable function without parameters that returns one: it is called in the worker, so that
    replaying a trace is spread over the workers as well; an error of the compiler in it is an illegal schedule."""
    target: Any
    params: dict[str, Any] | None = None
    """Constants by name, for builders of one's own that fold them in; those of this project build kernels, and refuse any."""


def _options_in_force() -> PassContext:
    """The context of the caller; its instruments are objects of this process and stay here."""
    return replace(PassContext.current(), instruments=())


@dataclass(slots=True)
class Artifact:
    """A built candidate: it is loaded in the worker that built it, and is built again where that worker is gone.

    One that is built for devices elsewhere is its code, which is loaded wherever it runs.
    """

    mod: Any
    """The program, or a :class:`~runners.kernel_code.KernelCode`."""
    target: Any
    build: Callable[[Any, Any], Callable[..., Any]] | None = None
    context: PassContext = field(default_factory=_options_in_force)
    """What decides with which options passes run, wherever it is built."""
    number: int = field(default_factory=lambda: next(_NUMBERS))
    worker: Worker | None = None
    generation: int = 0


def portable_code(artifact: Any, runner: str, builder: str) -> KernelCode:
    """The bytes of an artifact, for a runner of devices elsewhere.

    Args:
        artifact: what was built.
        runner: name of the runner, for the message.
        builder: name of the builder beside :class:`LocalBuilder` that makes what it takes.

    Raises:
        RunnerError: the artifact is something else.
    """
    code = artifact.mod if isinstance(artifact, Artifact) else None
    if not isinstance(code, KernelCode):
        raise RunnerError(
            f"{runner} sends what LocalBuilder(portable=True) or {builder} built, which is bytes; got"
            f" {type(artifact).__name__}: {artifact!r}"
        )
    return code


@dataclass(slots=True)
class BuilderResult:
    """What came of it: an artifact, or a message and the kind of failure, which is ``BUILD_ERROR`` where nobody says more."""

    artifact: Any
    error_msg: str | None
    kind: ResultKind = ResultKind.OK
    build_secs: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    """What is known of the code by building it: ``code_size`` (bytes of machine code), ``memory`` (bytes of scratch memory)."""

    def __post_init__(self) -> None:
        if self.artifact is not None and not are_measures(self.metrics):
            self.artifact = None
            self.error_msg = f"the builder gave no measures: they are finite numbers by name, not negative, got {self.metrics!r}"
        if self.artifact is None and self.kind is ResultKind.OK:
            self.kind = ResultKind.BUILD_ERROR
            self.error_msg = self.error_msg or "the builder gave neither an artifact nor a message"

    @property
    def artifact_path(self) -> Any:
        """MetaSchedule's name for the artifact."""
        return self.artifact


class Builder(ABC):
    """Turns programs into something that the matching :class:`Runner` runs."""

    kinds: ClassVar[Kinds[Callable[..., Builder]]] = Kinds("builder", RunnerError, __package__)
    """The builders that :meth:`create` knows; each registers itself where it is defined."""

    @abstractmethod
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Build all inputs; results in their order. Never raises for a bad candidate."""

    def submit(self, build_inputs: Iterable[BuilderInput]) -> list[Future[BuilderResult]]:
        """Start building, if possible each input as soon as it is there; every future gets its result in time."""
        futures = []
        for result in self.build(list(build_inputs)):
            future: Future[BuilderResult] = Future()
            future.set_result(result)
            futures.append(future)
        return futures

    def unbuilt(self, build_input: BuilderInput) -> Any:
        """An artifact that is built where it first runs, for :meth:`Runner.final_choice`; None where there is no such thing."""
        return None

    @staticmethod
    def create(kind: str = "local", *args: Any, **kwargs: Any) -> Builder:
        """A builder by name.

        Raises:
            RunnerError: the name is unknown.
        """
        return Builder.kinds[kind](*args, **kwargs)


@Builder.kinds.register("local")
class LocalBuilder(SessionPart, Builder):
    """Builds in the worker processes of this machine, all cores at once, with the options of the caller's PassContext."""

    def __init__(
        self,
        max_workers: int | None = None,
        timeout_sec: float = 30.0,
        f_build: Callable[[Any, Any], Callable[..., Any]] | None = None,
        *,
        pool: WorkerPool | None = None,
        portable: bool | None = None,
    ) -> None:
        """
        Args:
            max_workers: processes of a pool of its own; by default it uses that of the session, else the one that all share.
            timeout_sec: seconds that one build may take.
            f_build: importable function (mod, target) -> callable on numpy arrays; ``runners.native.build_native`` by default.
                It builds the reference too, a float64 program with other parameters.
            pool: worker processes to use; the runner must use the same ones, and does so in a tuning session where it has none of its own.
            portable: build code as bytes, for whatever process or machine runs it; by default as the session's runner wants it, and
                otherwise not: then a candidate is run in the process that has built it.

        Raises:
            RunnerError: ``f_build`` is of a script or a notebook, which the workers cannot import, or a setting is of another type.
        """
        check_seconds("LocalBuilder: timeout_sec", timeout_sec)
        if max_workers is not None:
            check_whole("LocalBuilder: max_workers", max_workers, 1)
        if getattr(f_build, "__module__", None) == "__main__":
            raise RunnerError(
                f"worker processes cannot import f_build={getattr(f_build, '__name__', f_build)!r} of a script or a notebook: write it into"
                " a module, and import it from there"
            )
        if pool is None and max_workers is not None:
            pool = WorkerPool(max_workers)
        self._pool = pool
        self._portable = portable
        self.timeout_sec = timeout_sec
        self.f_build = f_build

    @property
    def portable(self) -> bool:
        """Whether code is built as bytes, which any process runs."""
        if self._portable is not None:
            return self._portable
        return self._session is not None and self._session.portable

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [future.result() for future in self.submit(build_inputs)]

    def unbuilt(self, build_input: BuilderInput) -> Artifact | None:
        require_no_params(self, build_input)
        if self.portable:
            built: Artifact | None = self._submit(build_input).result().artifact
            return built
        return Artifact(build_input.mod, build_input.target, self.f_build)

    def submit(self, build_inputs: Iterable[BuilderInput]) -> list[Future[BuilderResult]]:
        """As every builder does.

        Raises:
            RunnerError: an input has constants by name, which a kernel has no place for.
        """
        return [self._submit(item) for item in build_inputs]

    def _submit(self, item: BuilderInput) -> Future[BuilderResult]:
        require_no_params(self, item)
        artifact = Artifact(item.mod, item.target, self.f_build)
        future: Future[BuilderResult] = Future()
        args = (item.mod, item.target, self.f_build, self.timeout_sec)
        portable = self.portable
        call = self.pool.submit(
            candidate.under,
            artifact.context,
            *((candidate.pack_candidate,) if portable else (candidate.build_candidate, artifact.number)),
            *args,
            limit=max(self.timeout_sec, REQUEST_SECONDS),
            phase="request",
            owner=None if portable else artifact,
        )
        call.add_done_callback(
            lambda done: answer(done, future, lambda outcome: _build_result(outcome, artifact))
        )
        return future


def require_no_params(builder: Builder, item: BuilderInput) -> None:
    """Refuse constants where nobody would fold them in.

    Raises:
        RunnerError: there are some.
    """
    if item.params:
        raise RunnerError(
            f"{type(builder).__name__} builds kernels, which have no constants by name, got params {', '.join(map(str, item.params))};"
            " bind them to the model before its kernels are extracted: extract_tasks(mod, target, params)"
        )


def answer(done: Future[Outcome], future: Future[Any], convert: Callable[[Outcome], Any]) -> None:
    """Set a future to what a call's outcome comes to, or to what that raises; None leaves it to somebody else."""
    try:
        result = convert(done.result())
    except BaseException as error:  # handed to whoever waits for the result
        future.set_exception(error)
        return
    # Not above: what interrupts it would be set once more, which fails, and of callbacks that fail there is only a log.
    if result is not None:
        future.set_result(result)


def _build_result(outcome: Outcome, artifact: Artifact) -> BuilderResult:
    if outcome.kind == "returned":
        report = outcome.value
        if isinstance(report, candidate.PackedBuild):
            artifact = Artifact(KernelCode(report.code), artifact.target, context=artifact.context)
            report = report.report
        return BuilderResult(artifact, None, ResultKind.OK, report.build_secs, report.metrics)
    return BuilderResult(None, message_of(outcome), failure_kind(outcome, in_build=True))


def failure_kind(outcome: Outcome, *, in_build: bool) -> ResultKind:
    """The kind of a call that did not return."""
    if is_of_program(outcome):
        return ResultKind.PROGRAM_ERROR
    if outcome.kind == "timeout":
        return (
            ResultKind.BUILD_TIMEOUT
            if in_build or outcome.phase in ("build", "schedule")
            else ResultKind.RUN_TIMEOUT
        )
    if outcome.error == CONTEXT_LOST:
        return ResultKind.CRASH
    if outcome.error in ("MemoryError", "CudaOutOfMemory") or (
        outcome.kind == "died" and outcome.error == "SIGKILL"
    ):
        return ResultKind.OUT_OF_MEMORY  # a kill that is not ours comes from the system's memory guard
    if outcome.kind == "died":
        return ResultKind.CRASH
    if outcome.phase == "schedule":
        return ResultKind.ILLEGAL_SCHEDULE
    return ResultKind.BUILD_ERROR if in_build or outcome.phase == "build" else ResultKind.RUN_ERROR


def message_of(outcome: Outcome) -> str:
    """One message for a person from a call that did not return."""
    text = f"{outcome.error}: {outcome.message}" if outcome.kind == "raised" else outcome.message
    if is_of_program(outcome):
        if outcome.kind == "timeout":
            return (
                f"the program itself does not end on the check's inputs, before any schedule: {text}; does a loop wait for what"
                " random inputs do not hold?"
            )
        return f"the program itself fails, before any schedule: {text}; ir.tir.interpreter.run says what is undefined in it, and where"
    return f"{text}\n{outcome.traceback[-3000:]}" if outcome.traceback else text


def is_of_program(outcome: Outcome) -> bool:
    """Whether a call ended because of the program that is tuned, not of a candidate."""
    is_lost = outcome.error == "MemoryError" or (outcome.kind == "died" and outcome.error == "SIGKILL")
    return outcome.error == "ProgramError" or (outcome.phase == candidate.REFERENCE_PHASE and not is_lost)

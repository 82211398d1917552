"""What happens to one candidate inside a worker process: build, check, time.

The functions here are called in workers through the pool; what they raise becomes the candidate's failure, and a
:func:`runners.worker.phase` tells the parent how long the next step may take.
"""

from __future__ import annotations

import math
import pickle
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ir.target import Target
from ir.time_interval import TimeInterval, median_secs

from .checking import CheckedCalls, checked, confirmed
from .cold_weights import bind_with_cold_weights
from .disturbance import Repeats, Watch
from .energy import EnergyMeter, energy_seconds
from .error import RunnerError
from .evaluator import EvaluatorConfig, first_call_limit, warm_call
from .kernel import Kernel, pack_arguments, require_arguments
from .kernel_code import KernelCode, ProgramText, packed_kernel
from .lock import machine
from .reference_order import in_fast_order
from .result import ResultKind
from .runner import RunnerResult
from .sampling import CallTimer, Race, sample, take_group
from .verify import VERSION, Array, Reference, ReferenceStore, entry, make_value, params_of, rounding_program
from .worker import phase

if TYPE_CHECKING:
    from .cuda.place import Place

Build = Callable[[Any, Any], Callable[..., Any]]

REFERENCE_PHASE = "running the unscheduled program"
REFERENCE_SECONDS = 300.0
"""The unscheduled program is slow, and it is the user's own: it gets much more time than a candidate."""
_KEPT = 512
_BUILT: OrderedDict[int, Kernel] = OrderedDict()
"""Candidates that this process has built; the oldest goes when there are too many."""
_REFERENCES = ReferenceStore()


class Forgotten(RunnerError):
    """This process does not have the candidate any more; the caller sends the program again."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How a candidate is measured."""

    config: EvaluatorConfig
    timeout_sec: float
    cut_ratio: float
    cooldown_sec: float = 0.0
    reference_timeout_sec: float = REFERENCE_SECONDS
    """Seconds that one run of the unscheduled program may take."""
    measure_energy: bool = False
    place: Place | None = None
    """The devices to measure on; None for the processor."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build came to, as it is sent to the parent."""

    build_secs: float
    metrics: dict[str, float]
    """Sizes of what was built, by name."""


@dataclass(frozen=True, slots=True)
class PackedBuild:
    """A build that is not kept, as it is sent to the parent."""

    report: BuildReport
    code: bytes
    """As :func:`runners.kernel_code.packed_kernel` gives it."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run came to, as it is sent to the parent."""

    kind: ResultKind
    run_secs: tuple[float, ...] | None
    message: str | None
    cut: bool
    verified: bool
    baseline_secs: float | None
    check_secs: float = 0.0
    best: bool = False
    """It would become the best: the whole check is due."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What was measured beside the time, by name."""
    kernel: bytes | None = None
    """Of one that would become the best: what was built, as :meth:`Kernel.shipped` gives it."""

    @property
    def secs(self) -> float:
        """The median of the times, infinite without any."""
        return median_secs(self.run_secs)

    def result(self) -> RunnerResult:
        """What runners answer."""
        return RunnerResult(
            self.run_secs,
            self.message,
            self.kind,
            self.cut,
            self.verified,
            self.baseline_secs,
            VERSION if self.verified else "",
            self.check_secs,
            metrics=self.metrics,
        )


def under(context: AbstractContextManager[Any], function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of this module with the options of the process that asks for it."""
    with context:
        return function(*args)


def build_candidate(
    number: int, program: Any, target: Any, f_build: Build | None, timeout_sec: float
) -> BuildReport:
    """Build a candidate and keep it under ``number``."""
    phase("waiting for the machine", None)
    with machine(alone=False):
        begin = time.perf_counter()
        kernel = _build(program, target, f_build, timeout_sec)
        _keep(number, kernel)
        return BuildReport(time.perf_counter() - begin, kernel.metrics)


def pack_candidate(program: Any, target: Any, f_build: Build | None, timeout_sec: float) -> PackedBuild:
    """Build a candidate for wherever it will run; it is not kept."""
    phase("waiting for the machine", None)
    with machine(alone=False):
        begin = time.perf_counter()
        kernel = _build(program, target, f_build, timeout_sec)
        code = packed_kernel(kernel)
        return PackedBuild(BuildReport(time.perf_counter() - begin, kernel.metrics), code)


def _build(program: Any, target: Any, f_build: Build | None, timeout_sec: float) -> Kernel:
    if isinstance(program, KernelCode):
        phase("build", timeout_sec)
        return program.unpacked()
    program = _unpacked(program)
    if not hasattr(program, "functions"):
        phase("schedule", timeout_sec)
        program = program()
    phase("build", timeout_sec)
    if f_build is None:
        f_build = _default_build(target)
    built = f_build(program, target)
    if not callable(built):
        name = getattr(f_build, "__name__", f_build)
        raise RunnerError(f"f_build={name!r} gives a function of numpy arrays, got {type(built).__name__}")
    return Kernel(program, built)


def _default_build(target: Any) -> Build:
    """How candidates for a kind of target are built."""
    # LLVM (llvmlite) is heavy, and a process that never builds does without; so are modules of kernels.
    if _is_cuda(target):
        from .cuda.kernel import build_cuda

        return build_cuda
    from .native import build_native

    return build_native


def _is_cuda(target: Any) -> bool:
    return (target if isinstance(target, Target) else Target(target)).kind.name == "cuda"


def _alone(place: Place | None) -> AbstractContextManager[None]:
    """The machine, or one of its devices, for a measurement."""
    return machine(alone=True) if place is None else place.alone()


def _keep(number: int, kernel: Kernel) -> None:
    _BUILT[number] = kernel
    while len(_BUILT) > _KEPT:
        _BUILT.popitem(last=False)


def _kernel(number: int, program: Any, target: Any, f_build: Build | None, timeout_sec: float) -> Kernel:
    if number not in _BUILT:
        if program is None:
            raise Forgotten(f"candidate {number}")
        _keep(number, _build(program, target, f_build, timeout_sec))
    return _BUILT[number]


def run_candidate(
    number: int,
    program: Any,
    target: Any,
    f_build: Build | None,
    reference_key: str | None,
    reference: Any,
    best: TimeInterval | None,
    settings: RunSettings,
    again: bool = False,
    args_info: Sequence[Any] | None = None,
) -> RunReport:
    """Check a candidate against the reference and time it, with the machine to itself.

    ``program`` and ``reference`` are None when this process should have them. One that is measured ``again`` was checked before, and is
    only timed. Arguments are as the program says; where ``args_info`` is given, it must say the same.

    Raises:
        Forgotten: it does not.
        RunnerError: ``args_info`` says something else than the program.
    """
    phase("waiting for the machine", None)
    with _alone(settings.place):
        kernel = _kernel(number, program, target, f_build, settings.timeout_sec)
        kernel.load(settings.timeout_sec)
        if settings.cooldown_sec:
            phase("cooling down", settings.cooldown_sec + 10)
            time.sleep(settings.cooldown_sec)
        if reference_key is None:
            require_arguments(args_info, params_of(entry(kernel.mod)))
            return _time(kernel, None, best, settings)
        begin = time.perf_counter()
        known = _reference(reference_key, reference, target, f_build, settings.reference_timeout_sec, kernel)
        require_arguments(args_info, known.facts.params)
        took = time.perf_counter() - begin
        report = _time(kernel, known, best, settings, again)
        if report.kind is ResultKind.WRONG_RESULT:
            _REFERENCES.forget(reference_key)
        is_best = not again and _would_be_best(report, best)
        return replace(
            report,
            check_secs=report.check_secs + took,
            best=is_best,
            kernel=kernel.shipped() if is_best else None,
        )


def _would_be_best(report: RunReport, best: TimeInterval | None) -> bool:
    if not report.run_secs or not report.verified or report.cut:
        return False
    return best is None or report.secs < best.middle


def confirm_candidate(
    shipped: bytes | None,
    number: int,
    program: Any,
    target: Any,
    f_build: Build | None,
    reference_key: str,
    reference: Any,
    limit: float,
    timeout_sec: float,
    place: Place | None = None,
) -> str | None:
    """The whole check of a candidate that would become the best; what is wrong with it, or None.

    It is meant for a process that has not seen the candidate: there it is loaded, or built again where it was not ``shipped``.
    """
    phase("waiting for the machine", None)
    with _alone(place):
        if shipped is None:
            kernel = _kernel(number, program, target, f_build, timeout_sec)
        else:
            phase("load", timeout_sec)
            kernel = pickle.loads(shipped)
        kernel.load(timeout_sec)
        known = _reference(reference_key, reference, target, f_build, candidate=kernel)
        known.once = True
        wrong = confirmed(kernel, known, limit)
        if wrong is not None:
            _REFERENCES.forget(reference_key)
        return wrong


def _reference(
    key: str,
    mod: Any,
    target: Any,
    f_build: Build | None,
    limit: float = REFERENCE_SECONDS,
    candidate: Kernel | None = None,
) -> Reference:
    """The reference of a workload, with what a candidate may round otherwise."""
    mod = _unpacked(mod)
    known = _REFERENCES.in_memory(key)
    program = None if candidate is None else rounding_program(candidate.mod)
    if known is None or program is not None:
        if mod is None and known is None:
            raise Forgotten(f"reference {key}")
        notice = _slow_reference(candidate.mod if mod is None and candidate is not None else mod, limit)
        phase(REFERENCE_PHASE, limit, notice)

        def make_run(program: Any) -> Callable[[list[Array]], object]:
            return _reference_run(program, target, f_build, limit, notice)

        if known is None:
            known = _REFERENCES.get(key, mod, make_run)
        if program is not None:
            known = _REFERENCES.allowing(key, known, program, make_run)
    return known


def _unpacked(mod: Any) -> Any:
    """A program that may have come as text."""
    return mod.unpacked() if isinstance(mod, ProgramText) else mod


def _slow_reference(mod: Any, limit: float) -> str:
    """What the user is told when the unscheduled program takes long."""
    name = entry(mod).attrs.get("global_symbol", "main")
    return (
        f"kernel {name}: still running the unscheduled program, which its candidates are compared with, on the check's inputs"
        f" (random ones among them); a run is ended after {limit:g} seconds"
    )


def _reference_run(
    mod: Any, target: Any, f_build: Build | None, limit: float, notice: str
) -> Callable[[list[Array]], object]:
    if f_build is None:
        from .native import build_reference  # LLVM is heavy

        f_build = build_reference
        if _is_cuda(target):  # the processor has the unscheduled program of a device's candidates
            target = "cpu"
    kernel = _build(in_fast_order(mod), target, f_build, limit)

    def run(arguments: list[Array]) -> object:
        phase(REFERENCE_PHASE, limit, notice)
        return kernel.call(*arguments)

    return run


def _free_arguments(mod: Any) -> list[Array]:
    rng = np.random.default_rng(0)
    return [make_value(param, rng) for param in params_of(entry(mod))]


def _time(
    kernel: Kernel,
    reference: Reference | None,
    best: TimeInterval | None,
    settings: RunSettings,
    again: bool = False,
) -> RunReport:
    """Call on several cases with the outputs checked, then time until the candidate has lost or enough is known.

    What the last of the timed calls left is compared too: a kernel may be right once and wrong later.
    """
    baseline = None if reference is None else reference.secs
    race = Race(best, settings.cut_ratio)
    limit = first_call_limit(baseline, None if best is None else best.middle, settings.timeout_sec)
    check_secs, calls = 0.0, None
    if reference is None:
        arguments = _free_arguments(kernel.mod)
        secs = _one_call(kernel, arguments, limit)
    elif again:
        calls = CheckedCalls(kernel.mod, reference.timed, reference)
        calls.arm()
        secs = _one_call(kernel, calls.arguments, limit)
    else:
        begin = time.perf_counter()
        secs, wrong, calls = checked(kernel, reference, race, limit)
        check_secs = time.perf_counter() - begin
        if wrong is not None:
            return RunReport(ResultKind.WRONG_RESULT, None, wrong, False, False, baseline, check_secs)
    verified = reference is not None
    if race.far_behind(secs):
        return RunReport(ResultKind.OK, (secs,), None, True, verified, baseline, check_secs)
    if reference is not None and calls is not None:
        if calls.case is not reference.timed:
            calls = CheckedCalls(kernel.mod, reference.timed, reference)
        calls.arm()
        arguments = calls.arguments
    call = _bound(kernel, arguments, settings.config)
    phase("timing", limit * 4)
    secs = min(secs, warm_call(call))
    is_cut = race.far_behind(secs, slack=1e-5)
    times: tuple[float, ...] = (secs,)
    metrics: dict[str, float] = {}
    if not is_cut:
        config = settings.config
        expected = 2 * config.repeat * max(config.min_repeat_ms * 1e-3, secs * config.number)
        phase("timing", 10 * expected + limit)
        found = sample(CallTimer(call, config, secs), config.repeat, race, Watch())
        times = found.times
        if found.lost:
            metrics["disturbance"] = found.lost
        metrics |= getattr(call, "conditions", dict)()
        if settings.measure_energy:
            metrics |= _energy(call, min(times), limit)
    getattr(call, "fetch", int)()  # from a device, before the outputs are looked at
    if reference is not None and calls is not None:
        wrong = calls.wrong(outputs=reference.facts.repeatable)
        if wrong is not None:
            wrong = f"{wrong}, after many calls"
            return RunReport(ResultKind.WRONG_RESULT, None, wrong, False, False, baseline, check_secs)
    return RunReport(ResultKind.OK, times, None, is_cut, verified, baseline, check_secs, metrics=metrics)


def _bound(kernel: Kernel, arguments: list[Array], config: EvaluatorConfig) -> Callable[[], object]:
    return bind_with_cold_weights(kernel, arguments, config.weight_distance or 0)


def _energy(call: Callable[[], object], secs: float, limit: float) -> dict[str, float]:
    phase("measuring energy", 10 * energy_seconds(secs) + limit)
    of_device = getattr(call, "joules_of_one_call", None)
    if of_device is not None:
        return {"energy": of_device(secs)}
    return {"energy": EnergyMeter().of_one_call(call, secs)}


def _one_call(kernel: Kernel, arguments: list[Array], limit: float) -> float:
    phase("first call", limit)
    return kernel.timed(arguments)


def run_rivals(
    candidates: list[tuple[int, Any, Any, Build | None, bool]],
    reference: Any,
    rounds: int,
    round_secs: float,
    timeout_sec: float,
    config: EvaluatorConfig,
    place: Place | None = None,
) -> list[RunReport]:
    """Time several candidates in turns, so that whatever disturbs the machine disturbs all; one time for each round.

    Rounds in which anybody was disturbed are taken again, like groups of calls in :func:`runners.sampling.sample`. ``reference`` is the
    unscheduled module; each candidate is checked against it first, since one of them will be the best: in full, or on the first cases
    where its last entry says that it has passed the whole check before. ``config`` tells what the caches hold before a call.
    """
    phase("waiting for the machine", None)
    with _alone(place):
        reports: list[RunReport] = []
        timers: list[CallTimer] = []
        for number, program, target, f_build, passed in candidates:
            kernel = _kernel(number, program, target, f_build, timeout_sec)
            kernel.load(timeout_sec)
            report = _checked_rival(kernel, reference, target, f_build, timeout_sec, passed)
            reports.append(report)
            if report.message is not None:
                continue
            phase("preparing inputs", 120.0)
            arguments = _free_arguments(kernel.mod if reference is None else _unpacked(reference))
            if reference is not None:
                arguments = pack_arguments(kernel.mod, arguments)
            call = _bound(kernel, arguments, config)
            phase("first call", timeout_sec)
            call()
            begin = time.perf_counter()
            call()
            once = time.perf_counter() - begin
            own = replace(config, number=1, repeat=rounds, min_repeat_ms=math.ceil(1e3 * round_secs))
            timers.append(CallTimer(call, own, once))
        columns = zip(*_rounds_in_turns(timers, rounds, timeout_sec + 10 * round_secs * len(timers)))
        return [
            report if report.message is not None else replace(report, run_secs=next(columns))
            for report in reports
        ]


def _rounds_in_turns(timers: list[CallTimer], rounds: int, limit: float) -> list[list[float]]:
    """Seconds per call of each, in each of the rounds that count; ``limit`` is what one round may take."""
    found: Repeats[list[float]] = Repeats(rounds)
    watch, picking = Watch(), False
    while timers and not found.complete:
        phase("timing", limit)
        watch.restart()
        groups = [take_group(timer, watch, picking) for timer in timers]
        level = max(group.level for group in groups)
        picking = picking or level > 1.0
        found.add([group.secs for group in groups], level)
    return found.kept()


def _checked_rival(
    kernel: Kernel, reference: Any, target: Any, f_build: Build | None, timeout_sec: float, passed: bool
) -> RunReport:
    """What the check says of a rival, which is not timed yet."""
    if reference is None:
        return RunReport(ResultKind.OK, None, None, False, False, None)
    key, begin = ReferenceStore.key(reference, target), time.perf_counter()
    known = _reference(key, reference, target, f_build, candidate=kernel)
    if passed:
        _, wrong, _ = checked(kernel, known, Race(None, 1.0), timeout_sec)
    else:
        wrong = confirmed(kernel, known, timeout_sec)
    took = time.perf_counter() - begin
    if wrong is None:
        return RunReport(ResultKind.OK, None, None, False, True, known.secs, took)
    _REFERENCES.forget(key)
    return RunReport(ResultKind.WRONG_RESULT, None, wrong, False, False, known.secs, took)

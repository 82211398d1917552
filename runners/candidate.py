"""What happens to one candidate inside a worker process: build, check, time.

The functions here are called in workers through the pool; what they raise becomes the candidate's failure, and a
:func:`runners.worker.phase` tells the parent how long the next step may take.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ir.node import post_order_visit
from ir.tir.stmt import ForKind

from .error import RunnerError
from .evaluator import EvaluatorConfig, timed
from .lock import machine
from .ndarray import aligned_empty
from .reference_order import in_fast_order
from .result import ResultKind
from .verify import Array, Case, Reference, ReferenceStore, entry, make_value, params_of, race_of
from .worker import phase

Build = Callable[[Any, Any], Callable[..., Any]]
Room = Callable[[int, list[int], Any], Array]

_REFERENCE_SECONDS = 300.0
"""The unscheduled program is slow, and it is the user's own: it gets much more time than a candidate."""
_HOPELESS = 3.0
"""How many times the ratio at which a candidate is cut it may be behind before even the second check is left out."""
_COLD_SECS = 2e-3
"""What first calls may lose: pages touched for the first time, threads asleep, vector units powered down (which run at a
quarter of their speed for most of a millisecond)."""
_CHECKING_SECS = 3e-3
"""After the first cases a candidate meets more of them until checking took this long; the best one meets all."""
_FIRST_CASES = 2
_REPEATS, _REPEATING_SECS = 12, 0.1
"""How often a candidate is called again with each number of threads, once at least, and for how long altogether."""
_COPIED_BYTES = 16 << 20
"""Packed parameters up to this size are copied before a call, to see whether it writes to them."""
_PREEMPTED_SECS = 2e-2
"""What a single call may lose to other processes besides. It is judged by itself only beyond this."""
_KEPT = 512
_BUILT: OrderedDict[int, Kernel] = OrderedDict()
"""Candidates that this process has built; the oldest goes when there are too many."""
_REFERENCES = ReferenceStore()


class Forgotten(RunnerError):
    """This process does not have the candidate any more; the caller sends the program again."""


@dataclass(slots=True)
class Kernel:
    """A built program with its parameters."""

    mod: Any
    call: Callable[..., Any]

    def with_threads(self, count: int) -> Kernel:
        """The same code on another number of threads, where it can be told."""
        change = getattr(self.call, "with_threads", None)
        return self if change is None else Kernel(self.mod, change(count))

    @property
    def parallel(self) -> bool:
        """Whether it has loops that threads share."""
        found: list[Any] = []

        def visit(node: Any) -> None:
            if type(node).__name__ == "For" and node.kind == ForKind.PARALLEL:
                found.append(node)

        post_order_visit(entry(self.mod).body, visit)
        return bool(found)

    def bind(self, arguments: list[Array]) -> Callable[[], object]:
        """A call on fixed arguments, as cheap as the built code allows."""
        binder = getattr(self.call, "bind", None)
        if binder is not None:
            bound: Callable[[], object] = binder(*arguments)
            return bound
        call = self.call
        return lambda: call(*arguments)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How a candidate is measured."""

    config: EvaluatorConfig
    timeout_sec: float
    cut_ratio: float
    cooldown_sec: float = 0.0


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


def under(context: AbstractContextManager[Any], function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of this module with the options of the process that asks for it."""
    with context:
        return function(*args)


def build_candidate(
    number: int, program: Any, target: Any, f_build: Build | None, timeout_sec: float
) -> float:
    """Build a candidate and keep it under ``number``; the seconds that it took."""
    phase("waiting for the machine", None)
    with machine(alone=False):
        begin = time.perf_counter()
        _keep(number, _build(program, target, f_build, timeout_sec))
        return time.perf_counter() - begin


def _build(program: Any, target: Any, f_build: Build | None, timeout_sec: float) -> Kernel:
    if not hasattr(program, "functions"):
        phase("schedule", timeout_sec)
        program = program()
    phase("build", timeout_sec)
    if f_build is None:
        # LLVM (llvmlite) is heavy, and a process that never builds does without.
        from .native import build_native

        f_build = build_native
    return Kernel(program, f_build(program, target))


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
    best_secs: float | None,
    settings: RunSettings,
) -> RunReport:
    """Check a candidate against the reference and time it, with the machine to itself.

    ``program`` and ``reference`` are None when this process should have them.

    Raises:
        Forgotten: it does not.
    """
    phase("waiting for the machine", None)
    with machine(alone=True):
        kernel = _kernel(number, program, target, f_build, settings.timeout_sec)
        if settings.cooldown_sec:
            phase("cooling down", settings.cooldown_sec + 10)
            time.sleep(settings.cooldown_sec)
        if reference_key is None:
            return _time(kernel, None, best_secs, settings)
        known = _reference(reference_key, reference, target, f_build)
        report = _time(kernel, known, best_secs, settings)
        if report.kind is ResultKind.WRONG_RESULT:
            _REFERENCES.forget(reference_key)
        return report


def confirm_candidate(
    number: int,
    program: Any,
    target: Any,
    f_build: Build | None,
    reference_key: str,
    reference: Any,
    limit: float,
    timeout_sec: float,
) -> str | None:
    """The whole check of a candidate that would become the best; what is wrong with it, or None.

    It is meant for a process that has not seen the candidate: there it is built again.
    """
    phase("waiting for the machine", None)
    with machine(alone=True):
        kernel = _kernel(number, program, target, f_build, timeout_sec)
        known = _reference(reference_key, reference, target, f_build)
        wrong = confirmed(kernel, known, limit)
        if wrong is not None:
            _REFERENCES.forget(reference_key)
        return wrong


def _reference(key: str, mod: Any, target: Any, f_build: Build | None) -> Reference:
    known = _REFERENCES.in_memory(key)
    if known is None:
        if mod is None:
            raise Forgotten(f"reference {key}")
        phase("running the unscheduled program", _REFERENCE_SECONDS)
        known = _REFERENCES.get(key, mod, lambda program: _reference_run(program, target, f_build))
    return known


def _reference_run(mod: Any, target: Any, f_build: Build | None) -> Callable[[list[Array]], object]:
    if f_build is None:
        from .native import build_reference  # as above

        f_build = build_reference
    kernel = _build(in_fast_order(mod), target, f_build, _REFERENCE_SECONDS)

    def run(arguments: list[Array]) -> object:
        phase("running the unscheduled program", _REFERENCE_SECONDS)
        return kernel.call(*arguments)

    return run


def _free_arguments(mod: Any) -> list[Array]:
    rng = np.random.default_rng(0)
    return [make_value(param, rng) for param in params_of(entry(mod))]


def _time(
    kernel: Kernel, reference: Reference | None, best_secs: float | None, settings: RunSettings
) -> RunReport:
    """Call on several cases with the outputs checked, then time unless the candidate is far behind.

    What the last of the timed calls left is compared too: a kernel may be right once and wrong later.
    """
    baseline = None if reference is None else reference.secs
    limit = first_call_limit(baseline, best_secs, settings.timeout_sec)
    check_secs = 0.0
    if reference is None:
        arguments = _free_arguments(kernel.mod)
        secs = _one_call(kernel, arguments, limit)
    else:
        begin = time.perf_counter()
        secs, wrong = _checked(kernel, reference, best_secs, settings, limit)
        check_secs = time.perf_counter() - begin
        if wrong is not None:
            return RunReport(ResultKind.WRONG_RESULT, None, wrong, False, False, baseline, check_secs)
    verified = reference is not None
    if _far_behind(secs, best_secs, settings.cut_ratio):
        return RunReport(ResultKind.OK, (secs,), None, True, verified, baseline, check_secs)
    if reference is not None:
        arguments = _arguments(kernel, reference, reference.timed)
    call = kernel.bind(arguments)
    phase("timing", limit * 4)
    secs = min(secs, _warm_call(call))
    if _far_behind(secs, best_secs, settings.cut_ratio, slack=1e-5):
        return RunReport(ResultKind.OK, (secs,), None, True, verified, baseline, check_secs)
    config = _effort(settings.config, secs, best_secs)
    expected = config.repeat * max(config.min_repeat_ms * 1e-3, secs * config.number)
    phase("timing", 10 * expected + limit)
    times = timed(call, config, secs)
    if reference is not None and reference.facts.repeatable:
        phase("comparing outputs", 120.0)
        wrong = reference.wrong(reference.timed, arguments)
        if wrong is not None:
            wrong = f"{wrong}, after many calls"
            return RunReport(ResultKind.WRONG_RESULT, None, wrong, False, False, baseline, check_secs)
    return RunReport(ResultKind.OK, tuple(times), None, False, verified, baseline, check_secs)


def _checked(
    kernel: Kernel, reference: Reference, best_secs: float | None, settings: RunSettings, limit: float
) -> tuple[float, str | None]:
    """Calls on the first cases, and on more while that is cheap; the fastest call, and what is wrong.

    One wrong answer is final: whoever is right sometimes is wrong.
    """
    secs, begin = math.inf, time.perf_counter()
    for count, case in enumerate(reference.cases):
        if count >= _FIRST_CASES and time.perf_counter() - begin > _CHECKING_SECS:
            break
        took, wrong = _checked_call(kernel, case, reference, limit)
        secs = min(secs, took)
        if wrong is not None:
            return secs, wrong
        if case.kind.exact and _far_behind(secs, best_secs, _HOPELESS * settings.cut_ratio):
            break  # right on integers and never to be chosen: a second slow call would tell nothing
    return secs, None


def confirmed(kernel: Kernel, reference: Reference, limit: float) -> str | None:
    """The whole check: all cases; of a parallel candidate the iterations, and other numbers of threads, again and again.

    Returns:
        What is wrong, in one sentence; None when nothing is.
    """
    for case in reference.cases:
        _, wrong = _checked_call(kernel, case, reference, limit)
        if wrong is not None:
            return wrong
    met = race_of(kernel.mod) if kernel.parallel else None
    if met is not None:
        return met
    begin = time.perf_counter()
    counts = thread_counts() if kernel.parallel else [None]
    for count in counts:
        again = kernel if count is None else kernel.with_threads(count)
        for repeat in range(_REPEATS):
            if repeat and time.perf_counter() - begin > _REPEATING_SECS:
                break
            case = reference.cases[repeat % min(_FIRST_CASES, len(reference.cases))]
            _, wrong = _checked_call(again, case, reference, limit)
            if wrong is not None:
                threads = "" if count is None else f" with {count} threads"
                return f"{wrong}, in call {repeat + 1}{threads}"
    return None


def thread_counts() -> list[int | None]:
    """One, two, an odd number, all."""
    cores = len(os.sched_getaffinity(0))
    return [*sorted({1, 2, 3, cores})]


def _arguments(kernel: Kernel, reference: Reference, case: Case) -> list[Array]:
    phase("preparing inputs", 120.0)
    return pack_arguments(kernel.mod, reference.prepare(case).arrays, reference.room)


def _checked_call(kernel: Kernel, case: Case, reference: Reference, limit: float) -> tuple[float, str | None]:
    """The seconds of one call and what is wrong with it."""
    phase("preparing inputs", 120.0)
    given = reference.prepare(case)
    arguments = pack_arguments(kernel.mod, given.arrays, reference.room)
    packed = {
        position: array.tobytes()
        for position, (array, plain) in enumerate(zip(arguments, given.arrays))
        if array is not plain and array.nbytes <= _COPIED_BYTES
    }
    secs = _one_call(kernel, arguments, limit)
    phase("comparing outputs", 120.0)
    spoiled = reference.spoiled(
        given
    )  # asked in any case: what was spoiled is made anew for the next candidate
    wrong = reference.wrong(case, arguments) or spoiled
    for position, before in packed.items():
        if wrong is None and arguments[position].tobytes() != before:
            wrong = f"the packed input {reference.facts.params[position].name} was written to"
    return secs, wrong


def _one_call(kernel: Kernel, arguments: list[Array], limit: float) -> float:
    phase("first call", limit)
    begin = time.perf_counter()
    kernel.call(*arguments)
    return time.perf_counter() - begin


def _warm_call(call: Callable[[], object]) -> float:
    """The fastest of as many calls as it takes until the machine is in the state that timing is about."""
    begin, calls, fastest = time.perf_counter(), 0, math.inf
    while True:
        start = time.perf_counter()
        call()
        end = time.perf_counter()
        calls, fastest = calls + 1, min(fastest, end - start)
        if end - begin > (_COLD_SECS if calls >= 3 else _PREEMPTED_SECS):
            return fastest


def _effort(config: EvaluatorConfig, secs: float, best_secs: float | None) -> EvaluatorConfig:
    """Shorter groups for a candidate that is behind: its time teaches the cost model, and is never chosen."""
    if best_secs is None or secs <= best_secs:
        return config
    return replace(config, min_repeat_ms=math.ceil(config.min_repeat_ms * (best_secs / secs) ** 4))


def _far_behind(
    secs: float, best_secs: float | None, cut_ratio: float, slack: float = _PREEMPTED_SECS
) -> bool:
    return best_secs is not None and secs > cut_ratio * best_secs + slack


def first_call_limit(baseline: float | None, best_secs: float | None, timeout_sec: float) -> float:
    """Seconds after which a first call is killed: a candidate much slower than the unscheduled program is hopeless.

    >>> first_call_limit(0.5, None, 30.0)
    10.0
    >>> first_call_limit(0.5, 0.001, 30.0)
    2.0
    """
    limit = timeout_sec
    if baseline is not None:
        limit = min(limit, max(2.0, 20 * baseline))
    if best_secs is not None:
        limit = min(limit, max(2.0, 200 * best_secs))
    return limit


def pack_arguments(mod: Any, arguments: list[Array], room: Room | None = None) -> list[Array]:
    """Arguments in the layouts that the candidate takes: constants that it wants packed are packed here, unmeasured.

    ``room(position, shape, dtype)`` is the memory for one; new memory without it.
    """
    maps = entry(mod).attrs.get("layout_rewrite_maps")
    if not maps:
        return arguments
    packed = list(arguments)
    for key, index_map in dict(maps).items():
        position = int(key)
        value = arguments[position]
        shape = [int(extent) for extent in index_map.map_shape(value.shape)]
        out = aligned_empty(shape, value.dtype) if room is None else room(position, shape, value.dtype)
        packed[position] = index_map.map_ndarray(value, out)
    return packed


def run_rivals(
    candidates: list[tuple[int, Any, Any, Build | None]],
    reference: Any,
    rounds: int,
    round_secs: float,
    timeout_sec: float,
) -> list[float | str]:
    """Time several candidates in turns, so that whatever disturbs the machine disturbs all; the medians of the rounds.

    ``reference`` is the unscheduled module; each candidate is checked against it first, since one of them will be the best. For one
    that is wrong the answer is what is wrong with it.
    """
    phase("waiting for the machine", None)
    with machine(alone=True):
        calls: list[Callable[[], object] | str] = []
        counts: list[int] = []
        for number, program, target, f_build in candidates:
            kernel = _kernel(number, program, target, f_build, timeout_sec)
            wrong = (
                None if reference is None else _wrong_rival(kernel, reference, target, f_build, timeout_sec)
            )
            if wrong is not None:
                calls.append(wrong)
                counts.append(0)
                continue
            phase("preparing inputs", 120.0)
            arguments = _free_arguments(kernel.mod if reference is None else reference)
            if reference is not None:
                arguments = pack_arguments(kernel.mod, arguments)
            call = kernel.bind(arguments)
            phase("first call", timeout_sec)
            call()
            begin = time.perf_counter()
            call()
            once = time.perf_counter() - begin
            calls.append(call)
            counts.append(max(1, math.ceil(round_secs / max(once, 1e-9))))
        times: list[list[float]] = [[] for _ in calls]
        for _ in range(rounds):
            phase("timing", timeout_sec + 10 * round_secs * len(calls))
            for index, rival in enumerate(calls):
                if not isinstance(rival, str):
                    config = EvaluatorConfig(number=counts[index], repeat=1, min_repeat_ms=0)
                    times[index] += timed(rival, config, 1.0)
        return [
            call if isinstance(call, str) else statistics.median(values) for call, values in zip(calls, times)
        ]


def _wrong_rival(
    kernel: Kernel, reference: Any, target: Any, f_build: Build | None, timeout_sec: float
) -> str | None:
    key = ReferenceStore.key(reference, target)
    wrong = confirmed(kernel, _reference(key, reference, target, f_build), timeout_sec)
    if wrong is not None:
        _REFERENCES.forget(key)
    return wrong

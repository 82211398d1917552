"""LocalBuilder and LocalRunner with real processes, good candidates and injected failures."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from database import TensorInfo
from ir import IRModule
from ir.error import IRError
from ir.pass_context import PassContext
from ir.script import from_source
from ir.time_interval import TimeInterval
from ir.tir import IndexMap, interpreter
from runners import (
    BuilderInput,
    EvaluatorConfig,
    LocalBuilder,
    LocalRunner,
    MeasureRequest,
    ReplayBuilder,
    ReplayRunner,
    ResultKind,
    Runner,
    RunnerError,
    RunnerInput,
    WorkerPool,
    candidate,
    checking,
    final_choice,
    local,
    measure_candidates,
)
from runners.candidate import RunSettings, _time
from runners.disturbance import Disturbance
from runners.kernel import Kernel
from runners.kernel_code import ProgramText
from runners.lock import machine
from runners.native import build_native
from runners.sampling import CallTimer, Group, Race, Sample
from runners.verify import VERSION, ReferenceStore, compute_reference
from tests.programs.nodes import matmul, scaled
from tests.runners.builds import interpreted
from tests.runners.contract import RunnerContract
from tests.runners.watches import quiet_watch

QUICK = EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)


@pytest.fixture
def builder(pool: WorkerPool) -> LocalBuilder:
    return LocalBuilder(timeout_sec=5.0, f_build=interpreted, pool=pool)


@pytest.fixture
def runner(pool: WorkerPool) -> LocalRunner:
    return LocalRunner(timeout_sec=1.0, evaluator_config=QUICK, pool=pool)


def built(builder: LocalBuilder, mod: Any) -> Any:
    (result,) = builder.build([BuilderInput(mod, "cpu")])
    assert result.error_msg is None, result.error_msg
    return result.artifact


def injected(kind: str) -> IRModule:
    return matmul(attrs={"inject": kind})


def refuse() -> IRModule:
    raise IRError("loop i cannot be split by 3")


class TestContract(RunnerContract):
    @pytest.fixture
    def runner(self, pool: WorkerPool) -> Runner:
        self.builder = LocalBuilder(f_build=interpreted, pool=pool)
        return LocalRunner(timeout_sec=5.0, evaluator_config=QUICK, pool=pool)

    def good_input(self, runner: Runner) -> RunnerInput:
        return RunnerInput(built(self.builder, matmul()), reference=matmul())

    def bad_input(self, runner: Runner) -> RunnerInput:
        return RunnerInput(built(self.builder, injected("wrong")), reference=matmul())


def test_good_candidate_is_verified_and_timed(builder: LocalBuilder, runner: LocalRunner) -> None:
    item = RunnerInput(built(builder, matmul()), reference=matmul())
    result = runner.submit(item).result()
    assert result.kind is ResultKind.OK
    assert result.verified and not result.cut
    assert len(result.run_secs or ()) == 2
    assert result.baseline_secs is not None and result.baseline_secs > 0


def test_a_result_names_the_check_and_what_it_took(builder: LocalBuilder, runner: LocalRunner) -> None:
    result = runner.submit(RunnerInput(built(builder, matmul()), reference=matmul())).result()
    assert result.check == VERSION and result.check_secs > 0
    unchecked = runner.submit(RunnerInput(built(builder, matmul()))).result()
    assert unchecked.check == "" and unchecked.check_secs == 0


def test_a_candidate_is_measured_again_in_full_and_without_the_check(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    artifact = built(builder, matmul())
    assert runner.measures_again
    for _ in range(2):  # the second time, the worker has the reference
        result = runner.measure_again(RunnerInput(artifact, reference=matmul(), best_secs=1e-9))
        assert result.kind is ResultKind.OK and not result.confirmed, result.error_msg
    wrong = built(builder, injected("wrong"))
    result = runner.measure_again(RunnerInput(wrong, reference=matmul()))
    assert result.kind is ResultKind.WRONG_RESULT and "after many calls" in (result.error_msg or "")


def test_a_runner_that_measures_nothing_again_says_so() -> None:
    runner = ReplayRunner(lambda _: 1.0)
    assert not runner.measures_again
    with pytest.raises(RunnerError, match="ReplayRunner measures no candidate again"):
        runner.measure_again(RunnerInput("it"))


def test_cold_weights_are_asked_for_by_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    distances: list[int] = []

    def bind(kernel: Kernel, arguments: list[Any], distance: int) -> Callable[[], object]:
        distances.append(distance)
        return kernel.bind(arguments)

    monkeypatch.setattr(candidate, "bind_with_cold_weights", bind)
    kernel = Kernel(matmul(), lambda *arrays: None)
    for distance in (0, 7):
        config = replace(QUICK, weight_distance=distance)
        assert _time(kernel, None, None, RunSettings(config, 10.0, 3.5)).run_secs
    entries = [(-20, matmul(), "cpu", None, False)]
    assert candidate.run_rivals(entries, matmul(), 1, 0.001, 5.0, config)[0].run_secs
    assert distances == [0, 7, 7]


def test_only_a_candidate_that_would_be_the_best_is_checked_in_another_process(
    builder: LocalBuilder, runner: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed: list[float | None] = []
    confirm = LocalRunner._confirm

    def spy(self: Any, item: RunnerInput, *args: Any) -> None:
        confirmed.append(item.best_secs)
        confirm(self, item, *args)

    monkeypatch.setattr(LocalRunner, "_confirm", spy)
    artifact = built(builder, matmul())
    for best in (None, 1e-9, 10.0):
        result = runner.submit(RunnerInput(artifact, reference=matmul(), best_secs=best)).result()
        assert result.kind is ResultKind.OK, result.error_msg
        assert result.confirmed == (best != 1e-9)
    assert confirmed == [None, 10.0]


def test_a_rival_that_is_wrong_has_no_time(builder: LocalBuilder, pool: WorkerPool) -> None:
    artifacts = [built(builder, mod) for mod in (matmul(), injected("sometimes"))]
    right, wrong = final_choice(
        artifacts, reference=matmul(), rounds=1, round_secs=0.001, timeout_sec=5.0, pool=pool
    )
    assert right.verified and right.run_secs and right.check_secs > 0
    assert wrong.kind is ResultKind.WRONG_RESULT and "output C differs" in (wrong.error_msg or "")


def test_a_rival_that_has_passed_the_whole_check_goes_through_its_first_cases_only(
    builder: LocalBuilder, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(candidate, "confirmed", lambda kernel, *_: asked.append(kernel.mod))
    mods = [matmul(), matmul()]
    entries = [(-10 - place, mod, "cpu", None, place == 0) for place, mod in enumerate(mods)]
    reports = candidate.run_rivals(entries, matmul(), 1, 0.001, 5.0, QUICK)
    assert all(report.verified and report.run_secs for report in reports)
    assert [mods.index(mod) for mod in asked] == [1]
    wrong = built(builder, injected("wrong"))
    (result,) = final_choice([wrong], reference=matmul(), timeout_sec=5.0, pool=pool, confirmed=[0])
    assert result.kind is ResultKind.WRONG_RESULT and "output C differs" in (result.error_msg or "")


def test_what_was_built_travels_to_the_process_that_checks_it_again() -> None:
    """Without its program nothing could be built there; a closure cannot travel, and is built again."""
    mod = matmul()
    native, closure = (Kernel(mod, build(mod, "cpu")) for build in (build_native, interpreted))
    shipped = native.shipped()
    assert shipped is not None and closure.shipped() is None
    key = ReferenceStore.key(mod, "cpu")
    check = partial(candidate.confirm_candidate, target="cpu", f_build=None, reference_key=key, reference=mod)
    assert check(shipped, -3, None, limit=5.0, timeout_sec=5.0) is None
    broken = Kernel(mod, build_native(matmul(4, 4, 4, transposed=True), "cpu")).shipped()
    assert "output C differs" in (check(broken, -3, None, limit=5.0, timeout_sec=5.0) or "")
    with pytest.raises(candidate.Forgotten, match="-3"):
        check(None, -3, None, limit=5.0, timeout_sec=5.0)


def test_workers_build_with_the_options_of_the_callers_context(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    item = BuilderInput(injected("needs_option"), "cpu")
    with PassContext(config={"tir.disable_assert": True}, instruments=[lambda: None]):
        (with_option,) = builder.build([item])
        unbuilt = builder.unbuilt(item)
    (without,) = builder.build([item])
    assert with_option.kind is ResultKind.OK
    assert "built without the option" in str(without.error_msg)
    # What is built again, elsewhere and later, gets the same options.
    with_option.artifact.worker = None
    for artifact in (with_option.artifact, unbuilt):
        assert runner.submit(RunnerInput(artifact)).result().kind is ResultKind.OK
    assert final_choice([unbuilt, unbuilt], pool=builder.pool)[0].run_secs


def test_constants_that_nobody_would_fold_in_are_refused(builder: LocalBuilder) -> None:
    item = BuilderInput(matmul(), "cpu", {"w": np.ones(3)})
    for build in (builder.build, ReplayBuilder().build, lambda items: builder.unbuilt(items[0])):
        with pytest.raises(
            RunnerError, match=r"kernels, which have no constants by name, got params w; bind them"
        ):
            build([item])


def test_what_is_said_of_the_arguments_is_what_they_are(builder: LocalBuilder, runner: LocalRunner) -> None:
    artifact = built(builder, matmul())
    right = [TensorInfo("float32", shape) for shape in ((4, 4), (4, 4), (4, 4))]
    for reference in (matmul(), None):
        told = RunnerInput(artifact, "cpu", right, reference=reference)
        assert runner.submit(told).result().kind is ResultKind.OK
        other = RunnerInput(artifact, "cpu", right[:2], reference=reference)
        result = runner.submit(other).result()
        assert result.kind is ResultKind.RUN_ERROR
        assert "args_info says that the arguments are float32 [4, 4], float32 [4, 4]; " in str(
            result.error_msg
        )


def test_who_exceeds_the_memory_of_a_worker_learns_how_much_that_is(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    result = runner.submit(RunnerInput(built(builder, injected("memory")))).result()
    assert "a worker may map 1 GiB, and more with LocalRunner(pool=WorkerPool(memory_limit=...))" in str(
        result.error_msg
    )


def test_without_a_reference_nothing_is_verified(builder: LocalBuilder, runner: LocalRunner) -> None:
    result = runner.submit(RunnerInput(built(builder, matmul()))).result()
    assert result.kind is ResultKind.OK and not result.verified


@pytest.mark.parametrize(
    ("inject", "kind", "message"),
    [
        ("segfault", ResultKind.CRASH, "SIGSEGV.*last words"),
        ("exit", ResultKind.CRASH, "status 3"),
        ("hang", ResultKind.RUN_TIMEOUT, "first call"),
        ("memory", ResultKind.OUT_OF_MEMORY, "MemoryError"),
        ("wrong", ResultKind.WRONG_RESULT, "output C differs .* on small integers"),
        ("almost", ResultKind.WRONG_RESULT, r"in 1 of 16 elements; at \(3, 3\)"),
        ("raise", ResultKind.RUN_ERROR, "refused to run"),
        ("sometimes", ResultKind.WRONG_RESULT, r"at \(0, 0\)"),
        ("input", ResultKind.WRONG_RESULT, r"input B was written to, first at \(0, 0\)"),
        ("beside", ResultKind.WRONG_RESULT, "0 bytes behind its last element"),
    ],
)
def test_injected_failures_are_typed_and_cost_one_process(
    builder: LocalBuilder, runner: LocalRunner, inject: str, kind: ResultKind, message: str
) -> None:
    bad, good = built(builder, injected(inject)), built(builder, matmul())
    failed, fine = runner.run([RunnerInput(bad, reference=matmul()), RunnerInput(good, reference=matmul())])
    result = failed.result()
    assert result.kind is kind
    assert result.run_secs is None
    import re

    assert re.search(message, result.error_msg or "", re.DOTALL), result.error_msg
    assert fine.result().kind is ResultKind.OK


@pytest.mark.parametrize(
    ("inject", "kind"),
    [
        ("build_error", ResultKind.BUILD_ERROR),
        ("build_hang", ResultKind.BUILD_TIMEOUT),
        ("build_crash", ResultKind.CRASH),
    ],
)
def test_build_failures(pool: WorkerPool, inject: str, kind: ResultKind) -> None:
    builder = LocalBuilder(timeout_sec=0.5, f_build=interpreted, pool=pool)
    failed, fine = builder.build([BuilderInput(injected(inject), "cpu"), BuilderInput(matmul(), "cpu")])
    assert failed.kind is kind and failed.artifact is None and failed.error_msg
    assert fine.kind is ResultKind.OK and fine.artifact_path is fine.artifact


def test_program_made_in_the_worker(builder: LocalBuilder, runner: LocalRunner) -> None:
    good, bad = builder.build([BuilderInput(partial(matmul, 3, 3, 3), "cpu"), BuilderInput(refuse, "cpu")])
    assert runner.submit(RunnerInput(good.artifact, reference=matmul(3, 3, 3))).result().verified
    assert bad.kind is ResultKind.ILLEGAL_SCHEDULE
    assert "cannot be split by 3" in (bad.error_msg or "")


def test_candidate_far_behind_is_cut_after_its_first_calls(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    slow = built(builder, injected("slow"))
    result = runner.submit(RunnerInput(slow, reference=matmul(), best_secs=1e-3)).result()
    assert result.kind is ResultKind.OK and result.cut and result.verified
    assert len(result.run_secs or ()) == 1 and result.run_secs[0] > 0.09


def test_a_short_candidate_is_judged_by_warm_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first calls take many times what later ones do: pages, threads and vector units have to wake up."""
    now, calls = 0.0, 0

    def call(*_arguments: Any) -> None:
        nonlocal now, calls
        calls += 1
        now += 2e-4 if calls <= 2 else 2e-5

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    monkeypatch.setattr(candidate, "Watch", quiet_watch)
    config = EvaluatorConfig(number=3, repeat=1, min_repeat_ms=1)
    best = TimeInterval.around(2e-5, 0.01)
    report = _time(Kernel(matmul(), call), None, best, RunSettings(config, 10.0, cut_ratio=3.5))
    assert report.run_secs is not None and not report.cut
    assert report.run_secs[0] == pytest.approx(2e-5)


class _Slow:
    """An option of the target's that a busy machine takes long to read."""

    def __reduce__(self) -> Any:
        return _after, (1.5,)


def _after(seconds: float) -> _Slow:
    time.sleep(seconds)
    return _Slow()


def test_what_a_request_takes_to_arrive_is_not_the_candidates(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    """A build and a call may take a second here."""
    builder.timeout_sec, builder.f_build = 1.0, partial(_build_with, _Slow())
    artifact = built(builder, matmul())
    result = runner.submit(RunnerInput(artifact, reference=matmul())).result()
    assert result.kind is ResultKind.OK, result.error_msg


def _build_with(_slow: _Slow, mod: Any, target: Any) -> Any:
    return interpreted(mod, target)


@pytest.mark.parametrize(("lost", "metrics"), [(0.0, {}), (0.3, {"disturbance": 0.3})])
def test_what_the_machine_lost_is_told_with_the_times(
    monkeypatch: pytest.MonkeyPatch, lost: float, metrics: dict[str, float]
) -> None:
    monkeypatch.setattr(candidate, "sample", lambda *_arguments: Sample((2e-3, 3e-3), lost))
    settings = RunSettings(QUICK, 10.0, cut_ratio=3.5)
    report = _time(Kernel(matmul(), lambda *_arguments: None), None, None, settings)
    assert report.run_secs == (2e-3, 3e-3) and report.result().metrics == metrics


def test_a_round_in_which_anybody_was_disturbed_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rivals are compared within a round: it counts only where it was quiet for all of them."""
    levels = iter([0.1, 5.0, 0.2, 0.1, 0.0, 0.3])
    picked: list[bool] = []

    def take(timer: CallTimer, _watch: object, picking: bool) -> Group:
        picked.append(picking)
        return Group(float(len(picked)), Disturbance(), next(levels))

    monkeypatch.setattr(candidate, "take_group", take)
    monkeypatch.setattr(candidate, "Watch", quiet_watch)
    timers = [CallTimer(lambda: None, QUICK, 1.0) for _ in range(2)]
    assert candidate._rounds_in_turns(timers, 2, 1.0) == [[3.0, 4.0], [5.0, 6.0]]
    assert picked == [False, False, True, True, True, True]


@pytest.mark.parametrize(("behind", "checks"), [(10.0, 2), (20.0, 1)])
def test_only_a_hopeless_candidate_is_spared_the_second_check(
    monkeypatch: pytest.MonkeyPatch, behind: float, checks: int
) -> None:
    now, calls, mod = 0.0, 0, matmul()

    def call(*arguments: Any) -> None:
        nonlocal now, calls
        calls += 1
        now += behind
        interpreter.run(mod, *arguments)

    reference = compute_reference(mod, lambda program: lambda arguments: interpreter.run(program, *arguments))
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    best = TimeInterval.around(1.0, 0.01)
    report = _time(Kernel(mod, call), reference, best, RunSettings(QUICK, 100.0, cut_ratio=4.0))
    assert report.cut and report.verified and calls == checks


def by_the_interpreter(mod: IRModule) -> Callable[[list[Any]], object]:
    return lambda arguments: interpreter.run(mod, *arguments)


@pytest.mark.parametrize("best", [None, TimeInterval.around(1e-9, 0.01)], ids=["timed in full", "cut"])
@pytest.mark.parametrize(("position", "message"), [(2, "after many calls"), (0, "input A was written to")])
def test_what_late_calls_leave_is_looked_at_as_well(
    monkeypatch: pytest.MonkeyPatch, position: int, message: str, best: TimeInterval | None
) -> None:
    """Right where it is checked, wrong in the calls that its time is taken of; the next candidate finds its inputs as they were."""
    monkeypatch.setattr(checking, "_CHECKING_SECS", 0.0)
    monkeypatch.setattr(
        Race,
        "far_behind",
        lambda race, secs, slack=None, factor=1.0: race.best is not None and slack is not None,
    )
    mod, calls = matmul(), 0
    reference = compute_reference(mod, by_the_interpreter)

    def call(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        interpreter.run(mod, *arguments)
        if calls > checking._FIRST_CASES:
            arguments[position][0, 0] += 1

    settings = RunSettings(QUICK, 10.0, cut_ratio=4.0)
    report = _time(Kernel(mod, call), reference, best, settings)
    assert report.kind is ResultKind.WRONG_RESULT and message in (report.message or "")
    right = _time(Kernel(mod, lambda *given: interpreter.run(mod, *given)), reference, best, settings)
    assert right.kind is ResultKind.OK and right.cut is (best is not None)


@pytest.mark.parametrize("kind", ["wrong", None])
def test_the_reference_that_a_wrong_candidate_ran_on_is_not_used_again(kind: str | None) -> None:
    mod = matmul() if kind is None else injected(kind)
    key = f"confirm {kind}"
    message = candidate.confirm_candidate(
        None, -3 if kind else -4, mod, "cpu", interpreted, key, matmul(), 5.0, 5.0
    )
    assert (message is None) is (kind is None)
    assert (candidate._REFERENCES.in_memory(key) is None) is (kind is not None)
    candidate._REFERENCES.forget(key)


def test_a_candidate_cools_down_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Any] = []

    def build(_mod: Any, _target: Any) -> Callable[..., Any]:
        events.append("build")
        return lambda *_arguments: events.append("call")

    monkeypatch.setattr(candidate.time, "sleep", events.append)
    settings = RunSettings(EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0), 10.0, 3.0, cooldown_sec=7.0)
    candidate.run_candidate(-1, matmul(), "cpu", build, None, None, None, settings)
    assert events[:2] == ["build", 7.0] and set(events[2:]) == {"call"}
    with pytest.raises(candidate.Forgotten, match="-2"):
        candidate.run_candidate(-2, None, "cpu", build, None, None, None, settings)


def test_builds_share_the_machine_with_each_other(builder: LocalBuilder) -> None:
    with ThreadPoolExecutor() as threads, machine(alone=False):
        assert threads.submit(built, builder, matmul()).result(timeout=60) is not None


def test_a_final_choice_has_the_machine_to_itself(builder: LocalBuilder, pool: WorkerPool) -> None:
    rivals = [built(builder, matmul(3, 3, 3))]
    with ThreadPoolExecutor() as threads:
        with machine(alone=False):
            chosen = threads.submit(
                final_choice, rivals, rounds=1, round_secs=0.001, timeout_sec=5.0, pool=pool
            )
            with pytest.raises(TimeoutError):
                chosen.result(timeout=0.7)
        assert chosen.result(timeout=60)[0].run_secs


def test_who_asks_for_it_confirms_later(builder: LocalBuilder, runner: LocalRunner) -> None:
    for mod, kind in ((matmul(), ResultKind.OK), (injected("below_zero"), ResultKind.WRONG_RESULT)):
        item = RunnerInput(built(builder, mod), reference=matmul(), confirm_later=True)
        result = runner.submit(item).result()
        assert result.kind is ResultKind.OK and result.confirm is not None, result.error_msg
        final = result.confirm()
        assert final.kind is kind and final.confirm is None and final.check_secs > 0
        assert runner.submit(replace(item, confirm_later=False)).result().kind is kind
    assert "when it was checked again as the best" in (final.error_msg or "")


def test_candidates_of_a_killed_worker_are_built_again(
    builder: LocalBuilder, runner: LocalRunner, pool: WorkerPool
) -> None:
    artifact = built(builder, matmul())
    os.kill(artifact.worker.pid, signal.SIGKILL)
    result = runner.submit(RunnerInput(artifact)).result()
    if (
        result.kind is not ResultKind.OK
    ):  # the pool had not noticed yet: that candidate is lost, the next is not
        result = runner.submit(RunnerInput(artifact)).result()
    assert result.kind is ResultKind.OK


def test_packed_constants_are_packed_before_timing(builder: LocalBuilder, runner: LocalRunner) -> None:
    """A candidate that takes its second argument transposed, and says so, is given it transposed."""
    index_map = IndexMap.from_func(lambda k, j: [j, k])
    honest = matmul(4, 5, 3, attrs={"layout_rewrite_maps": {1: index_map}}, transposed=True)
    result = runner.submit(RunnerInput(built(builder, honest), reference=matmul(4, 5, 3))).result()
    assert result.kind is ResultKind.OK and result.verified
    silent = matmul(4, 4, 4, transposed=True)
    result = runner.submit(RunnerInput(built(builder, silent), reference=matmul())).result()
    assert result.kind is ResultKind.WRONG_RESULT


def test_batch_reports_failed_builds_and_cuts_within_itself(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    reference = matmul()
    mods: list[IRModule | Callable[[], IRModule]] = [matmul(), refuse, injected("slow"), injected("wrong")]
    requests = [MeasureRequest(mod, "cpu", reference) for mod in mods]
    results = dict(measure_candidates(requests, builder, runner))
    assert [results[i].kind for i in range(4)] == [
        ResultKind.OK,
        ResultKind.ILLEGAL_SCHEDULE,
        ResultKind.OK,
        ResultKind.WRONG_RESULT,
    ]
    assert results[0].ok and not results[0].cut and results[0].verified and results[0].build_secs >= 0
    assert results[2].cut


def test_final_choice_takes_turns_and_survives_a_crash(builder: LocalBuilder, pool: WorkerPool) -> None:
    artifacts = [built(builder, mod) for mod in (matmul(3, 3, 3), injected("slow"), injected("segfault"))]
    fast, slow, dead = final_choice(artifacts, rounds=3, round_secs=0.001, timeout_sec=5.0, pool=pool)
    assert dead.kind is ResultKind.CRASH and "SIGSEGV" in (dead.error_msg or "")
    assert fast.run_secs and slow.run_secs and fast.run_secs < slow.run_secs


def test_the_runner_builds_the_rivals_of_a_final_choice_where_they_run(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    rivals = [builder.unbuilt(BuilderInput(mod, "llvm")) for mod in (matmul(3, 3, 3), injected("segfault"))]
    results = runner.final_choice(rivals)
    assert results is not None
    assert [item.kind for item in results] == [ResultKind.OK, ResultKind.CRASH]
    assert runner.final_choice(["some/path.tar"]) is None


def test_inputs_of_others_are_refused(runner: LocalRunner, builder: LocalBuilder) -> None:
    with pytest.raises(RunnerError, match="LocalBuilder built"):
        runner.run([RunnerInput("some/path.tar")])
    with pytest.raises(RunnerError, match="not on 'cuda'"):
        runner.run([RunnerInput(built(builder, matmul()), "cuda")])
    with pytest.raises(RunnerError, match="unknown runner 'cloud'"):
        Runner.create("cloud")


def test_measurements_do_not_overlap(builder: LocalBuilder, pool: WorkerPool) -> None:
    """Two slow candidates in different workers take as long as one after the other."""
    runner = LocalRunner(5.0, EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0), pool=pool)
    artifacts = [built(builder, injected("slow")) for _ in range(4)]
    begin = time.monotonic()
    results = [future.result() for future in runner.run([RunnerInput(artifact) for artifact in artifacts])]
    assert all(result.kind is ResultKind.OK for result in results)
    assert time.monotonic() - begin > 4 * 3 * 0.1


def test_a_factor_that_is_a_little_off_is_refused(builder: LocalBuilder, runner: LocalRunner) -> None:
    good, bad = built(builder, scaled(factor=0.5)), built(builder, scaled(factor=0.51))
    assert runner.submit(RunnerInput(good, reference=scaled(factor=0.5))).result().verified
    result = runner.submit(RunnerInput(bad, reference=scaled(factor=0.5))).result()
    assert result.kind is ResultKind.WRONG_RESULT
    assert "expected -1.5" in (result.error_msg or "")


def test_a_program_that_does_not_end_is_told_of_and_ended(
    pool: WorkerPool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop waits for data that the check's inputs do not hold; candidates that do not end are not the program's fault."""
    mod = IRModule({
        "main": from_source('''
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "search"})
    B[0] = T.float32(0)
    while A[0] != T.float32(1234567):
        B[0] = B[0] + T.float32(1)
''')
    })  # fmt: skip
    monkeypatch.setattr("runners.pool._PATIENCE", 0.2)
    artifact = built(LocalBuilder(timeout_sec=20.0, pool=pool), mod)
    runner = LocalRunner(evaluator_config=QUICK, reference_timeout_sec=1.0, pool=pool)
    with caplog.at_level("WARNING", "runners"):
        result = runner.submit(RunnerInput(artifact, reference=mod)).result()
    assert result.kind is ResultKind.PROGRAM_ERROR
    assert "does not end on the check's inputs" in (result.error_msg or "")
    assert "the limit of 1 seconds" in (result.error_msg or "")
    (record,) = caplog.records
    assert "kernel search: still running the unscheduled program" in record.message


def test_programs_that_come_as_text_are_not_kept() -> None:
    """A server gets one with each measurement, of up to 256 MiB, and kept the last 64 of them."""
    text = ProgramText(b"{}")
    key = local._reference_key(text, "cpu")
    assert key == local._reference_key(ProgramText(b"{}"), "cpu") != local._reference_key(text, "cuda")
    assert not any(isinstance(kept, ProgramText) for kept, *_ in local._KEYS.values())

"""Candidates that are built as bytes: whatever process loads them checks and times them as the one that built them would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runners import (
    BuilderInput,
    EvaluatorConfig,
    LocalBuilder,
    LocalRunner,
    ResultKind,
    Runner,
    RunnerInput,
    WorkerPool,
)
from runners.kernel_code import KernelCode, ProgramText
from runners.session import SessionSettings
from tests.programs.nodes import matmul, scaled
from tests.runners.builds import interpreted
from tests.runners.contract import RunnerContract

QUICK = EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerPool]:
    """Workers that build with LLVM."""
    with WorkerPool(2) as made:
        yield made


@pytest.fixture
def builder(workers: WorkerPool) -> LocalBuilder:
    return LocalBuilder(timeout_sec=30.0, pool=workers, portable=True)


def _built(builder: LocalBuilder, mod: object) -> object:
    (result,) = builder.build([BuilderInput(mod, "cpu")])
    assert result.error_msg is None and result.build_secs > 0 and result.metrics["code_size"] > 0
    return result.artifact


class TestLocalRunnerOfBytes(RunnerContract):
    @pytest.fixture
    def runner(self, workers: WorkerPool) -> Runner:
        return LocalRunner(timeout_sec=10.0, evaluator_config=QUICK, pool=workers)

    @pytest.fixture(autouse=True)
    def _builder(self, builder: LocalBuilder) -> None:
        self._made = builder

    def good_input(self, runner: Runner) -> RunnerInput:
        return RunnerInput(_built(self._made, matmul()), reference=matmul())

    def bad_input(self, runner: Runner) -> RunnerInput:
        return RunnerInput(_built(self._made, scaled(factor=2.0)), reference=scaled(factor=3.0))


def test_an_artifact_is_bytes_that_say_what_they_are(builder: LocalBuilder) -> None:
    first, again = (_built(builder, matmul()) for _ in range(2))
    assert isinstance(first.mod, KernelCode) and first.worker is None
    assert first.mod.key == again.mod.key  # the same program is the same bytes, which are sent once
    assert first.mod.key != _built(builder, matmul(5, 5, 5)).mod.key


def test_programs_to_compare_with_may_be_text(builder: LocalBuilder, workers: WorkerPool) -> None:
    runner = LocalRunner(timeout_sec=10.0, evaluator_config=QUICK, pool=workers)
    right, wrong = _built(builder, scaled(factor=3.0)), _built(builder, scaled(factor=2.0))
    text = ProgramText.of(scaled(factor=3.0))
    (good,) = runner.run([RunnerInput(right, reference=text)])
    assert good.result().verified and good.result().confirmed
    (bad,) = runner.run([RunnerInput(wrong, reference=text)])
    assert bad.result().kind is ResultKind.WRONG_RESULT
    found = runner.final_choice([right, wrong], text)
    assert found is not None
    assert [item.kind for item in found] == [ResultKind.OK, ResultKind.WRONG_RESULT]


def test_damaged_bytes_are_a_failure(builder: LocalBuilder, workers: WorkerPool) -> None:
    artifact = _built(builder, matmul())
    artifact.mod = KernelCode(artifact.mod.data[:-1])
    runner = LocalRunner(timeout_sec=10.0, evaluator_config=QUICK, pool=workers)
    result = runner.run([RunnerInput(artifact, reference=matmul())])[0].result()
    assert result.kind is ResultKind.BUILD_ERROR and "cut short or changed" in result.error_msg


def test_a_program_that_is_none_is_a_failure(builder: LocalBuilder, workers: WorkerPool) -> None:
    runner = LocalRunner(timeout_sec=10.0, evaluator_config=QUICK, pool=workers)
    for data in (b"{", b"[]", ProgramText.of(matmul()).data[:-3]):
        item = RunnerInput(_built(builder, matmul()), reference=ProgramText(data))
        result = runner.run([item])[0].result()
        assert result.run_secs is None and "the bytes are" in result.error_msg


def test_rivals_are_built_as_bytes_as_well(builder: LocalBuilder) -> None:
    artifact = builder.unbuilt(BuilderInput(matmul(), "cpu"))
    assert artifact is not None and isinstance(artifact.mod, KernelCode)


def test_the_session_says_what_is_built(workers: WorkerPool) -> None:
    builder = LocalBuilder(timeout_sec=30.0)
    with builder.serving(SessionSettings(workers, portable=True)):
        assert builder.portable
        assert isinstance(_built(builder, matmul()).mod, KernelCode)
    assert not builder.portable
    with LocalBuilder(portable=False).serving(SessionSettings(workers, portable=True)):
        pass


def test_what_a_user_builds_has_no_bytes(workers: WorkerPool) -> None:
    builder = LocalBuilder(f_build=interpreted, pool=workers, portable=True)
    (result,) = builder.build([BuilderInput(matmul(), "cpu")])
    assert result.kind is ResultKind.BUILD_ERROR and "without f_build" in (result.error_msg or "")

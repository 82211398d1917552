"""Candidates on devices: right ones are timed, and whatever goes wrong on a device costs one candidate and one process."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ir import IRModule
from runners import (
    CudaRunner,
    EvaluatorConfig,
    LocalBuilder,
    ResultKind,
    Runner,
    RunnerError,
    RunnerInput,
    WorkerPool,
)
from runners.builder import BuilderInput
from runners.cuda.kernel import DeviceKernel, build_cuda
from tests.runners.contract import RunnerContract
from tests.runners.cuda import builds, programs

REFERENCE = IRModule({"main": programs.turned})
GOOD = programs.bound(programs.turned, "twice", "turn")
QUICK = EvaluatorConfig(repeat=2, min_repeat_ms=1)


@pytest.fixture(scope="module")
def workers(device_library) -> Iterator[WorkerPool]:
    preload = ("runners.native", "runners.candidate", "tests.runners.cuda.builds")
    with WorkerPool(2, preload=preload) as pool:
        yield pool


@pytest.fixture
def runner(workers) -> CudaRunner:
    return CudaRunner(30.0, QUICK, pool=workers)


def _artifact(workers, fault: str | None = None):
    mod = GOOD if fault is None else builds.with_fault(GOOD, fault)
    builder = LocalBuilder(f_build=builds.build_faulty, pool=workers)
    (built,) = builder.build([BuilderInput(mod, programs.TARGET)])
    assert built.artifact is not None, built.error_msg
    return built.artifact


def _measured(runner, workers, fault: str | None = None, **options):
    item = RunnerInput(_artifact(workers, fault), "cuda", reference=REFERENCE, **options)
    return runner.run([item])[0].result()


class TestContract(RunnerContract):
    @pytest.fixture
    def runner(self, workers) -> Runner:
        return CudaRunner(30.0, QUICK, pool=workers)

    def good_input(self, runner):
        return RunnerInput(_artifact(runner.pool), "cuda", reference=REFERENCE)

    def bad_input(self, runner):
        return RunnerInput(_artifact(runner.pool, "trap"), "cuda", reference=REFERENCE)


def test_a_right_candidate_is_checked_and_timed(runner, workers):
    result = _measured(runner, workers)
    assert result.kind is ResultKind.OK, result.error_msg
    assert result.verified and result.confirmed and len(result.run_secs) == 2
    assert result.metrics["gpu_clock_mhz"] == 1410 and result.metrics["gpu_temperature"] == 41
    assert result.metrics["gpu_throttle_reasons"] == 0


FAULTS = {
    "illegal access": (ResultKind.CRASH, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    "trap": (ResultKind.CRASH, "CUDA_ERROR_LAUNCH_FAILED"),
    "endless loop": (ResultKind.RUN_TIMEOUT, "no answer within the limit"),
    "no memory": (ResultKind.OUT_OF_MEMORY, "no memory for"),
    "too much shared memory": (ResultKind.RUN_ERROR, "asks for 1048576 bytes of shared memory"),
    "wrong result": (ResultKind.WRONG_RESULT, ""),
    "beside its output": (ResultKind.WRONG_RESULT, "memory beside tensor"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_one_candidate(runner, workers, fault):
    kind, text = FAULTS[fault]
    result = _measured(runner, workers, fault)
    assert result.kind is kind and text in result.error_msg and result.run_secs is None
    after = _measured(runner, workers)
    assert after.kind is ResultKind.OK, after.error_msg


def test_a_lost_device_costs_its_process_and_others_are_kept(runner, workers):
    artifact = _artifact(workers, "illegal access")
    worker, generation = artifact.worker, artifact.generation
    (future,) = runner.run([RunnerInput(artifact, "cuda", reference=REFERENCE)])
    assert future.result().kind is ResultKind.CRASH
    assert worker.pid is None and worker.generation == generation


def test_two_devices_are_used_at_a_time(workers):
    runner = CudaRunner(30.0, QUICK, devices=(0, 1), pool=workers)
    assert runner.measures_at_once == 2
    items = [RunnerInput(_artifact(workers), "cuda", reference=REFERENCE) for _ in range(4)]
    assert [future.result().kind for future in runner.run(items)] == [ResultKind.OK] * 4


def test_a_device_that_is_not_there_is_a_failure(workers):
    result = _measured(CudaRunner(30.0, QUICK, devices=(9,), pool=workers), workers)
    assert result.kind is ResultKind.RUN_ERROR and "CUDA_ERROR_INVALID_DEVICE" in result.error_msg


def test_memory_of_a_process_can_be_limited(workers):
    result = _measured(CudaRunner(30.0, QUICK, device_memory=1000, pool=workers), workers)
    assert result.kind is ResultKind.OUT_OF_MEMORY and "the limit of this process is 1000" in result.error_msg


def test_energy_is_that_of_the_device(workers):
    result = _measured(CudaRunner(20.0, QUICK, measure_energy=True, pool=workers), workers)
    assert result.kind is ResultKind.OK, result.error_msg
    assert 0 < result.metrics["energy"] < 100 * 10 * max(result.run_secs) + 1


def test_the_cache_of_the_device_is_flushed(workers):
    config = EvaluatorConfig(repeat=2, min_repeat_ms=1, enable_cpu_cache_flush=True)
    result = _measured(CudaRunner(30.0, config, pool=workers), workers)
    assert result.kind is ResultKind.OK, result.error_msg


def test_rivals_take_turns(runner, workers):
    results = runner.final_choice([_artifact(workers), _artifact(workers)], REFERENCE)
    assert [item.kind for item in results] == [ResultKind.OK] * 2 and all(item.verified for item in results)


def test_settings_are_checked(workers):
    for devices in ((), (0, 0), ("a",), (-1,)):
        with pytest.raises(RunnerError, match="CudaRunner: "):
            CudaRunner(devices=devices, pool=workers)
    with pytest.raises(RunnerError, match="CudaRunner runs on cuda, not on 'cpu'"):
        CudaRunner(pool=workers).run([RunnerInput(_artifact(workers))])
    assert isinstance(Runner.create("cuda", pool=workers), CudaRunner)


def test_a_kernel_on_arrays_of_the_processor(device_library):
    kernel = build_cuda(GOOD, programs.TARGET)
    assert isinstance(kernel, DeviceKernel) and kernel.metrics["code_size"] > 1000
    a, c = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    assert kernel.timed(None, a, c) > 0
    np.testing.assert_array_equal(c, programs.turned_values(a))
    call = kernel.bind(a, c)
    c[:] = 0
    call()
    assert (c == 0).all()
    call.fetch()
    np.testing.assert_array_equal(c, programs.turned_values(a))

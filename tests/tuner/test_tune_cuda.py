"""A tuning session for a device: whatever its candidates do there, it costs them alone."""

from __future__ import annotations

from collections import Counter

import pytest

import tuner
from ir import te
from ir.codegen.cuda.emulation.compile import has_compiler
from runners import CudaRunner, EvaluatorConfig, LocalBuilder, WorkerPool
from runners.cuda import stand_in
from tests.runners.cuda import builds


def _matmul(n: int):
    a, b = (te.placeholder((n, n), "float32", name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])


@pytest.mark.slow
def test_every_fault_is_one_failure_and_the_session_goes_on(tmp_path, monkeypatch):
    if not has_compiler():
        pytest.skip("needs a C++ compiler")
    monkeypatch.setenv(builds.FAULTS_FOLDER, str(tmp_path))
    with stand_in.used(devices=1), WorkerPool(2, preload=("runners.native", "runners.candidate")) as pool:
        database = tuner.tune_tir(
            _matmul(32),
            "nvidia/nvidia-a100",
            work_dir=str(tmp_path / "work"),
            max_trials_global=8,
            num_trials_per_iter=8,
            builder=LocalBuilder(f_build=builds.build_with_faults_in_turn, pool=pool),
            runner=CudaRunner(30.0, EvaluatorConfig(repeat=2, min_repeat_ms=1), pool=pool),
            measure_callbacks=[],
            seed=1,
        )
    records = database.get_all_tuning_records()
    failed = Counter(str(record.failure_kind) for record in records if not record.run_secs)
    assert failed == {"crash": 1, "run_timeout": 1, "run_error": 1, "wrong_result": 1}
    right = [record for record in records if record.run_secs and not record.remeasured]
    assert len(right) == 4 and all(record.verified for record in right)

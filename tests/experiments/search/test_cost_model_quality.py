"""Judging cost models by records: random candidates become records, and what is published of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cost_models import Calibration, estimate_seconds
from database import MachineCalibration, MemoryDatabase, TuningRecord, open_database
from experiments.operators import loopsmith
from experiments.search import cost_model_quality, random_candidates
from ir.target import Target
from schedules.space import PostOrderApply
from tests.programs.expressions import matmul
from tuner.calibration import VERSION, machine_fingerprint

FOUND = Calibration.checked({"hertz": 2e9, "fma_per_cycle": 0.5, "l1_fill": 4.0, "l1_fill_all": 4.0}, cores=2)


def test_random_candidates_become_records_that_replay() -> None:
    store = MemoryDatabase()
    assert random_candidates.measure("take", store, 1, seed=3, machine=loopsmith.target(1)) == 1
    (record,) = store.get_all_tuning_records()
    assert record.mean_secs > 0 and not record.verified
    assert record.schedule() is not None


def test_rows_tell_how_each_model_orders_what_was_measured(tmp_path: Path) -> None:
    """Times that follow the calibrated estimate: it orders them without a fault, and the assumed one does not."""
    host, path = Target("cpu"), str(tmp_path / "t.db")
    store = open_database(path)
    store.commit_calibration(MachineCalibration(machine_fingerprint(), VERSION, FOUND.as_json()))
    for size in (64, 96):
        workload = store.commit_workload(matmul(size))
        sketch = PostOrderApply().generate_sketches(workload.mod, host)[0]
        rows = sketch.sample(12, np.random.default_rng(size))
        for row, secs in zip(rows, estimate_seconds(sketch.skeleton(rows), host, FOUND), strict=True):
            store.commit_tuning_record(TuningRecord(sketch.trace_of(row), workload, [float(secs)], host))
    calibration = cost_model_quality.calibration_in(path)
    assert calibration == FOUND
    cost_model_quality.publish("made up", [path], calibration, 8, tmp_path)
    published = json.loads((tmp_path / "cost_models.json").read_text())["rows"]
    assert len(published) == 2
    for row in published.values():
        assert row["prior, calibrated"]["rank"] == pytest.approx(1.0)
        assert row["prior, calibrated"]["regret 1"] == 0.0
        assert row["prior, assumed"]["rank"] < 1.0
    page = (tmp_path / "cost_models.md").read_text()
    assert "mean of made up" in page and f"{host}" in page


def test_without_a_calibration_the_command_says_what_to_run(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    store = open_database(path)
    store.commit_workload(matmul(4))  # with which the file is made
    store.close()
    with pytest.raises(SystemExit, match="loopsmith calibrate --database"):
        cost_model_quality.calibration_in(path)

"""Peaks of a machine: of the calibration that this version made, for the cores that a target has and that were measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models import Calibration
from database import MachineCalibration, MemoryDatabase
from ir.target import Target
from tuner.calibration import VERSION
from tuner.roofline import Roofline, roofline_of, roofline_of_calibration, stored_calibration

TARGET = Target("llvm -mcpu=x86-64-v3 -num-cores=8")
FOUND = Calibration(hertz=2e9, fma_per_cycle=2.0, l3_fill=4.0, cores=4)


def kept(figures: Calibration, version: int, created_at: float) -> MachineCalibration:
    """What a version measured of a machine with the target's processor."""
    return MachineCalibration(
        {"target": "llvm -mcpu=x86-64-v3"}, version, figures.as_json(), created_at=created_at
    )


def roof(target: Target = TARGET, found: Calibration = FOUND) -> Roofline:
    made = roofline_of_calibration(found, target)
    assert made is not None
    return made


def test_no_more_cores_count_than_were_measured_or_the_target_has() -> None:
    lanes = TARGET.vector_bits // 32
    assert roof().flops_per_s == pytest.approx(2 * lanes * 2.0 * 2e9 * 4)
    assert roof(Target("llvm -mcpu=x86-64-v3 -num-cores=3")).flops_per_s == pytest.approx(
        2 * lanes * 2.0 * 2e9 * 3
    )
    assert roof().bandwidths[0].bytes_per_s == pytest.approx(4.0 * 2e9 * 4)
    assert roofline_of_calibration(replace(FOUND, l3_fill=None), TARGET) is None


def test_what_another_version_measured_does_not_count() -> None:
    """Its figures may mean something else."""
    store = MemoryDatabase()
    store.commit_calibration(kept(FOUND, VERSION + 1, 1.0))
    assert stored_calibration(store, TARGET) is None and roofline_of(store, TARGET) is None
    store.commit_calibration(kept(replace(FOUND, hertz=3e9), VERSION, 0.5))
    found = stored_calibration(store, TARGET)
    assert found is not None and found.hertz == 3e9
    assert stored_calibration(store, Target("llvm -mcpu=x86-64-v2 -num-cores=8")) is None

"""Whose times this machine tells: its own processor's and its own device's."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tuner
from database import MemoryDatabase
from ir import te
from ir.error import IRError
from ir.target import Target
from ir.target.host import available_cores
from runners import RunnerError
from runners.cuda.driver import CudaUnavailable
from tuner import measurable
from tuner.error import TunerError
from tuner.measurable import require_energy, require_measurable

_DEVICE = {"arch": "sm_80", "multi_processor_count": 108}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What this machine's first device is said to be."""
    here = dict(_DEVICE)
    monkeypatch.setattr(measurable, "cuda_attributes", lambda index: here)
    monkeypatch.setattr(measurable, "toolkit", lambda: None)
    return here


def _relu() -> Any:
    x = te.placeholder((64,), name="x")
    return te.create_prim_func([x, te.compute((64,), lambda i: te.max(x[i], 0.0), name="y")])


def test_more_cores_than_there_are_are_refused() -> None:
    here = available_cores()
    require_measurable(Target("cpu"))
    require_measurable(Target("llvm -num-cores 1"))
    with pytest.raises(
        TunerError, match=rf"has {here + 1} cores \(-num-cores\), more than .* leave -num-cores out"
    ):
        require_measurable(Target(f"llvm -num-cores {here + 1}"))


def test_the_device_of_this_machine_is_measured_whatever_its_name(device: dict[str, Any]) -> None:
    for text in ("cuda -arch=sm_80", "nvidia/nvidia-a100", "nvidia/a100"):
        require_measurable(Target(text))
    device.update(arch="sm_90a", multi_processor_count=132)
    require_measurable(Target("cuda -arch=sm_90"))  # of the same capability
    require_measurable(Target("nvidia/h100"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "nvidia/h100",
            "^the target nvidia/h100 cannot be measured here: it is sm_90a, this machine's device sm_80",
        ),
        ("cuda -arch=sm_70", "it is sm_70, this machine's device sm_80"),
        (
            "cuda -arch=sm_80 -multi_processor_count=56",
            "it has 56 multiprocessors, this machine's device 108",
        ),
    ],
)
def test_another_device_is_refused(text: str, says: str, device: dict[str, Any]) -> None:
    with pytest.raises(TunerError, match=says):
        require_measurable(Target(text))


@pytest.mark.parametrize("runner", ["local", "cuda"])
def test_a_search_that_nobody_can_measure_leaves_no_failures_behind(
    runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be final: a later search, on a machine with a driver, would propose none of these candidates."""
    monkeypatch.setenv("LOOPSMITH_CUDA_DRIVER", "no-driver-of-this-name.so")
    measurable.cuda_attributes.cache_clear()
    store = MemoryDatabase()
    with pytest.raises(CudaUnavailable, match=re.escape("no-driver-of-this-name.so")):
        tuner.tune_tir(
            _relu(),
            "nvidia/nvidia-a100",
            database=store,
            max_trials_global=2,
            runner=runner,
            measure_callbacks=[],
        )
    assert len(store) == 0 and not store.get_sessions()


def test_energy_is_asked_of_what_runs_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Monitor:
        def __init__(self, uuid: str) -> None:
            asked.append(uuid)

        def joules(self) -> float:
            raise RunnerError("this device has no counter of it")

    monkeypatch.setattr(measurable, "identity", lambda index: f"GPU-{index}")
    monkeypatch.setattr(measurable, "DeviceMonitor", Monitor)
    monkeypatch.setattr(measurable, "EnergyMeter", lambda: pytest.fail("the processor was asked"))
    with pytest.raises(IRError, match="this device has no counter"):
        require_energy(Target("nvidia/nvidia-a100"))
    assert asked == ["GPU-0"]

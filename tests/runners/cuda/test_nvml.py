"""What NVML tells of a device."""

from __future__ import annotations

import time

import pytest

from runners import RunnerError
from runners.cuda import nvml
from runners.cuda.context import identity
from runners.cuda.nvml import DeviceMonitor, DeviceState


def test_the_state_of_a_device(monkeypatch):
    monitor = DeviceMonitor(identity(1))
    assert monitor.state() == DeviceState(1410, 1215, 41, 0) and monitor.state().throttled == ()
    assert monitor.state().metrics == {
        "gpu_clock_mhz": 1410.0,
        "gpu_memory_clock_mhz": 1215.0,
        "gpu_temperature": 41.0,
        "gpu_throttle_reasons": 0.0,
    }


def test_reasons_of_throttling_have_names():
    assert DeviceState(1410, None, None, 0x4 | 0x40 | 0x1).throttled == ("power limit", "too hot (hardware)")
    assert DeviceState(None, None, None, None).metrics == {}


def test_energy_of_a_call():
    joules = DeviceMonitor(identity(0)).joules_of_one_call(lambda count: time.sleep(0.01 * count), 0.01)
    assert 0.9 < joules < 3.0  # 100 watts for ten milliseconds


def test_what_is_not_there_is_left_out_or_said(monkeypatch):
    monitor = DeviceMonitor(identity(0))
    assert monitor._asked("nvmlDeviceGetNothing", nvml.ctypes.c_uint) is None
    monkeypatch.setattr(DeviceMonitor, "_asked", lambda *args: None)
    with pytest.raises(RunnerError, match="this device has no counter of it"):
        monitor.joules()
    with pytest.raises(RunnerError, match="NVML does not know the device GPU-none"):
        DeviceMonitor("GPU-none")
    monkeypatch.setenv(nvml.NVML_VARIABLE, "libnothing.so")
    with pytest.raises(RunnerError, match="there is no NVML"):
        DeviceMonitor(identity(0))

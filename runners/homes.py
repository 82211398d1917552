"""Which place a built model runs in, of those that it was built for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from .device import Device, checked_device, cpu, cuda
from .executable import Executable
from .home import PROCESSOR, Home
from .program import ExecutableError


def home_of(executable: Executable, device: Device | Sequence[Device] | None) -> Home:
    """The place of an executable's arrays.

    Args:
        device: asked for by the caller; None is what the executable was built for.

    Raises:
        DeviceError: it is no device.
        ExecutableError: it was built for another kind of device, or the device is elsewhere.
        CudaUnavailable: there is no such device.
    """
    kind = executable.metadata.get("device", "cpu")
    devices = [device] if isinstance(device, Device | str) else list(device or ())
    chosen = checked_device(devices[0]) if devices else cpu() if kind == "cpu" else cuda()
    if chosen.device_type >= Device.ELSEWHERE:
        raise ExecutableError(
            f"the model is in this process, and cannot run on {chosen}: upload it there, and make the machine of what the session's"
            " load_module gives"
        )
    if chosen.type != kind:
        built, fix = (
            ("the processor", "runners.cpu()") if kind == "cpu" else ("CUDA devices", "runners.cuda()")
        )
        raise ExecutableError(
            f"this model was built for {built}, it cannot run on {chosen}; use {fix}, or build it for that device"
        )
    if kind == "cpu":
        return PROCESSOR
    home: Home = import_module(".cuda.home", __package__).CudaHome(chosen, executable.device_code)
    return home

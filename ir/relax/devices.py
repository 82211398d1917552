"""The places of a built model: the device that it is built for, and the processor beside it."""

from __future__ import annotations

from typing import Any

from ..error import IRValueError
from ..global_info import VDevice
from ..target.target import Target

MAIN, PROCESSOR = 0, 1
"""Numbers of devices in a built model: that of its target, and the host's processor where the target is a GPU."""


def device_number(vdevice: VDevice | None) -> int:
    """Where a tensor is in a model for the target in force: a tensor that names no virtual device is on the target's.

    Raises:
        IRValueError: it is neither on the target's device nor on the host's processor.
    """
    target = Target.current(allow_none=True)
    kind = "" if vdevice is None else vdevice.target_kind
    if vdevice is None or not kind or target is None:
        return MAIN
    if kind == target.kind_name and vdevice.vdevice_id == 0:
        return MAIN
    if kind == "llvm" and target.is_gpu and vdevice.vdevice_id == 0:
        return PROCESSOR
    raise IRValueError(
        f"the module has tensors on {kind}:{vdevice.vdevice_id}, and it is built for {target.kind_name}: models run on one device,"
        " and on its host's processor where that is a GPU (VDevice('llvm'))"
    )


def vdevice_of(info: Any) -> VDevice | None:
    """The virtual device of a tensor; None for others, and for values of other kinds."""
    found = getattr(info, "vdevice", None)
    return found if isinstance(found, VDevice) else None

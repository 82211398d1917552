"""A grid of devices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...error import IRValueError
from ...global_info import GlobalInfo
from ...node import field
from ...tir.expr import Range


def _ids(value: Any) -> tuple[int, ...]:
    if isinstance(value, Range):
        first = int(value.min.value)  # type: ignore[attr-defined]
        return tuple(range(first, first + int(value.extent.value)))  # type: ignore[attr-defined]
    return tuple(int(item) for item in value)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(int(item) for item in value)


class DeviceMesh(GlobalInfo, type_key="relax.distributed.DeviceMesh"):
    """Devices by number, arranged in a grid of ``shape``."""

    shape: tuple[int, ...] = field(convert=_shape)
    device_ids: tuple[int, ...] = field(convert=_ids)

    def _check(self) -> None:
        if prod(self.shape) != len(self.device_ids):
            raise IRValueError(
                f"a mesh of shape {self.shape} has {prod(self.shape)} places for {len(self.device_ids)} devices"
            )


def device_mesh(shape: Sequence[int], device_ids: Sequence[int] | Range) -> DeviceMesh:
    """A mesh; the devices are numbers or a range of them."""
    return DeviceMesh(shape, device_ids)

"""The struct info of a tensor on a mesh."""

from __future__ import annotations

from typing import Any

from ...error import IRValueError
from ...node import field
from ..struct_info import StructInfo, TensorStructInfo
from .device_mesh import DeviceMesh
from .placement import Placement, specs_of


class DTensorStructInfo(StructInfo, type_key="relax.DTensorStructInfo"):
    """The whole tensor's struct info, the mesh, and the placement on it (also as text)."""

    tensor_sinfo: TensorStructInfo
    device_mesh: DeviceMesh
    placement: Placement = field(convert=specs_of)

    def _check(self) -> None:
        specs, axes = self.placement.dim_specs, len(self.device_mesh.shape)
        if len(specs) != axes:
            raise IRValueError(
                f"a mesh of {axes} axes needs as many placements, got {self.placement.to_text()!r}"
            )
        for spec in specs:
            if spec.axis >= 0 and self.tensor_sinfo.ndim not in (-1,) and spec.axis >= self.tensor_sinfo.ndim:
                raise IRValueError(
                    f"cannot shard axis {spec.axis} of a tensor of {self.tensor_sinfo.ndim} dimensions"
                )

    @property
    def shape(self) -> Any:
        """The whole tensor's shape."""
        return self.tensor_sinfo.shape

    @property
    def dtype(self) -> str:
        """The dtype."""
        return self.tensor_sinfo.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.tensor_sinfo.ndim

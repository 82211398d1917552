"""Tensors spread over a mesh of devices: meshes, placements, struct infos."""

from .device_mesh import DeviceMesh, device_mesh
from .placement import Placement, PlacementSpec, PlacementSpecKind
from .struct_info import DTensorStructInfo

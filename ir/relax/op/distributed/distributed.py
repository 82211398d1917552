"""Placing tensors on meshes, moving between placements, and calling kernels on the local parts."""

from __future__ import annotations

from typing import Any

from ...distributed.device_mesh import DeviceMesh
from ...distributed.placement import Placement, PlacementSpecKind, specs_of
from ...distributed.struct_info import DTensorStructInfo
from ...expr import Call, Expr, GlobalVar
from ...struct_info import StructInfo, TensorStructInfo
from ..base import CALLS_KERNEL, _call_tir_args, _infer_call_tir, _out_struct_info
from ..declaration import call, operator
from ..inference import as_int, check_arity, fail, same_as, simplify, tensor_args, wrong_kind
from ..memory_effect import view_of


def _infer_annotation(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    return node.args[0].struct_info


@operator("relax.dist.annotate_sharding", infer=_infer_annotation, memory=view_of(0))
def annotate_sharding(input: Expr, device_mesh: DeviceMesh, placement: Placement | str) -> Call:
    """The tensor itself, to be placed on a mesh when sharding is propagated."""
    attrs = {"device_mesh": device_mesh, "placement": specs_of(placement)}
    return call("relax.dist.annotate_sharding", input, attrs=attrs)


def _infer_redistribute(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    info = node.args[0].struct_info
    if not isinstance(info, DTensorStructInfo):
        raise wrong_kind(node, f"expected a tensor on a mesh, got {info}; place it with annotate_sharding")
    return DTensorStructInfo(info.tensor_sinfo, node.attrs["device_mesh"], node.attrs["placement"])


# What is placed right already is not moved.
@operator("relax.dist.redistribute", infer=_infer_redistribute, memory=view_of(0))
def redistribute(input: Expr, device_mesh: DeviceMesh, placement: Placement | str) -> Call:
    """The tensor in another placement."""
    attrs = {"device_mesh": device_mesh, "placement": specs_of(placement)}
    return call("relax.dist.redistribute", input, attrs=attrs)


@operator("relax.dist.call_tir_local_view", infer=_infer_call_tir, **CALLS_KERNEL)
def call_tir_local_view(gvar: GlobalVar, args: Any, out_sinfo: Any, tir_vars: Any = None) -> Call:
    """As call_tir on the part of every tensor that is on this device; ``out_sinfo`` is of tensors on a mesh."""
    return call(
        "relax.dist.call_tir_local_view",
        *_call_tir_args(gvar, args, tir_vars),
        sinfo_args=[_out_struct_info(out_sinfo)],
    )


def _infer_replica_to_shard(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    workers, axis = node.attrs["num_workers"], node.attrs["axis"]
    info = node.args[0].struct_info
    if isinstance(info, DTensorStructInfo):
        placement = Placement(
            [
                spec if spec.kind == PlacementSpecKind.kSharding else type(spec).sharding(axis)
                for spec in info.placement.dim_specs
            ]
        )
        return DTensorStructInfo(info.tensor_sinfo, info.device_mesh, placement)
    (tensor,) = tensor_args(node, 1)
    if tensor.shape_values is None:
        return same_as(tensor)
    extent = as_int(tensor.shape_values[axis])
    if extent is not None and extent % workers:
        raise fail(node, f"extent {extent} of axis {axis} is not divisible by {workers} workers")
    dims = list(tensor.shape_values)
    dims[axis] = simplify(dims[axis] // workers)
    return TensorStructInfo(dims, tensor.dtype, tensor.vdevice)


@operator("relax.dist.redistribute_replica_to_shard", infer=_infer_replica_to_shard)
def redistribute_replica_to_shard(input: Expr, num_workers: int, axis: int) -> Call:
    """This worker's part, along ``axis``, of a tensor that all workers hold."""
    return call(
        "relax.dist.redistribute_replica_to_shard",
        input,
        attrs={"num_workers": int(num_workers), "axis": int(axis)},
    )


__all__ = ["annotate_sharding", "call_tir_local_view", "redistribute", "redistribute_replica_to_shard"]

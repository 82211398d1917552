"""Reductions, gathers, broadcasts and scatters across workers; each becomes a call of the runtime's collective."""

from __future__ import annotations

from typing import Any

from ....error import IRValueError
from ...expr import Call, Expr, PrimValue, ShapeExpr
from ...struct_info import StructInfo, TensorStructInfo
from ..base import call_dps_packed
from ..declaration import MixedPrecisionPolicy, call, operator
from ..inference import as_int, fail, infer_unary_any, same_as, simplify, tensor_args
from ..manipulate import permute_dims
from ..reshaping import reshape

FOLLOW = MixedPrecisionPolicy.FOLLOW
_OPERATIONS = {"sum": 0, "prod": 1, "min": 2, "max": 3, "avg": 4}


def _collective(name: str, *rest: Any) -> Any:
    def legalize(bb: Any, node: Call) -> Expr:
        extra = [item(node) for item in rest]
        return call_dps_packed(f"runtime.disco.{name}", [node.args[0], *extra], node.struct_info)

    return legalize


def _as_shape(number: int) -> ShapeExpr:
    return ShapeExpr([number])


@operator(
    "relax.ccl.allreduce",
    infer=infer_unary_any,
    legalize=_collective(
        "allreduce",
        lambda n: _as_shape(_OPERATIONS[n.attrs["op_type"]]),
        lambda n: _bool(n.attrs["in_group"]),
    ),
    mixed_precision=FOLLOW,
)
def allreduce(x: Expr, op_type: str = "sum", in_group: bool = True) -> Expr:
    """Combine the tensors of all workers elementwise by "sum", "prod", "min", "max" or "avg"; each gets the result."""
    if op_type not in _OPERATIONS:
        raise IRValueError(
            f"relax.ccl.allreduce: op_type must be one of {', '.join(_OPERATIONS)}, got {op_type!r}"
        )
    return call("relax.ccl.allreduce", x, attrs={"op_type": op_type, "in_group": bool(in_group)})


def _bool(value: bool) -> Expr:
    return PrimValue(bool(value))


def _infer_allgather(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    if info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
    if not info.shape_values:
        raise fail(node, "expected at least one dimension, got a scalar")
    first = simplify(info.shape_values[0] * node.attrs["num_workers"])
    return TensorStructInfo([first, *info.shape_values[1:]], info.dtype, info.vdevice)


@operator(
    "relax.ccl.allgather",
    infer=_infer_allgather,
    legalize=_collective("allgather", lambda n: _bool(n.attrs["in_group"])),
    mixed_precision=FOLLOW,
)
def allgather(x: Expr, num_workers: int, in_group: bool = True) -> Expr:
    """Join the tensors of all workers along the first axis; each gets the result."""
    return call("relax.ccl.allgather", x, attrs={"num_workers": int(num_workers), "in_group": bool(in_group)})


@operator(
    "relax.ccl.broadcast_from_worker0",
    infer=infer_unary_any,
    legalize=_collective("broadcast_from_worker0", lambda n: _bool(False)),
    mixed_precision=FOLLOW,
)
def broadcast_from_worker0(x: Expr) -> Expr:
    """The tensor of worker 0, for all workers."""
    return call("relax.ccl.broadcast_from_worker0", x)


def _infer_scatter(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    axis, workers = node.attrs["axis"], node.attrs["num_workers"]
    if info.shape_values is None:
        return same_as(TensorStructInfo(None, info.dtype, info.vdevice, info.ndim))
    extent = as_int(info.shape_values[axis])
    if extent is not None and extent % workers:
        raise fail(node, f"extent {extent} of axis {axis} is not divisible by {workers} workers")
    dims = list(info.shape_values)
    dims[axis] = simplify(dims[axis] // workers)
    return TensorStructInfo(dims, info.dtype, info.vdevice)


def _legalize_scatter(bb: Any, node: Call) -> Expr:
    """The runtime scatters along a leading axis of one entry per worker."""
    axis, workers = node.attrs["axis"], node.attrs["num_workers"]
    info = node.args[0].struct_info
    assert isinstance(info, TensorStructInfo) and info.shape_values is not None
    dims = list(info.shape_values)
    split = [*dims[:axis], workers, simplify(dims[axis] // workers), *dims[axis + 1 :]]
    value = bb.emit(reshape(node.args[0], split))
    if axis:
        order = [axis, *(i for i in range(len(split)) if i != axis)]
        value = bb.emit(permute_dims(value, order))
    return call_dps_packed("runtime.disco.scatter_from_worker0", [value, _bool(False)], node.struct_info)


@operator(
    "relax.ccl.scatter_from_worker0", infer=_infer_scatter, legalize=_legalize_scatter, mixed_precision=FOLLOW
)
def scatter_from_worker0(x: Expr, num_workers: int, axis: int = 0) -> Expr:
    """The part of worker 0's tensor along ``axis`` that is this worker's."""
    return call(
        "relax.ccl.scatter_from_worker0", x, attrs={"num_workers": int(num_workers), "axis": int(axis)}
    )


__all__ = ["allgather", "allreduce", "broadcast_from_worker0", "scatter_from_worker0"]

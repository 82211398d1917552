"""Storage and tensors of the virtual machine, and calls of kernels with symbolic shapes."""

from __future__ import annotations

from typing import Any

from ...expr import Call, Expr, ShapeExpr, Tuple, convert_to_expr
from ...struct_info import ObjectStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from ..declaration import call, operator
from ..inference import check_arity
from ..memory.memory import as_dtype, as_shape, as_string, infer_alloc_tensor
from ..memory_effect import EFFECT, FRESH, IDENTITY, declare_external, releases, view_of, writes

# The machine's own functions. Those that check stop the program; the shape heap is written and read in order.
for _name in ("shape_of", "tensor_to_shape", "copy", "null_value"):
    declare_external(f"vm.builtin.{_name}", FRESH)
for _name in ("reshape", "to_device"):
    declare_external(f"vm.builtin.{_name}", view_of(0))
for _name in ("tensor", "shape", "tuple", "prim_value", "func"):
    declare_external(f"vm.builtin.check_{_name}_info", EFFECT)
for _name in ("check_extent", "check_upper_bound"):
    declare_external(f"vm.builtin.{_name}", EFFECT)
for _name in ("match_shape", "match_prim_value"):
    declare_external(f"vm.builtin.{_name}", writes(1) | EFFECT)
for _name in ("make_shape", "make_prim_value"):
    declare_external(f"vm.builtin.{_name}", EFFECT)
declare_external("vm.builtin.alloc_shape_heap", IDENTITY)


@operator(
    "relax.vm.alloc_storage",
    infer=lambda node, builder: ObjectStructInfo(),
    memory=IDENTITY | EFFECT,
    is_lowered=True,
)
def alloc_storage(
    shape: Any, runtime_device_index: Any, dtype: str | Expr, storage_scope: str | Expr = "global"
) -> Call:
    """Allocate storage for a shape of a dtype."""
    device = convert_to_expr(runtime_device_index)
    return call("relax.vm.alloc_storage", as_shape(shape), device, as_dtype(dtype), as_string(storage_scope))


def _infer_alloc_tensor(node: Call, builder: Any) -> StructInfo:
    info = infer_alloc_tensor(node, builder)
    if isinstance(node.args[2], ShapeExpr) or not isinstance(info, TensorStructInfo):
        return info
    return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)  # a shape made at run time is not kept


@operator(
    "relax.vm.alloc_tensor", infer=_infer_alloc_tensor, memory=view_of(0) | IDENTITY | EFFECT, is_lowered=True
)
def alloc_tensor(
    storage: Expr, offset: Any, shape: Any, dtype: str | Expr, runtime_device_ind: Any = None
) -> Call:
    """A tensor in storage, ``offset`` bytes from its begin."""
    args = [storage, convert_to_expr(offset), as_shape(shape), as_dtype(dtype)]
    if runtime_device_ind is not None:
        args.append(convert_to_expr(runtime_device_ind))
    return call("relax.vm.alloc_tensor", *args)


def _infer_nothing(node: Call, builder: Any) -> StructInfo:
    return TupleStructInfo(())


def _infer_killed(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    return TupleStructInfo(())


@operator("relax.vm.kill_object", infer=_infer_killed, memory=releases(0) | EFFECT, is_lowered=True)
def kill_object(obj: Expr) -> Call:
    """Release storage or a tensor."""
    return call("relax.vm.kill_object", obj)


@operator("relax.vm.call_tir_dyn", infer=_infer_nothing, memory=writes(1) | EFFECT, callee=0, is_lowered=True)
def call_tir_dyn(func: Expr, args: Any) -> Call:
    """Call a kernel with its tensors and a shape that holds its symbolic variables."""
    return call("relax.vm.call_tir_dyn", func, args if isinstance(args, Tuple) else Tuple(args))


__all__ = ["alloc_storage", "alloc_tensor", "call_tir_dyn", "kill_object"]

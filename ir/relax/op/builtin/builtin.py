"""Allocation of tensors before memory is planned, and a marker for parameter lifting."""

from __future__ import annotations

from typing import Any

from ...expr import Call, Expr, convert_to_expr
from ...struct_info import StructInfo, TensorStructInfo
from ..declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from ..gradient import of_one_operand
from ..inference import infer_unary_any, shape_arg, shape_target
from ..layout_rule import elementwise
from ..lowering import packed
from ..memory.memory import as_dtype, as_shape, as_string, dtype_arg
from ..memory_effect import IDENTITY, view_of


def _infer_alloc_tensor(node: Call, builder: Any) -> StructInfo:
    shape_arg(node, 0)
    return TensorStructInfo(shape_target(node, 0), dtype_arg(node, 1))


# Allocation is no visible effect, so that tensors can be made in dataflow blocks.
@operator("relax.builtin.alloc_tensor", infer=_infer_alloc_tensor, memory=IDENTITY, is_lowered=True)
def alloc_tensor(
    shape: Any, dtype: str | Expr, runtime_device_index: Any, storage_scope: str | Expr = "global"
) -> Call:
    """A new tensor; memory planning decides where it lives."""
    return call(
        "relax.builtin.alloc_tensor",
        as_shape(shape),
        as_dtype(dtype),
        convert_to_expr(runtime_device_index),
        as_string(storage_scope),
    )


@operator(
    "relax.builtin.stop_lift_params",
    infer=infer_unary_any,
    legalize=lambda bb, node: node.args[0],
    reference=lambda x: x,
    memory=view_of(0),
    gradient=of_one_operand(lambda x, y, g: g),
    lowering=packed("vm.builtin.to_device"),
    mixed_precision=MixedPrecisionPolicy.FOLLOW,
    pattern=OpPatternKind.kElemWise,
    layout=elementwise,
)
def stop_lift_params(x: Expr) -> Expr:
    """The tensor itself; what is computed from it is not lifted into the transformation of parameters."""
    return call("relax.builtin.stop_lift_params", x)


__all__ = ["alloc_tensor", "stop_lift_params"]

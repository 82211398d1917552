"""Elementwise operators of three operands."""

from __future__ import annotations

from typing import Any

from ..expr import Call, Expr
from ..struct_info import StructInfo, TensorStructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from .inference import common_dtype, common_vdevice, fail, show_dims, tensor_args
from .layout_rule import elementwise
from .legalization import topi_function
from .requirement import require_equal


def _infer_ewise_fma(node: Call, builder: Any) -> StructInfo:
    infos = tensor_args(node, 3)
    dtype, vdevice = common_dtype(node, infos), common_vdevice(node, infos)
    known = {info.ndim for info in infos if info.ndim != -1}
    if len(known) > 1:
        raise fail(node, f"operands must have one number of dimensions, got {sorted(known)}")
    shapes = [info.shape_values for info in infos if info.shape_values is not None]
    for shape in shapes[1:]:
        for axis, (a, b) in enumerate(zip(shapes[0], shape, strict=True)):
            text = f"operands must have one shape, got {show_dims(shapes[0])} and {show_dims(shape)}"
            require_equal(node, a, b, f"{text}: {{}} and {{}} at dimension {axis}")
    if len(shapes) == 3:
        return TensorStructInfo(infos[0].shape, dtype, vdevice)
    return TensorStructInfo(None, dtype, vdevice, known.pop() if known else -1)


def _legalize_ewise_fma(bb: Any, node: Call) -> Expr:
    def te_ewise_fma(x: Any, y: Any, z: Any) -> Any:
        return topi_function("add")(topi_function("multiply")(x, y), z)

    return bb.call_te(te_ewise_fma, *node.args, primfunc_name_hint="ewise_fma")


@operator(
    "relax.ewise_fma",
    infer=_infer_ewise_fma,
    legalize=_legalize_ewise_fma,
    reference=lambda x, y, z: x * y + z,
    mixed_precision=MixedPrecisionPolicy.FOLLOW,
    pattern=OpPatternKind.kElemWise,
    layout=elementwise,
)
def ewise_fma(x1: Expr, x2: Expr, x3: Expr) -> Expr:
    """x1 * x2 + x3, of tensors of one shape."""
    return call("relax.ewise_fma", x1, x2, x3)


__all__ = ["ewise_fma"]

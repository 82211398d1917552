"""Changing the dtype of a tensor."""

from __future__ import annotations

from typing import Any

from ... import dtype as dt
from ...conversion import cast_array
from ..expr import Call, Constant, Expr, const
from ..struct_info import StructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, make, operator
from .gradient import of_one_operand, tensor_info
from .inference import same_as, tensor_args
from .layout_rule import elementwise
from .legalization import scalar_const, topi_function


def _infer_cast(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    return same_as(info, node.attrs["dtype"])


def _legalize_astype(bb: Any, node: Call) -> Expr:
    dtype = node.attrs["dtype"]
    value = scalar_const(node.args[0])
    if value is not node.args[0]:
        return const(value.value, dtype)
    return bb.call_te(topi_function("cast"), node.args[0], dtype, primfunc_name_hint="cast")


@operator(
    "relax.astype",
    infer=_infer_cast,
    legalize=_legalize_astype,
    reference=cast_array,
    gradient=of_one_operand(lambda x, y, g: make.astype(g, tensor_info(x).dtype)),
    mixed_precision=MixedPrecisionPolicy.FOLLOW,
    pattern=OpPatternKind.kElemWise,
    layout=elementwise,
)
def astype(x: Expr, dtype: str) -> Expr:
    """The elements converted to ``dtype``."""
    return call("relax.astype", x, attrs={"dtype": str(dtype)})


def _legalize_wrap_param(bb: Any, node: Call) -> Expr:
    data, dtype = node.args[0], node.attrs["dtype"]
    if isinstance(data, Constant):
        return const(data.data.astype(dt.to_numpy(dtype)), dtype)
    return _legalize_astype(bb, node)


@operator(
    "relax.wrap_param",
    infer=_infer_cast,
    legalize=_legalize_wrap_param,
    reference=cast_array,
    mixed_precision=MixedPrecisionPolicy.FOLLOW,
    pattern=OpPatternKind.kElemWise,
)
def wrap_param(data: Expr, dtype: str = "float32") -> Expr:
    """Mark a constant as a model parameter and convert it, for mixed precision."""
    return call("relax.wrap_param", data, attrs={"dtype": str(dtype)})


__all__ = ["astype", "wrap_param"]

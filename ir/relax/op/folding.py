"""What operators that no function of arrays computes are when the program is built: declared as ``fold``, asked by FoldConstant."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ...error import IRError
from ...expr import RelaxExpr
from ..expr import Call, Constant, ShapeExpr
from ..struct_info import StructInfo, TensorStructInfo
from ..struct_info_lattice import static_dims


class NotComputable(IRError):
    """A call has no value when the program is built: an argument is not known, or the operator has no value for it."""


class Known(Protocol):
    """What is known when the program is built."""

    def value(self, expr: RelaxExpr) -> Any:
        """An argument: an array for a tensor, a tuple for a tuple or a shape, a number or a string; raises NotComputable."""

    def result_of(self, kernel: RelaxExpr, args: RelaxExpr, info: StructInfo) -> RelaxExpr:
        """Constants of struct info ``info`` that a kernel computes of a tuple of tensors; raises NotComputable."""


def fold_kernel(node: Call, known: Known) -> RelaxExpr:
    """``call_tir``: the kernel is run; scalars behind the tensors are not known."""
    if len(node.args) > 2:
        raise NotComputable("a kernel with scalars is run with the program")
    return known.result_of(node.args[0], node.args[1], node.sinfo_args[0])


def fold_shape_of(node: Call, known: Known) -> RelaxExpr:
    """The shape that the tensor is declared to have."""
    info = node.args[0].struct_info_
    dims = static_dims(info.shape_values) if isinstance(info, TensorStructInfo) else None
    if dims is None:
        raise NotComputable("the extents are known when the program runs")
    return ShapeExpr(dims)


def fold_shape_to_tensor(node: Call, known: Known) -> RelaxExpr:
    """The extents as a constant."""
    return Constant(np.asarray(known.value(node.args[0]), "int64"))


def fold_tensor_to_shape(node: Call, known: Known) -> RelaxExpr:
    """The constant's elements as extents."""
    return ShapeExpr([int(extent) for extent in known.value(node.args[0])])

"""How an operator runs when the axes of its operands are stored in another order: what layout rules are made of.

ConvertLayout keeps, for every tensor, the permutation from its original axes to the stored ones. An operator's layout rule
gets a call in terms of the original axes and the permutations of its arguments, and says which permutations the operands
shall have, what becomes of the attributes, and which permutation the result has then:

    @operator("relax.my_softmax", layout=along_axis, ...)

An operator without a rule, and a call for which the rule answers None, gets its operands in the original order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ..expr import Call, Expr
from ..struct_info import TensorStructInfo, TupleStructInfo

Permutation = tuple[int, ...]
"""``stored = permute_dims(original, permutation)``."""


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """How a call runs on permuted operands.

    Attributes:
        operands: the permutation that each argument shall have; None leaves it as it is, a tuple has one entry per field.
            A permutation of more axes than the operand has says that it is broadcast along the last original ones.
        results: the permutation of the result, or of each field of a tuple.
        attrs: changed attributes.
    """

    operands: tuple[Any, ...]
    results: Any
    attrs: Mapping[str, Any] | None = None


Layouts = Sequence[Any]
"""The permutation of each argument, nested for tuples; ``()`` for what is no tensor."""
Desired = Sequence[str] | None
"""The named layouts that the user asks for."""
LayoutRule = Callable[[Call, Layouts, Desired], LayoutPlan | None]


def identity(ndim: int) -> Permutation:
    """The permutation that leaves all axes where they are."""
    return tuple(range(ndim))


def between(source: str, target: str) -> Permutation:
    """The permutation from one named layout to another.

    >>> between("NCHW", "NHWC")
    (0, 2, 3, 1)
    """
    if sorted(source) != sorted(target) or not target.isupper():
        raise IRValueError(
            f"ConvertLayout: cannot convert {source} to {target}; both must name the same whole axes (no inner ones as in NCHW4c)"
        )
    return tuple([source.index(letter) for letter in target])


def is_permuted(layout: Any) -> bool:
    """Whether a layout, or that of any field of a tuple, differs from the original one."""
    if layout and isinstance(layout[0], tuple):
        return any(is_permuted(item) for item in layout)
    return bool(layout) and layout != identity(len(layout))


def ndim_of(expr: Expr) -> int:
    """The number of axes of a tensor; -1 when it is not known."""
    info = expr.struct_info_
    return info.ndim if isinstance(info, TensorStructInfo) else -1


def stored_letters(name: str, layout: Permutation) -> str:
    """The name of a layout after its axes are permuted."""
    return "".join([name[axis] for axis in layout])


# ---- rules that several operators share --------------------------------------------------------------------------


def elementwise(call: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    """All tensors get the layout of the first permuted one; smaller ones are broadcast along the same axes as before."""
    tensors = [index for index, arg in enumerate(call.args) if isinstance(arg.struct_info_, TensorStructInfo)]
    if not isinstance(call.struct_info_, TensorStructInfo):
        return None
    ndim = max((ndim_of(call.args[index]) for index in tensors), default=0)
    permuted = [
        layouts[index]
        for index in tensors
        if ndim_of(call.args[index]) == ndim and is_permuted(layouts[index])
    ]
    if not permuted:
        return None
    layout = permuted[0]
    scalars = [index for index in tensors if ndim_of(call.args[index]) == 0]
    operands = [
        layout if index in tensors and index not in scalars else None for index in range(len(call.args))
    ]
    return LayoutPlan(tuple(operands), layout)


def along_axis(call: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    """The first operand keeps its layout, and the attribute ``axis`` counts in it; other operands stay."""
    layout = layouts[0]
    axis: Any = call.attrs["axis"]
    if not is_permuted(layout) or axis is None:
        return None
    rest = (None,) * (len(call.args) - 1)
    return LayoutPlan((layout, *rest), layout, {"axis": layout.index(int(axis) % len(layout))})


def without_axes(layout: Permutation, axes: Sequence[int]) -> Permutation:
    """The permutation of what is left when the original ``axes`` are dropped."""
    kept = [axis for axis in layout if axis not in axes]
    rank = {axis: position for position, axis in enumerate(sorted(kept))}
    return tuple([rank[axis] for axis in kept])


def natural(info: Any) -> Any:
    """The layout of a value whose axes were not moved."""
    if isinstance(info, TupleStructInfo):
        return tuple([natural(field) for field in info.fields])
    return identity(info.ndim) if isinstance(info, TensorStructInfo) and info.ndim >= 0 else ()

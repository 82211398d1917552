"""What operators need of extents beyond the shapes of their kernels, such as that those of both operands are equal.

Inference says each need once, through the functions of this module. What surely fails is refused at once; of what is neither
sure nor refuted LegalizeOps emits a comparison before the kernel, a ``match_cast`` of an extent and a text::

    _ = R.match_cast((R.shape([m]), R.str("relax.matmul: ... ({}) ... ({})")), R.Tuple(R.Shape([n]), R.Object))

which VMShapeLower turns into a call that compares two numbers and ends the program with the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ...op import Op
from ...tir.expr import EQ, Div, FloorDiv, FloorMod, IntImm, Mod, PrimExpr, Select
from ...tir.op import min as tir_min
from ...tir.operators import const, floordiv
from ..expr import Binding, Call, Expr, MatchCast, ShapeExpr, StringImm, Tuple
from ..struct_info import ObjectStructInfo, ShapeStructInfo, TupleStructInfo
from ..struct_info_lattice import prove_dim_equal
from ..symbolic_vars import tir_vars_in
from .inference import fail, op_name


@dataclass(frozen=True, slots=True)
class Requirement:
    """``found`` must be ``wanted``.

    Attributes:
        found, wanted: int64 expressions of the function's symbols.
        text: what is said otherwise; the first ``{}`` is the number found, the second the one wanted.
    """

    found: PrimExpr
    wanted: PrimExpr
    text: str

    @property
    def match_cast(self) -> tuple[Expr, TupleStructInfo]:
        """The value and the struct info of a binding that compares the two."""
        value = Tuple([ShapeExpr([self.found]), StringImm(self.text)])
        return value, TupleStructInfo([ShapeStructInfo([self.wanted]), ObjectStructInfo()])


def requirement_of(binding: Binding) -> Requirement | None:
    """The requirement that a binding compares, if it does."""
    if not isinstance(binding, MatchCast) or not isinstance(binding.value, Tuple):
        return None
    if [type(field) for field in binding.value.fields] != [ShapeExpr, StringImm]:
        return None
    assert isinstance(binding.struct_info, TupleStructInfo)
    shape, text = binding.value.fields
    return Requirement(shape.values[0], binding.struct_info.fields[0].values[0], text.value)  # type: ignore[attr-defined]


def divisor_requirements(extent: PrimExpr) -> list[Requirement]:
    """That what an extent divides by is not zero, for each divisor that is no constant."""
    found: list[Requirement] = []

    def visit(expr: Any) -> None:
        expr._visit_children(visit)
        if isinstance(expr, FloorDiv | FloorMod | Div | Mod) and not isinstance(expr.b, IntImm):
            is_zero = EQ(expr.b, const(0, expr.b.dtype)).astype("int64")
            text = f"the extent {expr} divides by {expr.b}, which is 0"
            found.append(Requirement(is_zero, const(0, "int64"), text))

    if extent.is_compound:
        visit(extent)
    return found


_UNPROVED: ContextVar[list[Requirement] | None] = ContextVar("_UNPROVED", default=None)
"""Where inference puts what it cannot prove; None while nobody asks."""


@contextmanager
def _collected() -> Iterator[list[Requirement]]:
    found: list[Requirement] = []
    token = _UNPROVED.set(found)
    try:
        yield found
    finally:
        _UNPROVED.reset(token)


def unproved_requirements(call: Call, builder: Any) -> list[Requirement]:
    """What the operator of a call with inferred arguments needs and only a run can tell."""
    infer = call.op.get_attr("FInferStructInfo") if isinstance(call.op, Op) else None
    if infer is None or not any(
        arg.struct_info_ is not None and tir_vars_in(arg.struct_info_) for arg in call.args
    ):
        return []
    with _collected() as found:
        infer(call, builder)
    return found


def require_equal(call: Call, found: PrimExpr, wanted: PrimExpr, text: str) -> None:
    """The operator needs two extents to be equal.

    Raises:
        IRValueError: they are not, whatever the symbols are.
    """
    if isinstance(found, IntImm) and isinstance(wanted, IntImm):
        if found.value != wanted.value:
            raise fail(call, text.format(found.value, wanted.value))
        return
    unproved = _UNPROVED.get()
    if unproved is not None and not prove_dim_equal(found, wanted):
        unproved.append(Requirement(_wide(found), _wide(wanted), f"{op_name(call)}: {text}"))


def require_broadcast(call: Call, found: PrimExpr, wanted: PrimExpr, text: str) -> None:
    """The operator repeats an operand along an axis: its extent must be 1 or the wanted one."""
    if not isinstance(found, IntImm):
        one = const(1, found.dtype)
        wanted = wanted if prove_dim_equal(found, wanted) else Select(EQ(found, one), one, _wide(wanted))
    elif found.value == 1:
        return
    require_equal(call, found, wanted, text)


def require_broadcast_shape(
    call: Call, found: Sequence[PrimExpr], wanted: Sequence[PrimExpr], text: str
) -> None:
    """:func:`require_broadcast` along every axis; the text is completed."""
    if len(found) > len(wanted):
        raise fail(call, text)
    lead = len(wanted) - len(found)
    for axis, extent in enumerate(found):
        where = f"{text}: the extent {{}} at dimension {axis} must be 1 or {{}}"
        require_broadcast(call, extent, wanted[lead + axis], where)


def require_at_most(call: Call, found: PrimExpr, limit: PrimExpr, text: str) -> None:
    """The operator takes so many elements of an axis: they must be there."""
    require_equal(call, found, limit if prove_dim_equal(found, limit) else tir_min(found, limit), text)


def require_multiple(call: Call, found: PrimExpr, factor: int, text: str) -> None:
    """The operator cuts an axis into parts of one extent; of the text only the number found is a part."""
    if factor != 1:
        size = const(factor, found.dtype)
        require_equal(call, found, floordiv(found, size) * size, text)


def _wide(extent: PrimExpr) -> PrimExpr:
    return extent if extent.dtype == "int64" else extent.astype("int64")

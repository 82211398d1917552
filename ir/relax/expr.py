"""The vocabulary of Relax expressions: variables, constants, calls, tuples, control flow, bindings and blocks.

All expressions are immutable. What inference finds out about one (its struct info) is a cached result: leaf
expressions and those whose parts are known get it on construction, the others when the block builder normalizes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeGuard

import numpy as np

from .. import dtype as dt
from ..attrs import DictAttrs, as_attrs
from ..conversion import as_array, constant_array
from ..error import IRTypeError, IRValueError
from ..expr import GlobalVar, RelaxExpr
from ..node import Node, field
from ..op import Op, as_op
from ..span import Span
from ..tir.expr import FloatImm, IntImm, PrimExpr
from .python_operators import RefusedOperators
from .struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    as_dims,
)

Expr = RelaxExpr

set_struct_info = RelaxExpr.struct_info_.__set__
set_span = RelaxExpr.span.__set__  # type: ignore[union-attr, attr-defined]


def update_struct_info(expr: RelaxExpr, struct_info: StructInfo | None) -> None:
    """Record what inference found out about an expression; once, and again only with an equal result.

    Raises:
        IRValueError: the expression has another struct info already.
    """
    old = expr.struct_info_
    if old is struct_info:
        return
    if old is not None and not isinstance(expr, GlobalVar) and old != struct_info:
        raise IRValueError(
            f"{type(expr).__name__} has struct info {old} already; build a new expression to give it {struct_info}"
        )
    set_struct_info(expr, struct_info)


operators: Any = None
"""The package :mod:`ir.relax.op`: it is built on these nodes, and registers itself here for Python's operators on them."""


class ExprWithOp(RefusedOperators, RelaxExpr):
    """Expressions with Python's operators: arithmetic builds Relax operators, ``[]`` reads a tuple, ``()`` calls."""

    def _binary(self, name: str, other: Any, swapped: bool = False) -> Any:
        if not isinstance(other, RelaxExpr):
            if not isinstance(other, int | float | np.generic | np.ndarray):
                raise IRTypeError(
                    f"{name}: expected a Relax expression or a number, got {type(other).__name__}"
                )
            if not isinstance(self.struct_info_, TensorStructInfo):  # else the operator makes it a constant
                other = const(other, getattr(self.struct_info_, "dtype", None) or None)
        make = getattr(operators, name)
        return make(other, self) if swapped else make(self, other)

    def astype(self, dtype: str) -> Any:
        """The tensor converted to ``dtype``."""
        return operators.astype(self, dtype)

    def __neg__(self) -> Any:
        return operators.negative(self)

    def __lt__(self, other: Any) -> Call:
        return self._binary("less", other)

    def __gt__(self, other: Any) -> Call:
        return self._binary("greater", other)

    def __le__(self, other: Any) -> Call:
        return self._binary("less_equal", other)

    def __ge__(self, other: Any) -> Call:
        return self._binary("greater_equal", other)

    def __add__(self, other: Any) -> Call:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Call:
        return self._binary("add", other, swapped=True)

    def __sub__(self, other: Any) -> Call:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Call:
        return self._binary("subtract", other, swapped=True)

    def __mul__(self, other: Any) -> Call:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Call:
        return self._binary("multiply", other, swapped=True)

    def __truediv__(self, other: Any) -> Call:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Call:
        return self._binary("divide", other, swapped=True)

    def __floordiv__(self, other: Any) -> Call:
        return self._binary("floor_divide", other)

    def __rfloordiv__(self, other: Any) -> Call:
        return self._binary("floor_divide", other, swapped=True)

    def __mod__(self, other: Any) -> Call:
        return self._binary("floor_mod", other)

    def __rmod__(self, other: Any) -> Call:
        return self._binary("floor_mod", other, swapped=True)

    def __pow__(self, other: Any) -> Call:
        return self._binary("power", other)

    def __rpow__(self, other: Any) -> Call:
        return self._binary("power", other, swapped=True)

    def __call__(self, *args: Any, attrs: Mapping[str, Any] | None = None) -> Call:
        return Call(self, args, attrs)

    def __getitem__(self, index: int) -> RelaxExpr:
        """The field of a tuple; IndexError past the end, so that a tuple can be unpacked."""
        info = self.struct_info_
        if info is not None and not isinstance(info, TupleStructInfo | ObjectStructInfo):
            raise IRTypeError(
                f"only tuples can be indexed, this is {info}; index tensors with take or strided_slice"
            )
        if isinstance(info, TupleStructInfo):
            if not -len(info.fields) <= index < len(info.fields):
                raise IndexError(f"tuple index {index} out of range: the tuple has {len(info.fields)} fields")
            index %= len(info.fields)
        return TupleGetItem(self, index)

    def __iter__(self) -> Iterator[RelaxExpr]:
        """The fields of a tuple; raises IRTypeError where nobody knows how many there are."""
        info = self.struct_info_
        if not isinstance(info, TupleStructInfo):
            raise IRTypeError(f"only tuples whose fields are known can be unpacked, this is {info}")
        return iter([self[index] for index in range(len(info.fields))])


def convert_to_expr(value: Any) -> RelaxExpr:
    """What an operator's argument stands for: numbers and TIR expressions become PrimValue, str StringImm, tuples Tuple.

    A list of integers and TIR expressions becomes a ShapeExpr.
    """
    if isinstance(value, RelaxExpr):
        return value
    if isinstance(value, bool | int | float | PrimExpr | np.integer | np.floating):
        return PrimValue(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, list | tuple):
        if value and isinstance(value, list) and all(isinstance(item, int | PrimExpr) for item in value):
            return ShapeExpr(value)
        return Tuple([convert_to_expr(item) for item in value])
    advice = "; write R.const(array)" if isinstance(value, np.ndarray) else ""
    raise IRTypeError(f"cannot use a {type(value).__name__} as a Relax expression: {value!r}{advice}")


def _exprs(values: Any) -> tuple[RelaxExpr, ...]:
    if isinstance(values, RelaxExpr):
        return (values,)
    return tuple([item if isinstance(item, RelaxExpr) else convert_to_expr(item) for item in values])


class Id(Node, type_key="relax.Id"):
    """The identity of a variable: variables that differ in struct info only may share it."""

    name_hint: str = field(compare=False)

    is_variable: ClassVar[bool] = True


class Var(ExprWithOp, type_key="relax.expr.Var"):
    """A variable; ``name_hint`` is a name or an :class:`Id`."""

    vid: Id = field(compare=False)
    struct_info_: Any = field(default=None, compare=True, kind="leaf")

    is_variable: ClassVar[bool] = True
    _is_leaf: ClassVar[bool] = True

    def __init__(
        self, name_hint: str | Id, struct_info: StructInfo | None = None, span: Span | None = None
    ) -> None:
        if struct_info is not None and not isinstance(struct_info, StructInfo):
            raise IRTypeError(
                f"variable {name_hint}: expected a StructInfo, got {type(struct_info).__name__}"
            )
        _set_vid(self, Id(name_hint) if isinstance(name_hint, str) else name_hint)
        set_struct_info(self, struct_info)
        set_span(self, span)

    @property
    def name_hint(self) -> str:
        """The name to print it by."""
        return self.vid.name_hint

    def replace(self, **changes: Any) -> Any:
        """A copy with ``vid``, ``name_hint``, ``struct_info_`` or ``span`` changed."""
        name = changes.get("vid", changes.get("name_hint", self.vid))
        return type(self)(
            name, changes.get("struct_info_", self.struct_info_), changes.get("span", self.span)
        )

    @classmethod
    def _from_json(cls, values: dict[str, Any]) -> Var:
        return cls(values["vid"], values.get("struct_info_"))

    def _visit_children(self, f: Callable[[Any], Any]) -> None:
        """The identity is no part of the program that a walk is to see."""

    def _map_children(self, f: Callable[[Any], Any]) -> Var:
        return self


_set_vid = Var.vid.__set__  # type: ignore[attr-defined]


class DataflowVar(Var, type_key="relax.expr.DataflowVar"):
    """A variable that is visible only inside the dataflow block that binds it."""

    _is_leaf: ClassVar[bool] = True
    _visit_children = Var._visit_children
    _map_children = Var._map_children


class Constant(ExprWithOp, type_key="relax.expr.Constant"):
    """A tensor with known contents; ``data`` is a read-only numpy array, C-contiguous and of native byte order."""

    data: np.ndarray = field(convert=constant_array, kind="leaf")

    def _check(self) -> None:
        if self.struct_info_ is None:
            set_struct_info(self, TensorStructInfo(self.data.shape, dt.from_numpy(self.data.dtype)))


def const(value: Any, dtype: str | None = None) -> Constant:
    """A constant tensor of a number, nested lists or an array.

    Without ``dtype``, 64-bit integers and floats become 32-bit ones, as literals in models are meant.

    Raises:
        IRValueError: without ``dtype``, a number is beyond those of 32 bits.
    """
    if isinstance(value, Constant):
        return value
    array = as_array(value)
    if array.dtype.kind in "OSU":
        raise IRTypeError(f"relax.const: {value!r} is no number and no array of numbers")
    if dtype is not None:
        wanted: Any = dt.to_numpy(dtype)
    else:
        wanted = {"int64": np.dtype("int32"), "float64": np.dtype("float32")}.get(
            array.dtype.name, array.dtype
        )
    if array.dtype == wanted:
        return Constant(array)
    with np.errstate(over="ignore"):
        found = array.astype(wanted)
    if dtype is None:
        lost = found != array if found.dtype.kind == "i" else np.isinf(found) & np.isfinite(array)
        if lost.any():
            raise IRValueError(
                f"relax.const: {array[lost][0]} does not fit {wanted.name}, to which {array.dtype.name} numbers are made where no"
                f" dtype is given; say dtype={array.dtype.name!r}"
            )
    return Constant(found)


class ShapeExpr(ExprWithOp, type_key="relax.expr.ShapeExpr"):
    """A shape: a tuple of int64 expressions."""

    values: tuple[PrimExpr, ...] = field(convert=as_dims)

    def _check(self) -> None:
        if self.struct_info_ is None:
            set_struct_info(self, ShapeStructInfo(self.values))

    def _rebuild(self, values: Any, struct_info_: Any, span: Any) -> ShapeExpr:
        return ShapeExpr(values, None, span)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Any:
        return iter(self.values)


def make_shape(shape: Any) -> ShapeExpr:
    """A ShapeExpr of a list or tuple of extents."""
    if isinstance(shape, list | tuple):
        return ShapeExpr(shape)
    raise IRTypeError(f"a shape is a list or tuple of extents, got {type(shape).__name__}")


def _prim_value(value: Any) -> PrimExpr:
    if value.__class__ is int:
        return IntImm("int64", value)
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, bool | np.bool_):
        return IntImm("bool", bool(value))
    if isinstance(value, int | np.integer):
        return IntImm("int64", int(value))
    if isinstance(value, float | np.floating):
        return FloatImm("float64", float(value))
    raise IRTypeError(f"PrimValue takes a number or a TIR expression, got {type(value).__name__}")


class PrimValue(RefusedOperators, RelaxExpr, type_key="relax.expr.PrimValue"):
    """A scalar of TIR as a Relax value; Python integers become int64."""

    value: PrimExpr = field(convert=_prim_value)

    def _check(self) -> None:
        if self.struct_info_ is None:
            set_struct_info(self, PrimStructInfo(value=self.value))

    def _rebuild(self, value: Any, struct_info_: Any, span: Any) -> PrimValue:
        return PrimValue(value, None, span)


def prim_value(value: Any) -> PrimValue:
    """A PrimValue of a number or TIR expression."""
    return PrimValue(value)


class StringImm(RelaxExpr, type_key="relax.expr.StringImm"):
    """A string as an argument."""

    value: str

    def _check(self) -> None:
        if self.struct_info_ is None:
            set_struct_info(self, ObjectStructInfo())


class DataTypeImm(RelaxExpr, type_key="relax.expr.DataTypeImm"):
    """A dtype as an argument."""

    value: str

    def _check(self) -> None:
        dt.parse(self.value)
        if self.struct_info_ is None:
            set_struct_info(self, ObjectStructInfo())


class Tuple(ExprWithOp, type_key="relax.expr.Tuple"):
    """A tuple of values."""

    fields: tuple[RelaxExpr, ...] = field(convert=_exprs)

    def _check(self) -> None:
        if self.struct_info_ is None:
            infos = [item.struct_info_ for item in self.fields]
            if all(info is not None for info in infos):
                set_struct_info(self, TupleStructInfo(infos))

    def _rebuild(self, fields: Any, struct_info_: Any, span: Any) -> Tuple:
        return Tuple(fields, None, span)

    def replace(self, **changes: Any) -> Any:
        """A copy with other fields; its struct info is that of the new ones."""
        return super().replace(**dropping_struct_info(self, changes))

    def __getitem__(self, index: int) -> RelaxExpr:
        if not -len(self.fields) <= index < len(self.fields):
            raise IndexError(f"tuple index {index} out of range: the tuple has {len(self.fields)} fields")
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)


def dropping_struct_info(node: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """Changes to a node whose struct info follows from its other fields: changed fields ask for new inference."""
    if "struct_info_" in changes or all(getattr(node, name) is value for name, value in changes.items()):
        return changes
    if changes.keys() == {"span"}:
        return changes
    return {**changes, "struct_info_": None}


class TupleGetItem(ExprWithOp, type_key="relax.expr.TupleGetItem"):
    """The field number ``index`` of a tuple."""

    tuple_value: RelaxExpr = field(convert=convert_to_expr)
    index: int = field(convert=int)

    def _check(self) -> None:
        info = self.tuple_value.struct_info_
        if isinstance(info, TupleStructInfo):
            if not 0 <= self.index < len(info.fields):
                raise IRValueError(
                    f"tuple index {self.index} out of range: the tuple has {len(info.fields)} fields"
                )
            if self.struct_info_ is None:
                set_struct_info(self, info.fields[self.index])

    def _rebuild(self, tuple_value: Any, index: int, struct_info_: Any, span: Any) -> TupleGetItem:
        return TupleGetItem(tuple_value, index, None, span)

    def replace(self, **changes: Any) -> Any:
        """A copy with some fields changed."""
        return super().replace(**dropping_struct_info(self, changes))


def _sinfos(values: Any) -> tuple[StructInfo, ...]:
    if values is None:
        return ()
    return (values,) if isinstance(values, StructInfo) else tuple(values)


class Call(ExprWithOp, type_key="relax.expr.Call"):
    """A call of an operator, a function of the module, an external function or a function value.

    ``sinfo_args`` are struct infos that the callee takes as arguments (such as the output's of ``call_tir``).
    """

    op: RelaxExpr = field(convert=as_op)
    args: tuple[RelaxExpr, ...] = field(convert=_exprs)
    attrs: DictAttrs = field(default=None, convert=as_attrs)
    sinfo_args: tuple[StructInfo, ...] = field(default=None, convert=_sinfos)

    def __init__(
        self,
        op: Any,
        args: Any,
        attrs: Any = None,
        sinfo_args: Any = None,
        span: Span | None = None,
        struct_info_: StructInfo | None = None,
    ) -> None:
        _set_op(self, as_op(op))
        _set_args(self, _exprs(args))
        _set_attrs(self, as_attrs(attrs))
        _set_sinfo_args(self, _sinfos(sinfo_args))
        set_struct_info(self, struct_info_)
        set_span(self, span)

    def _rebuild(self, op: Any, args: Any, attrs: Any, sinfo_args: Any, struct_info_: Any, span: Any) -> Call:
        """The inferred struct info is kept when the new callee and arguments look the same to inference."""
        same = (
            attrs is self.attrs
            and sinfo_args is self.sinfo_args
            and len(args) == len(self.args)
            and _look_the_same(self.op, op)
            and all(map(_look_the_same, self.args, args))
        )
        kept = struct_info_ if same else None
        return Call(op, args, attrs, sinfo_args, span, kept)

    def replace(self, **changes: Any) -> Any:
        """A copy with some fields changed; its struct info is to be inferred again."""
        return super().replace(**dropping_struct_info(self, changes))

    def with_args(self, args: Sequence[Any]) -> Call:
        """The call with other arguments; normalization infers what it returns again. The same object for the same arguments.

        Attributes, struct info arguments and span stay, here and in :meth:`replace`, which also keeps a known struct info:
        ``call.replace(args=args, struct_info_=call.struct_info_)``.
        """
        if len(args) == len(self.args) and all(new is old for new, old in zip(args, self.args, strict=True)):
            return self
        return Call(self.op, args, self.attrs, self.sinfo_args, self.span)


_set_op = Call.op.__set__  # type: ignore[attr-defined]
_set_args = Call.args.__set__  # type: ignore[attr-defined]
_set_attrs = Call.attrs.__set__  # type: ignore[attr-defined]
_set_sinfo_args = Call.sinfo_args.__set__  # type: ignore[attr-defined]

_LITERALS = (ShapeExpr, PrimValue, StringImm, DataTypeImm, Constant)
"""Arguments whose value, not only their struct info, may decide what an operator returns."""


def _look_the_same(old: RelaxExpr, new: RelaxExpr) -> bool:
    """Whether inference cannot tell one argument from the other; tuples are seen through."""
    if old is new:
        return True
    if isinstance(new, Tuple):
        return (
            isinstance(old, Tuple)
            and len(old.fields) == len(new.fields)
            and all(map(_look_the_same, old.fields, new.fields))
        )
    info = old.struct_info_
    if info is None or isinstance(new, _LITERALS):
        return False
    return info is new.struct_info_ or bool(info == new.struct_info_)


def is_call_to(value: Any, *names: str) -> TypeGuard[Call]:
    """Whether ``value`` is a call of one of the operators (``"relax.call_tir"``)."""
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name in names


def as_seq(body: Any) -> SeqExpr:
    body = convert_to_expr(body)
    return body if isinstance(body, SeqExpr) else SeqExpr((), body)


class If(ExprWithOp, type_key="relax.expr.If"):
    """One of two branches, chosen by a scalar bool tensor (or value) when the program runs."""

    cond: RelaxExpr
    true_branch: SeqExpr = field(convert=as_seq)
    false_branch: SeqExpr = field(convert=as_seq)

    def replace(self, **changes: Any) -> Any:
        """A copy with some fields changed; its struct info is to be inferred again."""
        return super().replace(**dropping_struct_info(self, changes))

    def _rebuild(self, cond: Any, true_branch: Any, false_branch: Any, struct_info_: Any, span: Any) -> If:
        return If(cond, true_branch, false_branch, None, span)


class Binding(Node):
    """Base of the bindings: ``var`` stands for ``value`` from here on."""

    var: Var = field(defines=True)  # before the value, for a local function may call itself
    value: RelaxExpr = field(convert=convert_to_expr)
    span: Span | None = field(default=None, compare=False, kind="leaf")


class MatchCast(Binding, type_key="relax.expr.MatchCast"):
    """Check at run time that ``value`` has ``struct_info``, which may define new symbolic shape variables."""

    struct_info: StructInfo = field(defines=True)


class VarBinding(Binding, type_key="relax.expr.VarBinding"):
    """``var = value``."""


class BindingBlock(Node, type_key="relax.expr.BindingBlock"):
    """A sequence of bindings."""

    bindings: tuple[Binding, ...]
    span: Span | None = field(default=None, compare=False, kind="leaf")


class DataflowBlock(BindingBlock, type_key="relax.expr.DataflowBlock"):
    """A sequence of pure bindings without control flow, which passes may reorder."""


class SeqExpr(ExprWithOp, type_key="relax.expr.SeqExpr"):
    """Blocks of bindings, then the value ``body``."""

    blocks: tuple[BindingBlock, ...]
    body: RelaxExpr = field(convert=convert_to_expr)

    def replace(self, **changes: Any) -> Any:
        """A copy with some fields changed; its struct info is to be inferred again."""
        return super().replace(**dropping_struct_info(self, changes))

    def _rebuild(self, blocks: Any, body: Any, struct_info_: Any, span: Any) -> SeqExpr:
        return SeqExpr(blocks, body, struct_info_ if body is self.body else None, span)


def get_shape_of(expr: RelaxExpr) -> RelaxExpr:
    """The shape of a tensor: as a ShapeExpr or variable when it is known, else a call of ``relax.shape_of``."""
    info = expr.struct_info
    if not isinstance(info, TensorStructInfo):
        raise IRTypeError(f"get_shape_of needs a tensor, got {info}")
    if info.shape is not None:
        return info.shape
    return operators.shape_of(expr)


def known_shape(info: TensorStructInfo) -> ShapeExpr | None:
    """The shape of a tensor as a ShapeExpr when its extents are known."""
    if isinstance(info.shape, ShapeExpr):
        return info.shape
    values = info.shape_values
    return None if values is None else ShapeExpr(values)

"""Struct info: what is known at compile time of a Relax value's kind, dtype, shape and device.

Struct infos form a lattice with :class:`ObjectStructInfo` on top. They compare by structure (``==``), where symbolic
shape variables are compared by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .. import dtype as dt
from ..error import IRTypeError, IRValueError
from ..expr import RelaxExpr
from ..external import external
from ..global_info import VDevice
from ..node import Node, field
from ..span import Span
from ..structural import structural_equal, structural_hash
from ..tir.expr import FloatImm, IntImm, PrimExpr, Var
from ..tir.function import PrimFunc
from ..type import TupleType


class StructInfo(Node):
    """Base of the struct infos."""

    span: Span | None = field(default=None, compare=False, kind="leaf")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, StructInfo):
            return False
        return structural_equal(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return structural_hash(self)

    def is_base_of(self, derived: StructInfo) -> bool:
        """Whether every value that ``derived`` describes is described by this one too."""
        return bool(external("is_base_of")(self, derived))


def as_dim(value: Any) -> PrimExpr:
    """An extent of a shape as an int64 expression; raises IRTypeError for anything that is not an integer."""
    if isinstance(value, IntImm):
        return value if value.dtype == "int64" else IntImm("int64", value.value)
    if isinstance(value, PrimExpr):
        if value.dtype == "int64":
            return value
        if dt.is_integral(value.dtype) and not isinstance(value, Var):
            return value.astype("int64")
        raise IRTypeError(
            f"a dimension of a shape must be an int64 expression, got {value} of dtype {value.dtype}"
        )
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise IRTypeError(f"a dimension of a shape must be an integer or an int64 expression, got {value!r}")
    return IntImm("int64", value.__index__())


def as_dims(values: Any) -> tuple[PrimExpr, ...]:
    """The extents of a shape as int64 expressions."""
    return tuple([as_dim(value) for value in values])


def _require_struct_info(what: str, value: Any) -> None:
    if not isinstance(value, StructInfo):
        raise IRTypeError(f"{what} must be a StructInfo, got {type(value).__name__}")


class ObjectStructInfo(StructInfo, type_key="relax.ObjectStructInfo"):
    """Any value."""


class PrimStructInfo(StructInfo, type_key="relax.PrimStructInfo"):
    """A scalar of a dtype, perhaps with a known value: ``PrimStructInfo("int64")`` or ``PrimStructInfo(value=n + 1)``."""

    dtype: str = field(default=None)
    value: PrimExpr | None = field(default=None)

    def __init__(self, dtype: str | None = None, value: Any = None, span: Span | None = None) -> None:
        if isinstance(dtype, PrimExpr):
            dtype, value = None, dtype
        if isinstance(value, bool):
            value = IntImm("bool", value)
        elif isinstance(value, int):
            value = IntImm(dtype or "int64", value)
        elif isinstance(value, float):
            value = FloatImm(dtype or "float64", value)
        if value is not None:
            if dtype is not None and dtype != value.dtype:
                raise IRTypeError(
                    f"PrimStructInfo: dtype {dtype!r} does not match the value {value} of dtype {value.dtype!r}"
                )
            dtype = value.dtype
        if dtype is None:
            raise IRTypeError("PrimStructInfo needs a dtype or a value")
        _set_prim_dtype(self, dt.checked(dtype))
        _set_prim_value(self, value)
        _set_span(self, span)


_set_span = StructInfo.span.__set__  # type: ignore[union-attr, attr-defined]
_set_prim_dtype = PrimStructInfo.dtype.__set__  # type: ignore[attr-defined]
_set_prim_value = PrimStructInfo.value.__set__  # type: ignore[union-attr, attr-defined]


class ShapeStructInfo(StructInfo, type_key="relax.ShapeStructInfo"):
    """A shape value: with known extents, with a known number of dimensions (``ndim``), or neither (``ndim == -1``)."""

    values: Any = field(default=None, kind="leaf")
    ndim: int = field(default=-1)

    def __init__(self, values: Sequence[Any] | None = None, ndim: int = -1, span: Span | None = None) -> None:
        if values is not None:
            values = as_dims(values)
            if ndim not in (-1, len(values)):
                raise IRValueError(f"ShapeStructInfo: ndim={ndim} contradicts the {len(values)} given values")
            ndim = len(values)
        _set_shape_values(self, values)
        _set_shape_ndim(self, ndim)
        _set_span(self, span)

    def _visit_children(self, f: Callable[[Any], Any]) -> None:
        for value in self.values or ():
            f(value)

    def _map_children(self, f: Callable[[Any], Any]) -> ShapeStructInfo:
        if self.values is None:
            return self
        values = tuple([f(value) for value in self.values])
        if all(new is old for new, old in zip(values, self.values, strict=True)):
            return self
        return ShapeStructInfo(values, span=self.span)


_set_shape_values = ShapeStructInfo.values.__set__
_set_shape_ndim = ShapeStructInfo.ndim.__set__  # type: ignore[attr-defined]


class TensorStructInfo(StructInfo, type_key="relax.TensorStructInfo"):
    """A tensor. ``shape`` is a sequence of extents, a ShapeExpr, a Relax variable holding a shape, or None (unknown).

    ``dtype`` is "" when unknown; ``ndim`` is -1 when unknown and follows from the shape otherwise.
    """

    shape: Any = field(default=None, kind="node")
    dtype: str = field(default="float32")
    vdevice: VDevice | None = field(default=None)
    ndim: int = field(default=-1)

    def __init__(
        self,
        shape: Any = None,
        dtype: str | None = "float32",
        vdevice: VDevice | str | None = None,
        ndim: int = -1,
        span: Span | None = None,
    ) -> None:
        dtype = "" if dtype is None or dtype == "void" else dtype
        if dtype:
            dt.parse(dtype)
        if shape is not None:
            shape, known = _as_shape(shape)
            if known != -1:
                if ndim not in (-1, known):
                    raise IRValueError(
                        f"TensorStructInfo: ndim={ndim} contradicts the {known}-dimensional shape {shape}"
                    )
                ndim = known
        if isinstance(vdevice, str):
            vdevice = VDevice(vdevice)
        _set_shape(self, shape)
        _set_dtype(self, dtype)
        _set_vdevice(self, vdevice)
        _set_ndim(self, ndim)
        _set_span(self, span)

    def _rebuild(
        self, shape: Any, dtype: str, vdevice: VDevice | None, ndim: int, span: Span | None
    ) -> TensorStructInfo:
        return TensorStructInfo(shape, dtype, vdevice, ndim, span)

    @property
    def shape_values(self) -> tuple[PrimExpr, ...] | None:
        """The extents when they are known, also through a variable's struct info; else None."""
        if self.shape is None:
            return None
        return self.shape.struct_info.values


def _as_shape(shape: Any) -> tuple[Any, int]:
    shape_expr = external("ShapeExpr")
    if isinstance(shape, shape_expr):
        return shape, len(shape.values)
    if isinstance(shape, RelaxExpr):
        info = shape.struct_info_
        if info is None:
            return shape, -1
        if not isinstance(info, ShapeStructInfo):
            raise IRTypeError(
                f"the shape of a TensorStructInfo must be a shape, got {shape} of {type(info).__name__}"
            )
        return shape, info.ndim
    built = shape_expr(shape)
    return built, len(built.values)


_set_shape = TensorStructInfo.shape.__set__
_set_dtype = TensorStructInfo.dtype.__set__  # type: ignore[attr-defined]
_set_vdevice = TensorStructInfo.vdevice.__set__  # type: ignore[union-attr, attr-defined]
_set_ndim = TensorStructInfo.ndim.__set__  # type: ignore[attr-defined]


class TupleStructInfo(StructInfo, type_key="relax.TupleStructInfo"):
    """A tuple of values."""

    fields: tuple[StructInfo, ...]

    def _check(self) -> None:
        for item in self.fields:
            _require_struct_info("a field of TupleStructInfo", item)


class FuncStructInfo(StructInfo, type_key="relax.FuncStructInfo"):
    """A function: parameters' struct infos (None when opaque), the result's, and whether calls are pure.

    ``derive_func`` names (or is) a function ``(call, block_builder) -> StructInfo`` that derives the result of a call of an
    opaque function.
    """

    params: Any = field(default=None, kind="leaf", defines=True)
    ret: StructInfo = field(default=None)
    purity: bool = field(default=True)
    derive_func: Any = field(default=None, kind="leaf")

    _compare_order: ClassVar[tuple[str, ...]] = ("params", "ret", "purity", "derive_func")

    def __init__(
        self,
        params: Sequence[StructInfo] | None = None,
        ret: StructInfo | None = None,
        purity: bool = True,
        span: Span | None = None,
        derive_func: Any = None,
    ) -> None:
        params = None if params is None else tuple(params)
        ret = ObjectStructInfo() if ret is None else ret
        for item in (*(params or ()), ret):
            _require_struct_info("a parameter or result of FuncStructInfo", item)
        _set_params(self, params)
        _set_ret(self, ret)
        _set_purity(self, bool(purity))
        _set_derive(self, derive_func)
        _set_span(self, span)

    @staticmethod
    def opaque_func(
        *,
        ret: StructInfo | None = None,
        derive_func: str | Callable[..., StructInfo] | None = None,
        purity: bool = False,
        span: Span | None = None,
    ) -> FuncStructInfo:
        """A function that takes anything; ``ret`` (default: any value) or ``derive_func`` tells the result of a call."""
        if ret is not None and derive_func is not None:
            raise IRValueError("FuncStructInfo.opaque_func takes ret or derive_func, not both")
        return FuncStructInfo(None, ret, purity, span, derive_func)

    def is_opaque(self) -> bool:
        """Whether nothing is known of the parameters."""
        return self.params is None

    def _visit_children(self, f: Callable[[Any], Any]) -> None:
        for param in self.params or ():
            f(param)
        f(self.ret)

    def _map_children(self, f: Callable[[Any], Any]) -> FuncStructInfo:
        params = None if self.params is None else tuple([f(param) for param in self.params])
        ret = f(self.ret)
        if ret is self.ret and (
            params is None or all(new is old for new, old in zip(params, self.params, strict=True))
        ):
            return self
        return FuncStructInfo(params, ret, self.purity, self.span, self.derive_func)


_set_params = FuncStructInfo.params.__set__
_set_ret = FuncStructInfo.ret.__set__  # type: ignore[attr-defined]
_set_purity = FuncStructInfo.purity.__set__  # type: ignore[attr-defined]
_set_derive = FuncStructInfo.derive_func.__set__


def kernel_struct_info(func: PrimFunc) -> FuncStructInfo:
    """A kernel as a Relax function sees it: tensors for buffers, scalars, objects for other handles."""
    infos: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            infos.append(TensorStructInfo([extent.astype("int64") for extent in buffer.shape], buffer.dtype))
        else:
            infos.append(ObjectStructInfo() if param.dtype == "handle" else PrimStructInfo(param.dtype))
    ret: Any = (
        TupleStructInfo(())
        if _returns_nothing(func)
        else PrimStructInfo(getattr(func.ret_type, "dtype", "handle"))
    )
    return FuncStructInfo(infos, ret, func.is_pure())


def callee_struct_info(func: Any) -> StructInfo | None:
    """What a reference to a function says of it.

    A PrimFunc that returns a number is known by its signature, and is pure if it does nothing else; any other is an opaque function
    that writes into its arguments.
    """
    if func.struct_info_ is not None or not isinstance(func, PrimFunc):
        return func.struct_info_
    if _returns_nothing(func):
        return FuncStructInfo.opaque_func(ret=TupleStructInfo(()))
    return kernel_struct_info(func)


def _returns_nothing(func: PrimFunc) -> bool:
    return isinstance(func.ret_type, TupleType) and not func.ret_type.fields

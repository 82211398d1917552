"""Buffers: multi-dimensional arrays in some memory scope, the things that TIR programs read and write."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import add, mul
from typing import Any, ClassVar

from .. import dtype as dt
from ..error import IRTypeError, IRValueError
from ..external import external
from ..node import Node, field
from ..span import Span
from ..type import PointerType, PrimType
from .expr import BufferLoad, Call, IntImm, PrimExpr, Ramp, Range, Var, as_exprs, as_optional_expr
from .operators import cast, const, convert, match_dtypes
from .operators import max as max_of


def _offset(value: Any) -> PrimExpr | None:
    """An offset of zero is no offset."""
    found = as_optional_expr(value)
    return None if isinstance(found, IntImm) and found.value == 0 else found


def exactly(operation: Callable[[Any, Any], Any], a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """A sum or product of index arithmetic: of constants whose result int32 does not hold, as int64."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        value, (low, high) = operation(a.value, b.value), dt.integer_range("int32")
        if not low <= value <= high:
            return const(value, "int64")
    return operation(a, b)  # type: ignore[no-any-return]


def number_of_elements(*extents: PrimExpr) -> PrimExpr:
    """The product of extents; of int32 numbers whose product int32 does not hold, as int64."""
    total: PrimExpr = extents[0] if extents else const(1)
    for extent in extents[1:]:
        total = exactly(mul, total, extent)
    return total


def check_extents(extents: Sequence[PrimExpr], what: str) -> None:
    """Raise for an extent that is no integer (IRTypeError), or a constant below 0 (IRValueError), of what the message names."""
    for axis, extent in enumerate(extents):
        shown = getattr(extent, "value", extent)
        if not dt.is_integral(extent.dtype) or dt.is_bool(extent.dtype) or dt.lanes(extent.dtype) != 1:
            raise IRTypeError(
                f"extent {axis} of {what} is {shown!r}, of dtype {extent.dtype}; expected an integer of at least 0"
            )
        if isinstance(extent, IntImm) and extent.value < 0:
            raise IRValueError(f"extent {axis} of {what} is {shown}; expected an integer of at least 0")


def check_size(extents: Sequence[PrimExpr], dtype: str, what: str) -> None:
    """Raise IRValueError for more elements, or more bytes, than an index can tell apart, as far as extents are known."""
    known = [item.value for item in extents if isinstance(item, IntImm)]
    if any(count < 0 for count in known):
        return
    elements = math.prod(known)
    for count, unit in ((elements, "elements"), (elements * dt.bits(dtype) * dt.lanes(dtype) // 8, "bytes")):
        if count >= 1 << 63:
            raise IRValueError(f"{what} of shape {known} and dtype {dtype} has more {unit} than int64 counts")


class Buffer(Node, type_key="tir.Buffer"):
    """A typed array: data pointer, shape, optional strides (empty means row-major), and where it lives.

    Buffers are compared by identity; :func:`decl_buffer` makes one with sensible defaults.
    """

    data: Var = field(defines=True)
    dtype: str
    shape: tuple[PrimExpr, ...] = field(convert=as_exprs)
    strides: tuple[PrimExpr, ...] = field(default=(), convert=lambda values: as_exprs(values or ()))
    elem_offset: PrimExpr = field(default=None, convert=_offset, defines=True)
    name: str = field(default="buffer", compare=False)
    data_alignment: int = field(default=64)
    offset_factor: int = field(default=1)
    buffer_type: str = field(default="", convert=lambda kind: "" if kind == "default" else kind)
    """``"auto_broadcast"`` lets extents of 1 stand for any extent; "" is a plain buffer."""
    axis_separators: tuple[PrimExpr, ...] = field(default=(), convert=lambda values: as_exprs(values or ()))
    span: Span | None = field(default=None, compare=False, kind="leaf")

    is_variable: ClassVar[bool] = True
    compared_by_content: ClassVar[bool] = True

    def _check(self) -> None:
        what = f"buffer {self.name}" if self.name else "the buffer"  # scripts name it later
        check_extents(self.shape, what)
        check_size(self.shape, self.dtype, what)

    def scope(self) -> str:
        """The storage scope: ``global``, ``shared``, ``local``, ..."""
        annotation = self.data.type_annotation
        found = annotation.storage_scope if isinstance(annotation, PointerType) else ""
        return found or "global"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    __iter__ = None  # not by indices from 0 upwards, which would never end

    def __getitem__(self, indices: Any) -> Any:
        index_tuple = indices if isinstance(indices, tuple | list) else (indices,)
        if any(isinstance(item, slice) and item.step is None for item in index_tuple) or any(
            isinstance(item, Range) for item in index_tuple
        ):
            return external("BufferRegion")(self, self._region(index_tuple))
        return BufferLoad(self, [_index(item) for item in index_tuple])

    def _region(self, indices: Sequence[Any]) -> list[Range]:
        region = []
        for item, extent in zip(indices, self.shape, strict=False):
            if isinstance(item, Range):
                region.append(item)
            elif isinstance(item, slice):
                region.append(
                    Range(0 if item.start is None else item.start, extent if item.stop is None else item.stop)
                )
            else:
                start = convert(item)
                region.append(Range.from_min_extent(start, const(1, start.dtype)))
        return region

    def vload(self, begin: Any, dtype: str | None = None, predicate: Any = None) -> PrimExpr:
        """Load a scalar, or a vector of ``dtype``'s lanes along the last dimension, from ``begin``."""
        return BufferLoad(self, _vector_indices(self, begin, dtype), predicate)

    def vstore(self, begin: Any, value: PrimExpr, predicate: Any = None) -> Any:
        """Store a scalar, or a vector along the last dimension, to ``begin``."""
        return external("BufferStore")(self, value, _vector_indices(self, begin, value.dtype), predicate)

    def offset_of(self, indices: Sequence[Any]) -> list[PrimExpr]:
        """The element offset that ``indices`` address in the flattened buffer, as a one-element list."""
        values = [convert(item) for item in indices]
        if len(values) != len(self.shape):
            raise IRValueError(
                f"buffer {self.name} has {len(self.shape)} dimensions, got {len(values)} indices"
            )
        offset = self._offset(values)
        if offset.dtype == "int64":  # then no part of it is computed in less
            offset = self._offset(
                [cast("int64", value) if value.dtype == "int32" else value for value in values]
            )
        return [offset]

    def extents_of_memory(self) -> tuple[PrimExpr, ...]:
        """The extents of memory that the buffer lies in: up to its last element, and whole rows where rows are padded."""
        if not self.shape or (not self.strides and self.elem_offset is None):
            return self.shape
        last = [extent - const(1, extent.dtype) for extent in self.shape]
        reach = exactly(add, self.offset_of(last)[0], const(1))
        if not self.strides:
            return (reach,)
        rows = exactly(mul, self.strides[0], self.shape[0])
        return (max_of(*match_dtypes(reach, rows)),)

    def _offset(self, indices: Sequence[PrimExpr]) -> PrimExpr:
        """Row-major, or by the strides, from ``elem_offset`` on; of one dimension the index itself, of its own dtype."""
        if self.strides:
            terms = [exactly(mul, index, stride) for index, stride in zip(indices, self.strides, strict=True)]
            offset = reduce(partial(exactly, add), terms) if terms else const(0)
        else:
            offset = indices[0] if indices else const(0)
            for index, extent in zip(indices[1:], self.shape[1:], strict=True):
                offset = exactly(add, exactly(mul, offset, extent), index)
        return offset if self.elem_offset is None else exactly(add, offset, self.elem_offset)

    def access_ptr(
        self,
        access_mask: int | str,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> PrimExpr:
        """A pointer into the buffer, of the type ``ptr_type``, for an intrinsic; ``access_mask`` is "r", "w" or "rw" (or bits 1 and 2)."""
        if isinstance(access_mask, str):
            access_mask = ("r" in access_mask) | ("w" in access_mask) << 1
        begin = convert(offset)
        start = begin if self.elem_offset is None else exactly(add, self.elem_offset, begin)
        if extent is None:
            extent = number_of_elements(*self.shape) - begin
        element = dt.with_lanes(dt.element_of(self.dtype), content_lanes)
        return Call(
            ptr_type,
            "tir.tvm_access_ptr",
            (Call(element, "tir.type_annotation", ()), self.data, start, extent, access_mask),
        )

    def get_flattened_buffer(self) -> Buffer:
        """The one-dimensional buffer over the same data (one dimension per axis separator group)."""
        if self.strides:
            total: Any = number_of_elements(self.strides[0], self.shape[0]) if self.shape else const(1)
            shape = [total]
        else:
            groups: list[Any] = [None]
            separators = {int(item.value) for item in self.axis_separators if isinstance(item, IntImm)}
            for axis, extent in enumerate(self.shape):
                if axis in separators:
                    groups.append(None)
                groups[-1] = extent if groups[-1] is None else number_of_elements(groups[-1], extent)
            shape = [const(1) if item is None else item for item in groups]
        if (
            len(shape) == len(self.shape)
            and not self.strides
            and builtins.all(a is b for a, b in zip(shape, self.shape, strict=True))
        ):
            return self
        return self.replace(
            shape=tuple(shape), strides=(), axis_separators=tuple(const(i + 1) for i in range(len(shape) - 1))
        )


def _index(item: Any) -> PrimExpr:
    if isinstance(item, slice):
        if item.start is None or item.stop is None:
            raise IRValueError("a strided slice of a buffer needs start, stop and step")
        n_lanes = (item.stop - item.start + item.step - 1) // item.step
        return Ramp(convert(item.start), item.step, int(n_lanes))
    return convert(item)


def _vector_indices(buffer: Buffer, begin: Any, dtype: str | None) -> list[PrimExpr]:
    indices = [convert(item) for item in (begin if isinstance(begin, tuple | list) else (begin,))]
    wanted = dt.lanes(dtype) // dt.lanes(buffer.dtype) if dtype else 1
    if wanted > 1 and dt.lanes(indices[-1].dtype) == 1:
        indices[-1] = Ramp(indices[-1], const(1, indices[-1].dtype), wanted)
    return indices


def decl_buffer(
    shape: Any,
    dtype: str | None = None,
    name: str = "buffer",
    data: Var | None = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
    span: Span | None = None,
) -> Buffer:
    """Declare a buffer; ``data`` defaults to a new pointer variable of ``scope``.

    >>> decl_buffer((128, 64), "float32", "A").scope()
    'global'
    """
    extents = shape if isinstance(shape, tuple | list) else (shape,)
    dtype = "float32" if dtype is None else dtype
    if offset_factor != 0 and elem_offset is None:
        index_dtype = convert(extents[0]).dtype if extents else "int32"
        elem_offset = Var(f"{name}_elem_offset", index_dtype)
    if data is None:
        element = "int8" if dt.is_bool(dtype) else dtype
        data = Var(name, PointerType(PrimType(element), scope), span)
    return Buffer(
        data,
        dtype,
        extents,
        strides,
        elem_offset,
        name,
        64 if data_alignment <= 0 else data_alignment,
        offset_factor if offset_factor > 0 else 1,
        buffer_type,
        axis_separators,
        span,
    )

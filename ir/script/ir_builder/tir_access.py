"""Buffers in scripts: declaring them, and what ``A[i, 0:4]`` means as a value, as an index, and as a region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dtype as dt
from ...error import IRTypeError, IRValueError
from ...tir import stmt as S
from ...tir.buffer import Buffer
from ...tir.buffer import decl_buffer as _decl_buffer
from ...tir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Ramp, Range, Var
from ...tir.operators import cast, const, convert, match_dtypes
from ..regions import extent_between


def as_shape(shape: Any) -> tuple[Any, ...]:
    return tuple(shape) if isinstance(shape, tuple | list) else (shape,)


def declare(
    shape: Any,
    dtype: str,
    data: Any,
    strides: Any,
    elem_offset: Any,
    scope: str,
    align: int,
    offset_factor: int,
    buffer_type: str,
    axis_separators: Any,
) -> Buffer:
    if not isinstance(dtype, str):
        dtype = dtype_name(dtype)
    if strides is not None:
        strides = [Var(item, "int32") if isinstance(item, str) else item for item in strides]
    if isinstance(data, Buffer):
        data = data.data
    return _decl_buffer(
        as_shape(shape),
        dtype,
        "",
        data,
        strides,
        elem_offset,
        scope,
        align,
        offset_factor,
        buffer_type,
        axis_separators,
    )


def dtype_name(value: Any) -> str:
    """The dtype that a dtype function of the namespace (``T.float32``) stands for."""
    name = getattr(value, "dtype", None)
    if isinstance(name, str):
        return name
    raise IRTypeError(f"expected a dtype such as 'float32', got {value!r}")


def check_match(buffer: Buffer, source: S.BufferRegion) -> None:
    """The buffer must have the shape of the region, whose surplus leading extents must be one."""
    extents = [item.extent for item in source.region]
    surplus = len(extents) - len(buffer.shape)
    wanted = [const(1)] * surplus + list(buffer.shape)
    if surplus < 0 or any(
        isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value
        for a, b in zip(extents, wanted)
    ):
        raise IRValueError(
            f"T.match_buffer: the region has extents {[*extents]}, which do not match the shape {[*buffer.shape]}"
        )


class BufferFactory:
    """``T.Buffer(shape, dtype)``: a parameter's annotation, or a buffer over ``data``. ``T.Buffer[shape, dtype]`` works too."""

    def __call__(
        self,
        shape: Any,
        dtype: str = "float32",
        data: Any = None,
        strides: Any = None,
        elem_offset: Any = None,
        scope: str = "global",
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Any = None,
    ) -> Any:
        return declare(
            shape,
            dtype,
            data,
            strides,
            elem_offset,
            scope,
            align,
            offset_factor,
            buffer_type,
            axis_separators,
        )

    def __getitem__(self, keys: Any) -> Any:
        if isinstance(keys, tuple) and len(keys) > 1 and isinstance(keys[1], str):
            return self(*keys)
        return self(keys)


def as_region(value: Any) -> S.BufferRegion:
    """A region from ``A[i, 0:4]`` however it was evaluated, or from a whole buffer."""
    if isinstance(value, S.BufferRegion):
        return value
    if isinstance(value, Buffer):
        return S.BufferRegion(
            value, [Range.from_min_extent(const(0, item.dtype), item) for item in value.shape]
        )
    if isinstance(value, BufferLoad):
        region = []
        for index in value.indices:
            if isinstance(index, Ramp):
                if not (isinstance(index.stride, IntImm) and index.stride.value == 1):
                    raise IRValueError(
                        f"a region of buffer {value.buffer.name} must be dense, got a stride of {index.stride}"
                    )
                region.append(Range.from_min_extent(index.base, const(index.lanes, index.base.dtype)))
            else:
                region.append(Range.from_min_extent(index, const(1, index.dtype)))
        return S.BufferRegion(value.buffer, region)
    raise IRTypeError(f"expected a region of a buffer such as A[0:16, i], got {type(value).__name__}")


def regions(values: Sequence[Any]) -> list[S.BufferRegion]:
    found = []
    for value in values:
        found += regions(value) if isinstance(value, list | tuple) else [as_region(value)]
    return found


def _wrong_count(buffer: Buffer, indices: Sequence[Any]) -> IRValueError:
    """The error for another number of indices than dimensions; a name may stand for several, such as the variable of a T.grid."""
    written = ["..." if isinstance(item, slice) else str(item) for item in indices]
    return IRValueError(
        f"buffer {buffer.name} has {len(buffer.shape)} dimensions, got {len(indices)} indices: {buffer.name}[{', '.join(written)}]"
    )


def make_store(buffer: Buffer, value: Any, indices: Any, predicate: Any = None) -> S.BufferStore:
    """The store statement; slices among the indices become vectors."""
    index = vector_indices(buffer, indices if isinstance(indices, list | tuple) else (indices,))
    if len(index) != len(buffer.shape):
        raise _wrong_count(buffer, index)
    lanes = dt.lanes(buffer.dtype)
    if index and isinstance(index[-1], PrimExpr):
        lanes *= dt.lanes(index[-1].dtype)
    wanted = dt.with_lanes(buffer.dtype, lanes)
    if isinstance(value, S.BufferRegion):
        value = region_as_load(value)
    found = value if isinstance(value, PrimExpr) and not isinstance(value, IterVar) else convert(value)
    if found.dtype != wanted:
        if "handle" in (found.dtype, wanted):
            raise IRTypeError(
                f"cannot store a value of dtype {found.dtype} to buffer {buffer.name} of dtype {wanted}"
            )
        if dt.lanes(found.dtype) not in (1, lanes):
            raise IRTypeError(
                f"cannot store {found.dtype} to {lanes} lanes of buffer {buffer.name} ({buffer.dtype})"
            )
        found = cast(wanted, found)
    return S.BufferStore(buffer, found, index, predicate)


def vector_indices(buffer: Buffer, indices: Sequence[Any]) -> list[PrimExpr]:
    """Indices with slices as ramps."""
    found = []
    for position, item in enumerate(indices):
        if isinstance(item, slice):
            found.append(
                slice_as_index(item, buffer.shape[position] if position < len(buffer.shape) else None)
            )
        else:
            found.append(convert(item))
    return found


def slice_as_index(item: slice, extent: Any) -> PrimExpr:
    """``start:stop:step`` as one index: a ramp, or the start when it is a single lane."""
    start = convert(0 if item.start is None else item.start)
    stop = extent if item.stop is None else item.stop
    start, high = match_dtypes(start, convert(stop))
    step = 1 if item.step is None else item.step
    stride = convert(step, start.dtype)
    if stride.dtype != start.dtype:
        stride = cast(start.dtype, stride)
    count = extent_between(start, high)
    if not isinstance(count, IntImm) or not isinstance(stride, IntImm):
        raise IRValueError(f"a slice used as an index needs a constant length, got {count} by {stride}")
    if stride.value <= 0 or count.value <= 0:
        raise IRValueError(f"a slice used as an index must go forward, got {count} elements by {stride}")
    lanes = (count.value + stride.value - 1) // stride.value
    return start if lanes == 1 else Ramp(start, stride, lanes)


def region_as_load(region: S.BufferRegion) -> PrimExpr:
    """A region used as a value: a vector load."""
    indices: list[PrimExpr] = []
    for item in region.region:
        if isinstance(item.extent, IntImm):
            lanes = item.extent.value
            indices.append(item.min if lanes == 1 else Ramp(item.min, const(1, item.min.dtype), lanes))
        else:
            raise IRValueError(
                f"a region of buffer {region.buffer.name} of extent {item.extent} cannot be used as a value"
            )
    return _checked_load(region.buffer, indices)


def _checked_load(buffer: Buffer, indices: list[PrimExpr]) -> BufferLoad:
    if any(dt.lanes(index.dtype) != 1 for index in indices[:-1]):
        raise IRValueError(f"only the last index of buffer {buffer.name} may be a vector")
    return BufferLoad(buffer, indices)


def subscript(buffer: Buffer, indices: Any) -> Any:
    """``buffer[indices]``: a load, or a region when there are slices without step."""
    items = indices if isinstance(indices, tuple | list) else (indices,)
    if len(items) != len(buffer.shape):
        raise _wrong_count(buffer, items)
    slices = [item for item in items if isinstance(item, slice)]
    if any(isinstance(item, Range) for item in items) or (
        slices and all(item.step is None for item in slices)
    ):
        region = []
        for item, extent in zip(items, buffer.shape, strict=True):
            if isinstance(item, Range):
                region.append(item)
            elif isinstance(item, slice):
                low = convert(0 if item.start is None else item.start)
                low, high = match_dtypes(low, convert(extent if item.stop is None else item.stop))
                region.append(Range.from_min_extent(low, extent_between(low, high)))
            else:
                start = convert(item)
                region.append(Range.from_min_extent(start, const(1, start.dtype)))
        return S.BufferRegion(buffer, region)
    return _checked_load(buffer, vector_indices(buffer, items))


BufferType = BufferFactory()
buffer = buffer_decl = BufferType

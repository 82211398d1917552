"""Operators that move elements: reshape, transpose, slices, joins and splits, repetition, layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtype import is_integral
from ..error import IRValueError
from ..te.operation import compute
from ..te.tensor import Tensor
from ..tir import op as T
from ..tir.expr import IntImm, PrimExpr, Select
from ..tir.operators import const, convert, floordiv, floormod
from ..tir.operators import max as _max
from ..tir.operators import min as _min
from . import tag
from .broadcast import broadcast_indices, broadcast_shape
from .creation import arange
from .indexing import from_end
from .layout import bijective_layout
from .math import full
from .scatter import scatter_elements
from .shape import (
    as_int,
    as_ints,
    ax_compute,
    index_dtype,
    is_const,
    normalize_axes,
    normalize_axis,
    product,
    ravel_index,
    shape_of,
    simplify,
    unravel_index,
    wrapped,
)


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """``num_newaxis`` axes of extent 1 put in before ``axis``."""
    position = axis if axis >= 0 else a.ndim + axis + 1
    if not 0 <= position <= a.ndim:
        raise IRValueError(f"expand_dims: axis {axis} is out of range for {a.ndim} dimensions")
    one = const(1, index_dtype(a.shape))
    shape = [*a.shape[:position], *[one] * num_newaxis, *a.shape[position:]]
    return ax_compute(
        shape, lambda i: a(*i[:position], *i[position + num_newaxis :]), "T_expand_dims", tag.BROADCAST
    )


def expand_like(a: Tensor, shape_like: Tensor, axis: Sequence[int]) -> Tensor:
    """``a`` repeated along new axes ``axis`` to the shape of ``shape_like``."""
    axes = normalize_axes(list(axis), shape_like.ndim)
    return ax_compute(
        shape_like.shape,
        lambda i: a(*[index for position, index in enumerate(i) if position not in axes]),
        "T_expand_like",
        tag.BROADCAST,
    )


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Axes permuted: axis ``i`` of the result is axis ``axes[i]`` of ``a``; None reverses them."""
    order = list(reversed(range(a.ndim))) if axes is None else normalize_axes(list(axes), a.ndim)
    if len(order) != a.ndim:
        raise IRValueError(f"transpose of {a.ndim} dimensions got axes {order}")
    inverse = [order.index(axis) for axis in range(a.ndim)]
    return ax_compute(
        [a.shape[axis] for axis in order],
        lambda i: a(*[i[position] for position in inverse]),
        "T_transpose",
        tag.INJECTIVE,
    )


def reshape(a: Tensor, newshape: Any) -> Tensor:
    """The same elements in another shape; one extent may be -1, 0 keeps the extent at its place."""
    shape = list(shape_of(newshape, index_dtype(a.shape)))
    shape = [
        a.shape[i]
        if isinstance(item, IntImm) and item.value == 0 and i < a.ndim and not _is_empty(a)
        else item
        for i, item in enumerate(shape)
    ]
    unknown = [i for i, item in enumerate(shape) if isinstance(item, IntImm) and item.value == -1]
    if len(unknown) > 1:
        raise IRValueError("reshape: at most one extent may be -1")
    if unknown:
        rest = product([item for i, item in enumerate(shape) if i != unknown[0]])
        shape[unknown[0]] = simplify(floordiv(convert(product(a.shape)), rest))
    if _is_empty(a):
        return ax_compute(shape, lambda i: const(0, a.dtype), "T_reshape", tag.INJECTIVE)
    before, after = simplify(product(a.shape)), simplify(product(shape))
    if isinstance(before, IntImm) and isinstance(after, IntImm) and before.value != after.value:
        raise IRValueError(
            f"reshape: {before.value} elements of {a.name} do not fit a shape of {after.value}"
        )
    return ax_compute(
        shape,
        lambda i: a(*unravel_index(ravel_index(i, shape) if shape else const(0), a.shape)),
        "T_reshape",
        tag.INJECTIVE,
    )


def _is_empty(a: Tensor) -> bool:
    return any(isinstance(extent, IntImm) and extent.value == 0 for extent in a.shape)


def squeeze(a: Tensor, axis: Any = None) -> Tensor:
    """Axes of extent 1 removed: all of them, or those in ``axis``."""
    if axis is None:
        axes = [i for i, extent in enumerate(a.shape) if isinstance(extent, IntImm) and extent.value == 1]
    else:
        axes = normalize_axes(axis, a.ndim)
        for item in axes:
            extent = a.shape[item]
            if isinstance(extent, IntImm) and extent.value != 1:
                raise IRValueError(f"squeeze: axis {item} of {a.name} has extent {extent.value}, not 1")
    zero = const(0, index_dtype(a.shape))

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        rest = iter(indices)
        return a(*[zero if position in axes else next(rest) for position in range(a.ndim)])

    shape = [extent for position, extent in enumerate(a.shape) if position not in axes]
    return ax_compute(shape, element, "T_squeeze", tag.INJECTIVE)


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors joined along ``axis``; their other extents agree."""
    parts = list(a_tuple)
    along = normalize_axis(axis, parts[0].ndim)
    sizes = [item.shape[along] for item in parts]
    shape = list(parts[0].shape)
    total: Any = sizes[0]
    for size in sizes[1:]:
        total = total + size
    shape[along] = simplify(total)

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        value = parts[0](*indices)
        offset: Any = None
        for size, part in zip(sizes, parts[1:]):
            offset = size if offset is None else offset + size
            moved = [*indices[:along], indices[along] - offset, *indices[along + 1 :]]
            value = T.if_then_else(offset <= indices[along], part(*moved), value)
        return value

    return ax_compute(shape, element, "T_concat", tag.INJECTIVE)


def stack(tensors: Any, axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    parts = list(tensors) if isinstance(tensors, tuple | list) else [tensors]
    position = axis if axis >= 0 else parts[0].ndim + axis + 1
    shape = [
        *parts[0].shape[:position],
        const(len(parts), index_dtype(parts[0].shape)),
        *parts[0].shape[position:],
    ]

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        rest = (*indices[:position], *indices[position + 1 :])
        value = parts[0](*rest)
        for number, part in enumerate(parts[1:], 1):
            value = T.if_then_else(indices[position].equal(number), part(*rest), value)
        return value

    return ax_compute(shape, element, "T_stack", tag.INJECTIVE)


def split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Pieces along ``axis``: that many of equal size (the last may be smaller), or cut before the given indices."""
    along = normalize_axis(axis, ary.ndim)
    extent = ary.shape[along]
    if isinstance(indices_or_sections, tuple | list):
        cuts = [convert(item) for item in indices_or_sections]
        name = "T_split"
    else:
        count = as_int(indices_or_sections, "split's number of sections")
        if count < 1:
            raise IRValueError(f"split: the number of sections must be positive, got {count}")
        size = simplify(floordiv(extent + (count - 1), count))
        cuts = [simplify(size * number) for number in range(1, count)]
        name = "T_split_sections"
    zero = const(0, extent.dtype)
    begins = [zero, *[item.astype(extent.dtype) for item in cuts]]
    ends = [*begins[1:], extent]
    pieces = []
    for begin, end in zip(begins, ends, strict=True):
        shape = list(ary.shape)
        size = simplify(end - begin)
        if isinstance(size, IntImm) and size.value < 0:
            size = zero
        shape[along] = size
        pieces.append(
            ax_compute(
                shape,
                lambda i, begin=begin: ary(*i[:along], i[along] + begin, *i[along + 1 :]),  # type: ignore[misc]
                name,
                tag.INJECTIVE,
            )
        )
    return pieces


_FAR = (1 << 31) - 1


def _slice_bounds(
    extent: PrimExpr, begin: Any, end: Any, stride: int, assume_inbound: bool
) -> tuple[PrimExpr, PrimExpr]:
    """First index and number of elements of a slice, as numpy counts them."""
    dtype = extent.dtype
    given = [item for item in (begin, end) if item is not None]
    if is_const(extent, *given):
        first, last = (None if item is None else as_int(item) for item in (begin, end))
        numbers = range(as_int(extent))[slice(first, last, stride)]
        return const(numbers.start if len(numbers) else 0, dtype), const(len(numbers), dtype)
    # Descending slices run from the last element to one before the first, ascending ones from the first to one behind the last.
    low, high = (const(-1, dtype), extent - 1) if stride < 0 else (const(0, dtype), extent)
    start = (
        (high if stride < 0 else low) if begin is None else _limited(begin, extent, low, high, assume_inbound)
    )
    stop = (low if stride < 0 else high) if end is None else _limited(end, extent, low, high, assume_inbound)
    distance = start - stop if stride < 0 else stop - start
    count = floordiv(distance + (abs(stride) - 1), abs(stride))
    return simplify(start), simplify(count if assume_inbound else _max(count, const(0, dtype)))


def _limited(value: Any, extent: PrimExpr, low: PrimExpr, high: PrimExpr, assume_inbound: bool) -> PrimExpr:
    """A bound as a place from ``low`` to ``high``; a negative number counts from the end, an expression is a place."""
    expr = convert(value).astype(extent.dtype)
    if isinstance(expr, IntImm):
        if abs(expr.value) >= _FAR:
            return high if expr.value > 0 else low
        if expr.value < 0:
            expr = extent + expr.value
    return expr if assume_inbound else _max(_min(expr, high), low)


def strided_slice(
    a: Tensor,
    begin: Any,
    end: Any,
    strides: Any = None,
    axes: Any = None,
    slice_mode: str = "end",
    assume_inbound: bool = True,
) -> Tensor:
    """``a[begin:end:strides]`` per axis (or along ``axes``), with numpy's meaning of negative and excessive bounds.

    With ``slice_mode="size"`` ``end`` holds sizes (negative: to the end). Given tensors, it is a dynamic slice.
    """
    if isinstance(begin, Tensor) or isinstance(end, Tensor) or isinstance(strides, Tensor):
        raise IRValueError(
            "strided_slice with tensors as bounds has no known shape; use dynamic_strided_slice"
        )
    begins = list(begin) if isinstance(begin, tuple | list) else [begin]
    ends = list(end) if isinstance(end, tuple | list) else [end]
    axes_given = axes is not None and len(axes) > 0
    along = normalize_axes(list(axes), a.ndim) if axes_given else list(range(len(begins)))
    steps = as_ints(strides, "stride") if strides is not None and len(strides) else []
    steps += [steps[0] if len(steps) == 1 and axes_given else 1] * (len(begins) - len(steps))
    ends += [None] * (len(begins) - len(ends))
    shape = list(a.shape)
    starts: dict[int, tuple[PrimExpr, int]] = {}
    for axis, first, last, step in zip(along, begins, ends, steps, strict=True):
        if slice_mode == "size":
            size = as_int(last, "size")
            last = None if size < 0 else (0 if first is None else first) + size
            step = 1
        if step == 0:
            raise IRValueError("strided_slice: a stride is zero")
        start, shape[axis] = _slice_bounds(a.shape[axis], first, last, step, assume_inbound)
        starts[axis] = (start, step)

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        moved = [
            index if axis not in starts else index * starts[axis][1] + starts[axis][0]
            for axis, index in enumerate(indices)
        ]
        return a(*moved)

    name = "T_strided_slice_with_axes" if axes_given else "T_strided_slice"
    return ax_compute(shape, element, name, tag.INJECTIVE)


def dynamic_strided_slice(
    a: Tensor, begin: Tensor, end: Tensor, strides: Tensor, output_shape: Sequence[Any]
) -> Tensor:
    """A slice whose bounds are tensors of one index per axis.

    The shape of a tensor is no data, so ``output_shape`` has to say what the bounds give; nothing else is made of ``end``.

    Raises:
        IRValueError: ``begin``, ``end``, ``strides`` or ``output_shape`` has not one integer for each axis.
    """
    shape = shape_of(output_shape)
    for name, bounds in (("begin", begin), ("end", end), ("strides", strides)):
        if (
            bounds.ndim != 1
            or not is_integral(bounds.dtype)
            or getattr(bounds.shape[0], "value", a.ndim) != a.ndim
        ):
            raise IRValueError(
                f"dynamic_strided_slice: {name} must hold one integer for each of {a.ndim} axes, got {bounds.dtype} of"
                f" shape {[str(extent) for extent in bounds.shape]}"
            )
    if len(shape) != a.ndim:
        raise IRValueError(f"dynamic_strided_slice: output_shape has {len(shape)} extents for {a.ndim} axes")

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        found: list[Any] = []
        for axis, index in enumerate(indices):
            position = const(axis, index.dtype)
            extent = a.shape[axis]
            stride = strides(position).astype(index.dtype)
            first = begin(position).astype(index.dtype)
            first = T.if_then_else(first < 0, first + extent, first)
            low = T.if_then_else(stride < 0, const(-1, index.dtype), const(0, index.dtype))
            high = T.if_then_else(stride < 0, extent - 1, extent.astype(index.dtype))
            found.append(_max(_min(first, high), low) + index * stride)
        return a(*found)

    return ax_compute(shape, element, "T_strided_slice_dynamic", tag.INJECTIVE)


def strided_set(a: Tensor, v: Tensor, begin: Any, end: Any, strides: Any = None) -> Tensor:
    """``a`` with ``a[begin:end:strides]`` replaced by ``v``; the bounds are constants."""
    begins, ends = list(begin), list(end)
    steps = as_ints(strides, "stride") if strides is not None else [1] * len(begins)
    bounds = [
        _slice_bounds(a.shape[axis], begins[axis], ends[axis], steps[axis], True)
        for axis in range(len(begins))
    ]

    def element(*indices: Any) -> PrimExpr:
        conditions: list[Any] = []
        inner: list[Any] = []
        for axis, index in enumerate(indices):
            if axis >= len(bounds):
                inner.append(index)
                continue
            (start, count), step = bounds[axis], steps[axis]
            distance = index - start if step > 0 else start - index
            size = step if step > 0 else -step
            inner.append(floordiv(distance, size))
            conditions += [distance >= 0, distance < count * size]
            if size != 1:
                conditions.append(floormod(distance, size).equal(0))
        return T.if_then_else(T.all(*conditions), v(*inner), a(*indices)) if conditions else v(*inner)

    return compute(a.shape, element, name="strided_set", tag=tag.INJECTIVE)


def repeat(a: Tensor, repeats: int, axis: int) -> Tensor:
    """Each element repeated ``repeats`` times along ``axis``."""
    along = normalize_axis(axis, a.ndim)
    shape = list(a.shape)
    shape[along] = simplify(shape[along] * repeats)
    return ax_compute(
        shape,
        lambda i: a(*i[:along], floordiv(i[along], repeats) if repeats else i[along], *i[along + 1 :]),
        "T_repeat",
        tag.BROADCAST,
    )


def tile(a: Tensor, reps: Any) -> Tensor:
    """``a`` repeated as a whole ``reps`` times per axis, as numpy.tile."""
    counts = list(reps) if isinstance(reps, tuple | list) else [reps]
    ndim = max(len(counts), a.ndim)
    dtype = index_dtype(a.shape)
    shape = [const(1, dtype)] * (ndim - a.ndim) + list(a.shape)
    counts = [1] * (ndim - len(counts)) + counts
    return dyn_tile(
        a,
        [simplify(extent * count) for extent, count in zip(shape, counts, strict=True)],
        len(reps) if isinstance(reps, tuple | list) else 1,
    )


def dyn_tile(a: Tensor, new_shape: Sequence[Any], rdim: int) -> Tensor:
    """``a`` repeated as a whole to fill ``new_shape``, which ``rdim`` numbers of repeats have given."""
    shape = shape_of(new_shape)
    if len(shape) != max(rdim, a.ndim):
        raise IRValueError(
            f"dyn_tile: {rdim} repeats of {a.ndim} dimensions give {max(rdim, a.ndim)}, not the {len(shape)} of new_shape"
        )
    skipped = len(shape) - a.ndim
    return ax_compute(
        shape,
        lambda i: a(*[wrapped(index, extent) for index, extent in zip(i[skipped:], a.shape, strict=True)]),
        "T_tile",
        tag.BROADCAST,
    )


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """Elements in reverse order along ``axis``."""
    along = normalize_axis(axis, a.ndim)
    return ax_compute(
        a.shape,
        lambda i: a(*i[:along], a.shape[along] - 1 - i[along], *i[along + 1 :]),
        "T_reverse_sequence",
        tag.INJECTIVE,
    )


def reverse_sequence(a: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0) -> Tensor:
    """The first ``seq_lengths[b]`` elements of each sequence reversed, the others kept."""
    along, batch = normalize_axis(seq_axis, a.ndim), normalize_axis(batch_axis, a.ndim)

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        position = indices[along]
        length = seq_lengths(indices[batch]).astype(position.dtype)
        inside = T.all(length > 1, position < length)
        moved = T.if_then_else(inside, length - 1 - position, position)
        return a(*indices[:along], moved, *indices[along + 1 :])

    return ax_compute(a.shape, element, "T_reverse_sequence", tag.INJECTIVE)


def sequence_mask(data: Tensor, valid_length: Tensor, mask_value: float = 0, axis: int = 0) -> Tensor:
    """Elements at or behind ``valid_length[b]`` along ``axis`` (0 or 1, the other is the batch) replaced."""
    if axis not in (0, 1):
        raise IRValueError(f"sequence_mask: axis must be 0 or 1, got {axis}")
    return ax_compute(
        data.shape,
        lambda i: T.if_then_else(
            i[axis] >= valid_length(i[1 - axis]).astype(i[axis].dtype),
            const(mask_value, data.dtype),
            data(*i),
        ),
        "T_sequence_mask",
        tag.INJECTIVE,
    )


def trilu(data: Tensor, k: Any, upper: bool) -> Tensor:
    """The upper (or lower) triangle of the last two axes from diagonal ``k`` on; the rest is zero."""
    offset = k

    def element(*indices: Any) -> PrimExpr:
        row, column = indices[-2], indices[-1]
        diagonal = offset(0) if isinstance(offset, Tensor) else convert(offset)
        diagonal = diagonal.astype(row.dtype)
        keep = row <= column - diagonal if upper else row >= column - diagonal
        return Select(keep, data(*indices), const(0, data.dtype))

    return compute(data.shape, element, name="trilu", tag=tag.ELEMWISE)


def tril(data: Tensor, k: Any = 0) -> Tensor:
    """The lower triangle up to diagonal ``k``."""
    return trilu(data, k, upper=False)


def triu(data: Tensor, k: Any = 0) -> Tensor:
    """The upper triangle from diagonal ``k`` on."""
    return trilu(data, k, upper=True)


def matrix_set_diag(data: Tensor, diagonal: Tensor, k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """``data`` with diagonals ``k`` (one, or a range of two bounds) of its last two axes replaced by ``diagonal``."""
    bounds = as_ints(k, "k") if isinstance(k, tuple | list) else [as_int(k, "k")]
    k1, k2 = bounds[0], bounds[-1]
    only_one = k1 == k2
    super_right, sub_right = (word == "RIGHT" for word in align.split("_"))

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        row, column = indices[-2], indices[-1]
        number = column - row
        if only_one:
            where = number.equal(k1)
            inside = column if k1 < 0 else row
            return T.if_then_else(where, diagonal(*indices[:-2], inside), data(*indices))
        longest = diagonal.shape[-1]
        length = Select(
            number >= 0,
            _min(data.shape[-1] - number, data.shape[-2]),
            _min(data.shape[-2] + number, data.shape[-1]),
        )
        start_super = longest - length if super_right else const(0, row.dtype)
        start_sub = longest - length if sub_right else const(0, row.dtype)
        position = Select(number >= 0, row + start_super, column + start_sub)
        inside = diagonal(*indices[:-2], k2 - number, position)
        return T.if_then_else(T.all(number >= k1, number <= k2), inside, data(*indices))

    return ax_compute(data.shape, element, "T_matrix_set_diag", tag.INJECTIVE)


def meshgrid(a_tuple: Sequence[Tensor], indexing: str = "xy") -> list[Tensor]:
    """Coordinate matrices of vectors (or scalars); "xy" swaps the first two axes, "ij" does not."""
    if indexing not in ("xy", "ij"):
        raise IRValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    parts = list(a_tuple)
    order = list(range(len(parts)))
    if indexing == "xy" and len(parts) > 1:
        order[0], order[1] = 1, 0
    one = const(1)
    extents = [item.shape[0] if item.ndim else one for item in parts]
    shape = [extents[position] for position in order]

    def grid(part: Tensor, place: int) -> Tensor:
        return ax_compute(
            shape, lambda i: part(i[place]) if part.ndim else part(), "T_meshgrid", tag.INJECTIVE
        )

    return [grid(part, order.index(number)) for number, part in enumerate(parts)]


def sliding_window(data: Tensor, axis: int, window_shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Windows of the axes from ``axis`` on: the shape ends with the numbers of windows, then the window's shape."""
    first = normalize_axis(axis, data.ndim)
    shape = list(data.shape[:first])
    for position, (window, stride) in enumerate(zip(window_shape, strides, strict=True)):
        extent = data.shape[first + position]
        shape.append(simplify(floordiv(extent - (window - 1) + (stride - 1), stride)))
    shape += [const(window, index_dtype(data.shape)) for window in window_shape]
    count = len(window_shape)

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        found = list(indices[:first])
        for position in range(count):
            found.append(indices[first + position] * strides[position] + indices[first + count + position])
        return data(*found)

    return ax_compute(shape, element, "T_sliding_window", tag.INJECTIVE)


def layout_transform(
    array: Tensor,
    src_layout: str,
    dst_layout: str,
    schedule_rule: str = "None",
    pad_value: float | None = None,
) -> Tensor:
    """``array`` stored in another layout, such as ``NCHW`` as ``NCHW8c``; what a factor does not fill is ``pad_value`` (0)."""
    if src_layout == dst_layout:
        return array
    mapping = bijective_layout(src_layout, dst_layout)
    if mapping.source.ndim != array.ndim:
        raise IRValueError(
            f"layout_transform: {array.name} has {array.ndim} dimensions,"
            f" layout {src_layout!r} has {mapping.source.ndim}"
        )
    shape = [
        simplify(convert(item).astype(index_dtype(array.shape)))
        for item in mapping.forward_shape(array.shape)
    ]

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        whole = mapping.target.merge(indices)
        source = mapping.source.split(whole)
        conditions = []
        for (letter, size), index, extent in zip(mapping.source.axes, source, array.shape, strict=True):
            factor = mapping.target.factor_of(letter)
            if not size and not (
                is_const(extent) and as_int(extent) * mapping.source.factor_of(letter) % factor == 0
            ):
                conditions.append(index < extent)
        value = array(*source)
        if conditions:
            value = T.if_then_else(T.all(*conditions), value, const(pad_value or 0, array.dtype))
        return value

    return ax_compute(
        shape,
        element,
        "T_layout_trans",
        tag.INJECTIVE,
        {
            "schedule_rule": schedule_rule,
            "src_layout": src_layout,
            "dst_layout": dst_layout,
            "input_shape": [as_int(item) if is_const(item) else item for item in array.shape],
        },
    )


def invert_permutation(data: Tensor) -> Tensor:
    """The inverse of a permutation given as a vector."""
    size = data.shape[0]
    return scatter_elements(full((size,), data.dtype, 0), data, arange(size, dtype=data.dtype), 0)


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """``data[indices]`` with numpy's integer-array indexing on the first axes; the index tensors broadcast.

    Negative indices count from the end.
    """
    shape = broadcast_shape(*[item.shape for item in indices])
    rest = data.shape[len(indices) :]

    def element(*i: Any) -> PrimExpr:
        outer = i[: len(shape)]
        found = [
            from_end(item(*broadcast_indices(outer, item.shape, shape)), data.shape[axis])
            for axis, item in enumerate(indices)
        ]
        return data(*found, *i[len(shape) :])

    return compute((*shape, *rest), element, name="advanced_index", tag=tag.INJECTIVE)

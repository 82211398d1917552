"""Joining and splitting tensors, and tensors made of vectors: concat, stack, split, meshgrid, one_hot."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ... import te
from ...error import IRValueError
from ...expr import RelaxExpr
from ...tir.expr import IntImm, PrimExpr
from ...tir.op import ceildiv
from ..expr import Call, Expr, PrimValue, Tuple, Var
from ..struct_info import PrimStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from .index import slice_length
from .inference import (
    as_int,
    check_arity,
    common_dtype,
    common_vdevice,
    fail,
    int64,
    normalize_axis,
    show_dims,
    simplify,
    tensor_arg,
    tensor_args,
    tuple_of_tensors,
    wrong_kind,
)
from .layout_rule import Desired, LayoutPlan, Layouts, along_axis, is_permuted
from .legalization import topi_function
from .requirement import require_equal

FOLLOW = MixedPrecisionPolicy.FOLLOW
_MOVES: dict[str, Any] = {"mixed_precision": FOLLOW, "pattern": OpPatternKind.kInjective}


# concat and stack


def _infer_concat(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    infos = tuple_of_tensors(node, 0)
    if not infos:
        raise fail(node, "expected at least one tensor")
    dtype, vdevice = common_dtype(node, infos), common_vdevice(node, infos)
    axis = node.attrs.get("axis")
    known = {info.ndim for info in infos if info.ndim != -1}
    if len(known) > 1:
        raise fail(node, f"tensors have different numbers of dimensions: {sorted(known)}")
    if not known:
        return TensorStructInfo(None, dtype, vdevice)
    ndim = known.pop()
    if axis is None and ndim != 1:
        raise fail(node, f"without an axis the tensors must be 1-dimensional, got {ndim} dimensions")
    position = 0 if axis is None else normalize_axis(node, ndim, axis)
    shapes = [info.shape_values for info in infos]
    with_shape = [shape for shape in shapes if shape is not None]
    _require_joinable(node, position, with_shape)
    if len(with_shape) != len(shapes):
        return TensorStructInfo(None, dtype, vdevice, ndim)
    first = with_shape[0]
    total: PrimExpr = int64(0)
    for shape in with_shape:
        total = total + shape[position]
    return TensorStructInfo([*first[:position], simplify(total), *first[position + 1 :]], dtype, vdevice)


def _require_joinable(node: Call, position: int, shapes: Sequence[Sequence[PrimExpr]]) -> None:
    """Tensors that are joined agree in all extents but those along the axis: with one that is a number, if any is."""
    for axis, extents in enumerate(zip(*shapes, strict=True)):
        if axis == position:
            continue
        agreed = next((place for place, extent in enumerate(extents) if as_int(extent) is not None), 0)
        for shape in shapes:
            text = (
                f"shapes {show_dims(shape)} and {show_dims(shapes[agreed])} differ at dimension {axis}: {{}} and {{}};"
                f" only dimension {position} may"
            )
            require_equal(node, shape[axis], extents[agreed], text)


def _legalize_concat(bb: Any, node: Call) -> Expr:
    tensors = node.args[0]
    count = len(node.args[0].struct_info.fields)
    if isinstance(tensors, Tuple):
        items = list(tensors.fields)
    else:
        items = [bb.emit(tensors[i]) for i in range(count)]  # type: ignore[index]
    axis = node.attrs.get("axis")
    return bb.call_te(topi_function("concatenate"), items, 0 if axis is None else axis)


def _tensor_tuple(tensors: Any) -> Expr:
    return tensors if isinstance(tensors, RelaxExpr) else Tuple(tensors)


def _concat_layout(node: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    """All tensors get the layout of the first permuted one."""
    (parts,) = layouts
    permuted = [layout for layout in parts if is_permuted(layout)]
    if not isinstance(node.args[0], Tuple) or not permuted or node.attrs["axis"] is None:
        return None
    layout = permuted[0]
    axis = layout.index(int(node.attrs["axis"]) % len(layout))
    return LayoutPlan(((layout,) * len(parts),), layout, {"axis": axis})


def _concat_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """The gradient of the tuple: the parts of the result's."""
    infos = node.args[0].struct_info
    assert isinstance(infos, TupleStructInfo)
    axis = node.attrs.get("axis")
    first = infos.fields[0]
    assert isinstance(first, TensorStructInfo)
    place = 0 if axis is None else normalize_axis(node, first.ndim, axis)
    marks, total = [], 0
    for info in infos.fields[:-1]:
        assert isinstance(info, TensorStructInfo)
        extent = as_int(info.shape_values[place]) if info.shape_values is not None else None
        if extent is None:
            raise IRValueError("the gradient of relax.concat needs static extents along the axis")
        total += extent
        marks.append(total)
    return [split(grad, marks, place)]


@operator(
    "relax.concat",
    moves=True,
    infer=_infer_concat,
    legalize=_legalize_concat,
    reference=lambda tensors, axis: np.concatenate(tensors, 0 if axis is None else axis),
    layout=_concat_layout,
    gradient=_concat_gradient,
    **_MOVES,
)
def concat(tensors: Any, axis: int | None = 0) -> Expr:
    """Join tensors along an axis; ``axis=None`` joins 1-dimensional ones."""
    return call("relax.concat", _tensor_tuple(tensors), attrs={"axis": None if axis is None else int(axis)})


def _infer_stack(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    infos = tuple_of_tensors(node, 0)
    if not infos:
        raise fail(node, "expected at least one tensor")
    dtype, vdevice = common_dtype(node, infos), common_vdevice(node, infos)
    first = infos[0]
    if any(info.ndim == -1 for info in infos):
        return TensorStructInfo(None, dtype, vdevice)
    if len({info.ndim for info in infos}) > 1:
        raise fail(node, f"tensors have different numbers of dimensions: {sorted({i.ndim for i in infos})}")
    axis = normalize_axis(node, first.ndim + 1, node.attrs["axis"])
    shapes = [info.shape_values for info in infos]
    if any(shape is None for shape in shapes):
        return TensorStructInfo(None, dtype, vdevice, first.ndim + 1)
    for number, shape in enumerate(shapes[1:], 1):
        for place, (a, b) in enumerate(zip(shapes[0], shape, strict=True)):  # type: ignore[arg-type]
            text = f"shapes {show_dims(shapes[0])} and {show_dims(shape)} of tensors 0 and {number} differ"  # type: ignore[arg-type]
            require_equal(node, a, b, f"{text}: {{}} and {{}} at dimension {place}")
    dims = list(shapes[0])  # type: ignore[arg-type]
    dims.insert(axis, int64(len(infos)))
    return TensorStructInfo(dims, dtype, vdevice)


def _legalize_stack(bb: Any, node: Call) -> Expr:
    tensors = node.args[0]
    count = len(node.args[0].struct_info.fields)
    if isinstance(tensors, Tuple):
        items = list(tensors.fields)
    else:
        items = [bb.emit(tensors[i]) for i in range(count)]  # type: ignore[index]
    return bb.call_te(topi_function("stack"), items, node.attrs["axis"])


@operator("relax.stack", infer=_infer_stack, legalize=_legalize_stack, reference=np.stack, **_MOVES)
def stack(tensors: Any, axis: int = 0) -> Expr:
    """Join tensors of one shape along a new axis."""
    return call("relax.stack", _tensor_tuple(tensors), attrs={"axis": 0 if axis is None else int(axis)})


# split


def _infer_split(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    what = node.attrs["indices_or_sections"]
    count = what if isinstance(what, int) else len(what) + 1
    if info.ndim == -1:
        return TupleStructInfo([TensorStructInfo(None, info.dtype, info.vdevice)] * count)
    axis = normalize_axis(node, info.ndim, node.attrs["axis"])
    dims = info.shape_values
    if dims is None:
        return TupleStructInfo([TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)] * count)
    extent = dims[axis]
    fields = []
    for _, size in _split_parts(node, extent, builder):
        part = [*dims[:axis], size, *dims[axis + 1 :]]
        fields.append(TensorStructInfo(part, info.dtype, info.vdevice))
    return TupleStructInfo(fields)


def _split_parts(node: Call, extent: PrimExpr, builder: Any) -> list[tuple[PrimExpr, PrimExpr]]:
    """(first index, extent) of each part along the split axis; sections are as even as ceil division makes them."""
    what, size = node.attrs["indices_or_sections"], as_int(extent)
    if not isinstance(what, int):
        marks: list[PrimExpr] = [int64(0), *map(int64, what), extent]
    elif size is not None:
        marks = [int64(min(-(-size // what) * i, size)) for i in range(what)] + [extent]
    else:
        step = simplify(ceildiv(extent, int64(what)), builder)
        marks = [simplify(step * i, builder) for i in range(what)] + [extent]
    return [
        slice_length(node, low, high, int64(1), extent, False, builder)
        for low, high in itertools.pairwise(marks)
    ]


def _legalize_split(bb: Any, node: Call) -> Expr:
    what, axis = node.attrs["indices_or_sections"], node.attrs["axis"]
    info = node.args[0].struct_info
    assert isinstance(info, TensorStructInfo)
    extent = info.shape_values[normalize_axis(node, info.ndim, axis)]  # type: ignore[index]
    size = as_int(extent)
    if size is None:
        parts = _split_parts(node, extent, bb)
        begins, sizes = ([part[place] for part in parts] for place in (0, 1))
        return bb.call_te(_te_split, node.args[0], begins, sizes, axis, primfunc_name_hint="split")
    if not isinstance(what, int) or size % what:
        what = [as_int(begin) for begin, _ in _split_parts(node, extent, bb)[1:]]
    return bb.call_te(topi_function("split"), node.args[0], what, axis)


def _te_split(data: Any, begins: list[Any], sizes: list[Any], axis: int) -> Any:
    along = axis % len(data.shape)

    def part(begin: Any, size: Any) -> Any:
        shape = [*data.shape[:along], size, *data.shape[along + 1 :]]
        return te.compute(
            shape, lambda *i: data(*i[:along], i[along] + begin, *i[along + 1 :]), name="T_split"
        )

    return [part(begin, size) for begin, size in zip(begins, sizes, strict=True)]


def _np_split(x: np.ndarray, indices_or_sections: Any, axis: int) -> list[np.ndarray]:
    if isinstance(indices_or_sections, int):
        step = -(-x.shape[axis] // indices_or_sections)
        return np.split(x, [step * i for i in range(1, indices_or_sections)], axis)
    return np.split(x, list(indices_or_sections), axis)


def _split_layout(node: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    plan = along_axis(node, layouts, desired)
    if plan is None or not isinstance(node.struct_info_, TupleStructInfo):
        return None
    return replace(plan, results=(plan.results,) * len(node.struct_info_.fields))


def _split_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [concat(grad, node.attrs["axis"])]


@operator(
    "relax.split",
    moves=True,
    infer=_infer_split,
    legalize=_legalize_split,
    reference=_np_split,
    layout=_split_layout,
    gradient=_split_gradient,
    **_MOVES,
)
def split(x: Expr, indices_or_sections: int | Sequence[int], axis: int = 0) -> Expr:
    """Split along an axis: into a number of parts of equal extent (the last may be smaller), or before given indices."""
    if isinstance(indices_or_sections, int | IntImm):
        what: Any = int(indices_or_sections)
        if what < 1:
            raise IRValueError(f"relax.split: the number of sections must be positive, got {what}")
    else:
        what = [int(item) for item in indices_or_sections]
    return call("relax.split", x, attrs={"indices_or_sections": what, "axis": int(axis)})


# meshgrid, one_hot


def _infer_meshgrid(node: Call, builder: Any) -> StructInfo:
    infos = tuple_of_tensors(node, 0)
    dtype, vdevice = common_dtype(node, infos), common_vdevice(node, infos)
    dims = []
    for info in infos:
        if info.ndim not in (-1, 0, 1):
            raise fail(node, f"expected 1-dimensional tensors, got {info.ndim} dimensions")
        if info.shape_values is None:
            return TupleStructInfo([TensorStructInfo(None, dtype, vdevice, len(infos))] * len(infos))
        dims.append(info.shape_values[0] if info.shape_values else int64(1))
    if node.attrs["indexing"] == "xy" and len(dims) > 1:
        dims[0], dims[1] = dims[1], dims[0]
    return TupleStructInfo([TensorStructInfo(dims, dtype, vdevice)] * len(infos))


def _legalize_meshgrid(bb: Any, node: Call) -> Expr:
    tensors = node.args[0]
    items = (
        list(tensors.fields)
        if isinstance(tensors, Tuple)
        else [
            bb.emit(tensors[i])  # type: ignore[index]
            for i in range(len(tensors.struct_info.fields))
        ]
    )
    return bb.call_te(topi_function("meshgrid"), items, node.attrs["indexing"])


@operator(
    "relax.meshgrid",
    infer=_infer_meshgrid,
    legalize=_legalize_meshgrid,
    reference=lambda tensors, indexing: list(np.meshgrid(*tensors, indexing=indexing)),
    **_MOVES,
)
def meshgrid(tensors: Any, indexing: str | None = "ij") -> Expr:
    """Coordinate matrices from coordinate vectors; ``indexing`` is "ij" (matrix) or "xy" (Cartesian)."""
    indexing = indexing or "ij"
    if indexing not in ("ij", "xy"):
        raise IRValueError(f"relax.meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    return call("relax.meshgrid", _tensor_tuple(tensors), attrs={"indexing": indexing})


def _infer_one_hot(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 3)
    info = tensor_arg(node, 0)
    on, off = node.args[1].struct_info, node.args[2].struct_info
    if not isinstance(on, PrimStructInfo) or not isinstance(off, PrimStructInfo) or on.dtype != off.dtype:
        raise wrong_kind(
            node, f"on_value and off_value must be scalar values of one dtype, got {on} and {off}"
        )
    if info.ndim == -1:
        return TensorStructInfo(None, on.dtype, info.vdevice)
    axis = normalize_axis(node, info.ndim + 1, node.attrs["axis"])
    if info.shape_values is None:
        return TensorStructInfo(None, on.dtype, info.vdevice, info.ndim + 1)
    dims = list(info.shape_values)
    dims.insert(axis, int64(node.attrs["depth"]))
    return TensorStructInfo(dims, on.dtype, info.vdevice)


def _np_one_hot(indices: np.ndarray, on: float, off: float, depth: int, axis: int) -> np.ndarray:
    hot = indices[..., None] == np.arange(depth)  # an index out of range is nowhere hot
    return np.where(np.moveaxis(hot, -1, axis), on, off)


def _legalize_one_hot(bb: Any, node: Call) -> Expr:
    on, off = (arg.value for arg in node.args[1:])  # type: ignore[attr-defined]
    return bb.call_te(
        topi_function("one_hot"),
        node.args[0],
        on,
        off,
        node.attrs["depth"],
        node.attrs["axis"],
        on.dtype,
        primfunc_name_hint="one_hot",
    )


@operator("relax.one_hot", infer=_infer_one_hot, legalize=_legalize_one_hot, reference=_np_one_hot, **_MOVES)
def one_hot(indices: Expr, on_value: PrimValue, off_value: PrimValue, depth: int, axis: int = -1) -> Expr:
    """A new axis of extent ``depth`` that holds ``on_value`` at the index and ``off_value`` elsewhere."""
    return call("relax.one_hot", indices, on_value, off_value, attrs={"depth": int(depth), "axis": int(axis)})


__all__ = ["concat", "meshgrid", "one_hot", "split", "stack"]

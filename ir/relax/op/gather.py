"""Reading and writing elements at places that tensors of indices give: gathering, scattering, advanced indexing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtype as dt
from ... import te, topi
from ...error import IRValueError
from ...expr import RelaxExpr
from ...tir.expr import IntImm, PrimExpr
from ...tir.op import all as tir_all
from ...tir.op import if_then_else
from ...tir.operators import floordiv, floormod
from ..expr import Call, Expr, Tuple, convert_to_expr
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from .index import require_int, slice_length
from .inference import (
    as_int,
    broadcast_dims,
    check_arity,
    common_vdevice,
    fail,
    normalize_axis,
    prim_arg,
    require_dtype,
    show_dims,
    tensor_arg,
    tensor_args,
    wrong_kind,
)
from .legalization import topi_function
from .requirement import require_at_most, require_broadcast_shape, require_equal

FOLLOW = MixedPrecisionPolicy.FOLLOW
_MOVES: dict[str, Any] = {"mixed_precision": FOLLOW, "pattern": OpPatternKind.kInjective}


def _infer_gather_elements(node: Call, builder: Any) -> StructInfo:
    info, indices = tensor_args(node, 2)
    require_int(node, indices, "indices")
    if info.ndim != -1 and indices.ndim not in (-1, info.ndim):
        raise fail(
            node, f"indices must have as many dimensions as the data ({info.ndim}), got {indices.ndim}"
        )
    if info.ndim != -1:
        _require_inside(node, indices, info, normalize_axis(node, info.ndim, node.attrs["axis"]))
    return TensorStructInfo(indices.shape, info.dtype, common_vdevice(node, [info, indices]), indices.ndim)


def _require_inside(node: Call, indices: TensorStructInfo, info: TensorStructInfo, axis: int) -> None:
    """Along the other axes an element of the indices stands at its place in the data."""
    if indices.shape_values is None or info.shape_values is None:
        return
    for place, (found, limit) in enumerate(zip(indices.shape_values, info.shape_values, strict=True)):
        if place != axis:
            text = f"indices have extent {{}} along axis {place}, where the data has {{}}"
            require_at_most(node, found, limit, text)


def _legalize_gather_elements(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("gather"),
        node.args[0],
        node.attrs["axis"],
        node.args[1],
        primfunc_name_hint="gather",
    )


@operator(
    "relax.gather_elements",
    infer=_infer_gather_elements,
    legalize=_legalize_gather_elements,
    reference=lambda x, indices, axis: np.take_along_axis(x, indices, axis),
    undefined=(IndexError,),
    **_MOVES,
)
def gather_elements(data: Expr, indices: Expr, axis: int = 0) -> Expr:
    """``out[i, j, k] = data[indices[i, j, k], j, k]`` for axis 0, and likewise for others."""
    return call("relax.gather_elements", data, indices, attrs={"axis": int(axis)})


def _infer_gather_nd(node: Call, builder: Any) -> StructInfo:
    info, indices = tensor_args(node, 2)
    require_int(node, indices, "indices")
    batch = node.attrs["batch_dims"]
    vdevice = common_vdevice(node, [info, indices])
    if info.ndim == -1 or indices.ndim == -1:
        return TensorStructInfo(None, info.dtype, vdevice)
    if not 0 <= batch < indices.ndim:
        raise fail(node, f"batch_dims {batch} must be less than the {indices.ndim} dimensions of indices")
    depth = as_int(indices.shape_values[-1]) if indices.shape_values is not None else None
    if depth is None:
        return TensorStructInfo(None, info.dtype, vdevice)
    if batch + depth > info.ndim:
        raise fail(
            node,
            f"{depth} indices after {batch} batch dimensions exceed the {info.ndim} dimensions of the data",
        )
    ndim = indices.ndim - 1 + info.ndim - batch - depth
    if info.shape_values is None or indices.shape_values is None:
        return TensorStructInfo(None, info.dtype, vdevice, ndim)
    for axis in range(batch):
        text = f"indices and data have extents {{}} and {{}} along batch dimension {axis}"
        require_equal(node, indices.shape_values[axis], info.shape_values[axis], text)
    return TensorStructInfo(
        [*indices.shape_values[:-1], *info.shape_values[batch + depth :]], info.dtype, vdevice
    )


def _np_gather_nd(x: np.ndarray, indices: np.ndarray, batch_dims: int) -> np.ndarray:
    depth = indices.shape[-1]
    grid = np.ix_(*[range(n) for n in indices.shape[:batch_dims]]) if batch_dims else ()
    extra = indices.ndim - 1 - batch_dims
    lead = tuple(g.reshape(g.shape + (1,) * extra) for g in grid)
    return x[lead + tuple(indices[..., i] for i in range(depth))]


def _legalize_gather_nd(bb: Any, node: Call) -> Expr:
    def te_gather_nd(data: Any, indices: Any) -> Any:
        # topi keeps the index vector in the first dimension
        order = [len(indices.shape) - 1, *range(len(indices.shape) - 1)]
        return topi_function("gather_nd")(
            data, topi_function("transpose")(indices, order), node.attrs["batch_dims"]
        )

    return bb.call_te(te_gather_nd, *node.args, primfunc_name_hint="gather_nd")


@operator(
    "relax.gather_nd",
    infer=_infer_gather_nd,
    legalize=_legalize_gather_nd,
    reference=_np_gather_nd,
    undefined=(IndexError,),
    **_MOVES,
)
def gather_nd(data: Expr, indices: Expr, batch_dims: int = 0) -> Expr:
    """The slices of ``data`` at the index vectors in the last dimension of ``indices``."""
    return call("relax.gather_nd", data, indices, attrs={"batch_dims": int(batch_dims)})


def _index_list(node: Call, index: int) -> list[TensorStructInfo]:
    info = node.args[index].struct_info
    if not isinstance(info, TupleStructInfo) or not all(
        isinstance(item, TensorStructInfo) for item in info.fields
    ):
        raise wrong_kind(node, f"indices must be a tuple of tensors, got {info}")
    for item in info.fields:
        require_dtype(node, item, lambda d: dt.is_integral(d), "integer indices")  # type: ignore[arg-type]
    return list(info.fields)  # type: ignore[arg-type]


def _infer_index_tensor(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info = tensor_arg(node, 0)
    indices = _index_list(node, 1)
    if not indices:
        raise fail(node, "expected at least one index tensor")
    if info.ndim == -1 or any(item.ndim == -1 for item in indices):
        return TensorStructInfo(None, info.dtype, info.vdevice)
    if len(indices) > info.ndim:
        raise fail(node, f"{len(indices)} indices for {info.ndim} dimensions")
    ndim = max(item.ndim for item in indices) + info.ndim - len(indices)
    dims: Any = ()
    for item in indices:
        dims = (
            None
            if dims is None or item.shape_values is None
            else broadcast_dims(node, dims, item.shape_values)
        )
    if dims is None or info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, ndim)
    return TensorStructInfo([*dims, *info.shape_values[len(indices) :]], info.dtype, info.vdevice)


def _tuple_items(bb: Any, expr: Any) -> list[Any]:
    if isinstance(expr, Tuple):
        return list(expr.fields)
    return [bb.emit(expr[i]) for i in range(len(expr.struct_info.fields))]


def _legalize_index_tensor(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("adv_index"),
        node.args[0],
        _tuple_items(bb, node.args[1]),
        primfunc_name_hint="index_tensor",
    )


@operator(
    "relax.index_tensor",
    infer=_infer_index_tensor,
    legalize=_legalize_index_tensor,
    reference=lambda x, indices: x[tuple(indices)],
    undefined=(IndexError,),
    **_MOVES,
)
def index_tensor(data: Expr, indices: Any) -> Expr:
    """Advanced indexing of the leading dimensions with broadcast index tensors, as ``data[i, j]`` in numpy."""
    return call("relax.index_tensor", data, indices if isinstance(indices, RelaxExpr) else Tuple(indices))


# scatter


def _check_reduction(op: str, reduction: str, allowed: Sequence[str]) -> None:
    if reduction not in allowed:
        raise IRValueError(f"{op}: reduction must be one of {', '.join(allowed)}, got {reduction!r}")


def _infer_scatter_elements(node: Call, builder: Any) -> StructInfo:
    info, indices, updates = tensor_args(node, 3)
    require_int(node, indices, "indices")
    if info.dtype and updates.dtype and info.dtype != updates.dtype:
        raise wrong_kind(node, f"updates must have the data's dtype {info.dtype}, got {updates.dtype}")
    known = {item.ndim for item in (info, indices, updates)} - {-1}
    if len(known) > 1:
        raise fail(node, f"data, indices and updates must have one number of dimensions, got {sorted(known)}")
    if info.ndim != -1:
        _require_inside(node, indices, info, normalize_axis(node, info.ndim, node.attrs["axis"]))
    if indices.shape_values is not None and updates.shape_values is not None:
        for place, (found, limit) in enumerate(zip(indices.shape_values, updates.shape_values, strict=True)):
            text = f"indices have extent {{}} along axis {place}, where the updates have {{}}"
            require_at_most(node, found, limit, text)
    return TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)


_COMBINE: dict[str, Any] = {
    "update": lambda a, b: b,
    "add": np.add,
    "mul": np.multiply,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
}


def _np_scatter_elements(
    x: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int, reduction: str
) -> np.ndarray:
    out, count = x.copy(), np.ones(x.shape, "int64")
    for place in np.ndindex(*indices.shape):
        target = list(place)
        target[axis] = indices[place]
        out[tuple(target)] = _COMBINE[reduction](out[tuple(target)], updates[place])
        count[tuple(target)] += 1
    return (out / count).astype(x.dtype) if reduction == "mean" else out


def _legalize_scatter_elements(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("scatter_elements"),
        *node.args,
        node.attrs["axis"],
        node.attrs["reduction"],
        primfunc_name_hint="scatter_elements",
    )


@operator(
    "relax.scatter_elements",
    infer=_infer_scatter_elements,
    legalize=_legalize_scatter_elements,
    reference=_np_scatter_elements,
    undefined=(IndexError,),
    mixed_precision=FOLLOW,
    pattern=OpPatternKind.kOpaque,
)
def scatter_elements(
    data: Expr, indices: Expr, updates: Expr, axis: int = 0, reduction: str = "update"
) -> Expr:
    """A copy of ``data`` with ``out[indices[i, j], j] = updates[i, j]`` for axis 0, and likewise for others.

    ``reduction`` tells how an update meets the value there: "update", "add", "mul", "mean", "max", "min".
    """
    _check_reduction("relax.scatter_elements", reduction, list(_COMBINE))
    attrs = {"axis": int(axis), "reduction": reduction}
    return call("relax.scatter_elements", data, indices, updates, attrs=attrs)


def _infer_scatter_nd(node: Call, builder: Any) -> StructInfo:
    info, indices, updates = tensor_args(node, 3)
    require_int(node, indices, "indices")
    if info.dtype and updates.dtype and info.dtype != updates.dtype:
        raise wrong_kind(node, f"updates must have the data's dtype {info.dtype}, got {updates.dtype}")
    if indices.shape_values is not None and info.ndim != -1:
        depth = as_int(indices.shape_values[-1])
        if depth is not None and depth > info.ndim:
            raise fail(node, f"index vectors of length {depth} for {info.ndim} dimensions")
        if depth is not None and info.shape_values is not None:
            _check_slices(node, [*indices.shape_values[:-1], *info.shape_values[depth:]], updates)
    return TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)


def _check_slices(node: Call, wanted: list[PrimExpr], updates: TensorStructInfo) -> None:
    """There is an update for every index vector, a slice of the data."""
    if updates.ndim not in (-1, len(wanted)):
        raise fail(node, f"updates must have {len(wanted)} dimensions, got {updates.ndim}")
    for axis, (found, extent) in enumerate(zip(updates.shape_values or (), wanted, strict=False)):
        require_equal(node, found, extent, f"updates have extent {{}} along axis {axis}, not {{}}")


def _np_scatter_nd(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, reduction: str) -> np.ndarray:
    out = x.copy()
    for place in np.ndindex(*indices.shape[:-1]):
        target = tuple(indices[place])
        out[target] = _COMBINE[reduction](out[target], updates[place])
    return out


def _legalize_scatter_nd(bb: Any, node: Call) -> Expr:
    def te_scatter_nd(data: Any, indices: Any, updates: Any) -> Any:
        # topi keeps the index vector in the first dimension
        order = [len(indices.shape) - 1, *range(len(indices.shape) - 1)]
        moved = topi_function("transpose")(indices, order)
        return topi_function("scatter_nd")(data, moved, updates, node.attrs["reduction"])

    return bb.call_te(te_scatter_nd, *node.args, primfunc_name_hint="scatter_nd")


@operator(
    "relax.scatter_nd",
    infer=_infer_scatter_nd,
    legalize=_legalize_scatter_nd,
    reference=_np_scatter_nd,
    undefined=(IndexError,),
    mixed_precision=FOLLOW,
    pattern=OpPatternKind.kOpaque,
)
def scatter_nd(data: Expr, indices: Expr, updates: Expr, reduction: str = "update") -> Expr:
    """A copy of ``data`` with the slices at the index vectors (last dimension of ``indices``) replaced by ``updates``.

    ``reduction`` tells how an update meets the value there: "update", "add", "mul", "max", "min".
    """
    _check_reduction("relax.scatter_nd", reduction, ["update", "add", "mul", "max", "min"])
    return call("relax.scatter_nd", data, indices, updates, attrs={"reduction": reduction})


def _infer_index_put(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 3)
    info, values = tensor_arg(node, 0), tensor_arg(node, 2)
    indices = _index_list(node, 1)
    if info.ndim != -1 and len(indices) > info.ndim:
        raise fail(node, f"{len(indices)} indices for {info.ndim} dimensions")
    if info.dtype and values.dtype and info.dtype != values.dtype:
        raise wrong_kind(node, f"values must have the data's dtype {info.dtype}, got {values.dtype}")
    shapes = [item.shape_values for item in indices if item.shape_values is not None]
    if info.shape_values is not None and len(shapes) == len(indices):
        _check_values(node, topi.broadcast_shape(*shapes), info.shape_values[len(indices) :], values)
    return TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)


def _check_values(node: Call, places: Any, rest: Any, values: TensorStructInfo) -> None:
    """Indices broadcast to one shape of places, values to that of all elements at these."""
    for number, item in enumerate(_index_list(node, 1)):
        text = f"index tensor {number} of shape {show_dims(item.shape_values or ())} cannot be broadcast to {show_dims(places)}"
        require_broadcast_shape(node, item.shape_values or (), places, text)
    if values.shape_values is not None:
        wanted = [*places, *rest]
        text = f"values of shape {show_dims(values.shape_values)} cannot be broadcast to {show_dims(wanted)}"
        require_broadcast_shape(node, values.shape_values, wanted, text)


def _np_index_put(x: np.ndarray, indices: Any, values: np.ndarray, accumulate: bool) -> np.ndarray:
    out = x.copy()
    if accumulate:
        np.add.at(out, tuple(indices), values)
    else:
        out[tuple(indices)] = values
    return out


def _legalize_index_put(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("index_put"),
        node.args[0],
        _tuple_items(bb, node.args[1]),
        node.args[2],
        node.attrs["accumulate"],
        primfunc_name_hint="index_put",
    )


@operator(
    "relax.index_put",
    infer=_infer_index_put,
    legalize=_legalize_index_put,
    reference=_np_index_put,
    undefined=(IndexError,),
    mixed_precision=FOLLOW,
    pattern=OpPatternKind.kOpaque,
)
def index_put(data: Expr, indices: Any, values: Expr, accumulate: bool = False) -> Expr:
    """A copy of ``data`` with the elements at the index tensors set to (or, accumulating, increased by) ``values``."""
    if not isinstance(indices, RelaxExpr):
        indices = Tuple(indices)
    return call("relax.index_put", data, indices, values, attrs={"accumulate": bool(accumulate)})


def _slice_scatter_prims(node: Call) -> list[PrimExpr]:
    values = [prim_arg(node, index) for index in (2, 3, 4)]
    if any(value is None for value in values):
        raise fail(node, "start, end and step must be known")
    return values  # type: ignore[return-value]


def _infer_slice_scatter(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 5)
    info, src = tensor_arg(node, 0), tensor_arg(node, 1)
    if info.dtype and src.dtype and info.dtype != src.dtype:
        raise wrong_kind(node, f"src must have the data's dtype {info.dtype}, got {src.dtype}")
    if info.ndim != -1 and src.ndim not in (-1, info.ndim):
        raise fail(node, f"src must have {info.ndim} dimensions, got {src.ndim}")
    step = prim_arg(node, 4)
    if isinstance(step, IntImm) and step.value < 1:
        raise fail(node, f"step must be positive, got {step.value}")
    if info.shape_values is not None and src.shape_values is not None and isinstance(step, IntImm):
        axis = normalize_axis(node, info.ndim, node.attrs["axis"])
        extents = list(info.shape_values)
        begin, end, by = _slice_scatter_prims(node)
        _, extents[axis] = slice_length(node, begin, end, by, extents[axis], False, builder)
        for place, (found, wanted) in enumerate(zip(src.shape_values, extents, strict=True)):
            text = f"src has extent {{}} along axis {place}, the slice {{}}"
            require_equal(node, found, wanted, text)
    return TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)


def _np_slice_scatter(
    x: np.ndarray, src: np.ndarray, start: int, end: int, step: int, axis: int
) -> np.ndarray:
    out = x.copy()
    index: list[Any] = [slice(None)] * x.ndim
    index[axis] = slice(start, end, step)
    out[tuple(index)] = src
    return out


def _legalize_slice_scatter(bb: Any, node: Call) -> Expr:
    info = tensor_arg(node, 0)
    axis = normalize_axis(node, info.ndim, node.attrs["axis"])
    start, end, step = _slice_scatter_prims(node)
    first, _ = slice_length(node, start, end, step, info.shape_values[axis], False, bb)  # type: ignore[index]

    def te_slice_scatter(data: Any, src: Any, begin: Any, by: Any) -> Any:
        def element(*indices: Any) -> Any:
            offset = indices[axis] - begin
            place = floordiv(offset, by)
            inside = tir_all(offset >= 0, floormod(offset, by) == 0, place < src.shape[axis])
            source = [place if i == axis else index for i, index in enumerate(indices)]
            return if_then_else(inside, src(*source), data(*indices))

        return te.compute(data.shape, element, name="slice_scatter")

    return bb.call_te(te_slice_scatter, *node.args[:2], first, step, primfunc_name_hint="slice_scatter")


@operator(
    "relax.slice_scatter",
    infer=_infer_slice_scatter,
    legalize=_legalize_slice_scatter,
    reference=_np_slice_scatter,
    **_MOVES,
)
def slice_scatter(input_tensor: Expr, src: Expr, start: Any, end: Any, step: Any, axis: int = 0) -> Expr:
    """A copy of ``input_tensor`` whose slice ``start:end:step`` along an axis is replaced by ``src``."""
    return call(
        "relax.slice_scatter",
        input_tensor,
        src,
        *(convert_to_expr(v) for v in (start, end, step)),
        attrs={"axis": int(axis)},
    )


__all__ = [
    "gather_elements",
    "gather_nd",
    "index_put",
    "index_tensor",
    "scatter_elements",
    "scatter_nd",
    "slice_scatter",
]

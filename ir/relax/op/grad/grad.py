"""Markers for differentiation, and gradients of operators that need kernels of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import te
from ....tir.op import all as tir_all
from ....tir.op import any as tir_any
from ....tir.op import if_then_else, max_identity, max_value
from ....tir.op import max as tir_max
from ....tir.op import min as tir_min
from ....tir.operators import const, floordiv, floormod
from ....topi.indexing import in_range, with_extent
from ...expr import Call, Expr
from ...struct_info import StructInfo, TensorStructInfo
from ..declaration import MixedPrecisionPolicy, OpPatternKind, call, make, operator
from ..gradient import of_one_operand
from ..inference import infer_unary_any, require_float, tensor_arg
from ..layout_rule import elementwise
from ..legalization import topi_function
from ..memory_effect import view_of
from ..nn.conv import full_padding, per_axis

FOLLOW = MixedPrecisionPolicy.FOLLOW


def _marker(name: str, gradient: Any, doc: str) -> Any:
    def build(input: Expr) -> Expr:
        return call(f"relax.grad.{name}", input)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return operator(
        f"relax.grad.{name}",
        infer=infer_unary_any,
        legalize=lambda bb, node: node.args[0],
        reference=lambda x: x,
        memory=view_of(0),
        gradient=of_one_operand(gradient),
        mixed_precision=FOLLOW,
        pattern=OpPatternKind.kElemWise,
        layout=elementwise,
    )(build)


no_grad = _marker(
    "no_grad", lambda x, y, g: make.zeros_like(x), "The tensor itself, through which no gradient flows."
)
start_checkpoint = _marker(
    "start_checkpoint",
    lambda x, y, g: g,
    "The tensor itself; what follows up to end_checkpoint is computed again backward.",
)
end_checkpoint = _marker(
    "end_checkpoint", lambda x, y, g: g, "The tensor itself; ends what start_checkpoint began."
)


def _infer_like_second(node: Call, builder: Any) -> StructInfo:
    """A gradient has the struct info of the value that it is of (the second argument)."""
    info = tensor_arg(node, 1)
    return TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)


def _infer_float_like_second(node: Call, builder: Any) -> StructInfo:
    require_float(node, tensor_arg(node, 1))
    return _infer_like_second(node, builder)


def _np_nll_loss_backward(
    grad: np.ndarray,
    x: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> np.ndarray:
    single = x.ndim == 1
    if single:
        x, targets = x[None], targets[None]
    w = np.ones(x.shape[1], x.dtype) if weights is None else weights
    safe = np.where(targets == ignore_index, 0, targets)
    factor = np.where(targets == ignore_index, 0, w[safe])
    scale = grad if reduction != "mean" else grad / factor.sum()
    out = np.zeros_like(x)
    np.put_along_axis(out, np.expand_dims(safe, 1), np.expand_dims(-factor * scale, 1), 1)
    return out[0] if single else out


def _legalize_nll_loss_backward(bb: Any, node: Call) -> Expr:
    reduction, ignore_index = node.attrs["reduction"], node.attrs["ignore_index"]

    def te_nll_loss_backward(grad: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        dtype = predictions.dtype
        single = len(predictions.shape) == 1
        zero = const(0, dtype)

        def factor(*i: Any) -> Any:
            t = targets(*i)
            return if_then_else(t != ignore_index, const(1, dtype) if weights is None else weights(t), zero)

        share = te.compute(targets.shape, factor, name="weight")
        total = topi_function("sum")(share) if reduction == "mean" else None

        def element(*i: Any) -> Any:
            place = () if single else (i[0], *i[2:])
            label = i[0] if single else i[1]
            scale = grad(*place) if reduction == "none" else grad()
            if total is not None:
                scale = scale / total()
            target, position = with_extent(targets(*place), label)
            return if_then_else(target.equal(position), -share(*place) * scale, zero)

        return te.compute(predictions.shape, element, name="pred_grad")

    return bb.call_te(te_nll_loss_backward, *node.args, primfunc_name_hint="nll_loss_backward")


@operator(
    "relax.grad.nll_loss_backward",
    infer=_infer_float_like_second,
    legalize=_legalize_nll_loss_backward,
    reference=_np_nll_loss_backward,
    undefined=(IndexError,),
)
def nll_loss_backward(
    output_grad: Expr,
    predictions: Expr,
    targets: Expr,
    weights: Expr | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Expr:
    """The gradient of nll_loss with respect to the predictions."""
    args = [output_grad, predictions, targets] + ([] if weights is None else [weights])
    attrs = {"reduction": reduction, "ignore_index": int(ignore_index)}
    return call("relax.grad.nll_loss_backward", *args, attrs=attrs)


def _windows(x: np.ndarray, attrs: dict[str, Any]) -> Any:
    """(output place, taps inside the image, number of taps inside the padded image) of 2D pooling."""
    pads, size, steps, dil = attrs["padding"], attrs["pool_size"], attrs["strides"], attrs["dilation"]
    counts = []
    for i in range(2):
        space = x.shape[2 + i] + pads[i] + pads[i + 2] - (size[i] - 1) * dil[i] - 1
        counts.append((space + (steps[i] - 1 if attrs["ceil_mode"] else 0)) // steps[i] + 1)
    for place in np.ndindex(*counts):
        taps, padded = [], []
        for i in range(2):
            every = [place[i] * steps[i] - pads[i] + k * dil[i] for k in range(size[i])]
            taps.append([t for t in every if 0 <= t < x.shape[2 + i]])
            padded.append([t for t in every if t < x.shape[2 + i] + pads[i + 2]])
        yield place, taps, len(padded[0]) * len(padded[1])


def _in_nchw(backward: Any) -> Any:
    """A reference for the layout NCHW as one for any."""

    def moved(grad: np.ndarray, x: np.ndarray, **attrs: Any) -> np.ndarray:
        layout, out_layout = attrs["layout"], attrs["out_layout"]
        grad = grad.transpose([out_layout.index(letter) for letter in "NCHW"])
        found = backward(grad, x.transpose([layout.index(letter) for letter in "NCHW"]), **attrs)
        return np.asarray(found.transpose(["NCHW".index(letter) for letter in layout]))

    return moved


def _np_max_pool_backward(grad: np.ndarray, x: np.ndarray, **attrs: Any) -> np.ndarray:
    out = np.zeros_like(x)
    for (i, j), (rows, columns), _ in _windows(x, attrs):
        if not rows or not columns:
            continue  # a window of padding
        patch = x[:, :, rows][:, :, :, columns]
        best = patch.reshape(*x.shape[:2], len(rows) * len(columns)).argmax(-1)
        for n, c in np.ndindex(*x.shape[:2]):
            r, s = divmod(int(best[n, c]), len(columns))
            out[n, c, rows[r], columns[s]] += grad[n, c, i, j]
    return out


def _np_avg_pool_backward(grad: np.ndarray, x: np.ndarray, **attrs: Any) -> np.ndarray:
    out = np.zeros_like(x)
    for (i, j), (rows, columns), total in _windows(x, attrs):
        count = total if attrs["count_include_pad"] else len(rows) * len(columns)
        for r in rows:
            for s in columns:
                out[:, :, r, s] += grad[:, :, i, j] / count
    return out


def _legalize_pool_backward(kind: str) -> Any:
    def legalize(bb: Any, node: Call) -> Expr:
        layout, out_layout = node.attrs["layout"], node.attrs["out_layout"]
        backward = _te_pool_backward(kind, node.attrs)

        def te_function(grad: Any, data: Any) -> Any:
            moved = [_permuted(item, name, "NCHW") for item, name in ((grad, out_layout), (data, layout))]
            return _permuted(backward(*moved), "NCHW", layout)

        return bb.call_te(te_function, *node.args, primfunc_name_hint=f"{kind}_pool2d_backward")

    return legalize


def _permuted(tensor: Any, layout: str, wanted: str) -> Any:
    """The tensor with its axes in another order, which letters name."""
    return (
        tensor if layout == wanted else topi_function("transpose")(tensor, [layout.index(c) for c in wanted])
    )


def _te_pool_backward(kind: str, attrs: Any) -> Any:
    """Every element of the data sums the gradients of the windows that it is in (or, for max, is the first largest of)."""
    size, steps, pads, apart = attrs["pool_size"], attrs["strides"], attrs["padding"], attrs["dilation"]

    def window_of(grad: Any, h: Any, w: Any, taps: list[Any]) -> tuple[Any, list[Any]]:
        """The window in which element (h, w) has the place ``taps``, and when there is one."""
        inside, index = [], []
        for axis, (place, tap) in enumerate(zip((h, w), taps, strict=True)):
            shifted = place + pads[axis] - tap * apart[axis]
            number = floordiv(shifted, steps[axis])
            inside += [shifted >= 0, floormod(shifted, steps[axis]) == 0, number < grad.shape[2 + axis]]
            index.append(number)
        return tir_all(*inside), index

    def te_avg(grad: Any, data: Any) -> Any:
        taps = [te.reduce_axis((0, size[i]), name=f"k{i}") for i in range(2)]

        def count(index: list[Any]) -> Any:
            total: Any = const(1, "int64")
            for i in range(2):
                first = index[i] * steps[i] - pads[i]
                limit = data.shape[2 + i] + (pads[i + 2] if attrs["count_include_pad"] else 0)
                end = tir_min(floordiv(limit - first + (apart[i] - 1), apart[i]), const(size[i], first.dtype))
                ahead = tir_max(floordiv(apart[i] - 1 - first, apart[i]), const(0, first.dtype))
                total = total * (end if attrs["count_include_pad"] else end - ahead).astype("int64")
            return total.astype(grad.dtype)

        def element(n: Any, c: Any, h: Any, w: Any) -> Any:
            inside, index = window_of(grad, h, w, taps)
            value = grad(n, c, *index) / count(index)
            return te.sum(if_then_else(inside, value, const(0, grad.dtype)), axis=taps)

        return te.compute(data.shape, element, name="avg_pool2d_backward")

    def te_max(grad: Any, data: Any) -> Any:
        height, width = data.shape[2], data.shape[3]

        def tapped(i: Any, j: Any, taps: list[Any]) -> tuple[Any, Any, Any]:
            y = i * steps[0] - pads[0] + taps[0] * apart[0]
            x = j * steps[1] - pads[1] + taps[1] * apart[1]
            return tir_all(y >= 0, y < height, x >= 0, x < width), y, x

        outer = [te.reduce_axis((0, size[i]), name=f"p{i}") for i in range(2)]

        def largest(n: Any, c: Any, i: Any, j: Any) -> Any:
            inside, y, x = tapped(i, j, outer)
            return te.max(if_then_else(inside, data[n, c, y, x], max_identity(data.dtype)), axis=outer)

        peak = te.compute(grad.shape, largest, name="pool_max")
        inner = [te.reduce_axis((0, size[i]), name=f"q{i}") for i in range(2)]

        def first(n: Any, c: Any, i: Any, j: Any) -> Any:
            inside, y, x = tapped(i, j, inner)
            value, top = data[n, c, y, x], peak[n, c, i, j]
            found = tir_any(value.equal(top), tir_all(value != value, top != top))  # NaN is the largest
            hit = if_then_else(inside, found, const(False, "bool"))
            return te.min(if_then_else(hit, (y * width + x).astype("int64"), max_value("int64")), axis=inner)

        place = te.compute(grad.shape, first, name="pool_argmax")
        taps = [te.reduce_axis((0, size[i]), name=f"k{i}") for i in range(2)]

        def element(n: Any, c: Any, h: Any, w: Any) -> Any:
            inside, index = window_of(grad, h, w, taps)
            here = (h * width + w).astype("int64")
            chosen = if_then_else(inside, place(n, c, *index) == here, const(False, "bool"))
            return te.sum(if_then_else(chosen, grad(n, c, *index), const(0, grad.dtype)), axis=taps)

        return te.compute(data.shape, element, name="max_pool2d_backward")

    return te_max if kind == "max" else te_avg


def _pool_backward(kind: str, reference: Any) -> Any:
    name = f"relax.grad.{kind}_pool2d_backward"

    def build(
        output_grad: Expr,
        data: Expr,
        pool_size: int | Sequence[int] = (1, 1),
        strides: int | Sequence[int] = (1, 1),
        padding: int | Sequence[int] = (0, 0, 0, 0),
        dilation: int | Sequence[int] = (1, 1),
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: str = "NCHW",
        out_layout: str | None = None,
    ) -> Expr:
        attrs = {
            "pool_size": per_axis(pool_size, 2, name, "pool_size"),
            "strides": per_axis(strides, 2, name, "strides"),
            "padding": full_padding(padding, 2, name),
            "dilation": per_axis(dilation, 2, name, "dilation"),
            "ceil_mode": bool(ceil_mode),
            "count_include_pad": bool(count_include_pad),
            "layout": layout,
            "out_layout": out_layout or layout,
        }
        return call(name, output_grad, data, attrs=attrs)

    build.__name__ = build.__qualname__ = f"{kind}_pool2d_backward"
    build.__doc__ = f"The gradient of {kind}_pool2d with respect to its data; attributes as there."
    return operator(
        name,
        infer=_infer_float_like_second,
        legalize=_legalize_pool_backward(kind),
        reference=_in_nchw(reference),
    )(build)


max_pool2d_backward = _pool_backward("max", _np_max_pool_backward)
avg_pool2d_backward = _pool_backward("avg", _np_avg_pool_backward)


def _np_take_backward(
    grad: np.ndarray, x: np.ndarray, indices: np.ndarray, axis: int | None, mode: str
) -> np.ndarray:
    """What a take whose indices are in range, in one of the four ways, hands back to the rows that it read."""
    out = np.zeros_like(x)
    place = 0 if axis is None else axis % x.ndim
    extent, rows = x.shape[place], np.moveaxis(out, place, 0)
    for where in np.ndindex(*indices.shape):
        index, part = int(indices[where]), grad[(*[slice(None)] * place, *where)]
        if mode == "nan" and not 0 <= index < extent:
            continue
        if mode == "clip":
            index = min(max(index, 0), extent - 1)
        rows[index % extent if mode == "wrap" else index] += part
    return out


def _legalize_take_backward(bb: Any, node: Call) -> Expr:
    """Every element of the result sums the gradients of the takes that read it."""
    axis, mode = node.attrs.get("axis"), node.attrs["mode"]

    def te_take_backward(grad: Any, x: Any, indices: Any) -> Any:
        place = 0 if axis is None else axis % len(x.shape)
        count = len(indices.shape)
        taps = [te.reduce_axis((0, extent), name=f"k{i}") for i, extent in enumerate(indices.shape)]

        def element(*i: Any) -> Any:
            row, position = with_extent(in_range(indices(*taps), x.shape[place], mode), i[place])
            hit = row.equal(position)
            value = grad(*i[:place], *taps, *i[place + 1 :])
            if not count:
                return if_then_else(hit, value, const(0, x.dtype))
            return te.sum(if_then_else(hit, value, const(0, x.dtype)), axis=taps)

        return te.compute(x.shape, element, name="take_backward")

    return bb.call_te(te_take_backward, *node.args, primfunc_name_hint="take_backward")


@operator(
    "relax.grad.take_backward",
    infer=_infer_like_second,
    legalize=_legalize_take_backward,
    reference=_np_take_backward,
    undefined=(IndexError,),
)
def take_backward(
    output_grad: Expr, x: Expr, indices: Expr, axis: int | None = None, mode: str = "fast"
) -> Expr:
    """The gradient of take with respect to ``x``; attributes as there."""
    attrs = {"axis": None if axis is None else int(axis), "mode": mode}
    return call("relax.grad.take_backward", output_grad, x, indices, attrs=attrs)


__all__ = [
    "avg_pool2d_backward",
    "end_checkpoint",
    "max_pool2d_backward",
    "nll_loss_backward",
    "no_grad",
    "start_checkpoint",
    "take_backward",
]

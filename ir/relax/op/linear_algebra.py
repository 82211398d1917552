"""Products of matrices and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...error import IRValueError
from ...expr import RelaxExpr
from ...tir.expr import IntImm, PrimExpr
from ...topi.accumulate import accumulator, rounded
from ..expr import Call, Expr, Tuple, Var
from ..struct_info import StructInfo, TensorStructInfo, as_dim
from .array import in_float32, in_out_dtype
from .binary import add
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, make, operator
from .gradient import fitted, in_wider_dtype, tensor_info
from .inference import (
    as_int,
    broadcast_dims,
    common_dtype,
    common_vdevice,
    fail,
    optional_dtype,
    show_dims,
    tensor_args,
    tuple_of_tensors,
)
from .legalization import topi_function
from .manipulate import permute_dims
from .requirement import require_equal


def _infer_matmul(node: Call, builder: Any) -> StructInfo:
    a, b = tensor_args(node, 2)
    out = node.attrs.get("out_dtype") or common_dtype(node, [a, b])
    vdevice = common_vdevice(node, [a, b])
    if a.ndim == -1 or b.ndim == -1:
        return TensorStructInfo(None, out, vdevice)
    if a.ndim == 0 or b.ndim == 0:
        raise fail(node, "operands must have at least one dimension, got a scalar")
    # A vector is a matrix of one row (left) or column (right) whose extra dimension is dropped from the result.
    row, column = a.ndim == 1, b.ndim == 1
    ndim = max(a.ndim + row, b.ndim + column) - row - column
    left, right = a.shape_values, b.shape_values
    if left is None or right is None:
        return TensorStructInfo(None, out, vdevice, ndim)
    inner, outer = left[-1], right[0] if column else right[-2]
    require_equal(
        node,
        inner,
        outer,
        f"shapes {show_dims(left)} and {show_dims(right)} do not match: the last extent of the first ({{}})"
        f" must be the {'first' if column else 'second to last'} of the second ({{}})",
    )
    batch = broadcast_dims(node, left[:-2], right[:-2])
    if batch is None:
        return TensorStructInfo(None, out, vdevice, ndim)
    dims = [*batch]
    if not row:
        dims.append(left[-2])
    if not column:
        dims.append(right[-1])
    return TensorStructInfo(dims, out, vdevice)


def _legalize_matmul(bb: Any, node: Call) -> Expr:
    out_dtype = node.struct_info.dtype
    total = accumulator(out_dtype)

    def te_matmul(a: Any, b: Any) -> Any:
        a_shape, b_shape = list(a.shape), list(b.shape)
        row, column = len(a_shape) == 1, len(b_shape) == 1
        if row:
            a_shape = [1, *a_shape]
        if column:
            b_shape = [*b_shape, 1]
        a_batch, b_batch = a_shape[:-2], b_shape[:-2]
        out_batch = broadcast_dims(node, [_dim(d) for d in a_batch], [_dim(d) for d in b_batch])
        out_shape = [*(out_batch or ()), *([] if row else [a_shape[-2]]), *([] if column else [b_shape[-1]])]
        k = te.reduce_axis((0, a_shape[-1]), name="k")

        def element(*indices: Any) -> Any:
            batch = indices[: len(out_batch or ())]
            rest = list(indices[len(batch) :])
            a_index: list[Any] = [*_broadcast_index(batch, a_batch), *([] if row else [rest.pop(0)]), k]
            b_index: list[Any] = [*_broadcast_index(batch, b_batch), k, *([] if column else [rest.pop(0)])]
            x, y = a(*a_index), b(*b_index)
            return te.sum(_cast(x, total) * _cast(y, total), axis=k)

        return rounded(te.compute(out_shape, element, name="matmul"), out_dtype)

    def _broadcast_index(batch: tuple[Any, ...], shape: list[Any]) -> list[Any]:
        used = batch[len(batch) - len(shape) :]
        return [
            IntImm(index.var.dtype if hasattr(index, "var") else index.dtype, 0)
            if as_int(_dim(extent)) == 1
            else index
            for index, extent in zip(used, shape, strict=True)
        ]

    return bb.call_te(te_matmul, node.args[0], node.args[1], primfunc_name_hint="matmul")


def _dim(value: Any) -> PrimExpr:
    return as_dim(value)


def _cast(value: Any, dtype: str) -> Any:
    return value if value.dtype == dtype else value.astype(dtype)


def _transposed(x: Expr) -> Expr:
    ndim = tensor_info(x).ndim
    return make.permute_dims(x, [*range(ndim - 2), ndim - 1, ndim - 2])  # type: ignore[no-any-return]


def _matmul_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """Products with the other operand; vectors become matrices of one row or column for it."""
    a, b = node.args
    row, column = tensor_info(a).ndim == 1, tensor_info(b).ndim == 1
    left = builder.emit(make.expand_dims(a, 0)) if row else a
    right = builder.emit(make.expand_dims(b, 1)) if column else b
    if row:
        grad = builder.emit(make.expand_dims(grad, -1 if column else -2))
    if column:
        grad = builder.emit(make.expand_dims(grad, -1))
    to_left = fitted(builder, matmul(grad, _transposed(right)), left)
    to_right = fitted(builder, matmul(_transposed(left), grad), right)
    return [
        make.squeeze(to_left, 0) if row else to_left,
        make.squeeze(to_right, 1) if column else to_right,
    ]


@operator(
    "relax.matmul",
    infer=_infer_matmul,
    legalize=_legalize_matmul,
    gradient=in_wider_dtype(_matmul_gradient),
    reference=in_out_dtype(np.matmul),
    mixed_precision=MixedPrecisionPolicy.ALWAYS,
    infer_mixed_precision=lambda node, out_dtype: _matmul(node.args[0], node.args[1], out_dtype),
    pattern=OpPatternKind.kOutEWiseFusable,
)
def matmul(x1: Expr, x2: Expr, out_dtype: str | None = None) -> Expr:
    """Matrix product with broadcasting over the leading dimensions, as ``numpy.matmul``.

    Args:
        x1, x2: tensors of one dtype.
        out_dtype: the dtype of the result; default that of the operands. Sums are taken in it, or in float32 if it is a
            narrower float.
    """
    return call("relax.matmul", x1, x2, attrs={"out_dtype": optional_dtype(out_dtype)})


def _matmul(x1: Expr, x2: Expr, out_dtype: str) -> Expr:
    return matmul(x1, x2, out_dtype)


def linear(data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: str | None = None) -> Expr:
    """``data @ weight.T + bias``: a composition of permute_dims, matmul and add."""
    result = matmul(data, permute_dims(weight), out_dtype=out_dtype)
    return add(result, bias) if bias is not None else result


def parse_einsum(subscripts: str, ndims: list[int]) -> tuple[list[str], str]:
    """Operand labels and output labels of an einsum, ellipses spelled out as upper-case letters.

    Raises:
        IRValueError: the subscripts do not fit the operands.
    """
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise IRValueError(f"relax.einsum: {subscripts!r} has {len(terms)} operands, got {len(ndims)}")
    spare = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in text]
    widest = max(
        (ndim - len(term) + 3 for term, ndim in zip(terms, ndims, strict=True) if "..." in term), default=0
    )
    batch = spare[:widest]
    inputs = []
    for term, ndim in zip(terms, ndims, strict=True):
        if "..." in term:
            count = ndim - (len(term) - 3)
            term = term.replace("...", "".join(batch[widest - count :]))
        if len(term) != ndim:
            raise IRValueError(
                f"relax.einsum: {term!r} of {subscripts!r} names {len(term)} dimensions, the operand has {ndim}"
            )
        inputs.append(term)
    if arrow:
        output = right.replace("...", "".join(batch))
    else:
        every = "".join(inputs)
        output = "".join(batch) + "".join(
            sorted(c for c in set(every) if every.count(c) == 1 and c not in batch)
        )
    return inputs, output


def _infer_einsum(node: Call, builder: Any) -> StructInfo:
    infos = tuple_of_tensors(node, 0)
    if not infos:
        raise fail(node, "expected at least one operand")
    dtype, vdevice = common_dtype(node, infos), common_vdevice(node, infos)
    if any(info.ndim == -1 for info in infos):
        return TensorStructInfo(None, dtype, vdevice)
    inputs, output = parse_einsum(node.attrs["subscripts"], [info.ndim for info in infos])
    extents: dict[str, PrimExpr] = {}
    for labels, info in zip(inputs, infos, strict=True):
        if info.shape_values is None:
            return TensorStructInfo(None, dtype, vdevice, len(output))
        for label, dim in zip(labels, info.shape_values, strict=True):
            known = extents.setdefault(label, dim)
            if as_int(known) == 1:
                extents[label] = dim
            elif as_int(dim) != 1:
                require_equal(node, known, dim, f"label {label!r} has both extent {{}} and {{}}")
    missing = [label for label in output if label not in extents]
    if missing:
        raise fail(node, f"output label {missing[0]!r} of {node.attrs['subscripts']!r} is in no operand")
    return TensorStructInfo([extents[label] for label in output], dtype, vdevice)


def _legalize_einsum(bb: Any, node: Call) -> Expr:
    operands = node.args[0]
    items = (
        list(operands.fields)
        if isinstance(operands, Tuple)
        else [
            bb.emit(operands[i])  # type: ignore[index]
            for i in range(len(operands.struct_info.fields))
        ]
    )
    return bb.call_te(topi_function("einsum"), node.attrs["subscripts"], *items)


def _np_einsum(operands: Any, subscripts: str) -> np.ndarray:
    return np.asarray(np.einsum(subscripts, *operands), operands[0].dtype)


@operator(
    "relax.einsum",
    infer=_infer_einsum,
    legalize=_legalize_einsum,
    reference=in_float32(_np_einsum),
    mixed_precision=MixedPrecisionPolicy.ALWAYS,
    pattern=OpPatternKind.kOutEWiseFusable,
)
def einsum(operands: Any, subscripts: str) -> Expr:
    """Einstein summation, as ``numpy.einsum(subscripts, *operands)``."""
    return call(
        "relax.einsum",
        operands if isinstance(operands, RelaxExpr) else Tuple(operands),
        attrs={"subscripts": subscripts},
    )


def _infer_outer(node: Call, builder: Any) -> StructInfo:
    a, b = tensor_args(node, 2)
    for info in (a, b):
        if info.ndim not in (-1, 1):
            raise fail(node, f"operands must be vectors, got {info.ndim} dimensions")
    dtype, vdevice = common_dtype(node, [a, b]), common_vdevice(node, [a, b])
    if a.shape_values is None or b.shape_values is None:
        return TensorStructInfo(None, dtype, vdevice, 2)
    return TensorStructInfo([a.shape_values[0], b.shape_values[0]], dtype, vdevice)


def _legalize_outer(bb: Any, node: Call) -> Expr:
    def te_outer(a: Any, b: Any) -> Any:
        return te.compute((a.shape[0], b.shape[0]), lambda i, j: a[i] * b[j], name="outer")

    return bb.call_te(te_outer, *node.args, primfunc_name_hint="outer")


@operator(
    "relax.outer",
    infer=_infer_outer,
    legalize=_legalize_outer,
    reference=np.outer,
    mixed_precision=MixedPrecisionPolicy.ALWAYS,
    pattern=OpPatternKind.kBroadcast,
)
def outer(x1: Expr, x2: Expr) -> Expr:
    """The products of all pairs of elements of two vectors."""
    return call("relax.outer", x1, x2)


__all__ = ["einsum", "linear", "matmul", "outer"]

"""Operators that move elements: shapes, parts, indices; and those that make tensors."""

from __future__ import annotations

import numpy as np

from ir import relax as rx
from ir import tir

from .case import BOTH, ROWS, case, floats, ints

R = rx.op

case("broadcast_to", lambda x: R.broadcast_to(x, (4, 2, 3)), floats(2, 1))
case("concat", lambda x, y: R.concat([x, y], 1), floats(2, 3), floats(2, 5), symbolic=BOTH)
case(
    "concat",
    lambda x, y: R.concat([x, y], 0),
    floats(2, 3),
    floats(4, 3),
    symbolic=ROWS,
    label="symbolic-axis",
)
case("stack", lambda x, y: R.stack([x, y], 1), floats(2, 3), floats(2, 3, seed=2), symbolic=BOTH)
case("expand_dims", lambda x: R.expand_dims(x, [0, -1]), floats(2, 3), symbolic=ROWS)
case("squeeze", lambda x: R.squeeze(x, 1), floats(2, 1, 3), symbolic=ROWS)
case("squeeze", lambda x: R.squeeze(x), floats(2, 1, 3), label="all")
case("flatten", R.flatten, floats(2, 3, 4), symbolic=ROWS)
case("reshape", lambda x: R.reshape(x, (-1, 6)), floats(4, 3), label="infer")
case("reshape", lambda x: R.reshape(x, (0, 2, -1)), floats(4, 6), symbolic=ROWS, label="copy")
case("permute_dims", lambda x: R.permute_dims(x, [2, 0, 1]), floats(2, 3, 4), symbolic=ROWS)
case("permute_dims", lambda x: R.permute_dims(x), floats(2, 3, 4), symbolic=ROWS, label="reverse")
case("flip", lambda x: R.flip(x, 1), floats(2, 3), symbolic=ROWS)
case("split", lambda x: R.split(x, 3, 1), floats(2, 6), symbolic=ROWS)
case("split", lambda x: R.split(x, [1, 4], 1), floats(2, 6), symbolic=ROWS, label="indices")
case("split", lambda x: R.split(x, 3, 1), floats(2, 7), symbolic=ROWS, label="uneven")
case("repeat", lambda x: R.repeat(x, 2, 1), floats(2, 3), symbolic=ROWS)
case("repeat", lambda x: R.repeat(x, 2), floats(2, 3), symbolic=ROWS, label="flat")
case("tile", lambda x: R.tile(x, (2, 1, 3)), floats(2, 3), symbolic=ROWS)
case("collapse_sum_to", lambda x: R.collapse_sum_to(x, (3, 1)), floats(2, 3, 4), symbolic=ROWS)
case("collapse_sum_like", R.collapse_sum_like, floats(2, 3, 4), floats(3, 1), symbolic=ROWS)
case("meshgrid", lambda x, y: R.meshgrid([x, y]), floats(3), floats(4), symbolic=ROWS)
case(
    "one_hot",
    lambda x: R.one_hot(
        x, rx.PrimValue(tir.const(1.0, "float32")), rx.PrimValue(tir.const(0.0, "float32")), 5
    ),
    ints(2, 3),
    symbolic=ROWS,
)
case(
    "layout_transform",
    lambda x: R.layout_transform(x, lambda i, j: (j // 4, i, j % 4)),
    floats(3, 8),
    symbolic=ROWS,
)
case(
    "layout_transform",
    lambda x: R.layout_transform(x, lambda i: (i // 4, i % 4), 2.0),
    floats(6),
    label="padded",
)

# creation
case("full", lambda: R.full((2, 3), 1.5, "float32"))
case("full_like", lambda x: R.full_like(x, 1.5), floats(2, 3), symbolic=ROWS)
case("ones", lambda: R.ones((2, 3), "float32"))
case("zeros", lambda: R.zeros((2, 3), "int32"))
case("ones_like", lambda x: R.ones_like(x), floats(2, 3), symbolic=ROWS)
case("zeros_like", lambda x: R.zeros_like(x, "int32"), floats(2, 3), symbolic=ROWS)
case("arange", lambda: R.arange(1, 10, 3))
case("arange", lambda: R.arange(0.0, 1.0, 0.25), label="float")
case("arange", lambda: R.arange(5, 0, -2), label="down")
case("eye", lambda: R.eye(3, 4, 1))
case("eye_like", lambda x: R.eye_like(x), floats(3, 4), symbolic=ROWS)
case("tril", lambda x: R.tril(x, 1), floats(4, 5), symbolic=ROWS)
case("triu", lambda x: R.triu(x, -1), floats(2, 4, 5), symbolic=ROWS)
case("hamming_window", lambda: R.hamming_window(6))
case("astype", lambda x: R.astype(x, "int32"), floats(2, 3), symbolic=ROWS)
case("wrap_param", lambda: R.wrap_param(rx.const([1.0, 2.0], "float16"), "float32"))

# indexing
case("take", lambda x, i: R.take(x, i, 1), floats(2, 5), ints(3), symbolic=ROWS)
case(
    "take", lambda x, i: R.take(x, i, 0), floats(5, 3), ints(2, 2), symbolic={(1, 0): "n"}, label="embedding"
)
case("take", lambda x: R.take(x, 2, 1), floats(2, 5), symbolic=ROWS, label="scalar")
case("strided_slice", lambda x: R.strided_slice(x, [0, 1], [0, 1], [2, 100]), floats(3, 6))
case(
    "strided_slice",
    lambda x: R.strided_slice(x, [1], [-2], [-100], [-2]),
    floats(3, 6),
    symbolic=ROWS,
    label="backwards",
)
case(
    "strided_slice",
    lambda x: R.strided_slice(x, [0], [1], [2**40], [2]),
    floats(7, 2),
    symbolic=ROWS,
    label="symbolic",
)
case(
    "dynamic_strided_slice",
    R.dynamic_strided_slice,
    floats(5, 6),
    np.asarray([1, -1]),
    np.asarray([4, -9]),
    np.asarray([2, -2]),
)
case("gather_elements", lambda x, i: R.gather_elements(x, i, 1), floats(2, 5), ints(2, 3), symbolic=BOTH)
case("gather_nd", R.gather_nd, floats(5, 6, 2), ints(3, 2), symbolic={(1, 0): "n"})
case("gather_nd", lambda x, i: R.gather_nd(x, i, 1), floats(2, 5, 6), ints(2, 3, 2), label="batch")
case("index_tensor", lambda x, i, j: R.index_tensor(x, [i, j]), floats(5, 6, 2), ints(3, 1), ints(4))
case(
    "scatter_elements",
    lambda x, i, u: R.scatter_elements(x, i, u, 1),
    floats(2, 5),
    np.asarray([[0, 2], [4, 1]]),
    floats(2, 2),
)
case(
    "scatter_elements",
    lambda x, i, u: R.scatter_elements(x, i, u, 0, "add"),
    floats(4, 2),
    ints(3, 2, high=4),
    floats(3, 2),
    label="add",
)
case("scatter_nd", R.scatter_nd, floats(5, 3), np.asarray([[1], [4]]), floats(2, 3))
case(
    "scatter_nd",
    lambda x, i, u: R.scatter_nd(x, i, u, "add"),
    floats(5, 3),
    np.asarray([[1], [1]]),
    floats(2, 3),
    label="add",
)
case(
    "index_put",
    lambda x, i, j, v: R.index_put(x, [i, j], v),
    floats(4, 5),
    np.asarray([0, 2]),
    np.asarray([1, 3]),
    floats(2),
)
case(
    "index_put",
    lambda x, i, v: R.index_put(x, [i], v, True),
    floats(4),
    np.asarray([1, 1]),
    floats(2),
    label="accumulate",
)
case(
    "slice_scatter", lambda x, s: R.slice_scatter(x, s, 1, 6, 2, 1), floats(2, 7), floats(2, 3), symbolic=BOTH
)

"""Products, reductions, search and sorting."""

from __future__ import annotations

import numpy as np

from ir import relax as rx

from .case import BOTH, ROWS, bools, case, floats, ints

R = rx.op

# products
case("matmul", R.matmul, floats(4, 5), floats(5, 3), symbolic=ROWS)
case("matmul", R.matmul, floats(2, 3, 4, 5), floats(3, 5, 6), symbolic=ROWS, label="batch")
case("matmul", R.matmul, floats(5), floats(5, 3), label="vector")
case("matmul", R.matmul, floats(4, 5), floats(5), symbolic=ROWS, label="matrix-vector")
case("matmul", R.matmul, floats(5), floats(5), label="dot")
case("einsum", lambda x, y: R.einsum([x, y], "ij,jk->ik"), floats(3, 4), floats(4, 2), symbolic=ROWS)
case("einsum", lambda x: R.einsum([x], "bij->bji"), floats(2, 3, 4), symbolic=ROWS, label="transpose")
case("outer", R.outer, floats(3), floats(4), symbolic=ROWS)

# reductions
for name in "max min sum prod mean std variance".split():
    for axis, keepdims, label in ((None, False, "all"), ([1], True, "keepdims"), ([-1, 0], False, "axes")):
        case(
            name,
            lambda x, name=name, axis=axis, keepdims=keepdims: getattr(R, name)(x, axis, keepdims),
            floats(2, 3, 4),
            symbolic=ROWS,
            label=label,
            tolerance=3e-5,
        )
for name in "argmax argmin".split():
    case(name, lambda x, name=name: getattr(R, name)(x, 1), floats(2, 5), symbolic=ROWS)
    case(name, lambda x, name=name: getattr(R, name)(x), floats(2, 5), label="all")
for name in "cumsum cumprod".split():
    case(name, lambda x, name=name: getattr(R, name)(x, 1), floats(2, 5), symbolic=ROWS)
    case(name, lambda x, name=name: getattr(R, name)(x, exclusive=True), floats(2, 3), label="flat-exclusive")
case("median", lambda x: R.median(x), floats(3, 5), label="all")
case("median", lambda x: R.median(x, 1), floats(3, 5), symbolic=ROWS)

# search, sorting
case("where", R.where, bools(2, 3), floats(2, 3), floats(3), symbolic=BOTH)
case("bucketize", R.bucketize, floats(2, 3), np.asarray([-1.0, 0.0, 1.0], "float32"), symbolic=ROWS)
case("sort", lambda x: R.sort(x, 1, True), floats(2, 6), symbolic=ROWS)
case("argsort", lambda x: R.argsort(x, 1), floats(2, 6), symbolic=ROWS)
case("topk", lambda x: R.topk(x, 2, 1), floats(2, 6), symbolic=ROWS)
case("topk", lambda x: R.topk(x, 3, 0, "values", False), floats(5, 2), label="values")
case("unique", lambda x: R.unique(x, True, True, True, True), ints(10))
case("unique", lambda x: R.unique(x, False, True, True, True), ints(10), label="in order of occurrence")
case("unique", lambda x: R.unique(x, False, axis=1), ints(3, 8), label="columns as they come")
case("nonzero", R.nonzero, ints(3, 4, high=2))
case(
    "multinomial_from_uniform",
    R.multinomial_from_uniform,
    np.full((2, 4), 0.25, "float32"),
    floats(3, 1, low=0, high=1),
    ints(3, 1, high=2),
)

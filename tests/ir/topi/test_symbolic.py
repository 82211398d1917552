"""Operators on symbolic extents, run natively for several sizes of one built function."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te, topi
from ir.codegen.build import build
from ir.topi import testing

N = te.size_var("n", "int64")
RNG = np.random.default_rng(6)

CASES = [
    ("softmax", (N, 6), lambda a: topi.nn.softmax(a), testing.softmax),
    ("softmax-over-n", (3, N), lambda a: topi.nn.softmax(a), testing.softmax),
    ("sum", (3, N), lambda a: topi.sum(a, 1), lambda x: x.sum(1)),
    ("reshape", (N, 6), lambda a: topi.reshape(a, (N * 2, 3)), lambda x: x.reshape(-1, 3)),
    ("reshape-unknown", (N, 6), lambda a: topi.reshape(a, (-1,)), lambda x: x.reshape(-1)),
    ("flatten", (N, 2, 3), topi.nn.flatten, lambda x: x.reshape(len(x), -1)),
    ("transpose", (N, 6), topi.transpose, lambda x: x.T),
    ("concatenate", (N, 6), lambda a: topi.concatenate([a, a], 0), lambda x: np.concatenate([x, x])),
    ("slice-front", (N, 6), lambda a: topi.strided_slice(a, [1], [N], axes=[0]), lambda x: x[1:]),
    ("slice-last", (N, 6), lambda a: topi.strided_slice(a, [-1], [2**31 - 1], axes=[0]), lambda x: x[-1:]),
    ("slice-step", (N, 6), lambda a: topi.strided_slice(a, [0], [N], [2], axes=[0]), lambda x: x[::2]),
    (
        "slice-beyond",
        (N, 6),
        lambda a: topi.strided_slice(a, [-3, 9], [99, -7], [1, -2], axes=[0, 1], assume_inbound=False),
        lambda x: x[-3:99, 9:-7:-2],
    ),
    (
        "slice-nothing",
        (N, 6),
        lambda a: topi.strided_slice(a, [-1, 4], [-4, 2], axes=[0, 1], assume_inbound=False),
        lambda x: x[-1:-4, 4:2],
    ),
    ("flip", (N, 6), lambda a: topi.flip(a, 0), lambda x: x[::-1]),
    ("pad", (N, 6), lambda a: topi.nn.pad(a, [1, 0], [2, 0]), lambda x: np.pad(x, ((1, 2), (0, 0)))),
    ("tile", (N, 6), lambda a: topi.tile(a, (2, 1)), lambda x: np.tile(x, (2, 1))),
    ("repeat", (N, 6), lambda a: topi.repeat(a, 2, 0), lambda x: x.repeat(2, 0)),
    ("cumsum", (3, N), lambda a: topi.cumsum(a, 1), lambda x: x.cumsum(1)),
    ("sort", (2, N), lambda a: topi.sort(a, 1), lambda x: np.sort(x, 1)),
    ("triangle", (N, N), lambda a: topi.triu(a), np.triu),
    ("layer-norm", (N, 6), lambda a: topi.nn.rms_norm(a, topi.full((6,), "float32", 1.0), -1, 0.0), None),
]


@pytest.mark.parametrize(
    ("shape", "operator", "reference"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_symbolic(shape, operator, reference):
    a = te.placeholder(shape, name="a")
    out = operator(a)
    run = build(te.create_prim_func([a, out]), "llvm")["main"]
    for n in (1, 2, 5):
        x = RNG.standard_normal([n if extent is N else extent for extent in shape]).astype("float32")
        wanted = x / np.sqrt((x * x).mean(-1, keepdims=True)) if reference is None else reference(x)
        got = np.full(wanted.shape, 77, "float32")
        run(x, got)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_a_symbolic_extent_that_is_one_is_broadcast():
    m = te.size_var("m", "int64")
    a, b = te.placeholder((2, N), name="a"), te.placeholder((3, 1, te.size_var("p", "int64")), name="b")
    run = build(te.create_prim_func([a, topi.broadcast_to(a, (3, 2, 5))]), "llvm")["main"]
    for n in (1, 5):
        x = RNG.standard_normal((2, n)).astype("float32")
        got = np.empty((3, 2, 5), "float32")
        run(x, got)
        np.testing.assert_array_equal(got, np.broadcast_to(x, got.shape))
    run = build(te.create_prim_func([a, b, topi.broadcast_to(b, (3, m, N)), m]), "llvm")["main"]
    for p in (1, 4):
        x = RNG.standard_normal((3, 1, p)).astype("float32")
        got = np.empty((3, 7, 4), "float32")
        run(np.empty((2, 4), "float32"), x, got, 7)
        np.testing.assert_array_equal(got, np.broadcast_to(x, got.shape))

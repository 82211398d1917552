"""Operators that move elements, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te, topi
from ir.codegen.build import build
from ir.error import IRValueError

RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 3, 4)).astype("float32")
Y = RNG.standard_normal((2, 5, 4)).astype("float32")
M = RNG.standard_normal((4, 6)).astype("float32")
V = RNG.standard_normal((7,)).astype("float32")


def _layout(x):
    n, c, h, w = x.shape
    return x.reshape(n, c // 2, 2, h, w).transpose(0, 1, 3, 4, 2)


IMAGE = RNG.standard_normal((2, 4, 3, 5)).astype("float32")

CASES = [
    ("expand_dims", lambda a: topi.expand_dims(a, 1, 2), [X], X[:, None, None]),
    ("expand_dims-last", lambda a: topi.expand_dims(a, -1), [X], X[..., None]),
    ("transpose", lambda a: topi.transpose(a, (1, 2, 0)), [X], X.transpose(1, 2, 0)),
    ("transpose-all", lambda a: topi.transpose(a), [X], X.T),
    ("reshape", lambda a: topi.reshape(a, (4, -1)), [X], X.reshape(4, -1)),
    ("reshape-scalar", lambda a: topi.reshape(a, ()), [X[:1, :1, :1]], X[0, 0, 0]),
    ("squeeze", lambda a: topi.squeeze(a), [X[:, :1]], X[:, 0]),
    ("squeeze-axis", lambda a: topi.squeeze(a, [1]), [X[:, :1]], X[:, 0]),
    ("concatenate", lambda a, b: topi.concatenate([a, b, a], 1), [X, Y], np.concatenate([X, Y, X], 1)),
    ("concatenate-negative", lambda a, b: topi.concatenate([a, b], -2), [X, Y], np.concatenate([X, Y], 1)),
    ("stack", lambda a: topi.stack([a, a], 1), [X], np.stack([X, X], 1)),
    ("stack-last", lambda a: topi.stack([a, a], -1), [X], np.stack([X, X], -1)),
    ("split-sections", lambda a: topi.split(a, 2, 2), [X], np.split(X, 2, 2)),
    ("split-indices", lambda a: topi.split(a, [1, 4], 1), [Y], np.split(Y, [1, 4], 1)),
    ("slice", lambda a: topi.strided_slice(a, [0, 1], [2, 3]), [X], X[0:2, 1:3]),
    (
        "slice-negative",
        lambda a: topi.strided_slice(a, [0, -1, -1], [2, -4, -9], [1, -1, -2]),
        [X],
        X[:, ::-1, ::-2],
    ),
    (
        "slice-axes",
        lambda a: topi.strided_slice(a, [3, 1], [0, 99], [-1, 2], axes=[2, 1]),
        [X],
        X[:, 1::2, 3:0:-1],
    ),
    ("slice-size", lambda a: topi.strided_slice(a, [0, 1], [2, -1], slice_mode="size"), [X], X[:2, 1:]),
    ("repeat", lambda a: topi.repeat(a, 3, -1), [X], X.repeat(3, -1)),
    ("tile", lambda a: topi.tile(a, (2, 1, 3)), [X], np.tile(X, (2, 1, 3))),
    ("tile-more", lambda a: topi.tile(a, (2, 1, 1, 2)), [X], np.tile(X, (2, 1, 1, 2))),
    ("tile-fewer", lambda a: topi.tile(a, (2,)), [X], np.tile(X, 2)),
    ("flip", lambda a: topi.flip(a, 1), [X], X[:, ::-1]),
    ("tril", lambda a: topi.tril(a, -1), [M], np.tril(M, -1)),
    ("triu", lambda a: topi.triu(a, 1), [M], np.triu(M, 1)),
    ("meshgrid-xy", lambda a, b: topi.meshgrid([a, b]), [V, M[0]], np.meshgrid(V, M[0])),
    ("meshgrid-ij", lambda a, b: topi.meshgrid([a, b], "ij"), [V, M[0]], np.meshgrid(V, M[0], indexing="ij")),
    (
        "sliding_window",
        lambda a: topi.sliding_window(a, 0, (2, 3), (1, 2)),
        [M],
        np.lib.stride_tricks.sliding_window_view(M, (2, 3))[::1, ::2],
    ),
    ("layout_transform", lambda a: topi.layout_transform(a, "NCHW", "NCHW2c"), [IMAGE], _layout(IMAGE)),
    ("layout_transform-back", lambda a: topi.layout_transform(a, "NCHW2c", "NCHW"), [_layout(IMAGE)], IMAGE),
    (
        "layout_transform-nhwc",
        lambda a: topi.layout_transform(a, "NCHW", "NHWC"),
        [IMAGE],
        IMAGE.transpose(0, 2, 3, 1),
    ),
    ("arange", lambda: topi.arange(2, 11, 3, "int64"), [], np.arange(2, 11, 3)),
    ("arange-down", lambda: topi.arange(5, 0, -2, "int32"), [], np.arange(5, 0, -2)),
    ("arange-float", lambda: topi.arange(0.0, 1.0, 0.25), [], np.arange(0, 1, 0.25)),
    ("eye", lambda: topi.eye(3, 4, 1), [], np.eye(3, 4, 1)),
    ("shape", lambda a: topi.shape(a, "int64"), [X], np.array(X.shape)),
    ("ndarray_size", lambda a: topi.ndarray_size(a), [X], np.array(24)),
]


@pytest.mark.parametrize(
    ("operator", "arrays", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_transform(check, operator, arrays, expected):
    check(operator, [np.ascontiguousarray(item) for item in arrays], expected)


def test_layout_transform_pads_what_a_factor_does_not_fill(check):
    wanted = np.zeros((2, 2, 3, 5, 3), "float32")
    padded = np.zeros((2, 6, 3, 5), "float32")
    padded[:, :4] = IMAGE
    wanted[:] = padded.reshape(2, 2, 3, 3, 5).transpose(0, 1, 3, 4, 2)
    check(lambda a: topi.layout_transform(a, "NCHW", "NCHW3c"), [IMAGE], wanted)


def test_reverse_sequence_and_mask(check):
    lengths = np.array([2, 3], "int32")
    wanted = X.copy()
    wanted[0, :2] = X[0, 1::-1]
    wanted[1, :3] = X[1, 2::-1]
    check(lambda a, n: topi.reverse_sequence(a, n, 1, 0), [X, lengths], wanted)
    masked = X.copy()
    masked[0, 2:] = -1
    check(lambda a, n: topi.sequence_mask(a, n, -1.0, 1), [X, lengths], masked)


def test_matrix_set_diag(check):
    diagonal = np.arange(4, dtype="float32")
    wanted = M.copy()
    wanted[np.arange(4), np.arange(4)] = diagonal
    check(lambda a, d: topi.matrix_set_diag(a, d), [M, diagonal], wanted)


def test_dynamic_slice_and_set(check):
    bounds = [np.array(item, "int64") for item in ([1, -3], [3, 3], [1, 2])]
    check(
        lambda a, b, e, s: topi.dynamic_strided_slice(a, b, e, s, (2, 2)),
        [M, bounds[0], np.array([3, 6], "int64"), bounds[2]],
        M[1:3, 3:6:2],
    )
    a, two = te.placeholder((4, 6)), te.placeholder((2,), "int64")
    for name, wrong in (
        ("begin", [te.placeholder((3,), "int64"), two, two]),
        ("end", [two, te.placeholder((2,), "float32"), two]),
        ("strides", [two, two, te.placeholder((2, 1), "int64")]),
    ):
        with pytest.raises(IRValueError, match=f"{name} must hold one integer for each of 2 axes"):
            topi.dynamic_strided_slice(a, *wrong, (2, 2))
    with pytest.raises(IRValueError, match="output_shape has 1 extents for 2 axes"):
        topi.dynamic_strided_slice(a, two, two, two, (2,))
    wanted = M.copy()
    wanted[1:3, 0:6:2] = 5
    check(
        lambda a, v: topi.strided_set(a, v, [1, 0], [3, 6], [1, 2]),
        [M, np.full((2, 3), 5, "float32")],
        wanted,
    )


def test_adv_index(check):
    rows, columns = np.array([[0, 2]], "int64"), np.array([[1], [3]], "int64")
    check(lambda a, i, j: topi.adv_index(a, [i, j]), [M, rows, columns], M[rows, columns])


def test_symbolic_reshape_and_slice():
    n = te.var("n", "int64")
    a = te.placeholder((n, 4), name="a")
    assert topi.reshape(a, (n * 4,)).ndim == 1
    cut = topi.strided_slice(a, [1], [n], axes=[0])
    assert cut.shape[1].value == 4


def test_misuse_is_refused():
    a = te.placeholder((2, 3), name="a")
    with pytest.raises(IRValueError, match="6 elements of a do not fit a shape of 8"):
        topi.reshape(a, (4, 2))
    with pytest.raises(IRValueError, match="axis 0 of a has extent 2"):
        topi.squeeze(a, [0])
    with pytest.raises(IRValueError, match="layout 'NC4h'"):
        topi.layout_transform(a, "NC", "NC4h")
    with pytest.raises(IRValueError, match="different axes"):
        topi.layout_transform(a, "NC", "NH")


# ---- gather, scatter, scan, sort --------------------------------------------------------------------------------

INDEX = np.array([[0, 2], [1, 1]], "int64")


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_take(check, axis):
    indices = INDEX % 2
    check(lambda a, i: topi.take(a, i, axis), [X, indices], np.take(X, indices, axis))


def test_take_modes(check):
    outside = np.array([-1, 0, 5, 9], "int32")
    check(lambda a, i: topi.take(a, i, 1, mode="clip"), [M, outside], np.take(M, outside, 1, mode="clip"))
    check(lambda a, i: topi.take(a, i, 1, mode="wrap"), [M, outside], np.take(M, outside, 1, mode="wrap"))
    inside = np.array([0, 5], "int32")
    check(lambda a, i: topi.take(a, i, 1, mode="fast"), [M, inside], M[:, inside])
    wanted = np.full((4, 4), np.nan)
    wanted[:, 1:3] = M[:, [0, 5]]
    check(lambda a, i: topi.take(a, i, 1, mode="nan"), [M, outside], wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_narrow_indices_of_long_axes(check, dtype):
    """Also -1, where the dtype has it."""
    rows = np.arange(600, dtype="float32").reshape(300, 2)
    indices = np.array([3, 100, -1 if dtype.startswith("i") else 200], dtype)
    wide = indices.astype("int64")
    check(lambda a, i: topi.take(a, i, 0, mode="wrap"), [rows, indices], rows[wide % 300])
    check(lambda a, i: topi.take(a, i, 0, mode="clip"), [rows, indices], rows[np.maximum(wide, 0)])
    for operator in (
        topi.embed,
        lambda a, i: topi.adv_index(a, [i]),
        lambda a, i: topi.take(a, i, 0, mode="fast"),
    ):
        check(operator, [rows, indices], rows[wide])
    check(lambda i: topi.one_hot(i, 1.0, 0.0, 300, 0, "float32"), [indices], np.arange(300)[:, None] == wide)


def test_gather(check):
    indices = RNG.integers(0, 3, (2, 2, 4)).astype("int64")
    check(lambda a, i: topi.gather(a, 1, i), [X, indices], np.take_along_axis(X, indices, 1))
    signed = indices - 3
    check(lambda a, i: topi.gather_elements(a, i, 1), [X, signed], np.take_along_axis(X, signed, 1))


def test_gather_nd(check):
    indices = np.array([[0, 1, 1], [2, 0, 1]], "int32")
    check(lambda a, i: topi.gather_nd(a, i), [X, indices], X[indices[0], indices[1]])
    batched = np.array([[2, 0]], "int32")
    check(lambda a, i: topi.gather_nd(a, i, 1), [X, batched], X[[0, 1], [2, 0]])


def test_where_one_hot_unravel(check):
    check(lambda c, a: topi.where(c, a, 0.0), [X > 0, X], np.where(X > 0, X, 0))
    classes = np.array([[0, 2], [1, 1]], "int32")
    check(lambda i: topi.one_hot(i, 1.0, 0.0, 3, -1, "float32"), [classes], np.eye(3)[classes])
    check(
        lambda i: topi.one_hot(i, 5, -1, 3, 0, "int32"),
        [classes],
        np.where(np.eye(3)[classes].transpose(2, 0, 1) > 0, 5, -1),
    )
    flat = np.array([0, 7, 23], "int32")
    check(lambda i: topi.unravel_index(i, (2, 3, 4)), [flat], np.stack(np.unravel_index(flat, (2, 3, 4))))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_scans(check, axis, exclusive):
    def shifted(values, start):
        if not exclusive:
            return values
        axis_ = 0 if axis is None else axis
        head = np.full([1 if i == axis_ else n for i, n in enumerate(values.shape)], start)
        return np.concatenate([head, np.delete(values, -1, axis_)], axis_)

    check(lambda a: topi.cumsum(a, axis, exclusive=exclusive), [M], shifted(M.cumsum(axis), 0))
    check(
        lambda a: topi.cumprod(a, axis, "float64", exclusive),
        [M],
        shifted(M.astype("float64").cumprod(axis), 1),
    )


@pytest.mark.parametrize("reduction", ["update", "add", "mul", "min", "max", "mean"])
def test_scatter_elements(check, reduction):
    data = RNG.standard_normal((3, 4)).astype("float32")
    indices = np.array([[0, -1, 1, 2], [1, 0, 2, 1]], "int64")
    updates = RNG.standard_normal((2, 4)).astype("float32")
    wanted = data.astype("float64").copy()
    counts = np.ones_like(wanted)
    for (i, j), row in np.ndenumerate(indices):
        new = updates[i, j]
        wanted[row, j] = {
            "update": lambda old: new,
            "add": lambda old: old + new,
            "mean": lambda old: old + new,
            "mul": lambda old: old * new,
            "min": lambda old: min(old, new),
            "max": lambda old: max(old, new),
        }[reduction](wanted[row, j])
        counts[row, j] += 1
    if reduction == "mean":
        wanted /= counts
    check(lambda a, i, u: topi.scatter_elements(a, i, u, 0, reduction), [data, indices, updates], wanted)


def test_scatter_nd_and_index_put(check):
    indices = np.array([[0, 1], [2, 0]], "int64")
    updates = RNG.standard_normal((2, 4)).astype("float32")
    wanted = X.copy()
    wanted[indices[0], indices[1]] = updates
    check(lambda a, i, u: topi.scatter_nd(a, i, u), [X, indices, updates], wanted)
    added = X.copy()
    np.add.at(added, (np.array([0, 0]),), updates[0, 0] * np.ones((2, 3, 4), "float32"))
    values = np.full((2, 3, 4), updates[0, 0], "float32")
    check(
        lambda a, v, i: topi.index_put(a, [i], v, True),
        [X, values, np.array([0, 0], "int64")],
        added,
        rtol=1e-4,
    )


@pytest.mark.parametrize(
    ("shape", "count", "axis"),
    [((300, 300), 400, 0), ((140, 500), 500, 1), ((1, 150, 450), 200, 1), ((40, 70, 33), 50, 0)],
)
def test_many_updates_run_on_all_cores_in_order_for_each_element(shape, count, axis):
    """Several updates of one element add up, and the last one of several counts."""
    data = RNG.standard_normal(shape).astype("float32")
    where = RNG.integers(-shape[axis], shape[axis], count)
    update_shape = (*shape[:axis], count, *shape[axis + 1 :])
    updates = RNG.integers(-8, 8, update_shape).astype("float32")
    full = np.broadcast_to(where.reshape([-1 if a == axis else 1 for a in range(len(shape))]), update_shape)
    added, last = data.copy(), data.copy()
    for number, place in enumerate(where):
        at = (slice(None),) * axis
        added[(*at, place)] += updates[(*at, number)]
        last[(*at, place)] = updates[(*at, number)]
    for reduction, wanted in (("add", added), ("update", last)):
        func = scatter_on_cores(
            lambda a, i, u, mode=reduction: topi.scatter_elements(a, i, u, axis, mode),
            [data, np.ascontiguousarray(full), updates],
            wanted,
        )
        assert func.script().count("T.parallel") == 2
    if axis == 0:
        for mode, wanted in (("add", added), ("update", last)):
            func = scatter_on_cores(
                lambda a, i, u, mode=mode: topi.scatter_nd(a, i, u, mode),
                [data, where[None], updates],
                wanted,
            )
            assert func.script().count("T.parallel") == 2
        scatter_on_cores(lambda a, i, u: topi.index_put(a, [i], u, True), [data, where, updates], added)


def scatter_on_cores(make, arrays, wanted):
    """Builds and runs the operator; returns its program."""
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"x{n}") for n, a in enumerate(arrays)]
    func = te.create_prim_func([*tensors, make(*tensors)])
    out = np.full(wanted.shape, 77, "float32")
    build(func)["main"](*arrays, out)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)
    return func


def test_scatter_mode_is_checked():
    a = te.placeholder((3, 4), name="a")
    i = te.placeholder((2, 4), "int64", name="i")
    with pytest.raises(IRValueError, match="reduction must be one of"):
        topi.scatter_elements(a, i, i, 0, "average")


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("ascend", [True, False])
def test_sorting(check, axis, ascend):
    data = RNG.integers(0, 5, (9, 6)).astype("float32")
    sign = 1 if ascend else -1
    order = np.argsort(sign * data, axis, kind="stable")
    check(lambda a: topi.sort(a, axis, ascend), [data], np.take_along_axis(data, order, axis))
    check(lambda a: topi.argsort(a, axis=axis, is_ascend=ascend, dtype="int32"), [data], order)


def test_topk(check):
    data = RNG.permutation(24).reshape(3, 8).astype("float32")
    order = np.argsort(-data, 1)[:, :3]
    check(lambda a: topi.topk(a, 3, 1), [data], [np.take_along_axis(data, order, 1), order])
    check(lambda a: topi.topk(a, 1, 0, "indices", True, "int32"), [data], data.argmin(0)[None])
    with pytest.raises(IRValueError, match="k is 9"):
        topi.topk(te.placeholder((3, 8), name="a"), 9, 1)


def test_searchsorted(check):
    sequence = np.array([1, 2, 2, 5, 9], "float32")
    values = np.array([[0, 2, 3], [9, 10, 5]], "float32")
    check(lambda s, v: topi.searchsorted(s, v), [sequence, values], np.searchsorted(sequence, values))
    check(
        lambda s, v: topi.searchsorted(s, v, True),
        [sequence, values],
        np.searchsorted(sequence, values, "right"),
    )


def test_invert_permutation(check):
    order = np.array([2, 0, 3, 1], "int32")
    check(lambda a: topi.invert_permutation(a), [order], np.argsort(order))


def test_expand_like_and_embed(check):
    row = RNG.standard_normal((4,)).astype("float32")
    check(
        lambda a, b: topi.expand_like(a, b, [0]),
        [row, M.T.copy()[:5, :4].copy()],
        np.broadcast_to(row, (5, 4)),
    )
    rows = np.array([[1, 0], [3, 3]], "int32")
    check(lambda t, i: topi.embed(t, i), [M, rows], M[rows])


def test_layouts():
    from ir.topi.layout import bijective_layout, parse_layout

    assert parse_layout("NCHW16c").factor_of("C") == 16
    mapping = bijective_layout("OIHW", "OIHW4i8o")
    assert [int(item) for item in mapping.forward_shape((16, 8, 3, 3))] == [2, 2, 3, 3, 4, 8]
    assert [int(item) for item in mapping.backward_shape((2, 2, 3, 3, 4, 8))] == [16, 8, 3, 3]
    assert [int(item) for item in mapping.forward_index((13, 6, 1, 2))] == [1, 1, 1, 2, 2, 5]
    assert [int(item) for item in mapping.backward_index((1, 1, 1, 2, 2, 5))] == [13, 6, 1, 2]
    for bad in ("NCHWc", "N4C", "NCN", "NHW4c", "N-C"):
        with pytest.raises(IRValueError, match="layout"):
            parse_layout(bad)


def test_empty_and_negative_ranges(check):
    check(lambda: topi.arange(3, 1, 1, "int32"), [], np.arange(3, 1, 1))
    n = te.var("n", "int64")
    reversed_rows = topi.strided_slice(te.placeholder((n, 4), name="a"), [-1], [-(2**31)], [-1], axes=[0])
    assert reversed_rows.shape[0] is n


def test_dyn_tile_has_the_dimensions_of_its_repeats():
    a = te.placeholder((2, 3))
    assert topi.transform.dyn_tile(a, (4, 3), 2).ndim == topi.transform.dyn_tile(a, (4, 3), 1).ndim == 2
    with pytest.raises(IRValueError, match="3 repeats of 2 dimensions give 3, not the 2 of new_shape"):
        topi.transform.dyn_tile(a, (4, 3), 3)

"""Convolutions, products, pools, normalizations, activations and losses against numpy references."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from ir import te, topi
from ir.codegen.build import build
from ir.error import IRValueError
from ir.topi import testing

from .conftest import run_topi

RNG = np.random.default_rng(4)


def rand(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


TO_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
KERNEL_LAST = {3: (2, 1, 0), 4: (2, 3, 1, 0), 5: (2, 3, 4, 1, 0)}
CHANNEL_LAYOUTS = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}

CONVS = [  # data, kernel, stride, padding, dilation, groups
    ((2, 3, 9), (4, 3, 3), (2,), (1, 1), (1,), 1),
    ((2, 4, 9), (6, 2, 3), (1,), (2, 0), (2,), 2),
    ((1, 3, 7, 8), (5, 3, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((1, 4, 7, 8), (6, 2, 3, 2), (2, 1), (0, 1, 1, 2), (1, 2), 2),
    ((1, 4, 6, 6), (4, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 4),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 3), (1, 2, 1), (0, 1, 1, 0, 1, 1), (1, 1, 1), 1),
    ((1, 4, 4, 4, 4), (4, 2, 2, 2, 2), (1, 1, 1), (0, 0, 0, 1, 1, 1), (1, 1, 1), 2),
]


@pytest.mark.parametrize("last", [False, True], ids=["channel-first", "channel-last"])
@pytest.mark.parametrize(("data", "kernel", "stride", "padding", "dilation", "groups"), CONVS)
def test_conv(check, data, kernel, stride, padding, dilation, groups, last):
    x, w = rand(*data), rand(*kernel)
    dim = len(stride)
    wanted = testing.conv(x, w, stride, padding[:dim], padding[dim:], dilation, groups)
    layout = CHANNEL_LAYOUTS[x.ndim][last]
    if last:
        order = TO_LAST[x.ndim]
        x, w, wanted = x.transpose(order), w.transpose(KERNEL_LAST[w.ndim]), wanted.transpose(order)
    arrays = [np.ascontiguousarray(x), np.ascontiguousarray(w)]
    check(
        lambda a, b: topi.nn.conv(a, b, stride, padding, dilation, groups, layout), arrays, wanted, atol=1e-4
    )


def test_conv_names_and_stages():
    a, w = te.placeholder((1, 3, 8, 8), name="a"), te.placeholder((4, 3, 3, 3), name="w")
    out = topi.nn.conv2d_nchw(a, w, 1, 1, 1)
    assert out.op.name == "conv2d_nchw"
    assert [axis.var.name for axis in (*out.op.axis, *out.op.reduce_axis)] == [
        "nn",
        "ff",
        "yy",
        "xx",
        "rc",
        "ry",
        "rx",
    ]
    assert [item.op.name for item in out.op.input_tensors] == ["pad_temp", "w"]
    nhwc = topi.nn.conv2d_nhwc(
        te.placeholder((1, 8, 8, 3), name="a"), te.placeholder((3, 3, 3, 4), name="w"), 1, 1, 1
    )
    assert [axis.var.name for axis in nhwc.op.reduce_axis] == ["ry", "rx", "rc"]
    assert (
        topi.nn.group_conv2d_nchw(a, te.placeholder((3, 1, 3, 3), name="w"), 1, 1, 1, 3).op.name
        == "group_conv2d_nchw"
    )


def test_conv_padding_words(check):
    x, w = rand(1, 2, 6, 6), rand(3, 2, 3, 3)
    check(
        lambda a, b: topi.nn.conv2d_nchw(a, b, 1, "SAME", 1),
        [x, w],
        testing.conv(x, w, (1, 1), (1, 1), (1, 1), (1, 1)),
        atol=1e-4,
    )
    check(
        lambda a, b: topi.nn.conv2d_nchw(a, b, 1, "VALID", 1),
        [x, w],
        testing.conv(x, w, (1, 1), (0, 0), (0, 0), (1, 1)),
        atol=1e-4,
    )
    with pytest.raises(IRValueError, match="takes 1, 2 or 4 numbers, got 3"):
        topi.nn.conv2d_nchw(
            te.placeholder((1, 2, 6, 6), name="a"), te.placeholder((3, 2, 3, 3), name="w"), 1, (1, 1, 1), 1
        )


def test_conv_of_wrong_channels_is_refused():
    a = te.placeholder((1, 4, 8, 8), name="a")
    with pytest.raises(IRValueError, match="4 input channels in 1 groups need a kernel of 4"):
        topi.nn.conv2d_nchw(a, te.placeholder((2, 3, 3, 3), name="w"), 1, 0, 1)
    with pytest.raises(IRValueError, match="not divisible into 3 groups"):
        topi.nn.group_conv2d_nchw(a, te.placeholder((2, 3, 3, 3), name="w"), 1, 0, 1, 3)


@pytest.mark.parametrize("factor", [1, 2])
def test_depthwise(check, factor):
    x, w = rand(1, 3, 7, 8), rand(3, factor, 3, 3)
    wanted = testing.conv(x, w.reshape(3 * factor, 1, 3, 3), (2, 1), (1, 1), (1, 1), (1, 1), 3)
    check(lambda a, b: topi.nn.depthwise_conv2d_nchw(a, b, (2, 1), 1, 1), [x, w], wanted, atol=1e-4)
    arrays = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(w.transpose(2, 3, 0, 1))]
    check(
        lambda a, b: topi.nn.depthwise_conv2d_nhwc(a, b, (2, 1), 1, 1),
        arrays,
        wanted.transpose(0, 2, 3, 1),
        atol=1e-4,
    )
    multiplier_first = [arrays[0], np.ascontiguousarray(w.transpose(2, 3, 1, 0))]
    check(
        lambda a, b: topi.nn.depthwise_conv2d_nhwc(a, b, (2, 1), 1, 1, kernel_layout="HWIO"),
        multiplier_first,
        wanted.transpose(0, 2, 3, 1),
        atol=1e-4,
    )


TRANSPOSED = [
    ("conv1d_transpose_ncw", (2, 3, 5), (3, 4, 4), (2,), (1,), (0,), 1),
    ("group_conv1d_transpose_ncw", (2, 4, 5), (4, 3, 3), (2,), (1,), (1,), 2),
    ("conv2d_transpose_nchw", (1, 3, 4, 5), (3, 2, 3, 4), (2, 3), (1, 0), (1, 0), 1),
    ("group_conv2d_transpose_nchw", (1, 4, 4, 4), (4, 2, 3, 3), (1, 2), (1, 1), (0, 1), 2),
    ("conv3d_transpose_ncdhw", (1, 2, 3, 3, 3), (2, 2, 2, 2, 2), (2, 1, 2), (0, 0, 1), (0, 0, 1), 1),
    ("group_conv3d_transpose_ncdhw", (1, 4, 2, 3, 3), (4, 1, 2, 2, 2), (1, 2, 1), (0, 0, 0), (0, 0, 0), 4),
]


@pytest.mark.parametrize(("name", "data", "kernel", "stride", "padding", "extra", "groups"), TRANSPOSED)
def test_conv_transpose(check, name, data, kernel, stride, padding, extra, groups):
    x, w = rand(*data), rand(*kernel)
    wanted = testing.conv_transpose(x, w, stride, padding, padding, extra, groups)
    more = (groups,) if groups > 1 else ()
    check(
        lambda a, b: getattr(topi.nn, name)(a, b, stride, padding, "float32", extra, *more),
        [x, w],
        wanted,
        atol=1e-4,
    )


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "extra"),
    [(4, 2, 1, 0), (3, 2, 1, 1), (3, 1, 1, 0), (2, 3, 0, 0), (5, 3, 2, 1), (1, 1, 0, 0)],
)
def test_conv_transpose_by_phases(check, kernel, stride, padding, extra):
    x, w = rand(1, 3, 4, 5), rand(3, 2, kernel, kernel)
    wanted = testing.conv_transpose(x, w, [stride] * 2, [padding] * 2, [padding] * 2, [extra] * 2)
    arrays = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(w.transpose(2, 3, 0, 1))]
    check(
        lambda a, b: topi.nn.conv2d_transpose_nhwc(a, b, stride, padding, None, extra),
        arrays,
        wanted.transpose(0, 2, 3, 1),
        atol=1e-4,
    )


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), (True, True)])
def test_matmul_and_batch_matmul(check, flags):
    a, b = rand(2, 3, 4), rand(2, 4, 5)
    left = a.transpose(0, 2, 1) if flags[0] else a
    right = b.transpose(0, 2, 1) if flags[1] else b
    arrays = [np.ascontiguousarray(left), np.ascontiguousarray(right)]
    check(lambda x, y: topi.nn.batch_matmul(x, y, None, None, *flags), arrays, a @ b)
    check(
        lambda x, y: topi.nn.matmul(x, y, None, None, *flags),
        [item[0].copy() for item in arrays],
        a[0] @ b[0],
    )
    check(lambda x, y: topi.matmul(x, y, *flags), [item[0].copy() for item in arrays], a[0] @ b[0])


def test_dense_and_broadcast_batch(check):
    x, w, bias = rand(3, 4), rand(5, 4), rand(5)
    check(lambda a, b, c: topi.nn.dense(a, b, c), [x, w, bias], x @ w.T + bias)
    one, many = rand(1, 3, 4), rand(2, 4, 5)
    check(lambda a, b: topi.nn.batch_matmul(a, b, transpose_b=False), [one, many], one @ many)
    with pytest.raises(IRValueError, match="inner extents 4 and 3"):
        topi.nn.matmul(te.placeholder((2, 4), name="a"), te.placeholder((3, 5), name="b"))


@pytest.mark.parametrize(
    "formula",
    [
        "ij,jk->ik",
        "bij,bjk->bik",
        "ij->ji",
        "ii->i",
        "i,j->ij",
        "...ij,...jk->...ik",
        "ij,ij",
        "bhid,bhjd->bhij",
    ],
)
def test_einsum(check, formula):
    extents = {"i": 3, "j": 3, "k": 4, "b": 2, "h": 2, "d": 5}
    arrays = []
    for term in formula.split("->")[0].split(","):
        letters = term.replace("...", "b")
        arrays.append(rand(*[extents[letter] for letter in letters]))
    check(lambda *items: topi.einsum(formula, *items), arrays, np.einsum(formula, *arrays))


def test_einsum_is_checked():
    a = te.placeholder((2, 3), name="a")
    with pytest.raises(IRValueError, match="'ijk' has 3 indices, a has 2"):
        topi.einsum("ijk->i", a)
    with pytest.raises(IRValueError, match="names 2 operands, got 1"):
        topi.einsum("ij,jk", a)


def test_tensordot(check):
    a, b = rand(2, 3, 4), rand(3, 4, 5)
    check(lambda x, y: topi.tensordot(x, y, 2), [a, b], np.tensordot(a, b, 2))
    check(lambda x, y: topi.tensordot(x, y, ([1], [0])), [a, b], np.tensordot(a, b, ([1], [0])))
    check(lambda x, y: topi.tensordot(x, y, 0), [a[0], b[0]], np.tensordot(a[0], b[0], 0), atol=1e-4)


POOLS = [  # kernel, stride, dilation, padding
    ((2, 2), (2, 2), (1, 1), (0, 0, 0, 0)),
    ((3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    ((3, 2), (2, 3), (1, 1), (1, 0, 0, 1)),
    ((2, 2), (1, 2), (2, 1), (1, 0, 1, 1)),
]


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("kind", ["max", "avg", "avg-excluding"])
@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding"), POOLS)
def test_pool2d(check, kernel, stride, dilation, padding, kind, ceil_mode):
    x = rand(1, 2, 8, 9)
    name, include = kind.split("-")[0], "-" not in kind
    wanted = testing.pool(x, kernel, stride, dilation, padding[:2], padding[2:], name, ceil_mode, include)
    check(
        lambda a: topi.nn.pool2d(a, kernel, stride, dilation, padding, name, ceil_mode, "NCHW", include),
        [x],
        wanted,
    )
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    check(
        lambda a: topi.nn.pool2d(a, kernel, stride, dilation, padding, name, ceil_mode, "NHWC", include),
        [last],
        wanted.transpose(0, 2, 3, 1),
    )


def test_other_pools(check):
    x = rand(2, 3, 7)
    check(
        lambda a: topi.nn.pool1d(a, 3, 2, 1, (1, 1), "max"),
        [x],
        testing.pool(x, (3,), (2,), (1,), (1,), (1,), "max"),
    )
    y = rand(1, 2, 4, 5, 6)
    wanted = testing.pool(y, (2, 3, 2), (2, 1, 2), (1, 1, 1), (0, 1, 0), (1, 1, 0), "avg")
    check(lambda a: topi.nn.pool3d(a, (2, 3, 2), (2, 1, 2), 1, (0, 1, 0, 1, 1, 0), "avg"), [y], wanted)
    check(lambda a: topi.nn.global_pool(a, "avg"), [y[0]], y[0].mean((2, 3), keepdims=True))
    check(lambda a: topi.nn.global_pool(a, "max"), [y[0]], y[0].max((2, 3), keepdims=True))
    with pytest.raises(IRValueError, match="'max' or 'avg'"):
        topi.nn.global_pool(te.placeholder((1, 2, 4, 4), name="a"), "mean")


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("size", [(1, 1), (4, 3), (3, 5), (7, 2)])
def test_adaptive_pool(check, size, kind):
    x = rand(1, 2, 8, 9)
    check(lambda a: topi.nn.adaptive_pool(a, size, kind), [x], testing.adaptive_pool(x, size, kind))


def test_adaptive_pool_1d_3d(check):
    x, y = rand(1, 2, 9), rand(1, 2, 4, 5, 6)
    check(lambda a: topi.nn.adaptive_pool1d(a, 4, "avg"), [x], testing.adaptive_pool(x, (4,), "avg"))
    check(
        lambda a: topi.nn.adaptive_pool3d(a, (2, 3, 3), "max"),
        [y],
        testing.adaptive_pool(y, (2, 3, 3), "max"),
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmaxes(check, axis):
    x = rand(3, 4, 5) * 4
    wanted = testing.softmax(x, axis)
    check(lambda a: topi.nn.softmax(a, axis), [x], wanted)
    check(lambda a: topi.nn.fast_softmax(a, axis), [x], wanted)
    check(lambda a: topi.nn.log_softmax(a, axis), [x], np.log(wanted), rtol=1e-4)


def test_softmax_stages():
    a = te.placeholder((4, 8), name="a")
    stages = []
    pending = [topi.nn.softmax(a, -1).op]
    while pending:
        op = pending.pop(0)
        if op.name not in stages:
            stages.append(op.name)
            pending += [item.op for item in op.input_tensors]
    assert stages == ["T_softmax_norm", "T_softmax_exp", "T_softmax_expsum", "a", "T_softmax_maxelem"]


def test_normalizations(check):
    x = rand(2, 4, 3, 5)
    gamma, beta = rand(5), rand(5)
    check(
        lambda a, g, b: topi.nn.layer_norm(a, g, b, -1, 1e-3),
        [x, gamma, beta],
        testing.normalize(x, [3], 1e-3) * gamma + beta,
        atol=1e-4,
    )
    scale, shift = rand(3, 5), rand(3, 5)
    check(
        lambda a, g, b: topi.nn.layer_norm(a, g, b, [2, 3]),
        [x, scale, shift],
        testing.normalize(x, [2, 3], 1e-5) * scale + shift,
        atol=1e-4,
    )
    g4, b4 = rand(4), rand(4)
    column = (slice(None), None, None)
    check(
        lambda a, g, b: topi.nn.instance_norm(a, g, b),
        [x, g4, b4],
        testing.normalize(x, [2, 3], 1e-5) * g4[column] + b4[column],
        atol=1e-4,
    )
    grouped = testing.normalize(x.reshape(2, 2, 2, 3, 5), [2, 3, 4], 1e-5).reshape(x.shape)
    check(
        lambda a, g, b: topi.nn.group_norm(a, g, b, 2, 1, [2, 3]),
        [x, g4, b4],
        grouped * g4[column] + b4[column],
        atol=1e-4,
    )
    rms = x / np.sqrt((x.astype("float64") ** 2).mean(-1, keepdims=True) + 1e-5) * gamma
    check(lambda a, g: topi.nn.rms_norm(a, g, -1), [x, gamma], rms)
    norm = x / np.sqrt(np.maximum((x**2).sum(1, keepdims=True), 1e-3))
    check(lambda a: topi.nn.l2_normalize(a, 1e-3, 1), [x], norm)


def test_batch_norm(check):
    x, gamma, beta, mean = rand(2, 3, 4, 5), rand(3), rand(3), rand(3)
    var = np.abs(rand(3)) + 0.5
    column = (slice(None), None, None)
    out = (x - mean[column]) / np.sqrt(var[column] + 1e-5) * gamma[column] + beta[column]
    arrays = [x, gamma, beta, mean, var]
    check(lambda *items: topi.nn.batch_norm(*items), arrays, [out, mean, var])
    mu, sigma = x.mean((0, 2, 3)), x.var((0, 2, 3))
    trained = testing.normalize(x, [0, 2, 3], 1e-5) * gamma[column] + beta[column]
    check(
        lambda *items: topi.nn.batch_norm(*items, training=True, momentum=0.2),
        arrays,
        [trained, 0.8 * mean + 0.2 * mu, 0.8 * var + 0.2 * sigma],
        atol=1e-4,
    )


def test_lrn(check):
    x = rand(1, 6, 3, 3)
    total = np.zeros_like(x)
    for c in range(6):
        total[:, c] = (x[:, max(0, c - 2) : c + 3] ** 2).sum(1)
    check(lambda a: topi.nn.lrn(a, 5, 1, 0.1, 0.75, 2), [x], x / (2 + 0.1 / 5 * total) ** 0.75)


def test_activations(check):
    x, slope = rand(2, 3, 4), rand(3)
    check(topi.nn.relu, [x], np.maximum(x, 0))
    check(lambda a: topi.nn.leaky_relu(a, 0.1), [x], np.where(x > 0, x, 0.1 * x))
    check(lambda a, s: topi.nn.prelu(a, s), [x, slope], np.where(x > 0, x, x * slope[:, None]))
    check(topi.nn.gelu, [x], x * 0.5 * (1 + np.vectorize(math.erf)(x / 2**0.5)))
    check(topi.nn.silu, [x], x / (1 + np.exp(-x)))
    check(lambda a, s: topi.nn.bias_add(a, s), [x, slope], x + slope[:, None])


def test_pads(check):
    x = rand(2, 4, 5)
    low, high = [0, 1, 2], [0, 2, 1]
    widths = list(zip(low, high))
    check(lambda a: topi.nn.pad(a, low, high, 3.5), [x], np.pad(x, widths, constant_values=3.5))
    check(lambda a: topi.nn.mirror_pad(a, low, high), [x], np.pad(x, widths, "symmetric"))
    check(lambda a: topi.nn.reflect_pad(a, low, high), [x], np.pad(x, widths, "reflect"))
    check(lambda a: topi.nn.edge_pad(a, low, high), [x], np.pad(x, widths, "edge"))
    check(lambda a: topi.nn.circular_pad(a, low, high), [x], np.pad(x, widths, "wrap"))
    dilated = np.zeros((2, 7, 13), "float32")
    dilated[:, ::2, ::3] = x
    check(lambda a: topi.nn.dilate(a, [1, 2, 3]), [x], dilated)
    with pytest.raises(IRValueError, match="3 dimensions, got 2 amounts"):
        topi.nn.pad(te.placeholder((2, 4, 5), name="a"), [1, 1])


def test_rearrangements(check):
    x = rand(1, 8, 2, 3)
    check(topi.nn.flatten, [x], x.reshape(1, -1))
    dcr = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6)
    crd = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6)
    check(lambda a: topi.nn.depth_to_space(a, 2), [x], dcr)
    check(lambda a: topi.nn.depth_to_space(a, 2, mode="CRD"), [x], crd)
    check(lambda a: topi.nn.space_to_depth(a, 2), [np.ascontiguousarray(dcr)], x)
    check(lambda a: topi.nn.pixel_shuffle(a, 2), [x], crd)
    check(lambda a: topi.nn.pixel_unshuffle(a, 2), [np.ascontiguousarray(crd)], x)
    check(
        lambda a: topi.nn.channel_shuffle(a, 2),
        [x],
        x.reshape(1, 2, 4, 2, 3).transpose(0, 2, 1, 3, 4).reshape(x.shape),
    )
    image = rand(1, 4, 6, 2)
    blocks = image.reshape(1, 2, 2, 3, 2, 2).transpose(2, 4, 0, 1, 3, 5).reshape(4, 2, 3, 2)
    check(lambda a: topi.nn.space_to_batch_nd(a, [2, 2], [0, 0], [0, 0]), [image], blocks)
    check(
        lambda a: topi.nn.batch_to_space_nd(a, [2, 2], [0, 1], [1, 0]),
        [np.ascontiguousarray(blocks)],
        image[:, :3, 1:],
    )


def test_losses(check):
    x = np.log(testing.softmax(rand(4, 3, 2), 1)).astype("float32")
    targets = np.array([[0, 2], [1, 1], [-100, 0], [2, 1]], "int64")
    weights = np.array([1.0, 0.5, 2.0], "float32")
    losses, used = np.zeros((4, 2)), np.zeros((4, 2))
    for (i, j), target in np.ndenumerate(targets):
        if target != -100:
            losses[i, j], used[i, j] = -x[i, target, j] * weights[target], weights[target]
    wanted = {"none": losses, "sum": np.asarray(losses.sum()), "mean": np.asarray(losses.sum() / used.sum())}
    for reduction, expected in wanted.items():
        check(lambda a, t, w, r=reduction: topi.nn.nll_loss(a, t, w, r), [x, targets, weights], expected)
    labels = testing.softmax(rand(4, 3)).astype("float32")
    logits = rand(4, 3)
    check(topi.nn.cross_entropy_with_logits, [logits, labels], np.asarray(-(logits * labels).sum() / 4))


RESIZES = [
    (mode, method, rounding)
    for method, roundings in (
        ("nearest_neighbor", ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
        ("linear", ("",)),
        ("cubic", ("",)),
    )
    for rounding in roundings
    for mode in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
]


@pytest.mark.parametrize(("mode", "method", "rounding"), RESIZES)
def test_resize2d(check, mode, method, rounding):
    x = rand(1, 2, 4, 5)
    for size in ((8, 7), (3, 10)):
        wanted = testing.resize(x, size, method, mode, rounding, alpha=-0.5)
        check(
            lambda a, s=size: topi.image.resize2d(a, [0.0] * 4, s, "NCHW", method, mode, rounding),
            [x],
            wanted,
            atol=1e-4,
        )


@pytest.mark.meaning("op-coordinates")
@pytest.mark.parametrize(
    "mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"]
)
def test_the_nearest_row_is_found_exactly(check, mode):
    """Halves and whole places are hit again and again; floats (with a fused multiplication) would miss some of them."""
    for before, after in ((2, 7), (7, 2), (3, 9), (10, 3), (6, 14), (41, 123), (25, 60), (64, 48), (5, 1)):
        x = np.arange(before, dtype="float32").reshape(1, 1, before)
        for rounding in ("round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            if (mode, rounding) == ("asymmetric", "round") and after % before == 0:
                continue  # is the floor there
            check(
                lambda a, n=after, r=rounding: topi.image.resize1d(
                    a, [], (n,), "NCW", "nearest_neighbor", mode, r
                ),
                [x],
                testing.resize(x, (after,), "nearest_neighbor", mode, rounding),
            )


def test_places_beyond_int32_are_found(check):
    x = np.arange(70000, dtype="float32").reshape(1, 1, -1)
    for mode in ("half_pixel", "align_corners"):
        check(
            lambda a, m=mode: topi.image.resize1d(
                a, [], (140001,), "NCW", "nearest_neighbor", m, "round_prefer_floor"
            ),
            [x],
            testing.resize(x, (140001,), "nearest_neighbor", mode, "round_prefer_floor"),
        )


@pytest.mark.meaning("op-weight")
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_neighbours_without_weight_do_not_count(check, method):
    x = np.array([[[1, np.inf, 2, 3, 4, 5]]], "float32")
    found = run_topi(lambda a: topi.image.resize1d(a, [], (11,), "NCW", method, "align_corners"), [x])[0]
    np.testing.assert_array_equal(found[0, 0, ::2], x[0, 0])


def test_resize_other_ranks_and_layouts(check):
    x = rand(1, 2, 5)
    check(
        lambda a: topi.image.resize1d(a, [0.0] * 2, (8,)), [x], testing.resize(x, (8,), "linear"), atol=1e-4
    )
    y = rand(1, 2, 3, 4, 3)
    check(
        lambda a: topi.image.resize3d(a, [0.0] * 6, (5, 4, 6), "NCDHW"),
        [y],
        testing.resize(y, (5, 4, 6), "linear"),
        atol=1e-4,
    )
    z = rand(1, 2, 3, 4)
    check(
        lambda a: topi.image.resize2d(
            a, [0.0] * 4, (6, 8), "NHWC", "nearest_neighbor", "asymmetric", "floor"
        ),
        [np.ascontiguousarray(z.transpose(0, 2, 3, 1))],
        z.repeat(2, 2).repeat(2, 3).transpose(0, 2, 3, 1),
    )
    check(lambda a: topi.nn.upsampling(a, 2, 2), [z], z.repeat(2, 2).repeat(2, 3))


def test_crop_and_resize(check):
    x = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    wanted = np.array([[5, 6], [9, 10]], "float32").reshape(1, 1, 2, 2)
    roi = [1 / 3, 1 / 3, 2 / 3, 2 / 3]
    check(
        lambda a: topi.image.resize2d(a, roi, (2, 2), "NCHW", "linear", "tf_crop_and_resize"),
        [x],
        wanted,
        atol=1e-4,
    )
    outside = [1.0, 1.0, 2.0, 2.0]
    check(
        lambda a: topi.image.resize2d(
            a, outside, (2, 2), "NCHW", "linear", "tf_crop_and_resize", extrapolation_value=-1.0
        ),
        [x],
        np.array([15, -1, -1, -1], "float32").reshape(1, 1, 2, 2),
    )


@pytest.mark.parametrize(("size", "axes_apart"), [(14, True), (6, True), (3, False)])
def test_an_image_that_shrinks_much_is_not_resized_where_nobody_reads_it(size, axes_apart):
    """Otherwise one axis after the other: what lies between is used again."""
    x = te.placeholder((1, 2, 7, 7), name="x")
    out = topi.image.resize2d(x, (0.0, 0.0, 0.0, 0.0), [size, size], "NCHW", "linear", "half_pixel")
    assert ("resize_axis" in te.create_prim_func([x, out]).script()) == axes_apart


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_softmax_of_narrow_floats_is_rounded_once(dtype):
    """Maximum, sum and its reciprocal are float32: each result is the number next to the exact one."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    x = np.random.default_rng(0).uniform(-4, 4, (16, 49)).astype(kind)
    data = te.placeholder(x.shape, dtype, name="x")
    out = np.empty(x.shape, kind)
    build(te.create_prim_func([data, topi.nn.softmax(data)]))["main"](x, out)
    exps = np.exp(x.astype("float64") - x.astype("float64").max(1, keepdims=True))
    exact = exps / exps.sum(1, keepdims=True)
    info = ml_dtypes.finfo(kind)
    unit = np.exp2(np.floor(np.log2(np.maximum(exact, float(info.tiny)))) - info.nmant)
    assert (np.abs(out.astype("float64") - exact) / unit).max() <= 0.505


def test_resize_is_checked():
    a = te.placeholder((1, 2, 4, 4), name="a")
    with pytest.raises(IRValueError, match="coordinate transformation"):
        topi.image.resize2d(a, [], (2, 2), coordinate_transformation_mode="middle")
    with pytest.raises(IRValueError, match="layout 'NCW'"):
        topi.image.resize2d(a, [], (2, 2), "NCW")


def test_upsampling3d(check):
    x = rand(1, 2, 2, 3, 2)
    check(
        lambda a: topi.nn.upsampling3d(a, 2, 2, 2, coordinate_transformation_mode="asymmetric"),
        [x],
        x.repeat(2, 2).repeat(2, 3).repeat(2, 4),
    )


def test_scale_shift(check):
    x, scale, shift = rand(1, 3, 2, 2), rand(3), rand(3)
    column = (slice(None), None, None)
    check(topi.nn.scale_shift_nchw, [x, scale, shift], x * scale[column] + shift[column])


@pytest.mark.parametrize(
    "option", [{"auto_scheduler_rewritten_layout": "NK16n"}, {"meta_schedule_original_shape": (4, 4)}]
)
def test_weights_that_another_system_has_packed_are_refused(option):
    a, b, c = te.placeholder((4, 4)), te.placeholder((4, 4)), te.placeholder((1, 4, 4))
    image, kernel = te.placeholder((1, 4, 4, 4)), te.placeholder((1, 1, 4, 4))
    for make in (
        lambda: topi.nn.matmul(a, b, **option),
        lambda: topi.nn.dense(a, b, **option),
        lambda: topi.nn.batch_matmul(c, c, **option),
        lambda: topi.nn.conv2d_nhwc(image, kernel, 1, 0, 1, **option),
    ):
        with pytest.raises(IRValueError, match="operands come in their own layout"):
            make()


def test_upsampling_by_a_fraction() -> None:
    data = te.placeholder((1, 2, 4, 6, 8), "float32")
    shape = topi.nn.upsampling3d(data, 1.5, 2, 0.7).shape
    assert [int(extent) for extent in shape] == [1, 2, 6, 12, 6]


def test_a_layout_must_fit_the_dimensions() -> None:
    a, w = te.placeholder((1, 2, 3)), te.placeholder((1, 2, 3))
    with pytest.raises(IRValueError, match="data of 3 dimensions does not fit layout 'NCHW'"):
        topi.nn.conv(a, w, 1, 0, 1, 1, "NCHW")
    with pytest.raises(IRValueError, match="does not fit layout"):
        topi.nn.conv(te.placeholder((1, 2)), w, 1, 0, 1, 1, "NC")


def test_a_crop_that_begins_at_the_first_pixel_is_inside(check) -> None:
    data = np.arange(1, 10, dtype="float32").reshape(1, 1, 3, 3)
    check(
        lambda a: topi.image.resize2d(
            a, [0.0, 0.0, 1.0, 1.0], (3, 3), "NCHW", "linear", "tf_crop_and_resize", extrapolation_value=-1.0
        ),
        [data],
        data,
    )


@pytest.mark.meaning("op-reference")
@pytest.mark.parametrize(("dtype", "mean"), [("float32", 1e3), ("float32", 1e5), ("float64", 1e9)])
def test_normalization_far_from_zero(dtype, mean):
    """The variance is a mean of squared distances: squares of the elements themselves have no digit left of it."""
    x = (np.random.default_rng(0).standard_normal((3, 4, 40)) + mean).astype(dtype)

    def wanted(axes, shape=x.shape):
        exact = x.astype(np.longdouble).reshape(shape)
        centered = exact - exact.mean(axes, keepdims=True)
        return (centered / np.sqrt(exact.var(axes, keepdims=True) + 1e-5)).reshape(x.shape)

    cases = [
        (lambda a, g, b: topi.nn.layer_norm(a, g, b, [1]), wanted((1,))),
        (lambda a, g, b: topi.nn.instance_norm(a, g, b, 1, [2]), wanted((2,))),
        (lambda a, g, b: topi.nn.group_norm(a, g, b, 2, 1, [2]), wanted((2, 3), (3, 2, 2, 40))),
    ]
    for operator, expected in cases:
        (found,) = run_topi(operator, [x, np.ones(4, dtype), np.zeros(4, dtype)])
        np.testing.assert_allclose(found, expected.astype(dtype), rtol=1e-4, atol=1e-4)

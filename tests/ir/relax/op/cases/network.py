"""Operators of networks: activations, normalizations, convolutions, pools, attention, losses."""

from __future__ import annotations

import numpy as np

from ir import relax as rx

from .case import BOTH, ROWS, case, floats

R = rx.op
N = R.nn

for name in "relu relu6 gelu gelu_tanh silu selu softplus leakyrelu".split():
    case(f"nn.{name}", getattr(N, name), floats(2, 5), symbolic=ROWS, tolerance=2e-5)
case("nn.prelu", N.prelu, floats(2, 3, 4), floats(3, low=0.1), symbolic=ROWS)
case("nn.softmax", lambda x: N.softmax(x, 1), floats(2, 5), symbolic=ROWS)
case("nn.log_softmax", lambda x: N.log_softmax(x), floats(2, 5), symbolic=ROWS)
case(
    "nn.conv1d",
    lambda x, w: N.conv1d(x, w, 2, 1),
    floats(2, 3, 9),
    floats(4, 3, 3),
    symbolic=ROWS,
    tolerance=1e-4,
)
case(
    "nn.conv2d",
    lambda x, w: N.conv2d(x, w, 2, (1, 0), 1),
    floats(1, 3, 7, 6),
    floats(4, 3, 3, 3),
    tolerance=1e-4,
    symbolic={(0, 0): "n", (0, 2): "h"},
)
case(
    "nn.conv2d",
    lambda x, w: N.conv2d(x, w, dilation=2, groups=2),
    floats(1, 4, 7, 6),
    floats(6, 2, 2, 2),
    label="groups",
    tolerance=1e-4,
)
case(
    "nn.conv2d",
    lambda x, w: N.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"),
    floats(1, 5, 5, 3),
    floats(3, 3, 3, 2),
    label="nhwc",
    tolerance=1e-4,
)
case(
    "nn.conv3d",
    lambda x, w: N.conv3d(x, w, padding=1),
    floats(1, 2, 3, 4, 4),
    floats(2, 2, 3, 3, 3),
    tolerance=1e-4,
)
case(
    "nn.conv1d_transpose",
    lambda x, w: N.conv1d_transpose(x, w, 2, 1, 1),
    floats(2, 3, 5),
    floats(3, 2, 3),
    symbolic=ROWS,
    tolerance=1e-4,
)
case(
    "nn.conv2d_transpose",
    lambda x, w: N.conv2d_transpose(x, w, 2, 1, groups=2),
    floats(1, 4, 4, 3),
    floats(4, 3, 3, 3),
    tolerance=1e-4,
)
case(
    "nn.conv3d_transpose",
    lambda x, w: N.conv3d_transpose(x, w, 2),
    floats(1, 2, 2, 2, 2),
    floats(2, 2, 2, 2, 2),
    tolerance=1e-4,
)
for dims, data_layout, kernel_layout in ((1, "NWC", "WIO"), (2, "NHWC", "HWIO"), (3, "NDHWC", "DHWIO")):
    case(
        f"nn.conv{dims}d_transpose",
        lambda x, w, d=dims, layouts=(data_layout, kernel_layout): getattr(N, f"conv{d}d_transpose")(
            x, w, 2, 1, 1, data_layout=layouts[0], kernel_layout=layouts[1]
        ),
        floats(2, *[4, 3, 2][:dims], 3),
        floats(*[3, 4, 2][:dims], 3, 2),
        label="channels_last",
        tolerance=1e-4,
    )
for dims in (1, 2, 3):
    shape = (2, 2, *([5] * dims))
    case(
        f"nn.max_pool{dims}d",
        lambda x, d=dims: getattr(N, f"max_pool{d}d")(x, 2, 2, 1),
        floats(*shape),
        symbolic=ROWS,
    )
    case(
        f"nn.avg_pool{dims}d",
        lambda x, d=dims: getattr(N, f"avg_pool{d}d")(x, 2, 2, 1),
        floats(*shape),
        symbolic=ROWS,
    )
    case(
        f"nn.adaptive_avg_pool{dims}d",
        lambda x, d=dims: getattr(N, f"adaptive_avg_pool{d}d")(x, 2),
        floats(*shape),
        symbolic=ROWS,
    )
case("nn.max_pool2d", lambda x: N.max_pool2d(x, 3, 2, ceil_mode=True), floats(1, 2, 6, 6), label="ceil")
case(
    "nn.avg_pool2d",
    lambda x: N.avg_pool2d(x, 2, 3, 1, ceil_mode=True),
    floats(1, 1, 4, 4),
    label="no window in the padding behind alone",
)
case(
    "nn.avg_pool2d",
    lambda x: N.avg_pool2d(x, 3, 2, 1, count_include_pad=True),
    floats(1, 2, 6, 6),
    label="include-pad",
)
case(
    "nn.avg_pool2d",
    lambda x: N.avg_pool2d(x, (3, 2), (3, 2), (1, 0, 0, 0), dilation=(2, 1), ceil_mode=True),
    floats(1, 2, 8, 5),
    label="ceil",
)
BN = [floats(2, 3, 4), floats(3), floats(3, seed=1), floats(3, seed=2), floats(3, seed=3, low=0.5)]
case("nn.batch_norm", lambda *a: N.batch_norm(*a, axis=1, training=False), *BN, symbolic=ROWS, tolerance=3e-5)
case(
    "nn.batch_norm", lambda *a: N.batch_norm(*a, axis=1), *BN, symbolic=ROWS, tolerance=3e-5, label="training"
)
case(
    "nn.layer_norm",
    lambda x, g, b: N.layer_norm(x, g, b, -1),
    floats(2, 3, 6),
    floats(6),
    floats(6, seed=1),
    symbolic=ROWS,
    tolerance=3e-5,
)
case(
    "nn.group_norm",
    lambda x, g, b: N.group_norm(x, g, b, 2, 1, [2, 3]),
    floats(2, 4, 3, 3),
    floats(4),
    floats(4, seed=1),
    symbolic=ROWS,
    tolerance=3e-5,
)
case(
    "nn.instance_norm",
    lambda x, g, b: N.instance_norm(x, g, b, 1, [2, 3]),
    floats(2, 4, 3, 3),
    floats(4),
    floats(4, seed=1),
    symbolic=ROWS,
    tolerance=3e-5,
)
case("nn.rms_norm", N.rms_norm, floats(2, 3, 6), floats(6), symbolic=ROWS, tolerance=3e-5)
case("nn.dropout", N.dropout, floats(2, 3), symbolic=ROWS)
case("nn.pad", lambda x: N.pad(x, [1, 2, 0, 1]), floats(2, 3), symbolic=ROWS)
for mode in ("reflect", "replicate", "circular"):
    case("nn.pad", lambda x, mode=mode: N.pad(x, [1, 2, 2, 1], mode), floats(4, 5), label=mode)
case("nn.pixel_shuffle", lambda x: N.pixel_shuffle(x, 2), floats(1, 8, 2, 3), symbolic=ROWS)
case("nn.batch_flatten", N.batch_flatten, floats(2, 3, 4), symbolic=ROWS)
QKV = [floats(1, 4, 4, 8), floats(1, 5, 2, 8, seed=1), floats(1, 5, 2, 6, seed=2)]
case("nn.attention", N.attention, *QKV, symbolic={(0, 1): "n"}, tolerance=3e-5)
case(
    "nn.attention",
    lambda q, k, v: N.attention(q, k, v, causal_mask="BottomRight", window_size=3),
    *QKV,
    label="causal",
    tolerance=3e-5,
)
case(
    "nn.attention_bias",
    lambda q, k, v, b: N.attention(q, k, v, b, 0.3),
    *QKV,
    floats(1, 1, 4, 5),
    tolerance=3e-5,
)
case(
    "nn.cross_entropy_with_logits",
    N.cross_entropy_with_logits,
    floats(2, 3),
    floats(2, 3, seed=1),
    symbolic=BOTH,
)
for mode in ("mean", "sum", "none"):
    case(
        "nn.nll_loss",
        lambda x, t, w, mode=mode: N.nll_loss(x, t, w, mode, 1),
        floats(3, 4),
        np.asarray([0, 1, 3]),
        floats(4, low=0.5),
        label=mode,
    )

"""Quantization, training, devices, images and views."""

from __future__ import annotations

import numpy as np

import ir
from ir import relax as rx

from .case import ROWS, case, floats, ints

R = rx.op

# quantization
case(
    "quantize",
    lambda x, s, z: R.quantize(x, s, z, 0),
    floats(2, 3),
    np.asarray([0.1, 0.2], "float32"),
    np.asarray([3, 4], "int8"),
)
case(
    "dequantize",
    lambda x, s, z: R.dequantize(x, s, z),
    ints(2, 3, dtype="int8"),
    np.asarray(0.5, "float32"),
    np.asarray(2, "int8"),
    symbolic=ROWS,
)

case("grad.no_grad", R.grad.no_grad, floats(2, 3))
case("grad.start_checkpoint", R.grad.start_checkpoint, floats(2, 3))
case("grad.end_checkpoint", R.grad.end_checkpoint, floats(2, 3))
case(
    "grad.nll_loss_backward",
    lambda g, x, t, w: R.grad.nll_loss_backward(g, x, t, w, "mean", 1),
    np.asarray(0.5, "float32"),
    floats(3, 4),
    np.asarray([0, 1, 3]),
    floats(4, low=0.5),
)
case(
    "grad.take_backward",
    lambda g, x, i: R.grad.take_backward(g, x, i, 1),
    floats(2, 3, 4),
    floats(2, 5, 4),
    ints(3),
)
case(
    "grad.max_pool2d_backward",
    lambda g, x: R.grad.max_pool2d_backward(g, x, 3, 2, 1),
    floats(1, 2, 3, 3),
    floats(1, 2, 6, 5),
)
case(
    "grad.avg_pool2d_backward",
    lambda g, x: R.grad.avg_pool2d_backward(g, x, 3, 2, 1),
    floats(1, 2, 3, 3),
    floats(1, 2, 6, 5),
)
case("builtin.stop_lift_params", R.builtin.stop_lift_params, floats(2, 3))
case("hint_on_device", lambda x: R.hint_on_device(x, "cpu"), floats(2, 3), numbers=False)
case("to_vdevice", lambda x: R.to_vdevice(x, ir.VDevice()), floats(2, 3), numbers=False)
case("image.resize2d", lambda x: R.image.resize2d(x, (4, 6)), floats(1, 2, 3, 3), symbolic=ROWS)
case(
    "image.resize2d",
    lambda x: R.image.resize2d(
        x,
        (6, 6),
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    ),
    floats(1, 2, 3, 3),
    label="nearest",
)
case(
    "image.resize2d",
    lambda x: R.image.resize2d(x, (7, 5), method="cubic", coordinate_transformation_mode="align_corners"),
    floats(1, 2, 4, 3),
    label="cubic",
)
case("memory.view", lambda x: R.memory.view(x, (6,), "int32"), floats(2, 3), numbers=False)
case("memory.ensure_zero_offset", R.memory.ensure_zero_offset, floats(2, 3), numbers=False)

"""ConvertLayout: convolutions, and what stands around them, change layouts."""

from __future__ import annotations

import numpy as np
import pytest

from ir import relax
from ir.error import IRValueError
from ir.relax import transform
from ir.relax.analysis import well_formed
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from tests.programs.graphs import conv, network

from .conftest import verify
from .structure import operators

op = relax.op


def test_convert_layout_structure():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")) -> R.Tensor(
            (2, 4, 26, 26), "float32"
        ):
            with R.dataflow():
                lv = R.nn.conv2d(x, w, out_dtype="float32")
                gv = R.nn.relu(lv)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")) -> R.Tensor(
            (2, 4, 26, 26), "float32"
        ):
            with R.dataflow():
                lv = R.permute_dims(x, axes=[0, 2, 3, 1])
                lv1 = R.permute_dims(w, axes=[0, 2, 3, 1])
                lv2 = R.nn.conv2d(
                    lv, lv1, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC", out_dtype="float32"
                )
                lv3 = R.nn.relu(lv2)
                gv = R.permute_dims(lv3, axes=[0, 3, 1, 2])
                R.output(gv)
            return gv

    verify(transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before), Expected)


@pytest.mark.parametrize(
    ("name", "build", "transposes"),
    [
        (
            "epilogue",
            lambda bb, x: op.nn.relu(
                bb.emit(op.add(conv(bb, x), relax.const(np.ones((1, 8, 1, 1), "float32"))))
            ),
            2,
        ),
        ("scalar", lambda bb, x: op.multiply(conv(bb, x), relax.const(2.0, "float32")), 2),
        ("residual", lambda bb, x: op.add(conv(bb, x, 4), x), 2),
        ("row", lambda bb, x: op.add(conv(bb, x), relax.const(np.arange(6, dtype="float32"))), 2),
        ("max_pool", lambda bb, x: op.nn.max_pool2d(conv(bb, x), (2, 2), strides=(2, 2)), 2),
        ("global_pool", lambda bb, x: op.nn.adaptive_avg_pool2d(conv(bb, x), (1, 1)), 2),
        ("mean", lambda bb, x: op.mean(conv(bb, x), [2, 3]), 1),
        ("mean_keepdims", lambda bb, x: op.mean(conv(bb, x), [2, 3], keepdims=True), 2),
        ("sum_channel", lambda bb, x: op.sum(conv(bb, x), 1), 1),
        ("sum_height", lambda bb, x: op.sum(conv(bb, x), 2), 2),
        ("concat", lambda bb, x: op.concat([conv(bb, x), conv(bb, x)], 1), 2),
        ("split", lambda bb, x: bb.emit(op.split(conv(bb, x), 2, 1))[1], 2),
        ("softmax", lambda bb, x: op.nn.softmax(conv(bb, x), axis=1), 2),
        ("pad", lambda bb, x: op.nn.pad(conv(bb, x), [0, 0, 0, 0, 1, 2, 0, 3]), 2),
        ("permute", lambda bb, x: op.permute_dims(conv(bb, x), [0, 2, 3, 1]), None),
        ("reshape", lambda bb, x: op.reshape(conv(bb, x), (2, 8 * 36)), 2),
        ("depthwise", lambda bb, x: conv(bb, x, 4, groups=4), 2),
        ("grouped", lambda bb, x: conv(bb, x, 8, groups=2), 2),
        ("strided", lambda bb, x: conv(bb, x, 8, strides=2), 2),
        ("two", lambda bb, x: conv(bb, bb.emit(op.nn.gelu(conv(bb, x)))), 2),
        (
            "where",
            lambda bb, x: (
                lambda c: op.where(
                    bb.emit(op.greater(c, relax.const(0.0, "float32"))), c, bb.emit(op.negative(c))
                )
            )(conv(bb, x)),
            2,
        ),
        ("clip", lambda bb, x: op.clip(conv(bb, x), 0, 6), 2),
        # a vector per entry of an axis follows the axis; what is broadcast to a shape has the original axes
        (
            "quantize",
            lambda bb, x: op.quantize(
                conv(bb, x),
                relax.const(np.arange(1, 9, dtype="float32") / 20),
                relax.const(np.arange(8, dtype="int8")),
                1,
            ),
            2,
        ),
        (
            "broadcast",
            lambda bb, x: op.broadcast_to(
                bb.emit(op.mean(conv(bb, x), [2, 3], keepdims=True)), (3, 2, 8, 1, 1)
            ),
            2,
        ),
        ("tuple", lambda bb, x: relax.Tuple([conv(bb, x), bb.emit(op.nn.relu(conv(bb, x)))]), None),
    ],
)
def test_convert_layout_keeps_the_numbers(name, build, transposes, same_numbers):
    mod = network(build, (2, 4, 6, 6))
    after = transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "HWIO"]})(mod)
    convs = [
        b.value
        for block in after["main"].body.blocks
        for b in block.bindings
        if getattr(getattr(b.value, "op", None), "name", "") == "relax.nn.conv2d"
    ]
    assert convs and all(conv.attrs["data_layout"] == "NHWC" for conv in convs)
    folded = transform.DeadCodeElimination()(transform.FoldConstant()(after))
    if transposes is not None:
        assert operators(folded).count("relax.permute_dims") == transposes
    same_numbers(mod, folded, [(2, 4, 6, 6)])


def test_convert_layout_rejects_inner_axes():
    mod = network(lambda bb, x: conv(bb, x), (2, 4, 6, 6))
    with pytest.raises(IRValueError, match="cannot convert NCHW to NCHW4c"):
        transform.ConvertLayout({"relax.nn.conv2d": ["NCHW4c", "OIHW"]})(mod)
    with pytest.raises(IRValueError, match="takes \\[data, kernel\\]"):
        transform.ConvertLayout({"relax.nn.conv2d": ["NHWC"]})(mod)
    with pytest.raises(IRValueError, match="'relax.matmul' declares no layout rule"):
        transform.ConvertLayout({"relax.matmul": ["NHWC", "HWIO"]})


def test_convert_layout_of_what_branches_use():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((1, 4, 6, 6), "float32"),
            w: R.Tensor((4, 4, 3, 3), "float32"),
            c: R.Tensor((), "bool"),
        ) -> R.Tensor((1, 4, 4, 4), "float32"):
            with R.dataflow():
                y = R.nn.conv2d(x, w)
                z = R.nn.relu(y)
                R.output(z)
            if c:
                r = R.negative(z)
            else:
                r = z
            return r

    after = transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)
    assert well_formed(after)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 4, 6, 6)).astype("float32")
    w = rng.standard_normal((4, 4, 3, 3)).astype("float32")
    for c in (True, False):
        args = (x, w, np.array(c))
        np.testing.assert_allclose(evaluate(after, *args), evaluate(Before, *args), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("between", ["nothing", "max_pool2d", "mean", "squeeze", "relu"])
@pytest.mark.parametrize("rank", [4, 5])
def test_what_is_broadcast_to_a_shape_has_its_original_axes(between, rank, same_numbers):
    """The shape names extents of the original axes, and may have more of them: that is no elementwise operator."""

    def build(bb, x):
        y = conv(bb, x, 4)
        if between == "max_pool2d":
            y = bb.emit(op.nn.max_pool2d(y, (6, 6)))
        elif between == "mean":
            y = bb.emit(op.mean(y, [2, 3], keepdims=True))
        elif between == "squeeze":
            y = bb.emit(op.squeeze(y, [0]))
        elif between == "relu":
            y = bb.emit(op.nn.relu(y))
        shape = [2, 3, 4, 6, 6][-rank:] if between == "squeeze" else [2, 5, 4, 6, 6][-rank:]
        return op.broadcast_to(y, [1, *shape[1:]] if rank == 4 and between != "squeeze" else shape)

    mod = network(build, (1, 3, 6, 6))
    for step in (transform.ChooseLayout(), transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})):
        same_numbers(mod, step(mod), [(1, 3, 6, 6)], rtol=1e-3, atol=1e-4)

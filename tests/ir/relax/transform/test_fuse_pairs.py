"""FusePairs: convolutions over channels and over windows become one kernel where what is between them is large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import IRModule, relax, tir
from ir.expr import GlobalVar
from ir.relax import transform
from ir.relax.expr import Call, is_call_to
from ir.target import Target
from ir.transform import Sequential

CPU = Target("llvm -mcpu=haswell -num-cores 2")
LAYOUTS = {"NHWC": ("NHWC", "HWIO"), "NCHW": ("NCHW", "OIHW")}
CHANNELS, FILTERS, SIZE = 4, 5, 6


class Builder:
    """Builds a function ``main`` of one image, of convolutions with constant weights."""

    def __init__(self, layout: str = "NCHW", dtype: str = "float32", batch: Any = 1) -> None:
        self.block = relax.BlockBuilder()
        self._layout = layout
        self._rng = np.random.default_rng(0)
        shape = (batch, CHANNELS, SIZE, SIZE) if layout == "NCHW" else (batch, SIZE, SIZE, CHANNELS)
        self.image = relax.Var("x", relax.TensorStructInfo(shape, dtype))

    def conv(self, data: Any, filters: int, taps: int, groups: int = 1, stride: int = 1) -> Any:
        """A convolution, and what is computed of each of its results."""
        axis = self._layout.index("C")
        channels = int(data.struct_info.shape_values[axis].value)
        shape = (filters, channels // groups, taps, taps)
        weights = self._rng.standard_normal(
            shape if self._layout == "NCHW" else (*shape[2:], shape[1], filters)
        )
        data_layout, kernel_layout = LAYOUTS[self._layout]
        result = relax.op.nn.conv2d(
            data,
            relax.const(weights, data.struct_info.dtype),
            strides=stride,
            padding=taps // 2,
            groups=groups,
            data_layout=data_layout,
            kernel_layout=kernel_layout,
        )
        return self.block.emit(relax.op.nn.relu(self.block.emit(result)))

    def pointwise(self, data: Any) -> Any:
        return self.conv(data, FILTERS, 1)

    def depthwise(self, data: Any, stride: int = 1) -> Any:
        channels = int(data.struct_info.shape_values[self._layout.index("C")].value)
        return self.conv(data, channels, 3, channels, stride)

    def finish(self, make: Callable[[Builder], Any]) -> IRModule:
        """Kernels, as they are before the pass."""
        with self.block.function("main", [self.image]):
            with self.block.dataflow():
                result = self.block.emit_output(make(self))
            self.block.emit_func_output(result)
        passes = [
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            transform.FuseOps(),
            transform.FuseTIR(),
        ]
        with CPU:
            return Sequential(passes)(self.block.get())


def fused(mod: IRModule, min_bytes: int = 1, target: Target = CPU) -> IRModule:
    with target:
        return transform.FusePairs(min_bytes)(mod)


def calls(mod: IRModule) -> list[Call]:
    main = mod["main"]
    assert isinstance(main, relax.Function)
    return [
        binding.value
        for block in main.body.blocks
        for binding in block.bindings
        if is_call_to(binding.value, "relax.call_tir")
    ]


def reductions(mod: IRModule, call: Call) -> list[str]:
    found: list[str] = []
    kernel = call.args[0]
    assert isinstance(kernel, GlobalVar)
    func = mod[kernel]
    assert isinstance(func, tir.PrimFunc)
    tir.stmt_functor.post_order_visit(
        func.body,
        lambda node: found.append(node.name_hint) if isinstance(node, tir.Block) and node.init else None,
    )
    return found


ORDERS: dict[str, Callable[[Builder], Any]] = {
    "depthwise, pointwise": lambda b: b.pointwise(b.depthwise(b.image)),
    "pointwise, depthwise": lambda b: b.depthwise(b.pointwise(b.image), stride=2),
}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("order", sorted(ORDERS))
def test_a_pair_becomes_one_kernel(layout: str, order: str, same_numbers: Callable[..., None]) -> None:
    builder = Builder(layout)
    before = builder.finish(ORDERS[order])
    assert len(calls(before)) == 2
    after = fused(before)
    (call,) = calls(after)
    assert len(reductions(after, call)) == 2
    assert len([func for func in after.functions.values() if isinstance(func, tir.PrimFunc)]) == 1
    shape = [int(extent.value) for extent in builder.image.struct_info.shape_values]
    same_numbers(before, after, [shape])


def test_of_a_chain_the_first_pair_is_merged_and_then_the_next() -> None:
    def network(b: Builder) -> Any:
        return b.pointwise(b.depthwise(b.pointwise(b.depthwise(b.image))))

    after = fused(Builder().finish(network))
    assert [len(reductions(after, call)) for call in calls(after)] == [2, 2]


def test_what_fits_the_last_cache_stays_two_kernels() -> None:
    before = Builder().finish(ORDERS["depthwise, pointwise"])
    n_bytes = CHANNELS * SIZE * SIZE * 4
    assert fused(before, n_bytes) is before
    assert len(calls(fused(before, n_bytes - 1))) == 1
    assert fused(before, 0) is before
    small = Target(f"llvm -mcpu=haswell -num-cores 2 -l3-cache-bytes={n_bytes - 1}")
    assert len(calls(fused(before, 0, small))) == 1


def test_weights_that_do_not_stay_in_the_second_cache_keep_a_pair_apart() -> None:
    before = Builder().finish(ORDERS["depthwise, pointwise"])
    n_bytes = (CHANNELS * 9 + CHANNELS * FILTERS) * 4
    for size, expected in ((2 * n_bytes, 1), (2 * n_bytes - 2, 2)):
        target = Target(f"llvm -mcpu=haswell -num-cores 2 -l2-cache-bytes={size}")
        assert len(calls(fused(before, 1, target))) == expected


def two_consumers(b: Builder) -> Any:
    between = b.depthwise(b.image)
    return b.block.emit(relax.op.add(b.pointwise(between), b.conv(between, FILTERS, 1)))


def read_again_behind(b: Builder) -> Any:
    between = b.depthwise(b.image)
    return b.block.emit(relax.op.multiply(b.conv(between, CHANNELS, 1), between))


def given_out(b: Builder) -> Any:
    between = b.depthwise(b.image)
    return b.block.emit(relax.Tuple([b.pointwise(between), between]))


REFUSED: dict[str, tuple[Callable[[Builder], Any], dict[str, Any]]] = {
    "two consumers": (two_consumers, {}),
    "the second kernel reads it twice": (read_again_behind, {}),
    "a result of the function": (given_out, {}),
    "unknown extents": (ORDERS["depthwise, pointwise"], {"batch": tir.Var("n", "int64")}),
    "windows of all channels": (lambda b: b.pointwise(b.conv(b.image, FILTERS, 3)), {}),
    "two over channels": (lambda b: b.pointwise(b.pointwise(b.image)), {}),
    "two over windows": (lambda b: b.depthwise(b.depthwise(b.image)), {}),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_is_no_such_pair_stays(case: str) -> None:
    network, options = REFUSED[case]
    before = Builder(**options).finish(network)
    assert len(calls(before)) >= 2
    assert fused(before) is before


def test_of_two_types_of_data_both_kernels_stay() -> None:
    def converted(b: Builder) -> Any:
        return b.pointwise(b.block.emit(relax.op.astype(b.depthwise(b.image), "float64")))

    assert len(calls(fused(Builder(dtype="float64").finish(ORDERS["depthwise, pointwise"])))) == 1
    before = Builder().finish(converted)
    assert len(calls(before)) == 2
    assert fused(before) is before


def test_without_a_processor_as_target_nothing_is_merged() -> None:
    before = Builder().finish(ORDERS["depthwise, pointwise"])
    assert transform.FusePairs(1)(before) is before
    assert fused(before, 1, Target("cuda -arch=sm_80")) is before

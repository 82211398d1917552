"""Weights that a kernel wants computed and packed are its parameters, and runners make them as it says."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, te, tir, topi
from ir.script import tir as T
from ir.tir.interpreter import Interpreter
from ir.tir.kernel_attributes import LAYOUT_REWRITE_MAPS, WEIGHT_PROGRAMS
from runners.kernel import pack_arguments
from schedules import Schedule, ScheduleError
from schedules.layout_rewrite import split_weight_packing

from .primitive.test_winograd import convolution, outputs


def test_a_convolution_by_winograd_takes_transformed_weights() -> None:
    func = convolution((6, 5), channels=3, filters=4).with_attr("layout_free_buffers", [1])
    sch = Schedule(func)
    *_, multiply, _ = sch.winograd("conv2d_nhwc", 2)
    copy = sch.cache_read(multiply, 1, "global")
    sch.transform_layout(copy, ("write", 0), lambda p, c, k: [k, p, c])
    sch.annotate(copy, "meta_schedule.layout_rewrite_preproc", 1)
    kernel = split_weight_packing(sch.mod["main"])
    weight = kernel.buffer_map[kernel.params[1]]
    assert [int(extent) for extent in weight.shape] == [4, 16, 3]
    assert set(kernel.attrs[WEIGHT_PROGRAMS]) == set(kernel.attrs[LAYOUT_REWRITE_MAPS]) == {1}
    rng = np.random.default_rng(0)
    shapes = [[int(extent) for extent in func.buffer_map[param].shape] for param in func.params]
    arrays = [rng.standard_normal(shape) for shape in shapes]
    rooms: list[int] = []

    def room(position: int, shape: object, dtype: object) -> np.ndarray:
        rooms.append(position)
        return np.empty(shape, dtype)  # type: ignore[call-overload,no-any-return]

    packed = pack_arguments(IRModule({"main": kernel}), arrays, room)
    assert rooms == [1] and packed[0] is arrays[0]
    Interpreter(IRModule({"main": kernel})).call(kernel, packed)
    np.testing.assert_allclose(packed[-1], outputs(func), rtol=1e-10, atol=1e-11)


def test_weights_that_are_only_computed_have_memory_of_the_runner_too() -> None:
    func = convolution((4, 4)).with_attr("layout_free_buffers", [1])
    sch = Schedule(func)
    sch.winograd("conv2d_nhwc", 4)
    kernel = split_weight_packing(sch.mod["main"])
    assert not kernel.attrs[LAYOUT_REWRITE_MAPS]
    arrays = [np.ones([int(extent) for extent in func.buffer_map[param].shape]) for param in func.params]
    memory = np.zeros((36, 2, 3))
    packed = pack_arguments(IRModule({"main": kernel}), arrays, lambda *_: memory)
    assert packed[1] is memory and memory.any()


def of_shared_weights() -> tir.PrimFunc:
    """One convolution after the other, of the same weights."""
    data, weights = (
        te.placeholder(shape, "float64", name) for shape, name in (((1, 5, 6, 2), "D"), ((3, 3, 2, 2), "W"))
    )
    once = topi.nn.conv2d(data, weights, 1, 1, 1, "NHWC")
    func = te.create_prim_func([data, weights, topi.nn.conv2d(once, weights, 1, 1, 1, "NHWC")])
    return func.with_attr("layout_free_buffers", [1])


def of_itself() -> tir.PrimFunc:
    """A convolution of a tensor with itself."""
    data = te.placeholder((3, 3, 2, 2), "float64", "D")
    func = te.create_prim_func([data, topi.nn.conv2d(data, data, 1, 1, 1, "NHWC")])
    return func.with_attr("layout_free_buffers", [0])


@pytest.mark.parametrize(
    ("func", "blocks"),
    [
        (of_shared_weights(), ["conv2d_nhwc"]),
        (of_shared_weights(), ["conv2d_nhwc_1"]),
        (of_shared_weights(), ["conv2d_nhwc", "conv2d_nhwc_1"]),
        (of_itself(), ["conv2d_nhwc"]),
    ],
)
def test_a_kernel_that_reads_a_weight_besides_packs_by_itself(func: tir.PrimFunc, blocks: list[str]) -> None:
    sch = Schedule(func)
    for name in blocks:
        sch.winograd(name, 2)
    scheduled = sch.mod["main"]
    assert split_weight_packing(scheduled) is scheduled
    np.testing.assert_allclose(outputs(scheduled), outputs(func), rtol=1e-10, atol=1e-11)


@T.prim_func
def reads_two(A: T.Buffer((4,), "float32"), W: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    T.func_attr({"layout_free_buffers": [1]})
    P = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("P"):
            v = T.axis.spatial(4, i)
            T.block_attr({"meta_schedule.layout_rewrite_preproc": 1})
            P[v] = W[v] * A[v]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = P[v]


@T.prim_func
def computes_twice(W: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    T.func_attr({"layout_free_buffers": [0]})
    P = T.alloc_buffer((4,))
    Q = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("P"):
            v = T.axis.spatial(4, i)
            T.block_attr({"meta_schedule.layout_rewrite_preproc": 1})
            P[v] = W[v] * T.float32(2)
    for i in range(4):
        with T.block("Q"):
            v = T.axis.spatial(4, i)
            T.block_attr({"meta_schedule.layout_rewrite_preproc": 1})
            Q[v] = P[v] + T.float32(1)
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = Q[v]


def test_a_weight_that_takes_more_than_two_steps_is_made_in_the_kernel() -> None:
    assert split_weight_packing(computes_twice) is computes_twice


def test_a_packed_weight_that_is_computed_from_besides_is_made_in_the_kernel() -> None:
    """One convolution reads panels, from which the weights of the other one are transformed."""
    func = of_shared_weights()
    sch = Schedule(func)
    panels = sch.cache_read("conv2d_nhwc", 1, "global", consumer_blocks=["conv2d_nhwc", "conv2d_nhwc_1"])
    sch.transform_layout(panels, ("write", 0), lambda r, s, c, k: [k, r, s, c])
    sch.annotate(panels, "meta_schedule.layout_rewrite_preproc", 1)
    weights, *_ = sch.winograd("conv2d_nhwc_1", 2)
    sch.annotate(weights, "meta_schedule.layout_rewrite_preproc", 1)
    scheduled = sch.mod["main"]
    assert split_weight_packing(scheduled) is scheduled
    np.testing.assert_allclose(outputs(scheduled), outputs(func), rtol=1e-10, atol=1e-11)


@T.prim_func
def packs_a_result(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    P = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = A[v]
    for i in range(4):
        with T.block("P"):
            v = T.axis.spatial(4, i)
            T.block_attr({"meta_schedule.layout_rewrite_preproc": 1})
            P[v] = B[v]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = P[v]


@pytest.mark.parametrize(
    ("func", "words"),
    [
        (reads_two, "one tensor of another"),
        (packs_a_result, "which is no parameter"),
    ],
)
def test_what_is_made_of_no_weight_alone_is_refused(func: tir.PrimFunc, words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        split_weight_packing(func)

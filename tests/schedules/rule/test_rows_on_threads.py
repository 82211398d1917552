"""AutoBind on operators written as loops (scans, sorts, selections, scatters, searches), on what is in order, and around threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import IRModule, te, topi
from ir.script import from_source
from ir.target import Target
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules import Schedule
from schedules.postproc import postprocess
from schedules.rule import AutoBind
from schedules.space import PostOrderApply
from schedules.tree import LoopNode, walk

GPU = Target("nvidia/nvidia-a100")
RANDOM = np.random.default_rng(7)


def tensor(*shape: int, dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, dtype, name="x")


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RANDOM.integers(-50, 50, shape).astype(dtype)


def places(*shape: int, most: int) -> np.ndarray:
    return RANDOM.integers(0, most, shape).astype("int64")


def threads(sch: Schedule) -> list[int]:
    """The threads of the blocks of each kernel."""
    func = sch.func_working_on
    assert func is not None
    return [
        node.extent.value
        for node in walk(sch._root(func))
        if isinstance(node, LoopNode)
        and node.thread_binding is not None
        and node.thread_binding.thread_tag == "threadIdx.x"
    ]


def assert_all_structures(
    tensors: list[te.Tensor], inputs: list[np.ndarray], expected: np.ndarray, structures: int = 1
) -> list[list[int]]:
    """Every structure has candidates that are valid and compute what numpy does; the threads of their kernels."""
    func = te.create_prim_func(tensors)
    module = IRModule({"main": func})
    sketches = PostOrderApply().generate_sketches(module, GPU)
    assert len(sketches) >= structures
    found = []
    for sketch in sketches:
        for row in np.unique(sketch.sample(2, np.random.default_rng(0)), axis=0):
            sch = sketch.materialize(module, row)
            assert postprocess(sch, GPU)
            result = np.empty_like(expected)
            run(
                lower(sch.mod, GPU), *inputs, result
            )  # threads exchange values: they are real ones in kernels
            np.testing.assert_array_equal(result, expected)
            found.append(threads(sch))
    return found


@pytest.mark.parametrize(
    ("shape", "axis"), [((40, 256), 1), ((128, 33), 0), ((2, 128, 3, 5), 1), ((256,), 0)]
)
def test_running_sums(shape: tuple[int, ...], axis: int) -> None:
    data = numbers(*shape)
    x = tensor(*shape)
    result = topi.cumsum(x, axis=axis)
    assert_all_structures([x, result], [data], data.cumsum(axis), 2 if shape[axis] >= 128 else 1)


def test_running_sums_of_one_row_have_a_thread_for_each_block() -> None:
    data = numbers(4096)
    x = tensor(4096)
    kernels = assert_all_structures([x, topi.cumsum(x)], [data], data.cumsum(), 4)
    assert [1] in kernels
    assert [64, 1, 64] in kernels or [32, 1, 32] in kernels


SORTS: dict[str, tuple[tuple[int, ...], Callable[[te.Tensor], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "sort": ((2, 2, 70), topi.sort, lambda data: np.sort(data, -1)),
    "columns": ((24, 5), lambda x: topi.sort(x, axis=0), lambda data: np.sort(data, 0)),
    "argsort": (
        (3, 80),
        lambda x: topi.argsort(x, dtype="int32"),
        lambda data: np.argsort(data, -1, kind="stable").astype("int32"),
    ),
    "topk": (
        (40, 100),
        lambda x: topi.topk(x, 5, ret_type="values"),
        lambda data: -np.sort(-data, -1)[..., :5],
    ),
}


@pytest.mark.parametrize("name", list(SORTS))
def test_rows_in_order(name: str) -> None:
    shape, operator, reference = SORTS[name]
    data = numbers(*shape)
    x = tensor(*shape)
    expected = reference(data)
    kernels = assert_all_structures([x, operator(x)], [data], expected)
    assert all(
        count in (32, 64, 128, 256, 512, 1024) for (count,) in kernels
    )  # of a row: whole warps exchange its elements


@pytest.mark.parametrize("columns", [1, 7, 64, 128])
def test_slices_are_added_where_indices_say(columns: int) -> None:
    data, updates = numbers(20, columns), numbers(30, columns)
    indices = places(1, 30, most=20)
    expected = data.copy()
    np.add.at(expected, indices[0], updates)
    tensors = [
        tensor(20, columns),
        te.placeholder((1, 30), "int64", name="i"),
        te.placeholder((30, columns), name="u"),
    ]
    kernels = assert_all_structures(
        [*tensors, topi.scatter_nd(*tensors, mode="add")], [data, indices, updates], expected
    )
    copied, updated = kernels[0]
    assert copied >= min(32, data.size)
    assert updated == max(1, columns // 64)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_elements_are_put_where_indices_say(axis: int) -> None:
    data = numbers(6, 5, 4)
    shape = [6, 5, 4]
    shape[axis] = 3
    indices = np.stack(
        [RANDOM.permutation(data.shape[axis])[:3] for _ in range(data.size // data.shape[axis])]
    )
    indices = np.moveaxis(indices.reshape(*[e for i, e in enumerate(shape) if i != axis], 3), -1, axis)
    updates = numbers(*shape)
    expected = data.copy()
    np.put_along_axis(expected, indices, updates, axis)
    tensors = [tensor(6, 5, 4), te.placeholder(shape, "int64", name="i"), te.placeholder(shape, name="u")]
    kernels = assert_all_structures(
        [*tensors, topi.scatter_elements(*tensors, axis=axis)],
        [data, np.ascontiguousarray(indices).astype("int64"), updates],
        expected,
    )
    assert kernels[0][1] == (5 if axis == 0 else 6)


def test_values_are_put_at_index_tensors() -> None:
    data, values = numbers(9, 128), numbers(4, 128)
    rows = np.array([3, 1, -1, 3])
    expected = data.copy()
    np.add.at(expected, rows, values)
    x, v = tensor(9, 128), te.placeholder((4, 128), name="v")
    i = te.placeholder((4,), "int64", name="i")
    result = topi.index_put(x, [i], v, accumulate=True)
    kernels = assert_all_structures([x, v, i, result], [data, values, rows], expected)
    assert kernels[0][1] == 2


def test_places_in_sorted_rows() -> None:
    rows = np.sort(numbers(50))
    wanted = numbers(7, 11)
    x, v = tensor(50), te.placeholder((7, 11), name="v")
    result = topi.searchsorted(x, v)
    kernels = assert_all_structures(
        [x, v, result], [rows, wanted], np.searchsorted(rows, wanted).astype("int64")
    )
    assert all(count[0] >= 32 for count in kernels)


def test_what_must_run_in_order_is_one_thread_s() -> None:
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            T.reads(A[i], B[0:8])
            T.writes(B[0:8])
            B[i] = A[i] + (B[i - 1] if i > 0 else 0)
"""
    )
    rule = AutoBind()
    rule.initialize(GPU)
    sch = Schedule(func)
    (bound,) = rule.apply(sch, sch.get_block("B"))
    assert threads(bound) == [1]
    data, result = numbers(8, dtype="int32"), np.zeros(8, "int32")
    run(bound.mod["main"], data, result)
    np.testing.assert_array_equal(result, data.cumsum())


def test_a_block_that_calls_what_has_effects_is_left_to_the_host() -> None:
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("A"):
            T.writes(A[i])
            A[i] = T.call_extern("int32", "rand")
"""
    )
    rule = AutoBind()
    rule.initialize(GPU)
    sch = Schedule(func)
    (bound,) = rule.apply(sch, sch.get_block("A"))
    assert threads(bound) == []


@pytest.mark.parametrize("shape", [(32, 48), (1, 70), (3, 5, 40)])
def test_rows_that_threads_share_are_blocks(shape: tuple[int, ...]) -> None:
    """The loops around shared reductions, and around what reads them out of shared memory, do not stay on the host."""
    data = numbers(*shape)
    x = tensor(*shape)
    result = topi.subtract(x, topi.max(x, axis=-1, keepdims=True))
    assert_all_structures([x, result], [data], data - data.max(-1, keepdims=True), 2)
    func = te.create_prim_func([x, result])
    sketch = PostOrderApply().generate_sketches(func, GPU)[-1]  # others have several rows in a block
    sch = sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0])
    outer = sch.get(sch.get_loops("x_red")[0])
    assert outer.extent == data.size // shape[-1]
    assert outer.thread_binding is not None and outer.thread_binding.thread_tag == "blockIdx.x"


def test_threads_that_share_one_sum_are_one_block() -> None:
    data = numbers(300)
    x = tensor(300)
    assert_all_structures([x, topi.sum(x)], [data], np.asarray(data.sum()), 2)


@pytest.mark.parametrize("kind", ["opaque", "scan"])
def test_an_axis_that_says_nothing_is_one_thread_s(kind: str) -> None:
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.{kind}(8, i)
            B[v] = A[v] + 1
"""
    )
    (sketch,) = PostOrderApply().generate_sketches(func, GPU)
    sch = sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0])
    assert postprocess(sch, GPU)
    assert threads(sch) == [1]
    data, result = numbers(8, dtype="int32"), np.zeros(8, "int32")
    run(sch.mod["main"], data, result)
    np.testing.assert_array_equal(result, data + 1)

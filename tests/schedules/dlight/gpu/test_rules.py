"""What each rule for GPUs knows, and how its kernels look."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedules.dlight.gpu as gpu
from experiments.operators import suite
from ir import te, tir
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.lower import lower
from schedules.dlight import default_schedule

from .checks import TARGET, assert_computes, kernels_of, rule_of


def product(few: int, rows: int, length: int, dtype: str = "float32", doubled: bool = False) -> PrimFunc:
    """[few, length] times [rows, length] transposed, in float32, twice of it if wanted."""
    x, a = te.placeholder((few, length), dtype, "x"), te.placeholder((rows, length), dtype, "A")
    k = te.reduce_axis((0, length), "k")
    y = te.compute(
        (few, rows),
        lambda b, i: te.sum(x[b, k].astype("float32") * a[i, k].astype("float32"), axis=k),
        name="y",
    )
    out = te.compute(y.shape, lambda b, i: y[b, i] * 2.0, name="twice") if doubled else y
    return te.create_prim_func([x, a, out])


def source_of(rule: gpu.GPUScheduleRule, func: PrimFunc, target: Target = TARGET) -> str:
    """CUDA C++ of a function by a rule."""
    sch = rule.apply(func, target)
    assert sch is not None
    return generate(lower(sch.mod, target)).text


@pytest.mark.parametrize("few", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("doubled", [False, True])
def test_rows_of_a_matrix_are_loaded_as_vectors_once(few: int, dtype: str, doubled: bool) -> None:
    func = product(few, 64, 512, dtype, doubled)
    rule = gpu.GEMV() if few == 1 else gpu.LowBatchGEMV()
    assert rule_of(func) == type(rule).__name__
    text = source_of(rule, func)
    lanes = 4 if dtype == "float32" else 8
    assert text.count(f"load_vec<{lanes}>(A") == 1 and "__shfl" in text
    generator = np.random.default_rng(0)
    x, a = (generator.standard_normal((rows, 512)).astype(dtype) for rows in (few, 64))
    expected = (x.astype("float64") @ a.T.astype("float64")) * (2 if doubled else 1)
    sch = rule.apply(func, TARGET)
    assert sch is not None
    lowered = lower(sch.mod, TARGET)
    found = np.zeros((few, 64), "float32")
    EmulatedProgram(lowered, generate(lowered))(x, a, found)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_many_rows_have_several_in_a_block() -> None:
    """Where there are rows for all multiprocessors."""
    text = source_of(gpu.GEMV(), product(1, 4096, 512))
    assert "threadIdx.y" in text
    assert "threadIdx.y" not in source_of(gpu.GEMV(), product(1, 64, 512))


def test_rows_that_no_threads_share_evenly_are_left_to_others() -> None:
    func = product(1, 64, 509)
    assert gpu.GEMV().apply(func, TARGET) is None
    assert rule_of(func) == "Reduction"


def test_more_vectors_than_a_few_are_a_matrix() -> None:
    func = product(8, 64, 512)
    assert gpu.LowBatchGEMV().apply(func, TARGET) is None and gpu.GEMV().apply(func, TARGET) is None
    assert rule_of(func) == "Matmul"


def test_tiles_of_a_product_pass_through_shared_memory_and_stay_in_registers() -> None:
    sch = gpu.Matmul().apply(product(1024, 4096, 512), TARGET)
    assert sch is not None
    text = sch.mod.script()
    assert text.count('scope="shared"') == 2 and text.count('scope="local"') == 1
    assert 'thread="vthread.x"' in text and "T.vectorized(4)" in text and "T.where" not in text


@pytest.mark.parametrize(
    ("shape", "rows_of"),
    [
        ((24, 20), lambda a: a[:, ::-1]),
        ((43,), lambda a: np.lib.stride_tricks.sliding_window_view(a, 20)),
        ((48, 20), lambda a: a[1::2]),
    ],
    ids=["reversed", "windows", "every other row"],
)
def test_operands_of_a_product_may_be_indexed_by_sums(shape: tuple[int, ...], rows_of: Any) -> None:
    a, b = te.placeholder(shape, "float32", "A"), te.placeholder((32, 20), "float32", "B")
    k = te.reduce_axis((0, 20), "k")

    def left(i: Any) -> Any:
        if len(shape) == 1:
            return a[i + k]
        return a[i, 19 - k] if shape[0] == 24 else a[2 * i + 1, k]

    func = te.create_prim_func(
        [a, b, te.compute((24, 32), lambda i, j: te.sum(left(i) * b[j, k], axis=k), name="C")]
    )
    assert rule_of(func) == "Matmul"
    lowered = lower(default_schedule(func, TARGET).mod, TARGET)
    x, y = (np.random.default_rng(0).integers(-9, 9, size).astype("float32") for size in (shape, (32, 20)))
    found = np.empty((24, 32), "float32")
    EmulatedProgram(lowered, generate(lowered))(x, y, found)
    np.testing.assert_array_equal(found, rows_of(x) @ y.T)


def test_a_device_with_fewer_multiprocessors_has_larger_tiles() -> None:
    func = product(256, 256, 64)
    small = gpu.Matmul().apply(func, Target("nvidia/nvidia-t4"))
    large = gpu.Matmul().apply(func, Target("nvidia/nvidia-h200"))
    assert small is not None and large is not None
    assert small.mod["main"].script() != large.mod["main"].script()


@pytest.mark.parametrize("name", ["C1D", "C2D", "C3D", "DIL", "CBR", "CAP"])
def test_convolutions_are_one_kernel(name: str) -> None:
    """Their padding, and what is made of the result, are computed within it."""
    assert len(kernels_of(default_schedule(suite.workload(name), TARGET).mod)) == 1


@pytest.mark.parametrize("name", ["C2D", "C3D", "DIL", "T2D", "CBR"])
def test_convolutions_of_many_channels_compute_what_numpy_does(name: str) -> None:
    shapes = {
        "C2D": (1, 7, 7, 9, 10, 3, 2, 1),
        "C3D": (1, 3, 4, 4, 5, 9, 3, 1, 1),
        "DIL": (1, 7, 7, 5, 9, 3, 1, 1, 2),
        "T2D": (1, 4, 4, 9, 10, 4, 2, 1),
        "CBR": (1, 5, 5, 9, 10, 3, 1, 1),
    }
    shape = shapes[name]
    func = suite.workload(name, shape)
    assert rule_of(func) == "Matmul"
    inputs = suite.inputs(name, shape)
    assert_computes(
        default_schedule(func, TARGET).mod, [(inputs, suite.reference(name, inputs, shape))], tolerance=1e-4
    )


def reduction(shape: tuple[int, ...], axes: list[int], then: Any = None) -> PrimFunc:
    """The sum of an array along some axes, and something of each."""
    x = te.placeholder(shape, "float32", "x")
    reduced = {axis: te.reduce_axis((0, shape[axis]), f"k{axis}") for axis in axes}
    kept = [axis for axis in range(len(shape)) if axis not in axes]

    def element(*indices: Any) -> Any:
        places = {**dict(zip(kept, indices, strict=True)), **reduced}
        return te.sum(x[tuple(places[axis] for axis in range(len(shape)))], axis=list(reduced.values()))

    total = te.compute(tuple(shape[axis] for axis in kept), element, name="total")
    out = total if then is None else te.compute(total.shape, lambda *i: then(total[i]), name="then")
    return te.create_prim_func([x, out])


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((6, 200), [1]), ((200, 6), [0]), ((5, 8, 9, 7), [1, 3]), ((3, 40, 33), [1]), ((70, 70), [0, 1])],
)
@pytest.mark.parametrize("then", [None, tir.sqrt])
def test_reductions_along_any_axes_are_one_kernel(shape: tuple[int, ...], axes: list[int], then: Any) -> None:
    func = reduction(shape, axes, then)
    sch = gpu.Reduction().apply(func, TARGET)
    assert sch is not None
    assert len(kernels_of(sch.mod)) == 1
    data = np.random.default_rng(0).random(shape).astype("float32")
    expected = np.asarray(data.sum(tuple(axes), dtype="float64"))
    assert_computes(sch.mod, [([data], expected if then is None else np.sqrt(expected))])


def test_short_reductions_are_left_to_one_thread_each() -> None:
    func = reduction((64, 9), [1], tir.sqrt)
    assert gpu.Reduction().apply(func, TARGET) is None
    assert rule_of(func) == "Fallback"
    mod = default_schedule(func, TARGET).mod
    assert len(kernels_of(mod)) == 1 and "shfl" not in generate(lower(mod, TARGET)).text


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "group_norm", "softmax", "argmax", "SFM"])
def test_normalisations_and_the_like_are_one_kernel(name: str) -> None:
    assert len(kernels_of(default_schedule(suite.workload(name), TARGET).mod)) == 1


def test_sums_of_few_columns_are_computed_in_parts_first() -> None:
    """The norm of a matrix, and sums of 64 columns: too few results to keep a card busy."""
    assert len(kernels_of(default_schedule(suite.workload("NRM"), TARGET).mod)) == 2
    func = reduction((4096, 64), [0], tir.sqrt)
    sch = gpu.Reduction().apply(func, TARGET)
    assert sch is not None and len(kernels_of(sch.mod)) == 2
    data = np.random.default_rng(0).random((4096, 64)).astype("float32")
    assert_computes(sch.mod, [([data], np.sqrt(data.sum(0, dtype="float64")))])


def test_rms_norm_is_known_by_its_squares() -> None:
    assert gpu.RMSNorm().apply(suite.workload("rms_norm"), TARGET) is not None
    for other in ("layer_norm", "softmax", "gelu"):
        assert gpu.RMSNorm().apply(suite.workload(other), TARGET) is None


def test_transposed_copies_are_read_and_written_along_rows() -> None:
    sch = gpu.Transpose().apply(suite.workload("transpose", (70, 45)), TARGET)
    assert sch is not None
    assert sch.mod.script().count('scope="shared"') == 1 and "buffer_dim_align" in sch.mod.script()
    assert gpu.Transpose().apply(suite.workload("gelu"), TARGET) is None


def test_grids_keep_within_what_devices_have() -> None:
    """65535 blocks along y and z."""
    x = te.placeholder((70000, 40, 33), "float32", "x")
    func = te.create_prim_func([x, te.compute((70000, 33, 40), lambda b, i, j: x[b, j, i], name="y")])
    assert gpu.Transpose().apply(func, TARGET) is None
    a, b = te.placeholder((70000, 16, 16), name="a"), te.placeholder((70000, 16, 16), name="b")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((70000, 16, 16), lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k), name="c")
    sch = gpu.Matmul().apply(te.create_prim_func([a, b, c]), TARGET)
    assert sch is not None and 'T.thread_binding(70000, thread="blockIdx.x")' in sch.mod.script()


def test_vectors_are_taken_where_there_is_enough_work_and_rows_are_whole_ones() -> None:
    def scaled(count: int, columns: int = 64) -> PrimFunc:
        x = te.placeholder((count, columns), "float32", "x")
        return te.create_prim_func([x, te.compute(x.shape, lambda i, j: x[i, j] * 2.0, name="y")])

    assert "load_vec<4>" in source_of(gpu.Fallback(), scaled(1 << 16))
    assert "load_vec<2>" in source_of(gpu.Fallback(), scaled(1 << 16, 62))
    assert "load_vec" not in source_of(gpu.Fallback(), scaled(64))


def test_rules_for_gpus_know_nothing_for_other_targets() -> None:
    func = product(64, 64, 64)
    assert gpu.Matmul().apply(func, Target("llvm")) is None


@pytest.mark.parametrize(("rows", "columns"), [(256, 256), (1, 4096)])
def test_a_card_of_which_nothing_is_said_has_what_targets_say(rows: int, columns: int) -> None:
    """Estimates, limits and schedules go by the same card."""
    some = Target("cuda -arch=sm_80")
    described = Target(f"cuda -arch=sm_80 -multi_processor_count={some.multi_processor_count}")
    func = product(rows, columns, 256)
    assert default_schedule(func, some).mod.script() == default_schedule(func, described).mod.script()

"""Products for warp groups in the design space of Hopper: candidates of each size of tiles are valid, and compute the product."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models import estimate_seconds
from cost_models.feature import PerStoreFeature, skeleton_of_schedule
from ir import IRModule, te
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.program import build_cuda
from ir.target import Target
from ir.tir import PrimFunc
from schedules.dlight import default_schedule
from schedules.population.sketch import Sketch
from schedules.postproc import postprocess
from schedules.postproc.verify_gpu_code import VerifyGPUCode
from schedules.rule import WarpGroupTiling
from schedules.rule.default import default_rules
from schedules.space import PostOrderApply
from tests.programs.warp_groups import Product, scheduled
from tests.schedules.dlight.gpu.test_warp_group_matmul import layer

HOPPER = Target("nvidia/nvidia-h200")


def sketches(func: PrimFunc) -> list[Sketch]:
    found = PostOrderApply().generate_sketches(IRModule({"main": func}), HOPPER)
    return [sketch for sketch in found if "wgmma" in str(sketch.trace)]


def test_only_targets_with_warp_groups_have_the_rule() -> None:
    def has_it(name: str) -> bool:
        return any(isinstance(rule, WarpGroupTiling) for rule in default_rules(Target(name)))

    assert has_it("nvidia/nvidia-h100") and not has_it("nvidia/nvidia-a100")


@pytest.mark.parametrize(
    ("product", "count"),
    [
        (Product(512, 512, 512, "float16", "float32"), 7),
        (Product(128, 192, 256, "bfloat16", "float32", False), 2),  # 128 and 64 rows, 64 columns
        (Product(64, 64, 128, "int8", "int32"), 1),
        (Product(64, 60, 128, "float16", "float32"), 0),
        (Product(64, 64, 128, "float32", "float32"), 0),
    ],
    ids=str,
)
def test_each_size_of_tiles_is_a_structure_beside_others(product: Product, count: int) -> None:
    every = PostOrderApply().generate_sketches(IRModule({"main": product.function()}), HOPPER)
    found = [sketch for sketch in every if "wgmma" in str(sketch.trace)]
    assert len(found) == count < len(every)


@pytest.mark.parametrize(("pitch", "count"), [(64, 1), (72, 1), (100, 0)])
def test_rows_that_no_tensor_map_describes_are_left_to_other_rules(pitch: int, count: int) -> None:
    """The copy engine wants rows that begin at multiples of 16 bytes; here they are longer than what is multiplied."""
    a, b = (
        te.placeholder((64, columns), "float16", name=name) for name, columns in (("A", pitch), ("B", 64))
    )
    k = te.reduce_axis((0, 64), "k")
    c = te.compute(
        (64, 64), lambda i, j: te.sum(a[i, k].astype("float32") * b[j, k].astype("float32"), axis=k), name="C"
    )
    func = te.create_prim_func([a, b, c])
    assert len(sketches(func)) == count
    assert ("wgmma" in str(default_schedule(func, HOPPER).trace)) == bool(count)


def test_candidates_as_rows_are_the_programs() -> None:
    func = Product(2048, 1024, 512, "float16", "float32").function()
    for sketch in sketches(func):
        rows = sketch.sample(6, np.random.default_rng(0))
        assert len(np.unique(rows, axis=0)) > 1
        seconds = estimate_seconds(sketch.skeleton(rows), HOPPER)
        assert np.isfinite(PerStoreFeature().features_of(sketch.skeleton(rows), HOPPER).prior_seconds()).all()
        for row, expected in zip(rows[:2], seconds[:2], strict=True):
            schedule = sketch.materialize(func, row)
            assert estimate_seconds(skeleton_of_schedule(schedule), HOPPER) == pytest.approx([expected])
            assert postprocess(schedule, HOPPER)


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
def test_candidates_compute_the_layer() -> None:
    func = layer(2, 256, 64, 128, "int32")
    rng = np.random.default_rng(0)
    x, w = (
        rng.standard_normal((2, 256, 128)).astype("float16"),
        rng.standard_normal((128, 64)).astype("float16"),
    )
    bias = rng.standard_normal(64).astype("float32")
    expected = np.maximum(x.astype("float64") @ w.astype("float64") + bias, 0)
    found = sketches(func)
    assert found
    for sketch in found:
        (row,) = sketch.sample(1, np.random.default_rng(1))
        schedule = sketch.materialize(func, row)
        assert postprocess(schedule, HOPPER)
        program = build_cuda(schedule.mod, HOPPER)
        assert len(program.kernels.kernels) == 1  # what follows is part of it
        y = np.zeros((2, 256, 64), "float16")
        program.emulate()(x, w, bias, y)
        np.testing.assert_allclose(y, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("stages", "fits"), [(4, True), (5, False)])
def test_too_much_dynamic_shared_memory_is_refused(stages: int, fits: bool) -> None:
    """48 KiB a stage, of 227; sums have the place of stages."""
    schedule = scheduled(Product(128, 256, 512, "float16", "float32"), 128, 256, stages, "shared.dyn")
    schedule.enter_postproc()
    check = VerifyGPUCode()
    check.initialize(HOPPER)
    assert check.accepts(schedule) == fits

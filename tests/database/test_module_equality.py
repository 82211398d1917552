"""Which programs' records answer for which, in every kind of database and in builds."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import database as package
from database import (
    Database,
    DatabaseError,
    JSONDatabase,
    MemoryDatabase,
    ModuleEquality,
    OrderedUnionDatabase,
    PyDatabase,
    ScheduleFnDatabase,
    SQLDatabase,
    TuningRecord,
    UnionDatabase,
    Workload,
    open_database,
)
from database.meta_schedule_apply_database import ApplyReport, MetaScheduleApplyDatabase
from ir import IRModule, te
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc
from runners.native import build_native
from schedules import Schedule, ScheduleError
from schedules.anchor_trace import schedule_using_anchor_trace
from tests.programs.expressions import elementwise, matmul, matmul_bias, matmul_relu

TARGET = Target("cpu")


def with_constant(values: list[float], n: int = 4) -> PrimFunc:
    data = np.array(values, dtype="float32")

    @T.prim_func
    def added(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (4,), "float32")
        B = T.match_buffer(b, (4,), "float32")
        K = T.allocate_const(data, "float32", (4,))
        k = T.Buffer((4,), "float32", data=K)
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] + k[vi]

    return added


@pytest.mark.parametrize(
    ("name", "lhs", "rhs", "is_equal"),
    [
        ("structural", matmul(16), matmul(16), True),
        ("structural", with_constant([1, 2, 3, 4]), with_constant([1, 2, 3, 5]), False),
        ("structural", matmul_bias(8, 8, 8), matmul_relu(8, 8, 8), False),
        ("ignore-tensor", with_constant([1, 2, 3, 4]), with_constant([1, 2, 3, 5]), True),
        ("ignore-ndarray", with_constant([1, 2, 3, 4]), with_constant([1, 2, 3, 5]), True),
        ("ignore-tensor", matmul_bias(8, 8, 8), matmul_relu(8, 8, 8), False),
        ("anchor-block", matmul_bias(8, 8, 8), matmul_relu(8, 8, 8), True),
        ("anchor-block", matmul(8), matmul_relu(8, 8, 8), True),
        ("anchor-block", matmul(8), matmul(16), False),
        ("anchor-block", with_constant([1, 2, 3, 4]), with_constant([1, 2, 3, 5]), True),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_programs_that_are_equal(name: str, lhs: PrimFunc, rhs: PrimFunc, is_equal: bool) -> None:
    equality = ModuleEquality(name)
    one, other = IRModule({"main": lhs}), IRModule({"main": rhs})
    assert equality.equal(one, other) == is_equal
    assert (equality.key(one) == equality.key(other)) == is_equal


def test_unknown_equalities_are_named() -> None:
    with pytest.raises(
        DatabaseError,
        match="unknown module equality 'anchor'; there are structural, ignore-tensor, anchor-block",
    ):
        MemoryDatabase("anchor")


KINDS: dict[str, Callable[[Path, str], Database]] = {
    "memory": lambda folder, name: package.create("memory", module_equality=name),
    "json": lambda folder, name: package.create("json", work_dir=folder, module_equality=name),
    "sql": lambda folder, name: package.create("sql", folder / "a.db", module_equality=name),
    "opened": lambda folder, name: open_database(folder / "b.db", module_equality=name),
}


def tiled(func: PrimFunc, tile: int = 4) -> Schedule:
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    outer, inner = sch.split(i, [None, tile])
    sch.reorder(outer, j, k, inner)
    sch.parallel(outer)
    return sch


def keep(store: Database, func: PrimFunc, secs: float = 1e-3, tile: int = 4) -> None:
    workload = store.commit_workload(func)
    store.commit_tuning_record(TuningRecord(tiled(func, tile).trace, workload, [secs], TARGET, verified=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ModuleEquality.NAMES)
def test_records_of_equal_programs_answer(kind: str, name: str, tmp_path: Path) -> None:
    store = KINDS[kind](tmp_path, name)
    keep(store, matmul_bias(8, 8, 8))
    is_found = name == "anchor-block"
    assert store.has_workload(matmul_relu(8, 8, 8)) == is_found
    assert (store.query_tuning_record(matmul_relu(8, 8, 8), TARGET) is not None) == is_found
    assert store.query_tuning_record(matmul_relu(16, 8, 8), TARGET) is None
    assert store.query_tuning_record(matmul_relu(8, 8, 8), "llvm -mcpu=x86-64-v2") is None
    # Storage is exact: the trace belongs to one program.
    assert store.commit_workload(matmul_relu(8, 8, 8)) != store.commit_workload(matmul_bias(8, 8, 8))
    keep(store, matmul_relu(8, 8, 8), 9e-3, tile=2)
    own = store.query_tuning_record(matmul_relu(8, 8, 8), TARGET)
    assert own is not None and own.secs == 9e-3
    if kind != "memory":
        assert pickle.loads(pickle.dumps(store)).module_equality.name == name


@pytest.mark.parametrize("union", [UnionDatabase, OrderedUnionDatabase])
def test_members_of_unions_have_their_own_equality(union: type[Database]) -> None:
    exact, alike = MemoryDatabase(), MemoryDatabase("anchor-block")
    for store in (exact, alike):
        keep(store, matmul_bias(8, 8, 8))
    assert union(exact).query_tuning_record(matmul(8), TARGET) is None
    both = union(exact, alike)
    assert both.query_tuning_record(matmul(8), TARGET) is not None and both.has_workload(matmul(8))


def test_the_order_of_members_comes_before_equality() -> None:
    alike, exact = MemoryDatabase("anchor-block"), MemoryDatabase()
    keep(alike, matmul_bias(8, 8, 8), 2e-3)
    keep(exact, matmul(8), 1e-3)
    first = OrderedUnionDatabase(alike, exact).query_tuning_record(matmul(8), TARGET)
    fastest = UnionDatabase(alike, exact).query_tuning_record(matmul(8), TARGET)
    assert first is not None and first.secs == 2e-3 and fastest is not None and fastest.secs == 1e-3


def test_functions_and_databases_of_ones_own_take_the_option() -> None:
    assert PyDatabase(module_equality="ignore-tensor").module_equality.name == "ignore-tensor"
    made = package.create(lambda sch: True, module_equality="anchor-block")
    assert isinstance(made, ScheduleFnDatabase) and made.module_equality.name == "anchor-block"
    assert isinstance(package.create("memory"), MemoryDatabase)
    assert {JSONDatabase, SQLDatabase} <= {package.Database.kinds["json"], package.Database.kinds["sql"]}


@pytest.mark.parametrize(("tuned", "asked"), [("bias", "relu"), ("plain", "relu"), ("bias", "plain")])
def test_a_build_adapts_the_trace_and_computes_its_own_program(tuned: str, asked: str) -> None:
    made = {"bias": matmul_bias(8, 8, 8), "relu": matmul_relu(8, 8, 8), "plain": matmul(8)}
    store = MemoryDatabase("anchor-block")
    keep(store, made[tuned])
    report = ApplyReport()
    with TARGET:
        mod = MetaScheduleApplyDatabase(database=store, report=report)(IRModule({"product": made[asked]}))
    (kernel,) = report.kernels
    assert kernel.source == "record" and "for an equal kernel, whose trace was adapted" in kernel.reason
    script = mod["product"].script()
    assert "T.parallel(2)" in script and "T.grid(8, 8, 4)" in script
    scheduled = store.query_ir_module(made[asked], TARGET)
    assert scheduled is not None
    generator = np.random.default_rng(0)
    inputs = [generator.standard_normal((8, 8)).astype("float32") for _ in range(2)]
    found, wanted = np.empty((8, 8), "float32"), np.empty((8, 8), "float32")
    build_native(scheduled, TARGET)(*inputs, found)
    build_native(IRModule({"main": made[asked]}), TARGET)(*inputs, wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_anchor_block_may_have_another_name() -> None:
    a, b = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    k = te.reduce_axis((0, 8), name="k")
    renamed = te.create_prim_func(
        [a, b, te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")]
    )
    store = MemoryDatabase("anchor-block")
    keep(store, matmul_bias(8, 8, 8))
    scheduled = store.query_ir_module(renamed, TARGET)
    assert scheduled is not None and "T.parallel(2)" in scheduled.script()


def test_a_gpu_runs_no_block_that_the_trace_does_not_schedule() -> None:
    """What is inlined is none any more; a sum in front of the product cannot be."""
    gpu = Target("nvidia/nvidia-a100")
    sch = Schedule(elementwise(8, 8))
    schedule_using_anchor_trace(sch, tiled_rows("C").trace, gpu)
    assert "T.parallel" in sch.mod.script() and 'T.block("B")' not in sch.mod.script()
    with pytest.raises(ScheduleError, match="does not schedule the blocks D"):
        schedule_using_anchor_trace(Schedule(matmul_relu(8, 8, 8)), tiled(matmul(8)).trace, gpu)


def tiled_rows(block: str) -> Schedule:
    sch = Schedule(elementwise(8, 8))
    sch.parallel(sch.get_loops(block)[0])
    return sch


def test_constants_of_ones_own_stay(tmp_path: Path) -> None:
    store = MemoryDatabase("ignore-tensor")
    func = with_constant([1, 2, 3, 4])
    sch = Schedule(func)
    sch.parallel(sch.get_loops("B")[0])
    store.commit_tuning_record(TuningRecord(sch.trace, store.commit_workload(func), [1.0], TARGET))
    scheduled = store.query_ir_module(with_constant([5, 6, 7, 8]), TARGET)
    assert scheduled is not None and "T.parallel" in scheduled.script()
    out = np.empty(4, "float32")
    build_native(scheduled, TARGET)(np.zeros(4, "float32"), out)
    assert out.tolist() == [5, 6, 7, 8]


def test_an_adapted_trace_that_does_not_apply_gives_way_to_the_next(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryDatabase("anchor-block")
    keep(store, matmul(8), 2e-3)
    gone = [[["GetBlock", [], ["C", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l0"]]], []]
    bias = store.commit_workload(matmul_bias(8, 8, 8))
    store.commit_tuning_record(TuningRecord(None, bias, [1e-3], TARGET, trace_json=gone, verified=True))
    sch = store.query_schedule(matmul_relu(8, 8, 8), TARGET)
    assert sch is not None and "T.parallel(2)" in sch.mod.script()
    assert "does not apply" in caplog.text
    assert Workload(matmul(8)).shash != bias.shash

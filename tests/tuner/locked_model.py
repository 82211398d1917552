"""A small model whose kernels have records of plain schedules, for tests of locks and of what libraries tell of themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from database import SQLDatabase, TuningRecord, Workload, software_versions
from database.meta_schedule_apply_database import kernels_of
from ir import IRModule, relax
from ir.relax.struct_info import TensorStructInfo
from ir.target import Target
from schedules import Schedule
from tuner.compile import prepare


def model(rows: int = 8, *, with_softmax: bool = True) -> IRModule:
    """A product with a fixed matrix, and a softmax: two kernels."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", TensorStructInfo((rows, 16), "float32"))
    weight = np.arange(16 * 4, dtype="float32").reshape(16, 4) / 64
    with builder.function("main", [x]):
        y = builder.emit(relax.op.matmul(x, relax.const(weight)))
        builder.emit_func_output(builder.emit(relax.op.nn.softmax(y)) if with_softmax else y)
    return builder.finalize()


def schedule_of(mod: IRModule) -> Schedule:
    """A schedule that no default has: the first loop of the last block in parts of two."""
    schedule = Schedule(mod)
    block = schedule.get_child_blocks(schedule.get_block("root"))[-1]
    schedule.split(schedule.get_loops(block)[0], [None, 2])
    return schedule


def tuned(
    path: Path, mod: IRModule, target: str | Target = "cpu", count: int = 9, secs: float = 1e-3
) -> SQLDatabase:
    """A database with records of the first kernels of a model."""
    chosen = target if isinstance(target, Target) else Target(target)
    database = SQLDatabase(path)
    for kernel in kernels_of(prepare(mod, chosen), chosen)[:count]:
        workload = Workload(kernel.module)
        record = TuningRecord(
            schedule_of(workload.mod).trace,
            workload,
            [secs],
            chosen,
            verified=True,
            versions=software_versions(),
        )
        database.commit_workload(workload.mod)
        database.commit_tuning_record(record)
    return database

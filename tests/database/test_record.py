"""Records, workloads and argument infos on their own."""

from __future__ import annotations

import math
import pickle

import pytest

from database import (
    ArgInfo,
    DatabaseError,
    TensorInfo,
    TuningRecord,
    Workload,
    by_speed,
    hardware_fingerprint,
    software_versions,
    target_differences,
    target_key,
)
from ir import IRModule, relax, te, tir
from ir.target import Target
from ir.time_interval import noise_of
from tests.database.contract import TARGET, FakeTrace, record
from tests.programs.nodes import matmul


def test_workload_is_known_by_structure() -> None:
    one, other = Workload(matmul()), Workload(matmul())
    assert one == other and hash(one) == hash(other) and one.shash == other.shash
    assert one != Workload(matmul(5, 5, 5)) and one != "workload"
    assert Workload(matmul()["main"]) == one
    assert one.summary.blocks == ("C", "root")
    assert "A: float32[4, 4]" in repr(one)


def test_workload_does_not_change_with_the_module_it_came_from() -> None:
    mod = matmul()
    workload = Workload(mod)
    mod["other"] = matmul()["main"]
    assert len(workload.mod.functions) == 1


def test_workload_json_round_trip() -> None:
    one = Workload(matmul())
    again = Workload.from_json(one.as_json())
    assert again == one and again.summary == one.summary
    assert pickle.loads(pickle.dumps(again)) == one
    with pytest.raises(DatabaseError, match="not a workload"):
        Workload.from_json({"shash": "1"})


def test_record_json_round_trip() -> None:
    workload = Workload(matmul())
    one = record(workload, 0.25, verified=True)
    again = TuningRecord.from_json(one.as_json(), workload)
    assert again.as_json() == one.as_json()
    assert again.is_valid() and again.mean_secs == 0.25
    assert pickle.loads(pickle.dumps(again)).as_json() == one.as_json()
    with pytest.raises(DatabaseError, match="record of workload"):
        TuningRecord.from_json(one.as_json(), Workload(matmul(5, 5, 5)))
    with pytest.raises(DatabaseError, match="not a tuning record"):
        TuningRecord.from_json({"workload": workload.shash}, workload)


def test_records_are_compared_by_medians() -> None:
    """Another measurement has disturbances of its own."""
    workload = Workload(matmul())
    run_secs = [2.0, 2.2, 2.1, 2.4, 9.0]
    metrics = {"code_size": 10.0, "disturbance": 0.3}
    one = TuningRecord(FakeTrace(), workload, run_secs, TARGET, verified=True, metrics=metrics)
    assert one.secs == 2.2 and one.mean_secs == pytest.approx(3.54)
    assert one.interval.middle == pytest.approx(one.secs)
    assert one.interval.noise == pytest.approx(noise_of(run_secs))
    slower = TuningRecord(FakeTrace("b"), workload, [2.3], TARGET, verified=True)
    assert by_speed([slower, one]) == [one, slower]
    again = one.measured_again([2.0])
    assert again.metrics == {"code_size": 10.0} and again.secs == 2.0
    assert TuningRecord.from_json(one.as_json(), workload).secs == one.secs
    failed = TuningRecord(FakeTrace(), workload, None, TARGET, failure_kind="crash")
    assert failed.secs == math.inf
    with pytest.raises(DatabaseError, match="has no time"):
        _ = failed.interval


def test_records_with_nonsense_are_refused() -> None:
    workload = Workload(matmul())
    with pytest.raises(DatabaseError, match="times or a failure, not both"):
        TuningRecord(FakeTrace(), workload, [1.0], TARGET, failure_kind="crash")
    for bad in (math.nan, math.inf, -1.0):
        with pytest.raises(DatabaseError, match="finite seconds"):
            TuningRecord(FakeTrace(), workload, [bad], TARGET)
    assert not TuningRecord(FakeTrace(), workload, [0.0], TARGET).is_valid(), "no time is zero"
    untimed = TuningRecord(FakeTrace(), workload)
    assert not untimed.is_valid() and untimed.mean_secs == math.inf


def test_arg_info() -> None:
    infos = ArgInfo.from_prim_func(matmul(2, 3, 4)["main"])
    assert [info.as_json() for info in infos] == [
        ["TENSOR", "float32", [2, 4]],
        ["TENSOR", "float32", [4, 3]],
        ["TENSOR", "float32", [2, 3]],
    ]
    assert (
        [ArgInfo.from_json(info.as_json()) for info in infos]
        == infos
        == ArgInfo.from_entry_func(matmul(2, 3, 4))
    )
    assert TensorInfo("int8", [1]) == TensorInfo("int8", (1,))
    with pytest.raises(DatabaseError, match="cannot read argument info"):
        ArgInfo.from_json(["SCALAR", 1])
    with pytest.raises(DatabaseError, match="'main'"):
        ArgInfo.from_entry_func(IRModule({"f": matmul()["main"], "g": matmul()["main"]}))
    n = tir.Var("n", "int64")
    a = te.placeholder((n,), name="a")
    symbolic = te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0)])
    with pytest.raises(DatabaseError, match="static shape"):
        ArgInfo.from_prim_func(symbolic)


def test_a_workload_is_a_prim_func() -> None:
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    with pytest.raises(DatabaseError, match="'main' is a Function; extract_tasks"):
        Workload(IRModule({"main": relax.Function([x], x)}))


def test_targets_agree_in_all_fields_but_names() -> None:
    assert target_key("llvm -mcpu=znver4 -num-cores 2") == target_key(TARGET)
    assert target_key(TARGET) == target_key({**TARGET.export(), "tag": "mine"})
    assert target_differences(TARGET, Target("llvm -mcpu=znver5 -num-cores 2")) == [
        ("mcpu", "znver4", "znver5")
    ]
    assert target_differences(TARGET, "llvm -mcpu=znver4") == [("num-cores", 2, None)]


def test_fingerprint_and_versions_are_plain() -> None:
    fingerprint = hardware_fingerprint()
    assert fingerprint["cores"] >= 1 and fingerprint["cpu"]
    assert {"python", "llvmlite", "numpy"} <= software_versions().keys()

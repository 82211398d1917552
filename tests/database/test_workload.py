"""Programs and descriptions of files are looked at before they are worked with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from database import DatabaseError, TuningRecord, Workload, WorkloadSummary
from ir import IRModule, save_json, structural_equal
from tests.database.contract import TARGET
from tests.programs.nodes import matmul
from tuner.cli.database.kernels import trace_text


def stored(change: Any = None) -> Workload:
    """The workload of a file, whose nodes ``change`` has gone through."""
    module = json.loads(save_json(matmul()))
    for kind, fields in module["nodes"]:
        if change is not None:
            change(kind, fields)
    return Workload.stored("123", json.dumps(module), None, "line 7")


def test_a_program_is_read() -> None:
    assert structural_equal(stored().mod, matmul()) and stored().summary.blocks == ("C", "root")


def _body(kind: str, fields: dict[str, Any]) -> None:
    if kind == "tir.For":
        fields["body"] = "nothing"


def _map(kind: str, fields: dict[str, Any]) -> None:
    if kind == "tir.PrimFunc":
        fields["buffer_map"] = {}


def _annotations(kind: str, fields: dict[str, Any]) -> None:
    if kind == "tir.Block":
        fields["annotations"] = ["x"]


def _name(kind: str, fields: dict[str, Any]) -> None:
    if kind == "tir.Block":
        fields["name_hint"] = {"t": ["C"]}


def test_a_block_has_a_name() -> None:
    with pytest.raises(DatabaseError, match="line 7: the program of workload 123 cannot be read"):
        _ = stored(_name).summary


@pytest.mark.parametrize("change", [_body, _map, _annotations])
def test_a_program_of_parts_that_do_not_belong_together_is_named(change: Any) -> None:
    changed = stored(change)
    try:
        Workload(changed.mod)
    except DatabaseError as error:
        assert "line 7: the program of workload 123 cannot be read" in str(error)


def test_what_is_no_module_is_named() -> None:
    (func,) = matmul().functions.values()
    with pytest.raises(DatabaseError, match="it is a PrimFunc, and no module"):
        _ = Workload.stored("1", save_json(func), None).mod
    with pytest.raises(DatabaseError, match="has one function"):
        _ = Workload.stored("1", save_json(IRModule({"a": func, "b": func})), None).mod


@pytest.mark.parametrize(
    "change",
    [{"name": 3}, {"blocks": [["C"]]}, {"args": [["A", "float32", [[4]]]]}, {"args": [["A", 3, [4]]]}, {"args": [["A", "x", [True]]]}],
)  # fmt: skip
def test_descriptions_hold_names_and_extents(change: dict[str, Any]) -> None:
    good = WorkloadSummary.of(matmul()).as_json()
    assert WorkloadSummary.from_json(json.loads(json.dumps(good))) == WorkloadSummary.of(matmul())
    with pytest.raises((TypeError, ValueError)):
        WorkloadSummary.from_json({**good, **change})


def test_a_trace_that_cannot_be_printed_is_no_error() -> None:
    """As one in which the number of a buffer is a text."""
    steps = [["GetBlock", [], ["C", "main"], ["b0"]], ["CacheWrite", ["b0"], ["", "global"], ["b1"]]]
    record = TuningRecord(None, Workload(matmul()), [1.0], TARGET, trace_json=[steps, []])
    assert not record.applies()
    assert "cannot" in trace_text(record) or "def apply_trace" in trace_text(record)

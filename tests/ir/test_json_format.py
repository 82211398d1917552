"""Programs as JSON: every kind of node survives, sharing is kept, bad text is explained."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ir
from ir import IRModule, load_json, save_json, tir
from ir.node import TYPE_KEYS
from ir.tir import Var

from .samples import SAMPLES, A, x


@pytest.mark.parametrize("name", SAMPLES)
def test_every_kind_survives(name: str) -> None:
    node = SAMPLES[name]
    loaded = load_json(save_json(node))
    assert type(loaded) is type(node)
    assert ir.structural_equal(loaded, node, map_free_vars=True)
    assert ir.structural_hash(loaded) == ir.structural_hash(node)
    assert save_json(loaded) == save_json(node)


def test_there_is_a_sample_of_every_kind() -> None:
    """ProducerLoad holds a tensor of ``ir.te``, which tests its own."""
    declared = {cls.__name__ for key, cls in TYPE_KEYS.items() if key.startswith("tir.")}
    assert declared - {type(node).__name__ for node in SAMPLES.values()} <= {"ProducerLoad"}


def test_sharing_is_kept() -> None:
    shared = x * 2
    loaded = load_json(save_json(tir.Add(shared, shared)))
    assert loaded.a is loaded.b
    first, second = load_json(save_json((A[x, 0], A[0, x])))
    assert first.buffer is second.buffer and first.indices[0] is second.indices[1]


def test_plain_values_and_arrays() -> None:
    value = {
        "a": (1, 2.5, None, True, "text"),
        "b": [x + 1],
        "c": np.arange(6, dtype="float16").reshape(2, 3),
        "d": b"\0\1",
    }
    loaded = load_json(save_json(value))
    assert loaded["a"] == (1, 2.5, None, True, "text") and loaded["d"] == b"\0\1"
    np.testing.assert_array_equal(loaded["c"], value["c"])
    assert loaded["c"].dtype == "float16"


def test_modules_and_spans() -> None:
    span = ir.Span(ir.SourceName("model.onnx"), 3, 3, 1, 9)
    func = SAMPLES["PrimFunc"].with_attr("note", (1, "two"))
    mod = IRModule({"main": func}, {"version": 1})
    assert ir.structural_equal(load_json(save_json(mod)), mod)
    assert load_json(save_json(tir.Add(x, x, span))).span == span


def test_operators_are_the_registered_ones() -> None:
    loaded = load_json(save_json(tir.exp(Var("f", "float32"))))
    assert loaded.op is ir.Op.get("tir.exp")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"loopsmith_ir": 1}', "not json"])
def test_text_that_is_no_program_is_refused(text: str) -> None:
    with pytest.raises(ir.IRValueError, match="not a saved loopsmith program"):
        load_json(text)


def test_newer_formats_are_refused() -> None:
    document = json.loads(save_json(x))
    document["loopsmith_ir"] = 99
    with pytest.raises(ir.IRValueError, match="format 99.*upgrade loopsmith"):
        load_json(json.dumps(document))
    document = {"loopsmith_ir": 1, "root": {"$": 0}, "nodes": [["tir.FromTheFuture", {}]]}
    with pytest.raises(ir.IRValueError, match="unknown node 'tir.FromTheFuture'"):
        load_json(json.dumps(document))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), np.float32("inf")])
def test_numbers_that_json_lacks_survive_strict_json(value: float) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    text = save_json({"x": value})
    json.loads(text, parse_constant=refuse)
    assert repr(load_json(text)["x"]) == repr(float(value))


def test_a_field_that_is_none_without_having_to_be_survives() -> None:
    axis = tir.IterVar(None, tir.Var("t", "int32"), tir.IterVar.ThreadIndex, "threadIdx.x")
    again = load_json(save_json(axis))
    assert again.dom is None and again.thread_tag == "threadIdx.x"

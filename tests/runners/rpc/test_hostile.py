"""Hostile input, in small: `python -m experiments.hostile` sends more of it."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from experiments.hostile.readers import READERS, tried
from experiments.hostile.rpc import Campaign, campaign
from ir.error import IRError, IRTypeError, IRValueError
from ir.json_format import load_json, save_json
from ir.relax import ObjectStructInfo, TensorStructInfo, TupleStructInfo, Var
from ir.tir import decl_buffer
from runners.rpc.connection import open_channel
from runners.rpc.tracker import Tracker
from tests.programs.nodes import matmul
from tests.runners.rpc.conftest import LOOPBACK


@pytest.mark.parametrize("name", READERS)
def test_readers_refuse_what_is_broken_by_errors_of_their_own(name: str) -> None:
    found = tried(name, range(400))
    assert found.count == 400 and found.refused > 100
    assert found.failures == {}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    with campaign(tmp_path_factory.mktemp("campaign")) as made:
        yield made


def test_mutated_messages_end_nothing(running: Campaign) -> None:
    report = running.run(range(500))
    assert report.failures == [] and sum(report.sent.values()) == 500
    assert len(report.sent) > 20 and report.answers["OK"] > 50
    assert running.target.grown_bytes() < 300 << 20


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return Path.touch, (self.path,)


def test_pickles_are_not_read(running: Campaign, tmp_path: Path) -> None:
    made = tmp_path / "made"
    data = pickle.dumps(Touch(made))
    for channel, method, is_stream, answers_stream, _ in running._calls:
        kind = f"{'stream' if is_stream else 'unary'}_{'stream' if answers_stream else 'unary'}"
        call = getattr(channel, kind)(method)
        with pytest.raises(grpc.RpcError):
            answer = call(iter([data]) if is_stream else data, timeout=10.0)
            if answers_stream:
                next(answer)
    reply = running._client().build(data, "cpu", 5.0)
    assert reply.kind == "build_error" and not made.exists()
    assert running.wrong() == ""


def test_streams_that_begin_with_garbage_are_forgotten() -> None:
    """gRPC kept what it knew of such calls for ever, and waited for their end when it was to stop."""
    tracker = Tracker(LOOPBACK)
    with open_channel(tracker.address) as channel:
        for _ in range(5):
            call = channel.stream_stream("/loopsmith.rpc.v1.Tracker/Serve")
            with pytest.raises(grpc.RpcError) as found:
                next(call(iter([b"\xff\xff"]), timeout=10.0))
            assert found.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    closing = threading.Thread(target=tracker.close, daemon=True)
    closing.start()
    closing.join(10.0)
    assert not closing.is_alive()


def test_a_call_that_is_none_is_refused(running: Campaign) -> None:
    for method in ("/loopsmith.rpc.v1.Device/Run", "/loopsmith.rpc.v2.Device/Open", "/x"):
        with pytest.raises(grpc.RpcError) as found:
            running._device.unary_unary(method)(b"", timeout=10.0)
        assert found.value.code() is grpc.StatusCode.UNIMPLEMENTED


# -- what was found ------------------------------------------------------------------------
def _broken(change: object) -> str:
    document = json.loads(save_json(matmul()))
    change(document)  # type: ignore[operator]
    return json.dumps(document)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(root={"$": 10**6}),
        lambda document: document.update(root={"$": {}}),
        lambda document: document.update(root={}),
        lambda document: document.update(root={"t": None}),
        lambda document: document.update(root={"d": [[1]]}),
        lambda document: document.update(root={"nd": ["float32", [2**62, -1], "AAAA"]}),
        lambda document: document.update(loopsmith_ir=[]),
        lambda document: document.update(nodes=[["tir.Var"]]),
        lambda document: document.update(nodes=7),
        lambda document: document["nodes"].insert(0, [["tir.Var"], {}]),
        lambda document: [node[1].clear() for node in document["nodes"]],
    ],
)
def test_programs_that_are_broken_are_refused(change: object) -> None:
    with pytest.raises(IRError):
        load_json(_broken(change))


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(IRValueError, match="not a saved loopsmith program"):
        load_json('{"loopsmith_ir":1,"nodes":[],"root":' + "[" * 100_000 + "]" * 100_000 + "}")


def test_buffers_are_no_endless_sequences() -> None:
    """A buffer in place of a list of indices was read for ever."""
    with pytest.raises(TypeError, match="not iterable"):
        iter(decl_buffer((4,), "float32"))  # type: ignore[call-overload]


def test_tuples_whose_fields_nobody_knows_are_no_endless_sequences() -> None:
    with pytest.raises(IRTypeError, match="only tuples"):
        list(Var("x", ObjectStructInfo()))
    with pytest.raises(IRTypeError, match="only tuples"):
        list(Var("x", TensorStructInfo((2,), "float32")))
    first, second = Var("x", TupleStructInfo([TensorStructInfo((2,), "float32")] * 2))
    assert (first.index, second.index) == (0, 1)

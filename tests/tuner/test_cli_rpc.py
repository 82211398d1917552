"""``loopsmith rpc`` and ``loopsmith tune --tracker`` as processes of their own, some of which are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from database import open_database

pytest.importorskip("grpc")
pytest.importorskip("onnx")

COMMAND = [sys.executable, "-m", "tuner.cli"]


class Process:
    """A command that runs until it is ended, and its output in a file."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / f"{arguments[0]}-{time.monotonic_ns()}.log"
        with self.log.open("w") as file:
            self.process = subprocess.Popen([*COMMAND, *arguments], stdout=file, stderr=file)

    def says(self, pattern: str, seconds: float = 60.0) -> re.Match[str]:
        """Wait until it has said something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.log.read_text())
            if found:
                return found
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} in {self.log.read_text()!r}")

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it; its status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=300)


@pytest.fixture
def tracker(tmp_path: Path) -> Iterator[tuple[Process, str]]:
    process = Process(tmp_path, "rpc", "tracker", "--listen", "127.0.0.1:0")
    address = process.says(r"tracker at (\S+);")[1]
    yield process, address
    process.end(signal.SIGKILL)


@pytest.fixture
def servers(tmp_path: Path, tracker: tuple[Process, str]) -> Iterator[list[Process]]:
    made = [
        Process(tmp_path, "rpc", "server", "--key", "cpu", "--tracker", tracker[1], "--workers", "1")
        for _ in range(2)
    ]
    for process in made:
        process.says("is known to the tracker")
    yield made
    for process in made:
        process.end(signal.SIGKILL)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two products with something between."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(shape).astype("float32") for shape in ((32, 48), (48, 8))]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w0"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "w1"], ["y"]),
        ],
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 8])],
        [numpy_helper.from_array(value, f"w{number}") for number, value in enumerate(weights)],
    )
    path = tmp_path / "two.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_a_fleet_is_listed(tracker: tuple[Process, str], servers: list[Process]) -> None:
    shown = ran("rpc", "ls", "--tracker", tracker[1])
    assert shown.returncode == 0 and shown.stdout.count("free") == 2 and "2 servers" in shown.stdout
    told = json.loads(ran("rpc", "ls", "--tracker", tracker[1], "--json").stdout)
    assert [item["key"] for item in told["servers"]] == ["cpu", "cpu"] and told["queues"] == {}
    assert all(item["target"].startswith("llvm") and item["hardware"] for item in told["servers"])
    assert servers[0].end() == 0
    told = json.loads(ran("rpc", "ls", "--tracker", tracker[1], "--json").stdout)
    assert len(told["servers"]) == 1


def test_nobody_answers() -> None:
    found = ran("rpc", "ls", "--tracker", "127.0.0.1:9")
    assert found.returncode == 2 and "start one: loopsmith rpc tracker --listen 127.0.0.1:9" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rpc", "tracker", "--listen", "nowhere"], "an address is host:port"),
        (["rpc", "server"], "Missing option '--key'"),
        (["rpc", "server", "--key", "a", "--target", "llvm -mcpu=zen99"], "zen99"),
        (["tune", "two.onnx", "--tracker", "127.0.0.1:9190"], "give both"),
        (["tune", "two.onnx", "--key", "cpu"], "give both"),
        (
            ["tune", "two.onnx", "--key", "cpu", "--tracker", "127.0.0.1:9"],
            "start one: loopsmith rpc tracker",
        ),
    ],
)
def test_wrong_usage_is_one_paragraph(arguments: list[str], says: str) -> None:
    found = ran(*arguments)
    assert found.returncode == 2 and says in found.stderr and "Traceback" not in found.stderr


def test_a_port_that_is_taken_is_told(tracker: tuple[Process, str]) -> None:
    found = ran("rpc", "tracker", "--listen", tracker[1])
    assert found.returncode == 2 and "is another server there?" in found.stderr


def _trials(path: Path) -> list[str]:
    with open_database(path) as database:
        return [record.trace_key for record in database.get_all_tuning_records()]


def test_a_model_is_tuned_elsewhere_while_servers_and_the_tracker_are_killed(
    tmp_path: Path, tracker: tuple[Process, str], servers: list[Process], model: Path
) -> None:
    """No trial is lost, and none is there twice."""
    process, address = tracker
    database = tmp_path / "t.db"
    tuning = Process(
        tmp_path, "tune", str(model), "--trials", "16", "--database", str(database),
        "--tracker", address, "--key", "cpu", "--final-choice", "never",
    )  # fmt: skip
    tuning.says(r"\[\d+/16\]", 120)
    servers[0].end(signal.SIGKILL)
    tuning.says(r"\[(8|12)/16\]", 120)
    process.end(signal.SIGKILL)
    time.sleep(0.5)
    again = Process(tmp_path, "rpc", "tracker", "--listen", address)
    another = Process(tmp_path, "rpc", "server", "--key", "cpu", "--tracker", address, "--workers", "1")
    try:
        assert tuning.process.wait(240) == 0, tuning.log.read_text()
    finally:
        again.end(signal.SIGKILL)
        another.end(signal.SIGKILL)
    text = tuning.log.read_text()
    assert "16 trials" in text and "to build with the records: loopsmith build" in text
    keys = _trials(database)
    # The best one of before is measured again now and then, which is said, and is no trial.
    assert len(set(keys)) == 16 and len(keys) - 16 == text.count("measured again,"), text
    with open_database(database) as found:
        assert all(record.failure_kind is None for record in found.get_all_tuning_records())


def test_a_killed_client_gives_its_device_back_and_goes_on_later(
    tmp_path: Path, tracker: tuple[Process, str], servers: list[Process], model: Path
) -> None:
    database = tmp_path / "t.db"
    command = ["tune", str(model), "--trials", "12", "--database", str(database)]
    command += ["--tracker", tracker[1], "--key", "cpu", "--final-choice", "never"]
    first = Process(tmp_path, *command)
    first.says(r"\[\d+/12\]", 120)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        told = json.loads(ran("rpc", "ls", "--tracker", tracker[1], "--json").stdout)
        if all(item["state"] == "free" for item in told["servers"]):
            break
    else:
        raise AssertionError(told)
    second = ran(*command)
    assert second.returncode == 0, second.stderr
    keys = _trials(database)
    said = (first.log.read_text() + second.stdout).count("measured again,")
    # One more may have been measured again, and the client killed before it said so.
    assert len(set(keys)) == 12 and len(keys) - 12 <= said + 1

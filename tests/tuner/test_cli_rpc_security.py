"""``loopsmith rpc`` with certificates: a fleet that is made, run and listed by commands, and what is refused without."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from tests.tuner.test_cli_rpc import Process, ran


def test_a_fleet_with_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = tmp_path / "fleet"
    made = ran("rpc", "certs", str(fleet), "--host", "localhost", "--client", "alice", "--key", "cpu")
    assert made.returncode == 0, made.stderr
    tracker = Process(
        tmp_path,
        "rpc",
        "tracker",
        "--listen",
        "127.0.0.1:0",
        "--credentials",
        str(fleet / "trackers/localhost"),
    )
    address = tracker.says(r"tracker at (\S+);")[1]
    server = Process(
        tmp_path, "rpc", "server", "--key", "cpu", "--tracker", address, "--workers", "1",
        "--credentials", str(fleet / "servers/localhost"),
    )  # fmt: skip
    try:
        server.says(r"workers, no new privileges: by what is executed")
        server.says(r"workers, system calls: ")
        server.says("is known to the tracker")
        refused = ran("rpc", "ls", "--tracker", address)
        assert refused.returncode == 2 and "LOOPSMITH_RPC_CREDENTIALS" in refused.stderr
        monkeypatch.setenv("LOOPSMITH_RPC_CREDENTIALS", str(fleet / "clients/alice"))
        listed = ran("rpc", "ls", "--tracker", address, "--json")
        assert [item["key"] for item in json.loads(listed.stdout)["servers"]] == ["cpu"]
        monkeypatch.setenv("LOOPSMITH_RPC_CREDENTIALS", str(fleet / "servers/localhost"))
        wrong = ran("rpc", "ls", "--tracker", address)
        assert wrong.returncode == 2 and "for a client of the fleet" in " ".join(wrong.stderr.split())
    finally:
        server.end(signal.SIGKILL)
        tracker.end(signal.SIGKILL)


def test_without_certificates_nobody_else_is_let_in() -> None:
    refused = ran("rpc", "tracker", "--listen", "0.0.0.0:0")
    assert refused.returncode == 2 and "--insecure" in refused.stderr


def test_insecure_is_said_and_warned_of(tmp_path: Path) -> None:
    tracker = Process(tmp_path, "rpc", "tracker", "--listen", "0.0.0.0:0", "--insecure")
    try:
        tracker.says("warning: there is no TLS")
        tracker.says(r"tracker at 0\.0\.0\.0:\d+;")
    finally:
        tracker.end(signal.SIGKILL)

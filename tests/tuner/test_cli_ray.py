"""``loopsmith tune --ray``: a model is tuned on the devices of a Ray cluster by a command."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("ray")
pytest.importorskip("onnx")

from ray.cluster_utils import Cluster

from database import open_database
from tests.runners.ray.conftest import RESOURCE
from tests.runners.ray.conftest import cluster as cluster
from tests.tuner.test_cli_rpc import COMMAND
from tests.tuner.test_cli_rpc import model as model


def _ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, "tune", *arguments], capture_output=True, text=True, timeout=280)


def test_two_commands_with_one_seed_share_the_work(cluster: Cluster, tmp_path: Path, model: Path) -> None:
    """Both begin with the same candidates: what one claims, the other leaves alone."""
    database = tmp_path / "t.db"
    options = [
        "--ray",
        RESOURCE,
        "--ray-address",
        cluster.address,
        "--trials",
        "8",
        "--database",
        str(database),
    ]
    options += [
        "--final-choice",
        "never",
        "--strategy",
        "replay-trace",
        "--cost-model",
        "random",
        "--seed",
        "7",
    ]
    command = [*COMMAND, "tune", str(model), *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    said = [process.communicate(timeout=280) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    with open_database(database) as found:
        records = found.get_all_tuning_records()
        assert len(found.get_sessions()) == 2
    keys = Counter((record.workload.shash, record.trace_key) for record in records if not record.remeasured)
    assert len(keys) >= 8 and set(keys.values()) == {1}
    assert all(record.failure_kind is None for record in records)
    assert all("loopsmith build" in out + error for out, error in said)
    # The database would refuse a second record: what each says that it has measured shows that there was none.
    measured = [int(re.search(r"(\d+) trials in", out + error)[1]) for out, error in said]  # type: ignore[index]
    assert min(measured) > 0 and sum(measured) == len(keys), said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["two.onnx", "--ray-address", "127.0.0.1:9"], "--ray which of its devices: give both"),
        (["two.onnx", "--ray", "a", "--tracker", "127.0.0.1:9190", "--key", "cpu"], "give one"),
        (
            ["two.onnx", "--ray", "a", "--ray-address", "127.0.0.1:9"],
            "there is no Ray cluster at 127.0.0.1:9",
        ),
    ],
)
def test_wrong_usage_is_one_paragraph(arguments: list[str], says: str) -> None:
    found = _ran(*arguments)
    assert (
        found.returncode == 2 and says in " ".join(found.stderr.split()) and "Traceback" not in found.stderr
    )


def test_a_resource_that_no_node_has_is_told(cluster: Cluster, model: Path) -> None:
    found = _ran(str(model), "--ray", "nobody-has-it", "--ray-address", cluster.address)
    assert (
        found.returncode == 2 and f"there is {RESOURCE}" in found.stderr and "Traceback" not in found.stderr
    )

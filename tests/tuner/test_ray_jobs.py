"""Tuners on a local Ray cluster of two nodes that share one database."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("ray")

from ray.cluster_utils import Cluster

import tuner
from database import DatabaseError
from ir import relax
from runners import EvaluatorConfig
from tests.programs.graphs import network
from tests.runners.ray.conftest import RESOURCE
from tests.runners.ray.conftest import cluster as cluster

MODEL = network(lambda bb, x: bb.emit(relax.op.nn.relu(relax.op.matmul(x, bb.weight(32, 32)))), (16, 32))
QUICK = EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0)


def test_tuners_share_a_database(cluster: Cluster, tmp_path: Path) -> None:
    where = str(tmp_path / "tuning.db")
    store = tuner.tune_relax_on_ray(
        MODEL,
        "cpu",
        where,
        12,
        tuners=2,
        resource=RESOURCE,
        runner_options={"evaluator_config": QUICK, "timeout_sec": 10.0},
        strategy="replay-trace",
        cost_model="random",
        final_choice="never",
    )
    # That candidates are claimed is tested with the searches: two seeds seldom meet in so few trials.
    records = store.get_all_tuning_records()
    assert len(store.get_sessions()) == 2
    traces = Counter((record.workload.shash, str(record.trace)) for record in records)
    assert len(records) >= 12 and set(traces.values()) == {1}


@pytest.mark.parametrize(
    ("database", "tuners", "message"),
    [
        (":memory:", 2, "share a database by its URL"),
        ("tuning.db", 0, "at least 1, got 0"),
        ("records.jsonl", 2, "only read"),
        ("sqlite://", 2, "names no file"),
    ],
)
def test_what_cannot_be_shared_is_refused(database: str, tuners: int, message: str) -> None:
    with pytest.raises((tuner.TunerError, DatabaseError), match=message):
        tuner.tune_relax_on_ray(MODEL, "cpu", database, tuners=tuners)

"""A Ray cluster of two nodes on this machine, with a device each, which the tests of a module share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("ray")

import ray
from ray.cluster_utils import Cluster

from runners.ray import connect

RESOURCE = "test-device"
_STORE_BYTES = 80 << 20


def add_device_node(cluster: Cluster) -> Any:
    """One more node with a device."""
    return cluster.add_node(num_cpus=1, resources={RESOURCE: 1}, object_store_memory=_STORE_BYTES)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    handler = signal.getsignal(signal.SIGTERM)  # Ray has its own since it started a node here
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")]))
        made = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "resources": {RESOURCE: 1}, "object_store_memory": _STORE_BYTES},
        )
        add_device_node(made)
        connect(made.address)
        made.wait_for_nodes()
        yield made
        ray.shutdown()
        made.shutdown()
        signal.signal(signal.SIGTERM, handler)

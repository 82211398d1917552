"""A node with two GPUs, whose driver is the stand-in: candidates are measured there, each device has a GPU of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

pytest.importorskip("ray")

import ray
from ray.cluster_utils import Cluster

from ir.codegen.cuda.emulation.compile import has_compiler
from ir.module import IRModule
from runners import EvaluatorConfig, RayRunner, ResultKind, RunnerInput
from runners.builder import Artifact
from runners.cuda import stand_in
from runners.kernel import Kernel
from runners.kernel_code import KernelCode, packed_kernel
from runners.ray.cluster import connect
from tests.runners.cuda import builds, programs

RESOURCE = "test-gpu"
QUICK = EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)


@pytest.fixture(scope="module")
def gpus() -> Iterator[Cluster]:
    if not has_compiler():
        pytest.skip("needs a C++ compiler")
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, stand_in.used(devices=2, bytes=256 << 20):
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")]))
        made = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 1, "num_gpus": 2, "resources": {RESOURCE: 2}, "object_store_memory": 80 << 20,
            },
        )  # fmt: skip
        connect(made.address)
        yield made
        ray.shutdown()
        made.shutdown()
        signal.signal(signal.SIGTERM, handler)


def _artifact(fault: str | None = None) -> Artifact:
    """A candidate as bytes; the stand-in compiles its text for the processor when it is loaded."""
    mod = programs.bound(programs.turned, "twice", "turn")
    if fault is not None:
        mod = builds.with_fault(mod, fault)
    return Artifact(
        KernelCode(packed_kernel(Kernel(mod, builds.build_faulty(mod, programs.TARGET)))), programs.TARGET
    )


def test_candidates_are_measured_on_the_gpus_of_a_node(gpus: Cluster) -> None:
    runner = RayRunner(RESOURCE, QUICK, device="cuda", timeout_sec=30.0)
    assert runner.measures_at_once == 2
    reference = IRModule({"main": programs.turned})
    items = [
        RunnerInput(_artifact(fault), "cuda", reference=reference) for fault in (None, "wrong result", None)
    ]
    results = [future.result() for future in runner.run(items)]
    assert [item.kind for item in results] == [ResultKind.OK, ResultKind.WRONG_RESULT, ResultKind.OK], results
    assert results[0].verified and results[0].run_secs
    assert runner.device_target().startswith("cuda")
    shown = ray.available_resources()
    assert "GPU" not in shown and RESOURCE not in shown  # each device has one of both for itself

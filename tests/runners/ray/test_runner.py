"""RayRunner and RayBuilder on a cluster of two nodes: the contract of runners, checks, rivals, and a node that dies."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module

import pytest

pytest.importorskip("ray")

import ray
from ray.cluster_utils import Cluster
from ray.exceptions import ActorDiedError

from ir.error import IRError
from ir.target import Target
from runners import (
    Builder,
    BuilderInput,
    EvaluatorConfig,
    LocalBuilder,
    MeasureRequest,
    RayBuilder,
    RayRunner,
    ResultKind,
    Runner,
    RunnerError,
    RunnerInput,
    WorkerPool,
    measure_candidates,
)
from runners.ray.cluster import Devices, DevicesLost, connect
from tests.programs.nodes import matmul, scaled
from tests.runners.contract import RunnerContract
from tests.runners.ray.conftest import RESOURCE, add_device_node

QUICK = EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)


@pytest.fixture(scope="module")
def builder(cluster: Cluster) -> RayBuilder:
    return RayBuilder()


@pytest.fixture(scope="module")
def runner(cluster: Cluster) -> RayRunner:
    return RayRunner(RESOURCE, QUICK, timeout_sec=10.0)


def built(builder: Builder, mod: object) -> object:
    (result,) = builder.build([BuilderInput(mod, "cpu")])
    assert result.error_msg is None, result.error_msg
    return result.artifact


def refuse() -> object:
    raise IRError("loop i cannot be split by 3")


class TestRayRunner(RunnerContract):
    @pytest.fixture
    def runner(self, cluster: Cluster, builder: RayBuilder) -> Runner:
        self._made = builder
        return RayRunner(RESOURCE, QUICK, timeout_sec=10.0)

    def good_input(self, runner: Runner) -> RunnerInput:
        return RunnerInput(built(self._made, matmul()), reference=matmul())

    def bad_input(self, runner: Runner) -> RunnerInput:
        return RunnerInput(built(self._made, scaled(factor=2.0)), reference=scaled(factor=3.0))


def test_candidates_are_checked_on_the_device(builder: RayBuilder, runner: RayRunner) -> None:
    right, wrong = built(builder, scaled(factor=3.0)), built(builder, scaled(factor=2.0))
    reference = scaled(factor=3.0)
    (good,) = runner.run([RunnerInput(right, reference=reference, confirm_later=True)])
    result = good.result()
    assert result.verified and not result.confirmed and result.confirm is not None
    assert result.confirm().confirmed
    assert result.confirm().confirmed  # the device does not know it any more: it is measured again
    rivals = runner.final_choice([right, wrong], reference)
    assert rivals is not None
    assert [item.kind for item in rivals] == [ResultKind.OK, ResultKind.WRONG_RESULT]
    assert runner.measure_again(RunnerInput(right, reference=reference)).run_secs
    assert runner.hardware()


def test_builds_that_fail_say_how(builder: RayBuilder) -> None:
    lazy, bad = builder.build([BuilderInput(partial(matmul), "cpu"), BuilderInput(refuse, "cpu")])
    assert lazy.kind is ResultKind.OK and lazy.build_secs > 0 and lazy.metrics["code_size"] > 0
    assert bad.kind is ResultKind.ILLEGAL_SCHEDULE and "split by 3" in (bad.error_msg or "")


def test_what_is_no_bytes_is_refused(runner: RayRunner) -> None:
    with WorkerPool(1) as pool:
        artifact = built(LocalBuilder(pool=pool), matmul())
        with pytest.raises(RunnerError, match=r"RayRunner sends what .* or RayBuilder built"):
            runner.run([RunnerInput(artifact)])


def test_kinds_have_names(cluster: Cluster) -> None:
    assert isinstance(Runner.create("ray"), RayRunner) and isinstance(Builder.create("ray"), RayBuilder)


def test_without_a_device_the_runner_says_what_to_do(cluster: Cluster) -> None:
    with pytest.raises(RunnerError, match=r"no node .* 'no-such-device' .*ray start"):
        RayRunner("no-such-device", patience_sec=0.1).hardware()


def test_what_ends_three_devices_is_the_reason(runner: RayRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def lost(device: object) -> None:
        asked.append(device)
        raise ActorDiedError()

    monkeypatch.setattr("runners.ray.cluster._AVOIDED_SECONDS", 0.0)
    with pytest.raises(DevicesLost, match="3 devices in turn"):
        Devices(RESOURCE, 10.0).asked(lost)
    assert len(asked) == 3


def test_a_node_that_dies_costs_no_trial(
    cluster: Cluster, builder: RayBuilder, runner: RayRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its device is lost while it measures; the candidate is measured elsewhere, and each has one result."""
    doomed = add_device_node(cluster)
    cluster.wait_for_nodes()
    assert runner.measures_at_once == 3
    killed, asked = [], Devices.asked

    def kill_on_the_way(self: Devices, ask: Callable[[object], object]) -> object:
        def asking(device: object) -> object:
            at = _place(self, device)
            if at == doomed.node_id and not killed:
                killed.append(at)
                cluster.remove_node(doomed, allow_graceful=False)
            return ask(device)

        return asked(self, asking)

    monkeypatch.setattr(Devices, "asked", kill_on_the_way)
    reference = matmul()
    requests = [MeasureRequest(matmul(), "cpu", reference) for _ in range(6)]
    found = list(measure_candidates(requests, LocalBuilder(portable=True), runner))
    assert killed == [doomed.node_id]
    assert sorted(place for place, _ in found) == list(range(6))
    assert {result.kind for _, result in found} == {ResultKind.OK}


def _place(devices: Devices, actor: object) -> str:
    return next(place.node for place, known in devices._actors.items() if known is actor)


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "runners.ray.cluster")
    with pytest.raises(RunnerError, match=r"pip install 'loopsmith\[ray\]'"):
        import_module("runners.ray").connect


def test_a_device_says_what_it_is(runner: RayRunner) -> None:
    assert runner.device_target() == str(Target("cpu"))
    with pytest.raises(RunnerError, match="device is one of cpu, cuda, got 'tpu'"):
        RayRunner(RESOURCE, device="tpu")


def test_what_resources_there_are_is_told(cluster: Cluster, runner: RayRunner) -> None:
    runner.require_devices()
    with pytest.raises(RunnerError, match=rf"'no-such-device'; there is {RESOURCE}\. Nodes with devices"):
        RayRunner("no-such-device").require_devices()


def test_connecting_leaves_the_handlers_of_signals_alone(cluster: Cluster) -> None:
    ray.shutdown()
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        connect(cluster.address)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "[::1]:9", "127.0.0.1:99999"])
def test_where_nobody_listens_there_is_no_cluster(cluster: Cluster, address: str) -> None:
    """Ray itself would try for more than ten minutes, and write of it all the while."""
    ray.shutdown()
    try:
        with pytest.raises(RunnerError, match=r"no Ray cluster at .*:9.*ray start --head"):
            connect(address)
    finally:
        connect(cluster.address)

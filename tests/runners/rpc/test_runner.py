"""RPCRunner and RPCBuilder with servers of this process: the contract of runners, checks, rivals, and what ends on the way."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from runners import (
    Builder,
    BuilderInput,
    EvaluatorConfig,
    LocalBuilder,
    MeasureRequest,
    ResultKind,
    RPCBuilder,
    RPCConfig,
    RPCRunner,
    Runner,
    RunnerError,
    RunnerInput,
    WorkerPool,
    measure_candidates,
)
from runners.rpc import runner as module
from runners.rpc.device_client import RequestRefused
from runners.rpc.fleet import ServerRecord
from runners.rpc.proto.device_pb2 import DeviceDescription
from runners.rpc.server import Server
from runners.rpc.tracker import Tracker
from tests.programs.nodes import matmul, scaled
from tests.runners.contract import RunnerContract
from tests.runners.rpc.conftest import LOOPBACK

QUICK = EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)


@pytest.fixture(scope="module")
def builder() -> Iterator[LocalBuilder]:
    with WorkerPool(1) as pool:
        yield LocalBuilder(timeout_sec=30.0, pool=pool, portable=True)


@pytest.fixture
def runner(config: RPCConfig) -> Iterator[RPCRunner]:
    made = RPCRunner(config, QUICK, timeout_sec=10.0)
    yield made
    made.close()


def built(builder: Builder, mod: object) -> object:
    (result,) = builder.build([BuilderInput(mod, "cpu")])
    assert result.error_msg is None, result.error_msg
    return result.artifact


class TestRPCRunner(RunnerContract):
    @pytest.fixture
    def runner(self, config: RPCConfig) -> Iterator[Runner]:
        made = RPCRunner(config, QUICK, timeout_sec=10.0)
        yield made
        made.close()

    @pytest.fixture(autouse=True)
    def _builder(self, builder: LocalBuilder) -> None:
        self._made = builder

    def good_input(self, runner: Runner) -> RunnerInput:
        return RunnerInput(built(self._made, matmul()), reference=matmul())

    def bad_input(self, runner: Runner) -> RunnerInput:
        return RunnerInput(built(self._made, scaled(factor=2.0)), reference=scaled(factor=3.0))


def test_candidates_are_checked_on_the_device(builder: LocalBuilder, runner: RPCRunner) -> None:
    right, wrong = built(builder, scaled(factor=3.0)), built(builder, scaled(factor=2.0))
    reference = scaled(factor=3.0)
    (good,) = runner.run([RunnerInput(right, reference=reference, confirm_later=True)])
    result = good.result()
    assert result.verified and not result.confirmed and result.confirm is not None
    assert result.confirm().confirmed
    (bad,) = runner.run([RunnerInput(wrong, reference=reference)])
    assert bad.result().kind is ResultKind.WRONG_RESULT and "output B differs" in (
        bad.result().error_msg or ""
    )
    rivals = runner.final_choice([right, wrong], reference)
    assert rivals is not None
    assert [item.kind for item in rivals] == [ResultKind.OK, ResultKind.WRONG_RESULT]
    assert runner.measure_again(RunnerInput(right, reference=reference)).run_secs


def test_a_check_goes_on_where_the_device_was_given_back(builder: LocalBuilder, runner: RPCRunner) -> None:
    for factor, kind in ((3.0, ResultKind.OK), (2.0, ResultKind.WRONG_RESULT)):
        artifact = built(builder, scaled(factor=factor))
        reference = scaled(factor=3.0)
        item = RunnerInput(
            artifact,
            reference=None if kind is not ResultKind.OK else reference,
            confirm_later=True,
            best_secs=1e-12,  # a new best candidate alone would be checked to the end, when it is measured again
        )
        result = runner.run([item])[0].result()
        runner.close()
        if result.confirm is not None:
            again = result.confirm()
            assert again.kind is kind and again.confirmed and again.confirm is None


def test_all_devices_are_used_at_a_time(
    builder: LocalBuilder, runner: RPCRunner, servers: list[Server]
) -> None:
    before = [server.desk.state().sessions for server in servers]
    assert runner.measures_at_once == 2
    reference = matmul()
    requests = [MeasureRequest(matmul(), "cpu", reference) for _ in range(6)]
    results = dict(measure_candidates(requests, builder, runner))
    assert [results[place].kind for place in range(6)] == [ResultKind.OK] * 6
    after = [server.desk.state().sessions for server in servers]
    assert all(new > old for new, old in zip(after, before))


def test_devices_are_given_back_when_there_is_nothing_to_do(
    builder: LocalBuilder, runner: RPCRunner, servers: list[Server]
) -> None:
    runner.run([RunnerInput(built(builder, matmul()), reference=matmul())])[0].result()
    end = time.monotonic() + 20
    while any(server.desk.state().is_busy for server in servers) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(server.desk.state().is_busy for server in servers)


def test_a_device_builds(config: RPCConfig, runner: RPCRunner) -> None:
    builder = RPCBuilder(config, timeout_sec=30.0)

    def refused() -> object:
        raise RunnerError("no such loop")

    good, lazy, bad = builder.build(
        [
            BuilderInput(matmul(), "cpu"),
            BuilderInput(lambda: matmul(), "cpu"),
            BuilderInput(refused, "cpu"),
        ]
    )
    assert good.build_secs > 0 and good.metrics["code_size"] > 0
    assert lazy.artifact.mod == good.artifact.mod
    assert (bad.kind, bad.artifact) == (ResultKind.ILLEGAL_SCHEDULE, None) and "no such loop" in bad.error_msg
    result = runner.run([RunnerInput(good.artifact, reference=matmul())])[0].result()
    assert result.confirmed
    assert builder.unbuilt(BuilderInput(matmul(), "cpu")).mod == good.artifact.mod


def test_builds_for_a_target_that_is_none_fail(config: RPCConfig) -> None:
    (result,) = RPCBuilder(config).build([BuilderInput(matmul(), "no-such-target")])
    assert result.kind is ResultKind.BUILD_ERROR and "no-such-target" in (result.error_msg or "")


def test_what_is_no_bytes_is_refused(runner: RPCRunner, builder: LocalBuilder) -> None:
    in_process = builder.build
    with WorkerPool(1) as pool:
        artifact = built(LocalBuilder(pool=pool), matmul())
    with pytest.raises(RunnerError, match=r"LocalBuilder\(portable=True\) or RPCBuilder"):
        runner.run([RunnerInput(artifact, reference=matmul())])
    assert runner.final_choice([artifact], matmul()) is None


def test_a_lost_device_costs_no_trial(builder: LocalBuilder, tracker: Tracker) -> None:
    """The server is closed while it measures; the candidate is measured on the other one."""
    with (
        Server("frail", LOOPBACK, tracker.address, workers=1) as first,
        Server("frail", LOOPBACK, tracker.address, workers=1) as second,
    ):
        assert first.wait_registered(30) and second.wait_registered(30)
        config = RPCConfig(tracker.address.host, tracker.address.port, "frail")
        runner = RPCRunner(config, EvaluatorConfig(1, 5, 200), timeout_sec=10.0)
        (future,) = runner.run([RunnerInput(built(builder, matmul()), reference=matmul())])
        end = time.monotonic() + 20
        while not (first.desk.state().is_busy or second.desk.state().is_busy) and time.monotonic() < end:
            time.sleep(0.01)
        (first if first.desk.state().is_busy else second).close()
        result = future.result()
        assert result.kind is ResultKind.OK and result.confirmed, result.error_msg
        runner.close()


def test_without_a_tracker_the_error_says_what_to_start(builder: LocalBuilder) -> None:
    with Tracker(LOOPBACK) as gone:
        address = gone.address
    runner = RPCRunner(RPCConfig(address.host, address.port, "cpu"), QUICK, patience_sec=0.5)
    (future,) = runner.run([RunnerInput(built(builder, matmul()), reference=matmul())])
    with pytest.raises(RunnerError, match="no device of the key 'cpu'.*loopsmith rpc tracker"):
        future.result()


def test_a_tracker_that_comes_back_is_found(builder: LocalBuilder) -> None:
    with Tracker(LOOPBACK) as first:
        address = first.address
        with Server("cpu", LOOPBACK, address, workers=1) as server:
            assert server.wait_registered(30)
            runner = RPCRunner(RPCConfig(address.host, address.port, "cpu"), QUICK, patience_sec=60)
            first.close()
            # A search asks for it before it has a device; it ended where the tracker was away at that moment.
            hardware = ThreadPoolExecutor(1).submit(runner.hardware)
            (future,) = runner.run([RunnerInput(built(builder, matmul()), reference=matmul())])
            time.sleep(0.3)
            assert not future.done() and not hardware.done()
            with Tracker(address):
                assert future.result().kind is ResultKind.OK
                assert hardware.result() == json.loads(server.facts.fingerprint)
            runner.close()


def test_devices_are_counted_on_while_the_tracker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions with them go on; candidates were measured one after the other from then on."""
    monkeypatch.setattr(module, "_COUNT_SECONDS", -1.0)
    with Tracker(LOOPBACK) as tracker:
        for name in "abc":
            tracker.fleet.report(
                ServerRecord(name, "cpu", "a:1", described=DeviceDescription(key="cpu", name=name))
            )
        runner = RPCRunner(RPCConfig(tracker.address.host, tracker.address.port, "cpu"))
        assert runner.measures_at_once == 3
    assert runner.measures_at_once == 3
    assert RPCRunner(RPCConfig(tracker.address.host, tracker.address.port, "cpu")).measures_at_once == 1


def test_settings_come_from_the_environment(config: RPCConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunnerError, match="Set tracker_host of RPCConfig, or LOOPSMITH_TRACKER_HOST"):
        RPCRunner()
    monkeypatch.setenv("LOOPSMITH_TRACKER_HOST", config.tracker_host)
    monkeypatch.setenv("LOOPSMITH_TRACKER_PORT", str(config.tracker_port))
    monkeypatch.setenv("LOOPSMITH_TRACKER_KEY", "cpu")
    runner = Runner.create("rpc", max_workers=1)
    assert isinstance(runner, RPCRunner) and runner.rpc_config == config and runner.measures_at_once == 1
    assert RPCConfig().count_num_servers() == 2
    monkeypatch.setenv("LOOPSMITH_TRACKER_KEY", "arm")
    assert RPCConfig().count_num_servers() == 0
    with pytest.raises(RunnerError, match="no devices of the key 'arm'; it has cpu"):
        RPCConfig().count_num_servers(allow_missing=False)
    monkeypatch.setenv("LOOPSMITH_TRACKER_PORT", "http")
    with pytest.raises(RunnerError, match="number of a port"):
        RPCConfig().count_num_servers()


@pytest.mark.parametrize(
    "options",
    [{"session_priority": 1.5}, {"session_timeout_sec": -1}, {"tracker_port": 0}, {"session_priority": True}],
)
def test_settings_of_another_type_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(RunnerError, match=next(iter(options))):
        RPCConfig("host", **{"tracker_port": 1, **options})  # type: ignore[arg-type]


def test_a_refusal_that_is_not_the_programs_is_none_of_its_failures(config: RPCConfig) -> None:
    """It would be stored, and the program never be tried again."""
    builder = RPCBuilder(config)

    def refused(device: object, *_: object) -> object:
        raise RequestRefused("too many requests", grpc.StatusCode.RESOURCE_EXHAUSTED)

    builder._built_there = refused  # type: ignore[method-assign, assignment]
    with pytest.raises(RequestRefused, match="too many requests"):
        builder.build([BuilderInput(matmul(), "cpu")])

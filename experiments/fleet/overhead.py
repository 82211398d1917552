"""What a trial costs beyond its measurement, and what several devices gain: ``python -m experiments.fleet.overhead``.

The same candidate is measured by a LocalRunner and through a tracker and a server of this machine, in turns. Devices that pretend to
measure for a tenth of a second then show how many times the trials of one device several of them make.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack

from ir import IRModule
from runners import (
    Builder,
    BuilderInput,
    BuilderResult,
    EvaluatorConfig,
    LocalBuilder,
    LocalRunner,
    MeasureRequest,
    RPCConfig,
    RPCRunner,
    Runner,
    RunnerInput,
    WorkerPool,
    measure_candidates,
)
from runners.rpc import Address, Server, Tracker

from ..operators import suite
from .fake import fake_runner

_HERE = Address("127.0.0.1", 0)
_QUICK = EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0)
_TRIALS = 40
_FAKE_SECS = 0.1


def _secs_per_trial(runner: Runner, item: RunnerInput) -> float:
    begin = time.perf_counter()
    kind = runner.run([item])[0].result().kind
    assert str(kind) == "ok", kind
    return time.perf_counter() - begin


def overhead() -> tuple[float, float]:
    """Median seconds of a trial, here and through a server; the candidate is checked each time, and called a few times."""
    mod = IRModule({"main": suite.workload("GMM", (1, 64, 64, 64))})
    with ExitStack() as stack:
        pool = stack.enter_context(WorkerPool(1))
        tracker = stack.enter_context(Tracker(_HERE))
        stack.enter_context(Server("cpu", _HERE, tracker.address, workers=1))
        local = LocalRunner(evaluator_config=_QUICK, pool=pool)
        remote = RPCRunner(RPCConfig(tracker.address.host, tracker.address.port, "cpu"), _QUICK)
        builder = LocalBuilder(pool=pool, portable=True)
        artifact = builder.build([BuilderInput(mod, "cpu")])[0].artifact
        item = RunnerInput(artifact, reference=mod, confirm_later=True)
        for runner in (local, remote):
            _secs_per_trial(runner, item)
        times = [(_secs_per_trial(local, item), _secs_per_trial(remote, item)) for _ in range(_TRIALS)]
        remote.close()
    here, there = zip(*times)
    return statistics.median(here), statistics.median(there)


class _Built(Builder):
    """Gives everybody what was built once: devices are measured, not compilers."""

    def __init__(self, result: BuilderResult) -> None:
        self._result = result

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [self._result for _ in build_inputs]


def trials_per_second(devices: int) -> float:
    """Of devices that pretend to measure."""
    mod = IRModule({"main": suite.workload("GMM", (1, 4, 4, 4))})
    with ExitStack() as stack:
        tracker = stack.enter_context(Tracker(_HERE))
        for _ in range(devices):
            made = Server("fake", _HERE, tracker.address, workers=1, runner=fake_runner(_FAKE_SECS))
            stack.enter_context(made).wait_registered(30)
        runner = RPCRunner(RPCConfig(tracker.address.host, tracker.address.port, "fake"), _QUICK)
        pool = stack.enter_context(WorkerPool(1))
        builder = LocalBuilder(pool=pool, portable=True)
        artifact = builder.build([BuilderInput(mod, "cpu")])[0]

        requests = [MeasureRequest(mod, "cpu", mod) for _ in range(20 * devices)]
        begin = time.perf_counter()
        count = len(list(measure_candidates(requests, _Built(artifact), runner)))
        secs = time.perf_counter() - begin
        runner.close()
    return count / secs


def main() -> None:
    """Prints the figures."""
    here, there = overhead()
    print(
        f"a trial takes {1e3 * here:.2f} ms here, {1e3 * there:.2f} ms through a server: {1e3 * (there - here):.2f} ms more"
    )
    one = trials_per_second(1)
    for devices in (2, 4, 8):
        many = trials_per_second(devices)
        print(
            f"{devices} devices of {_FAKE_SECS:g} s a trial: {many:.1f} trials a second, {many / one:.2f} x one"
        )


if __name__ == "__main__":
    main()

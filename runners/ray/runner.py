"""The runner of a Ray cluster: candidates travel as bytes to whichever device of a resource is free, and are checked and timed there."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import ray

from ..builder import portable_code
from ..candidate import REFERENCE_SECONDS, RunSettings
from ..error import RunnerError
from ..evaluator import EvaluatorConfig
from ..kernel_code import KernelCode, ProgramTexts
from ..result import ResultKind
from ..runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from ..session import MeasuringPart
from ..settings import check_seconds, check_whole
from .cluster import LOST, Devices, DevicesLost, connect, hardware_of
from .device import KINDS

MOST_DEVICES = 256
"""That one runner uses at a time."""
_OF_RAY = ("CPU", "GPU", "memory", "object_store_memory", "node", "accelerator_type")
"""Resources that nodes have without being told; of some, a name follows."""


@Runner.kinds.register("ray")
class RayRunner(MeasuringPart, Runner):
    """Measures on all devices of a resource, one candidate at a time on each, whoever else measures there.

    A node that is lost costs no trial: what its devices were measuring is measured on others.
    """

    takes_bytes = True
    measures_elsewhere = True
    measures_again = True

    def __init__(
        self,
        resource: str = "loopsmith",
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        max_workers: int | None = None,
        *,
        device: str = "cpu",
        address: str | None = None,
        timeout_sec: float = 30.0,
        cut_ratio: float | None = None,
        reference_timeout_sec: float = REFERENCE_SECONDS,
        measure_energy: bool = False,
        patience_sec: float = 120.0,
    ) -> None:
        """
        Args:
            resource: name of the resource that nodes have one of for each device; devices of one name are alike.
            evaluator_config: how often to call, and which data the caches hold.
            cooldown_sec: pause of the device before each measurement.
            max_workers: devices that are used at a time; as many as there are by default.
            device: what the devices are: "cpu" or "cuda"; for each of the latter, its node has one of Ray's GPUs as well.
            address: of the cluster; by default that which this process is connected to, or can find.
            timeout_sec: seconds that one call of a candidate may take at most.
            cut_ratio: as of :class:`~runners.local.LocalRunner`.
            reference_timeout_sec: seconds that one run of the unscheduled program may take on the device.
            measure_energy: tell the joules of a call, where the device tells them.
            patience_sec: how long to wait where no node has a device.

        Raises:
            RunnerError: a setting is of another type, or there is no cluster.
        """
        for name, seconds in (
            ("timeout_sec", timeout_sec),
            ("cooldown_sec", cooldown_sec),
            ("reference_timeout_sec", reference_timeout_sec),
            ("patience_sec", patience_sec),
        ):
            check_seconds(f"RayRunner: {name}", seconds)
        if max_workers is not None:
            check_whole("RayRunner: max_workers", max_workers, 1)
        if device not in KINDS:
            raise RunnerError(f"RayRunner: device is one of {', '.join(KINDS)}, got {device!r}")
        connect(address)
        self._resource = resource
        self._config = EvaluatorConfig._normalized(evaluator_config)
        self._max_workers = max_workers
        self._cut_ratio, self._measure_energy = cut_ratio, measure_energy
        self._seconds = timeout_sec, cooldown_sec, reference_timeout_sec
        self._devices = Devices(resource, patience_sec, device)
        self._threads = ThreadPoolExecutor(MOST_DEVICES, thread_name_prefix="loopsmith-ray-runner")
        self._texts = ProgramTexts()

    @property
    def measures_at_once(self) -> int:  # type: ignore[override]  # it changes with the cluster
        """One candidate on each device of the cluster."""
        return max(1, min(len(self._devices.places()), self._max_workers or MOST_DEVICES, MOST_DEVICES))

    @property
    def settings(self) -> RunSettings:
        """How candidates are measured, with what the session says."""
        timeout, cooldown, reference_timeout = self._seconds
        return RunSettings(
            self.evaluator_config, timeout, self.cut_ratio, cooldown, reference_timeout, self.measure_energy
        )

    def hardware(self) -> dict[str, Any]:
        """That of a device of the resource, which are all alike.

        Raises:
            RunnerError: there is no device for ``patience_sec``.
        """
        found: dict[str, Any] = self._devices.asked(lambda device: ray.get(hardware_of(device)))
        return found

    def device_target(self) -> str:
        """What a device of the resource is, as text of a target; others are like it.

        Raises:
            RunnerError: there is no device for ``patience_sec``.
        """
        found: str = self._devices.asked(lambda device: ray.get(device.target.remote()))
        return found

    def require_devices(self) -> None:
        """Raises RunnerError where no node has a device now."""
        if not self._devices.places():
            known = sorted(name for name in ray.cluster_resources() if name.partition(":")[0] not in _OF_RAY)
            raise RunnerError(
                f"no node of the Ray cluster has the resource {self._resource!r}; there is {', '.join(known) or 'none of any name'}."
                f""" Nodes with devices are started with `ray start --address=HOST:PORT --resources='{{"{self._resource}": 1}}'`"""
            )

    # -- measuring -------------------------------------------------------------------
    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """As every runner does.

        Raises:
            RunnerError: an artifact was not built as bytes.
        """
        for item in runner_inputs:
            portable_code(item.artifact, "RayRunner", "RayBuilder")
        waiting = [self._threads.submit(self._measured, item) for item in runner_inputs]
        return [RunnerFuture(future.done, future.result) for future in waiting]

    def measure_again(self, item: RunnerInput) -> RunnerResult:
        portable_code(item.artifact, "RayRunner", "RayBuilder")
        return self._measured(item, again=True)

    def _measured(self, item: RunnerInput, again: bool = False) -> RunnerResult:
        name, settings = uuid.uuid4().hex, self.settings
        if item.reference is not None:
            item = replace(item, reference=self._texts.of(item.reference))

        def ask(device: Any) -> RunnerResult:
            result: RunnerResult
            result, can_confirm = ray.get(device.measure.remote(name, item, settings, again))
            if can_confirm:
                result.confirm = partial(self._confirmed, device, name, item)
            return result

        try:
            return self._devices.asked(ask)
        except DevicesLost as error:
            return RunnerResult(None, str(error), ResultKind.CRASH)

    def _confirmed(self, device: Any, name: str, item: RunnerInput) -> RunnerResult:
        """The rest of a candidate's check: where it was measured, or measured again where that device is gone."""
        found: RunnerResult | None = None
        try:
            found = ray.get(device.confirm.remote(name))
        except LOST:
            pass
        if found is not None:
            return found
        return self._measured(replace(item, confirm_later=False, best_secs=None))

    def final_choice(
        self, artifacts: Sequence[Any], reference: Any = None, confirmed: Collection[int] = ()
    ) -> list[RunnerResult] | None:
        """All candidates in turns on one device."""
        if not all(isinstance(getattr(artifact, "mod", None), KernelCode) for artifact in artifacts):
            return None
        text = None if reference is None else self._texts.of(reference)
        rivals, places, settings = list(artifacts), set(confirmed), self.settings

        def ask(device: Any) -> list[RunnerResult] | None:
            found: list[RunnerResult] | None = ray.get(device.compare.remote(rivals, text, places, settings))
            return found

        return self._devices.asked(ask)

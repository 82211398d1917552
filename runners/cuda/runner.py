"""The runner of the CUDA devices of this machine: candidates run in worker processes, each on a device that it has to itself.

What fails on a device costs the candidate, and where the device is lost by it the process, whose place a new one takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from .. import candidate
from ..error import RunnerError
from ..evaluator import EvaluatorConfig
from ..local import LocalRunner
from ..pool import WorkerPool
from ..runner import Runner
from ..settings import check_whole
from .place import Place


@Runner.kinds.register("cuda")
class CudaRunner(LocalRunner):
    """Checks candidates against the unscheduled program on the processor, and times them by the device's clock."""

    device_types: ClassVar[tuple[str, ...]] = ("cuda",)

    def __init__(
        self,
        timeout_sec: float = 30.0,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        *,
        devices: Sequence[int] = (0,),
        device_memory: int | None = None,
        cut_ratio: float | None = None,
        reference_timeout_sec: float = candidate.REFERENCE_SECONDS,
        measure_energy: bool = False,
        pool: WorkerPool | None = None,
    ) -> None:
        """
        Args:
            timeout_sec: as of :class:`~runners.local.LocalRunner`, and so are the others that are not described here.
            evaluator_config: ``enable_cpu_cache_flush`` writes over the device's level-2 cache before each call.
            cooldown_sec: pause before each measurement.
            devices: numbers of the devices; a candidate is measured on the first that is free, and a search has as many measured at a time
                as there are devices. They should be alike: times on different devices are compared.
            device_memory: bytes that one process may take of a device's memory.
            cut_ratio: when a candidate that is far behind is given up.
            reference_timeout_sec: seconds that one run of the unscheduled program may take, on the processor.
            measure_energy: tell the joules of a call, by the counter of the device.
            pool: worker processes; those that the builder uses, as of LocalRunner.

        Raises:
            RunnerError: a setting is of another type.
        """
        self.devices = tuple(devices)
        if not self.devices or len(set(self.devices)) != len(self.devices):
            raise RunnerError(f"CudaRunner: devices are one or more different numbers, got {devices!r}")
        for index in self.devices:
            check_whole("CudaRunner: a device", index, 0)
        if device_memory is not None:
            check_whole("CudaRunner: device_memory", device_memory, 1)
        super().__init__(
            timeout_sec,
            evaluator_config,
            cooldown_sec,
            cut_ratio=cut_ratio,
            reference_timeout_sec=reference_timeout_sec,
            measure_energy=measure_energy,
            pool=pool,
        )
        self.place = Place(self.devices, device_memory)

    @property
    def measures_at_once(self) -> int:  # type: ignore[override]  # it is as many as there are devices
        """One candidate on each device."""
        return len(self.devices)

    @property
    def evaluator_config(self) -> EvaluatorConfig:
        """How often to call; weights are where the last call left them, or displaced with everything else."""
        return replace(self._config, weight_distance=0)

    def _require_energy(self) -> None:
        """The device is asked by the process that uses it."""

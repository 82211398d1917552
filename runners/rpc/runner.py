"""The runner of devices elsewhere: candidates travel as bytes to whichever device of a key is free, and are checked and timed there."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from ..builder import portable_code
from ..candidate import REFERENCE_SECONDS, RunSettings
from ..error import RunnerError
from ..evaluator import EvaluatorConfig
from ..kernel_code import KernelCode, ProgramTexts
from ..result import ResultKind
from ..runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from ..session import MeasuringPart
from ..settings import check_seconds, check_whole
from .config import RPCConfig
from .device_client import ConnectionLost, DeviceClient, RequestRefused
from .lending import Lending
from .messages import MessageError, arguments_message, result_of, settings_message
from .proto import device_pb2 as pb

MOST_DEVICES = 256
"""That one runner uses at a time."""
_COUNT_SECONDS = 5.0
"""How long it is believed how many devices there are."""


@Runner.kinds.register("rpc")
class RPCRunner(MeasuringPart, Runner):
    """Measures on the devices of a key that a tracker lends, as many at a time as there are.

    A device that is lost, as by a power cut, costs no trial: what it was measuring is measured on another one. Where the tracker does not
    answer, the runner waits for it, and gives up with a RunnerError after ``patience_sec``.
    """

    takes_bytes = True
    measures_elsewhere = True
    measures_again = True

    def __init__(
        self,
        rpc_config: RPCConfig | None = None,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        max_workers: int | None = None,
        *,
        timeout_sec: float = 30.0,
        cut_ratio: float | None = None,
        reference_timeout_sec: float = REFERENCE_SECONDS,
        measure_energy: bool = False,
        patience_sec: float = 120.0,
    ) -> None:
        """
        Args:
            rpc_config: which tracker and key; by default what the environment says.
            evaluator_config: how often to call, and which data the caches hold.
            cooldown_sec: pause of the device before each measurement.
            max_workers: devices that are used at a time; as many as there are by default.
            timeout_sec: seconds that one call of a candidate may take at most.
            cut_ratio: as of :class:`~runners.local.LocalRunner`.
            reference_timeout_sec: seconds that one run of the unscheduled program may take on the device.
            measure_energy: tell the joules of a call, where the device tells them.
            patience_sec: how long to wait for a tracker that does not answer.

        Raises:
            RunnerError: a setting is of another type, or neither ``rpc_config`` nor the environment names a tracker.
        """
        for name, seconds in (
            ("timeout_sec", timeout_sec),
            ("cooldown_sec", cooldown_sec),
            ("reference_timeout_sec", reference_timeout_sec),
            ("patience_sec", patience_sec),
        ):
            check_seconds(f"RPCRunner: {name}", seconds)
        if max_workers is not None:
            check_whole("RPCRunner: max_workers", max_workers, 1)
        self.rpc_config = RPCConfig._normalized(rpc_config)
        self._config = EvaluatorConfig._normalized(evaluator_config)
        self._max_workers = max_workers
        self._cut_ratio, self._measure_energy = cut_ratio, measure_energy
        self._seconds = timeout_sec, cooldown_sec, reference_timeout_sec
        self._lending = Lending(self.rpc_config, patience_sec)
        self._threads = ThreadPoolExecutor(MOST_DEVICES, thread_name_prefix="loopsmith-rpc-runner")
        self._counted: tuple[int, float] | None = None
        self._texts = ProgramTexts()

    @property
    def measures_at_once(self) -> int:  # type: ignore[override]  # it changes with the fleet
        """One candidate on each device of the key, whoever has it now."""
        now = time.monotonic()
        if self._counted is None or now - self._counted[1] > _COUNT_SECONDS:
            try:
                count = self.rpc_config.count_num_servers()
            except RunnerError:  # the tracker is away, which is told where a device is needed; sessions go on
                count = 0 if self._counted is None else self._counted[0]
            self._counted = (count, time.monotonic())
        return max(1, min(self._counted[0], self._max_workers or MOST_DEVICES, MOST_DEVICES))

    @property
    def settings(self) -> RunSettings:
        """How candidates are measured, with what the session says."""
        timeout, cooldown, reference_timeout = self._seconds
        return RunSettings(
            self.evaluator_config, timeout, self.cut_ratio, cooldown, reference_timeout, self.measure_energy
        )

    def hardware(self) -> dict[str, Any]:
        """That of a device of the key, which are all alike.

        Raises:
            RunnerError: the tracker does not answer, or knows none, for ``patience_sec``.
        """
        return _fingerprint_of(self._lending.described())

    def close(self) -> None:
        """Give the devices back that have no work."""
        self._lending.close()

    # -- measuring -------------------------------------------------------------------
    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """As every runner does.

        Raises:
            RunnerError: an artifact was not built as bytes.
        """
        for item in runner_inputs:
            _code_of(item.artifact)
        waiting = [self._threads.submit(self._measured, item) for item in runner_inputs]
        return [RunnerFuture(future.done, future.result) for future in waiting]

    def measure_again(self, item: RunnerInput) -> RunnerResult:
        return self._measured(item, again=True)

    def _measured(self, item: RunnerInput, again: bool = False) -> RunnerResult:
        code, settings = _code_of(item.artifact), self.settings
        contents = {code.key: code.data}
        reference = None if item.reference is None else self._texts.of(item.reference)
        if reference is not None:
            contents[reference.key] = reference.data
        request = pb.MeasureRequest(
            id=uuid.uuid4().hex,
            code=code.key,
            reference="" if reference is None else reference.key,
            target=str(item.artifact.target),
            settings=settings_message(settings),
            best_secs=item.best_secs,
            best_noise=item.best_noise,
            confirm_later=item.confirm_later,
            again=again,
            args_info=arguments_message(item.args_info or ()),
            has_args_info=item.args_info is not None,
        )
        limit = _longest(settings)

        def ask(device: DeviceClient) -> RunnerResult:
            reply = device.measure(request, contents, limit)
            return result_of(reply, lambda: self._confirmed(device, request, contents, limit))

        try:
            return self._lending.asked(ask)
        except ConnectionLost as error:
            return RunnerResult(None, str(error), ResultKind.CRASH)

    def _confirmed(
        self,
        device: DeviceClient,
        request: pb.MeasureRequest,
        contents: dict[str, bytes],
        limit: float,
    ) -> RunnerResult:
        """The rest of a candidate's check: where it was measured, or measured again where that device is gone."""
        if device.is_open:
            try:
                return result_of(device.confirm(request.id, limit))
            except (ConnectionLost, RequestRefused):
                pass
        whole = pb.MeasureRequest()
        whole.CopyFrom(request)
        whole.id, whole.confirm_later = uuid.uuid4().hex, False
        whole.ClearField("best_secs")  # so that all of the check is done
        return self._lending.asked(lambda other: result_of(other.measure(whole, contents, limit)))

    def final_choice(
        self, artifacts: Sequence[Any], reference: Any = None, confirmed: Collection[int] = ()
    ) -> list[RunnerResult] | None:
        """All candidates in turns on one device."""
        if not all(isinstance(getattr(artifact, "mod", None), KernelCode) for artifact in artifacts):
            return None
        settings = self.settings
        settings = replace(settings, timeout_sec=2 * settings.timeout_sec)
        codes = [_code_of(artifact) for artifact in artifacts]
        contents = {code.key: code.data for code in codes}
        text = None if reference is None else self._texts.of(reference)
        if text is not None:
            contents[text.key] = text.data
        request = pb.CompareRequest(
            rivals=[
                pb.Rival(code=code.key, confirmed=place in confirmed) for place, code in enumerate(codes)
            ],
            reference="" if text is None else text.key,
            target=str(artifacts[0].target),
            settings=settings_message(settings),
        )
        limit = _longest(settings) * len(codes)
        return self._lending.asked(
            lambda device: [result_of(item) for item in device.compare(request, contents, limit).results]
        )


def _code_of(artifact: Any) -> KernelCode:
    return portable_code(artifact, "RPCRunner", "RPCBuilder")


def _fingerprint_of(device: pb.DeviceDescription) -> dict[str, Any]:
    """The hardware of a device; raises MessageError where it says nothing sensible."""
    try:
        found = json.loads(device.fingerprint)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise MessageError(
            f"the device {device.name} has no fingerprint of its hardware, but {device.fingerprint[:80]!r}"
        )
    return found


def _longest(settings: RunSettings) -> float:
    """Seconds that a measurement may take on a device: the check runs the program and the candidate on several inputs."""
    return 20 * settings.timeout_sec + 10 * settings.reference_timeout_sec + settings.cooldown_sec

"""The builder of devices elsewhere: programs travel to a device of a key, which builds them for its like."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc

from ir.error import IRError

from ..builder import Artifact, Builder, BuilderInput, BuilderResult, require_no_params
from ..kernel_code import KernelCode, ProgramText
from ..result import ResultKind
from ..settings import check_seconds
from .config import RPCConfig
from .device_client import ConnectionLost, DeviceClient, RequestRefused
from .lending import Lending
from .messages import kind_of

_THREADS = 16


@Builder.kinds.register("rpc")
class RPCBuilder(Builder):
    """Builds where the target can compile, as where this machine lacks what code for it needs; what comes back is bytes for
    :class:`~runners.rpc.runner.RPCRunner`."""

    def __init__(
        self,
        rpc_config: RPCConfig | None = None,
        timeout_sec: float = 30.0,
        *,
        patience_sec: float = 120.0,
    ) -> None:
        """
        Args:
            rpc_config: which tracker and key; by default what the environment says.
            timeout_sec: seconds that one build may take.
            patience_sec: how long to wait for a tracker that does not answer.

        Raises:
            RunnerError: a setting is of another type, or nobody names a tracker.
        """
        check_seconds("RPCBuilder: timeout_sec", timeout_sec)
        check_seconds("RPCBuilder: patience_sec", patience_sec)
        self.rpc_config = RPCConfig._normalized(rpc_config)
        self.timeout_sec = timeout_sec
        self._lending = Lending(self.rpc_config, patience_sec)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="loopsmith-rpc-builder")

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [future.result() for future in self.submit(build_inputs)]

    def submit(self, build_inputs: Iterable[BuilderInput]) -> list[Future[BuilderResult]]:
        """As every builder does.

        Raises:
            RunnerError: an input has constants by name, which a kernel has no place for.
        """
        futures = []
        for item in build_inputs:
            require_no_params(self, item)
            futures.append(self._threads.submit(self._built, item))
        return futures

    def unbuilt(self, build_input: BuilderInput) -> Any:
        return self._built(build_input).artifact

    def _built(self, item: BuilderInput) -> BuilderResult:
        try:
            program = item.mod if hasattr(item.mod, "functions") else item.mod()
        except IRError as error:
            message = f"{type(error).__name__}: {error}"
            return BuilderResult(None, message, ResultKind.ILLEGAL_SCHEDULE)
        text, target = ProgramText.of(program).data, str(item.target)
        try:
            return self._lending.asked(lambda device: self._built_there(device, text, target, item))
        except ConnectionLost as error:
            return BuilderResult(None, str(error), ResultKind.CRASH)
        except RequestRefused as error:
            if error.status is not grpc.StatusCode.INVALID_ARGUMENT:
                raise  # no fault of the program, which would be stored as one
            return BuilderResult(None, str(error), ResultKind.BUILD_ERROR)

    def _built_there(
        self, device: DeviceClient, text: bytes, target: str, item: BuilderInput
    ) -> BuilderResult:
        reply = device.build(text, target, self.timeout_sec)
        kind = kind_of(reply.kind)
        if kind is not ResultKind.OK:
            return BuilderResult(None, reply.error, kind, reply.build_secs)
        artifact = Artifact(KernelCode(device.fetch(reply.code)), item.target)
        return BuilderResult(artifact, None, kind, reply.build_secs, dict(reply.metrics))

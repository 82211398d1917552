"""The builder of a Ray cluster: each build is a task on one of its processors, in a worker process of its own, and gives bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any

import ray
from ray.exceptions import RayError

from ir.pass_context import PassContext

from ..builder import Artifact, Builder, BuilderInput, BuilderResult, LocalBuilder, require_no_params
from ..error import RunnerError
from ..pool import WorkerPool
from ..settings import check_seconds
from .cluster import connect

_RETRIES = 3
"""How often Ray does a build again whose node has gone."""


@Builder.kinds.register("ray")
class RayBuilder(Builder):
    """Builds on the processors of a cluster; what comes back is bytes for :class:`~runners.ray.runner.RayRunner`."""

    def __init__(
        self,
        timeout_sec: float = 30.0,
        *,
        address: str | None = None,
        resources: Mapping[str, float] | None = None,
    ) -> None:
        """
        Args:
            timeout_sec: seconds that one build may take.
            address: of the cluster; by default that which this process is connected to, or can find.
            resources: what a node must have for a build, by name, beside one processor: nodes with devices build while they do not
                measure, and where others build, they need not.

        Raises:
            RunnerError: a setting is of another type, or there is no cluster.
        """
        check_seconds("RayBuilder: timeout_sec", timeout_sec)
        connect(address)
        self.timeout_sec = timeout_sec
        self._task = ray.remote(_built).options(
            num_cpus=1, resources=dict(resources or {}), max_retries=_RETRIES, scheduling_strategy="SPREAD"
        )

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [future.result() for future in self.submit(build_inputs)]

    def submit(self, build_inputs: Iterable[BuilderInput]) -> list[Future[BuilderResult]]:
        """As every builder does. A future raises RunnerError where the cluster could not build, which says nothing of the program.

        Raises:
            RunnerError: an input has constants by name, which a kernel has no place for.
        """
        return [self._submit(item) for item in build_inputs]

    def unbuilt(self, build_input: BuilderInput) -> Any:
        return self._submit(build_input).result().artifact

    def _submit(self, item: BuilderInput) -> Future[BuilderResult]:
        require_no_params(self, item)
        future: Future[BuilderResult] = Future()
        context = Artifact(None, item.target).context
        task = self._task.remote(item, self.timeout_sec, context)

        def take(done: Future[Any]) -> None:
            try:
                future.set_result(done.result())
            except RayError as error:
                future.set_exception(RunnerError(f"the Ray cluster could not build a candidate: {error}"))

        task.future().add_done_callback(take)
        return future


def _built(item: BuilderInput, timeout_sec: float, context: PassContext) -> BuilderResult:
    """What a node does; a crash of the compiler costs a process of the pool, not Ray's."""
    with context:
        (result,) = LocalBuilder(timeout_sec=timeout_sec, pool=_pool(), portable=True).build([item])
    return result


@cache
def _pool() -> WorkerPool:
    """The worker process of a process of Ray's."""
    return WorkerPool(1)

"""The devices of a Ray cluster: which nodes have some, whose turn it is, and what follows when one is lost.

A node says with a resource how many devices of a kind it has (``ray start --resources='{"cpu-zen4": 1}'``); the actor of a device holds
one of it, and where it is a GPU, one of the node's GPUs, so that Ray shows it that one alone.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import ray
from ray.exceptions import GetTimeoutError, NodeDiedError, ObjectLostError, RayActorError, RaySystemError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..error import RunnerError
from .device import KINDS, MeasuringDevice

LOST = (RayActorError, NodeDiedError, ObjectLostError)
"""What Ray raises where a device has gone while it measured."""
STATE = "state"
"""The group of an actor's methods that answer while it measures."""
_NAMESPACE = "loopsmith"
_MOST_LOST = 3
"""Devices that may be lost in turn while they measure one candidate, before it counts as the reason."""
_AVOIDED_SECONDS = 5.0
"""A device that was lost is left alone for so long: it takes Ray a while to see that a node has gone."""
_LISTENER_SECONDS = 10.0
"""That a cluster may take to accept a connection."""
_Answer = TypeVar("_Answer")


class DevicesLost(RunnerError):
    """Several devices in turn were lost while they measured one candidate."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One device of a node."""

    node: str
    index: int


def connect(address: str | None) -> None:
    """Connect this process to a cluster, where it is not connected yet.

    Args:
        address: of the cluster, as ``ray.init`` takes it; by default what ``RAY_ADDRESS`` says, or one that runs on this machine.

    Raises:
        RunnerError: there is none.
    """
    if ray.is_initialized():
        return
    _require_listener(address or os.environ.get("RAY_ADDRESS", ""))
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address or "auto", log_to_driver=False)
    except ConnectionError as error:
        raise _no_cluster(address or "RAY_ADDRESS, nor on this machine", error) from error
    finally:
        # Ray's own handler ends the process with another status than a shell expects, and the host program's must stay.
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _require_listener(address: str) -> None:
    """Raises RunnerError where nobody listens at an address: Ray itself would ask there for more than ten minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not host or not port.isdigit():  # "auto", "local", or what Ray will refuse
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _LISTENER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(where: str, error: Exception) -> RunnerError:
    return RunnerError(
        f"there is no Ray cluster at {where}: {error}; start one with `ray start --head --resources='{{\"cpu-zen4\": 1}}'`"
    )


def hardware_of(actor: Any) -> Any:
    """Ask a device what it is, also while it measures; what comes is Ray's reference to the answer."""
    return actor.hardware.options(concurrency_group=STATE).remote()


class Devices:
    """The devices of a resource, of which this process asks each for one thing at a time; threads may share it.

    Args:
        resource: name of the resource.
        patience_sec: how long to wait where there is no device.
        kind: what they are, of :data:`~runners.ray.device.KINDS`.
    """

    def __init__(self, resource: str, patience_sec: float, kind: str = "cpu") -> None:
        self._resource, self._patience, self._kind = resource, patience_sec, kind
        self._changed = threading.Condition()
        self._taken: set[Place] = set()
        self._avoided: dict[Place, float] = {}
        """When a device was lost."""
        self._actors: dict[Place, Any] = {}

    def places(self) -> list[Place]:
        """The devices of nodes that are alive, as far as Ray knows."""
        return sorted(
            Place(node["NodeID"], index)
            for node in ray.nodes()
            if node["Alive"]
            for index in range(int(node["Resources"].get(self._resource, 0)))
        )

    def asked(self, ask: Callable[[Any], _Answer]) -> _Answer:
        """What a free device answers, or another one where it is lost.

        Args:
            ask: gets the handle of a device's actor; it is called again where that is lost.

        Raises:
            RunnerError: there was no device for ``patience_sec``.
            DevicesLost: three were lost in turn while they were asked.
        """
        lost, end = 0, time.monotonic() + self._patience
        while True:
            place = self._take(end)
            try:
                actor = self._actor(place, end)
                if actor is None:
                    continue
                return ask(actor)
            except LOST as error:
                self._lose(place)
                lost, end = lost + 1, time.monotonic() + self._patience
                if lost == _MOST_LOST:
                    raise DevicesLost(
                        f"{lost} devices in turn were lost while they measured it: {error}"
                    ) from error
            finally:
                self._give(place)

    def _take(self, end: float) -> Place:
        """A device that this process does not use; the others wait until one is given back."""
        with self._changed:
            while True:
                now = time.monotonic()
                for place in self.places():
                    if place not in self._taken and self._avoided.get(place, -1e9) + _AVOIDED_SECONDS < now:
                        self._taken.add(place)
                        return place
                if not self._taken and now > end:
                    raise RunnerError(
                        f"no node of the Ray cluster has had the resource {self._resource!r} for {self._patience:g} seconds; nodes with"
                        f""" devices are started with `ray start --address=HOST:PORT --resources='{{"{self._resource}": 1}}'`"""
                    )
                self._changed.wait(0.5)

    def _give(self, place: Place) -> None:
        with self._changed:
            self._taken.discard(place)
            self._changed.notify()

    def _lose(self, place: Place) -> None:
        self._actors.pop(place, None)
        self._avoided[place] = time.monotonic()

    def _actor(self, place: Place, end: float) -> Any:
        """The actor of a device, which has answered once; None where it does not come up, which is no candidate's fault.

        Raises:
            RunnerError: it does not come up in time, as where something else holds the resource.
        """
        found = self._actors.get(place)
        if found is not None:
            return found
        actor = (
            ray.remote(num_cpus=0, concurrency_groups={STATE: 1})(MeasuringDevice)
            .options(
                name=f"{self._resource} {self._kind} {place.node} {place.index}",
                num_gpus=KINDS[self._kind].gpus,
                namespace=_NAMESPACE,
                get_if_exists=True,
                lifetime="detached",
                resources={self._resource: 1},
                scheduling_strategy=NodeAffinitySchedulingStrategy(place.node, soft=False),
            )
            .remote(self._kind)
        )
        try:
            ray.get(hardware_of(actor), timeout=max(1.0, end - time.monotonic()))
        except GetTimeoutError as error:
            raise RunnerError(
                f"a device of the resource {self._resource!r} does not answer for {self._patience:g} seconds: something else holds the"
                f" resource{', its node has no GPU that is free' if KINDS[self._kind].gpus else ''}, or its node does not start processes"
            ) from error
        except (*LOST, RaySystemError):
            self._lose(place)
            return None
        self._actors[place] = actor
        return actor

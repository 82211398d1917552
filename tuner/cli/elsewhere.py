"""Devices elsewhere, as options of commands name them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import runners
from ir.target import Target
from runners.error import RunnerError

from ..error import TunerError

if TYPE_CHECKING:
    from runners.builder import Builder
    from runners.rpc import Address
    from runners.runner import Runner


class Elsewhere(Protocol):
    """Where candidates are measured, if not on this machine."""

    def runner(self) -> Runner:
        """Measures there."""

    def builder(self) -> str | Builder:
        """Builds for there, as an option of :func:`tuner.tune_tasks`."""

    def target(self) -> str:
        """What the devices are.

        Raises:
            RunnerError: they are not all the same, so that one has to be named, or there is none.
        """


def elsewhere_of(
    tracker: str | None,
    key: str | None,
    priority: int,
    ray: str | None,
    ray_address: str | None,
    target: str | None,
) -> Elsewhere | None:
    """The devices that the options name; None where candidates are measured on this machine.

    Args:
        tracker: address of a tracker, as host:port.
        key: of its devices.
        priority: among those who wait for the same devices.
        ray: a resource of a Ray cluster.
        ray_address: of that cluster.
        target: what the devices are said to be; None where nobody said.

    Raises:
        TunerError: there is a tracker and no key, a key and no tracker, an address of a cluster and no resource, or there are both.
        RunnerError: a package is not installed, an address is none, or nobody has such devices.
    """
    if ray_address is not None and ray is None:
        raise TunerError(
            "--ray-address says where the Ray cluster is, and --ray which of its devices: give both"
        )
    if ray is not None:
        if tracker is not None or key is not None:
            raise TunerError(
                "--ray takes the devices of a Ray cluster, and --tracker with --key those of a fleet: give one"
            )
        return RayElsewhere(ray, ray_address, target)
    if tracker is None and key is None:
        return None
    if tracker is None or key is None:
        raise TunerError("--tracker HOST:PORT says where the devices are, and --key which of them: give both")
    return FleetElsewhere(tracker, key, priority)


@contextmanager
def who_starts_a_tracker(address: Address) -> Iterator[None]:
    """Say how one is started where no tracker answers."""
    try:
        yield
    except runners.rpc.ConnectionLost as error:
        raise RunnerError(f"{error}; start one: loopsmith rpc tracker --listen {address}") from error


class FleetElsewhere:
    """The devices of a key that a tracker hands out.

    Args:
        tracker: its address, as host:port.
        key: of the devices.
        priority: among those who wait for the same devices.

    Raises:
        RunnerError: gRPC is not installed, the address is none, nobody answers there, or there are no such devices.
    """

    def __init__(self, tracker: str, key: str, priority: int) -> None:
        address = runners.rpc.Address.of(tracker)
        self._config = runners.RPCConfig(address.host, address.port, key, priority)
        with who_starts_a_tracker(address):
            self._config.count_num_servers(allow_missing=False)

    def runner(self) -> Runner:
        """Measures there."""
        return runners.RPCRunner(self._config)

    def builder(self) -> str:
        """Builds here, for there."""
        return "local"

    def target(self) -> str:
        """What the devices are.

        Raises:
            RunnerError: they are not all the same, so that one has to be named.
        """
        targets = sorted({device.target for device in self._config.devices()})
        if len(targets) != 1:
            raise RunnerError(
                f"the devices of the key {self._config.tracker_key!r} are of {len(targets)} kinds; name one by --target:"
                f" {', '.join(targets)}"
            )
        return targets[0]


class RayElsewhere:
    """The devices of a resource of a Ray cluster, whose processors build, too.

    Args:
        resource: name of it.
        address: of the cluster; by default that which Ray finds.
        target: what the devices are said to be, which says whether they are GPUs.

    Raises:
        RunnerError: Ray is not installed, there is no cluster, or no node of it has the resource.
    """

    def __init__(self, resource: str, address: str | None, target: str | None) -> None:
        device = "cuda" if target is not None and Target(target).is_gpu else "cpu"
        self._runner: Any = runners.RayRunner(resource, address=address, device=device)
        self._runner.require_devices()

    def runner(self) -> Runner:
        """Measures there."""
        found: Runner = self._runner
        return found

    def builder(self) -> Builder:
        """Builds on the cluster's processors."""
        return runners.RayBuilder()

    def target(self) -> str:
        """What a device of the resource is; others are like it.

        Raises:
            RunnerError: none answers.
        """
        found: str = self._runner.device_target()
        return found

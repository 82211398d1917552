"""Devices elsewhere, as options of commands name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import runners
from runners.error import RunnerError

if TYPE_CHECKING:
    from runners.rpc.runner import RPCRunner


class Elsewhere:
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
        self._config.count_num_servers(allow_missing=False)

    def runner(self) -> RPCRunner:
        """Measures there."""
        return runners.RPCRunner(self._config)

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

"""Which device a worker process measures on: one of those of its runner that nobody else uses."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ..lock import machine, one_device
from ..worker import phase
from .context import Context, context, identity
from .memory import allocator

_CURRENT: ContextVar[int] = ContextVar("device of a worker", default=0)


@dataclass(frozen=True, slots=True)
class Place:
    """The devices of a runner."""

    devices: tuple[int, ...] = (0,)
    memory_limit: int | None = None
    """Bytes that a process may take of a device's memory; None for all."""

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Use one of the devices alone, beside whatever the processors do but a measurement of their own.

        Raises:
            CudaUnavailable: a device is not there.
        """
        _lift_limit()
        names = [identity(index) for index in self.devices]
        with machine(alone=False), one_device(names) as chosen:
            index = self.devices[chosen]
            phase("starting the device", 120.0)
            allocator(index).limit = self.memory_limit
            token = _CURRENT.set(index)
            try:
                yield
            finally:
                _CURRENT.reset(token)


def _lift_limit() -> None:
    """The driver reserves more addresses than workers may map; what they take of the device's memory is limited instead."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def current_device() -> Context:
    """The device that this process measures on now."""
    return context(_CURRENT.get())

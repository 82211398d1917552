"""A device of a Ray node: an actor that checks and times one candidate after the other, in worker processes of its own.

All who measure on the device share the actor, so that nobody measures beside somebody else. It ends when nobody has asked for a while.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ir.target import Target
from ir.target.host import fingerprint

from ..builder import Artifact
from ..candidate import RunSettings
from ..cuda.runner import CudaRunner
from ..kernel_code import ProgramText
from ..local import LocalRunner
from ..pool import WorkerPool
from ..runner import RunnerInput, RunnerResult


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of device that a node may have."""

    runner: Callable[..., LocalRunner]
    """Measures on it."""
    gpus: int
    """Of the node's, which Ray sets aside for each device."""


KINDS = {"cpu": Kind(LocalRunner, 0), "cuda": Kind(CudaRunner, 1)}
"""Kinds of devices, by the targets that stand for them."""
IDLE_SECONDS = 60.0
"""After which an actor that nobody asks ends and gives its device back."""
_KEPT_CHECKS = 256


class MeasuringDevice:
    """What runs on the node; Ray makes an actor of it and calls one method at a time, but
    for :meth:`hardware`.

    Args:
        kind: what it is, of :data:`KINDS`; of GPUs, the process sees only its own.
        idle_secs: it ends when nobody has asked for so long.
    """

    def __init__(self, kind: str = "cpu", idle_secs: float = IDLE_SECONDS) -> None:
        self._kind = kind
        self._pool = WorkerPool(1)
        self._checks: OrderedDict[str, Callable[[], RunnerResult]] = OrderedDict()
        """What is left of the checks of candidates, by the ids of their measurements."""
        self._asked = time.monotonic()
        self._is_busy = False
        self._idle_secs = idle_secs
        threading.Thread(target=self._end_when_idle, daemon=True).start()

    def hardware(self) -> dict[str, Any]:
        """What records say of the node, as :func:`ir.target.host.fingerprint`."""
        self._asked = time.monotonic()
        return fingerprint()

    def target(self) -> str:
        """What the device is, as text of a target.

        Raises:
            IRError: there is none of its kind.
        """
        with self._busy():
            return str(Target(self._kind))

    def measure(
        self, name: str, item: RunnerInput, settings: RunSettings, again: bool
    ) -> tuple[RunnerResult, bool]:
        """The result of a candidate, and whether :meth:`confirm` has something to do for it.

        Args:
            name: an id of this measurement that no other has.
            item: whose artifact is bytes, and whose reference is a :class:`~runners.kernel_code.ProgramText`.
            settings: how to measure.
            again: it was checked before, and is only timed.
        """
        with self._busy():
            item = replace(item, artifact=_own(item.artifact))
            result = self._runner(settings).submit(item, again=again).result()
            confirm, result.confirm = result.confirm, None
            if confirm is not None:
                self._checks[name] = confirm
                while len(self._checks) > _KEPT_CHECKS:
                    self._checks.popitem(last=False)
            return result, confirm is not None

    def confirm(self, name: str) -> RunnerResult | None:
        """The rest of a candidate's check; None where it is not known here."""
        with self._busy():
            confirm = self._checks.pop(name, None)
            return None if confirm is None else confirm()

    def compare(
        self,
        artifacts: Sequence[Artifact],
        reference: ProgramText | None,
        confirmed: Collection[int],
        settings: RunSettings,
    ) -> list[RunnerResult] | None:
        """As :meth:`runners.Runner.final_choice`."""
        with self._busy():
            rivals = [_own(artifact) for artifact in artifacts]
            return self._runner(settings).final_choice(rivals, reference, confirmed)

    def _runner(self, settings: RunSettings) -> LocalRunner:
        return KINDS[self._kind].runner(
            settings.timeout_sec,
            settings.config,
            settings.cooldown_sec,
            cut_ratio=settings.cut_ratio,
            reference_timeout_sec=settings.reference_timeout_sec,
            measure_energy=settings.measure_energy,
            pool=self._pool,
        )

    @contextmanager
    def _busy(self) -> Iterator[None]:
        self._is_busy = True
        try:
            yield
        finally:
            self._asked, self._is_busy = time.monotonic(), False

    def _end_when_idle(self) -> None:
        while self._is_busy or time.monotonic() - self._asked < self._idle_secs:
            time.sleep(min(1.0, self._idle_secs / 4))
        self._pool.close()
        os._exit(0)  # the actor's own thread waits for calls, and Ray ends it in no other way from here


def _own(artifact: Artifact) -> Artifact:
    """An artifact that this process numbers: those of several tuners have the same numbers."""
    return Artifact(artifact.mod, artifact.target, context=artifact.context)

"""The calibration of this machine: from the database, from this process's memory, or measured now.

It is kept under the hardware's fingerprint and the version of what measures. One that other processes disturbed serves this process and
is not kept, so that a quieter day measures it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cost_models import Calibration, CostModelError
from database import Database, MachineCalibration, hardware_fingerprint
from database.machine_calibration import calibration_key
from ir.target import Target
from runners import Outcome, WorkerPool

from ..error import TunerError
from .measure import VERSION, measure_calibration

MODES = ("auto", "never", "again")
"""Read it or measure it; do without; measure it in any case."""

_MOST_SECONDS = 300.0
_measured: dict[str, Calibration] = {}
"""What this process has measured, by key."""


def check_mode(mode: str) -> str:
    """Refuse what is no mode.

    Raises:
        TunerError: it is another word.
    """
    if mode not in MODES:
        raise TunerError(f"calibrate is one of {', '.join(MODES)}, got {mode!r}")
    return mode


def machine_fingerprint() -> dict[str, Any]:
    """What a calibration is kept under: the hardware, and the target that describes it."""
    return {**hardware_fingerprint(), "target": str(Target("cpu"))}


def describes_host(target: Target) -> bool:
    """Whether a target is this machine, or some of its cores: the same processor, features and vectors.

    >>> describes_host(Target("cpu")), describes_host(Target("nvidia/nvidia-a100"))
    (True, False)
    """
    host = Target("cpu")
    return (
        target.kind_name == host.kind_name
        and target.mcpu in ("", host.mcpu)
        and not target.mattr
        and not target.attrs.get("mtriple")
        and target.vector_bits == host.vector_bits
        and target.num_cores <= host.num_cores
    )


def known_calibration(database: Database) -> Calibration | None:
    """What the database knows of this machine; None for nothing, and for what cannot be read."""
    found = database.get_calibration(machine_fingerprint(), VERSION)
    if found is None:
        return None
    try:
        return Calibration.from_json(found.figures)
    except CostModelError:  # somebody edited it
        return None


def calibrate(
    database: Database, pool: WorkerPool, *, again: bool = False, tell: Callable[[str], object]
) -> Calibration | None:
    """The calibration of this machine; None where measuring fails, of which the user is told.

    Args:
        database: where it is looked up and kept.
        pool: of worker processes; the measurement gets a new process of its own, and the machine to itself.
        again: measure, whatever is known.
        tell: takes a line for the user when something was measured.
    """
    fingerprint = machine_fingerprint()
    key = calibration_key(fingerprint, VERSION)
    if not again:
        known = known_calibration(database)
        if known is not None:
            return known
    if again or key not in _measured:
        outcome = pool.submit(
            measure_calibration, Target("cpu"), limit=_MOST_SECONDS, phase="loading", apart=True
        ).result()
        if outcome.kind != "returned":
            tell(f"this machine was not measured, so the estimate assumes figures: {_reason(outcome)}")
            return None
        _measured[key] = outcome.value
        tell(_summary(outcome.value))
    found = _measured[key]
    if not found.disturbed:
        database.commit_calibration(MachineCalibration(fingerprint, VERSION, found.as_json()))
    return found


def _reason(outcome: Outcome) -> str:
    return f"{outcome.error}: {outcome.message}".removeprefix(": ")


def _summary(found: Calibration) -> str:
    """One line of the figures that say most."""
    parts = []
    if found.hertz is not None:
        parts.append(f"{found.hertz / 1e9:.2f} GHz")
        if found.fma_per_cycle is not None:
            parts.append(f"{found.fma_per_cycle:.1f} multiply-adds per cycle")
        if found.l3_fill is not None:
            parts.append(f"memory {found.l3_fill * found.hertz / 1e9:.0f} GB/s for a core")
        if found.l3_fill_all is not None:
            parts.append(f"{found.l3_fill_all * found.cores * found.hertz / 1e9:.0f} GB/s for {found.cores}")
    kept = "; other processes disturbed it, so it is not kept" if found.disturbed else ""
    return f"measured this machine for the estimates: {', '.join(parts) or 'nothing usable'}{kept}"

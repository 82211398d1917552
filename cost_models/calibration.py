"""What was measured of one machine, as plain values: figures that no description of a processor tells.

The tuner measures them (``tuner/calibration``) and keeps them in the database; the analytical model uses them in place of its
assumptions. A figure that could not be measured, or came out beyond what any processor does, is None: the assumption holds there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from .error import CostModelError


def _figure(unit: str, meaning: str, low: float, high: float) -> Any:
    """A measured figure with what a person is shown of it, and the range beyond which no processor is believed."""
    return field(default=None, metadata={"unit": unit, "meaning": meaning, "low": low, "high": high})


@dataclass(frozen=True)
class Calibration:
    """Figures of one machine. Cycles are those of a chain of dependent integer operations; vectors are the target's widest.

    >>> measured = Calibration.checked({"hertz": 3.1e9, "fma_latency": 400.0}, cores=2)
    >>> measured.hertz, measured.fma_latency, measured.notes
    (3100000000.0, None, ('latency of a fused multiply-add: 400 cycles is beyond 1 to 20',))
    >>> Calibration.from_json(measured.as_json()) == measured
    True
    """

    cores: int
    """Cores that were busy where a figure says "all cores"."""
    hertz: float | None = _figure("Hz", "cycles per second", 2e8, 1e10)
    fma_per_cycle: float | None = _figure("vectors/cycle", "fused multiply-adds", 0.2, 8)
    fma_latency: float | None = _figure("cycles", "latency of a fused multiply-add", 1, 20)
    loads_per_cycle: float | None = _figure("vectors/cycle", "loads from the first cache", 0.2, 8)
    stores_per_cycle: float | None = _figure("vectors/cycle", "stores to the first cache", 0.1, 8)
    gathered_per_cycle: float | None = _figure(
        "elements/cycle", "elements gathered into vectors one by one", 0.02, 32
    )
    divide_cycles: float | None = _figure("cycles/vector", "division", 0.5, 200)
    elementary_cycles: float | None = _figure("cycles/vector", "exp", 1, 500)
    l1_fill: float | None = _figure("bytes/cycle", "reading from L2, one core", 1, 512)
    l1_fill_all: float | None = _figure("bytes/cycle", "reading from L2, each of all cores", 0.5, 512)
    l2_fill: float | None = _figure("bytes/cycle", "reading from L3, one core", 0.5, 256)
    l2_fill_all: float | None = _figure("bytes/cycle", "reading from L3, each of all cores", 0.1, 256)
    l3_fill: float | None = _figure("bytes/cycle", "reading from memory, one core", 0.05, 128)
    l3_fill_all: float | None = _figure("bytes/cycle", "reading from memory, each of all cores", 0.01, 128)
    l2_run_start: float | None = _figure("cycles", "start of a short stretch of bytes in L3", 0, 500)
    l3_run_start: float | None = _figure("cycles", "start of a short stretch of bytes in memory", 0, 2000)
    parallel_launch: float | None = _figure("cycles", "starting and joining a parallel region", 1, 1e7)
    job_overhead: float | None = _figure("cycles", "one more iteration of a parallel loop", 0, 1e5)
    notes: tuple[str, ...] = ()
    """What was refused or not measured, and why."""
    disturbed: bool = False
    """Other processes left no moment in which all cores were free, or figures could not be believed: measure again some day."""

    @staticmethod
    def figures() -> list[Field[Any]]:
        """The measured fields; their metadata have ``unit``, ``meaning``, and the limits ``low`` and ``high``."""
        return [item for item in fields(Calibration) if "unit" in item.metadata]

    @staticmethod
    def checked(
        measured: Mapping[str, float], *, cores: int, notes: tuple[str, ...] = (), disturbed: bool = False
    ) -> Calibration:
        """A calibration of the figures that can be true; the others are left out with a note each.

        Args:
            measured: figures by name.
            cores: how many were busy where a figure says "all cores".
            notes: what is known to be missing already.
            disturbed: whether the machine was known to be busy; refusing a figure says so too.

        Raises:
            CostModelError: a name is no figure's.
        """
        known = {item.name: item for item in Calibration.figures()}
        unknown = measured.keys() - known.keys()
        if unknown:
            raise CostModelError(f"a calibration has no figures {sorted(unknown)}; it has {', '.join(known)}")
        accepted: dict[str, float] = {}
        refused = []
        for name, value in measured.items():
            low, high, unit, meaning = (
                known[name].metadata[key] for key in ("low", "high", "unit", "meaning")
            )
            if math.isfinite(value) and low <= value <= high:
                accepted[name] = float(value)
            else:
                refused.append(f"{meaning}: {value:.4g} {unit} is beyond {low:g} to {high:g}")
        return Calibration(cores, **accepted, notes=(*notes, *refused), disturbed=disturbed or bool(refused))

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; what was not measured is left out."""
        found = {item.name: getattr(self, item.name) for item in self.figures()}
        measured = {name: value for name, value in found.items() if value is not None}
        return {
            "cores": self.cores,
            "figures": measured,
            "notes": list(self.notes),
            "disturbed": self.disturbed,
        }

    @staticmethod
    def from_json(json_obj: Any) -> Calibration:
        """The calibration that :meth:`as_json` described.

        Raises:
            CostModelError: it is something else.
        """
        try:
            figures = {str(name): float(value) for name, value in json_obj["figures"].items()}
            cores, disturbed = int(json_obj["cores"]), bool(json_obj["disturbed"])
            notes = tuple(str(note) for note in json_obj["notes"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CostModelError(f"not a calibration: {str(json_obj)[:200]!r} ({error!r})") from error
        return Calibration.checked(figures, cores=cores, notes=notes, disturbed=disturbed)

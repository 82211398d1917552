"""Energy by RAPL, the counters of processors of Intel and AMD, which Linux shows under ``/sys/class/powercap``.

What is counted is all that a processor package takes, idle power and other programs included: candidates are compared on a machine
that does nothing else. (Khan et al., "RAPL in Action: Experiences in Using RAPL for Power Measurements", ACM TOMPECS 2018.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .error import RunnerError

_POWERCAP = Path("/sys/class/powercap")
_LEAST_SECONDS = 0.3
"""Calls are repeated for so long: a counter changes once in a millisecond, which is then a third of a percent."""


@dataclass(frozen=True)
class _Package:
    """One processor package."""

    counter: Path
    """Microjoules since some time."""
    size: int
    """Where the counter begins again, in microjoules."""

    def read(self) -> int:
        return int(self.counter.read_text())


class EnergyMeter:
    """Joules that all processor packages of this machine take.

    Args:
        folder: where the kernel shows the counters.

    Raises:
        RunnerError: there are none, or they may not be read; the message says which and what to do.
    """

    def __init__(self, folder: Path = _POWERCAP) -> None:
        if not folder.is_dir():
            raise RunnerError(
                f"energy cannot be measured: there is no {folder}; this kernel shows no RAPL counters, as in most containers and virtual"
                " machines: run on the machine itself, with the module intel_rapl_common loaded"
            )
        zones = [zone for zone in sorted(folder.glob("*-rapl:*")) if _is_package(zone)]
        if not zones:
            raise RunnerError(
                f"energy cannot be measured: {folder} has no counter of a processor package (*-rapl:*/name = package-N); load the module"
                " intel_rapl_msr, if this processor has RAPL"
            )
        self._packages = [_package(zone) for zone in zones]

    def read(self) -> list[int]:
        """The counters, for :meth:`joules_since`."""
        return [package.read() for package in self._packages]

    def joules_since(self, before: list[int]) -> float:
        """What was taken since the counters were read; less than one round of a counter ago."""
        after = self.read()
        spent = [(b - a) % package.size for a, b, package in zip(before, after, self._packages, strict=True)]
        return sum(spent) * 1e-6

    def of_one_call(self, call: Callable[[], object], one_call_secs: float) -> float:
        """Joules of one call, the mean of many.

        Args:
            call: has been called before.
            one_call_secs: what a call takes.
        """
        count = math.ceil(_LEAST_SECONDS / max(one_call_secs, 1e-7))
        before = self.read()
        for _ in range(count):
            call()
        return self.joules_since(before) / count


def energy_seconds(one_call_secs: float) -> float:
    """About how long :meth:`EnergyMeter.of_one_call` takes."""
    return max(_LEAST_SECONDS, one_call_secs)


def _is_package(zone: Path) -> bool:
    """Whether a zone is a package: parts of packages and the whole system have zones as well, and would be counted twice."""
    try:
        return (zone / "name").read_text().startswith("package")
    except OSError:
        return False


def _package(zone: Path) -> _Package:
    counter, size = zone / "energy_uj", zone / "max_energy_range_uj"
    try:
        package = _Package(counter, int(size.read_text()) + 1)
        package.read()
    except PermissionError as error:
        raise RunnerError(
            f"energy cannot be measured: {error.filename} may be read by root only; run as root, or let an administrator say"
            f" chmod a+r {error.filename}"
        ) from error
    except (OSError, ValueError) as error:
        raise RunnerError(f"energy cannot be measured: {zone} gives no number: {error}") from error
    return package

"""What was measured of a machine, as a database keeps it: plain figures under the machine's fingerprint.

The database knows nothing of the figures; whoever measures says what they mean, and gives its measuring a version so that
figures of another version are not taken for its own.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from typing import Any

from .error import DatabaseError


@dataclass(frozen=True)
class MachineCalibration:
    """The figures of one machine.

    >>> entry = MachineCalibration({"cpu": "znver4"}, version=1, figures={"hertz": 3e9}, created_at=0.0)
    >>> MachineCalibration.from_json(entry.as_json()) == entry
    True
    """

    fingerprint: dict[str, Any]
    """Of the machine, as plain JSON values."""
    version: int
    """Of what measured."""
    figures: dict[str, Any]
    """What was measured, as plain JSON values."""
    created_at: float = field(default_factory=time.time)
    """Seconds since the epoch."""

    @property
    def key(self) -> str:
        """Under which a database finds it."""
        return calibration_key(self.fingerprint, self.version)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "fingerprint": self.fingerprint,
            "version": self.version,
            "figures": self.figures,
            "created_at": self.created_at,
        }

    @staticmethod
    def from_json(json_obj: dict[str, Any]) -> MachineCalibration:
        """The calibration that :meth:`as_json` described.

        Raises:
            DatabaseError: it is something else.
        """
        try:
            return MachineCalibration(
                dict(json_obj["fingerprint"]),
                int(json_obj["version"]),
                dict(json_obj["figures"]),
                float(json_obj["created_at"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DatabaseError(f"not a calibration: {str(json_obj)[:200]!r} ({error!r})") from error


def calibration_key(fingerprint: dict[str, Any], version: int) -> str:
    """A text of 64 characters that is equal for equal fingerprints and versions."""
    text = json.dumps([version, fingerprint], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()

"""How long a run may take: trials first, and what is kept of the time goes to the final choice."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TimeBudget:
    """Seconds from now on."""

    seconds: float | None
    """None: as long as it takes."""
    kept: float = 0.0
    """The share that trials leave to what comes behind them."""
    begin: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self._left(1.0) <= 0

    @property
    def trials_are_over(self) -> bool:
        """Whether no time is left for trials."""
        return self._left(1.0 - self.kept) <= 0

    def fitting(self, trials: int, seconds: float) -> int:
        """How many more trials there is time for, one at least, if so many took so many seconds; a second each before the first."""
        left = self._left(1.0 - self.kept)
        pace = seconds / trials if trials else 1.0
        return sys.maxsize if math.isinf(left) else max(1, int(left / max(pace, 1e-6)))

    def _left(self, share: float) -> float:
        if self.seconds is None:
            return math.inf
        return self.begin + share * self.seconds - time.monotonic()

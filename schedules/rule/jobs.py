"""How many jobs the loops that cores share have at most: what rules for CPUs agree on."""

from __future__ import annotations

MOST_JOBS_PER_CORE = 64
"""Of more, what each job begins with costs more than an evener share of the work brings."""

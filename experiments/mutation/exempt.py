"""Survivors that no test should kill, by id, and why. ``run.py --show`` lists them.

An equivalent mutant changes nothing that can be observed: it is left out of the score. A hint changes how fast something is, or how
it is worded, and nothing else: it counts as survived.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}

HINTS: dict[str, str] = {}

"""What a search is told of a design space: the structures (sketches) that are known so far, more of them when it asks, and of which one a
stored trace is a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..population.sketch import Sketch, kinds_of_steps
from ..trace import Trace


class Structures:
    """The structures of a design space; of this class itself, those given and no others.

    Attributes:
        known: the structures made so far. Their numbers, the places in this list, stay.
        is_complete: whether all structures are known.
    """

    def __init__(self, known: Sequence[Sketch] = ()) -> None:
        self.known = list(known)
        self.is_complete = True

    def grow(self, count: int, generator: np.random.Generator, near: Sketch | None = None) -> None:
        """Make up to ``count`` structures known, by random choices, or with one choice of a known structure changed."""

    def explaining(self, trace: Trace) -> tuple[int, np.ndarray] | None:
        """The number of the structure that a stored trace is a candidate of, and its decisions int64 [n_columns].

        Structures that were not known are made as far as the trace leads to them.
        """
        kinds = kinds_of_steps(trace)
        for number, sketch in enumerate(self.known):
            row = sketch.row_of(trace) if sketch.kinds == kinds else None
            if row is not None:
                return number, row
        return None


class UnionOfStructures(Structures):
    """The structures of several spaces.

    Args:
        parts: the spaces.
    """

    def __init__(self, parts: Sequence[Structures]) -> None:
        super().__init__([sketch for part in parts for sketch in part.known])
        self.parts = parts
        self._update()

    def part_of(self, sketch: Sketch) -> int | None:
        """The number of the space that a structure is of; None where it is of none."""
        numbers = range(len(self.parts))
        return next((n for n in numbers if any(own is sketch for own in self.parts[n].known)), None)

    def grow(self, count: int, generator: np.random.Generator, near: Sketch | None = None) -> None:
        parts = [part for part in self.parts if not part.is_complete]
        own = [part for part in parts if any(sketch is near for sketch in part.known)]
        if parts:
            part = own[0] if own else parts[int(generator.integers(len(parts)))]
            part.grow(count, generator, near if own else None)
        self._update()

    def explaining(self, trace: Trace) -> tuple[int, np.ndarray] | None:
        for part in self.parts:
            found = part.explaining(trace)
            if found is not None:
                self._update()
                sketch = part.known[found[0]]
                return next(n for n, own in enumerate(self.known) if own is sketch), found[1]
        return None

    def _update(self) -> None:
        ids = set(map(id, self.known))
        self.known += [sketch for part in self.parts for sketch in part.known if id(sketch) not in ids]
        self.is_complete = all(part.is_complete for part in self.parts)

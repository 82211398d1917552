"""MutateTileSize: move a prime factor between two factors of a tile."""

from __future__ import annotations

import numpy as np

from ..population.decision import TileDecision
from ..population.sketch import Sketch
from ..trace import Trace
from .base import Mutator, sampled


class MutateTileSize(Mutator):
    """Replace one perfect tile by a near one."""

    def columns(self, sketch: Sketch) -> list[int]:
        return sketch.columns_of(
            [inst for inst in sketch.trace.insts if inst.kind.name == "SamplePerfectTile"]
        )

    def apply(self, trace: Trace) -> Trace | None:
        tiles = sampled(trace, "SamplePerfectTile", lambda inst: inst.attrs[0] > 1)
        tiles = [inst for inst in tiles if int(np.prod(trace.get_decision(inst))) > 1]
        if not tiles:
            return None
        inst = self._pick(tiles)
        decision = [int(item) for item in trace.get_decision(inst)]
        n, limit = inst.attrs
        table = TileDecision.create("tile", int(np.prod(decision)), int(n), int(limit))
        number = table.number_of(decision)
        if number is None or table.size < 2:
            return None  # a decision from outside the table, or the only one
        near = number
        while near == number:
            near = int(table.neighbours(np.array([number]), self._generator)[0])
        return self._changed(trace, inst, table.trace_decision(near))

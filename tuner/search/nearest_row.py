"""The nearest candidate that may still be measured: what a search takes in place of an invalid or a known proposal."""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from schedules.population import Sketch

_ALL = 4096
"""Structures with at most this many candidates are looked through completely."""
_CHILDREN = 64
"""Neighbours drawn at a time."""
_ATTEMPTS = 16


def nearest_new_row(
    sketch: Sketch, row: np.ndarray, known: Container[bytes], generator: np.random.Generator
) -> np.ndarray | None:
    """A valid row that is not known, near to another one.

    In a small structure it is the nearest of all; in a large one the nearest of rows drawn by mutation, or else any row.

    Args:
        sketch: the structure.
        row: int64 [n_columns]; it may break constraints.
        known: rows not to return, as bytes.
        generator: of the draws.

    Returns:
        int64 [n_columns]; None where no other row is left or none was found.
    """
    everything = sketch.all_rows(_ALL)
    if everything is not None:
        return _nearest(sketch, row, _new(everything, known))
    begin = np.repeat(row[None], _CHILDREN, axis=0)
    for attempt in range(_ATTEMPTS):
        # Each time a little further: children of children.
        begin = sketch.mutate(begin, generator, rate=0.1)
        found = _new(begin[sketch.valid(begin)], known)
        if len(found):
            return _nearest(sketch, row, found)
        if attempt % 4 == 3:
            begin = np.repeat(row[None], _CHILDREN, axis=0)
    return _nearest(sketch, row, _new(sketch.sample(_CHILDREN, generator), known))


def _new(rows: np.ndarray, known: Container[bytes]) -> np.ndarray:
    return rows[np.array([row.tobytes() not in known for row in rows], dtype=bool)]


def _nearest(sketch: Sketch, row: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    return rows[distances(sketch, row, rows).argmin()] if len(rows) else None


def distances(sketch: Sketch, row: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How far rows lie from one in decision space (:meth:`Sketch.coordinates`).

    Args:
        sketch: the structure.
        row: int64 [n_columns].
        rows: int64 [N, n_columns].

    Returns:
        float64 [N].
    """
    apart: np.ndarray = sketch.coordinates(rows) - sketch.coordinates(row[None])
    return np.sqrt((apart**2).sum(axis=1))

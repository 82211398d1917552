"""Rows of the operator suite: the best candidates of each tree's search, each compiled by both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..operators import data
from ..operators.rows import key
from .trees import Trees


def compare(name: str, shape: Sequence[int], trees: Trees, best: int) -> Iterator[float | None]:
    """The ratios of a row's candidates, None for one that a tree did not compile."""
    arrays = trees.scratch / f"{key(name, shape).replace(' ', '-')}.npz"
    data.write(arrays, name, shape)
    for label, tree in trees.both.items():
        for number, trace in enumerate(_best_traces(label, tree, name, shape, trees, best)):
            row = {"name": name, "shape": list(shape), "threads": trees.threads}
            call = {**row, "arrays": str(arrays), "trace": trace}
            yield trees.compared(
                f"{key(name, shape)} {label} {number + 1}", "side:call", dict.fromkeys(trees.both, call)
            )


def _best_traces(
    label: str, tree: Path, name: str, shape: Sequence[int], trees: Trees, best: int
) -> list[Any]:
    """The traces of the best candidates that a tree's own search finds."""
    database = trees.database(tree, "rows")
    row = {"name": name, "shape": list(shape), "threads": trees.threads, "database": database}
    trees.tune(key(name, shape), label, tree, "experiments.operators.loopsmith:tune", row)
    found: list[Any] = trees.run("traces", tree, "side:best_traces", {**row, "best": best})
    return found

"""Whole models: built by each tree with its default schedules, and with what its own search finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..models.rows import PACKAGE
from .trees import HERE, Trees


def compare(model: Path, trees: Trees) -> Iterator[float | None]:
    """The ratios of a model's default and tuned builds, None for one that a tree did not make."""
    arrays = str(trees.scratch / f"{model.stem}.npz")
    trees.run("reference", HERE, f"{PACKAGE}.peers:reference", {"model": str(model), "arrays": arrays})
    call: dict[str, Any] = {"model": str(model), "arrays": arrays, "threads": trees.threads}
    title = model.stem.removesuffix(".dynamo")

    def compared(build: str, databases: dict[str, str | None]) -> float | None:
        options = {name: {**call, "database": path} for name, path in databases.items()}
        return trees.compared(f"{title} {build}", f"{PACKAGE}.peers:loopsmith", options)

    yield compared("default", dict.fromkeys(trees.both))
    tuned: dict[str, str | None] = {}
    for name, tree in trees.both.items():
        tuned[name] = trees.database(tree, title)
        options = {"model": str(model), "threads": trees.threads, "database": tuned[name]}
        trees.tune(title, name, tree, f"{PACKAGE}.peers:tune", options)
    yield compared("tuned", tuned)

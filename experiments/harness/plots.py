"""Plots of the results; needs matplotlib (the extra ``report``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .tables import Rows, geometric_mean, peers_of, ratios_to

PANEL_ROWS = 16
"""Rows that lie side by side; more go into another panel below."""


def _figure(width: float, panels: int = 1) -> tuple[Any, list[Any]]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    size = max(6.0, width), 4.0 * panels
    figure, axes = pyplot.subplots(panels, figsize=size, layout="constrained", squeeze=False)
    return figure, list(axes[:, 0])


def ratios(rows: Rows, path: Path) -> None:
    """Bars of how many times as fast as each peer, a group per row."""
    peers, keys = peers_of(rows), list(rows)
    parts = [keys[first : first + PANEL_ROWS] for first in range(0, len(keys), PANEL_ROWS)]
    figure, panels = _figure(0.35 * min(PANEL_ROWS, len(rows)) * max(1, len(peers)), len(parts))
    for axes, part in zip(panels, parts, strict=True):
        _bars(axes, {key: rows[key] for key in part}, peers)
    if peers:
        means = [geometric_mean(ratios_to(rows, peer)) for peer in peers]
        labels = [
            peer if mean is None else f"{peer} (geometric mean {mean:.2f})"
            for peer, mean in zip(peers, means, strict=True)
        ]
        panels[0].legend(panels[0].containers, labels, fontsize=7)
    figure.savefig(path, dpi=150)


def _bars(axes: Any, rows: Rows, peers: Sequence[str]) -> None:
    width = 0.8 / max(1, len(peers))
    for index, peer in enumerate(peers):
        heights = [row["contestants"].get(peer, {}).get("ratio") or 0.0 for row in rows.values()]
        places = [place + (index - (len(peers) - 1) / 2) * width for place in range(len(rows))]
        axes.bar(places, heights, width)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(rows)), list(rows), rotation=40, ha="right", fontsize=7)
    axes.set_ylabel("times as fast as the peer")
    axes.set_yscale("log")


def growth(rows: Rows, path: Path) -> None:
    """The best time so far against the trials, a panel for all rows: relative to each row's best."""
    figure, (axes,) = _figure(7.0)
    for key, row in rows.items():
        if not key.startswith("growth "):
            continue
        curves = {tuner: cost.get("best_ms_after") or [] for tuner, cost in row["tuning"].items()}
        best = min((time for curve in curves.values() for time in curve if time is not None), default=None)
        for tuner, curve in curves.items():
            points = [(n, time / best) for n, time in enumerate(curve, 1) if time is not None and best]
            style = "-" if tuner == "loopsmith" else "--"
            if points:
                axes.step(*zip(*points, strict=True), style, where="post", label=f"{key[7:]} {tuner}")
    axes.set_xlabel("trials")
    axes.set_ylabel("best time so far, relative to the best of all")
    axes.set_yscale("log")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=150)


PLOTS: dict[str, Callable[[Rows, Path], None]] = {
    "operators": ratios,
    "second": ratios,
    "models": ratios,
    "search": growth,
}

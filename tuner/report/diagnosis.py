"""Sections on how the search went: what failed, how certain times are, what the time of the runs went to, what the search expected."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from xml.etree.ElementTree import Element

import numpy as np

from .chart import Chart, linear, logarithmic, quantity, share_bars, shortened
from .markup import details, node, table
from .numbers import Report, Run
from .section import MOST_NAMED, SERIES, figure, nothing, percent, section

_BINS = 24


def failures(report: Report) -> Element:
    """Failed trials by kind, and the last message of each."""
    failing = [kernel for kernel in report.kernels if kernel.failures]
    if not failing:
        return section("failures", "Failures by kind", nothing("No trial failed."))
    kinds = sorted({kind for kernel in failing for kind in kernel.failures})
    ranked = sorted(failing, key=lambda kernel: -sum(kernel.failures.values()))
    classes = [SERIES[number % len(SERIES)] for number in range(len(kinds))]
    bars = [
        (kernel.name, [(kind, float(kernel.failures[kind]), str(kernel.failures[kind])) for kind in kinds])
        for kernel in ranked[:MOST_NAMED]
    ]
    legend = [node("li", node("span", class_=f"swatch {style}"), kind) for kind, style in zip(kinds, classes)]
    rows = [
        (kernel.name, str(len(kernel.trials)), *(str(kernel.failures[kind] or "-") for kind in kinds))
        for kernel in ranked
    ]
    messages = [
        (kernel.name, kind, shortened(" ".join(text.split()), 600))
        for kernel in ranked
        for kind, text in sorted(kernel.failure_messages.items())
    ]
    return section(
        "failures",
        "Failures by kind",
        figure(
            share_bars("Failed trials by kind", bars, classes),
            "Failed trials",
            node("ul", *legend, class_="legend"),
        ),
        details(
            "Table",
            "failures-table",
            table("Failed trials by kind", ("kernel", "trials", *kinds), rows, range(1, 2 + len(kinds))),
        ),
        details(
            "Last messages",
            "failures-messages",
            table("Last message of each kind", ("kernel", "kind", "message"), messages),
        ),
    )


def spread(report: Report) -> Element:
    """How far repeats lie apart: how certain the times are."""
    noisy = {
        number: [trial.noise for trial in kernel.trials if trial.noise is not None]
        for number, kernel in enumerate(report.kernels)
    }
    everything = [value for values in noisy.values() for value in values]
    title = "Spread of times"
    if not everything:
        return section(
            "spread", title, nothing("No record has repeats, by which the noise of its time would be known.")
        )
    cap = sorted(everything)[min(len(everything) - 1, int(0.98 * len(everything)))]
    chart = Chart(
        title,
        f"Half of the {len(everything)} times are certain to {percent(statistics.median(everything))}.",
        linear([100 * cap], *Chart.x_range),
        linear([max(_bins(everything, cap))], *Chart.y_range),
        x_label="noise in percent of the time; the last bar holds all beyond",
        y_label="candidates",
    )
    for place, amount in enumerate(_bins(everything, cap)):
        low, high = 100 * cap * place / _BINS, 100 * cap * (place + 1) / _BINS
        if amount:
            chart.bar(low, high, float(amount), f"{low:.2g} to {high:.2g} %: {amount} candidates", "series-1")
    rows = []
    for number, values in noisy.items():
        if values:
            ordered = sorted(values)
            rows.append(
                (
                    report.kernels[number].name,
                    str(len(values)),
                    percent(statistics.median(ordered)),
                    percent(ordered[int(0.9 * (len(ordered) - 1))]),
                    percent(ordered[-1]),
                )
            )
    return section(
        "spread",
        title,
        node(
            "p",
            "Half the width of the interval in which the median of the repeats lies. Candidates that are nearer to each other than"
            " that were not told apart.",
        ),
        figure(chart.figure(), "All kernels"),
        details(
            "Table",
            "spread-table",
            table(title, ("kernel", "times", "median", "90 %", "largest"), rows, range(1, 5)),
        ),
    )


def _bins(values: Sequence[float], cap: float) -> list[int]:
    found = [0] * _BINS
    for value in values:
        found[min(_BINS - 1, int(value / cap * _BINS)) if cap else 0] += 1
    return found


def phases(report: Report) -> Element:
    """What the seconds of each run went to."""
    told = [run for run in report.runs if run.phases]
    title = "Time per phase"
    if not told:
        return section(
            "phases",
            title,
            nothing("No run has ended that says what its time went to; those of earlier versions do not."),
        )
    names = list(dict.fromkeys(name for run in told for name in run.phases))
    classes = [SERIES[number % len(SERIES)] for number in range(len(names))]
    bars = [
        (
            _began(run),
            [(name, run.phases.get(name, 0.0), quantity(run.phases.get(name, 0.0), "s")) for name in names],
        )
        for run in told[-MOST_NAMED:]
    ]
    legend = [node("li", node("span", class_=f"swatch {style}"), name) for name, style in zip(names, classes)]
    rows = [
        (
            _began(run),
            "-" if run.seed is None else str(run.seed),
            "-" if run.seconds is None else f"{run.seconds:.1f}",
            *(f"{run.phases[name]:.1f}" if name in run.phases else "-" for name in names),
        )
        for run in report.runs
    ]
    headers = ("began", "seed", "seconds", *(f"{name} s" for name in names))
    return section(
        "phases",
        title,
        figure(share_bars(title, bars, classes), "Runs of the tuner", node("ul", *legend, class_="legend")),
        details("Table", "phases-table", table(title, headers, rows, range(1, len(headers)))),
    )


def _began(run: Run) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(run.started_at))


def predictions(report: Report) -> Element:
    """What the search expected of candidates beside what was measured."""
    title = "Predicted against measured"
    told = {
        number: [
            (trial.expected_secs, trial.secs) for trial in kernel.trials if trial.expected_secs and trial.secs
        ]
        for number, kernel in enumerate(report.kernels)
    }
    pairs = [pair for found in told.values() for pair in found]
    if not pairs:
        return section(
            "predictions",
            title,
            nothing(
                "No record tells what the search expected: it has expectations from the second batch of a kernel on, and records of earlier"
                " versions and of other strategies tell none."
            ),
        )
    times = [secs for pair in pairs for secs in pair]
    x, y = logarithmic(times, *Chart.x_range), logarithmic(times, *Chart.y_range)
    chart = Chart(
        title,
        f"{len(pairs)} candidates; on the line both are equal.",
        x,
        y,
        x_label="expected when it was proposed",
        y_label="measured",
        x_unit="s",
        y_unit="s",
    )
    chart.dots(pairs, "ran")
    chart.line([(x.low, x.low), (x.high, x.high)], "best")
    rows = []
    for number, found in told.items():
        if found:
            ratios = [abs(expected / secs - 1) for expected, secs in found]
            rank = _rank_correlation(found)
            rows.append(
                (
                    report.kernels[number].name,
                    str(len(found)),
                    percent(statistics.median(ratios)),
                    "-" if rank is None else f"{rank:.2f}",
                )
            )
    return section(
        "predictions",
        title,
        figure(chart.figure(), "All kernels"),
        details(
            "Table",
            "predictions-table",
            table(title, ("kernel", "candidates", "median error", "rank correlation"), rows, range(1, 4)),
        ),
    )


def _rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's; None of fewer than three candidates, and where all are expected, or measured, to be alike.

    >>> round(_rank_correlation([(1.0, 10.0), (2.0, 20.0), (3.0, 40.0)]), 6)
    1.0
    """
    columns = np.array(pairs).T
    if len(pairs) < 3 or any(len(set(column)) == 1 for column in columns):
        return None
    ranks = [np.searchsorted(np.sort(column), column) for column in columns]
    return float(np.corrcoef(ranks)[0, 1])

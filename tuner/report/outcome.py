"""Sections on what was found: all kernels in numbers, where the model's time goes, best times over trials, and the best programs."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ..names import target_text
from .chart import Chart, counting, logarithmic, quantity, share_bars
from .markup import Child, details, node, table
from .numbers import Kernel, Program, Report
from .section import MOST_NAMED, SERIES, figure, ms, nothing, percent, section

_MOST_OPEN = 24
"""Curves that a page shows at once; those of further kernels are folded away."""


def overview(report: Report) -> Element:
    """The numbers that say most, and all kernels in a table."""
    failed = sum(sum(kernel.failures.values()) for kernel in report.kernels)
    facts = {
        "kernels": str(len(report.kernels)),
        "trials": str(report.n_trials),
        "failed": f"{failed} ({failed / report.n_trials:.1%})" if report.n_trials else "0",
        "runs": str(len(report.runs)),
    }
    if report.model_secs:
        facts["best time of all kernels"] = quantity(report.model_secs, "s")
    if report.status:
        facts["search"] = report.status
    listed = [node("div", node("dt", name), node("dd", value)) for name, value in facts.items()]
    children: list[Child] = [node("dl", *listed, class_="facts")]
    children += [node("p", note, class_="note") for note in report.notes]
    if not report.kernels:
        children.append(nothing("There are no records yet: `loopsmith tune` makes some."))
    else:
        children.append(_kernel_table(report))
    return section("overview", "Overview", *children)


def _kernel_table(report: Report) -> Element:
    headers = (
        "kernel",
        "weight",
        "trials",
        "failed",
        "first ms",
        "best ms",
        "first / best",
        "GFLOP/s",
        "of roof",
    )
    rows = []
    for kernel in report.kernels:
        first, best = kernel.first_secs, kernel.best_secs
        rows.append(
            (
                kernel.name,
                "-" if kernel.weight is None else f"{kernel.weight:g}",
                str(len(kernel.trials)),
                str(sum(kernel.failures.values())),
                ms(first),
                ms(best),
                f"{first / best:.2f}" if first and best else "-",
                "-" if kernel.flops_per_s is None else f"{kernel.flops_per_s / 1e9:.1f}",
                percent(_of_roof(report, kernel)),
            )
        )
    return table("All kernels", headers, rows, numeric=range(1, len(headers)))


def _of_roof(report: Report, kernel: Kernel) -> float | None:
    roof = report.rooflines.get(target_text(kernel.target))
    if roof is None or not kernel.best_secs:
        return None
    return roof.bound_secs(kernel.flops, kernel.n_bytes) / kernel.best_secs


def shares(report: Report) -> Element:
    """Where the model's time goes."""
    timed = [kernel for kernel in report.kernels if kernel.model_secs]
    title = "Share of the model's time"
    if not timed:
        return section(
            "shares",
            title,
            nothing(
                "No run of this version says how often the model calls its kernels, or none of them has a time yet."
            ),
        )
    bars = [
        (
            kernel.name,
            [
                (
                    "time",
                    kernel.model_secs or 0.0,
                    f"{percent(report.share(kernel))}, {quantity(kernel.model_secs or 0.0, 's')}",
                )
            ],
        )
        for kernel in timed[:MOST_NAMED]
    ]
    rows = [
        (
            kernel.name,
            percent(report.share(kernel)),
            f"{kernel.weight:g}",
            ms(kernel.best_secs),
            ms(kernel.model_secs),
        )
        for kernel in timed
    ]
    return section(
        "shares",
        title,
        node("p", "Weight times best time of each kernel, of the model that was tuned last."),
        figure(
            share_bars(title, bars, SERIES),
            f"The {len(bars)} kernels that take most" if len(timed) > len(bars) else "Kernels",
        ),
        details(
            "Table",
            "shares-table",
            table(title, ("kernel", "share", "weight", "best ms", "ms of a run"), rows, range(1, 5)),
        ),
    )


def curves(report: Report) -> Element:
    """Best time over trials of each kernel."""
    if not report.kernels:
        return section("curves", "Best time over trials", nothing("Nothing was measured."))
    drawn = [_curve(number, kernel) for number, kernel in enumerate(report.kernels)]
    rest = drawn[_MOST_OPEN:]
    return section(
        "curves",
        "Best time over trials",
        node(
            "p",
            "The line is the best time so far, dots are candidates that ran, strokes on the axis are candidates that failed.",
        ),
        node("div", *drawn[:_MOST_OPEN], class_="charts"),
        details(f"{len(rest)} more kernels", "curves-more", node("div", *rest, class_="charts"))
        if rest
        else None,
    )


def _curve(number: int, kernel: Kernel) -> Element:
    ran = [(float(trial.number), trial.secs) for trial in kernel.trials if trial.secs is not None]
    failed = [float(trial.number) for trial in kernel.trials if trial.secs is None]
    improved = kernel.improvements()
    count = len(kernel.trials)
    again = kernel.best.secs if kernel.best is not None and kernel.best.remeasured else None
    if ran:
        described = (
            f"From {quantity(improved[0][1], 's')} to {quantity(improved[-1][1], 's')} in {count} trials"
        )
        described += f", of which {len(failed)} failed." if failed else "."
    else:
        described = f"All {count} trials failed."
    if again is not None:
        described += f" The best, measured again in turns: {quantity(again, 's')} (the ring)."
    chart = Chart(
        f"Best time over trials of {kernel.name}",
        described,
        counting(count, *Chart.x_range),
        logarithmic([secs for _, secs in ran] + ([] if again is None else [again]), *Chart.y_range),
        x_label="trials",
        y_label="time of a call",
        y_unit="s",
    )
    chart.dots(ran, "ran")
    chart.ticks_below(failed, "failed")
    chart.steps([(float(at), secs) for at, secs in improved], float(count), "best")
    if again is not None:
        chart.named_dot((float(count), again), f"measured again: {quantity(again, 's')}", "again")
    rows = [(str(at), ms(secs)) for at, secs in improved]
    return figure(
        chart.figure(),
        kernel.name,
        node("p", described, class_="note"),
        details(
            "Table",
            f"curve-{number}",
            table(f"Improvements of {kernel.name}", ("trial", "best ms"), rows, (0, 1)),
        )
        if rows
        else None,
    )


def programs(report: Report) -> Element:
    """The best programs beside the default ones."""
    title = "Best programs beside the default"
    if not report.programs:
        return section(
            "programs",
            title,
            nothing(
                "`loopsmith report` shows programs of the kernels that take most time; none has a program that ran, or none was asked for."
            ),
        )
    return section("programs", title, *[_pair(number, item) for number, item in enumerate(report.programs)])


def _pair(number: int, program: Program) -> Element:
    sides = [
        node(
            "div",
            node("h3", f"{side} of {program.kernel}"),
            node(
                "pre",
                node("code", text),
                tabindex="0",
                role="region",
                aria_label=f"{side} of {program.kernel}",
            ),
        )
        for side, text in (("Best", program.best), ("Default", program.default))
    ]
    return details(program.kernel, f"program-{number}", node("div", *sides, class_="sides"))

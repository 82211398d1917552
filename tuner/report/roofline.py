"""The section on what the machine could reach: each kernel's best candidate below the roofline."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ..names import target_text
from .chart import Chart, logarithmic, quantity
from .markup import details, node, table
from .numbers import Report
from .section import figure, nothing, percent, section


def roofline(report: Report) -> Element:
    """Each kernel's best below what its machine could reach."""
    title = "Roofline"
    if not report.rooflines:
        return section(
            "roofline",
            title,
            nothing(
                "The database knows no peak of the machine: searches of at least 20 seconds measure it, and so does"
                " `loopsmith calibrate --database`."
            ),
        )
    found = [_roofline_of(report, text) for text in report.rooflines]
    return section(
        "roofline",
        title,
        node(
            "p",
            "FLOPs per byte, where each byte of the arguments is moved once, and the speed of the best candidate. Kernels whose"
            " arguments stay in a cache may be above the line of memory; other dtypes than float32 have other peaks.",
        ),
        *found,
    )


def _roofline_of(report: Report, text: str) -> Element:
    roof = report.rooflines[text]
    placed = [
        (kernel, kernel.intensity, kernel.flops_per_s)
        for kernel in report.kernels
        if target_text(kernel.target) == text and kernel.intensity and kernel.flops_per_s
    ]
    knee = roof.flops_per_s / roof.bandwidths[0].bytes_per_s
    intensities = [knee / 8, knee * 4, *(intensity for _, intensity, _ in placed)]
    giga = 1e9
    speeds = [roof.flops_per_s, roof.bound(min(intensities)), *(speed for _, _, speed in placed)]
    x, y = (
        logarithmic(intensities, *Chart.x_range),
        logarithmic([speed / giga for speed in speeds], *Chart.y_range),
    )
    peak = roof.flops_per_s / giga
    chart = Chart(
        f"Roofline of {roof.machine}",
        f"Peak {quantity(roof.flops_per_s, 'FLOP/s')}, "
        + ", ".join(f"{slope.name} {quantity(slope.bytes_per_s, 'B/s')}" for slope in roof.bandwidths)
        + f"; {len(placed)} kernels.",
        x,
        y,
        x_label="FLOPs per byte",
        y_label="GFLOP/s",
    )
    chart.line([(max(x.low, peak / roof.bandwidths[-1].gb_per_s), peak), (x.high, peak)], "roof")
    for number, slope in enumerate(roof.bandwidths):
        low, top = max(x.low, y.low / slope.gb_per_s), peak / slope.gb_per_s
        if top > low:
            chart.line([(low, low * slope.gb_per_s), (top, peak)], "roof" if number == 0 else "roof behind")
    for kernel, intensity, speed in placed:
        label = f"{kernel.name}: {quantity(speed, 'FLOP/s')}"
        chart.named_dot((intensity, speed / giga), label, "series-1")
    rows = [
        (
            kernel.name,
            quantity(kernel.flops, "FLOP"),
            quantity(kernel.n_bytes, "B"),
            f"{intensity:.3g}",
            f"{speed / 1e9:.1f}",
            f"{roof.bound(intensity) / 1e9:.1f}",
            percent(speed / roof.bound(intensity)),
        )
        for kernel, intensity, speed in placed
    ]
    headers = ("kernel", "work", "bytes", "FLOP/byte", "GFLOP/s", "roof GFLOP/s", "of roof")
    slopes = [(f"bandwidth of {slope.name}", quantity(slope.bytes_per_s, "B/s")) for slope in roof.bandwidths]
    return node(
        "div",
        figure(
            chart.figure(),
            roof.machine,
            node(
                "p",
                f"Peaks are {roof.source}. The solid lines are the peak and the memory, the others caches.",
                class_="note",
            ),
        ),
        details(
            "Table",
            f"roofline-{list(report.rooflines).index(text)}",
            table(
                f"Peaks of {roof.machine}",
                ("peak", "value"),
                [("float32 arithmetic", quantity(roof.flops_per_s, "FLOP/s")), *slopes],
                (1,),
            ),
            table(f"Kernels on {roof.machine}", headers, rows, range(1, 7)),
        ),
    )

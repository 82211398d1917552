"""Readable tables of the results, in Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Rows = Mapping[str, Mapping[str, Any]]
NOISY = 0.10


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns are aligned in the source too; all but the first are numbers."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]

    def show(line: Sequence[str]) -> str:
        first, *rest = [f"{cell:{'<' if i == 0 else '>'}{widths[i]}}" for i, cell in enumerate(line)]
        return "| " + " | ".join([first, *rest]) + " |"

    rule = (
        "|"
        + "|".join([f":{'-' * (widths[0] + 1)}", *[f"{'-' * (width + 1)}:" for width in widths[1:]]])
        + "|"
    )
    return "\n".join([show(lines[0]), rule, *[show(line) for line in lines[1:]]])


def number(value: Any, pattern: str = "{:.2f}") -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else pattern.format(value)


def peers_of(rows: Rows) -> list[str]:
    """Every contestant but ourselves, in the order of the first row that has it."""
    names: dict[str, None] = {}
    for row in rows.values():
        names.update(dict.fromkeys(row["contestants"]))
    return [name for name in names if name != "loopsmith"]


def ratios_to(rows: Rows, peer: str) -> list[float]:
    """How many times as fast as a peer, for the rows that have it."""
    found = (row["contestants"].get(peer, {}).get("ratio") for row in rows.values())
    return [item for item in found if item is not None]


def geometric_mean(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def _name(key: str, row: Mapping[str, Any]) -> str:
    return f"{key} *" if row.get("disturbed", 0) > NOISY else key


_NOTE = """Columns of peers say how many times as fast as the peer loopsmith is (the median over the rounds of both times'
ratio). A row with * was measured while other processes used more than a tenth of the processors: measure it again."""


def _machines(rows: Rows) -> str:
    """A line for each machine, with the rows that were measured there where there are several."""
    measured: dict[str, list[str]] = {}
    for key, row in rows.items():
        if "machine" in row:
            measured.setdefault(f"{row['machine']['processor']}, {row['machine']['target']}", []).append(key)
    if len(measured) == 1:
        return f"\n\nMachine: {next(iter(measured))}"
    return "".join(f"\n\nMachine: {machine}: {', '.join(keys)}" for machine, keys in measured.items())


def _ratios(row: Mapping[str, Any], peers: Sequence[str]) -> list[str]:
    """How many times as fast as each of the peers."""
    return [number(row["contestants"].get(peer, {}).get("ratio")) for peer in peers]


def _trials_per_second(cost: Mapping[str, Any]) -> float | None:
    """None where nothing was measured."""
    return cost["trials"] / cost["seconds"] if cost.get("trials") and cost.get("seconds") else None


def operators(rows: Rows) -> str:
    """Time, speed, shares of the machine's limits, and the ratio to every peer."""
    peers = peers_of(rows)
    header = ["row", "trials", "ms", "GFLOP/s", "of FMA peak", "of roofline", *peers]
    lines = []
    for key, row in rows.items():
        ours = row["contestants"]["loopsmith"]
        lines.append(
            [
                _name(key, row),
                str(row["trials"]),
                number(ours["ms"], "{:.4f}"),
                number(row.get("gflops"), "{:.1f}"),
                number(row.get("share_of_peak"), "{:.0%}"),
                number(row.get("share_of_bound"), "{:.0%}"),
                *_ratios(row, peers),
            ]
        )
    means = [number(geometric_mean(ratios_to(rows, peer))) for peer in peers]
    lines.append(["geometric mean", "", "", "", "", "", *means])
    return f"{markdown(header, lines)}\n\n{_NOTE}{_machines(rows)}"


def cuda(rows: Rows) -> str:
    """Time, speed, what tuning took, and the ratio to every peer."""
    peers = peers_of(rows)
    header = ["row", "trials", "ms", "TFLOP/s", "GB/s", "trials/s", *peers]
    lines = []
    for key, row in rows.items():
        ours, cost = row["contestants"]["loopsmith"], row["tuning"].get("loopsmith", {})
        speed = _trials_per_second(cost)
        lines.append(
            [
                _name(key, row),
                str(row["trials"]),
                number(ours["ms"], "{:.4f}"),
                number(row["flops"] / ours["ms"] / 1e9 if row["flops"] else None, "{:.1f}"),
                number(row["bytes"] / ours["ms"] / 1e6, "{:.0f}"),
                number(speed),
                *_ratios(row, peers),
            ]
        )
    means = [number(geometric_mean(ratios_to(rows, peer))) for peer in peers]
    lines.append(["geometric mean", "", "", "", "", "", *means])
    return f"{markdown(header, lines)}\n\n{_NOTE}{_machines(rows)}"


def models(rows: Rows) -> str:
    """Latency, error against ONNX Runtime, compile time with the database, what tuning took, and the ratio to every peer."""
    peers = peers_of(rows)
    header = ["model", "trials", "ms", "error", "compile s", "trials/s", "overhead", "tuner MB", *peers]
    lines = []
    for key, row in rows.items():
        ours, cost = row["contestants"]["loopsmith"], row["tuning"].get("loopsmith", {})
        speed = _trials_per_second(cost)
        lines.append(
            [
                _name(key, row),
                str(row["trials"]),
                number(ours["ms"], "{:.3f}"),
                number(ours["error"], "{:.1e}"),
                number(ours["compile_s"], "{:.1f}"),
                number(speed),
                number(cost.get("overhead") if speed else None, "{:.0%}"),
                number(cost.get("memory_mb"), "{:.0f}"),
                *_ratios(row, peers),
            ]
        )
    means = [number(geometric_mean(ratios_to(rows, peer))) for peer in peers]
    lines.append(["geometric mean", *[""] * (len(header) - 1 - len(peers)), *means])
    return f"{markdown(header, lines)}\n\n{_NOTE}{_machines(rows)}"


_ABLATIONS = (
    "What each piece of the search is worth, and how it compares with random search and with Optuna's samplers, stored spaces tell:"
    " [search_spaces.md](search_spaces.md)."
)


def search(rows: Rows) -> str:
    """Speed of the search, growth with the trials, costs, and calls of the virtual machine: one table each."""
    parts = []
    speed = {key: row for key, row in rows.items() if "candidates_per_core_second" in row}
    if speed:
        header = ["row", "sketches", "scored per core and s", "by the prior", "materialize ms", "compile ms"]
        lines = [
            [
                key.removeprefix("speed "),
                str(row["sketches"]),
                number(row["candidates_per_core_second"], "{:,.0f}"),
                number(row["by_prior_per_core_second"], "{:,.0f}"),
                number(row["materialize_ms"], "{:.1f}"),
                number(row["compile_ms"], "{:.0f}"),
            ]
            for key, row in speed.items()
        ]
        parts.append("## Candidates\n\n" + markdown(header, lines))
    growth = {key: row for key, row in rows.items() if key.startswith("growth ")}
    if growth:
        parts.append("## Growth with the trials\n\n" + _growth(growth))
    calls = rows.get("virtual machine")
    if calls:
        header = ["virtual machine", "one call of a model, us", "one more kernel, us"]
        lines = [
            [name, number(item.get("call_us")), number(item.get("kernel_us"))]
            for name, item in calls.items()
            if isinstance(item, dict) and name != "machine"
        ]
        parts.append("## Calls\n\n" + markdown(header, lines))
    if growth:
        parts.append(_ABLATIONS)
    return "\n\n".join(parts)


def _growth(rows: Rows) -> str:
    counts = sorted({int(name.split("@")[1]) for row in rows.values() for name in row["contestants"]})
    header = ["row", "tuner", *[f"ms after {n}" for n in counts]]
    header += ["trials to 95 %", "trials/s", "overhead", "MB"]
    lines = []
    for key, row in rows.items():
        for tuner, cost in row["tuning"].items():
            times = [row["contestants"].get(f"{tuner}@{n}", {}).get("ms") for n in counts]
            lines.append(
                [
                    _name(key.removeprefix("growth "), row),
                    tuner,
                    *[number(time, "{:.4f}") for time in times],
                    number(cost.get("trials_to_95_percent"), "{}"),
                    number(cost.get("trials_per_second")),
                    number(cost.get("overhead"), "{:.0%}"),
                    number(cost.get("memory_mb"), "{:.0f}"),
                ]
            )
    return markdown(header, lines)


def foundation(rows: Rows) -> str:
    """One line per figure."""
    lines = []
    for row in rows.values():
        lines += [[name, number(value, "{:,.2f}"), unit] for name, (value, unit) in row["figures"].items()]
    return markdown(["what", "value", "unit"], lines)


def cost_models(rows: Rows) -> str:
    """How the estimate and the learned model order measured candidates: a row per operator, a mean per name, the machines."""
    models = ("prior, assumed", "prior, calibrated", "learned, assumed", "learned, calibrated")
    header = [
        "operator",
        "records",
        *[f"rank: {name}" for name in models],
        *[f"regret of 3: {name}" for name in models],
        "measured/estimated: assumed",
        "calibrated",
    ]
    groups: dict[str, list[str]] = {}
    for key in rows:
        groups.setdefault(key.partition(":")[0], []).append(key)
    lines = []
    for name, keys in groups.items():
        ranks = [[rows[key][model]["rank"] for model in models] for key in keys]
        regrets = [[rows[key][model]["regret 3"] for model in models] for key in keys]
        for key, rank, lost in zip(keys, ranks, regrets, strict=True):
            ratios = [number(rows[key][model]["ratio"]) for model in models[:2]]
            lines.append([key, str(rows[key]["records"]), *_figures(rank, lost), *ratios])
        means = [[sum(column) / len(keys) for column in zip(*part, strict=True)] for part in (ranks, regrets)]
        deviations = [_deviation([rows[key][model]["ratio"] for key in keys]) for model in models[:2]]
        lines.append([f"mean of {name}", "", *_figures(*means), *deviations])
    return (
        markdown(header, lines)
        + "\n\nRank: Spearman's correlation of scores and speeds, 1 for the same order. Regret of 3: how much slower the best of a model's"
        "\nfirst three is than the best. The learned model has seen the records of all other operators of its name, and none of the row's."
        "\nAssumed and calibrated: the figures that the estimate, which is a feature of the learned model, goes by."
        "\nMeasured/estimated: geometric mean of an operator's candidates; below, by which factor operators deviate from each other."
        + _machines(rows)
    )


def _deviation(ratios: Sequence[float]) -> str:
    """By which factor ratios deviate from their geometric mean, as a standard deviation of logarithms."""
    return f"x/÷ {math.exp(statistics.pstdev([math.log(ratio) for ratio in ratios])):.2f}"


def _figures(ranks: Sequence[float], regrets: Sequence[float]) -> list[str]:
    return [number(value) for value in ranks] + [f"{value:.0%}" for value in regrets]


TABLES: dict[str, Callable[[Rows], str]] = {
    "operators": operators,
    "second": operators,
    "tensor_cores": operators,
    "cuda": cuda,
    "cuda-emulated": cuda,
    "cuda-models": models,
    "cuda-models-emulated": models,
    "models": models,
    "search": search,
    "foundation": foundation,
    "cost_models": cost_models,
}

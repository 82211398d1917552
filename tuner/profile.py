"""Where the time of a built model goes: each kernel's share, what it reaches below the roofline, and what the processor counted.

Times are those of a call as any other: with the caches as the kernel before left them. FLOPs and bytes are those of the kernels as the
model has them (:func:`tuner.compile.work_of`); bytes count each argument once, so that GB/s of a kernel whose arguments stay in a
cache may be more than memory gives.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

import runners
from database import Database, open_database
from ir import IRModule
from ir.target import Target
from runners.perf_counters import Counts, count_events
from runners.profile import TimedPart

from .compare.survival import require_survives, runs_in_process
from .compile import WORK, compile_relax
from .console import Fitted
from .error import TunerError
from .model import load_model, random_arguments
from .roofline import Roofline, roofline_of

_COUNTED_CALLS = 10
_LESS_NEEDED = ("calls", "GB/s", "of roof", "GFLOP/s")
"""Columns that a narrow terminal goes without, in this order."""
_LEAST_NAME = 16


@dataclass(frozen=True)
class KernelTime:
    """A kernel, all of its calls in one run of the model together.

    Attributes:
        name: in the model; of other instructions of the machine, what they do.
        calls: in one run.
        secs: of all of these.
        share: of the run.
        flops, n_bytes: of all calls; None where they are not known.
        of_roof: the least time that the machine allows, as a share of the time; None without a roofline.
    """

    name: str
    calls: int
    secs: float
    share: float
    flops: float | None
    n_bytes: float | None
    of_roof: float | None

    @property
    def gflops(self) -> float | None:
        """10⁹ FLOPs per second; None where nothing is computed, or nobody knows."""
        return self.flops / self.secs / 1e9 if self.flops and self.secs else None

    @property
    def gb_per_s(self) -> float | None:
        """10⁹ bytes of arguments per second."""
        return self.n_bytes / self.secs / 1e9 if self.n_bytes and self.secs else None


@dataclass
class Profile:
    """What one run of a model consists of.

    Printed by rich, or as text, it is a table that fits the terminal.

    Attributes:
        title: of the model.
        parts: in the order in which they ran.
        kernels: slowest first.
        roofline: of the machine; None where nobody measured it.
        counts: what the processor and the system counted in one run.
        notes: what is missing, and why.
    """

    title: str
    parts: list[TimedPart]
    kernels: list[KernelTime]
    work: dict[str, tuple[float, float]]
    roofline: Roofline | None
    counts: Counts
    notes: list[str] = field(default_factory=list)

    @property
    def secs(self) -> float:
        """Of the whole run."""
        return sum(part.secs for part in self.parts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [
            "kernel", "calls", "us", "share", *(["GFLOP/s", "GB/s"] if self.work else []), *(["of roof"] if self._has_roof else [])
        ]  # fmt: skip
        left_out = [name for name in _LESS_NEEDED if name in columns]
        while left_out and 9 * (len(columns) - 1) + _LEAST_NAME + 4 > options.max_width:
            columns.remove(left_out.pop(0))
        width = max(_LEAST_NAME, options.max_width - 10 * (len(columns) - 1) - 4)
        table = Table(title=f"{self.title}: {self.secs * 1e6:,.1f} us", title_justify="left")
        for name in columns:
            table.add_column(name, justify="left" if name == "kernel" else "right")
        for item in self.kernels:
            cells = _cells(item, width)
            table.add_row(*(cells[name] for name in columns))
        yield Fitted(table)
        yield from self.summary()

    @property
    def _has_roof(self) -> bool:
        return any(item.of_roof is not None for item in self.kernels)

    def summary(self) -> list[str]:
        """Sentences below the table: the machine's peaks, what was counted, and what is missing."""
        lines = []
        if self.roofline is not None:
            memory = self.roofline.bandwidths[0]
            lines.append(
                f"peak of {self.roofline.machine}: {self.roofline.flops_per_s / 1e9:,.0f} GFLOP/s of float32, memory"
                f" {memory.gb_per_s:,.1f} GB/s ({self.roofline.source})"
            )
        values = dict(self.counts.values)
        if values.get("cycles"):
            lines.append(f"{values.get('instructions', 0.0) / values['cycles']:.2f} instructions per cycle")
        if values:
            lines.append(
                "counted in a run: " + ", ".join(f"{value:,.0f} {name}" for name, value in values.items())
            )
        return [*lines, *self.counts.reasons(), *self.notes]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; times in seconds."""
        roof = self.roofline
        return {
            "title": self.title,
            "seconds": self.secs,
            "kernels": [
                {
                    "name": item.name,
                    "calls": item.calls,
                    "seconds": item.secs,
                    "share": item.share,
                    "flops": item.flops,
                    "bytes": item.n_bytes,
                    "gflops": item.gflops,
                    "gb_per_s": item.gb_per_s,
                    "of_roof": item.of_roof,
                }
                for item in self.kernels
            ],
            "roofline": None
            if roof is None
            else {
                "machine": roof.machine,
                "flops_per_s": roof.flops_per_s,
                "bytes_per_s": {slope.name: slope.bytes_per_s for slope in roof.bandwidths},
                "source": roof.source,
            },
            "counters": self.counts.values,
            "not_counted": self.counts.refused,
            "notes": self.notes,
        }

    def chrome_trace(self) -> dict[str, Any]:
        """The run as a trace (Trace Event Format) that chrome://tracing and ui.perfetto.dev show; times in microseconds."""
        events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": self.title}},
        ]
        for part in self.parts:
            args: dict[str, Any] = {}
            flops, n_bytes = _work_of(part.name, self.work)
            if flops is not None and part.secs:
                args = {"GFLOP/s": flops / part.secs / 1e9, "GB/s": (n_bytes or 0.0) / part.secs / 1e9}
            events.append(
                {
                    "name": part.name,
                    "cat": "kernel" if part.is_kernel else "instruction",
                    "ph": "X",
                    "ts": part.begin * 1e6,
                    "dur": part.secs * 1e6,
                    "pid": 0,
                    "tid": 0,
                    "args": args,
                }
            )
        return {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {"title": self.title, "producer": "loopsmith"},
        }

    def write_trace(self, path: Path) -> None:
        """Write :meth:`chrome_trace` to a .json file.

        Raises:
            TunerError: it cannot be written.
        """
        try:
            path.write_text(json.dumps(self.chrome_trace()), encoding="utf-8")
        except OSError as error:
            raise TunerError(f"cannot write {path}: {error.strerror}; choose another place") from error

    def __str__(self) -> str:
        console = Console(width=100, file=io.StringIO(), color_system=None)
        with console.capture() as captured:
            console.print(self)
        return captured.get()


def profile_model(
    model: str | Path | IRModule | runners.Executable,
    inputs: Sequence[Any] | None = None,
    *,
    target: Any = "cpu",
    params: dict[str, Any] | None = None,
    database: Database | str | Path | None = None,
    shapes: Sequence[str] = (),
    seed: int = 0,
    function: str = "main",
) -> Profile:
    """Time the parts of one run of a model.

    Args:
        model: an executable; the path of a library that ``loopsmith build`` wrote, or of an ONNX file; or a module of Relax functions.
            The latter two are built first.
        inputs: arrays, in the order of the function's parameters; by default random ones.
        target: what is built for; plays no part for what is built already.
        params: weights by name of a module that is built.
        database: whose records are applied to what is built, and whose calibration gives the machine's peak.
        shapes: of inputs with open dimensions, of a file or of what is built, as ``name:1,3,224,224``.
        seed: of random inputs.
        function: of the model.

    Raises:
        TunerError: a file is missing, an input needs a shape, or the model ends the process that runs it.
        ExecutableError: a library is none, or this machine cannot run it.
    """
    store = open_database(database, must_exist=True) if database is not None else None
    executable, title, open_shapes = _built(model, target, params, store, shapes, seed)
    if inputs is None:
        specs = executable.signature(function)["params"]
        arrays = list(random_arguments(specs, open_shapes, seed).values())
    else:
        arrays = list(inputs)
    machine = runners.VirtualMachine(executable, profile=True)
    call = machine[function]
    if runs_in_process(machine):
        require_survives(lambda: call(*arrays))
    parts = machine.timed_parts(function, *arrays)

    def calls() -> None:
        for _ in range(_COUNTED_CALLS):
            call(*arrays)
        machine.home.synchronize()

    counts = count_events(calls)
    counts.values = {name: value / _COUNTED_CALLS for name, value in counts.values.items()}
    work = {
        name: (float(flops), float(size)) for name, (flops, size) in executable.metadata.get(WORK, {}).items()
    }
    roof = roofline_of(store, Target(str(executable.metadata["target"]["text"])))
    notes = []
    if not work and WORK in executable.metadata:
        notes.append("FLOPs and bytes are not known: the shapes of all kernels are open")
    elif not work:
        notes.append(
            "FLOPs and bytes are not known: the model was built by an earlier version, or without tuner.compile_relax"
        )
    elif roof is None:
        notes.append(
            "the machine's peak is not known: `loopsmith calibrate --database tuning.db` measures it, and --database reads it"
        )
    return Profile(title, parts, _kernels(parts, work, roof), work, roof, counts, notes)


def _built(
    model: str | Path | IRModule | runners.Executable,
    target: Any,
    params: dict[str, Any] | None,
    store: Database | None,
    shapes: Sequence[str],
    seed: int,
) -> tuple[runners.Executable, str, list[str]]:
    """An executable, what it is called, and the shapes that are left to say of its inputs: those of an ONNX file are in what is built."""
    if isinstance(model, runners.Executable):
        return model, Path(model.path).name if model.path else "model", list(shapes)
    if isinstance(model, IRModule):
        return compile_relax(model, target, params, store), "model", list(shapes)
    path = Path(model)
    if path.suffix.lower() != ".onnx":
        return runners.load_module(path), path.name, list(shapes)
    loaded = load_model(path, None, list(shapes), seed)
    return compile_relax(loaded.mod, target, loaded.params, store), path.name, []


def _work_of(name: str, work: dict[str, tuple[float, float]]) -> tuple[float | None, float | None]:
    """FLOPs and bytes of a kernel by its name in the library; one whose weights are packed has a suffix."""
    return work.get(name) or work.get(name.removesuffix("_prepacked")) or (None, None)


def _kernels(
    parts: Sequence[TimedPart], work: dict[str, tuple[float, float]], roof: Roofline | None
) -> list[KernelTime]:
    total = sum(part.secs for part in parts)
    grouped: dict[str, list[float]] = {}
    for part in parts:
        grouped.setdefault(part.name, []).append(part.secs)
    found = []
    for name, times in grouped.items():
        count, secs = len(times), sum(times)
        flops, n_bytes = _work_of(name, work)
        least = None
        if roof is not None and flops is not None and n_bytes is not None:
            least = roof.bound_secs(flops, n_bytes) * count
        found.append(
            KernelTime(
                name,
                count,
                secs,
                secs / total if total else 0.0,
                None if flops is None else flops * count,
                None if n_bytes is None else n_bytes * count,
                least / secs if least is not None and secs else None,
            )
        )
    return sorted(found, key=lambda item: -item.secs)


def _cells(item: KernelTime, width: int) -> dict[str, str]:
    name = item.name if len(item.name) <= width else f"{item.name[: width - 1]}…"
    return {
        "kernel": name,
        "calls": str(item.calls),
        "us": f"{item.secs * 1e6:,.1f}",
        "share": f"{item.share:.1%}",
        "GFLOP/s": "-" if item.gflops is None else f"{item.gflops:.1f}",
        "GB/s": "-" if item.gb_per_s is None else f"{item.gb_per_s:.1f}",
        "of roof": "-" if item.of_roof is None else f"{item.of_roof:.0%}",
    }

"""Comparisons of whole models: contestants take turns in one process, and medians of the rounds give ratios."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import runners
from database.meta_schedule_apply_database import ApplyReport
from ir.error import IRError

from .cli.model import load_model, random_array
from .compile import compile_relax
from .error import TunerError
from .reference import TOLERANCE, OnnxSource, flatten, onnx_session, relative_error, require_onnxruntime

_ROUND_SECONDS = 0.15
_SLOW_SECONDS = 1.0
_PAUSE_SECONDS = 0.1
_PLAIN_RATIO, _PLAIN_SECONDS = 150, 60.0
"""How many times longer than default schedules plain loops of large layers take, and how long they may take at all."""


@dataclass(frozen=True)
class Contestant:
    """Something that runs the model once per call."""

    name: str
    call: Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """Seconds per call over the rounds."""

    median: float
    minimum: float


def take_turns(
    entries: Sequence[Contestant], rounds: int = 9, first_calls: Mapping[str, float] | None = None
) -> dict[str, Timing]:
    """Time contestants in turn, round by round; each round's figure is the mean of as many calls as fit in it.

    A contestant whose call takes more than a second (plain loops of a large model) is called once: here, or before, where
    ``first_calls`` has the seconds of a call that was made already.
    """
    counts: dict[str, int] = {}
    times: dict[str, list[float]] = {entry.name: [] for entry in entries}
    for entry in entries:
        first = (first_calls or {}).get(entry.name) or _seconds(entry.call)
        if first >= _SLOW_SECONDS:
            times[entry.name].append(first)
        else:
            counts[entry.name] = max(1, int(_ROUND_SECONDS / max(_seconds(entry.call), 1e-7)))
    for _round in range(rounds):
        for entry in entries:
            if entry.name not in counts:
                continue
            # The threads of whoever ran before spin for a while; they must not take this one's cores.
            time.sleep(_PAUSE_SECONDS)
            entry.call()
            begin = time.perf_counter()
            for _call in range(counts[entry.name]):
                entry.call()
            times[entry.name].append((time.perf_counter() - begin) / counts[entry.name])
    return {name: Timing(statistics.median(values), min(values)) for name, values in times.items()}


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def contestant_of_library(path: Path, threads: int) -> tuple[Contestant, list[np.ndarray]]:
    """A built library with random inputs; ``threads`` 0 takes all cores."""
    executable = runners.load_module(path)
    generator = np.random.default_rng(0)
    arrays = [
        random_array(generator, list(item["shape"]), item["dtype"])
        for item in executable.signature("main")["params"]
    ]
    set_threads = executable.library.address("loopsmith_set_num_threads")
    ctypes.CFUNCTYPE(None, ctypes.c_int32)(set_threads)(threads)
    main = runners.VirtualMachine(executable, runners.cpu())["main"]
    return Contestant("loopsmith", lambda: main(*arrays)), arrays


@dataclass(frozen=True)
class Source:
    """Where other runtimes take the model from: an ONNX file, or an architecture of the zoo."""

    onnx: Path | None = None
    zoo: str | None = None

    @cached_property
    def model(self) -> Any:
        """The model as this compiler imports it.

        Raises:
            TunerError: there is no such file or architecture.
            ONNXImportError: the file cannot be imported.
        """
        return load_model(self.onnx if self.zoo is None else None, self.zoo, [])

    @property
    def for_onnxruntime(self) -> OnnxSource:
        """The file, or an export of the architecture."""
        if self.zoo is not None:
            return exported(self.model)
        assert self.onnx is not None
        return self.onnx


def contestants(
    names: Sequence[str], source: Source, arrays: Sequence[np.ndarray], threads: int
) -> list[Contestant]:
    """Other runtimes on the same inputs.

    Raises:
        TunerError: a name is unknown, there is no model to run, or the runtime is not installed.
    """
    unknown = [name for name in names if name not in _MAKERS]
    if unknown:
        raise TunerError(f"unknown runtime {unknown[0]!r}; choose among {', '.join(_MAKERS)}")
    if names and source.zoo is None and (source.onnx is None or not source.onnx.is_file()):
        raise TunerError(
            f"comparing needs the model itself; {source.onnx} does not exist: name its ONNX file with --onnx,"
            " or its architecture with --zoo"
        )
    entries = [_MAKERS[name](source, arrays, threads) for name in names]
    for entry in entries:
        entry.call()  # the first call compiles, or allocates: it says nothing of the second
    return entries


def _onnxruntime(source: Source, arrays: Sequence[np.ndarray], threads: int) -> Contestant:
    return _onnx_contestant(source.for_onnxruntime, arrays, threads)


def _onnx_contestant(onnx: OnnxSource, arrays: Sequence[np.ndarray], threads: int) -> Contestant:
    session = onnx_session(onnx, threads)
    feed = dict(zip([item.name for item in session.get_inputs()], arrays, strict=True))
    return Contestant("onnxruntime", lambda: session.run(None, feed))


def _torch(source: Source, arrays: Sequence[np.ndarray], threads: int) -> Contestant:
    return Contestant("torch", _torch_call(source, arrays, threads, compiled=False))


def _torch_compile(source: Source, arrays: Sequence[np.ndarray], threads: int) -> Contestant:
    return Contestant("torch.compile", _torch_call(source, arrays, threads, compiled=True))


def _torch_call(
    source: Source, arrays: Sequence[np.ndarray], threads: int, *, compiled: bool
) -> Callable[[], Any]:
    """PyTorch on the program that ``torch.export.save`` wrote beside the ONNX file, else on its own operators one by one."""
    try:
        import torch
    except ImportError as error:
        raise TunerError(
            f"comparing with PyTorch needs the extra: pip install 'loopsmith[torch]' ({error})"
        ) from error
    from .torch_graph import to_torch

    if threads:
        torch.set_num_threads(threads)
    program = source.onnx.with_suffix(".pt2") if source.onnx is not None and source.zoo is None else None
    if program is not None and program.is_file():
        module: Any = torch.export.load(program).module()
    else:
        module = to_torch(source.model.mod, source.model.params)
    if compiled:
        module = torch.compile(module)
    tensors = [torch.from_numpy(array) for array in arrays]

    def call() -> Any:
        with torch.inference_mode():
            return module(*tensors)

    return call


_MAKERS: dict[str, Callable[[Source, Sequence[np.ndarray], int], Contestant]] = {
    "onnxruntime": _onnxruntime,
    "torch": _torch,
    "torch.compile": _torch_compile,
}


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare_builds` found: lines to show, and the relative error against ONNX Runtime where it ran."""

    lines: list[str]
    error: float | None

    @property
    def is_accurate(self) -> bool:
        """Whether the outputs agree with ONNX Runtime's, as far as is known."""
        return self.error is None or self.error <= TOLERANCE


def compare_builds(model: Any, target: Any, store: Any) -> Comparison:
    """Build tuned and untuned, run both, and compare with each other and with ONNX Runtime where that is installed."""
    report = ApplyReport()
    arrays = list(model.inputs.values())
    entries: list[Contestant] = []
    outputs: dict[str, list[np.ndarray]] = {}
    first_calls: dict[str, float] = {}

    def enter(name: str, call: Callable[[], Any]) -> None:
        begin = time.perf_counter()
        outputs[name] = flatten(call())
        first_calls[name] = time.perf_counter() - begin
        entries.append(Contestant(name, call))

    def enter_build(name: str, database: Any, **options: Any) -> None:
        executable = compile_relax(model.mod, target, model.params, database, **options)
        main = runners.VirtualMachine(executable, runners.cpu())["main"]
        enter(name, lambda: main(*arrays))

    notes, error = [], None
    enter_build("tuned", store, report=report)
    enter_build("default schedules", None)
    untuned = "default schedules"
    if first_calls[untuned] * _PLAIN_RATIO > _PLAIN_SECONDS:
        notes.append("not compared with untuned loops: they would run for minutes")
    else:
        untuned = "untuned loops"
        enter_build(untuned, None, scheduled=False)
    try:
        require_onnxruntime()
        onnx = model.onnx_path if model.onnx_path is not None else exported(model)
        contestant = _onnx_contestant(onnx, arrays, 0)
        enter(contestant.name, contestant.call)
    except IRError as problem:  # the comparison is an extra: what it lacks is said, and the rest goes on
        notes.append(f"not compared with ONNX Runtime: {problem}")
    if "onnxruntime" in outputs:
        error = _largest_error(outputs["tuned"], outputs["onnxruntime"])
        notes.append(
            f"outputs of the tuned build and ONNX Runtime's differ by {error:.1e} (relative; limit {TOLERANCE:g})"
        )
    times = take_turns(entries, 7, first_calls)
    base = times["tuned"].median
    lines = [str(report), f"tuned build: {base * 1e3:.3f} ms per run"]
    for entry in entries[1:]:
        lines.append(
            f"  {times[entry.name].median / base:6.2f}x the speed of {entry.name} ({times[entry.name].median * 1e3:.3f} ms)"
        )
    difference = _largest_error(outputs["tuned"], outputs[untuned])
    lines.append(f"outputs of the tuned and the untuned build differ by {difference:.1e} (relative)")
    return Comparison(lines + notes, error)


def _largest_error(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    return max((relative_error(a, b) for a, b in zip(found, wanted, strict=True)), default=0.0)


def exported(model: Any) -> bytes:
    """A model as the contents of an ONNX file.

    Raises:
        ONNXExportError: the model cannot be exported, or onnx is not installed.
    """
    from ir.relax.frontend.onnx import to_onnx

    data: bytes = to_onnx(model.mod, model.params).SerializeToString()
    return data

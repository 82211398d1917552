"""Comparisons of whole models: contestants take turns in one process, and medians of the rounds give ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import runners
from ir.error import IRError

from .error import TunerError
from .reference import TOLERANCE, OnnxSource, flatten, onnx_session, relative_error, require_onnxruntime

_ROUND_SECONDS = 0.15
_SLOW_SECONDS = 1.0
_PAUSE_SECONDS = 0.1


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


def take_turns(entries: Sequence[Contestant], rounds: int = 9) -> dict[str, Timing]:
    """Time contestants in turn, round by round; each round's figure is the mean of as many calls as fit in it.

    A contestant whose call takes more than a second (plain loops of a large model) takes part in the first round only.
    """
    counts = {}
    for entry in entries:
        begin = time.perf_counter()
        entry.call()
        first = time.perf_counter() - begin
        if first < _SLOW_SECONDS:
            begin = time.perf_counter()
            entry.call()
            first = time.perf_counter() - begin
        counts[entry.name] = 0 if first >= _SLOW_SECONDS else max(1, int(_ROUND_SECONDS / max(first, 1e-7)))
    times: dict[str, list[float]] = {entry.name: [] for entry in entries}
    for number in range(rounds):
        for entry in entries:
            count = counts[entry.name]
            if count == 0 and number > 0:
                continue
            if count:
                # The threads of whoever ran before spin for a while; they must not take this one's cores.
                time.sleep(_PAUSE_SECONDS)
                entry.call()
            begin = time.perf_counter()
            for _call in range(max(1, count)):
                entry.call()
            times[entry.name].append((time.perf_counter() - begin) / max(1, count))
    return {name: Timing(statistics.median(values), min(values)) for name, values in times.items()}


def contestant_of_library(path: Path, threads: int) -> tuple[Contestant, list[np.ndarray]]:
    """A built library with random inputs."""
    from .cli.model import random_array

    executable = runners.load_module(path)
    generator = np.random.default_rng(0)
    arrays = [
        random_array(generator, list(item["shape"]), item["dtype"])
        for item in executable.signature("main")["params"]
    ]
    machine = runners.VirtualMachine(executable, runners.cpu())
    main = machine["main"]
    return Contestant("loopsmith", lambda: main(*arrays)), arrays


def contestants(
    names: Sequence[str], onnx: Path, arrays: Sequence[np.ndarray], threads: int
) -> list[Contestant]:
    """Other runtimes on the same inputs.

    Raises:
        TunerError: a name is unknown, the ONNX file is missing, or the runtime is not installed.
    """
    makers = {"onnxruntime": _onnxruntime, "torch": _torch}
    result = []
    for name in names:
        if name not in makers:
            raise TunerError(f"unknown runtime {name!r}; choose among {', '.join(sorted(makers))}")
        if not onnx.is_file():
            raise TunerError(
                f"comparing needs the ONNX file; {onnx} does not exist: name it with --onnx,"
                " or build a model of the zoo with --save-onnx"
            )
        result.append(makers[name](onnx, arrays, threads))
    return result


def _onnxruntime(onnx: OnnxSource, arrays: Sequence[np.ndarray], threads: int) -> Contestant:
    session = onnx_session(onnx, threads)
    feed = dict(zip([item.name for item in session.get_inputs()], arrays, strict=True))
    return Contestant("onnxruntime", lambda: session.run(None, feed))


def _torch(onnx: Path, arrays: Sequence[np.ndarray], threads: int) -> Contestant:
    """The ONNX graph run by PyTorch's operators, through the reference interpreter of torch modules beside the file."""
    module_file = onnx.with_suffix(".pt2")
    try:
        import torch
    except ImportError as error:
        raise TunerError(
            f"comparing with PyTorch needs the extra: pip install 'loopsmith[torch]' ({error})"
        ) from error
    if not module_file.is_file():
        raise TunerError(
            f"comparing with PyTorch needs the exported program {module_file} (torch.export.save)"
        )
    if threads:
        torch.set_num_threads(threads)
    module = torch.export.load(module_file).module()
    tensors = [torch.from_numpy(array) for array in arrays]

    def call() -> Any:
        with torch.inference_mode():
            return module(*tensors)

    return Contestant("torch", call)


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
    from database.apply import ApplyReport

    from .compile import compile_relax

    report = ApplyReport()
    tuned = compile_relax(model.mod, target, model.params, store, report=report)
    default = compile_relax(model.mod, target, model.params, None)
    plain = compile_relax(model.mod, target, model.params, None, scheduled=False)
    arrays = list(model.inputs.values())
    entries = []
    for name, executable in (("tuned", tuned), ("default schedules", default), ("untuned loops", plain)):
        main = runners.VirtualMachine(executable, runners.cpu())["main"]
        entries.append(Contestant(name, lambda main=main: main(*arrays)))  # type: ignore[misc]
    notes, error = [], None
    try:
        entries.append(_onnx_contestant(model, arrays))
    except IRError as problem:  # the comparison is an extra: what it lacks is said, and the rest goes on
        notes.append(f"not compared with ONNX Runtime: {problem}")
    outputs = {entry.name: flatten(entry.call()) for entry in entries}
    if "onnxruntime" in outputs:
        error = _largest_error(outputs["tuned"], outputs["onnxruntime"])
        notes.append(
            f"outputs of the tuned build and ONNX Runtime's differ by {error:.1e} (relative; limit {TOLERANCE:g})"
        )
    times = take_turns(entries, 7)
    base = times["tuned"].median
    lines = [str(report), f"tuned build: {base * 1e3:.3f} ms per run"]
    for entry in entries[1:]:
        lines.append(
            f"  {times[entry.name].median / base:6.2f}x the speed of {entry.name} ({times[entry.name].median * 1e3:.3f} ms)"
        )
    difference = _largest_error(outputs["tuned"], outputs["untuned loops"])
    lines.append(f"outputs of the tuned and the untuned build differ by {difference:.1e} (relative)")
    return Comparison(lines + notes, error)


def _largest_error(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    return max((relative_error(a, b) for a, b in zip(found, wanted, strict=True)), default=0.0)


def _onnx_contestant(model: Any, arrays: Sequence[np.ndarray]) -> Contestant:
    """ONNX Runtime on the file that the model comes from, or on an export of a model without one.

    Raises:
        TunerError: ONNX Runtime is not installed, or cannot load the model.
        ONNXExportError: the model cannot be exported.
    """
    require_onnxruntime()
    if model.onnx_path is not None:
        return _onnxruntime(model.onnx_path, arrays, 0)
    return _onnxruntime(exported(model), arrays, 0)


def exported(model: Any) -> bytes:
    """A model as the contents of an ONNX file.

    Raises:
        ONNXExportError: the model cannot be exported, or onnx is not installed.
    """
    from ir.relax.frontend.onnx import to_onnx

    data: bytes = to_onnx(model.mod, model.params).SerializeToString()
    return data

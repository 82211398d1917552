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

from .error import TunerError

_ROUND_SECONDS = 0.15


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
    """Time contestants in turn, round by round; each round's figure is the mean of as many calls as fit in it."""
    counts = {}
    for entry in entries:
        entry.call()
        begin = time.perf_counter()
        entry.call()
        counts[entry.name] = max(1, int(_ROUND_SECONDS / max(time.perf_counter() - begin, 1e-7)))
    times: dict[str, list[float]] = {entry.name: [] for entry in entries}
    for _ in range(rounds):
        for entry in entries:
            begin = time.perf_counter()
            for _call in range(counts[entry.name]):
                entry.call()
            times[entry.name].append((time.perf_counter() - begin) / counts[entry.name])
    return {name: Timing(statistics.median(values), min(values)) for name, values in times.items()}


def contestant_of_library(path: Path, threads: int) -> tuple[Contestant, list[np.ndarray]]:
    """A built library with random inputs."""
    from .cli.model import random_array

    executable = runners.load_module(path)
    generator = np.random.default_rng(0)
    arrays = [
        random_array(generator, list(item["shape"]), item["dtype"]) for item in executable.signature("main")["params"]
    ]
    machine = runners.VirtualMachine(executable, runners.cpu())
    main = machine["main"]
    return Contestant("loopsmith", lambda: main(*arrays)), arrays


def contestants(names: Sequence[str], onnx: Path, arrays: Sequence[np.ndarray], threads: int) -> list[Contestant]:
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
            raise TunerError(f"comparing needs the ONNX file; {onnx} does not exist, name it with --onnx")
        result.append(makers[name](onnx, arrays, threads))
    return result


def _onnxruntime(onnx: Path, arrays: Sequence[np.ndarray], threads: int) -> Contestant:
    from .cli.run import onnx_session

    session = onnx_session(onnx, threads)
    feed = dict(zip([item.name for item in session.get_inputs()], arrays, strict=True))
    return Contestant("onnxruntime", lambda: session.run(None, feed))


def _torch(onnx: Path, arrays: Sequence[np.ndarray], threads: int) -> Contestant:
    """The ONNX graph run by PyTorch's operators, through the reference interpreter of torch modules beside the file."""
    module_file = onnx.with_suffix(".pt2")
    try:
        import torch
    except ImportError as error:
        raise TunerError(f"comparing with PyTorch needs the extra: pip install 'loopsmith[torch]' ({error})") from error
    if not module_file.is_file():
        raise TunerError(f"comparing with PyTorch needs the exported program {module_file} (torch.export.save)")
    if threads:
        torch.set_num_threads(threads)
    module = torch.export.load(module_file).module()
    tensors = [torch.from_numpy(array) for array in arrays]

    def call() -> Any:
        with torch.inference_mode():
            return module(*tensors)

    return Contestant("torch", call)


def compare_builds(model: Any, target: Any, store: Any) -> list[str]:
    """Build tuned and untuned, run both, and compare with each other and with ONNX Runtime where that is installed."""
    from database.apply import ApplyReport

    from .compile import compile_relax

    report = ApplyReport()
    tuned = compile_relax(model.mod, target, model.params, store, report=report)
    default = compile_relax(model.mod, target, model.params, None)
    plain = compile_relax(model.mod, target, model.params, None, scheduled=False)
    arrays = list(model.inputs.values())
    entries = []
    outputs = {}
    for name, executable in (("tuned", tuned), ("default schedules", default), ("untuned loops", plain)):
        main = runners.VirtualMachine(executable, runners.cpu())["main"]
        outputs[name] = main(*arrays)
        entries.append(Contestant(name, lambda main=main: main(*arrays)))  # type: ignore[misc]
    entries += _onnx_contestant(model, arrays)
    times = take_turns(entries, 7)
    base = times["tuned"].median
    lines = [str(report), f"tuned build: {base * 1e3:.3f} ms per run"]
    for entry in entries[1:]:
        lines.append(f"  {times[entry.name].median / base:6.2f}x faster than {entry.name} ({times[entry.name].median * 1e3:.3f} ms)")
    from .cli.run import flatten, relative_error

    pairs = zip(flatten(outputs["tuned"]), flatten(outputs["untuned loops"]), strict=True)
    lines.append(f"outputs of the tuned and the untuned build differ by {max(relative_error(a, b) for a, b in pairs):.1e} (relative)")
    return lines


def _onnx_contestant(model: Any, arrays: Sequence[np.ndarray]) -> list[Contestant]:
    """ONNX Runtime on the same model, when it is installed and the model can be had as ONNX."""
    path = getattr(model, "onnx_path", None)
    if path is None:
        return []
    return [_onnxruntime(Path(path), arrays, 0)]

"""Who a model is compared with: a library that was built, ONNX Runtime, PyTorch. Each runs the model once per call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import runners

from ..error import TunerError
from ..model import exported, load_model, random_arguments
from .accuracy import TOLERANCES, relative_error
from .reference import OnnxSource, flatten, onnx_session, run_session
from .turns import Contestant


def finished_call(machine: runners.VirtualMachine, arrays: Sequence[np.ndarray]) -> Callable[[], Any]:
    """A call of a model's ``main`` on arrays that are where it runs; it waits for what a device does."""
    main, device = machine["main"], machine.device
    given = [runners.array(array, device) for array in arrays]

    def call() -> Any:
        result = main(*given)
        device.sync()
        return result

    return call


def contestant_of_library(
    path: Path, threads: int, shapes: list[str]
) -> tuple[Contestant, list[np.ndarray], runners.VirtualMachine]:
    """A built library with random inputs, and the machine that runs it.

    Args:
        path: of the library.
        threads: of its loops; 0 takes all cores.
        shapes: of inputs with open dimensions, as ``name:1,3,224,224``.
    """
    executable = runners.load_module(path)
    arrays = list(random_arguments(executable.signature("main")["params"], shapes).values())
    executable.set_num_threads(threads)
    machine = runners.VirtualMachine(executable)
    return Contestant("loopsmith", finished_call(machine, arrays)), arrays, machine


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
    names: Sequence[str],
    source: Source,
    arrays: Sequence[np.ndarray],
    threads: int,
    wanted: Sequence[np.ndarray] | None = None,
    tolerance: float = TOLERANCES["float32"],
) -> list[Contestant]:
    """Other runtimes on the same inputs, whose outputs must be those ``wanted``, if they are given, up to a relative error.

    Raises:
        TunerError: a name is unknown, there is no model to run, it is another model, or the runtime is not installed.
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
        found = entry.call()  # the first call compiles, or allocates: it says nothing of the second
        if wanted is not None:
            _require_same_outputs(entry.name, flatten(found), wanted, tolerance)
    return entries


def _require_same_outputs(
    name: str, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], tolerance: float
) -> None:
    """Refuse to compare the times of programs that compute different things."""
    problem = ""
    if len(found) != len(wanted):
        problem = f"it has {len(found)} outputs, the library {len(wanted)}"
    for number, (theirs, ours) in enumerate(zip(found, wanted, strict=False)):
        if problem:
            break
        if theirs.shape != ours.shape:
            problem = f"output {number} is {list(theirs.shape)} there, {list(ours.shape)} in the library"
        else:
            error = relative_error(ours, theirs)
            if error > tolerance:
                problem = f"output {number} differs from the library's by {error:.1e} (limit {tolerance:g})"
    if problem:
        raise TunerError(
            f"{name} runs another model than the library: {problem}; name the ONNX file or the architecture that the library"
            " was built from"
        )


def _onnxruntime(source: Source, arrays: Sequence[np.ndarray], threads: int) -> Contestant:
    return onnx_contestant(source.for_onnxruntime, arrays, threads)


def onnx_contestant(onnx: OnnxSource, arrays: Sequence[np.ndarray], threads: int) -> Contestant:
    """ONNX Runtime on a model."""
    session = onnx_session(onnx, threads)
    names = [item.name for item in session.get_inputs()]
    run_session(
        session, names, arrays
    )  # tells what does not fit; the calls that are timed do nothing besides
    feed = dict(zip(names, arrays, strict=True))
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
    if threads:
        torch.set_num_threads(threads)
    program = source.onnx.with_suffix(".pt2") if source.onnx is not None and source.zoo is None else None
    if program is not None and program.is_file():
        try:
            with _silent(logging.getLogger("torch.export")):
                module: Any = torch.export.load(program).module()
        except Exception as error:  # torch raises whatever its parts of a reader raise
            raise TunerError(
                f"PyTorch cannot read {program} ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''});"
                " write it with torch.export.save, or move it away: then the model's operators are run one by one"
            ) from error
    else:
        # Found by name when PyTorch is there: its module is made of PyTorch's functions.
        to_torch = import_module(".torch_graph", __package__).to_torch
        module = to_torch(source.model.mod, source.model.params)
    if compiled:
        module = torch.compile(module)
    tensors = [torch.from_numpy(array) for array in arrays]

    def call() -> Any:
        with torch.inference_mode():
            return module(*tensors)

    try:
        call()
    except Exception as error:  # torch raises its own classes and Python's
        shown = program if program is not None and program.is_file() else "the model"
        raise TunerError(
            f"PyTorch cannot run {shown} on the library's inputs; name the file that the library was built from ({error})"
        ) from error
    return call


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    """A library that logs the traceback of what it raises as well keeps it to itself."""
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


_MAKERS: dict[str, Callable[[Source, Sequence[np.ndarray], int], Contestant]] = {
    "onnxruntime": _onnxruntime,
    "torch": _torch,
    "torch.compile": _torch_compile,
}

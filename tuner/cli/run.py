"""``loopsmith run``: run a built model, and compare its outputs with ONNX Runtime's."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import runners

from ..compare.reference import TOLERANCE, flatten, onnx_session, relative_error, run_session
from ..compare.survival import require_survives
from ..error import TunerError
from ..model import random_array
from .console import check_writable, out
from .options import Seed


def run(
    library: Annotated[Path, typer.Argument(help="A model built by `loopsmith build`.")],
    random_inputs: Annotated[
        bool, typer.Option("--random-inputs", help="Random inputs; the default without --inputs.")
    ] = False,
    inputs: Annotated[Path | None, typer.Option(help="An .npz file with an array per input.")] = None,
    outputs: Annotated[Path | None, typer.Option(help="Write the outputs to this .npz file.")] = None,
    check: Annotated[
        Path | None, typer.Option(help="The ONNX file to compare with, through ONNX Runtime.")
    ] = None,
    seed: Seed = 0,
    profile: Annotated[bool, typer.Option("--profile", help="Print the time of each kernel.")] = False,
) -> None:
    """Run a built model and describe its outputs."""
    if random_inputs and inputs is not None:
        raise TunerError("--random-inputs and --inputs exclude each other")
    if outputs is not None:
        check_writable(outputs)  # before the run, which may take long
    executable = runners.load_module(library)
    specs = executable.signature("main")["params"]
    arrays = _arrays(specs, inputs, seed)
    machine = runners.VirtualMachine(executable, runners.cpu(), profile=profile)
    main = machine["main"]
    require_survives(lambda: main(*arrays.values()))
    result = main(*arrays.values())
    found = flatten(result)
    for number, value in enumerate(found):
        numbers = (
            f"  mean {value.mean():.6g}  min {value.min():.6g}  max {value.max():.6g}" if value.size else ""
        )
        out.print(f"output {number}: {value.dtype}{list(value.shape)}{numbers}")
    if outputs is not None:
        with outputs.open("wb") as file:  # given a path, numpy adds .npz to a name without it
            np.savez(file, *found)
    if check is not None:
        _compare(check, arrays, found)
    if profile:
        out.print(machine.profile("main", *arrays.values()), markup=False, highlight=False, soft_wrap=True)


def _arrays(specs: list[dict[str, object]], path: Path | None, seed: int) -> dict[str, np.ndarray]:
    if path is None:
        generator = np.random.default_rng(seed)
        return {str(s["name"]): random_array(generator, list(s["shape"]), str(s["dtype"])) for s in specs}  # type: ignore[call-overload]
    if not path.is_file():
        raise TunerError(f"there is no file {path} with inputs")
    names = [str(s["name"]) for s in specs]
    advice = f"write it with numpy.savez('inputs.npz', {', '.join(f'{name}=...' for name in names)})"
    try:
        given = np.load(path)
        if not isinstance(given, np.lib.npyio.NpzFile):
            raise TunerError(
                f"{path} holds one array without a name; --inputs takes an .npz file with an array per input: {advice}"
            )
        missing = [name for name in names if name not in given]
        if missing:
            raise TunerError(f"{path} has no array for input {missing[0]!r}; it has {sorted(given.files)}")
        extra = sorted(set(given.files).difference(names))
        if extra:
            raise TunerError(
                f"{path} has an array {extra[0]!r}, which is no input of the model; it has the inputs {names}"
            )
        return {name: given[name] for name in names}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        # numpy says of everything that it does not know that it might be a pickle, which it must not load
        raise TunerError(
            f"{path} is no .npz file that numpy can read, with an array of numbers per input; {advice}"
        ) from error


def _compare(path: Path, arrays: dict[str, np.ndarray], found: list[np.ndarray]) -> None:
    session = onnx_session(path, threads=0)
    names = [item.name for item in session.get_inputs()]
    wanted = run_session(session, names, list(arrays.values()))
    if len(wanted) != len(found):
        raise TunerError(
            f"{path} has {len(wanted)} outputs, the library {len(found)}; they are not the same model"
        )
    worst = 0.0
    for number, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        error = relative_error(ours, theirs)
        worst = max(worst, error)
        out.print(f"output {number} against ONNX Runtime: relative error {error:.2e}")
    if worst > TOLERANCE:
        raise TunerError(f"outputs differ from ONNX Runtime's by {worst:.2e}, more than {TOLERANCE:g}")

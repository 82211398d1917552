"""``loopsmith run``: run a built model, and compare its outputs with ONNX Runtime's."""

from __future__ import annotations

import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import runners
from runners.profile import profile_table

from ..compare.accuracy import Accuracy, compare_outputs, formats_of, require_tolerance, tolerance_for
from ..compare.float64_reference import float64_outputs
from ..compare.reference import flatten, onnx_session, run_session
from ..compare.survival import require_survives, runs_in_process
from ..error import TunerError
from ..model import random_arguments, read_arguments
from .console import out, print_json
from .options import JsonOption, Seed, Shapes, ToleranceOption
from .output_file import ARRAYS, check_apart, check_output


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
    tolerance: ToleranceOption = None,
    seed: Seed = 0,
    profile: Annotated[bool, typer.Option("--profile", help="Print the time of each kernel.")] = False,
    as_json: JsonOption = False,
    shape: Shapes = [],  # noqa: B006
) -> None:
    """Run a built model and describe its outputs."""
    require_tolerance(tolerance)
    if tolerance is not None and check is None:
        raise TunerError("--tolerance says how close --check must come; name the ONNX file with --check")
    if random_inputs and inputs is not None:
        raise TunerError("--random-inputs and --inputs exclude each other")
    if outputs is not None:
        check_output(outputs, ARRAYS)  # before the run, which may take long
        check_apart(inputs=inputs, outputs=outputs)
    executable = runners.load_module(library)
    specs = executable.signature("main")["params"]
    arrays = _arrays(specs, inputs, shape, seed)
    machine = runners.VirtualMachine(executable, profile=profile)
    main = machine["main"]
    if runs_in_process(machine):
        require_survives(lambda: main(*arrays.values()))
    result = main(*arrays.values())
    found = flatten(result)
    described = [_described(value) for value in found]
    if not as_json:
        for number, item in enumerate(described):
            out.print(f"output {number}: {_text(item)}")
    if outputs is not None:
        with outputs.open("wb") as file:  # given a path, numpy adds .npz to a name without it
            np.savez(file, *found)
        with zipfile.ZipFile(outputs, "a") as archive:  # what numpy writes is no other file than anybody's
            archive.comment = ARRAYS.mark
    accuracy: Accuracy | None = None
    if check is not None:
        if tolerance is None:
            tolerance = tolerance_for(formats_of(executable, found))
        accuracy = _compare(check, list(arrays.values()), found, tolerance)
        if not as_json:
            for line in accuracy.lines("ONNX Runtime"):
                out.print(line)
    parts = machine.timed_parts("main", *arrays.values()) if profile else []
    if as_json:
        answer: dict[str, Any] = {"outputs": described}
        if accuracy is not None:
            answer["check"] = {**asdict(accuracy), "holds": accuracy.holds}
        if profile:
            answer["profile"] = [asdict(part) for part in parts]
        print_json(answer)
    elif profile:
        out.print(profile_table(parts), soft_wrap=True)
    if accuracy is not None and not accuracy.holds:
        raise TunerError(
            f"{accuracy.refusal('ONNX Runtime')} (--tolerance, by default that of the model's narrowest numbers)"
        )


def _described(value: np.ndarray) -> dict[str, Any]:
    """Type, shape and, where there are elements, their mean and extremes."""
    numbers = {"mean": value.mean(), "min": value.min(), "max": value.max()} if value.size else {}
    return {
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        **{name: float(number) for name, number in numbers.items()},
    }


def _text(item: dict[str, Any]) -> str:
    numbers = "".join(f"  {name} {item[name]:.6g}" for name in ("mean", "min", "max") if name in item)
    return f"{item['dtype']}{item['shape']}{numbers}"


def _arrays(
    specs: list[dict[str, Any]], path: Path | None, shapes: list[str], seed: int
) -> dict[str, np.ndarray]:
    if path is None:
        return random_arguments(specs, shapes, seed)
    if shapes:
        raise TunerError(f"--shape {shapes[0]} is for random inputs; those of --inputs have their own shapes")
    return read_arguments(specs, path)


def _compare(path: Path, arrays: list[np.ndarray], found: list[np.ndarray], tolerance: float) -> Accuracy:
    session = onnx_session(path, threads=0)
    wanted = run_session(session, [item.name for item in session.get_inputs()], arrays)
    if len(wanted) != len(found):
        raise TunerError(
            f"{path} has {len(wanted)} outputs, the library {len(found)}; they are not the same model"
        )
    return compare_outputs(found, wanted, tolerance, lambda: float64_outputs(path, arrays))

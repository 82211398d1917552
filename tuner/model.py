"""Models by name: an ONNX file, or an architecture of the zoo. The command line and comparisons begin with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from ir import IRModule
from ir.relax.frontend.onnx import from_onnx, to_onnx
from ir.relax.function import Function

from .error import TunerError
from .zoo.catalog import load


@dataclass
class Model:
    """A module with its weights bound or given, and inputs to try it on."""

    name: str
    mod: IRModule
    params: dict[str, Any]
    make_inputs: Callable[[], dict[str, np.ndarray]]
    onnx_path: Path | None = None
    """The file that it comes from; models of the zoo have none."""

    @cached_property
    def inputs(self) -> dict[str, np.ndarray]:
        """Arrays by the inputs' names, made when somebody runs the model: they may be large."""
        return self.make_inputs()


def load_model(
    path: Path | None, zoo: str | None, shapes: list[str], seed: int = 0, *, dynamic: bool = False
) -> Model:
    """The model that a file or ``--zoo`` names.

    Args:
        path, zoo: one of both.
        shapes: of inputs, as ``name:1,3,224,224``.
        seed: of the weights of architectures, and of inputs.
        dynamic: dimensions without a value stay open.

    Raises:
        TunerError: neither or both are given, the file is missing, or a dimension has no value.
        ONNXImportError: the file is damaged or has unsupported operators.
    """
    if (path is None) == (zoo is None):
        raise TunerError("name one model: an ONNX file, or --zoo with an architecture")
    if zoo is not None:
        if shapes:
            raise TunerError(
                f"--shape {shapes[0]} is for ONNX files; the inputs of {zoo} have shapes of their own"
            )
        mod, params, inputs = load(zoo, seed=seed)
        return Model(zoo, mod, params, lambda: inputs)
    assert path is not None
    if path.is_dir():
        raise TunerError(f"{path} is a folder; name an ONNX file in it")
    if not path.is_file():
        raise TunerError(
            f"there is no file {path}; check the path, or use --zoo for an architecture without a file"
        )
    try:
        mod = from_onnx(str(path), shape_dict=parse_shapes(shapes) or None)
    except ImportError as error:
        raise TunerError(
            f"reading ONNX files needs the extra: pip install 'loopsmith[onnx]' ({error})"
        ) from error
    if not dynamic:
        require_static(mod, path)
    return Model(path.stem, mod, {}, partial(random_inputs, mod, seed), onnx_path=path)


def exported(model: Model) -> bytes:
    """A model as the contents of an ONNX file.

    Raises:
        ONNXExportError: the model cannot be exported, or onnx is not installed.
    """
    data: bytes = to_onnx(model.mod, model.params).SerializeToString()
    return data


def parse_shapes(items: list[str]) -> dict[str, list[int]]:
    """``name:1,3,224,224`` options as a dictionary."""
    result = {}
    for item in items:
        name, _, dims = item.rpartition(":")
        try:
            result[name] = [int(dim) for dim in dims.replace("x", ",").split(",")]
        except ValueError:
            raise TunerError(f"--shape {item!r} is not of the form name:1,3,224,224") from None
        if not name or any(dim < 1 for dim in result[name]):
            raise TunerError(f"--shape {item!r} is not of the form name:1,3,224,224 with positive numbers")
    return result


def _inputs_of(mod: IRModule) -> list[tuple[str, Any]]:
    main = mod["main"]
    assert isinstance(main, Function), "models are Relax functions"
    count = main.attrs.get("num_input", len(main.params))
    return [(param.name_hint, param.struct_info) for param in main.params[: int(count)]]


def require_static(mod: IRModule, path: Path) -> None:
    """Refuse inputs with open dimensions, naming them and the option that fills them in."""
    open_inputs, examples = [], []
    for name, info in _inputs_of(mod):
        dims = (
            list(info.shape.values)
            if getattr(info, "shape", None) is not None and hasattr(info.shape, "values")
            else []
        )
        if any(not hasattr(dim, "value") for dim in dims):
            shown = ",".join(str(getattr(dim, "value", getattr(dim, "name", "?"))) for dim in dims)
            open_inputs.append(f"{name} ({shown})")
            examples.append(f"--shape {name}:{','.join(str(getattr(dim, 'value', 1)) for dim in dims)}")
    if open_inputs:
        raise TunerError(
            f"{path}: dynamic dimensions have no value in inputs {'; '.join(open_inputs)}."
            f" Give each a shape, such as {' '.join(examples)}"
        )


def random_inputs(mod: IRModule, seed: int) -> dict[str, np.ndarray]:
    """Random arrays for the inputs of ``main`` whose shapes are known: normal floats, small non-negative integers."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for name, info in _inputs_of(mod):
        if all(hasattr(dim, "value") for dim in info.shape.values):
            shape = [int(dim.value) for dim in info.shape.values]
            arrays[name] = random_array(generator, shape, info.dtype)
    return arrays


def random_arguments(
    specs: Sequence[Mapping[str, Any]], shapes: list[str], seed: int = 0
) -> dict[str, np.ndarray]:
    """Random arrays for the parameters of a built function.

    Args:
        specs: the parameters, as :meth:`runners.Executable.signature` has them; an extent that is open is a name.
        shapes: of parameters with open extents, as ``name:1,3,224,224``.
        seed: of the numbers.

    Raises:
        TunerError: a parameter is no tensor or has open extents and no shape, or a shape fits none.
    """
    given, generator, arrays = parse_shapes(shapes), np.random.default_rng(seed), {}
    for spec in specs:
        name, declared = str(spec["name"]), spec.get("shape")
        if declared is None:
            raise TunerError(
                f"input {name} is no tensor of known rank, of which there are no random ones; give it with --inputs, or in Python"
            )
        shape = given.pop(name, None if any(isinstance(item, str) for item in declared) else declared)
        shown = ",".join(str(item) for item in declared)
        if shape is None:
            example = ",".join("1" if isinstance(item, str) else str(item) for item in declared)
            raise TunerError(
                f"input {name} ({shown}) has open dimensions; give it a shape, such as --shape {name}:{example}"
            )
        fits = len(shape) == len(declared) and all(
            isinstance(item, str) or item == extent for item, extent in zip(declared, shape)
        )
        if not fits:
            raise TunerError(
                f"--shape {name}:{','.join(map(str, shape))} does not fit input {name} ({shown})"
            )
        arrays[name] = random_array(generator, list(shape), str(spec["dtype"]))
    if given:
        names = ", ".join(str(spec["name"]) for spec in specs)
        raise TunerError(f"--shape {next(iter(given))}: the model has no such input; it has {names}")
    return arrays


def read_arguments(specs: Sequence[Mapping[str, Any]], path: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file for the parameters of a built function.

    Args:
        specs: the parameters, as :meth:`runners.Executable.signature` has them.
        path: of the file, which has an array for each.

    Raises:
        TunerError: there is no such file, it is none that numpy can read, or its arrays are not those of the parameters.
    """
    if not path.is_file():
        raise TunerError(f"there is no file {path} with inputs")
    names = [str(spec["name"]) for spec in specs]
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
    except TunerError:
        raise
    except Exception as error:
        # Of a damaged file zipfile, zlib and numpy raise whatever they come upon, and numpy says of everything that it does not know that
        # it might be a pickle, which it must not load.
        raise TunerError(
            f"{path} is no .npz file that numpy can read, with an array of numbers per input; {advice}"
        ) from error


def random_array(generator: np.random.Generator, shape: list[int], dtype: str) -> np.ndarray:
    """A random array of a dtype."""
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.startswith(("int", "uint")):
        return generator.integers(0, 2, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)

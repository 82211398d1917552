"""VirtualMachine: calls the functions of a built model on arrays, without copying them.

A function with static shapes is one native function: the machine checks the arguments, hands over pointers, and returns the
outputs. A function with symbolic shapes, control flow or calls of registered Python functions is a list of
instructions that :mod:`runners.interpreter` executes.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import as_numpy, number_as
from .device import Device, cpu
from .executable import Executable
from .interpreter import Interpreter, given_arrays, refuse_read_only, wrap
from .ndarray import address_of, aligned_empty, maker, numpy_dtype
from .profile import profile_table
from .program import ArgumentError, ExecutableError

_NATIVE_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 5)
_PROFILED_CALLS = 5


def _mismatch(name: str, spec: dict[str, Any], array: np.ndarray[Any, Any]) -> ArgumentError:
    kind = array.dtype.name
    if not array.dtype.isnative:
        kind += f" of the other byte order ({array.dtype.str})"
    got, wanted = f"{kind}{list(array.shape)}", f"{spec['dtype']}{spec['shape']}"
    hint = ""
    if list(array.shape) == list(spec["shape"]):
        hint = f"; convert it with .astype({spec['dtype']!r})"
    return ArgumentError(f"argument {name} must be {wanted}, got {got}{hint}")


def _mentions_inputs(spec: Any) -> bool:
    """Whether a result is put together from arrays that were passed."""
    if isinstance(spec, list):
        return any(map(_mentions_inputs, spec))
    return isinstance(spec, dict) and "input" in spec


class _Frame:
    """What one thread needs to call a native function: its workspace, and tables for the addresses of arrays."""

    __slots__ = ("_kept", "inputs", "outputs", "pointers")

    def __init__(self, entry: dict[str, Any], constants: int) -> None:
        """``constants`` is the address of the table of constants."""
        workspace = aligned_empty((max(64, entry["workspace_bytes"]),), "uint8")
        self._kept = workspace
        self.inputs = (ctypes.c_void_p * max(1, len(entry["inputs"])))()
        self.outputs = (ctypes.c_void_p * max(1, len(entry["outputs"])))()
        self.pointers = (
            ctypes.addressof(self.inputs),
            ctypes.addressof(self.outputs),
            constants,
            address_of(workspace),
        )


class NativeFunction:
    """A function of static shapes: one call from here to its last kernel.

    ``call_flat`` takes the flattened input arrays and returns the flattened outputs; the workspace belongs to the calling thread.
    """

    def __init__(self, name: str, entry: dict[str, Any], executable: Executable) -> None:
        self.name = name
        self.entry = entry
        self.inputs: list[dict[str, Any]] = entry["inputs"]
        self.outputs: list[dict[str, Any]] = entry["outputs"]
        self._library = executable.library
        self._constants = executable.constants
        self._function = _NATIVE_TYPE(executable.library.address(entry["symbol"]))
        self._constant_table = (ctypes.c_void_p * max(1, len(self._constants)))(
            *[value.ctypes.data for value in self._constants]
        )
        self._returns_inputs = _mentions_inputs(entry["result"])
        self._written = [index for index, spec in enumerate(self.inputs) if spec.get("written")]
        self._expected = [(tuple(spec["shape"]), numpy_dtype(spec["dtype"])) for spec in self.inputs]
        self._make = [maker(spec["shape"], spec["dtype"]) for spec in self.outputs]
        self._params: list[tuple[dict[str, Any], str, str | None]] = [
            (param, param["name"], param.get("dtype")) for param in entry["params"]
        ]
        self._local = threading.local()

    def _frame(self) -> _Frame:
        found: _Frame | None = getattr(self._local, "frame", None)
        if found is None:
            found = self._local.frame = _Frame(self.entry, ctypes.addressof(self._constant_table))
        return found

    def check(self, arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """The arrays as the code can read them; raises ArgumentError naming the first that does not fit."""
        for index in self._written:
            refuse_read_only(arrays[index], self.inputs[index]["name"])
        ready = []
        for array, spec, (shape, kind) in zip(arrays, self.inputs, self._expected, strict=True):
            if array.shape != shape or array.dtype != kind:
                raise _mismatch(spec["name"], spec, array)
            flags = array.flags
            if not flags.c_contiguous or not flags.aligned:
                copied = aligned_empty(shape, kind)
                copied[...] = array
                array = copied
            ready.append(array)
        return ready

    def call_flat(
        self, arrays: Sequence[np.ndarray[Any, Any]], outputs: Sequence[np.ndarray[Any, Any]] | None = None
    ) -> list[np.ndarray[Any, Any]]:
        """Run on checked arrays; ``outputs`` may give the arrays to write into."""
        results = [make() for make in self._make] if outputs is None else list(outputs)
        frame = self._frame()
        self._run(self._filled(frame, arrays, results))
        return results

    def bind(
        self, arrays: Sequence[np.ndarray[Any, Any]], outputs: Sequence[np.ndarray[Any, Any]]
    ) -> Callable[[], None]:
        """A call on these arrays, which were checked, with nothing left to prepare."""
        frame = _Frame(self.entry, ctypes.addressof(self._constant_table))
        pointers = self._filled(frame, arrays, outputs)

        def call(_kept: Any = (frame, arrays, outputs)) -> None:
            self._run(pointers)

        return call

    @staticmethod
    def _filled(frame: _Frame, arrays: Sequence[Any], results: Sequence[Any]) -> tuple[int, int, int, int]:
        table = frame.inputs
        for index, array in enumerate(arrays):
            table[index] = address_of(array)
        table = frame.outputs
        for index, array in enumerate(results):
            table[index] = address_of(array)
        return frame.pointers

    def _run(self, pointers: tuple[int, int, int, int], times: int | None = None) -> None:
        status = self._function(*pointers, times)
        if status != 0:
            message = self._library.last_error() or f"status {status}"
            raise ExecutableError(f"function {self.name} failed: {message}")

    def __call__(self, *args: Any) -> Any:
        return wrap(self.run(*args), given_arrays(args) if self._returns_inputs else None)

    def profile(self, *args: Any) -> str:
        """Run some times and return a table of the median time of each kernel (see :mod:`runners.profile`)."""
        arrays = self.check(self.flatten(args))
        results = [make() for make in self._make]
        pointers = self._filled(self._frame(), arrays, results)
        kernels = self.entry["calls"]
        clock = np.zeros((_PROFILED_CALLS, len(kernels) + 1, 2), "int64")  # seconds and nanoseconds
        for call in clock:
            self._run(pointers, call.ctypes.data)
        seconds = clock[..., 0] - clock[0, 0, 0] + clock[..., 1] * 1e-9
        return profile_table(zip(np.median(np.diff(seconds), axis=0).tolist(), kernels, strict=True))

    def run(self, *args: Any) -> Any:
        """Call on arrays of any kind; the result is made of numpy arrays."""
        arrays = self.check(self.flatten(args))
        results = self.call_flat(arrays)
        return self._result(self.entry["result"], arrays, results)

    def flatten(self, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The arrays of a call's arguments, tuples taken apart.

        Raises:
            ArgumentError: an argument is missing, too many, or of the wrong kind.
        """
        if len(args) != len(self._params):
            names = ", ".join(name for _, name, _ in self._params)
            raise ArgumentError(
                f"function {self.name} takes {len(self._params)} arguments ({names}), got {len(args)}"
            )
        flat: list[np.ndarray[Any, Any]] = []
        for value, (param, name, dtype) in zip(args, self._params, strict=True):
            if dtype is not None:
                flat.append(as_numpy(value, name, dtype))
            else:
                self._flatten(value, param, name, flat)
        return flat

    def _flatten(
        self, value: Any, param: dict[str, Any], name: str, flat: list[np.ndarray[Any, Any]]
    ) -> None:
        if "fields" not in param:
            if "shape_value" in param:
                wanted = param["shape_value"]
                if not isinstance(value, Sequence):
                    raise ArgumentError(
                        f"argument {name} must be the shape {wanted}, got {type(value).__name__}"
                    )
                if [int(number_as(item, "int64", f"argument {name}: an extent")) for item in value] != wanted:
                    raise ArgumentError(f"argument {name} must be the shape {wanted}, got {list(value)}")
                return
            flat.append(as_numpy(value, name, param.get("dtype")))
            return
        if not isinstance(value, Sequence) or len(value) != len(param["fields"]):
            raise ArgumentError(
                f"argument {name} must be a tuple of {len(param['fields'])} arrays, got {type(value).__name__}"
            )
        for index, (item, spec) in enumerate(zip(value, param["fields"], strict=True)):
            self._flatten(item, spec, f"{name}[{index}]", flat)

    def _result(self, spec: Any, inputs: list[Any], outputs: list[Any]) -> Any:
        if isinstance(spec, int):
            return outputs[spec]
        if isinstance(spec, list):
            return tuple(self._result(item, inputs, outputs) for item in spec)
        kind, value = next(iter(spec.items()))
        if kind == "input":
            return inputs[value]
        if kind == "constant":
            return self._constants[value]
        if kind == "view":
            return self._result(value[0], inputs, outputs).reshape(value[1])
        return tuple(value) if kind == "shape" else value


@dataclass(frozen=True)
class BenchmarkResult:
    """Times of repeated runs, in seconds per call."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the repeats."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """Median over the repeats."""
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        """Fastest repeat."""
        return float(np.min(self.results))

    @property
    def max(self) -> float:
        """Slowest repeat."""
        return float(np.max(self.results))

    @property
    def std(self) -> float:
        """Standard deviation of the repeats."""
        return float(np.std(self.results))

    def __str__(self) -> str:
        parts = (
            f"{name} {getattr(self, name) * 1e3:.4f} ms" for name in ("mean", "median", "min", "max", "std")
        )
        return ", ".join(parts)


class VirtualMachine:
    """Runs an executable.

    >>> vm = VirtualMachine(executable, cpu())          # doctest: +SKIP
    >>> y = vm["main"](x)                               # doctest: +SKIP

    Args:
        rt_mod: what ``relax.build`` or :func:`~runners.executable.load_module` returned.
        device: where to run; the processor.
        profile: allow :meth:`profile`. Calls cost the same either way; a machine for production has no use for it.
    """

    def __init__(
        self,
        rt_mod: Executable,
        device: Device | Sequence[Device] | None = None,
        profile: bool = False,
    ) -> None:
        if not isinstance(rt_mod, Executable):
            raise ExecutableError(
                f"VirtualMachine takes an Executable, got {type(rt_mod).__name__}; make one with relax.build or load_module"
            )
        devices = [cpu()] if device is None else [device] if isinstance(device, Device) else list(device)
        if devices[0].device_type != Device.kDLCPU:
            raise ExecutableError(
                f"this model was built for the processor, it cannot run on {devices[0]}; use runners.cpu()"
            )
        self.executable = rt_mod
        self.device = devices[0]
        self._profiles = profile
        self._functions: dict[str, Callable[..., Any]] = {}
        self._saved: dict[str, Callable[..., Any]] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}

    @property
    def module(self) -> dict[str, Callable[..., Any]]:
        """The functions by name (those saved by :meth:`save_function` too)."""
        return {**{name: self[name] for name in self.executable.function_names}, **self._saved}

    def __getitem__(self, key: str) -> Callable[..., Any]:
        found = self._functions.get(key) or self._saved.get(key)
        if found is None:
            entries = self.executable.metadata["functions"]
            if key not in entries:
                raise ExecutableError(
                    f"the model has no function {key!r}; it has {', '.join(self.executable.function_names)}"
                )
            entry = entries[key]
            if entry["kind"] == "native":
                found = NativeFunction(key, entry, self.executable)
            else:
                found = Interpreter(key, self.executable, self.__getitem__)
            self._functions[key] = found
        return found

    def invoke_closure(self, closure: Callable[..., Any], *args: Any) -> Any:
        """Call a function value that the model returned."""
        return closure(*args)

    def save_function(
        self, func_name: str, saved_name: str, *args: Any, include_return: bool = True, **kwargs: Any
    ) -> None:
        """Keep a call with its arguments under a new name: ``vm[saved_name]()`` runs it.

        Args:
            include_return: whether the saved call returns the result (without it, timing leaves out the conversion).
        """
        function = self[func_name]
        if saved_name in self.executable.metadata["functions"]:
            raise ExecutableError(
                f"cannot save a call as {saved_name!r}: the model has a function of that name"
            )
        values = self._with_keywords(func_name, args, kwargs)

        def saved() -> Any:
            result = function(*values)
            return result if include_return else None

        self._saved[saved_name] = saved

    def _with_keywords(self, func_name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        if not kwargs:
            return tuple(args)
        names = [param["name"] for param in self.executable.metadata["functions"][func_name]["params"]]
        unknown = [name for name in kwargs if name not in names]
        if unknown:
            raise ArgumentError(
                f"function {func_name} has no argument {unknown[0]!r}; its arguments are {', '.join(names)}"
            )
        rest = [name for name in names[len(args) :]]
        missing = [name for name in rest if name not in kwargs]
        if missing:
            raise ArgumentError(f"function {func_name}: argument {missing[0]} is missing")
        return (*args, *[kwargs[name] for name in rest])

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set the arguments of a later :meth:`invoke_stateful`, by position or by name."""
        self[func_name]
        self._inputs[func_name] = self._with_keywords(func_name, args, kwargs)

    def invoke_stateful(self, func_name: str) -> None:
        """Run the function on what :meth:`set_input` set; :meth:`get_outputs` reads the result."""
        if func_name not in self._inputs:
            raise ExecutableError(
                f"no inputs are set for {func_name!r}; call set_input({func_name!r}, ...) first"
            )
        self._outputs[func_name] = self[func_name](*self._inputs[func_name])

    def get_outputs(self, func_name: str) -> Any:
        """What the last :meth:`invoke_stateful` returned: an array, or a tuple."""
        if func_name not in self._outputs:
            raise ExecutableError(
                f"function {func_name!r} has not run; call invoke_stateful({func_name!r}) first"
            )
        return self._outputs[func_name]

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> Callable[..., BenchmarkResult]:
        """A function that runs ``func_name`` on its arguments and returns a :class:`BenchmarkResult`.

        Args:
            dev: where the model runs: the machine's device, or None.
            number: calls per repeat; raised until a repeat takes at least ``min_repeat_ms``.
            repeat: how many times are measured.
            cooldown_interval_ms: pause after every ``repeats_to_cooldown`` repeats.
        """
        if dev is not None and dev != self.device:
            raise ExecutableError(f"{func_name} is timed where it runs, on {self.device}, not on {dev}")
        function = self[func_name]

        def evaluate(*args: Any) -> BenchmarkResult:
            run = _timed_call(function, args)
            run(1)
            count, times = number, []
            for index in range(repeat):
                while True:
                    seconds = run(count)
                    if seconds * 1e3 >= min_repeat_ms:
                        break
                    count = max(
                        count + 1, int(count * min(10.0, 1.1 * min_repeat_ms / max(seconds * 1e3, 1e-3)))
                    )
                times.append(seconds / count)
                if cooldown_interval_ms and (index + 1) % max(1, repeats_to_cooldown) == 0:
                    time.sleep(cooldown_interval_ms / 1e3)
            return BenchmarkResult(tuple(times))

        return evaluate

    def profile(self, func_name: str, *args: Any) -> str:
        """Run a function and return a table of the time that each kernel of it (or instruction of the machine) took.

        Kernels run as they do in any other call: with the caches as the kernel before left them. There are several calls: a function that
        overwrites an argument does so in each.

        Raises:
            ExecutableError: the machine was not made with ``profile=True``.
        """
        if not self._profiles:
            raise ExecutableError(
                f"profile of {func_name!r}: make the machine for it, with VirtualMachine(..., profile=True)"
            )
        function = self[func_name]
        function(*args)
        if isinstance(function, Interpreter | NativeFunction):
            return function.profile(*args)
        return profile_table([(_timed_call(function, args)(1), func_name)])


def _timed_call(function: Callable[..., Any], args: Iterable[Any]) -> Callable[[int], float]:
    """A function that runs ``function`` ``count`` times and returns the seconds; preparation is left out for native ones."""
    values = tuple(args)
    if isinstance(function, NativeFunction):
        arrays = function.check(function.flatten(values))
        call = function.bind(arrays, function.call_flat(arrays))

        def run_native(count: int) -> float:
            begin = time.perf_counter()
            for _ in range(count):
                call()
            return time.perf_counter() - begin

        return run_native

    def run(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            function(*values)
        return time.perf_counter() - begin

    return run

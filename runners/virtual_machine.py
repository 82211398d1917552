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

from .arguments import in_order, number_as
from .benchmark import BenchmarkResult, Repeats
from .device import Device
from .executable import Executable
from .graphs import StaticParts
from .home import Home
from .homes import home_of
from .interpreter import Interpreter, given_arrays, wrap
from .ndarray import numpy_dtype
from .profile import TimedPart, profile_table, timed_parts
from .program import ArgumentError, ExecutableError

_NATIVE_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 6)
_PROFILED_CALLS = 5


def _mismatch(name: str, spec: dict[str, Any], array: Any) -> ArgumentError:
    kind = array.dtype.name
    if not array.dtype.isnative:
        kind += f" of the other byte order ({array.dtype.str})"
    got, wanted = f"{kind}{list(array.shape)}", f"{spec['dtype']}{spec['shape']}"
    hint = ""
    if list(array.shape) == list(spec["shape"]):
        hint = f"; convert it with .astype({spec['dtype']!r})"
    return ArgumentError(f"argument {name} must be {wanted}, got {got}{hint}")


def _flat(args: Sequence[Any], params: Sequence[dict[str, Any]]) -> list[Any]:
    """What was passed for each array, tuples taken apart."""
    found: list[Any] = []
    for value, param in zip(args, params, strict=True):
        if "fields" in param:
            found += _flat(value, param["fields"])
        elif "shape_value" not in param:
            found.append(value)
    return found


def _mentions_inputs(spec: Any) -> bool:
    """Whether a result is put together from arrays that were passed."""
    if isinstance(spec, list):
        return any(map(_mentions_inputs, spec))
    return isinstance(spec, dict) and "input" in spec


class _Frame:
    """What one thread needs to call a native function: its workspace, and tables for the addresses of arrays."""

    __slots__ = ("_kept", "inputs", "outputs", "pointers")

    def __init__(self, entry: dict[str, Any], home: Home, constants: int) -> None:
        """``constants`` is the address of the table of constants."""
        workspace = home.memory(max(64, entry["workspace_bytes"]))
        self._kept = workspace
        self.inputs = (ctypes.c_void_p * max(1, len(entry["inputs"])))()
        self.outputs = (ctypes.c_void_p * max(1, len(entry["outputs"])))()
        self.pointers = (
            ctypes.addressof(self.inputs),
            ctypes.addressof(self.outputs),
            constants,
            home.address_of(workspace),
        )


class NativeFunction:
    """A function of static shapes: one call from here to its last kernel.

    ``call_flat`` takes the flattened input arrays and returns the flattened outputs; the workspace belongs to the calling thread.
    """

    def __init__(self, name: str, entry: dict[str, Any], executable: Executable, home: Home) -> None:
        self.name = name
        self.entry = entry
        self.home = home
        self._address_of = home.address_of
        self.inputs: list[dict[str, Any]] = entry["inputs"]
        self.outputs: list[dict[str, Any]] = entry["outputs"]
        self._library = executable.library
        self._constants = executable.constants_at(home)
        self._function = _NATIVE_TYPE(executable.library.address(entry["symbol"]))
        self._constant_table = (ctypes.c_void_p * max(1, len(self._constants)))(
            *[home.address_of(value) for value in self._constants]
        )
        self._returns_inputs = _mentions_inputs(entry["result"])
        self._apart: list[list[int]] = entry.get("apart", [])
        self._written = [index for index, spec in enumerate(self.inputs) if spec.get("written")]
        self._expected = [(tuple(spec["shape"]), numpy_dtype(spec["dtype"])) for spec in self.inputs]
        self._make = [home.maker(spec["shape"], spec["dtype"]) for spec in self.outputs]
        self._params: list[tuple[dict[str, Any], str, str | None]] = [
            (param, param["name"], param.get("dtype")) for param in entry["params"]
        ]
        self._local = threading.local()

    def _frame(self) -> _Frame:
        frames: dict[Any, _Frame] | None = getattr(self._local, "frames", None)
        if frames is None:
            frames = self._local.frames = {}
        key = self.home.frame_key()
        found = frames.get(key)
        if found is None:
            found = frames[key] = self._new_frame()
        return found

    def _new_frame(self) -> _Frame:
        return _Frame(self.entry, self.home, ctypes.addressof(self._constant_table))

    def arguments(self, args: Sequence[Any]) -> list[Any]:
        """The arrays of a call's arguments as the code can read them.

        Raises:
            ArgumentError: an argument is missing, too many, of the wrong kind, or does not fit; the message names it.
        """
        arrays = self.flatten(args)
        if self._written:
            given = _flat(args, self.entry["params"])
            for index in self._written:
                self.home.refuse_read_only(arrays[index], self.inputs[index]["name"], given[index])
        ready = self.check(arrays)
        for written, other in self._apart:
            names = self.inputs[written]["name"], self.inputs[other]["name"]
            self.home.refuse_shared(ready[written], ready[other], names)
        return ready

    def check(self, arrays: Sequence[Any]) -> list[Any]:
        """Arrays in the right place as the code can read them; raises ArgumentError naming the first that does not fit."""
        dense, ready = self.home.dense, []
        for array, spec, (shape, kind) in zip(arrays, self.inputs, self._expected, strict=True):
            if array.shape != shape or array.dtype != kind:
                raise _mismatch(spec["name"], spec, array)
            ready.append(dense(array))
        return ready

    def call_flat(self, arrays: Sequence[Any], outputs: Sequence[Any] | None = None) -> list[Any]:
        """Run on checked arrays; ``outputs`` may give the arrays to write into."""
        results = [make() for make in self._make] if outputs is None else list(outputs)
        frame = self._frame()
        self._run(self._filled(frame, arrays, results))
        return results

    def bind(self, arrays: Sequence[Any], outputs: Sequence[Any]) -> Callable[[], None]:
        """A call on these arrays, which were checked, with nothing left to prepare."""
        frame = self._new_frame()
        pointers = self._filled(frame, arrays, outputs)

        def call(_kept: Any = (frame, arrays, outputs)) -> None:
            self._run(pointers)

        return call

    def _filled(
        self, frame: _Frame, arrays: Sequence[Any], results: Sequence[Any]
    ) -> tuple[int, int, int, int]:
        address, table = self._address_of, frame.inputs
        for index, array in enumerate(arrays):
            table[index] = address(array)
        table = frame.outputs
        for index, array in enumerate(results):
            table[index] = address(array)
        return frame.pointers

    def _run(self, pointers: tuple[int, int, int, int], times: int | None = None) -> None:
        status = self._function(*pointers, times, self.home.queue())
        if status != 0:
            refused = self.home.failure(f"function {self.name}")
            if refused is not None:
                raise refused
            message = self._library.last_error() or f"status {status}"
            raise ExecutableError(f"function {self.name} failed: {message}")

    def __call__(self, *args: Any, **named: Any) -> Any:
        if named:
            args = in_order(self.name, [name for _, name, _ in self._params], args, named)
        return wrap(self.run(*args), given_arrays(args) if self._returns_inputs else None)

    def timed_parts(self, *args: Any) -> list[TimedPart]:
        """Run some times; the kernels in order, with the median time of each."""
        arrays = self.arguments(args)
        results = [make() for make in self._make]
        pointers = self._filled(self._frame(), arrays, results)
        calls = []
        for _ in range(_PROFILED_CALLS):
            with self.home.profiling() as launches:
                calls.append(self._times_of_kernels(pointers) if launches is None else launches)
                if launches is not None:
                    self._run(pointers)
        seconds = np.median([[secs for secs, _ in rows] for rows in calls], axis=0)
        return timed_parts(zip(seconds.tolist(), [name for _, name in calls[0]], strict=True))

    def _times_of_kernels(self, pointers: tuple[int, int, int, int]) -> list[tuple[float, str]]:
        """The seconds of each kernel in one call, by the processor's clock."""
        kernels = self.entry["calls"]
        clock = np.zeros((len(kernels) + 1, 2), "int64")  # seconds and nanoseconds
        self._run(pointers, clock.ctypes.data)
        seconds = clock[:, 0] - clock[0, 0] + clock[:, 1] * 1e-9
        return list(zip(np.diff(seconds).tolist(), kernels, strict=True))

    def run(self, *args: Any) -> Any:
        """Call on arrays of any kind; the result is made of raw arrays."""
        arrays = self.arguments(args)
        results = self.call_flat(arrays)
        return self._result(self.entry["result"], arrays, results)

    def flatten(self, args: Sequence[Any]) -> list[Any]:
        """The arrays of a call's arguments, tuples taken apart.

        Raises:
            ArgumentError: an argument is missing, too many, or of the wrong kind.
        """
        if len(args) != len(self._params):
            names = ", ".join(name for _, name, _ in self._params)
            raise ArgumentError(
                f"function {self.name} takes {len(self._params)} arguments ({names}), got {len(args)}"
            )
        flat: list[Any] = []
        argument = self.home.argument
        for value, (param, name, dtype) in zip(args, self._params, strict=True):
            if dtype is not None:
                flat.append(argument(value, name, dtype))
            else:
                self._flatten(value, param, name, flat)
        return flat

    def _flatten(self, value: Any, param: dict[str, Any], name: str, flat: list[Any]) -> None:
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
            flat.append(self.home.argument(value, name, param.get("dtype")))
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
class SavedCall:
    """A call with its arguments."""

    function: Callable[..., Any]
    values: tuple[Any, ...]
    include_return: bool
    """Whether the call gives what the function returns."""

    def __call__(self) -> Any:
        result = self.function(*self.values)
        return result if self.include_return else None


class VirtualMachine:
    """Runs an executable.

    >>> vm = VirtualMachine(executable, cpu())          # doctest: +SKIP
    >>> y = vm["main"](x)                               # doctest: +SKIP

    Args:
        rt_mod: what ``relax.build`` or :func:`~runners.executable.load_module` returned, or ``load_module`` of a session with a device
            elsewhere (:mod:`runners.rpc`).
        device: where to run: the processor, or the CUDA device that the model was built for. By default that is found.
        profile: allow :meth:`profile`. Calls cost the same either way; a machine for production has no use for it.
    """

    def __new__(cls, rt_mod: Any, *_: Any, **__: Any) -> VirtualMachine:
        """Of a program that is elsewhere, a machine of the kind that it names in its attribute ``machine``."""
        kind: type[VirtualMachine] = getattr(rt_mod, "machine", cls)
        return super().__new__(kind)

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
        self.home = home_of(rt_mod, device)
        self._static = StaticParts(self.home)
        self._start(rt_mod, self.home.device, profile)

    def _start(self, executable: Any, device: Device, profile: bool) -> None:
        """What machines of all kinds have."""
        self.executable = executable
        self.device = device
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
                found = NativeFunction(key, entry, self.executable, self.home)
            else:
                found = Interpreter(key, self.executable, self.__getitem__, self.home, self._static)
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
        values = self._ordered(func_name, args, kwargs)
        self._saved[saved_name] = SavedCall(function, values, include_return)

    def _ordered(self, func_name: str, args: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...]:
        params = self.executable.metadata["functions"][func_name]["params"]
        return in_order(func_name, [param["name"] for param in params], args, named)

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set the arguments of a later :meth:`invoke_stateful`, by position or by name."""
        self[func_name]
        self._inputs[func_name] = self._ordered(func_name, args, kwargs)

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
        repeats = Repeats(number, repeat, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)
        return lambda *args: self._times(function, args, repeats)

    def _times(self, function: Callable[..., Any], args: Sequence[Any], repeats: Repeats) -> BenchmarkResult:
        return repeats.times(_timed_call(function, args, self.home))

    def profile(self, func_name: str, *args: Any) -> str:
        """Run a function and return a table of the time that each kernel of it (or instruction of the machine) took.

        Kernels run as they do in any other call: with the caches as the kernel before left them. There are several calls: a function that
        overwrites an argument does so in each.

        Raises:
            ExecutableError: the machine was not made with ``profile=True``.
        """
        self._require_profile(func_name)
        return self._profiled(self[func_name], func_name, args)

    def timed_parts(self, func_name: str, *args: Any) -> list[TimedPart]:
        """What :meth:`profile` prints, as data: the parts of a call in the order in which they run.

        Raises:
            ExecutableError: the machine was not made with ``profile=True``, or a device elsewhere runs it, which tells a table only.
        """
        self._require_profile(func_name)
        return self._parts(self[func_name], func_name, args)

    def _require_profile(self, func_name: str) -> None:
        if not self._profiles:
            raise ExecutableError(
                f"profile of {func_name!r}: make the machine for it, with VirtualMachine(..., profile=True)"
            )

    def _profiled(self, function: Callable[..., Any], func_name: str, args: Sequence[Any]) -> str:
        return profile_table(self._parts(function, func_name, args))

    def _parts(self, function: Callable[..., Any], func_name: str, args: Sequence[Any]) -> list[TimedPart]:
        function(*args)
        if isinstance(function, Interpreter | NativeFunction):
            return function.timed_parts(*args)
        return timed_parts([(_timed_call(function, args, self.home)(1), func_name)])


def _timed_call(function: Callable[..., Any], args: Iterable[Any], home: Home) -> Callable[[int], float]:
    """A function that runs ``function`` ``count`` times and returns the seconds; preparation is left out for native ones."""
    values = tuple(args)
    if isinstance(function, NativeFunction):
        arrays = function.arguments(values)
        call = function.bind(arrays, function.call_flat(arrays))
    else:

        def call() -> None:
            function(*values)

    def run(count: int) -> float:
        home.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        home.synchronize()
        return time.perf_counter() - begin

    return run

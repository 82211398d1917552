"""The interpreter of functions that are not one native function: symbolic shapes, branches, calls of Python functions.

The instructions are plain lists (they travel as JSON) over registers. On creation every instruction becomes a Python closure, so
that running one is a call. Registers hold raw arrays (numpy's, or a device's), tuples, shapes (tuples of int) and numbers. An operand
is the number of a register, or a literal as the only element of a list; a list in it is a shape.

Instructions::

    ["const", dst, number]           ["move", dst, operand]
    ["storage", dst, operand, device]   ["tensor", dst, storage, offset, shape, dtype]         ["kill", register]
    ["kernel", dst, symbol, [what, ...]]     what a C function gets, in order:
        ["queue"]  ["buffer", register]  ["number", operand, dtype]  ["extent", register, axis, dtype]
        ["stride", register, axis, dtype]  (in elements, of a dense array)  ["result", dtype]
    ["packed", dst, name, [operands], result]   a function of :mod:`runners.builtins`, or a registered one
        whose result is described as parameters are; the description may be left out
    ["tuple", dst, [operands]]       ["get", dst, register, index]
    ["if", dst, cond, code, register, code, register]
    ["call", dst, function, [operands]]      ["closure", dst, function, [operands]]
    ["invoke", dst, operand, [operands]]
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import numpy as np

from .arguments import in_order, number_as
from .builtins import BUILTINS, MADE_ON_PROCESSOR, PREPARED
from .executable import Executable
from .foreign import ARRAYS, ForeignArray
from .graphs import StaticParts
from .home import Home
from .ndarray import NDArray, address_of, from_dlpack, numpy_dtype
from .profile import TimedPart, timed_parts
from .program import ArgumentError, ExecutableError
from .registered import registered_function

MOST_NESTED_CALLS = 2000
"""How deep calls of a model's functions nest: each takes a piece of the thread's stack, whose end is the end of the process."""


class _Nesting(threading.local):
    """How many calls of functions the thread is in."""

    depth = 0


_NESTING = _Nesting()
_NO_CONTEXT = nullcontext()
_CACHED_ALLOC, _RUN_OR_CAPTURE = (
    "vm.builtin.cuda_graph.get_cached_alloc",
    "vm.builtin.cuda_graph.run_or_capture",
)

Registers = list[Any]
Step = Callable[[Registers], None]


def _c_type(dtype: str) -> Any:
    """How a kernel takes a number: integers as int64, floats but float64 as float."""
    if "float" not in dtype:
        return ctypes.c_int64
    return ctypes.c_double if dtype == "float64" else ctypes.c_float


def _literal(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _fetcher(sources: list[str], names: dict[str, Any]) -> Callable[[Registers], tuple[Any, ...]]:
    """A function that makes a tuple of Python expressions over the registers ``R``."""
    code = compile(f"lambda R: ({''.join(f'{source}, ' for source in sources)})", "<operands>", "eval")
    return eval(code, {"__builtins__": {}, **names})  # type: ignore[no-any-return]


def _operands(operands: list[Any]) -> Callable[[Registers], tuple[Any, ...]]:
    """The values of operands."""
    literals = {
        f"L{index}": _literal(item[0]) for index, item in enumerate(operands) if not isinstance(item, int)
    }
    sources = [f"R[{item}]" if isinstance(item, int) else f"L{index}" for index, item in enumerate(operands)]
    return _fetcher(sources, literals)


def unwrap(value: Any) -> Any:
    """What the instructions work on: numpy arrays instead of NDArrays, tuples of them."""
    if isinstance(value, ARRAYS):
        return value
    if isinstance(value, NDArray):
        return value.data
    if isinstance(value, tuple | list):
        return tuple(unwrap(item) for item in value)
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        return from_dlpack(value).data
    return value


def wrap(value: Any, given: Mapping[int, NDArray] | None = None) -> Any:
    """What callers get: NDArrays instead of raw arrays; ``given`` are those that they passed, by identity of their arrays."""
    if isinstance(value, ARRAYS):
        known = given.get(id(value)) if given else None
        if known is not None:
            return known
        return NDArray(value, value.device if isinstance(value, ForeignArray) else None)
    if isinstance(value, tuple):
        return tuple(wrap(item, given) for item in value)
    return value


def given_arrays(args: Sequence[Any]) -> dict[int, NDArray]:
    """The NDArrays in a call's arguments, by the identity of their numpy arrays: what comes back is the object that was passed."""
    found: dict[int, NDArray] = {}
    for arg in args:
        if isinstance(arg, NDArray):
            found[id(arg.data)] = arg
        elif isinstance(arg, tuple | list):
            found.update(given_arrays(arg))
    return found


def _received(value: Any, param: dict[str, Any], name: str, home: Home) -> Any:
    """An argument as instructions work on it: arrays that can be read, and written where the function does; numbers as declared."""
    fields = param.get("fields")
    if fields is not None and isinstance(value, tuple | list) and len(value) == len(fields):
        return tuple(
            _received(item, field, f"{name}[{index}]", home)
            for index, (item, field) in enumerate(zip(value, fields, strict=True))
        )
    if param.get("kind") == "prim":
        return number_as(unwrap(value), param["dtype"], f"argument {name}").item()
    if "shape" not in param:
        return _readable(unwrap(value), home)
    home = home.at(param.get("device", 0))
    array = home.argument(value, name, param["dtype"] or None)
    if param.get("written"):
        home.refuse_read_only(array, name, value)
    return home.dense(array)


def _at(values: Any, path: Sequence[int]) -> Any:
    """The field at a path of a nested tuple; None where there is none."""
    for index in path:
        if not isinstance(values, tuple | list) or index >= len(values):
            return None
        values = values[index]
    return values


def _readable(value: Any, home: Home) -> Any:
    """A value from outside as kernels can read it: arrays where they run, and dense, also where numpy has a view of another order."""
    if isinstance(value, ARRAYS):
        return home.dense(home.moved(value))
    if isinstance(value, tuple):
        return tuple(_readable(item, home) for item in value)
    return value


def _fits(value: Any, described: Mapping[str, Any]) -> bool:
    """Whether a result of Python is as kernels will read it; extents that the program does not know are any."""
    fields = described.get("fields")
    if fields:  # an empty tuple is what calls that write into their arguments have, whatever they return
        is_tuple = isinstance(value, tuple) and len(value) == len(fields)
        return is_tuple and all(_fits(item, field) for item, field in zip(value, fields, strict=True))
    if described.get("kind") == "prim":
        return _is_number(value, described["dtype"])
    if "shape" not in described:
        return True  # no array
    if not isinstance(value, ARRAYS):
        return False
    shape, dtype = described["shape"], described["dtype"]
    return (not dtype or value.dtype == numpy_dtype(dtype)) and (
        shape is None
        or (
            len(shape) == value.ndim
            and all(
                isinstance(dim, str) or dim == extent for dim, extent in zip(shape, value.shape, strict=True)
            )
        )
    )


def _is_number(value: Any, dtype: str) -> bool:
    try:
        number_as(value, dtype, "a result")
    except ArgumentError:
        return False
    return True


def _spelled(described: Mapping[str, Any]) -> str:
    if "fields" in described:
        return f"({', '.join(_spelled(field) for field in described['fields'])})"
    if described.get("kind") == "prim":
        return f"a number of {described['dtype']}"
    if "shape" not in described:
        return f"a value of kind {described['kind']}"
    shape = (
        "any shape" if described["shape"] is None else f"shape [{', '.join(map(str, described['shape']))}]"
    )
    return f"a {described['dtype'] or 'any'} tensor of {shape}"


def _spelled_value(value: Any) -> str:
    if isinstance(value, ARRAYS):
        return _spelled({"shape": value.shape, "dtype": str(value.dtype)})
    if isinstance(value, tuple):
        return f"({', '.join(map(_spelled_value, value))})"
    return f"a {type(value).__name__}"


def packed_function(name: str) -> Callable[..., Any]:
    """The Python function registered under ``name``; raises ExecutableError when there is none."""
    found = registered_function(name)
    if found is None:
        raise ExecutableError(
            f"the model calls {name!r}, which is not registered; register it with ir.register_func"
        )
    return found


class Closure:
    """A function value: a function of the model with its captured values."""

    def __init__(self, run: Callable[..., Any], captured: tuple[Any, ...], home: Home) -> None:
        self._run = run
        self._captured = captured
        self._home = home

    def run(self, *args: Any) -> Any:
        """Call on raw values."""
        return self._run(*self._captured, *args)

    def __call__(self, *args: Any) -> Any:
        """Call on arrays."""
        return wrap(self.run(*[_readable(unwrap(arg), self._home) for arg in args]))


class Interpreter:
    """Runs one function of an executable.

    Args:
        name: the function.
        executable: where it is.
        lookup: the other functions by name, for calls.
        home: where its arrays are.
        static: what the machine keeps from call to call.
    """

    def __init__(
        self,
        name: str,
        executable: Executable,
        lookup: Callable[[str], Any],
        home: Home,
        static: StaticParts,
    ) -> None:
        self.name = name
        self._home = home
        self._static = static
        self._keeps_parts = False
        """Whether calls of this function use what the machine keeps from call to call."""
        self._own_builtins: dict[str, Callable[..., Any]] = {
            _CACHED_ALLOC: static.cached_alloc,
            _RUN_OR_CAPTURE: static.run_or_capture,
            "vm.builtin.to_device": lambda value, device=None: (
                value if device is None else home.at(device).moved(value)
            ),
        }
        self.entry: dict[str, Any] = executable.metadata["functions"][name]
        self._executable = executable
        self._lookup = lookup
        self._steps = self._compile(self.entry["code"])
        self._labels = [_label(item) for item in self.entry["code"]]
        self._are_kernels = [item[0] == "kernel" for item in self.entry["code"]]

    def __call__(self, *args: Any, **named: Any) -> Any:
        params = self.entry["params"]
        if named:
            args = in_order(self.name, [param["name"] for param in params], args, named)
        if len(args) != len(params):
            names = ", ".join(param["name"] for param in params)
            raise ArgumentError(
                f"function {self.name} takes {len(params)} arguments ({names}), got {len(args)}"
            )
        return wrap(self.run(*self._received(args)), given_arrays(args))

    def _received(self, args: Sequence[Any]) -> list[Any]:
        values = [
            _received(value, param, param["name"], self._home)
            for value, param in zip(args, self.entry["params"], strict=True)
        ]
        for written, other in self.entry.get("apart", ()):
            arrays = _at(values, written), _at(values, other)
            if all(
                isinstance(array, ARRAYS) for array in arrays
            ):  # the code says of others what they should be
                self._home.refuse_shared(*arrays, (self._name_at(written), self._name_at(other)))
        return values

    def _name_at(self, path: Sequence[int]) -> str:
        """How a message names an argument, or a field of one."""
        return f"{self.entry['params'][path[0]]['name']}{''.join(f'[{index}]' for index in path[1:])}"

    def run(self, *values: Any) -> Any:
        """Call on raw values (numpy arrays, tuples, numbers).

        Raises:
            ExecutableError: calls nest too deep.
        """
        depth = _NESTING.depth
        if depth >= MOST_NESTED_CALLS:
            raise ExecutableError(
                f"function {self.name} is called {depth} calls deep, which is the limit; does the recursion end? One that is deeper has to"
                " be written in steps: let the caller run the function on what it returned"
            )
        registers: Registers = [None] * self.entry["n_registers"]
        registers[: len(values)] = values
        _NESTING.depth = depth + 1
        try:
            with self._call():
                for step in self._steps:
                    step(registers)
        finally:
            _NESTING.depth = depth
        return registers[self.entry["result"]]

    def timed_parts(self, *args: Any) -> list[TimedPart]:
        """Run once; the instructions in order, with the time of each."""
        registers: Registers = [None] * self.entry["n_registers"]
        registers[: len(args)] = self._received(args)
        rows = []
        with self._call():
            for step, label in zip(self._steps, self._labels, strict=True):
                begin = time.perf_counter()
                step(registers)
                self._home.synchronize()
                rows.append((time.perf_counter() - begin, label))
        return timed_parts(rows, self._are_kernels)

    def _call(self) -> AbstractContextManager[None]:
        """What a call of this function stands in."""
        return self._static.call_of(self.name) if self._keeps_parts else _NO_CONTEXT

    # ---- from instructions to closures -----------------------------------------------------------------------

    def _compile(self, code: list[list[Any]]) -> list[Step]:
        return [getattr(self, f"_compile_{item[0]}")(*item[1:]) for item in code]

    def _compile_const(self, dst: int, number: int) -> Step:
        value = self._executable.constants_at(self._home)[number]

        def load(registers: Registers) -> None:
            registers[dst] = value

        return load

    def _compile_move(self, dst: int, operand: Any) -> Step:
        fetch = _operands([operand])

        def move(registers: Registers) -> None:
            (registers[dst],) = fetch(registers)

        return move

    def _compile_storage(self, dst: int, size: Any, device: int) -> Step:
        fetch, memory = _operands([size]), self._home.at(device).memory

        def allocate(registers: Registers) -> None:
            registers[dst] = memory(prod(fetch(registers)[0]))

        return allocate

    def _compile_tensor(self, dst: int, storage: int, offset: Any, shape: Any, dtype: str) -> Step:
        fetch, kind, function = _operands([storage, offset, shape]), numpy_dtype(dtype), self.name
        tensor = self._home.tensor

        def make(registers: Registers) -> None:
            memory, begin, extents = fetch(registers)
            try:
                registers[dst] = tensor(extents, kind, memory, begin)
            except TypeError:
                raise ExecutableError(
                    f"{function}: a {dtype} tensor of shape {list(extents)} at byte {begin} does not fit a storage of"
                    f" {memory.nbytes} bytes; is an extent beyond the bound that memory was planned for?"
                ) from None

        return make

    def _compile_kill(self, reg: int) -> Step:
        def kill(registers: Registers) -> None:
            registers[reg] = None

        return kill

    def _compile_kernel(self, dst: int, symbol: str, operands: list[list[Any]]) -> Step:
        """Buffers are passed as pointers; integers as int64 whatever their dtype, floats as they are."""
        library, home = self._executable.library, self._home
        sources: list[str] = []
        types: list[Any] = []
        names: dict[str, Any] = {"address_of": home.address_of}
        returned = None
        for index, (kind, *what) in enumerate(operands):
            if kind == "buffer":
                sources.append(f"address_of(R[{what[0]}])")
            elif kind == "queue":
                sources.append("queue()")
                names["queue"] = home.queue
            elif kind == "result":
                returned = numpy_dtype(what[0])
                continue
            elif kind == "extent":
                sources.append(f"extents(R[{what[0]}])[{what[1]}]")
                names["extents"] = _extents
            elif kind == "stride":
                sources.append(f"prod(R[{what[0]}].shape[{what[1] + 1}:])")
                names["prod"] = prod
            elif isinstance(what[0], int):
                sources.append(f"R[{what[0]}]")
            else:
                names[f"L{index}"] = what[0][0]
                sources.append(f"L{index}")
            types.append(ctypes.c_void_p if kind in ("buffer", "queue") else _c_type(what[-1]))
        if returned is not None:
            types.append(ctypes.c_void_p)
        call = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(library.address(symbol))
        fetch = _fetcher(sources, names)

        def fail() -> Exception:
            refused = home.failure(f"function {self.name}")
            return refused or ExecutableError(f"kernel {symbol} failed: {library.last_error()}")

        def run(registers: Registers) -> None:
            if call(*fetch(registers)) != 0:
                raise fail()

        def compute(registers: Registers) -> None:
            result = np.zeros(1, returned)
            if call(*fetch(registers), address_of(result)) != 0:
                raise fail()
            registers[dst] = result.item()

        return run if returned is None else compute

    def _compile_packed(
        self, dst: int, name: str, operands: list[Any], described: Mapping[str, Any] | None = None
    ) -> Step:
        count, prepare = PREPARED.get(name, (len(operands), None))
        literals = [_literal(item[0]) for item in operands[count:] if not isinstance(item, int)]
        function = (
            prepare(*literals) if prepare is not None else BUILTINS.get(name, self._own_builtins.get(name))
        )
        fetch, home = _operands(operands[:count]), self._home
        self._keeps_parts |= name in (_CACHED_ALLOC, _RUN_OR_CAPTURE)

        def run(registers: Registers) -> None:
            value = function(*fetch(registers))  # type: ignore[misc]
            registers[dst] = _readable(value, home) if name in MADE_ON_PROCESSOR else value

        def run_registered(registers: Registers) -> None:
            value = unwrap(packed_function(name)(*[wrap(value) for value in fetch(registers)]))
            if described is not None and not _fits(value, described):
                raise ExecutableError(
                    f"the model says that {name!r} gives {_spelled(described)}; it gave {_spelled_value(value)}"
                )
            registers[dst] = _readable(value, home.at((described or {}).get("device", 0)))

        return run_registered if function is None else run

    def _compile_tuple(self, dst: int, operands: list[Any]) -> Step:
        fetch = _operands(operands)

        def make(registers: Registers) -> None:
            registers[dst] = fetch(registers)

        return make

    def _compile_get(self, dst: int, src: int, index: int) -> Step:
        def get(registers: Registers) -> None:
            registers[dst] = registers[src][index]

        return get

    def _compile_if(
        self, dst: int, cond: int, then_code: list[Any], then_reg: int, else_code: list[Any], else_reg: int
    ) -> Step:
        then_steps, else_steps = self._compile(then_code), self._compile(else_code)

        def branch(registers: Registers) -> None:
            taken = bool(registers[cond])
            for step in then_steps if taken else else_steps:
                step(registers)
            registers[dst] = registers[then_reg if taken else else_reg]

        return branch

    def _compile_call(self, dst: int, function: str, operands: list[Any]) -> Step:
        lookup, fetch = self._lookup, _operands(operands)

        def call(registers: Registers) -> None:
            registers[dst] = lookup(function).run(*fetch(registers))

        return call

    def _compile_closure(self, dst: int, function: str, operands: list[Any]) -> Step:
        lookup, fetch, home = self._lookup, _operands(operands), self._home

        def make(registers: Registers) -> None:
            registers[dst] = Closure(lookup(function).run, fetch(registers), home)

        return make

    def _compile_invoke(self, dst: int, closure: Any, operands: list[Any]) -> Step:
        fetch, home = _operands([closure, *operands]), self._home

        def invoke(registers: Registers) -> None:
            function, *args = fetch(registers)
            if isinstance(function, Closure):
                registers[dst] = function.run(*args)
            else:
                registers[dst] = _readable(unwrap(function(*[wrap(arg) for arg in args])), home)

        return invoke


def _extents(value: Any) -> Any:
    """The extents of an array, or of a shape."""
    return value if isinstance(value, tuple) else value.shape


def _label(item: list[Any]) -> str:
    """How the profile names an instruction."""
    if item[0] == "kernel":
        return str(item[2])
    if item[0] in ("packed", "call"):
        return f"{item[0]} {item[2]}"
    return str(item[0])

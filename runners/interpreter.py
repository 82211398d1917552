"""The interpreter of functions that are not one native function: symbolic shapes, branches, calls of Python functions.

The instructions are plain lists (they travel as JSON) over registers. On creation every instruction becomes a Python closure, so
that running one is a call. Registers hold numpy arrays, tuples, shapes (tuples of int) and numbers. An operand is the number
of a register, or a literal as the only element of a list; a list in it is a shape.

Instructions::

    ["const", dst, number]           ["move", dst, operand]
    ["storage", dst, operand]        ["tensor", dst, storage, offset, shape, dtype]         ["kill", register]
    ["kernel", dst, symbol, [what, ...]]     what a C function gets, in order:
        ["buffer", register]  ["number", operand, dtype]  ["extent", register, axis, dtype]
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
from math import prod
from typing import Any

import numpy as np

from .arguments import as_numpy, number_as
from .builtins import BUILTINS, PREPARED
from .executable import Executable
from .ndarray import NDArray, address_of, aligned_bytes, aligned_empty, from_dlpack, numpy_dtype
from .profile import profile_table
from .program import ArgumentError, ExecutableError

MOST_NESTED_CALLS = 2000
"""How deep calls of a model's functions nest: each takes a piece of the thread's stack, whose end is the end of the process."""


class _Nesting(threading.local):
    """How many calls of functions the thread is in."""

    depth = 0


_NESTING = _Nesting()

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
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, NDArray):
        return value.data
    if isinstance(value, tuple | list):
        return tuple(unwrap(item) for item in value)
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        return from_dlpack(value).data
    return value


def wrap(value: Any, given: Mapping[int, NDArray] | None = None) -> Any:
    """What callers get: NDArrays instead of numpy arrays; ``given`` are those that they passed, by identity of their arrays."""
    if isinstance(value, np.ndarray):
        known = given.get(id(value)) if given else None
        return NDArray(value) if known is None else known
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


def refuse_read_only(array: np.ndarray[Any, Any], name: str) -> None:
    """Raise ArgumentError unless the code may write into an array that is passed for a parameter it overwrites."""
    flags = array.flags
    shared = type(array.base).__name__ == "PyCapsule"  # DLPack does not tell what may be written
    if not flags.writeable and not shared:
        raise ArgumentError(f"argument {name} is overwritten, but the array is read-only; pass a copy of it")
    if not flags.c_contiguous or not flags.aligned:
        raise ArgumentError(
            f"argument {name} is overwritten, but the array is not contiguous; pass numpy.ascontiguousarray of it"
        )


def _received(value: Any, param: dict[str, Any], name: str) -> Any:
    """An argument as instructions work on it: arrays that can be read, and written where the function does; numbers as declared."""
    fields = param.get("fields")
    if fields is not None and isinstance(value, tuple | list) and len(value) == len(fields):
        return tuple(
            _received(item, field, f"{name}[{index}]")
            for index, (item, field) in enumerate(zip(value, fields, strict=True))
        )
    if param.get("kind") == "prim":
        return number_as(unwrap(value), param["dtype"], f"argument {name}").item()
    if "shape" not in param:
        return _readable(unwrap(value))
    array = as_numpy(value, name, param["dtype"] or None)
    if param.get("written"):
        refuse_read_only(array, name)
    return _readable(array)


def _readable(value: Any) -> Any:
    """A value from outside as kernels can read it: dense arrays, also where numpy has a view of another order."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        if flags.c_contiguous and flags.aligned:
            return value
        copied = aligned_empty(value.shape, value.dtype)
        copied[...] = value
        return copied
    if isinstance(value, tuple):
        return tuple(_readable(item) for item in value)
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
    if not isinstance(value, np.ndarray):
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
    if isinstance(value, np.ndarray):
        return _spelled({"shape": value.shape, "dtype": str(value.dtype)})
    if isinstance(value, tuple):
        return f"({', '.join(map(_spelled_value, value))})"
    return f"a {type(value).__name__}"


def packed_function(name: str) -> Callable[..., Any]:
    """The Python function registered under ``name``; raises ExecutableError when there is none."""
    try:
        # Registered functions live with the compiler; a model that calls none runs without it.
        from ir.registry import get_global_func
    except ImportError:
        found = None
    else:
        found = get_global_func(name, allow_missing=True)
    if found is None:
        raise ExecutableError(
            f"the model calls {name!r}, which is not registered; register it with ir.register_func"
        )
    return found


class Closure:
    """A function value: a function of the model with its captured values."""

    def __init__(self, run: Callable[..., Any], captured: tuple[Any, ...]) -> None:
        self._run = run
        self._captured = captured

    def run(self, *args: Any) -> Any:
        """Call on raw values."""
        return self._run(*self._captured, *args)

    def __call__(self, *args: Any) -> Any:
        """Call on arrays."""
        return wrap(self.run(*[_readable(unwrap(arg)) for arg in args]))


class Interpreter:
    """Runs one function of an executable.

    Args:
        name: the function.
        executable: where it is.
        lookup: the other functions by name, for calls.
    """

    def __init__(self, name: str, executable: Executable, lookup: Callable[[str], Any]) -> None:
        self.name = name
        self.entry: dict[str, Any] = executable.metadata["functions"][name]
        self._executable = executable
        self._lookup = lookup
        self._steps = self._compile(self.entry["code"])
        self._labels = [_label(item) for item in self.entry["code"]]

    def __call__(self, *args: Any) -> Any:
        params = self.entry["params"]
        if len(args) != len(params):
            names = ", ".join(param["name"] for param in params)
            raise ArgumentError(
                f"function {self.name} takes {len(params)} arguments ({names}), got {len(args)}"
            )
        return wrap(self.run(*self._received(args)), given_arrays(args))

    def _received(self, args: Sequence[Any]) -> list[Any]:
        return [
            _received(value, param, param["name"])
            for value, param in zip(args, self.entry["params"], strict=True)
        ]

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
            for step in self._steps:
                step(registers)
        finally:
            _NESTING.depth = depth
        return registers[self.entry["result"]]

    def profile(self, *args: Any) -> str:
        """Run once and return a table of times by instruction (see :mod:`runners.profile`)."""
        registers: Registers = [None] * self.entry["n_registers"]
        registers[: len(args)] = self._received(args)
        rows = []
        for step, label in zip(self._steps, self._labels, strict=True):
            begin = time.perf_counter()
            step(registers)
            rows.append((time.perf_counter() - begin, label))
        return profile_table(rows)

    # ---- from instructions to closures -----------------------------------------------------------------------

    def _compile(self, code: list[list[Any]]) -> list[Step]:
        return [getattr(self, f"_compile_{item[0]}")(*item[1:]) for item in code]

    def _compile_const(self, dst: int, number: int) -> Step:
        value = self._executable.constants[number]

        def load(registers: Registers) -> None:
            registers[dst] = value

        return load

    def _compile_move(self, dst: int, operand: Any) -> Step:
        fetch = _operands([operand])

        def move(registers: Registers) -> None:
            (registers[dst],) = fetch(registers)

        return move

    def _compile_storage(self, dst: int, size: Any) -> Step:
        fetch = _operands([size])

        def allocate(registers: Registers) -> None:
            registers[dst] = aligned_bytes(prod(fetch(registers)[0]))

        return allocate

    def _compile_tensor(self, dst: int, storage: int, offset: Any, shape: Any, dtype: str) -> Step:
        fetch, kind, function = _operands([storage, offset, shape]), numpy_dtype(dtype), self.name

        def make(registers: Registers) -> None:
            memory, begin, extents = fetch(registers)
            try:
                registers[dst] = np.ndarray(extents, kind, memory, begin)
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
        library = self._executable.library
        sources: list[str] = []
        types: list[Any] = []
        names: dict[str, Any] = {"address_of": address_of}
        returned = None
        for index, (kind, *what) in enumerate(operands):
            if kind == "buffer":
                sources.append(f"address_of(R[{what[0]}])")
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
            types.append(ctypes.c_void_p if kind == "buffer" else _c_type(what[-1]))
        if returned is not None:
            types.append(ctypes.c_void_p)
        call = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(library.address(symbol))
        fetch = _fetcher(sources, names)

        def fail() -> ExecutableError:
            return ExecutableError(f"kernel {symbol} failed: {library.last_error()}")

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
        function = prepare(*literals) if prepare is not None else BUILTINS.get(name)
        fetch = _operands(operands[:count])

        def run(registers: Registers) -> None:
            registers[dst] = _readable(function(*fetch(registers)))  # type: ignore[misc]

        def run_registered(registers: Registers) -> None:
            value = unwrap(packed_function(name)(*[wrap(value) for value in fetch(registers)]))
            if described is not None and not _fits(value, described):
                raise ExecutableError(
                    f"the model says that {name!r} gives {_spelled(described)}; it gave {_spelled_value(value)}"
                )
            registers[dst] = _readable(value)

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
        lookup, fetch = self._lookup, _operands(operands)

        def make(registers: Registers) -> None:
            registers[dst] = Closure(lookup(function).run, fetch(registers))

        return make

    def _compile_invoke(self, dst: int, closure: Any, operands: list[Any]) -> Step:
        fetch = _operands([closure, *operands])

        def invoke(registers: Registers) -> None:
            function, *args = fetch(registers)
            if isinstance(function, Closure):
                registers[dst] = function.run(*args)
            else:
                registers[dst] = unwrap(function(*[wrap(arg) for arg in args]))

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

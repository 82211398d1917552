"""The interpreter of functions that are not one native function: symbolic shapes, branches, calls of Python functions.

The instructions are plain lists (they travel as JSON) over registers ``R`` and symbolic integers ``S``. On creation
every instruction becomes a Python closure, so that running one is a call; expressions over symbolic integers are Python source
compiled once. Registers hold numpy arrays, tuples, shapes (tuples of int) and numbers.

Instructions::

    ["match", reg, kind, dtype, ndim, binds, context]     check a value; binds: [[axis, symbol], ...]
    ["check_dims", reg, [[axis, expression], ...], context]
    ["const", dst, number]           ["value", dst, literal]        ["shape", dst, [expressions]]
    ["prim", dst, expression]        ["solve", symbol, expression]  ["read_prim", reg, symbol]
    ["storage", dst, bytes]          ["tensor", dst, storage, offset, [expressions], dtype]
    ["empty", dst, [expressions], dtype]                            ["kill", [regs]]
    ["kernel", symbol, [register or [expression, dtype], ...]]
    ["packed", dst, name, [regs]]    ["dps_packed", name, [regs]]   ["builtin", dst, name, [regs]]
    ["reshape", dst, src, [expressions] or reg]                     ["move", dst, src]
    ["tuple", dst, [regs]]           ["get", dst, src, index]
    ["if", dst, cond, code, reg, code, reg]
    ["call", dst, function, [regs]]  ["closure", dst, function, [regs]]  ["invoke", dst, reg, [regs]]
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .executable import Executable
from .ndarray import NDArray, aligned_empty, numpy_dtype
from .program import ArgumentError, ExecutableError

Registers = list[Any]
Step = Callable[[Registers, list[int]], None]

_FLOATS: dict[str, Any] = {"float32": ctypes.c_float, "float64": ctypes.c_double}


def _truncated_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_NAMES = {
    "__builtins__": {},
    "min": min,
    "max": max,
    "abs": abs,
    "int": int,
    "float": float,
    "tdiv": _truncated_quotient,
    "tmod": lambda a, b: a - b * _truncated_quotient(a, b),
}


def _compiled(source: str) -> Callable[[list[int]], Any]:
    """A function of the symbolic integers from an expression's source."""
    return eval(compile(f"lambda S: {source}", "<shape expression>", "eval"), dict(_NAMES))  # type: ignore[no-any-return]


def _compiled_shape(sources: list[str]) -> Callable[[list[int]], tuple[int, ...]]:
    return _compiled("(" + "".join(f"{source}," for source in sources) + ")")


def unwrap(value: Any) -> Any:
    """What the instructions work on: numpy arrays instead of NDArrays, tuples of them."""
    if isinstance(value, NDArray):
        return value.data
    if isinstance(value, tuple | list):
        return tuple(unwrap(item) for item in value)
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        return np.from_dlpack(value.detach() if hasattr(value, "detach") else value)
    return value


def wrap(value: Any) -> Any:
    """What callers get: NDArrays instead of numpy arrays."""
    if isinstance(value, np.ndarray):
        return NDArray(value)
    if isinstance(value, tuple):
        return tuple(wrap(item) for item in value)
    return value


def _readable(value: Any) -> Any:
    """An argument as kernels can read it."""
    if isinstance(value, np.ndarray) and not (value.flags.c_contiguous and value.flags.aligned):
        copied = aligned_empty(value.shape, value.dtype)
        copied[...] = value
        return copied
    if isinstance(value, tuple):
        return tuple(_readable(item) for item in value)
    return value


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
        values = []
        for value, param in zip(args, params, strict=True):
            raw = unwrap(value)
            if isinstance(raw, int | float | np.generic) and param.get("dtype") and "shape" in param:
                raw = np.asarray(raw, numpy_dtype(param["dtype"]))
            values.append(_readable(raw))
        return wrap(self.run(*values))

    def run(self, *values: Any) -> Any:
        """Call on raw values (numpy arrays, tuples, numbers)."""
        registers: Registers = [None] * self.entry["n_registers"]
        registers[: len(values)] = values
        symbols = [0] * self.entry["n_symbols"]
        for step in self._steps:
            step(registers, symbols)
        return registers[self.entry["result"]]

    def profile(self, *args: Any) -> str:
        """Run once and return a table of times by instruction, slowest first."""
        registers: Registers = [None] * self.entry["n_registers"]
        registers[: len(args)] = [_readable(unwrap(arg)) for arg in args]
        symbols = [0] * self.entry["n_symbols"]
        rows = []
        for step, label in zip(self._steps, self._labels, strict=True):
            begin = time.perf_counter()
            step(registers, symbols)
            rows.append((time.perf_counter() - begin, label))
        total = sum(row[0] for row in rows) or 1.0
        lines = [f"{'time (us)':>12} {'share':>7}  what"]
        for seconds, label in sorted(rows, reverse=True):
            lines.append(f"{seconds * 1e6:12.1f} {seconds / total:7.1%}  {label}")
        return "\n".join(lines)

    # ---- from instructions to closures -----------------------------------------------------------------------

    def _compile(self, code: list[list[Any]]) -> list[Step]:
        return [getattr(self, f"_compile_{item[0]}")(*item[1:]) for item in code]

    def _compile_match(
        self, reg: int, kind: str, dtype: str, ndim: int, binds: list[list[int]], context: str
    ) -> Step:
        wanted = numpy_dtype(dtype) if dtype and kind == "tensor" else None
        function = self.name

        def fail(got: str) -> ArgumentError:
            extents = f" of {ndim} dimensions" if ndim >= 0 else ""
            return ArgumentError(
                f"{function}: {context} must be a {dtype or ''}{' ' if dtype else ''}{kind}{extents}, got {got}"
            )

        def match_tensor(registers: Registers, symbols: list[int]) -> None:
            value = registers[reg]
            if not isinstance(value, np.ndarray):
                raise fail(type(value).__name__)
            if wanted is not None and value.dtype != wanted:
                raise fail(f"one of {value.dtype.name}; convert it with .astype({dtype!r})")
            if ndim >= 0 and value.ndim != ndim:
                raise fail(f"one of shape {list(value.shape)}")
            for axis, symbol in binds:
                symbols[symbol] = value.shape[axis]

        def match_shape(registers: Registers, symbols: list[int]) -> None:
            value = registers[reg]
            if not isinstance(value, tuple) or not all(isinstance(item, int | np.integer) for item in value):
                raise fail(type(value).__name__)
            if ndim >= 0 and len(value) != ndim:
                raise fail(f"one with {len(value)} extents")
            for axis, symbol in binds:
                symbols[symbol] = int(value[axis])

        def match_tuple(registers: Registers, symbols: list[int]) -> None:
            value = registers[reg]
            if not isinstance(value, tuple) or len(value) != ndim:
                raise ArgumentError(
                    f"{function}: {context} must be a tuple of {ndim} values, got {type(value).__name__}"
                )

        def match_prim(registers: Registers, symbols: list[int]) -> None:
            value = registers[reg]
            if isinstance(value, np.ndarray) and value.ndim == 0:
                value = registers[reg] = value.item()
            if not isinstance(value, int | float | np.generic):
                raise fail(type(value).__name__)
            for _, symbol in binds:
                symbols[symbol] = int(value)

        return {"tensor": match_tensor, "shape": match_shape, "tuple": match_tuple, "prim": match_prim}[kind]

    def _compile_check_dims(self, reg: int, checks: list[list[Any]], context: str) -> Step:
        axes = [(axis, _compiled(source)) for axis, source in checks]
        function = self.name

        def check(registers: Registers, symbols: list[int]) -> None:
            value = registers[reg]
            extents = (
                value.shape
                if isinstance(value, np.ndarray)
                else value
                if isinstance(value, tuple)
                else (value,)
            )
            for axis, expected in axes:
                if extents[axis] != expected(symbols):
                    raise ArgumentError(
                        f"{function}: {context} must have extent {expected(symbols)} on axis {axis}, got {list(extents)}"
                    )

        return check

    def _compile_const(self, dst: int, number: int) -> Step:
        value = self._executable.constants[number]

        def load(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = value

        return load

    def _compile_value(self, dst: int, literal: Any) -> Step:
        def load(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = literal

        return load

    def _compile_shape(self, dst: int, sources: list[str]) -> Step:
        extents = _compiled_shape(sources)

        def make(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = extents(symbols)

        return make

    def _compile_prim(self, dst: int, source: str) -> Step:
        value = _compiled(source)

        def make(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = value(symbols)

        return make

    def _compile_solve(self, symbol: int, source: str) -> Step:
        value = _compiled(source)

        def solve(registers: Registers, symbols: list[int]) -> None:
            symbols[symbol] = value(symbols)

        return solve

    def _compile_read_prim(self, reg: int, symbol: int) -> Step:
        def read(registers: Registers, symbols: list[int]) -> None:
            symbols[symbol] = int(registers[reg])

        return read

    def _compile_storage(self, dst: int, source: str) -> Step:
        size = _compiled(source)

        def allocate(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = aligned_empty((size(symbols),), "uint8")

        return allocate

    def _compile_tensor(self, dst: int, storage: int, offset: str, sources: list[str], dtype: str) -> Step:
        begin, extents, kind = _compiled(offset), _compiled_shape(sources), numpy_dtype(dtype)

        def view(registers: Registers, symbols: list[int]) -> None:
            shape, start = extents(symbols), begin(symbols)
            size = kind.itemsize
            for extent in shape:
                size *= extent
            registers[dst] = registers[storage][start : start + size].view(kind).reshape(shape)

        return view

    def _compile_empty(self, dst: int, sources: list[str], dtype: str) -> Step:
        extents, kind = _compiled_shape(sources), numpy_dtype(dtype)

        def allocate(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = aligned_empty(extents(symbols), kind)

        return allocate

    def _compile_kill(self, regs: list[int]) -> Step:
        def kill(registers: Registers, symbols: list[int]) -> None:
            for reg in regs:
                registers[reg] = None

        return kill

    def _compile_kernel(self, symbol: str, operands: list[int | list[str]]) -> Step:
        """Buffers are passed as pointers; integers as int64 whatever their dtype, floats as they are."""
        library = self._executable.library
        regs = [item for item in operands if isinstance(item, int)]
        scalars = [item for item in operands if not isinstance(item, int)]
        types = [
            ctypes.c_void_p if isinstance(item, int) else _FLOATS.get(item[1], ctypes.c_int64)
            for item in operands
        ]
        call = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(library.address(symbol))
        values = _compiled_shape([item[0] for item in scalars]) if scalars else None
        if operands != [*regs, *scalars]:
            raise ExecutableError(f"kernel {symbol}: buffers have to come before scalars")

        def run(registers: Registers, symbols: list[int]) -> None:
            args = [registers[reg].ctypes.data for reg in regs]
            if values is not None:
                args += values(symbols)
            if call(*args) != 0:
                raise ExecutableError(f"kernel {symbol} failed: {library.last_error()}")

        return run

    def _compile_packed(self, dst: int, name: str, regs: list[int]) -> Step:
        def run(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = unwrap(packed_function(name)(*[wrap(registers[reg]) for reg in regs]))

        return run

    def _compile_dps_packed(self, name: str, regs: list[int]) -> Step:
        def run(registers: Registers, symbols: list[int]) -> None:
            packed_function(name)(*[wrap(registers[reg]) for reg in regs])

        return run

    def _compile_builtin(self, dst: int, name: str, regs: list[int]) -> Step:
        function = BUILTINS[name]

        def run(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = function(*[registers[reg] for reg in regs])

        return run

    def _compile_reshape(self, dst: int, src: int, shape: list[str] | int) -> Step:
        if isinstance(shape, int):
            shape_register = shape

            def reshape_to_value(registers: Registers, symbols: list[int]) -> None:
                registers[dst] = registers[src].reshape(registers[shape_register])

            return reshape_to_value
        extents = _compiled_shape(shape)

        def reshape(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = registers[src].reshape(extents(symbols))

        return reshape

    def _compile_move(self, dst: int, src: int) -> Step:
        def move(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = registers[src]

        return move

    def _compile_tuple(self, dst: int, regs: list[int]) -> Step:
        def make(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = tuple([registers[reg] for reg in regs])

        return make

    def _compile_get(self, dst: int, src: int, index: int) -> Step:
        def get(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = registers[src][index]

        return get

    def _compile_if(
        self, dst: int, cond: int, then_code: list[Any], then_reg: int, else_code: list[Any], else_reg: int
    ) -> Step:
        then_steps, else_steps = self._compile(then_code), self._compile(else_code)

        def branch(registers: Registers, symbols: list[int]) -> None:
            taken = bool(registers[cond])
            for step in then_steps if taken else else_steps:
                step(registers, symbols)
            registers[dst] = registers[then_reg if taken else else_reg]

        return branch

    def _compile_call(self, dst: int, function: str, regs: list[int]) -> Step:
        lookup = self._lookup

        def call(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = lookup(function).run(*[registers[reg] for reg in regs])

        return call

    def _compile_closure(self, dst: int, function: str, regs: list[int]) -> Step:
        lookup = self._lookup

        def make(registers: Registers, symbols: list[int]) -> None:
            registers[dst] = Closure(lookup(function).run, tuple(registers[reg] for reg in regs))

        return make

    def _compile_invoke(self, dst: int, closure: int, regs: list[int]) -> Step:
        def invoke(registers: Registers, symbols: list[int]) -> None:
            function = registers[closure]
            args = [registers[reg] for reg in regs]
            if isinstance(function, Closure):
                registers[dst] = function.run(*args)
            else:
                registers[dst] = unwrap(function(*[wrap(arg) for arg in args]))

        return invoke


def _label(item: list[Any]) -> str:
    """How the profile names an instruction."""
    if item[0] == "kernel":
        return str(item[1])
    if item[0] in ("packed", "builtin", "call"):
        return f"{item[0]} {item[2]}"
    return str(item[0])


def _assert(condition: Any, message: Any = "assertion failed", *values: Any) -> tuple[()]:
    if not bool(condition):
        raise ExecutableError(str(message).format(*values) if values else str(message))
    return ()


def _print(text: Any, *values: Any) -> tuple[()]:
    shown = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
    print(text.format(*shown) if isinstance(text, str) and shown else text)
    return ()


def _invoke_shape(value: Any) -> tuple[int, ...]:
    return tuple(int(item) for item in value)


def _check_tensor_info(value: Any, ndim: int, dtype: str, context: str = "") -> tuple[()]:
    fits = isinstance(value, np.ndarray) and (ndim < 0 or value.ndim == ndim)
    if not fits or (dtype and dtype != "void" and value.dtype != numpy_dtype(dtype)):
        got = (
            f"{value.dtype.name}{list(value.shape)}"
            if isinstance(value, np.ndarray)
            else type(value).__name__
        )
        raise ArgumentError(
            f"{context or 'a value'}: expected a {dtype} tensor of {ndim} dimensions, got {got}"
        )
    return ()


def _check_shape_info(value: Any, ndim: int, context: str = "") -> tuple[()]:
    if not isinstance(value, tuple) or (ndim >= 0 and len(value) != ndim):
        raise ArgumentError(f"{context or 'a value'}: expected a shape of {ndim} extents, got {value!r}")
    return ()


def _check_tuple_info(value: Any, size: int, context: str = "") -> tuple[()]:
    if not isinstance(value, tuple) or len(value) != size:
        raise ArgumentError(
            f"{context or 'a value'}: expected a tuple of {size} values, got {type(value).__name__}"
        )
    return ()


def _check_prim_value_info(value: Any, dtype: str, context: str = "") -> tuple[()]:
    if not isinstance(value, int | float | np.generic):
        raise ArgumentError(f"{context or 'a value'}: expected a {dtype} number, got {type(value).__name__}")
    return ()


def _check_func_info(value: Any, context: str = "") -> tuple[()]:
    if not callable(value):
        raise ArgumentError(f"{context or 'a value'}: expected a function, got {type(value).__name__}")
    return ()


def _match_extents(extents: Any, heap: Any, codes: Any, context: str) -> tuple[()]:
    """Per extent a code and a number: 0 compare with it, 1 store there, 2 nothing, 3 compare with what is stored there."""
    for axis, extent in enumerate(extents):
        code, number = codes[2 * axis], codes[2 * axis + 1]
        if code == 1:
            heap[number] = extent
        elif code in (0, 3):
            wanted = number if code == 0 else int(heap[number])
            if extent != wanted:
                raise ArgumentError(
                    f"{context or 'a value'}: expected extent {wanted} on axis {axis}, got {list(extents)}"
                )
    return ()


def _match_shape(value: Any, heap: Any, size: int, *codes_and_context: Any) -> tuple[()]:
    *codes, context = codes_and_context
    extents = value.shape if isinstance(value, np.ndarray) else value
    if len(extents) != size:
        raise ArgumentError(f"{context or 'a value'}: expected {size} extents, got {list(extents)}")
    return _match_extents(extents, heap, codes, context)


def _match_prim_value(value: Any, heap: Any, code: int, number: int, context: str = "") -> tuple[()]:
    return _match_extents((int(value),), heap, (code, number), context)


def _make_shape(heap: Any, size: int, *codes: int) -> tuple[int, ...]:
    pairs = zip(codes[::2], codes[1::2], strict=True)
    return tuple(int(heap[number]) if code == 1 else number for code, number in pairs)


BUILTINS: dict[str, Callable[..., Any]] = {
    "shape_of": lambda value: tuple(int(extent) for extent in value.shape),
    "tensor_to_shape": _invoke_shape,
    "shape_to_tensor": lambda shape: np.asarray(shape, "int64"),
    "size": lambda value: int(value.size),
    "dtype_of": lambda value: value.dtype.name,
    "copy": lambda value: value.copy() if isinstance(value, np.ndarray) else value,
    "null_value": lambda: None,
    "assert": _assert,
    "print": _print,
    "to_device": lambda value, *_: value,
    "reshape": lambda value, shape: value.reshape(shape),
    "alloc_shape_heap": lambda size: np.zeros(size, "int64"),
    "check_tensor_info": _check_tensor_info,
    "check_shape_info": _check_shape_info,
    "check_tuple_info": _check_tuple_info,
    "check_prim_value_info": _check_prim_value_info,
    "check_func_info": _check_func_info,
    "match_shape": _match_shape,
    "match_prim_value": _match_prim_value,
    "make_shape": _make_shape,
    "make_prim_value": lambda heap, code, number: _make_shape(heap, 1, code, number)[0],
}
"""Functions of the machine itself, on raw values."""

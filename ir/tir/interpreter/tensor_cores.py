"""Matrix instructions of GPUs: each lane of a warp holds a part of every matrix, and all lanes come to a call together.

Which elements of a WMMA fragment a lane holds is its own affair; those of ``mma``, ``ldmatrix`` and ``stmatrix`` are where the PTX ISA
says ("Warp Level Matrix Instructions"). In programs with blocks, whose threads are loops, one iteration works for the whole warp and
holds all of a fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtype as dt
from .. import expr as E
from ..intrinsic.matrix_types import matrix_dtype
from .error import InterpreterError, refusal
from .lanes import Closure
from .meetings import WARP, Place, Together
from .memory import Elements, Pointer
from .numbers import from_numpy
from .protocol import Thread, Translator

Env = dict[Any, Any]
_RULE = "warp-matrix"
_ROW_BYTES = 16
"""Of a row of ``ldmatrix``; addresses and strides of WMMA are multiples of it."""
_EXTENTS: dict[str, Callable[[int, int, int], tuple[int, int]]] = {
    "wmma.matrix_a": lambda m, n, k: (m, k),
    "wmma.matrix_b": lambda m, n, k: (k, n),
    "wmma.accumulator": lambda m, n, k: (m, n),
}
"""Rows and columns of a fragment, by its scope."""


# ---- who takes part ----------------------------------------------------------------------------------------------


class _Warp:
    """The lanes that make a call together."""

    def __init__(self, expressions: Translator, node: E.Call) -> None:
        self._machine, self._node = expressions.machine, node
        self._place = Place(next(expressions.kernel.places), str(node))

    @property
    def lane(self) -> int | None:
        """The lane that runs; None where one iteration works for all of them.

        Raises:
            UndefinedError: the warp has fewer lanes than the instruction needs.
        """
        thread = self._machine.thread
        if thread is None:
            return None
        if len(thread.warp) != WARP:
            raise refusal(_RULE, f"a warp of {len(thread.warp)} threads comes, not of {WARP}", self._node)
        return thread.number % WARP

    @property
    def own_lane(self) -> int:
        """The lane that runs, of an instruction that has a meaning in threads only."""
        lane = self.lane
        if lane is None:
            raise InterpreterError(
                f"{self._node.op.name} has a meaning in threads only, which the attribute thread_extent starts"
            )
        return lane

    def meet(self, brought: Any) -> Sequence[Any]:
        """What each lane brings, in their order."""
        thread: Thread | None = self._machine.thread
        if thread is None:
            return [brought]
        return thread.meet(Together(self._place, thread.warp, brought))  # type: ignore[no-any-return]

    def agree(self, brought: Any) -> None:
        """Waits for the others, which must bring the same.

        Raises:
            UndefinedError: one brings something else.
        """
        if any(other != brought for other in self.meet(brought)):
            raise refusal(_RULE, "the lanes of a warp come with different arguments", self._node)


def _held(lane: int | None, count: int) -> np.ndarray:
    """The elements of a WMMA fragment that a lane holds: an unordered choice, so that nothing relies on one."""
    every = np.arange(count)
    return every if lane is None else every[(5 * every + 7 * (every // WARP)) % WARP == lane]


# ---- WMMA --------------------------------------------------------------------------------------------------------


class _Fragment:
    """The address of fragments and the number of one, as a call names them."""

    def __init__(self, expressions: Translator, address: E.PrimExpr, index: E.PrimExpr) -> None:
        self._pointer, self._index = expressions.data(address), expressions.index(index)
        annotation = getattr(address, "type_annotation", None)
        self.scope, self.name = getattr(annotation, "storage_scope", ""), str(address)
        if self.scope not in _EXTENTS:
            raise InterpreterError(
                f"{self.name} of scope {self.scope!r} is no fragment; there are {', '.join(_EXTENTS)}"
            )

    def find(self, env: Env) -> tuple[Pointer, int]:
        """Where it is."""
        return self._pointer(env), self._index(env)

    def shape(self, env: Env, node: E.Call) -> tuple[int, int, int]:
        """What it was loaded or filled as.

        Raises:
            UndefinedError: it was not.
        """
        pointer, index = self.find(env)
        found = pointer.memory.fragments.get((pointer.offset, index))
        if found is None:
            raise refusal(_RULE, f"fragment {index} of {self.name} was neither loaded nor filled", node)
        return found

    def elements(self, env: Env, shape: tuple[int, int, int], lane: int | None) -> tuple[Elements, list[int]]:
        """The memory from its first element on, and the elements of the matrix that a lane holds."""
        pointer, index = self.find(env)
        rows, columns = _EXTENTS[self.scope](*shape)
        pointer.memory.fragments[pointer.offset, index] = shape
        begin = pointer.moved(index * rows * columns, pointer.dtype)
        return begin.elements(pointer.dtype), [int(place) for place in _held(lane, rows * columns)]

    def read(self, env: Env, shape: tuple[int, int, int], lane: int | None) -> np.ndarray:
        """The elements that a lane holds."""
        elements, places = self.elements(env, shape, lane)
        return np.array([elements.read(place, self.name) for place in places])

    def whole(self, shape: tuple[int, int, int], parts: Sequence[np.ndarray]) -> np.ndarray:
        """The matrix of what all lanes hold."""
        rows, columns = _EXTENTS[self.scope](*shape)
        found = np.empty(rows * columns, parts[0].dtype)
        for lane, part in enumerate(parts):
            found[_held(lane if len(parts) > 1 else None, rows * columns)] = part
        return found.reshape(rows, columns)


def _shape(node: E.Call) -> tuple[int, int, int]:
    m, n, k = (int(getattr(item, "value", 0)) for item in node.args[1:4])
    return m, n, k


def load_fragment(expressions: Translator, node: E.Call) -> Closure:
    """A matrix from memory to a fragment."""
    return _moved(expressions, node, is_load=True)


def store_fragment(expressions: Translator, node: E.Call) -> Closure:
    """A fragment to memory."""
    return _moved(expressions, node, is_load=False)


def _moved(expressions: Translator, node: E.Call, is_load: bool) -> Closure:
    fragment = _Fragment(expressions, node.args[0], node.args[4])
    address, stride = expressions.data(node.args[5]), expressions.index(node.args[6])
    warp, shape = _Warp(expressions, node), _shape(node)
    columns, by_rows = _EXTENTS[fragment.scope](*shape)[1], getattr(node.args[7], "value", "") == "row_major"
    name = str(node.args[5])

    def move(env: Env) -> int:
        lane, memory, step = warp.lane, address(env), stride(env)
        elements, places = fragment.elements(env, shape, lane)
        pointer, index = fragment.find(env)
        outside = memory.elements(pointer.dtype)
        _check_alignment(memory, step * dt.bytes_of(pointer.dtype), node)
        warp.agree((memory.memory, memory.offset, step, index))
        for place in places:
            row, column = divmod(place, columns)
            there = row * step + column if by_rows else column * step + row
            if is_load:
                elements.write(place, outside.read(there, name), fragment.name)
            else:
                outside.write(there, elements.read(place, fragment.name), name)
        return 0

    return move


def _check_alignment(memory: Pointer, stride_bytes: int, node: E.Call) -> None:
    if memory.offset % _ROW_BYTES or stride_bytes % _ROW_BYTES:
        raise refusal(
            _RULE,
            f"a matrix at byte {memory.offset} with rows {stride_bytes} bytes apart: both must be multiples of {_ROW_BYTES}",
            node,
        )


def fill_fragment(expressions: Translator, node: E.Call) -> Closure:
    """One number in all elements; lanes do not wait for each other."""
    fragment, value = _Fragment(expressions, node.args[0], node.args[4]), expressions.data(node.args[5])
    warp, shape = _Warp(expressions, node), _shape(node)

    def fill(env: Env) -> int:
        elements, places = fragment.elements(env, shape, warp.lane)
        for place in places:
            elements.write(place, value(env), fragment.name)
        return 0

    return fill


def multiply_fragments(expressions: Translator, node: E.Call) -> Closure:
    """``d = a @ b + c``."""
    result, first, second, sums = (
        _Fragment(expressions, node.args[at], node.args[at + 1]) for at in (0, 2, 4, 6)
    )
    warp = _Warp(expressions, node)

    def multiply(env: Env) -> int:
        operands = (first, second, sums)
        shapes = {fragment.shape(env, node) for fragment in operands}
        if len(shapes) != 1:
            raise refusal(_RULE, f"fragments of different shapes are multiplied: {sorted(shapes)}", node)
        (shape,) = shapes
        lane = warp.lane
        brought = warp.meet([fragment.read(env, shape, lane) for fragment in operands])
        a, b, c = (
            fragment.whole(shape, [parts[at] for parts in brought]) for at, fragment in enumerate(operands)
        )
        dtype = result.find(env)[0].dtype
        total = _product(_operand(a), _operand(b), c, dtype).reshape(-1)
        elements, places = result.elements(env, shape, lane)
        for place in places:
            elements.write(place, from_numpy(total[place], dtype), result.name)
        return 0

    return multiply


def _operand(values: np.ndarray) -> np.ndarray:
    """What tensor cores read of an operand: of float32, tf32."""
    return round_to_tf32(values) if values.dtype == np.float32 else values


def round_to_tf32(values: np.ndarray) -> np.ndarray:
    """The nearest floats with 10 bits of fraction, ties away from zero."""
    with np.errstate(all="ignore"):
        wide = np.asarray(values, "float32").astype("float64")
        fraction, exponent = np.frexp(wide)
        exponent = np.maximum(exponent, -125)  # below, neighbours are as far apart as there
        scaled = np.ldexp(wide, 11 - exponent)
        near = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
        found = np.where(np.isfinite(wide) & (fraction != 0), np.ldexp(near, exponent - 11), wide)
        return found.astype("float32")


def _product(a: np.ndarray, b: np.ndarray, c: np.ndarray, dtype: str) -> np.ndarray:
    """Integers wrap; products of floats are exact here, their sum is rounded once. Hardware rounds more often (``docs/semantics.md``)."""
    if dt.is_integral(dtype):
        total = a.astype("int64") @ b.astype("int64") + c.astype("int64")
        return total.astype(dt.to_numpy(dtype))
    with np.errstate(all="ignore"):
        total = a.astype("float64") @ b.astype("float64") + c.astype("float64")
        return total.astype(dt.to_numpy(dtype))


# ---- mma, ldmatrix, stmatrix -------------------------------------------------------------------------------------


def _places(shape: str, bits: Sequence[int]) -> tuple[Callable[[int], tuple[Any, Any]], ...]:
    """For A, B and the sums: rows and columns of the elements that a lane holds, in the order of its registers."""
    m, n, k = (int(item) for item in shape[1:].replace("n", " ").replace("k", " ").split())
    width_a, width_b = (max(32 // item, 1) for item in bits)

    def of_a(lane: int) -> tuple[Any, Any]:
        register, element = np.divmod(np.arange(m * k // WARP), width_a)
        return lane // 4 + register % 2 * 8, lane % 4 * width_a + element + register // 2 * 4 * width_a

    def of_b(lane: int) -> tuple[Any, Any]:
        register, element = np.divmod(np.arange(n * k // WARP), width_b)
        return (
            lane % 4 * width_b + element + register * 4 * width_b,
            np.full(n * k // WARP, lane // 4),
        )

    def of_sums(lane: int) -> tuple[Any, Any]:
        return _sum_places(lane, m, n)

    return of_a, of_b, of_sums


def _sum_places(lane: int, rows: int, columns: int) -> tuple[Any, Any]:
    """The same of sums: tiles of 8 columns one behind the other, each with pairs of neighbours of every eighth row."""
    in_tile = rows // 4
    tile, element = np.divmod(np.arange(rows * columns // WARP), in_tile)
    return lane // 4 + element // 2 * 8, lane % 4 * 2 + element % 2 + tile * 8


class _Registers:
    """Elements of a thread from an address and an offset on."""

    def __init__(self, expressions: Translator, address: E.PrimExpr, offset: E.PrimExpr, dtype: str) -> None:
        self._pointer, self._offset = expressions.data(address), expressions.index(offset)
        self.dtype, self.name = dtype, str(address)

    def elements(self, env: Env) -> Elements:
        """The memory."""
        pointer: Pointer = self._pointer(env)
        return pointer.moved(self._offset(env), pointer.dtype).elements(self.dtype)

    def read(self, env: Env, count: int) -> np.ndarray:
        """The first elements."""
        elements = self.elements(env)
        return np.array([elements.read(place, self.name) for place in range(count)], dt.to_numpy(self.dtype))

    def write(self, env: Env, values: np.ndarray) -> None:
        """Stores the first elements."""
        elements = self.elements(env)
        for place, value in enumerate(values):
            elements.write(place, from_numpy(value, self.dtype), self.name)


def multiply_registers(expressions: Translator, node: E.Call) -> Closure:
    """``mma``: sums and products of matrices that the registers of a warp hold."""
    shape = str(node.args[0].value)  # type: ignore[attr-defined]
    names = [str(item.value) for item in node.args[3:6]]  # type: ignore[attr-defined]
    dtypes = [matrix_dtype(name) for name in names]
    layouts = [getattr(item, "value", "") for item in node.args[1:3]]
    if layouts != ["row", "col"]:
        raise InterpreterError(
            f"{node.op.name} takes A by rows and B by columns, not {' and '.join(layouts)}"
        )
    operands = [
        _Registers(expressions, node.args[at], node.args[at + 1], dtype)
        for at, dtype in zip((6, 8, 10), dtypes, strict=True)
    ]
    warp, places = _Warp(expressions, node), _places(shape, [dt.bits(dtype) for dtype in dtypes[:2]])
    counts = [len(place(0)[0]) for place in places]

    def multiply(env: Env) -> int:
        lane = warp.own_lane
        own = [part.read(env, count) for part, count in zip(operands, counts, strict=True)]
        brought = warp.meet(own)
        a, b, c = (_gathered(place, [parts[at] for parts in brought]) for at, place in enumerate(places))
        total = _product(_operand(a), _operand(b), c, dtypes[2])
        operands[2].write(env, total[places[2](lane)])
        return 0

    return multiply


def _gathered(places: Callable[[int], tuple[Any, Any]], parts: Sequence[np.ndarray]) -> np.ndarray:
    """The matrix of what all lanes hold."""
    indices = [places(lane) for lane in range(WARP)]
    extents = [1 + max(int(np.max(index[axis])) for index in indices) for axis in (0, 1)]
    found = np.empty(extents, parts[0].dtype)
    for index, part in zip(indices, parts, strict=True):
        found[index] = part
    return found


def load_rows(expressions: Translator, node: E.Call) -> Closure:
    """``ldmatrix``: matrices of 8 by 8 elements of 16 bits to registers."""
    return _rows(expressions, node, registers=3, memory=5, is_load=True)


def store_rows(expressions: Translator, node: E.Call) -> Closure:
    """``stmatrix``: registers to such matrices."""
    return _rows(expressions, node, registers=5, memory=3, is_load=False)


def _rows(expressions: Translator, node: E.Call, registers: int, memory: int, is_load: bool) -> Closure:
    held = _Registers(expressions, node.args[registers], node.args[registers + 1], "uint16")
    row = expressions.data(node.args[memory]), expressions.index(node.args[memory + 1])
    is_transposed, count = bool(node.args[0].value), int(node.args[1].value)  # type: ignore[attr-defined]
    warp, name = _Warp(expressions, node), str(node.args[memory])

    def move(env: Env) -> int:
        lane = warp.own_lane
        pointer: Pointer = row[0](env)
        own = pointer.moved(row[1](env), pointer.dtype)
        if lane < 8 * count and own.offset % _ROW_BYTES:
            raise refusal(_RULE, f"a row at byte {own.offset}, which is no multiple of {_ROW_BYTES}", node)
        rows = warp.meet(own)
        elements = held.elements(env)
        for place in range(2 * count):
            matrix, element = divmod(place, 2)
            i, j = lane // 4, lane % 4 * 2 + element
            if is_transposed:
                i, j = j, i
            there = rows[8 * matrix + i].elements("uint16")
            if is_load:
                elements.write(place, there.read(j, name), held.name)
            else:
                there.write(j, elements.read(place, held.name), name)
        return 0

    return move


def store_sums(expressions: Translator, node: E.Call) -> Closure:
    """A thread's part of the sums of ``mma`` to memory."""
    rows, columns = (int(getattr(item, "value", 0)) for item in node.args[:2])
    address, stride = expressions.data(node.args[2]), expressions.index(node.args[5])
    held = _Registers(expressions, node.args[3], node.args[4], node.dtype)
    warp, name = _Warp(expressions, node), str(node.args[2])

    def store(env: Env) -> int:
        places = _sum_places(warp.own_lane, rows, columns)
        outside, step = address(env).elements(node.dtype), stride(env)
        values = held.elements(env)
        for place, (i, j) in enumerate(zip(*places, strict=True)):
            outside.write(int(i) * step + int(j), values.read(place, held.name), name)
        return 0

    return store


def fill_sums(expressions: Translator, node: E.Call) -> Closure:
    """Zeros in a thread's part of the sums of ``mma``."""
    count = int(getattr(node.args[0], "value", 0))
    held = _Registers(expressions, node.args[1], node.args[2], node.dtype)

    def fill(env: Env) -> int:
        held.write(env, np.zeros(count, dt.to_numpy(node.dtype)))
        return 0

    return fill

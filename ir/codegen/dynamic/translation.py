"""Functions with symbolic shapes as native code that C calls: the instructions of the virtual machine, translated into LLVM assembly.

What instructions do with tensors' extents is known while they are translated up to the numbers themselves: a tensor is an address with as
many numbers as it has dimensions, a tuple is its fields, and so no object is left at run time. :mod:`runners.interpreter` describes the
instructions; what has no such form (functions as values, calls of Python, tensors of unknown rank) is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..model_driver import quoted, quoted_text
from .assembly import MESSAGE_BYTES, CallAssembly
from .builtins import BUILTINS
from .values import (
    MOST_DIMENSIONS,
    NOTHING,
    TENSOR_TYPE,
    Array,
    Heap,
    NotCallableError,
    Nothing,
    Number,
    Shape,
    Storage,
    Tensor,
    Value,
    dtype_number,
    literal,
    llvm_type,
)

_MOST_INLINED = 16
"""Functions within functions whose instructions are copied."""


@dataclass(frozen=True)
class DynamicFunction:
    """A function in LLVM assembly, ``int32 symbol(const tensor *inputs, tensor *outputs)``, with the declarations that it needs."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    body: str
    declarations: tuple[str, ...]


class _Translator(CallAssembly):
    """Translates one function and those that it calls.

    Args:
        name, symbol: the function in the model, and in C.
        functions: of the model.
        constants: descriptions of the constants, with their offsets.
        handed_over: numbers of the storages that results take along, which are allocated so that C can free them.
    """

    def __init__(
        self,
        name: str,
        symbol: str,
        functions: Mapping[str, Any],
        constants: Sequence[Mapping[str, Any]],
        handed_over: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(name, symbol, handed_over)
        self._functions = functions
        self._constants = constants
        self._declared: dict[str, None] = {}
        self._depth = 0
        self.result_storages: frozenset[int] = frozenset()

    # ---- the whole ------------------------------------------------------------------------------------------

    def run(self) -> DynamicFunction:
        entry = self._functions[self.name]
        inputs = [self._described(param) for param in entry["params"]]
        registers: dict[int, Value] = {}
        for number, item in enumerate(inputs):
            registers[number] = self._input(number, item)
        self._code(entry["code"], registers)
        results = self._flat(registers[entry["result"]])
        outputs = tuple(self._output(number, value) for number, value in enumerate(results))
        owners = [value.storage for value in results if value.storage is not None and value.is_whole]
        self.result_storages = frozenset(item.number for item in owners if owners.count(item) == 1)
        return DynamicFunction(tuple(inputs), outputs, self._text(len(outputs)), tuple(self._declared))

    def _text(self, n_outputs: int) -> str:
        slots = [f"%slot.{number}" for number in range(self.n_storages)]
        lines = [
            *(
                f"{name} = private unnamed_addr constant {self._bytes(text)}"
                for text, name in self.texts.items()
            ),
            f"define i32 @{self.symbol}(ptr %inputs, ptr %outputs) {{",
            "entry:",
            "  %status = alloca i32",
            f"  %message = alloca [{MESSAGE_BYTES} x i8]",
            "  store i32 1, ptr %status",
            *(f"  {slot} = alloca ptr\n  store ptr null, ptr {slot}" for slot in slots),
            *(
                f"  %output.{n} = getelementptr {TENSOR_TYPE}, ptr %outputs, i64 {n}"
                for n in range(n_outputs)
            ),
            *(f"  store ptr null, ptr %output.{number}" for number in range(n_outputs)),
            *self.entry_lines,
            "  br label %begin",
            "begin:",
            *self.lines,
            "  store i32 0, ptr %status",
            "  br label %end",
            *self.failures,
            "failed:",
        ]
        for number in range(n_outputs):
            lines += [
                f"  %made.{number} = load ptr, ptr %output.{number}",
                f"  call void @free(ptr %made.{number})",
                f"  store ptr null, ptr %output.{number}",
            ]
        lines += ["  br label %end", "end:"]
        for number in range(self.n_storages):
            lines += [
                f"  %left.{number} = load ptr, ptr %slot.{number}",
                f"  call void @{self._release(number)}(ptr %left.{number})",
            ]
        return "\n".join([*lines, "  %returned = load i32, ptr %status", "  ret i32 %returned", "}"]) + "\n"

    def _release(self, number: int) -> str:
        return "free" if number in self.handed_over else "loopsmith_dynamic_release"

    @staticmethod
    def _bytes(text: str) -> str:
        data = text.encode() + b"\0"
        return f'[{len(data)} x i8] c"{quoted_text(data)}"'

    # ---- arguments, results, memory -------------------------------------------------------------------------

    def _described(self, param: Mapping[str, Any]) -> Array:
        name, shape = str(param["name"]), param.get("shape")
        if "shape" not in param:
            raise NotCallableError(f"its argument {name} is no tensor")
        if shape is None or not param["dtype"]:
            raise NotCallableError(f"the rank or dtype of its argument {name} is not known")
        if len(shape) > MOST_DIMENSIONS:
            raise NotCallableError(f"its argument {name} has more than {MOST_DIMENSIONS} dimensions")
        dtype_number(param["dtype"])
        return Array(name, param["dtype"], tuple(shape), bool(param.get("written")))

    def _input(self, number: int, item: Array) -> Tensor:
        what = f"{self.name}: argument {item.name}"
        place = self.assign(f"getelementptr {TENSOR_TYPE}, ptr %inputs, i64 {number}", "input")
        for index, wanted, message in (
            (2, len(item.shape), f"{what} must have {len(item.shape)} dimensions"),
            (3, dtype_number(item.dtype), f"{what} must be {item.dtype}"),
        ):
            slot = self.assign(f"getelementptr {TENSOR_TYPE}, ptr {place}, i64 0, i32 {index}")
            found = self.assign(f"load i32, ptr {slot}")
            self.require(self.assign(f"icmp eq i32 {found}, {wanted}"), message)
        extents = []
        for axis, declared in enumerate(item.shape):
            slot = self.assign(f"getelementptr {TENSOR_TYPE}, ptr {place}, i64 0, i32 1, i64 {axis}")
            extent = self.assign(f"load i64, ptr {slot}", "extent")
            if isinstance(declared, int):
                message = f"{what} must have extent {declared} on axis {axis}, got {{}}"
                self.require_equal(extent, str(declared), message)
                extents.append(str(declared))
            else:
                message = f"{what} has a negative extent on axis {axis}"
                self.require(self.assign(f"icmp sge i64 {extent}, 0"), message)
                extents.append(extent)
        return Tensor(self.assign(f"load ptr, ptr {place}", "data"), tuple(extents), item.dtype)

    def _flat(self, value: Value) -> list[Tensor]:
        if isinstance(value, Tensor):
            return [value]
        if isinstance(value, tuple):
            return [item for part in value for item in self._flat(part)]
        raise NotCallableError(f"it returns a {type(value).__name__.strip('_').lower()}, which is no tensor")

    def _output(self, number: int, value: Tensor) -> Array:
        if len(value.extents) > MOST_DIMENSIONS:
            raise NotCallableError(f"its result has more than {MOST_DIMENSIONS} dimensions")
        place, storage = f"%output.{number}", value.storage
        if storage is not None and storage.number in self.handed_over and value.is_whole:
            pointer = value.pointer
            self.emit(f"store ptr null, ptr %slot.{storage.number}")
        else:
            size = self.bytes_of(value.extents, value.dtype)
            pointer = self.allocated("loopsmith_dynamic_allocate", size)
            self.emit(f"call ptr @memcpy(ptr {pointer}, ptr {value.pointer}, i64 {size})")
        self.emit(f"store ptr {pointer}, ptr {place}")
        for axis, extent in enumerate(value.extents):
            slot = self.assign(f"getelementptr {TENSOR_TYPE}, ptr {place}, i64 0, i32 1, i64 {axis}")
            self.emit(f"store i64 {extent}, ptr {slot}")
        for index, number_ in ((2, len(value.extents)), (3, dtype_number(value.dtype))):
            slot = self.assign(f"getelementptr {TENSOR_TYPE}, ptr {place}, i64 0, i32 {index}")
            self.emit(f"store i32 {number_}, ptr {slot}")
        shape = tuple(int(item) if item.isdigit() else "?" for item in value.extents)
        return Array(f"output{number}", value.dtype, shape)

    # ---- instructions ---------------------------------------------------------------------------------------

    def _code(self, code: Sequence[Sequence[Any]], registers: dict[int, Value]) -> None:
        for kind, *parts in code:
            if kind == "kill":
                dead = registers.get(parts[0], NOTHING)
                registers[parts[0]] = NOTHING
                if self._depth == 0:
                    self.hold(parts[0], dead, False)
                continue
            value = self._instruction(kind, parts, registers)
            registers[parts[0]] = value
            if self._depth == 0:
                self.hold(parts[0], value, True)

    def _instruction(self, kind: str, parts: Sequence[Any], registers: dict[int, Value]) -> Value:
        made = _INSTRUCTIONS.get(kind)
        if made is None:
            raise NotCallableError(f"it has functions as values ({kind})")
        return made(self, registers, *parts[1:])

    def _operand(self, operand: Any, registers: dict[int, Value]) -> Value:
        if isinstance(operand, int):
            return registers[operand]
        (value,) = operand
        if isinstance(value, list):
            return Shape(tuple(str(int(item)) for item in value))
        if value is None:
            return NOTHING
        if isinstance(value, str):
            return value
        is_float = isinstance(value, float)
        return Number(literal(value, "double" if is_float else "i64"), "float64" if is_float else "int64")

    def _constant(self, registers: dict[int, Value], number: int) -> Value:
        item = self._constants[number]
        pointer = f"getelementptr (i8, ptr @loopsmith_constants, i64 {item['offset']})"
        return Tensor(pointer, tuple(map(str, item["shape"])), item["dtype"])

    def _move(self, registers: dict[int, Value], operand: Any) -> Value:
        return self._operand(operand, registers)

    def _make_storage(self, registers: dict[int, Value], size: Any, _device: int) -> Value:
        shape = self._operand(size, registers)
        extents = shape.extents if isinstance(shape, Shape) else (self.integer(shape),)
        return self.new_storage(self.product(extents))

    def _make_tensor(
        self, registers: dict[int, Value], storage: int, offset: Any, shape: Any, dtype: str
    ) -> Value:
        memory, extents = registers[storage], self._operand(shape, registers)
        if not isinstance(memory, Storage) or not isinstance(extents, Shape):
            raise NotCallableError("a tensor lies in what is no memory")
        begin = self.integer(self._operand(offset, registers))
        pointer = memory.pointer
        if begin != "0":
            pointer = self.assign(f"getelementptr i8, ptr {pointer}, i64 {begin}")
        return Tensor(pointer, extents.extents, dtype, memory, begin == "0")

    def _call_kernel(self, registers: dict[int, Value], symbol: str, operands: list[list[Any]]) -> Value:
        types: list[str] = []
        values: list[str] = []
        result: tuple[str, str] | None = None
        for kind, *what in operands:
            if kind == "queue":
                raise NotCallableError("it launches kernels of a device")
            if kind == "result":
                result = self._result_slot(what[0])
                types.append("ptr")
                values.append(result[0])
                continue
            types.append("ptr" if kind == "buffer" else llvm_type(what[-1]))
            values.append(self._kernel_operand(kind, what, registers))
        self._declared.setdefault(f"declare i32 @{quoted(symbol)}({', '.join(types)})")
        given = ", ".join(f"{kind} {value}" for kind, value in zip(types, values, strict=True))
        status = self.assign(f"call i32 @{quoted(symbol)}({given})", "status")
        self.count += 1
        fine, wrong = f"fine.{self.count}", f"wrong.{self.count}"
        failed = self.assign(f"icmp ne i32 {status}, 0")
        self.emit(f"br i1 {failed}, label %{wrong}, label %{fine}")
        self.failures += [f"{wrong}:", f"  store i32 {status}, ptr %status", "  br label %failed"]
        self.open_block(fine)
        if result is None:
            return NOTHING
        return self.loaded_number(*result)

    def _result_slot(self, dtype: str) -> tuple[str, str]:
        name = self.new_name("result")
        self.entry_lines.append(f"  {name} = alloca i64")
        return name, dtype

    def _kernel_operand(self, kind: str, what: list[Any], registers: dict[int, Value]) -> str:
        if kind == "number":
            if not isinstance(what[0], int):
                return literal(what[0][0], llvm_type(what[1]))
            value = registers[what[0]]
            if not isinstance(value, Number):
                raise NotCallableError("a kernel takes a number that is none")
            return value.value
        value = registers[what[0]]
        if kind == "buffer":
            if not isinstance(value, Tensor | Heap):
                raise NotCallableError("a kernel takes a tensor that is none")
            return value.pointer
        if not isinstance(value, Tensor | Shape):
            raise NotCallableError("a kernel takes an extent of what has none")
        if kind == "extent":
            return value.extents[what[1]]
        return self.product(value.extents[what[1] + 1 :])

    def _tuple(self, registers: dict[int, Value], operands: list[Any]) -> Value:
        return tuple(self._operand(item, registers) for item in operands)

    def _get(self, registers: dict[int, Value], source: int, index: int) -> Value:
        value = registers[source]
        if not isinstance(value, tuple):
            raise NotCallableError("a field is taken of what is no tuple")
        return value[index]

    def _call_function(self, registers: dict[int, Value], name: str, operands: list[Any]) -> Value:
        entry = self._functions[name]
        if self._depth >= _MOST_INLINED or entry["kind"] != "bytecode":
            raise NotCallableError(f"it calls {name}, which calls itself or is compiled by itself")
        given = {number: self._operand(item, registers) for number, item in enumerate(operands)}
        outer = self.is_straight
        self._depth, self.is_straight = self._depth + 1, False
        self._code(entry["code"], given)
        self._depth, self.is_straight = self._depth - 1, outer
        return given[entry["result"]]

    def _branch(
        self,
        registers: dict[int, Value],
        cond: int,
        then: list[Any],
        then_reg: int,
        other: list[Any],
        other_reg: int,
    ) -> Value:
        taken = self.truth(registers[cond])
        self.count += 1
        labels = [f"{name}.{self.count}" for name in ("then", "else", "merged")]
        self.emit(f"br i1 {taken}, label %{labels[0]}, label %{labels[1]}")
        outer, ends, values = self.is_straight, [], []
        self.is_straight = False
        for label, code, register in ((labels[0], then, then_reg), (labels[1], other, other_reg)):
            self.open_block(label)
            inside = dict(registers)
            self._code(code, inside)
            values.append(inside[register])
            ends.append(self.block)
            self.emit(f"br label %{labels[2]}")
        self.is_straight = outer
        self.open_block(labels[2])
        return self._merged(values[0], values[1], ends)

    def _merged(self, one: Value, other: Value, ends: list[str]) -> Value:
        """The value of the branch that was taken."""

        def phi(kind: str, a: str, b: str) -> str:
            return a if a == b else self.assign(f"phi {kind} [ {a}, %{ends[0]} ], [ {b}, %{ends[1]} ]")

        if isinstance(one, Tensor) and isinstance(other, Tensor):
            if one.dtype == other.dtype and len(one.extents) == len(other.extents):
                for storage in (one.storage, other.storage):
                    if storage is not None:  # what is reached through the merged tensor is not counted
                        storage.ends_early = False
                extents = tuple(phi("i64", a, b) for a, b in zip(one.extents, other.extents, strict=True))
                return Tensor(phi("ptr", one.pointer, other.pointer), extents, one.dtype)
        if isinstance(one, Shape) and isinstance(other, Shape) and len(one.extents) == len(other.extents):
            return Shape(tuple(phi("i64", a, b) for a, b in zip(one.extents, other.extents, strict=True)))
        if isinstance(one, Number) and isinstance(other, Number) and one.dtype == other.dtype:
            return Number(phi(llvm_type(one.dtype), one.value, other.value), one.dtype)
        if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            return tuple(self._merged(a, b, ends) for a, b in zip(one, other, strict=True))
        if isinstance(one, Nothing) and isinstance(other, Nothing):
            return NOTHING
        raise NotCallableError("the branches of a condition give values of different kinds")

    def _packed(
        self, registers: dict[int, Value], name: str, operands: list[Any], described: Any = None
    ) -> Value:
        made = BUILTINS.get(name)
        if made is None:
            raise NotCallableError(f"it calls {name}, which is a function of Python")
        values = [self._operand(item, registers) for item in operands]
        return made(self, *values)


_INSTRUCTIONS: dict[str, Callable[..., Value]] = {
    "const": _Translator._constant,
    "move": _Translator._move,
    "storage": _Translator._make_storage,
    "tensor": _Translator._make_tensor,
    "kernel": _Translator._call_kernel,
    "packed": _Translator._packed,
    "tuple": _Translator._tuple,
    "get": _Translator._get,
    "if": _Translator._branch,
    "call": _Translator._call_function,
}
RUNTIME_TEXT = """\
declare ptr @loopsmith_workspace_acquire(i64)
declare void @loopsmith_workspace_release(ptr)
declare void @loopsmith_set_error(ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @snprintf(ptr, i64, ptr, ...)
define internal ptr @loopsmith_dynamic_allocate(i64 %bytes) {
  %more = add i64 %bytes, 64
  %whole = and i64 %more, -64
  %memory = call ptr @aligned_alloc(i64 64, i64 %whole)
  ret ptr %memory
}
define internal void @loopsmith_dynamic_release(ptr %memory) {
  %absent = icmp eq ptr %memory, null
  br i1 %absent, label %end, label %release
release:
  call void @loopsmith_workspace_release(ptr %memory)
  br label %end
end:
  ret void
}
"""
"""What translated functions share. Memory of a call is that of kernels' workspaces; results are C's own, which the caller frees."""


def translate(
    name: str, symbol: str, functions: Mapping[str, Any], constants: Sequence[Mapping[str, Any]]
) -> DynamicFunction:
    """A function of bytecode as native code.

    Args:
        name: of the function.
        symbol: its name in C.
        functions: all of the model, as its description has them.
        constants: their dtypes, shapes and offsets behind ``loopsmith_constants``.

    Raises:
        NotCallableError: it has no such form.
    """
    first = _Translator(name, symbol, functions, constants)
    first.run()
    if not first.result_storages:
        return _Translator(name, symbol, functions, constants).run()
    return _Translator(name, symbol, functions, constants, first.result_storages).run()

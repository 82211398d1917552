"""Matrix units: the instructions of Intel's AMX on numbered registers, and vectors in their place on other machines.

A function that uses registers sets up at its beginning how many rows each of them has, and gives them up at its end: the system saves
what a thread keeps in them. Where two parts of a function need them otherwise, or something is called that may use them itself, each
part sets them up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache

from ... import dtype as dt
from ...expr import GlobalVar
from ...node import Visitor
from ...tir import expr as E
from ...tir import stmt as S
from ...tir.buffer import Buffer
from ...tir.intrinsic.calls import LIBRARY
from ...tir.intrinsic.matrix_registers import (
    MATRIX_PRODUCTS,
    MATRIX_REGISTERS,
    MATRIX_ROW_BYTES,
    MATRIX_ROWS,
    MATRIX_SCOPE,
    pointed_to,
    register_of,
    rows_of,
)
from ...tir.stmt_functor import StmtVisitor
from ..error import CodegenError
from .builder import Value, vector
from .compile import MachineOptions, architecture_of, optimize, options_text
from .dot_product import sum_of_groups
from .emitter import FunctionEmitter
from .kernel_context import FAILED
from .memory import address, flat_index
from .runtime import runtime
from .types import element_bytes, memory_type

_INSTRUCTIONS = {
    ("int8", "int8"): "tdpbssd",
    ("int8", "uint8"): "tdpbsud",
    ("uint8", "int8"): "tdpbusd",
    ("uint8", "uint8"): "tdpbuud",
    ("bfloat16", "bfloat16"): "tdpbf16ps",
}
MATRIX_FEATURES = ("amx-tile", "amx-int8", "amx-bf16")
"""LLVM's names of what code for a matrix unit needs."""


# -- which machines have one -----------------------------------------------------------
@lru_cache(maxsize=16)
def has_matrix_unit(options: MachineOptions = MachineOptions()) -> bool:
    """Whether a machine has AMX for bytes and bfloat16; of the host, whether the system lets this process use it.

    LLVM copies a function into another one where the second may use all features of the first, and is asked so: at a level at which it
    copies.
    """
    options = replace(options, opt_level=2)
    if not architecture_of(options.triple).startswith("x86_64"):
        return False
    cpu, features = options_text(options)
    own, more = (
        f'"target-cpu"="{cpu}" "target-features"="{features}',
        "".join(f",+{name}" for name in MATRIX_FEATURES),
    )
    probe = (
        f'define internal i32 @needs(i32 %x) {own}{more if features else more[1:]}" {{\n %y = add i32 %x, 7\n ret i32 %y\n}}\n'
        f'define i32 @f(i32 %x) {own}" {{\n %y = call i32 @needs(i32 %x)\n ret i32 %y\n}}'
    )
    if "@needs" in str(optimize(probe, options, level=2)):
        return False
    return bool(options.triple or options.cpu) or runtime().use_matrix_unit()


def uses_matrix_unit(text: str) -> bool:
    """Whether a module in LLVM's assembly has instructions of a matrix unit."""
    return "@llvm.x86.ldtilecfg(" in text


# -- registers of a function -----------------------------------------------------------
@dataclass(frozen=True)
class _Register:
    """One of the registers, by its number."""

    number: int
    rows: int


_Nest = dict[E.Var, _Register]
"""The registers of allocations that stand in each other."""


class _Allocations(Visitor):
    """Numbers the registers of a function.

    Raises:
        CodegenError: more registers are used at a time than there are, or something is called while they hold anything.
    """

    def __init__(self) -> None:
        super().__init__()
        self.nests: dict[int, _Nest] = {}
        """By identity of the outermost allocation."""
        self.calls_others = False
        self._nest: _Nest | None = None
        self._used: dict[int, int] = {}  # rows by number, of the nest at hand
        self._active: list[int] = []

    def visit_Buffer(self, buffer: Buffer) -> None:
        pass

    def visit_Allocate(self, node: S.Allocate) -> None:
        if _scope(node) != MATRIX_SCOPE:
            self.generic_visit(node)
            return
        outer = self._nest
        if outer is None:
            self._nest, self._used = {}, {}
            self.nests[id(node)] = self._nest
        assert self._nest is not None
        rows = rows_of(Buffer(node.buffer_var, node.dtype, node.extents, name=node.buffer_var.name))
        free = [
            number
            for number in range(MATRIX_REGISTERS)
            if number not in self._active and self._used.get(number, rows) == rows
        ]
        if not free or node.buffer_var in self._nest:
            raise CodegenError(
                f"more than {MATRIX_REGISTERS} matrix registers are used at a time, registers of other numbers of rows counted, or"
                f" {node.buffer_var.name} is allocated twice in a nest"
            )
        self._used[free[0]] = rows
        self._nest[node.buffer_var] = _Register(free[0], rows)
        self._active.append(free[0])
        self.generic_visit(node)
        self._active.pop()
        self._nest = outer

    def visit_Call(self, call: E.Call) -> None:
        name = getattr(call.op, "name", "")
        is_foreign = isinstance(call.op, GlobalVar) or name.startswith("tir.tvm_call_")
        if name in ("tir.call_extern", "tir.call_pure_extern"):
            is_foreign = not str(getattr(call.args[0], "value", "")).startswith(LIBRARY)
        if is_foreign and self._nest is not None:
            raise CodegenError(
                f"{call} is called while matrix registers hold something, which it may use itself: call it before they are allocated,"
                " or behind"
            )
        self.calls_others = self.calls_others or is_foreign
        self.generic_visit(call)


def _scope(node: S.Allocate) -> str:
    return str(getattr(node.buffer_var.type_annotation, "storage_scope", ""))


def _rows_by_number(nest: _Nest) -> dict[int, int]:
    """How many rows the registers of a nest have."""
    return {register.number: register.rows for register in nest.values()}


class MatrixRegisters:
    """The registers that a function uses, and where they are set up."""

    def __init__(self, body: S.Stmt) -> None:
        allocations = _Allocations()
        allocations.visit(body)
        self.nests = allocations.nests
        self.current: _Nest = {}
        """The registers of what is printed."""
        self.of_function: dict[int, int] | None = None
        """By number, the rows that registers have all the time; None where parts of the function set them up."""
        rows: dict[int, int] = {}
        agree = all(
            rows.setdefault(number, count) == count
            for nest in self.nests.values()
            for number, count in _rows_by_number(nest).items()
        )
        if agree and not allocations.calls_others:
            self.of_function = rows


@contextmanager
def _set_up(emitter: FunctionEmitter, rows: dict[int, int]) -> Iterator[None]:
    """Registers with so many rows, by their numbers, for what is printed meanwhile."""
    b, module = emitter.b, emitter.module
    module.declare("loopsmith_use_matrix_unit", "i32", [], " nounwind")
    emitter.fail_if(
        b.icmp("eq", b.call("loopsmith_use_matrix_unit", "i32", []), Value("0", "i32")),
        lambda: emitter.set_error(
            "the system does not let this process use the processor's matrix unit (AMX)", FAILED
        ),
    )
    configuration = bytearray(64)  # palette 1; bytes of rows as 16-bit numbers from 16 on, rows from 48 on
    configuration[0] = 1
    for number, count in rows.items():
        configuration[16 + 2 * number], configuration[48 + number] = MATRIX_ROW_BYTES, count
    name = f"{b.name}.{b.fresh('tiles')}"
    body = "".join(f"\\{byte:02X}" for byte in configuration)
    module.add_global(f'@{name} = private unnamed_addr constant [64 x i8] c"{body}", align 64')
    module.declare("llvm.x86.ldtilecfg", "void", ["ptr"])
    module.declare("llvm.x86.tilerelease", "void", [])
    b.call("llvm.x86.ldtilecfg", "void", [Value(f"@{name}", "ptr")])
    with emitter.releasing(lambda: _give_up(emitter)):
        yield


def _give_up(emitter: FunctionEmitter) -> None:
    emitter.b.call("llvm.x86.tilerelease", "void", [])


@contextmanager
def with_matrix_registers(emitter: FunctionEmitter, body: S.Stmt) -> Iterator[None]:
    """A function's body, for which the registers that it uses are there.

    Raises:
        CodegenError: it uses more of them than there are.
    """
    if not _has_registers(body) or not emitter.context.has_matrix_unit():
        yield
        return
    registers = emitter.matrix_registers = MatrixRegisters(body)
    with _set_up(emitter, registers.of_function) if registers.of_function is not None else nullcontext():
        yield


class _FindRegister(StmtVisitor):
    """Finds out whether a function has registers: most have none, and their expressions need no look."""

    def __init__(self) -> None:
        super().__init__()
        self.is_found = False

    def visit_Allocate(self, node: S.Allocate) -> None:
        self.is_found = self.is_found or _scope(node) == MATRIX_SCOPE
        self.visit(node.body)


def _has_registers(body: S.Stmt) -> bool:
    finder = _FindRegister()
    finder.visit(body)
    return finder.is_found


def is_matrix_register(emitter: FunctionEmitter, node: S.Allocate) -> bool:
    """Whether an allocation is a register, and no memory."""
    return emitter.matrix_registers is not None and _scope(node) == MATRIX_SCOPE


def allocate_register(emitter: FunctionEmitter, node: S.Allocate) -> None:
    """The allocation of a register, and what stands in it."""
    registers = emitter.matrix_registers
    assert registers is not None
    nest = registers.nests.get(id(node))
    if nest is None:  # inside of another one
        emitter.statement(node.body)
        return
    registers.current = nest
    with _set_up(emitter, _rows_by_number(nest)) if registers.of_function is None else nullcontext():
        emitter.statement(node.body)
    registers.current = {}


# -- instructions ------------------------------------------------------------------------
def matrix_load(emitter: FunctionEmitter, call: E.Call) -> Value:
    """Rows of memory to a register."""
    register, memory, stride = call.args
    return _moved(emitter, register_of(register), memory, stride, "tileloadd64")


def matrix_store(emitter: FunctionEmitter, call: E.Call) -> Value:
    """A register's rows to memory."""
    memory, register, stride = call.args
    return _moved(emitter, register_of(register), memory, stride, "tilestored64")


def _moved(
    emitter: FunctionEmitter, register: Buffer, memory: E.PrimExpr, stride: E.PrimExpr, instruction: str
) -> Value:
    b, size = emitter.b, element_bytes(register.dtype)
    pointer, distance = _address(emitter, memory), emitter.index(stride)
    number = _number(emitter, register)
    if number is not None:
        name = emitter.module.declare(f"llvm.x86.{instruction}", "void", ["i8 immarg", "ptr", "i64"])
        b.call(name, "void", [number, pointer, b.mul(distance, Value(str(size), "i64"))])
        return Value("0", "i32")
    type_ = _row_type(register)
    for row in range(rows_of(register)):
        places = [
            _row(emitter, register, row),
            b.element_pointer(pointer, memory_type(register.dtype), b.mul(distance, Value(str(row), "i64"))),
        ]
        if instruction == "tileloadd64":
            places.reverse()
        source, destination = places
        b.store(b.load(type_, source, size), destination, size)
    return Value("0", "i32")


def matrix_accumulate(emitter: FunctionEmitter, call: E.Call) -> Value:
    """The product of two registers, added to a third."""
    registers = [register_of(arg) for arg in call.args]
    kinds = registers[1].dtype, registers[2].dtype
    numbers = [number for item in registers if (number := _number(emitter, item)) is not None]
    if numbers:
        name = emitter.module.declare(f"llvm.x86.{_INSTRUCTIONS[kinds]}", "void", ["i8 immarg"] * 3)
        emitter.b.call(name, "void", numbers)
        return Value("0", "i32")
    _by_vectors(emitter, kinds, registers)
    return Value("0", "i32")


def _by_vectors(emitter: FunctionEmitter, kinds: tuple[str, str], registers: list[Buffer]) -> None:
    """A loop over the sixteen rows of the second register: each of the sums' rows takes a group of the first for each of them."""
    sums, first, second = registers
    b, group = emitter.b, MATRIX_PRODUCTS[first.dtype, second.dtype, sums.dtype]
    shared, size = vector(memory_type(first.dtype), group), element_bytes(sums.dtype)
    head, done, name, before = b.fresh("products"), b.fresh("done"), b.fresh("k"), b.block
    step = Value(f"%{name}", "i64")
    b.branch(head)
    b.label(head)
    b.emit(f"{step.ref} = phi i64 [0, %{before}], [{step.ref}.next, %{head}]")
    per_row = Value(str(MATRIX_ROW_BYTES // dt.bytes_of(second.dtype)), "i64")
    place = b.element_pointer(emitter.variable(second.data), memory_type(second.dtype), b.mul(step, per_row))
    columns = b.load(_row_type(second), place, element_bytes(second.dtype))
    start = b.mul(step, Value(str(group), "i64"))
    for row in range(rows_of(sums)):
        place = b.element_pointer(_row(emitter, first, row), memory_type(first.dtype), start)
        factors = b.load(shared, place, element_bytes(first.dtype))
        total = _row(emitter, sums, row)
        added = sum_of_groups(emitter, kinds, b.load(_row_type(sums), total, size), factors, columns)
        b.store(added, total, size)
    b.emit(f"{step.ref}.next = add nuw nsw i64 {step.ref}, 1")
    b.cond_branch(b.icmp("slt", Value(f"{step.ref}.next", "i64"), Value(str(MATRIX_ROWS), "i64")), head, done)
    b.label(done)


def _address(emitter: FunctionEmitter, argument: E.PrimExpr) -> Value:
    element = pointed_to(argument)
    emitter.private.discard(element.buffer.data)
    return address(emitter, element.buffer, flat_index(element.indices, element.buffer))


def _number(emitter: FunctionEmitter, register: Buffer) -> Value | None:
    """Which register of the machine it is; None where vectors take their place.

    Raises:
        CodegenError: it is none, or the buffer has not the rows that were allocated.
    """
    if emitter.matrix_registers is None:
        return None
    found = emitter.matrix_registers.current.get(register.data)
    if found is None or found.rows != rows_of(register):
        has = "is not allocated here" if found is None else f"has {found.rows} rows"
        raise CodegenError(
            f"matrix register {register.name} of {rows_of(register)} rows: what it lies in {has}"
        )
    return Value(str(found.number), "i8")


def _row_type(register: Buffer) -> str:
    return vector(memory_type(register.dtype), MATRIX_ROW_BYTES // dt.bytes_of(register.dtype))


def _row(emitter: FunctionEmitter, register: Buffer, row: int) -> Value:
    """Where a row of a register is that lies in memory."""
    start = Value(str(row * MATRIX_ROW_BYTES // dt.bytes_of(register.dtype)), "i64")
    return emitter.b.element_pointer(emitter.variable(register.data), memory_type(register.dtype), start)

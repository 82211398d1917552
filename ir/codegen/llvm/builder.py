"""A small writer of LLVM assembly text.

Kernels are written as text and parsed by LLVM once, because building the same instructions through
``llvmlite.ir`` objects costs several times the whole optimizer for an unrolled micro-kernel.  Values are a pair of
text and type; integer arithmetic on literals is folded here, so that constant addresses stay short.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache, lru_cache
from math import copysign

_EXTENSIONS = ("sext", "zext")
_INT_BITS = {"i1": 1, "i2": 2, "i4": 4, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


class Value:
    """An SSA value or a constant: its text (``%v3``, ``7``) and its LLVM type (``i32``, ``<16 x float>``)."""

    __slots__ = ("ref", "type")

    def __init__(self, ref: str, type_: str) -> None:
        self.ref = ref
        self.type = type_

    def __repr__(self) -> str:
        return f"{self.type} {self.ref}"

    @property
    def literal(self) -> int | None:
        """The integer if this is an integer literal, else None."""
        ref = self.ref
        if ref[0] == "%" or self.type not in _INT_BITS:
            return None
        return int(ref) if ref[-1].isdigit() else None


@cache
def vector(element: str, lanes: int) -> str:
    """The LLVM type of ``lanes`` elements; one lane is the scalar itself."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def lanes_of(type_: str) -> int:
    """Number of lanes of an LLVM type, 1 for a scalar."""
    return int(type_[1 : type_.index(" ")]) if type_[0] == "<" else 1


@cache
def element_of(type_: str) -> str:
    """Element type of an LLVM vector type, the type itself for a scalar."""
    return type_[type_.index("x ") + 2 : -1] if type_[0] == "<" else type_


def float_literal(value: float, element: str) -> str:
    """Text of a floating point constant, rounded to ``element`` (``half``, ``float`` or ``double``)."""
    return _float_literal(value, copysign(1.0, value), element)


@lru_cache(maxsize=4096)
def _float_literal(value: float, sign: float, element: str) -> str:
    """The text; the sign tells zeros apart, which are equal as keys."""
    if element == "float":
        # LLVM writes float constants as the double of the same value.
        if abs(value) <= 3.4028235677973366e38:
            value = struct.unpack("f", struct.pack("f", value))[0]
        elif value == value:  # a finite double beyond float's range rounds to infinity
            value = float("inf") if value > 0 else float("-inf")
    elif element == "half":
        try:
            return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
        except OverflowError:
            return "0xH7C00" if value > 0 else "0xHFC00"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def constant(value: float | int, type_: str) -> Value:
    """A scalar constant, or a splat for a vector type."""
    element = element_of(type_)
    if element in _INT_BITS:
        text = str(int(value)) if element != "i1" else ("true" if value else "false")
    else:
        text = float_literal(float(value), element)
    if type_[0] == "<":
        text = f"splat ({element} {text})"
    return Value(text, type_)


def lane_constants(values: Sequence[int], element: str) -> Value:
    """A vector constant of the given integers."""
    body = ", ".join(f"{element} {v}" for v in values)
    return Value(f"<{body}>", f"<{len(values)} x {element}>")


class FunctionBuilder:
    """Collects the instructions of one LLVM function.

    Args:
        name, result: symbol and result type.
        params: pairs of type (with attributes, for instance ``ptr noalias align 64``) and name.
        attributes: text after the parameter list, such as ``#0`` or ``alwaysinline``.
        linkage: text between ``define`` and the result type, such as ``internal``.
        computes_halves: whether the machine has instructions for ``half``.
    """

    def __init__(
        self,
        name: str,
        result: str,
        params: Sequence[tuple[str, str]],
        attributes: str = "",
        linkage: str = "",
        computes_halves: bool = True,
    ) -> None:
        self.name = name
        self.result = result
        self.params = list(params)
        self.attributes = attributes
        self.linkage = linkage
        self.computes_halves = computes_halves
        self._entry: list[str] = []  # allocas: they must sit in the entry block to become registers
        self._lines: list[str] = []
        self._next = 0
        self._magnitudes: dict[str, int] = {}
        self.block = "entry"

    # -- structure ---------------------------------------------------------
    def text(self) -> str:
        """The finished definition."""
        args = ", ".join(f"{ty} %{arg}" for ty, arg in self.params)
        linkage = self.linkage + " " if self.linkage else ""
        header = f"define {linkage}{self.result} @{self.name}({args}) {self.attributes} {{\nentry:"
        return "\n".join([header, *self._entry, *self._lines, "}"])

    def fresh(self, hint: str = "v") -> str:
        """A name not used before in this function, without the percent sign."""
        self._next += 1
        return f"{hint}{self._next}"

    def emit(self, line: str) -> None:
        """Appends one raw line of assembly."""
        self._lines.append(line)

    def define(self, code: str, type_: str) -> Value:
        """Appends ``%new = code`` and returns the new value."""
        self._next += 1
        ref = f"%v{self._next}"
        self._lines.append(f"{ref} = {code}")
        return Value(ref, type_)

    def label(self, name: str) -> None:
        """Starts the basic block ``name``; the previous one must have been ended by a branch."""
        self._lines.append(f"{name}:")
        self.block = name

    def branch(self, target: str) -> None:
        """Unconditional branch."""
        self._lines.append(f"br label %{target}")

    def cond_branch(self, cond: Value, then: str, otherwise: str) -> None:
        """Branch on an ``i1``."""
        self._lines.append(f"br i1 {cond.ref}, label %{then}, label %{otherwise}")

    def ret(self, value: Value | None = None) -> None:
        """Returns from the function."""
        self._lines.append("ret void" if value is None else f"ret {value.type} {value.ref}")

    def alloca(self, type_: str, align: int) -> Value:
        """Stack memory of a type, reserved on function entry."""
        self._next += 1
        ref = f"%a{self._next}"
        self._entry.append(f"{ref} = alloca {type_}, align {align}")
        return Value(ref, "ptr")

    # -- arithmetic ----------------------------------------------------------
    def binary(self, op: str, a: Value, b: Value) -> Value:
        """``op a, b``; ``op`` may carry flags (``add nsw``, ``fmul contract``)."""
        self._next += 1
        ref = f"%v{self._next}"
        self._lines.append(f"{ref} = {op} {a.type} {a.ref}, {b.ref}")
        return Value(ref, a.type)

    def unary(self, op: str, a: Value) -> Value:
        """``op a``, such as ``fneg``."""
        return self.define(f"{op} {a.type} {a.ref}", a.type)

    def add(self, a: Value, b: Value) -> Value:
        """Integer sum without signed overflow."""
        x, y = a.literal, b.literal
        if x is not None and y is not None:
            return Value(str(x + y), a.type)
        if x == 0:
            return b
        if y == 0:
            return a
        return self.binary("add nsw", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """Integer product without signed overflow."""
        x, y = a.literal, b.literal
        if x is not None and y is not None:
            return Value(str(x * y), a.type)
        if x == 1:
            return b
        if y == 1:
            return a
        if x == 0 or y == 0:
            return Value("0", a.type)
        return self.binary("mul nsw", a, b)

    def icmp(self, pred: str, a: Value, b: Value) -> Value:
        """Integer comparison, ``pred`` as in LLVM (``slt``, ``eq``, ...)."""
        return self.define(f"icmp {pred} {a.type} {a.ref}, {b.ref}", vector("i1", lanes_of(a.type)))

    def fcmp(self, pred: str, a: Value, b: Value) -> Value:
        """Floating point comparison, ``pred`` as in LLVM (``olt``, ``uno``, ...)."""
        return self.define(f"fcmp {pred} {a.type} {a.ref}, {b.ref}", vector("i1", lanes_of(a.type)))

    def select(self, cond: Value, a: Value, b: Value) -> Value:
        """``a`` where the condition holds, else ``b``."""
        return self.define(f"select {cond.type} {cond.ref}, {a.type} {a.ref}, {b.type} {b.ref}", a.type)

    def cast(self, op: str, a: Value, type_: str) -> Value:
        """Conversion instruction (``sext``, ``fptrunc``, ``bitcast``, ...); none when the type is the same."""
        if a.type == type_:
            return a
        result = self.define(f"{op} {a.type} {a.ref} to {type_}", type_)
        return self.bound(result, _INT_BITS[a.type]) if op in _EXTENSIONS and a.type in _INT_BITS else result

    def call(self, name: str, result: str, args: Sequence[Value]) -> Value:
        """Calls ``@name``; a void result gives a value that must not be used."""
        text = ", ".join(f"{a.type} {a.ref}" for a in args)
        if result == "void":
            self._lines.append(f"call void @{name}({text})")
            return Value("undef", "void")
        return self.define(f"call {result} @{name}({text})", result)

    # -- what is known of 64-bit numbers -------------------------------------
    def magnitude(self, value: Value) -> int:
        """Bits that are enough for the absolute value of a number; 64 where nothing is known."""
        literal = value.literal
        return self._magnitudes.get(value.ref, 64) if literal is None else abs(literal).bit_length()

    def bound(self, value: Value, bits: int) -> Value:
        """The value, of which it is known that ``bits`` are enough for its absolute value."""
        if bits < 64 and value.type == "i64":
            self._magnitudes[value.ref] = bits
        return value

    # -- vectors -------------------------------------------------------------
    def splat(self, a: Value, lanes: int) -> Value:
        """A vector with the scalar in every lane."""
        if lanes == 1:
            return a
        type_ = vector(a.type, lanes)
        if a.ref[0] != "%":
            return Value(f"splat ({a.type} {a.ref})", type_)
        head = self.define(f"insertelement {type_} poison, {a.type} {a.ref}, i64 0", type_)
        return self.define(
            f"shufflevector {type_} {head.ref}, {type_} poison, <{lanes} x i32> zeroinitializer", type_
        )

    def extract(self, a: Value, lane: int) -> Value:
        """One lane of a vector; the value itself when it is a scalar."""
        if a.type[0] != "<":
            return a
        return self.define(f"extractelement {a.type} {a.ref}, i64 {lane}", element_of(a.type))

    def insert(self, a: Value, item: Value, lane: int) -> Value:
        """The vector with one lane replaced."""
        return self.define(f"insertelement {a.type} {a.ref}, {item.type} {item.ref}, i64 {lane}", a.type)

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """Lanes chosen from the concatenation of ``a`` and ``b``."""
        mask = ", ".join(f"i32 {i}" for i in lanes)
        return self.define(
            f"shufflevector {a.type} {a.ref}, {b.type} {b.ref}, <{len(lanes)} x i32> <{mask}>",
            vector(element_of(a.type), len(lanes)),
        )

    # -- memory --------------------------------------------------------------
    def element_pointer(self, base: Value, element: str, index: Value) -> Value:
        """Address of ``base[index]``."""
        if index.literal == 0:
            return base
        return self.define(
            f"getelementptr inbounds {element}, ptr {base.ref}, {index.type} {index.ref}", "ptr"
        )

    def offset_pointer(self, base: Value, element: str, index: Value) -> Value:
        """``base + index`` elements where the result itself may lie outside of the object, as parts of an index do."""
        return self.define(f"getelementptr {element}, ptr {base.ref}, {index.type} {index.ref}", "ptr")

    def load(self, type_: str, pointer: Value, align: int, suffix: str = "") -> Value:
        """Loads a scalar or vector; ``suffix`` is metadata text."""
        return self.define(f"load {type_}, ptr {pointer.ref}, align {align}{suffix}", type_)

    def store(self, value: Value, pointer: Value, align: int, suffix: str = "") -> None:
        """Stores a scalar or vector; ``suffix`` is metadata text."""
        self._lines.append(f"store {value.type} {value.ref}, ptr {pointer.ref}, align {align}{suffix}")


class ModuleBuilder:
    """Collects declarations, globals and definitions of one LLVM module, each symbol once.

    Args:
        fuses: whether the machine multiplies and adds in one operation that rounds once.
        scales: whether it multiplies vectors of 512 bits by powers of two in one operation.
    """

    def __init__(self, fuses: bool = True, scales: bool = False) -> None:
        self.fuses, self.scales = fuses, scales
        self._declared: dict[str, str] = {}
        self._defined: dict[str, str] = {}
        self._globals: list[str] = []
        self._strings: dict[str, str] = {}
        self._metadata: list[str] = []
        self._attributes: dict[str, int] = {}

    def declare(self, name: str, result: str, args: Sequence[str], suffix: str = "") -> str:
        """Declares ``@name`` unless it is known already; returns the name."""
        if name not in self._declared:
            self._declared[name] = f"declare {result} @{name}({', '.join(args)}){suffix}"
        return name

    def define(self, name: str, text: str) -> str:
        """Adds the definition of ``@name`` unless there is one already; returns the name."""
        self._defined.setdefault(name, text)
        return name

    def is_defined(self, name: str) -> bool:
        """Whether ``@name`` has a definition here."""
        return name in self._defined

    def add_global(self, text: str) -> None:
        """Adds a line with a global variable."""
        self._globals.append(text)

    def string(self, text: str) -> Value:
        """Pointer to a zero-terminated constant string."""
        if text not in self._strings:
            name = f"str.{len(self._strings)}"
            data = text.encode("utf-8") + b"\0"
            body = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
            self._globals.append(f'@{name} = private unnamed_addr constant [{len(data)} x i8] c"{body}"')
            self._strings[text] = f"@{name}"
        return Value(self._strings[text], "ptr")

    def metadata(self, body: str) -> str:
        """Adds a metadata node and returns its name, such as ``!3``; ``{self}`` in the body is the node's own name."""
        name = f"!{len(self._metadata)}"
        self._metadata.append(f"{name} = {body.replace('{self}', name)}")
        return name

    def attributes(self, body: str) -> str:
        """Name of the attribute group with this text, such as ``#0``."""
        return f"#{self._attributes.setdefault(body, len(self._attributes))}"

    def intrinsic(self, name: str, type_: str, arity: int = 1) -> str:
        """Declares an overloaded intrinsic ``llvm.<name>.<type>`` whose arguments and result have one type."""
        full = f"llvm.{name}.{mangled(type_)}"
        return self.declare(full, type_, [type_] * arity)

    def externals(self) -> list[str]:
        """Symbols that must come from outside (intrinsics of LLVM do not)."""
        return [name for name in self._declared if name not in self._defined and not name.startswith("llvm.")]

    def text(self) -> str:
        """The whole module."""
        declared = [line for name, line in self._declared.items() if name not in self._defined]
        groups = [f"attributes #{n} = {{ {body} }}" for body, n in self._attributes.items()]
        return "\n".join([*self._globals, *declared, *self._defined.values(), *groups, *self._metadata, ""])


_MANGLED = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}


@cache
def mangled(type_: str) -> str:
    """The type as it appears in names of overloaded intrinsics (``v16f32``)."""
    element = element_of(type_)
    short = _MANGLED.get(element, element)
    return f"v{lanes_of(type_)}{short}" if type_[0] == "<" else short

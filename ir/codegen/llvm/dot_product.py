"""Dot products of narrow numbers: which instructions a machine has for them, and how ``dot_accumulate`` is printed.

LLVM ends the process where it is given an instruction that the target has not. So it is asked first, by programs in plain arithmetic of
which it makes that instruction, or one of the same extension, where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ... import dtype as dt
from ...target.target import Target
from ...tir import expr as E
from ...tir.intrinsic.vectors import DOT_GROUPS
from .builder import FunctionBuilder, ModuleBuilder, Value, constant, element_of, lanes_of, vector
from .compile import MachineOptions, architecture_of, emit_assembly, optimize, options_of, vector_constraints
from .conversion import convert
from .emitter import FunctionEmitter

Widths = tuple[int, ...]
"""Bits of the vector registers that an instruction works on, the widest first."""


# -- which instructions there are ----------------------------------------------------
@dataclass(frozen=True)
class _Instruction:
    """An instruction, and how LLVM is asked for it."""

    name: str
    operands: tuple[tuple[str, str], ...]
    """The dtypes of both operands that it serves."""
    probe: Callable[[int], str]
    """A function ``@f<bits>`` of plain arithmetic on vectors of so many bits."""
    sign: str
    """A pattern of what LLVM makes of it, without the register."""


def _sum_of_products(element: str, *extensions: str) -> Callable[[int], str]:
    """The sum of products of two vectors of integers."""

    def probe(bits: int) -> str:
        lanes = bits // int(element[1:])
        narrow, wide = f"<{lanes} x {element}>", f"<{lanes} x i32>"
        return f"""declare i32 @llvm.vector.reduce.add.v{lanes}i32({wide})
define i32 @f{bits}(ptr %x, ptr %y) {_WIDTH} {{
 %a = load {narrow}, ptr %x, align 1
 %b = load {narrow}, ptr %y, align 1
 %c = {extensions[0]} {narrow} %a to {wide}
 %d = {extensions[1]} {narrow} %b to {wide}
 %e = mul {wide} %c, %d
 %r = call i32 @llvm.vector.reduce.add.v{lanes}i32({wide} %e)
 ret i32 %r
}}"""

    return probe


def _rounding_to_bfloat(bits: int) -> str:
    """Vectors of float32 as bfloat16: what multiplies them belongs to the same extension."""
    lanes = bits // 32
    return f"""define void @f{bits}(ptr %x, ptr %y) {_WIDTH} {{
 %a = load <{lanes} x float>, ptr %x, align 4
 %b = fadd <{lanes} x float> %a, %a
 %c = fptrunc <{lanes} x float> %b to <{lanes} x bfloat>
 store <{lanes} x bfloat> %c, ptr %y, align 2
 ret void
}}"""


_WIDTH = '"prefer-vector-width"="512" "min-legal-vector-width"="512"'
_BYTES = tuple((a, b) for a, b, sums in DOT_GROUPS if sums == "int32" and dt.bits(a) == 8)
_WORDS, _BFLOATS = (("int16", "int16"),), (("bfloat16", "bfloat16"),)

_X86: tuple[_Instruction, ...] = (
    _Instruction("vpdpbusd", _BYTES, _sum_of_products("i8", "zext", "sext"), r"\bvpdpbusd\s.*"),
    _Instruction("pmaddwd", _WORDS, _sum_of_products("i16", "sext", "sext"), r"\bv?pmaddwd\s.*"),
    # not the form of AVX-NE-CONVERT, which has no products
    _Instruction("vdpbf16ps", _BFLOATS, _rounding_to_bfloat, r"^\s*vcvtneps2bf16\w?\s.*"),
)
_X86_REGISTERS = {512: "%zmm", 256: "%ymm", 128: "%xmm"}
_ARM: tuple[_Instruction, ...] = (
    _Instruction("sdot", (("int8", "int8"),), _sum_of_products("i8", "sext", "sext"), r"\bsdot\b"),
    _Instruction("udot", (("uint8", "uint8"),), _sum_of_products("i8", "zext", "zext"), r"\budot\b"),
    _Instruction(
        "usdot", (("uint8", "int8"), ("int8", "uint8")), _sum_of_products("i8", "zext", "sext"), r"\busdot\b"
    ),
    _Instruction("bfdot", _BFLOATS, _rounding_to_bfloat, r"\bbfcvtn\b"),
)
_ARM_REGISTERS = {128: ""}


def _known(options: MachineOptions) -> tuple[tuple[_Instruction, ...], dict[int, str]]:
    """The instructions of an architecture, and what assembler text has for registers of so many bits."""
    architecture = architecture_of(options.triple)
    if architecture.startswith("x86_64"):
        return _X86, _X86_REGISTERS
    # without NEON, LLVM ends the process for sums of products
    has_neon = architecture in ("aarch64", "arm64") and 128 in vector_constraints(options)
    return (_ARM, _ARM_REGISTERS) if has_neon else ((), {})


@lru_cache(maxsize=16)
def _probed(options: MachineOptions) -> str:
    """What LLVM makes of all programs that it is asked by."""
    known, registers = _known(options)
    texts = [
        emit_assembly(optimize("\n".join(map(item.probe, registers)), options, level=1), options)
        for item in known
    ]
    return "\n".join(texts)


@lru_cache(maxsize=16)
def instructions(options: MachineOptions = MachineOptions()) -> Mapping[tuple[str, str], tuple[str, Widths]]:
    """By dtypes of both operands, the instruction that a machine has for them and the widths of its registers."""
    known, registers = _known(options)
    assembly = _probed(options)
    found: dict[tuple[str, str], tuple[str, Widths]] = {}
    for item in known:
        widths = tuple(
            bits for bits, name in registers.items() if re.search(item.sign + name, assembly, re.MULTILINE)
        )
        if widths:
            found.update(dict.fromkeys(item.operands, (item.name, widths)))
    return found


_VNNI = {"avx512vnni": r"^\s*vpdpbusd", "avxvnni": r"\{vex\}\s+vpdpbusd"}
_X86_FEATURES = {
    "vpdpbusd": _VNNI,
    "pmadd.wd": _VNNI,  # of which LLVM makes vpdpwssd
    "pmaddw.d": _VNNI,
    "dpbf16ps": {"avx512bf16": r"^\s*vcvtneps2bf16"},
}
"""By part of the names of LLVM's functions: the features that may be behind them, and how LLVM shows that it uses one."""


def features_of(text: str, options: MachineOptions) -> set[str]:
    """LLVM's names of the features of x86 that the dot products in a module in LLVM's assembly use."""
    used = {part: signs for part, signs in _X86_FEATURES.items() if f".{part}" in text}
    if not used:
        return set()
    assembly = _probed(options)
    return {
        feature
        for signs in used.values()
        for feature, sign in signs.items()
        if re.search(sign, assembly, re.MULTILINE)
    }


def group_of(target: Target, first: str, second: str, sums: str) -> int:
    """How many products a target adds to each lane in one step; 0 where it has no instruction that helps with these dtypes.

    Args:
        target: what code is generated for.
        first, second: dtypes of the operands.
        sums: dtype of what is added to.
    """
    group = DOT_GROUPS.get((first, second, sums), 0)
    if not group or target.kind_name != "llvm":
        return 0
    _, widths = _form_of(instructions(options_of(target)), (first, second))
    return group if any(bits <= target.vector_bits for bits in widths) else 0


def needs_sign_corrections(options: MachineOptions) -> bool:
    """Whether a machine multiplies unsigned by signed bytes only, see :class:`ir.tir.transform.HoistSignCorrection`.

    Tiles have a sum more for each vector of a row then.
    """
    return instructions(options).get(("int8", "int8"), ("", ()))[0] == "vpdpbusd"


# -- how they are printed --------------------------------------------------------------
@dataclass(frozen=True)
class _Operands:
    """What an instruction gets: dtypes of the elements, and values of one register each."""

    kinds: tuple[str, str]
    sums: Value
    first: Value
    second: Value


def dot_accumulate(emitter: FunctionEmitter, call: E.Call) -> Value:
    """A call of ``dot_accumulate``, by registers where there is an instruction."""
    sums, first, second = (emitter.value(arg) for arg in call.args)
    kinds = dt.element_of(call.args[1].dtype), dt.element_of(call.args[2].dtype)
    return sum_of_groups(emitter, kinds, sums, first, second)


def sum_of_groups(
    emitter: FunctionEmitter, kinds: tuple[str, str], sums: Value, first: Value, second: Value
) -> Value:
    """What :func:`dot_accumulate` gives, of operands in registers; ``kinds`` are the dtypes of the elements of both factors."""
    lanes = lanes_of(sums.type)
    group = lanes_of(second.type) // lanes
    name, widths = _form_of(emitter.context.dot_products(), kinds)
    usable = [bits // 32 for bits in widths if bits <= emitter.context.vector_bits]
    if not usable or lanes == 1:
        return _by_steps(emitter.b, kinds, sums, first, second)
    b = emitter.b
    # a group that all lanes share is one number of 32 bits, in memory as in registers
    shared = b.cast("bitcast", first, "i32") if lanes_of(first.type) == group else None
    parts: list[Value] = []
    start = 0
    while start < lanes:
        width = next((item for item in usable if item <= lanes - start), usable[-1])
        operands = _Operands(
            kinds,
            _part(b, sums, start, width, 1),
            shared or _part(b, first, start, width, group),
            _part(b, second, start, width, group),
        )
        result = _PRINTED[name](b, emitter.module, operands, width)
        parts.append(_part(b, result, 0, min(width, lanes - start), 1))
        start += width
    return _joined(b, parts)


def _form_of(
    known: Mapping[tuple[str, str], tuple[str, Widths]], kinds: tuple[str, str]
) -> tuple[str, Widths]:
    """The form of a product on registers, and their widths; none where plain arithmetic is all that there is."""
    name, widths = known.get(("int16", "int16"), ("", ()))
    # two operations on words still take less than four on numbers of 32 bits
    by_words = (_BYTES_BY_WORDS, widths) if name == "pmaddwd" and kinds in _BYTES else ("", ())
    return known.get(kinds, by_words)


def _part(b: FunctionBuilder, value: Value, start: int, width: int, group: int) -> Value:
    """So many lanes from one on, of groups of elements; behind the last one there is something or other."""
    last = lanes_of(value.type) - 1
    places = [min(place, last) for place in range(start * group, (start + width) * group)]
    return value if len(places) == last + 1 and start == 0 else b.shuffle(value, value, places)


def _joined(b: FunctionBuilder, parts: Sequence[Value]) -> Value:
    """Vectors one behind the other."""
    whole, *others = parts
    for part in others:
        before, behind = lanes_of(whole.type), lanes_of(part.type)
        if before > behind:
            part = b.shuffle(part, part, [min(lane, behind - 1) for lane in range(before)])
        whole = b.shuffle(whole, part, range(before + behind))
    return whole


def _by_steps(b: FunctionBuilder, kinds: tuple[str, str], sums: Value, first: Value, second: Value) -> Value:
    """One element of each group after the other, in plain arithmetic."""
    lanes = lanes_of(sums.type)
    group = lanes_of(second.type) // lanes
    wide = dt.with_lanes("float32" if element_of(sums.type) == "float" else "int32", lanes)
    multiply, add = ("fmul contract", "fadd contract") if dt.is_float(wide) else ("mul", "add")

    def column(value: Value, step: int, kind: str) -> Value:
        if lanes == 1:
            return convert(b, b.extract(value, step), kind, wide)
        if lanes_of(value.type) == group:
            return b.splat(convert(b, b.extract(value, step), kind, dt.element_of(wide)), lanes)
        picked = b.shuffle(value, value, range(step, lanes * group, group))
        return convert(b, picked, dt.with_lanes(kind, lanes), wide)

    for step in range(group):
        product = b.binary(multiply, column(first, step, kinds[0]), column(second, step, kinds[1]))
        sums = b.binary(add, sums, product)
    return sums


def _in_groups(b: FunctionBuilder, value: Value, width: int) -> Value:
    """Groups as numbers of 32 bits, one for each lane; LLVM takes the operands of x86's instructions so in every version."""
    if value.type == "i32":
        return b.splat(value, width)
    return b.cast("bitcast", value, vector("i32", width))


_SIGNS = -0x7F7F7F80
"""The signs of four bytes: 0x80 in each."""


def _vpdpbusd(b: FunctionBuilder, module: ModuleBuilder, operands: _Operands, width: int) -> Value:
    """Unsigned by signed bytes. Of two that are alike, the first becomes the other kind: what that adds does not depend on it."""
    type_ = vector("i32", width)
    name = module.declare(f"llvm.x86.avx512.vpdpbusd.{32 * width}", type_, [type_] * 3)

    def accumulate(sums: Value, x: Value, y: Value) -> Value:
        return b.call(name, type_, [sums, y, x] if swaps else [sums, x, y])

    first, second, (kind, other) = operands.first, _in_groups(b, operands.second, width), operands.kinds
    swaps = other == "uint8"
    if kind != other:
        return accumulate(operands.sums, _in_groups(b, first, width), second)
    if first.type != "i32":
        first = _in_groups(b, first, width)
    flipped = _in_groups(b, b.binary("xor", first, constant(_SIGNS, first.type)), width)
    added = accumulate(constant(0, type_), constant(_SIGNS, type_), second)  # the same in all rows of a tile
    return b.binary("sub", accumulate(operands.sums, flipped, second), added)


_BYTES_BY_WORDS = "pmaddwd of bytes"
_PMADDWD = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}


def _pmaddwd(b: FunctionBuilder, module: ModuleBuilder, operands: _Operands, width: int) -> Value:
    """Pairs of words; LLVM makes one instruction of both operations where there is one."""
    type_, words = vector("i32", width), vector("i16", 2 * width)
    name = module.declare(f"llvm.x86.{_PMADDWD[width]}", type_, [words] * 2)
    values = (
        b.cast("bitcast", _in_groups(b, item, width), words) for item in (operands.first, operands.second)
    )
    return b.binary("add", operands.sums, b.call(name, type_, list(values)))


def _bytes_by_words(b: FunctionBuilder, module: ModuleBuilder, operands: _Operands, width: int) -> Value:
    """Bytes 0 and 2 of each group as pairs of words, and bytes 1 and 3: exact, as no pair of products leaves 32 bits."""
    sums = operands.sums
    for is_odd in (False, True):
        pair = [
            _every_other_byte(b, value, kind, is_odd)
            for value, kind in zip((operands.first, operands.second), operands.kinds)
        ]
        sums = _pmaddwd(b, module, _Operands(operands.kinds, sums, pair[0], pair[1]), width)
    return sums


def _every_other_byte(b: FunctionBuilder, value: Value, kind: str, is_odd: bool) -> Value:
    """The even or the odd bytes of groups as words in their places."""
    is_shared = value.type == "i32"
    count = 2 if is_shared else lanes_of(value.type) // 2
    words = b.cast("bitcast", value, vector("i16", count))
    eight = constant(8, words.type)
    if not is_odd:
        words = b.binary("shl", words, eight)
    words = b.binary("ashr" if dt.is_int(kind) else "lshr", words, eight)
    return b.cast("bitcast", words, "i32") if is_shared else words


def _vdpbf16ps(b: FunctionBuilder, module: ModuleBuilder, operands: _Operands, width: int) -> Value:
    type_, pairs = vector("float", width), vector("i32", width)
    name = module.declare(f"llvm.x86.avx512bf16.dpbf16ps.{32 * width}", type_, [type_, pairs, pairs])
    values = (_in_groups(b, item, width) for item in (operands.first, operands.second))
    return b.call(name, type_, [operands.sums, *values])


def _of_arm(
    instruction: str, element: str, group: int
) -> Callable[[FunctionBuilder, ModuleBuilder, _Operands, int], Value]:
    """An instruction on 128 bits; one of unsigned by signed bytes has the unsigned ones first."""

    def printed(b: FunctionBuilder, module: ModuleBuilder, operands: _Operands, width: int) -> Value:
        type_, narrow = operands.sums.type, vector(element, width * group)
        short = ("f32" if element == "bfloat" else "i32", "bf16" if element == "bfloat" else element)
        name = f"llvm.aarch64.neon.{instruction}.v{width}{short[0]}.v{width * group}{short[1]}"
        module.declare(name, type_, [type_, narrow, narrow])
        values = [
            b.cast("bitcast", _in_groups(b, item, width), narrow)
            for item in (operands.first, operands.second)
        ]
        if instruction == "usdot" and operands.kinds[0] == "int8":
            values.reverse()
        return b.call(name, type_, [operands.sums, *values])

    return printed


_PRINTED: dict[str, Callable[[FunctionBuilder, ModuleBuilder, _Operands, int], Value]] = {
    "vpdpbusd": _vpdpbusd,
    "pmaddwd": _pmaddwd,
    _BYTES_BY_WORDS: _bytes_by_words,
    "vdpbf16ps": _vdpbf16ps,
    **{name: _of_arm(name, "i8", 4) for name in ("sdot", "udot", "usdot")},
    "bfdot": _of_arm("bfdot", "bfloat", 2),
}
"""By instruction: the function that prints it on registers of so many lanes."""

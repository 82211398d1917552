"""What kernels are called in object files: their names, unless C or the code of kernels means another function by them.

A kernel's symbol is found wherever its object is linked, so one that is called as a function that generated code, LLVM or the
runtime calls would be called in that function's place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ...expr import GlobalVar
from ...module import IRModule
from ...node import post_order_visit
from ...tir.expr import Call, StringImm
from ...tir.function import OUTLINED, PrimFunc
from ...tir.intrinsic.calls import LIBRARY
from .vector_math import CALLED_OF_LIBM

WORDS = frozenset(
    "main auto bool break case char const continue default do double else enum extern false float for goto if inline int long"
    " register restrict return short signed sizeof static struct switch true typedef union unsigned void volatile while"
    " alignas alignof constexpr nullptr static_assert thread_local typeof typeof_unqual"
    " and and_eq asm bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield compl concept const_cast consteval"
    " constinit decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq operator or or_eq private"
    " protected public reinterpret_cast requires static_cast template this throw try typeid typename using virtual wchar_t xor"
    " xor_eq".split()
)
"""What C and C++ programs cannot call a function: their entry, and words of the languages."""

_MATHEMATICS = frozenset(
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor fma fmax"
    " fmaximum fmaximum_num fmin fminimum fminimum_num fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb"
    " lrint lround modf nan nearbyint nextafter nexttoward pow powi remainder remquo rint round roundeven scalbln scalbn sin sincos"
    " sinh sqrt tan tanh tgamma trunc".split()
)
"""C's mathematics, which LLVM calls by itself and takes for known."""

_LIBRARY = frozenset(
    "memcpy memmove memset memcmp mempcpy memchr bcmp bcopy bzero strlen strcmp strncmp strcoll wcslen atoi puts fputs malloc calloc"
    " realloc free abort exit atexit _init _fini _start _end _edata _etext".split()
)
"""Other functions of C that LLVM calls, defines where it loads code, or takes for known by their names, those that keep a process going,
and names of linkers."""

_EXTERNAL = frozenset(
    f"tir.{name}" for name in ("call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin")
)


@cache
def reserved_symbols() -> frozenset[str]:
    """The symbols that no kernel has."""
    mathematics = _MATHEMATICS | CALLED_OF_LIBM
    suffixed = {name + suffix for name in mathematics for suffix in ("", "f", "l")}
    runtime = Path(__file__).with_name("runtime.ll").read_text(encoding="utf-8")
    of_runtime = re.findall(r"^(?:declare|define)\b(?! internal)[^@]*@(\w+)\(", runtime, re.MULTILINE)
    return WORDS | _LIBRARY | suffixed | frozenset(of_runtime)


def c_symbol(name: str) -> str:
    """The symbol of a kernel in object files: its name, or ``loopsmith_<name>`` where C could not say the name, or means another function.

    >>> c_symbol("add"), c_symbol("main"), c_symbol("conv-1"), c_symbol("fmodf")
    ('add', 'loopsmith_main', 'loopsmith_conv_1', 'loopsmith_fmodf')
    """
    is_c = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None
    # C leaves names with these beginnings to compilers and their libraries
    if is_c and name not in reserved_symbols() and not re.match("_[_A-Z]", name):
        return name
    return _prefixed(name)


def unique_symbol(name: str, number: int) -> str:
    """The symbol of one of many functions that are linked together, told apart by the hashes of what they do.

    >>> unique_symbol("fused conv-1", 255)
    'fused_conv_1_00000000000000ff'
    """
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', name)[:80]}_{number:016x}"


def _prefixed(name: str) -> str:
    return f"loopsmith_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"


def function_name(program: IRModule, var: GlobalVar) -> str:
    """What a function of the module is called."""
    return str(program[var].attrs.get("global_symbol", var.name_hint))


def symbols_of_functions(program: IRModule) -> dict[GlobalVar, str]:
    """The symbols of a module's PrimFuncs, all different: :func:`c_symbol` of their names, or another one where that is taken.

    A name is taken by a function of another library that the module calls, and by a function whose name needs no change.
    """
    functions = [(var, func) for var, func in program.functions.items() if isinstance(func, PrimFunc)]
    names = {var: function_name(program, var) for var, _ in functions}
    found = {var: names[var] for var, func in functions if OUTLINED in func.attrs}
    taken = set(found.values()) | _called_elsewhere(program)
    others = [var for var in names if var not in found]
    for var in sorted(others, key=lambda var: c_symbol(names[var]) != names[var]):
        symbol = c_symbol(names[var])
        if symbol in taken:
            symbol = _free(_prefixed(names[var]), taken)
        taken.add(symbol)
        found[var] = symbol
    return found


def _free(wanted: str, taken: set[str]) -> str:
    number, symbol = 0, wanted
    while symbol in taken:
        number += 1
        symbol = f"{wanted}_{number}"
    return symbol


def _called_elsewhere(program: IRModule) -> set[str]:
    """Names of functions that the module calls and does not have.

    A status is what kernels return: a call of an ``int32`` by the name of another kernel of the module is taken for a call of that.
    """
    names = {
        function_name(program, var) for var, item in program.functions.items() if isinstance(item, PrimFunc)
    }
    found = set()
    for var, func in program.functions.items():
        if isinstance(func, PrimFunc):
            own = function_name(program, var)
            found |= {
                name
                for name, dtype in _external_calls(func)
                if name not in names or name == own or dtype != "int32"
            }
    return found


def _external_calls(func: PrimFunc) -> Iterator[tuple[str, str]]:
    """Names and types of the functions that a function calls by their symbols."""
    found: list[tuple[str, str]] = []

    def look(node: object) -> None:
        if isinstance(node, Call) and getattr(node.op, "name", node.op) in _EXTERNAL:
            name = node.args[0]
            if isinstance(name, StringImm) and not name.value.startswith((LIBRARY, "llvm.")):
                found.append((name.value, node.dtype))

    post_order_visit(func.body, look)
    yield from found

"""Elementary functions as straight-line LLVM code for scalars and vectors of any width.

A call of libm inside a vector loop is taken apart lane by lane; here every float32 function is arithmetic, so a
``<16 x float>`` costs what a scalar costs.  :mod:`.elementary` holds that arithmetic; this module defines it as functions
of an LLVM module.  float64, and what has no such formula, goes to libm lane by lane; half precision is the caller's to widen.

Largest errors found over dense samples of float32 (units in the last place, against correctly rounded values; the
tests hold them): :data:`MAX_ULP`.  Infinities, NaN, signed zeros, overflow and gradual underflow follow C's libm.
``sin``, ``cos`` and ``tan`` of ``|x| > 2**40``, of ``2**26`` on machines without fused operations, ask libm, in a branch that vectors
without such a lane do not take.
"""

from __future__ import annotations

from functools import cache, lru_cache

from .builder import FunctionBuilder, ModuleBuilder, Value, element_of, lanes_of, mangled, vector
from .elementary import BINARY, UNARY, LaneMath, in_thirds

#: Stated error bound of every float32 function.
MAX_ULP: dict[str, float] = {
    "exp": 1.5, "exp2": 1.5, "exp10": 2.0, "expm1": 2.0, "log": 1.5, "log2": 2.0, "log10": 2.0, "log1p": 2.0,
    "tanh": 3.0, "sigmoid": 3.0, "erf": 2.0, "sqrt": 0.5, "rsqrt": 1.5,
    "sin": 2.0, "cos": 2.0, "tan": 4.0, "asin": 3.0, "acos": 3.0, "atan": 2.0, "atan2": 2.5,
    "sinh": 3.0, "cosh": 2.5, "asinh": 3.5, "acosh": 4.0, "atanh": 3.0, "pow": 1.5, "round": 0.0, "ldexp": 2.0,
    "erfc": 4.0, "fmod": 0.5, "hypot": 1.0,
}  # fmt: skip

#: Functions without a formula in :mod:`.elementary`, with their number of arguments.
_LIBM = {"erfc": 1, "fmod": 2, "hypot": 2}

#: Formulas of :mod:`.elementary` that hold for float64 as well.
_EVERY_FLOAT = ("sqrt", "rsqrt", "round")

#: Functions whose formula for float64 is made of others'.
_COMPOSED = ("sigmoid", "ldexp")

#: Names that :func:`vector_function` accepts.
FUNCTIONS = frozenset(UNARY) | frozenset(BINARY) | frozenset(_LIBM)

#: What is called of libm, by its name for double; float's has an f behind it.
CALLED_OF_LIBM = FUNCTIONS - frozenset(_EVERY_FLOAT) - frozenset(_COMPOSED)


def arity(name: str) -> int:
    """Number of arguments of a function of :data:`FUNCTIONS`."""
    return 2 if name in BINARY else _LIBM.get(name, 1)


@lru_cache(maxsize=512)
def _float_function(
    name: str, lanes: int, fuses: bool = True, scales: bool = False
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Definition text of a float32 function, and the declarations that it needs."""
    module = ModuleBuilder(fuses, scales)
    type_ = vector("float", lanes)
    builder, args = _begin(name, type_)
    m = LaneMath(builder, module, lanes)
    builder.ret(BINARY[name](m, *args) if name in BINARY else UNARY[name](m, *args))
    return builder.text(), tuple(module._declared.items())


@cache
def instructions(name: str) -> int:
    """How long the float32 function is, about; 0 for one that calls libm."""
    return 0 if name in _LIBM else _float_function(name, 1)[0].count("\n")


def outlined_function(module: ModuleBuilder, name: str, type_: str, attributes: str) -> str:
    """Like :func:`vector_function`, but a function that is called instead of inlined.

    Dozens of copies of a long polynomial in one unrolled body cost LLVM more than the calls cost the kernel.
    ``attributes`` is the group of the module that the callers have, so that both agree on vector registers.
    """
    inlined = vector_function(module, name, type_)
    symbol = inlined + ".outlined"
    if module.is_defined(symbol):
        return symbol
    params = [(type_, n) for n in ["x", "y"][: arity(name)]]
    builder = FunctionBuilder(symbol, type_, params, attributes, "internal")
    builder.ret(builder.call(inlined, type_, [Value(f"%{n}", t) for t, n in params]))
    return module.define(symbol, builder.text())


def _symbol(name: str, type_: str) -> str:
    return f"loopsmith.{name}.{mangled(type_)}"


def vector_function(module: ModuleBuilder, name: str, type_: str) -> str:
    """Makes sure that the module defines the function for a type and returns its symbol.

    Args:
        module: where the definition (``internal alwaysinline``) goes.
        name: one of :data:`FUNCTIONS`.
        type_: ``float`` or ``double``, or a vector of them; arguments and result have this type.

    Raises:
        KeyError: an unknown function.
    """
    if name not in FUNCTIONS:
        raise KeyError(name)
    symbol = _symbol(name, type_)
    if module.is_defined(symbol):
        return symbol
    element, lanes = element_of(type_), lanes_of(type_)
    if name in _LIBM:
        return module.define(symbol, _calls_of_libm(module, name, type_))
    if element == "float":
        text, declared = _float_function(name, lanes, module.fuses, module.scales)
        for needed, line in declared:
            module._declared.setdefault(needed, line)
        return module.define(symbol, text)
    return module.define(symbol, _double_function(module, name, type_, lanes))


def _begin(name: str, type_: str) -> tuple[FunctionBuilder, list[Value]]:
    """The builder of a function's definition, and its parameters."""
    names = ["x", "y"][: arity(name)]
    builder = FunctionBuilder(
        _symbol(name, type_), type_, [(type_, n) for n in names], "alwaysinline nounwind", "internal"
    )
    return builder, [Value(f"%{n}", type_) for n in names]


def _calls_of_libm(module: ModuleBuilder, name: str, type_: str) -> str:
    """The function of libm, one lane after the other."""
    builder, args = _begin(name, type_)
    element, lanes = element_of(type_), lanes_of(type_)
    symbol = name + ("f" if element == "float" else "")
    module.declare(symbol, element, [element] * len(args), " nounwind")
    result = Value("poison", type_)
    for lane in range(lanes):
        item = builder.call(symbol, element, [builder.extract(a, lane) for a in args])
        result = builder.insert(result, item, lane) if lanes > 1 else item
    builder.ret(result)
    return builder.text()


def _double_function(module: ModuleBuilder, name: str, type_: str, lanes: int) -> str:
    """float64: a formula where it holds for all floats, else libm."""
    builder, args = _begin(name, type_)
    m = LaneMath(builder, module, lanes, "double")
    if name in _EVERY_FLOAT:
        builder.ret(UNARY[name](m, args[0]))
    elif name == "sigmoid":
        exp = vector_function(module, "exp", type_)
        t = builder.call(exp, type_, [m.neg(m.abs(args[0]))])
        top = m.select(m.cmp("oge", args[0], m.c(0.0)), m.c(1.0), t)
        builder.ret(m.div(top, m.add(t, m.c(1.0))))
    elif name == "ldexp":
        exp2 = vector_function(module, "exp2", type_)
        builder.ret(in_thirds(m, args[0], args[1], lambda rest: builder.call(exp2, type_, [rest])))
    else:
        return _calls_of_libm(module, name, type_)
    return builder.text()

"""The elementary functions themselves: float32 arithmetic on scalars and vectors of any width.

Method: Cody-Waite range reduction and polynomials, whose coefficients ``experiments/foundation/fit_vector_math.py`` fits.
"""

from __future__ import annotations

from collections.abc import Callable

from .builder import FunctionBuilder, ModuleBuilder, Value, constant, lanes_of, vector

_EXP = (0.49999998125402273, 0.16666542351459981, 0.04166720536270934, 0.008366691562344404,
        0.0013882488938968876)  # fmt: skip
_EXP2 = (0.6931471805599453, 0.24022650922288757, 0.055504108839096185, 0.009618056678524637,
         0.001333350238616277, 0.0001546144469856913, 1.5297323760701075e-05)  # fmt: skip
_LOG = (0.3333333333331458, -0.24999944091680273, 0.19999948265999382, -0.1667332483652511, 0.14291875057553424,
        -0.1228853515730012, 0.10915482996015054, -0.12423323783237797, 0.11331654128700172)  # fmt: skip
_SIN = (-0.16666666663826582, 0.008333331863560767, -0.00019840080719912243, 2.724914679681317e-06)
_COS = (0.04166666666429725, -0.0013888887662711772, 2.4800595356594502e-05, -2.730030902052222e-07)
_ATAN = (-0.3333333308107325, 0.19999949321141888, -0.1428400379473353, 0.11088261628735159, -0.08931826777381315,
         0.07031914250029966, -0.04896051402709067, 0.026305001110062377, -0.009144629760592396,
         0.0014886919393047597)  # fmt: skip
_ASIN = (0.1666666633654049, 0.07500094761172901, 0.04459931916287114, 0.031101727829067168, 0.017143716819253568,
         0.03370072632136513)  # fmt: skip
_ERF = (0.12837917161127588, -0.6366193819677675, 0.10277783049766272, 0.01915306387150658, -0.0001603961162143791,
        -0.0016670275067876379, -0.0006328368788474329, -0.00011764127777576636, -9.256265868739805e-06)  # fmt: skip
_SINH = (0.16666666646842135, 0.00833333967591706, 0.00019838101968683888, 2.8062802582276946e-06)

_LN2_HI = 0.693359375  # nine bits: n * _LN2_HI is exact
_LN2_LO = -2.12194440054690583e-4
_LOG2E = 1.4426950408889634
_INF = float("inf")
_HALF_PI = (
    1.5707963267948966,
    6.123233995736766e-17,
)  # for fused operations, in which the first product is exact
_HALF_PI_SHORT = (
    1.570796325802803,
    9.920935796805404e-10,
)  # 27 bits: the product with 26 bits is exact without them
_FARTHEST_REDUCED = 2.0**40  # beyond, two doubles of pi/2 are too few
_FARTHEST_REDUCED_SHORT = 2.0**26
_MAGIC = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer and leaves that integer in the low bits
_MAGIC_OF_DOUBLE = 6755399441055744.0  # 1.5 * 2**52
_TWO_BIASES = 254  # of float32's exponents: the two halves of n + 254 are two biased exponents
_SCALE = "llvm.x86.avx512.mask.scalef.ps.512"
_SCALED_LANES = 16
_CURRENT_ROUNDING = "4"  # as the processor is set, in the last argument of _SCALE


class LaneMath:
    """Short names for arithmetic on one type, over a function builder."""

    def __init__(
        self, builder: FunctionBuilder, module: ModuleBuilder, lanes: int, element: str = "float"
    ) -> None:
        self.b = builder
        self.module = module
        self.lanes = lanes
        self.element = element
        self.type = vector(element, lanes)
        self.int_type = vector("i32" if element == "float" else "i64", lanes)
        self.digits = 23 if element == "float" else 52

    def at(self, element: str) -> LaneMath:
        """The same builder for another element type."""
        return LaneMath(self.b, self.module, self.lanes, element)

    def c(self, value: float) -> Value:
        return constant(value, self.type)

    def i(self, value: int) -> Value:
        return constant(value, self.int_type)

    def add(self, a: Value, b: Value) -> Value:
        return self.b.binary("fadd", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self.b.binary("fsub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self.b.binary("fmul", a, b)

    def div(self, a: Value, b: Value) -> Value:
        return self.b.binary("fdiv", a, b)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.b.call(self.module.intrinsic("fmuladd", self.type, 3), self.type, [a, b, c])

    def abs(self, a: Value) -> Value:
        return self.b.call(self.module.intrinsic("fabs", self.type), self.type, [a])

    def sqrt(self, a: Value) -> Value:
        return self.b.call(self.module.intrinsic("sqrt", self.type), self.type, [a])

    def copysign(self, a: Value, sign: Value) -> Value:
        return self.b.call(self.module.intrinsic("copysign", self.type, 2), self.type, [a, sign])

    def trunc(self, a: Value) -> Value:
        return self.b.call(self.module.intrinsic("trunc", self.type), self.type, [a])

    def neg(self, a: Value) -> Value:
        return self.b.unary("fneg", a)

    def cmp(self, pred: str, a: Value, b: Value) -> Value:
        return self.b.fcmp(pred, a, b)

    def select(self, cond: Value, a: Value, b: Value) -> Value:
        return self.b.select(cond, a, b)

    def below(self, a: Value, limit: float) -> Value:
        """min(a, limit) that keeps NaN."""
        return self.select(self.cmp("ogt", a, self.c(limit)), self.c(limit), a)

    def above(self, a: Value, limit: float) -> Value:
        """max(a, limit) that keeps NaN."""
        return self.select(self.cmp("olt", a, self.c(limit)), self.c(limit), a)

    def bits(self, a: Value) -> Value:
        return self.b.cast("bitcast", a, self.int_type)

    def from_bits(self, a: Value) -> Value:
        return self.b.cast("bitcast", a, self.type)

    def int_op(self, op: str, a: Value, b: Value) -> Value:
        return self.b.binary(op, a, b)

    def poly(self, coefficients: tuple[float, ...], x: Value) -> Value:
        """Horner's scheme, lowest power first."""
        result = self.c(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.c(coefficient))
        return result

    def round(self, a: Value, factor: float = 1.0) -> tuple[Value, Value]:
        """Nearest integer n of a small number, or of its product with a factor: as float, and as an exponent for :meth:`scale`.

        The exponent is an integer whose low bits hold n + 254 (garbage, not poison, for NaN).
        """
        magic = (_MAGIC if self.element == "float" else _MAGIC_OF_DOUBLE) + _TWO_BIASES
        shifted = self.add(a, self.c(magic)) if factor == 1.0 else self.fma(a, self.c(factor), self.c(magic))
        return self.sub(shifted, self.c(magic)), self.bits(shifted)

    def power_of_two(self, exponent: Value) -> Value:
        """2**n for an exponent of :meth:`round` in the normal range."""
        bias = 127 if self.element == "float" else 1023
        biased = self.int_op("add", exponent, self.i(bias - _TWO_BIASES))
        return self.from_bits(self.int_op("shl", biased, self.i(self.digits)))

    def scale(self, a: Value, whole: Value, exponent: Value) -> Value:
        """a * 2**n in float32, rounded once, for n and its exponent of :meth:`round`.

        Without an operation for it this takes two steps, so that overflow and gradual underflow come out right.
        """
        is_whole = self.lanes >= _SCALED_LANES and self.lanes & (self.lanes - 1) == 0
        if self.module.scales and is_whole:
            return self._scale_vectors(a, whole)
        half = self.int_op("and", self.int_op("shl", exponent, self.i(22)), self.i(-1 << 23))
        rest = self.int_op("sub", self.int_op("shl", exponent, self.i(23)), half)
        return self.mul(self.mul(a, self.from_bits(half)), self.from_bits(rest))

    def _scale_vectors(self, a: Value, whole: Value) -> Value:
        """``vscalefps`` of AVX-512, vector by vector, of which there are a power of two."""
        one = vector("float", _SCALED_LANES)
        name = self.module.declare(_SCALE, one, [one, one, one, "i16", "i32 immarg"])
        parts = []
        for begin in range(0, self.lanes, _SCALED_LANES):
            lanes = range(begin, begin + _SCALED_LANES)
            x, n = (self.b.shuffle(item, item, lanes) for item in (a, whole))
            settings = [Value("-1", "i16"), Value(_CURRENT_ROUNDING, "i32")]
            parts.append(self.b.call(name, one, [x, n, x, *settings]))
        while len(parts) > 1:
            parts = [
                self.b.shuffle(left, right, range(2 * lanes_of(left.type)))
                for left, right in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]


# -- exponentials --------------------------------------------------------------


def _exp_reduced(m: LaneMath, x: Value) -> tuple[Value, Value, Value]:
    """r, n and its exponent with x = r + n ln 2, |r| <= ln 2 / 2."""
    n, exponent = m.round(x, _LOG2E)
    r = m.fma(n, m.c(-_LN2_HI), x)
    return m.fma(n, m.c(-_LN2_LO), r), n, exponent


def _exp(m: LaneMath, x: Value) -> Value:
    return _exp_below(m, m.below(x, 89.0))  # beyond: the result is inf already


def _exp_below(m: LaneMath, x: Value) -> Value:
    """exp(x) for x <= 89."""
    x = m.above(x, -104.0)  # beyond: the result is 0 already
    r, whole, n = _exp_reduced(m, x)
    return m.scale(m.poly((1.0, 1.0, *_EXP), r), whole, n)


def _expm1_between(m: LaneMath, x: Value) -> Value:
    """exp(x) - 1 for -87 <= x <= 87; the sign of -0.0 is lost."""
    r, _, n = _exp_reduced(m, x)
    p = m.fma(m.mul(r, r), m.poly(_EXP, r), r)
    power = m.power_of_two(n)
    return m.fma(power, p, m.sub(power, m.c(1.0)))


def _exp2(m: LaneMath, x: Value) -> Value:
    x = m.above(m.below(x, 129.0), -151.0)
    whole, n = m.round(x)
    r = m.sub(x, whole)
    return m.scale(m.fma(r, m.poly(_EXP2, r), m.c(1.0)), whole, n)


def _exp10(m: LaneMath, x: Value) -> Value:
    x = m.above(m.below(x, 38.6), -45.6)
    whole, n = m.round(x, 3.321928094887362)
    r = m.fma(whole, m.c(-0.301025390625), x)  # log10(2) in two parts, the first exact in products
    r = m.fma(whole, m.c(-4.6050389811952e-6), r)
    # r * ln(10) in two parts: its rounding would cost an ulp of the result
    t = m.mul(r, m.c(2.302585092994046))
    low = m.fma(r, m.c(2.302585092994046), m.neg(t))
    low = m.fma(r, m.c(2.302585092994046 - 2.3025851249694824), low)
    p = m.fma(m.mul(t, t), m.poly(_EXP, t), m.add(t, low))
    return m.scale(m.add(p, m.c(1.0)), whole, n)


def _expm1(m: LaneMath, x: Value) -> Value:
    original = x
    x = m.above(m.below(x, 89.0), -18.0)
    r, whole, n = _exp_reduced(m, x)
    p = m.fma(m.mul(r, r), m.poly(_EXP, r), r)
    # 2**n p + (2**n - 1) = 2**n (p + (1 - 2**-n)); exact where it matters, |n| < 24
    capped = m.round(m.below(x, 80.0), -_LOG2E)[1]
    inverse = m.power_of_two(capped)
    result = m.scale(m.add(p, m.sub(m.c(1.0), inverse)), whole, n)
    tiny = m.cmp("olt", m.abs(original), m.c(1e-7))  # keeps -0.0 and denormals
    return m.select(tiny, original, result)


# -- logarithms ------------------------------------------------------------------


def _log_parts(m: LaneMath, x: Value) -> tuple[Value, Value]:
    """f and e with x = (1 + f) * 2**e, f in [-1/3, 1/3), for positive finite x."""
    small = m.cmp("olt", x, m.c(1.1754943508222875e-38))
    x = m.select(small, m.mul(x, m.c(8388608.0)), x)
    shift = m.select(small, m.c(-23.0), m.c(0.0))
    bits = m.bits(x)
    exponent = m.int_op("ashr", m.int_op("sub", bits, m.i(0x3F2AAAAB)), m.i(23))
    mantissa = m.from_bits(m.int_op("sub", bits, m.int_op("shl", exponent, m.i(23))))
    e = m.add(m.b.cast("sitofp", exponent, m.type), shift)
    return m.sub(mantissa, m.c(1.0)), e


def _log_special(m: LaneMath, x: Value, result: Value) -> Value:
    """0 -> -inf, negative -> NaN, inf and NaN unchanged."""
    result = m.select(m.cmp("olt", x, m.c(_INF)), result, x)
    result = m.select(m.cmp("oeq", x, m.c(0.0)), m.c(-_INF), result)
    return m.select(m.cmp("olt", x, m.c(0.0)), m.c(float("nan")), result)


def _log_core(m: LaneMath, x: Value) -> Value:
    f, e = _log_parts(m, x)
    square = m.mul(f, f)
    tail = m.mul(m.mul(f, square), m.poly(_LOG, f))
    tail = m.fma(e, m.c(_LN2_LO), tail)
    tail = m.fma(square, m.c(-0.5), tail)
    return m.fma(e, m.c(_LN2_HI), m.add(f, tail))


def _log(m: LaneMath, x: Value) -> Value:
    return _log_special(m, x, _log_core(m, x))


def _log_base(m: LaneMath, x: Value, high: float, low: float, ehi: float, elo: float) -> Value:
    """e * (ehi + elo) + log(1 + f) * (high + low), with log(1 + f) = f + tail kept in two parts."""
    f, e = _log_parts(m, x)
    square = m.mul(f, f)
    tail = m.fma(square, m.c(-0.5), m.mul(m.mul(f, square), m.poly(_LOG, f)))
    # f in two parts, the first short enough for exact products
    head = m.from_bits(m.int_op("and", m.bits(f), m.i(-4096)))
    rest = m.add(m.sub(f, head), tail)
    result = m.mul(m.add(head, rest), m.c(low))
    result = m.fma(rest, m.c(high), result)
    result = m.fma(e, m.c(elo), result)
    result = m.fma(head, m.c(high), result)
    result = m.fma(e, m.c(ehi), result)
    return _log_special(m, x, result)


def _log2(m: LaneMath, x: Value) -> Value:
    return _log_base(m, x, 1.4423828125, _LOG2E - 1.4423828125, 1.0, 0.0)


def _log10(m: LaneMath, x: Value) -> Value:
    return _log_base(
        m, x, 0.434326171875, 0.4342944819032518 - 0.434326171875, 0.301025390625, 4.6050389811952e-6
    )


def _log1p(m: LaneMath, x: Value) -> Value:
    u = m.add(x, m.c(1.0))
    # what the sum lost, relative to u: log(u + c) = log(u) + c / u
    lost = m.select(m.cmp("oge", x, m.c(1.0)), m.sub(m.c(1.0), m.sub(u, x)), m.sub(x, m.sub(u, m.c(1.0))))
    result = m.add(_log_core(m, u), m.div(lost, u))
    result = _log_special(m, u, result)
    return m.select(m.cmp("olt", m.abs(x), m.c(1e-7)), x, result)


# -- hyperbolic and friends ------------------------------------------------------


def _tanh(m: LaneMath, x: Value) -> Value:
    t = _expm1_between(m, m.below(m.mul(m.abs(x), m.c(2.0)), 40.0))
    return m.copysign(m.div(t, m.add(t, m.c(2.0))), x)


def _sigmoid(m: LaneMath, x: Value) -> Value:
    # exp of a negative number only: exp(-x) would overflow where the result is a denormal
    t = _exp_below(m, m.neg(m.abs(x)))
    r = m.div(m.select(m.cmp("oge", x, m.c(0.0)), m.c(1.0), t), m.add(t, m.c(1.0)))
    return r


def _half_of_exp(m: LaneMath, a: Value) -> Value:
    """exp(a) / 2, which overflows no earlier than it must: a number a little above ln 2, of few digits, is taken off first."""
    half = _exp(m, m.sub(m.below(a, 91.0), m.c(0.69317626953125)))
    return m.mul(half, m.c(1.0000290893963))  # exp(0.69317626953125 - ln 2)


def _sinh(m: LaneMath, x: Value) -> Value:
    a = m.abs(x)
    half = _half_of_exp(m, a)
    large = m.sub(half, m.div(m.c(0.25), half))
    z = m.mul(x, x)
    small = m.fma(m.mul(a, z), m.poly(_SINH, z), a)
    return m.copysign(m.select(m.cmp("olt", a, m.c(1.0)), small, large), x)


def _cosh(m: LaneMath, x: Value) -> Value:
    half = _half_of_exp(m, m.abs(x))
    return m.add(half, m.div(m.c(0.25), half))


def _asinh(m: LaneMath, x: Value) -> Value:
    a = m.abs(x)
    z = m.mul(a, a)
    # log1p(a + a^2 / (1 + sqrt(a^2 + 1))); for large a: log(a) + ln 2
    inner = m.add(a, m.div(z, m.add(m.c(1.0), m.sqrt(m.add(z, m.c(1.0))))))
    large = m.cmp("ogt", a, m.c(1e9))
    small = _log1p(m, m.select(large, m.c(1.0), inner))
    big = m.add(_log(m, a), m.c(0.6931471805599453))
    return m.copysign(m.select(large, big, small), x)


def _acosh(m: LaneMath, x: Value) -> Value:
    t = m.sub(x, m.c(1.0))
    inner = m.add(t, m.sqrt(m.fma(t, t, m.mul(t, m.c(2.0)))))
    large = m.cmp("ogt", x, m.c(1e9))
    small = _log1p(m, m.select(large, m.c(1.0), inner))
    result = m.select(large, m.add(_log(m, x), m.c(0.6931471805599453)), small)
    return m.select(m.cmp("olt", x, m.c(1.0)), m.c(float("nan")), result)


def _atanh(m: LaneMath, x: Value) -> Value:
    a = m.abs(x)
    t = m.div(m.mul(a, m.c(2.0)), m.sub(m.c(1.0), a))
    return m.copysign(m.mul(_log1p(m, t), m.c(0.5)), x)


def _erf(m: LaneMath, x: Value) -> Value:
    t = m.neg(m.below(m.abs(x), 4.0))  # erf(4) rounds to 1
    logarithm = m.fma(t, m.poly(_ERF, t), t)  # of erfc(-t)
    return m.copysign(_expm1_between(m, logarithm), x)


def _sqrt(m: LaneMath, x: Value) -> Value:
    return m.sqrt(x)


def _rsqrt(m: LaneMath, x: Value) -> Value:
    return m.div(m.c(1.0), m.sqrt(x))


def _round(m: LaneMath, x: Value) -> Value:
    """Away from zero in ties: the largest number below one half, with the sign of x, is added; the sum is cut off."""
    below_half = 0.49999997019767761 if m.element == "float" else 0.49999999999999994
    return m.trunc(m.add(x, m.copysign(m.c(below_half), x)))


# -- trigonometric ---------------------------------------------------------------


def _quadrant(m: LaneMath, x: Value) -> tuple[Value, Value]:
    """r in [-pi/4, pi/4] and n with x = r + n pi/2.

    The reduction is done in double, and holds up to :func:`_farthest_reduced`; beyond, r is any number.
    """
    high, low = _HALF_PI if m.module.fuses else _HALF_PI_SHORT
    d = m.at("double")
    wide = m.b.cast("fpext", x, d.type)
    n, exponent = d.round(wide, 0.6366197723675814)
    r = d.fma(n, d.c(-high), wide)
    r = d.fma(n, d.c(-low), r)
    narrow = m.b.cast("fptrunc", r, m.type)
    return narrow, m.int_op("sub", m.b.cast("trunc", exponent, m.int_type), m.i(_TWO_BIASES))


def _farthest_reduced(m: LaneMath) -> float:
    return _FARTHEST_REDUCED if m.module.fuses else _FARTHEST_REDUCED_SHORT


def _with_libm_beyond(m: LaneMath, name: str, x: Value, near: Value) -> Value:
    """``near`` where the reduction holds; lanes beyond ask libm's function of double, in a block that is entered for them only."""
    far = m.cmp("ogt", m.abs(x), m.c(_farthest_reduced(m)))
    any_far = far if m.lanes == 1 else m.b.icmp("ne", *_as_integer(m, far))
    before, beyond, done = m.b.block, m.b.fresh("beyond"), m.b.fresh("done")
    m.b.cond_branch(any_far, beyond, done)
    m.b.label(beyond)
    m.module.declare(name, "double", ["double"], " nounwind")
    found = near
    for lane in range(m.lanes):
        wide = m.b.cast("fpext", m.b.extract(x, lane), "double")
        item = m.b.cast("fptrunc", m.b.call(name, "double", [wide]), "float")
        found = m.b.insert(found, item, lane) if m.lanes > 1 else item
    found = m.select(far, found, near)  # a lane's result does not depend on its neighbours
    m.b.branch(done)
    m.b.label(done)
    return m.b.define(f"phi {m.type} [ {near.ref}, %{before} ], [ {found.ref}, %{beyond} ]", m.type)


def _as_integer(m: LaneMath, mask: Value) -> tuple[Value, Value]:
    """The bits of a mask as one integer, and the zero of its type."""
    bits = m.b.cast("bitcast", mask, f"i{m.lanes}")
    return bits, Value("0", bits.type)


def _sin_cos_polynomials(m: LaneMath, r: Value) -> tuple[Value, Value]:
    z = m.mul(r, r)
    sine = m.fma(m.mul(r, z), m.poly(_SIN, z), r)
    cosine = m.fma(m.mul(z, z), m.poly(_COS, z), m.fma(z, m.c(-0.5), m.c(1.0)))
    return sine, cosine


def _sin_shifted(m: LaneMath, x: Value, quarter_turns: int) -> Value:
    r, n = _quadrant(m, x)
    sine, cosine = _sin_cos_polynomials(m, r)
    if quarter_turns:
        n = m.int_op("add", n, m.i(quarter_turns))
    odd = m.b.icmp("ne", m.int_op("and", n, m.i(1)), m.i(0))
    sign = m.int_op("shl", m.int_op("and", n, m.i(2)), m.i(30))
    value = m.select(odd, cosine, sine)
    return m.from_bits(m.int_op("xor", m.bits(value), sign))


def _sin(m: LaneMath, x: Value) -> Value:
    result = _sin_shifted(m, x, 0)
    kept = m.select(m.cmp("oeq", x, m.c(0.0)), x, result)  # keeps -0.0
    return _with_libm_beyond(m, "sin", x, kept)


def _cos(m: LaneMath, x: Value) -> Value:
    return _with_libm_beyond(m, "cos", x, _sin_shifted(m, x, 1))


def _tan(m: LaneMath, x: Value) -> Value:
    r, n = _quadrant(m, x)
    sine, cosine = _sin_cos_polynomials(m, r)
    odd = m.b.icmp("ne", m.int_op("and", n, m.i(1)), m.i(0))
    result = m.div(m.select(odd, m.neg(cosine), sine), m.select(odd, sine, cosine))
    return _with_libm_beyond(m, "tan", x, m.select(m.cmp("oeq", x, m.c(0.0)), x, result))


def _atan_unit(m: LaneMath, a: Value) -> Value:
    z = m.mul(a, a)
    return m.fma(m.mul(a, z), m.poly(_ATAN, z), a)


def _atan(m: LaneMath, x: Value) -> Value:
    a = m.abs(x)
    large = m.cmp("ogt", a, m.c(1.0))
    p = _atan_unit(m, m.select(large, m.div(m.c(1.0), a), a))
    turned = m.add(m.sub(m.c(1.5707963705062866), p), m.c(-4.371139000186241e-08))
    return m.copysign(m.select(large, turned, p), x)


def _atan2(m: LaneMath, y: Value, x: Value) -> Value:
    ay, ax = m.abs(y), m.abs(x)
    swap = m.cmp("ogt", ay, ax)
    low, high = m.select(swap, ax, ay), m.select(swap, ay, ax)
    quotient = m.div(low, high)
    both_zero = m.cmp("oeq", high, m.c(0.0))
    both_inf = m.cmp("oeq", low, m.c(_INF))
    quotient = m.select(both_zero, m.c(0.0), m.select(both_inf, m.c(1.0), quotient))
    p = _atan_unit(m, quotient)
    p = m.select(swap, m.add(m.sub(m.c(1.5707963705062866), p), m.c(-4.371139000186241e-08)), p)
    negative = m.b.icmp("slt", m.bits(x), m.i(0))
    p = m.select(negative, m.add(m.sub(m.c(3.1415927410125732), p), m.c(-8.742278000372482e-08)), p)
    p = m.copysign(p, y)
    return m.select(m.cmp("uno", x, y), m.add(x, y), p)


def _asin_parts(m: LaneMath, a: Value) -> tuple[Value, Value, Value]:
    """asin of a in [0, 1]: whether a > 1/2, and asin of the reduced argument s with its s."""
    large = m.cmp("ogt", a, m.c(0.5))
    z = m.select(large, m.mul(m.sub(m.c(1.0), a), m.c(0.5)), m.mul(a, a))
    s = m.select(large, m.sqrt(z), a)
    return large, m.fma(m.mul(s, z), m.poly(_ASIN, z), s), s


def _asin(m: LaneMath, x: Value) -> Value:
    large, p, _ = _asin_parts(m, m.abs(x))
    turned = m.add(m.fma(p, m.c(-2.0), m.c(1.5707963705062866)), m.c(-4.371139000186241e-08))
    return m.copysign(m.select(large, turned, p), x)


def _acos(m: LaneMath, x: Value) -> Value:
    large, p, _ = _asin_parts(m, m.abs(x))
    negative = m.cmp("olt", x, m.c(0.0))
    twice = m.mul(p, m.c(2.0))
    near_one = m.select(
        negative, m.add(m.sub(m.c(3.1415927410125732), twice), m.c(-8.742278000372482e-08)), twice
    )
    signed = m.copysign(p, x)
    middle = m.add(m.sub(m.c(1.5707963705062866), signed), m.c(-4.371139000186241e-08))
    return m.select(large, near_one, middle)


# -- power -------------------------------------------------------------------------


def _pow(m: LaneMath, x: Value, y: Value) -> Value:
    """exp2(y log2 |x|) with the product in double, then C's table of special cases."""
    d = m.at("double")
    a = m.abs(x)
    f, e = _log_parts(m, a)
    fd, ed = m.b.cast("fpext", f, d.type), m.b.cast("fpext", e, d.type)
    # log(1 + f) = 2 atanh(s), s = f / (2 + f), |s| <= 0.2
    s = d.div(fd, d.add(fd, d.c(2.0)))
    z = d.mul(s, s)
    series = d.poly(tuple(2 * _LOG2E / (2 * k + 1) for k in range(9)), z)
    log2 = d.fma(s, series, ed)
    log2 = d.select(m.cmp("oeq", a, m.c(0.0)), d.c(-_INF), log2)
    log2 = d.select(m.cmp("oeq", a, m.c(_INF)), d.c(_INF), log2)
    t = d.mul(m.b.cast("fpext", y, d.type), log2)
    t = d.above(d.below(t, 200.0), -200.0)
    whole, n = d.round(t)
    r = m.b.cast("fptrunc", d.sub(t, whole), m.type)
    exponent = m.b.cast("trunc", n, m.int_type)
    magnitude = m.scale(m.fma(r, m.poly(_EXP2, r), m.c(1.0)), m.b.cast("fptrunc", whole, m.type), exponent)
    # parity of y: even beyond 2**24; halves tell odd from even
    integer = m.cmp("oeq", m.trunc(y), y)
    half = m.mul(y, m.c(0.5))
    odd = m.b.binary("and", integer, m.cmp("one", m.trunc(half), half))
    negative = m.b.icmp("slt", m.bits(x), m.i(0))
    signed = m.select(m.b.binary("and", negative, odd), m.neg(magnitude), magnitude)
    below_zero = m.b.binary("and", m.cmp("olt", x, m.c(0.0)), m.cmp("ogt", x, m.c(-_INF)))
    undefined = m.b.binary("and", below_zero, m.cmp("une", m.trunc(y), y))
    signed = m.select(undefined, m.c(float("nan")), signed)
    signed = m.select(m.cmp("uno", x, y), m.add(x, y), signed)
    minus_one = m.b.binary("and", m.cmp("oeq", x, m.c(-1.0)), m.cmp("oeq", m.abs(y), m.c(_INF)))
    one = m.b.binary("or", m.cmp("oeq", x, m.c(1.0)), m.b.binary("or", m.cmp("oeq", y, m.c(0.0)), minus_one))
    return m.select(one, m.c(1.0), signed)


def _ldexp(m: LaneMath, x: Value, n: Value) -> Value:
    return in_thirds(m, x, n, lambda rest: _exp2(m, rest))


def in_thirds(m: LaneMath, x: Value, n: Value, exp2: Callable[[Value], Value]) -> Value:
    """x * 2**n: a power may be none of the type where the product is one, but its cube root is."""
    most = 375.0 if m.element == "float" else 3066.0
    n = m.above(m.below(n, most), -most)  # beyond, the result is inf or 0, or x itself is
    third = m.trunc(m.mul(n, m.c(1.0 / 3.0)))
    step = m.power_of_two(m.round(third)[1])
    return m.mul(m.mul(m.mul(x, step), step), exp2(m.sub(n, m.add(third, third))))


UNARY: dict[str, Callable[[LaneMath, Value], Value]] = {
    "exp": _exp, "exp2": _exp2, "exp10": _exp10, "expm1": _expm1, "log": _log, "log2": _log2, "log10": _log10,
    "log1p": _log1p, "tanh": _tanh, "sigmoid": _sigmoid, "erf": _erf, "sqrt": _sqrt, "rsqrt": _rsqrt, "round": _round, "sin": _sin,
    "cos": _cos, "tan": _tan, "asin": _asin, "acos": _acos, "atan": _atan, "sinh": _sinh, "cosh": _cosh,
    "asinh": _asinh, "acosh": _acosh, "atanh": _atanh,
}  # fmt: skip
BINARY: dict[str, Callable[[LaneMath, Value, Value], Value]] = {"pow": _pow, "atan2": _atan2, "ldexp": _ldexp}

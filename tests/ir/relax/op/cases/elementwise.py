"""Operators that compute element by element."""

from __future__ import annotations

from ir import relax as rx

from .case import BOTH, ROWS, bools, case, floats, ints

R = rx.op

for name in "asinh atan cos erf exp sigmoid sin sinh tan tanh cosh".split():
    case(name, getattr(R, name), floats(2, 3), symbolic=ROWS, tolerance=2e-5)
for name in "abs ceil floor negative round sign square trunc isfinite isinf isnan".split():
    case(name, getattr(R, name), floats(2, 3), symbolic=ROWS)
for name in "acos asin atanh".split():
    case(name, getattr(R, name), floats(2, 3, low=-0.9, high=0.9), symbolic=ROWS, tolerance=2e-5)
for name in "log sqrt rsqrt".split():
    case(name, getattr(R, name), floats(2, 3, low=0.5), symbolic=ROWS)
case("acosh", R.acosh, floats(2, 3, low=1.1), symbolic=ROWS)
case("bitwise_not", R.bitwise_not, ints(2, 3), symbolic=ROWS)
case("logical_not", R.logical_not, bools(2, 3), symbolic=ROWS)
case("clip", lambda x: R.clip(x, -1, 1), floats(2, 3), symbolic=ROWS)

for name in "add subtract multiply maximum minimum log_add_exp atan2".split():
    case(name, getattr(R, name), floats(2, 3), floats(2, 3, seed=1), symbolic=BOTH)
    case(name, getattr(R, name), floats(4, 1, 3), floats(2, 1, seed=1), symbolic=ROWS, label="broadcast")
for name in "divide floor_divide floor_mod mod power".split():
    case(name, getattr(R, name), floats(2, 3, low=0.5), floats(2, 3, seed=1, low=0.5), symbolic=BOTH)
for name in "divide floor_divide floor_mod mod".split():
    case(
        name,
        getattr(R, name),
        ints(3, 4, low=-9, high=9),
        ints(3, 4, low=1, high=4, seed=3),
        label="int",
        symbolic=BOTH,
    )
for name in "equal not_equal less less_equal greater greater_equal".split():
    case(name, getattr(R, name), ints(2, 3), ints(2, 3, seed=1), symbolic=BOTH)
for name in "logical_and logical_or logical_xor".split():
    case(name, getattr(R, name), bools(4, 3), bools(4, 3)[::-1].copy(), symbolic=BOTH)
for name in "bitwise_and bitwise_or bitwise_xor left_shift right_shift".split():
    case(name, getattr(R, name), ints(2, 3, high=60), ints(2, 3, seed=1), symbolic=BOTH)
case(
    "add",
    lambda x: R.add(x, rx.const(2.0, x.struct_info.dtype)),
    floats(2, 3),
    label="scalar",
    symbolic=ROWS,
)

case(
    "ewise_fma",
    R.ewise_fma,
    floats(2, 3),
    floats(2, 3, seed=1),
    floats(2, 3, seed=2),
    symbolic={**BOTH, (2, 0): "n"},
)

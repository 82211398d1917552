"""The rewrite rules, as data; :mod:`ir.arith.pattern` explains the notation, ``tests/ir/arith/proofs`` proves them.

Letters at the end of a line say what its rule holds for: ``Z`` index integers, ``W`` integers that wrap, ``F`` floats, ``B`` truth
values; no letters mean ``Z``. Within an operator the first rule that matches wins: cancellations come first, canonicalizations, which move
constants outwards so that more rules match, come last.
"""

from __future__ import annotations

ADD = """
# cancellation
~ (x - y) + y -> x  [ZW]
(x - y) + (y - z) -> x - z  [ZW]
(x - y) + (z - x) -> z - y  [ZW]
min(x, y - z) + z -> min(x + z, y)
z + min(x, y - z) -> min(x + z, y)
min(x - z, y) + z -> min(x, y + z)
z + min(x - z, y) -> min(x, y + z)
max(x, y - z) + z -> max(x + z, y)
z + max(x, y - z) -> max(x + z, y)
max(x - z, y) + z -> max(x, y + z)
z + max(x - z, y) -> max(x, y + z)
min(x, y + c1) + c2 -> min(x + c2, y) if c2 == -c1
min(x + c1, y) + c2 -> min(x, y + c2) if c2 == -c1
max(x, y + c1) + c2 -> max(x + c2, y) if c2 == -c1
max(x + c1, y) + c2 -> max(x, y + c2) if c2 == -c1
~ max(x, y) + min(x, y) -> x + y  [ZW]
# constants and coefficients
(x + c1) + c2 -> x + (c1 + c2)  [ZW]
x + x -> x * 2  [ZW]
~ x * y + x -> (y + 1) * x  [ZW]
x * y + x * z -> (y + z) * x  [ZW]
y * x + x * z -> (y + z) * x  [ZW]
x * y + z * x -> (y + z) * x  [ZW]
y * x + z * x -> (y + z) * x  [ZW]
# quotient and remainder recombine: (x / c) * c + x % c = x
~ truncdiv(x, c1) * c1 + truncmod(x, c1) -> x
~ (x // y) * y + x % y -> x
# x // c + (x % c + c1) // c = (x + c1) // c
~ (x % c2 + c1) // c2 + x // c2 -> (x + c1) // c2
# canonicalization: constants outwards, to the right
x + (c1 - y) => (x - y) + c1  [ZW]
(c1 - y) + x => (x - y) + c1  [ZW]
(x + c1) + y => (x + y) + c1  [ZW]
x + (c1 + y) => (x + y) + c1  [ZW]
x + (y + c1) => (x + y) + c1  [ZW]
c1 + x -> x + c1  [ZW]
x + (0 - y) -> x - y  [ZW]
(0 - y) + x -> x - y  [ZW]
"""

SUB = """
# cancellation
(x + y) - y -> x  [ZW]
(x + y) - x -> y  [ZW]
x - (y + x) -> 0 - y  [ZW]
x - (x + y) -> 0 - y  [ZW]
(x - y) - x -> 0 - y  [ZW]
x - (x - y) -> y  [ZW]
min(x, y) - x -> min(0, y - x)
min(x, y) - y -> min(x - y, 0)
max(x, y) - x -> max(0, y - x)
max(x, y) - y -> max(x - y, 0)
x - max(x, y) -> min(0, x - y)
y - max(x, y) -> min(y - x, 0)
x - min(x, y) -> max(0, x - y)
y - min(x, y) -> max(y - x, 0)
# coefficients
x - x -> 0  [ZW]
x * y - x -> (y - 1) * x  [ZW]
y * x - x -> (y - 1) * x  [ZW]
x - y * x -> (1 - y) * x  [ZW]
x - x * y -> (1 - y) * x  [ZW]
x * y - x * z -> (y - z) * x  [ZW]
y * x - x * z -> (y - z) * x  [ZW]
x * y - z * x -> (y - z) * x  [ZW]
y * x - z * x -> (y - z) * x  [ZW]
# constants
(x + c1) - c2 -> x + (c1 - c2)  [ZW]
(c1 - x) - (c2 - y) -> (y - x) + (c1 - c2)  [ZW]
# four operands
~ (x + y) - (x + z) -> y - z  [ZW]
min(x + y, z) - x -> min(y, z - x)
min(y + x, z) - x -> min(y, z - x)
min(z, x + y) - x -> min(z - x, y)
min(z, y + x) - x -> min(z - x, y)
max(x + y, z) - x -> max(y, z - x)
max(y + x, z) - x -> max(y, z - x)
max(z, x + y) - x -> max(z - x, y)
max(z, y + x) - x -> max(z - x, y)
x - min(x + y, z) -> max(0 - y, x - z)
x - min(y + x, z) -> max(0 - y, x - z)
x - min(z, x + y) -> max(x - z, 0 - y)
x - min(z, y + x) -> max(x - z, 0 - y)
x - max(x + y, z) -> min(0 - y, x - z)
x - max(y + x, z) -> min(0 - y, x - z)
x - max(z, x + y) -> min(x - z, 0 - y)
x - max(z, y + x) -> min(x - z, 0 - y)
min(x, y) - min(y, x) -> 0  [ZW]
max(x, y) - max(y, x) -> 0  [ZW]
min(x, y) - min(z, w) -> x - z if zero((x - z) - (y - w))
min(x, y) - min(z, w) -> x - w if zero((x - w) - (y - z))
max(x, y) - max(z, w) -> x - z if zero((x - z) - (y - w))
max(x, y) - max(z, w) -> x - w if zero((x - w) - (y - z))
0 - max(0, x - y) -> min(0, y - x)
0 - min(0, x - y) -> max(0, y - x)
~ (max(x, y) + z) - x -> max(0, y - x) + z
~ (min(x, y) + z) - x -> min(0, y - x) + z
x - (max(x, y) + z) -> min(0, x - y) - z
x - (min(x, y) + z) -> max(0, x - y) - z
x - (max(y, x) + z) -> min(0, x - y) - z
x - (min(y, x) + z) -> max(0, x - y) - z
# division truncating towards zero: x - (x / c) * c = x rem c
x - truncdiv(x, c1) * c1 -> truncmod(x, c1) if c1 != 0
truncdiv(x, c1) * c1 - x -> 0 - truncmod(x, c1) if c1 != 0
x - truncdiv(x + y, c1) * c1 -> truncmod(x + y, c1) - y if c1 != 0
truncdiv(x + y, c1) * c1 - x -> y - truncmod(x + y, c1) if c1 != 0
x - truncdiv(x - y, c1) * c1 -> truncmod(x - y, c1) + y if c1 != 0
truncdiv(x - y, c1) * c1 - x -> 0 - truncmod(x - y, c1) - y if c1 != 0
x * c2 - truncdiv(x, c1) * c3 -> truncmod(x, c1) * c2 if c1 != 0 and c3 == c1 * c2
truncdiv(x, c1) * c3 - x * c2 -> truncmod(x, c1) * (0 - c2) if c1 != 0 and c3 == c1 * c2
# floor division: x - (x // c) * c = x % c
x - (x // y) * y -> x % y
(x // y) * y - x -> 0 - x % y
x - ((x + y) // c1) * c1 -> (x + y) % c1 - y if c1 != 0
((x + y) // c1) * c1 - x -> y - (x + y) % c1 if c1 != 0
x - ((x - y) // c1) * c1 -> (x - y) % c1 + y if c1 != 0
((x - y) // c1) * c1 - x -> 0 - (x - y) % c1 - y if c1 != 0
x * c2 - (x // c1) * c3 -> (x % c1) * c2 if c1 != 0 and c3 == c1 * c2
(x // c1) * c3 - x * c2 -> (x % c1) * (0 - c2) if c1 != 0 and c3 == c1 * c2
x * c2 - ((x + y) // c1) * c3 -> ((x + y) % c1 - y) * c2 if c1 != 0 and c3 == c1 * c2
((x + y) // c1) * c3 - x * c2 -> (y - (x + y) % c1) * c2 if c1 != 0 and c3 == c1 * c2
# quotients of near numbers: (x + a) // c - (x + b) // c = ((x + b) % c + a - b) // c
(x + c1) // c3 - (x + c2) // c3 -> ((x + c2 % c3) % c3 + (c1 - c2)) // c3 if c3 > 0
(x + c1) // c3 - x // c3 -> (x % c3 + c1) // c3 if c3 > 0
x - x % y -> (x // y) * y
# canonicalization: constants outwards as additions
0 - x * c1 -> x * (0 - c1)  [ZW]
x - c1 => x + (0 - c1)  [ZW]
(x + c1) - y => (x - y) + c1  [ZW]
x - (y + c1) => (x - y) + (0 - c1)  [ZW]
x - (y - z) => (x + z) - y  [ZW]
x - y * c1 => x + y * (0 - c1)  [ZW]
"""

MUL = """
(x + c1) * c2 -> x * c2 + c1 * c2  [ZW]
(x * c1) * c2 -> x * (c1 * c2)  [ZW]
~ min(x, y) * max(x, y) -> x * y
(0 - x) * c1 -> x * (0 - c1)  [ZW]
# canonicalization: constants outwards, to the right
x * (c1 * y) => (x * y) * c1  [ZW]
x * (y * c1) => (x * y) * c1  [ZW]
c1 * x -> x * c1  [ZW]
(x - y) * c1 => (y - x) * (0 - c1) if c1 < 0  [ZW]
"""

TRUNCDIV = """
truncdiv(truncdiv(x, c1), c2) -> truncdiv(x, c1 * c2) if c1 > 0 and c2 > 0
truncdiv(truncdiv(x, c1) + c2, c3) -> truncdiv(x + c1 * c2, c1 * c3) if c1 > 0 and c2 >= 0 and c3 > 0 and ge(x, 0)
truncdiv(x * c1, c2) -> x * truncdiv(c1, c2) if c2 != 0 and c1 % c2 == 0
truncdiv(x * c1, c2) -> truncdiv(x, truncdiv(c2, c1)) if c1 > 0 and c2 % c1 == 0
truncdiv(x, x) -> 1
truncdiv(x * c1, x) -> c1
truncdiv(x * y, y) -> x
truncdiv(y * x, y) -> x
truncdiv(x * c1 + y, c2) -> x * truncdiv(c1, c2) + truncdiv(y, c2) if c2 > 0 and c1 >= 0 == c1 % c2 and ge(x, 0) and ge(y, 0)
truncdiv(y + x * c1, c2) -> truncdiv(y, c2) + x * truncdiv(c1, c2) if c2 > 0 and c1 >= 0 == c1 % c2 and ge(x, 0) and ge(y, 0)
truncdiv(x + c1, c2) -> truncdiv(x, c2) + truncdiv(c1, c2) if c1 > 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0)
truncdiv(x + y, x) -> truncdiv(y, x) + 1 if ge(x, 0) and ge(y, 0)
truncdiv(y + x, x) -> truncdiv(y, x) + 1 if ge(x, 0) and ge(y, 0)
truncdiv(x * z + y, z) -> x + truncdiv(y, z) if ge(x, 0) and ge(y, 0) and ge(z, 0)
truncdiv(z * x + y, z) -> x + truncdiv(y, z) if ge(x, 0) and ge(y, 0) and ge(z, 0)
truncdiv(x, c1) -> 0 if c1 > 0 and ge(x, 1 - c1) and lt(x, c1)
"""

TRUNCMOD = """
truncmod(x * c1, c2) -> 0 if c2 != 0 and c1 % c2 == 0
truncmod(x * c1 + y, c2) -> truncmod(y, c2) if c2 > 0 and c1 % c2 == 0 and ge(x * c1, 0) and ge(y, 0)
truncmod(y + x * c1, c2) -> truncmod(y, c2) if c2 > 0 and c1 % c2 == 0 and ge(x * c1, 0) and ge(y, 0)
truncmod(x + c1, c2) -> truncmod(x, c2) if c2 > 0 and c1 >= 0 and c1 % c2 == 0 and ge(x, 0)
truncmod(x, x) -> 0
truncmod(x * y, y) -> 0
truncmod(y * x, y) -> 0
truncmod(x, c1) -> truncmod(x, 0 - c1) if c1 < 0
truncmod(x, c1) -> x if c1 > 0 and ge(x, 1 - c1) and lt(x, c1)
"""

FLOORDIV = """
(x // c1 + c2) // c3 -> (x + c1 * c2) // (c1 * c3) if c1 > 0 and c3 > 0
(x // c1) // c2 -> x // (c1 * c2) if c1 > 0 and c2 > 0
# (x c1) // c2 with one a multiple of the other
(x * c1) // c2 -> x * (c1 // c2) if c2 != 0 and c1 % c2 == 0
(x * c1) // c2 -> x // (c2 // c1) if c1 > 0 and c2 % c1 == 0
(x * c1) // c2 -> x * (c1 // c2) if c2 > 0 and not 0 <= c1 <= c2 and ge(x * (c1 % c2), 0) and lt(x * (c1 % c2), c2)
(x * c1 + y) // c2 -> x * (c1 // c2) + y // c2 if c2 > 0 and c1 % c2 == 0
(y + x * c1) // c2 -> x * (c1 // c2) + y // c2 if c2 > 0 and c1 % c2 == 0
# (x c1 + y) // c2 with c1 | c2: y's remainder below c1 cannot carry
(x * c1 + c3) // c2 -> x // (c2 // c1) + c3 // c2 if c1 > 0 and c2 > 0 and c2 % c1 == 0 and c3 % c2 < c1
(x * c1 + c3) // c2 -> (x + c3 // c1) // (c2 // c1) if c1 > 0 and c2 > 0 and c2 % c1 == 0
(x * c1 + y) // c2 -> x // (c2 // c1) if c1 > 0 and c2 > 0 and c2 % c1 == 0 and ge(y, 0) and lt(y, c1)
(y + x * c1) // c2 -> x // (c2 // c1) if c1 > 0 and c2 > 0 and c2 % c1 == 0 and ge(y, 0) and lt(y, c1)
(x * c1 - y) // c2 -> x * (c1 // c2) + (0 - y) // c2 if c2 > 0 and c1 % c2 == 0
(y - x * c1) // c2 -> y // c2 - x * (c1 // c2) if c2 > 0 and c1 % c2 == 0
(x * c1 + y + z) // c2 -> x * (c1 // c2) + (y + z) // c2 if c2 > 0 and c1 % c2 == 0
(y + x * c1 + z) // c2 -> x * (c1 // c2) + (y + z) // c2 if c2 > 0 and c1 % c2 == 0
(x * c1 - y + z) // c2 -> x * (c1 // c2) + (z - y) // c2 if c2 > 0 and c1 % c2 == 0
(x + c1) // c2 -> x // c2 + c1 // c2 if c2 > 0 and c1 % c2 == 0
min(x * c1, y) // c2 -> min(x * (c1 // c2), y // c2) if c2 > 0 and c1 % c2 == 0
min(x, y * c1) // c2 -> min(x // c2, y * (c1 // c2)) if c2 > 0 and c1 % c2 == 0
max(x * c1, y) // c2 -> max(x * (c1 // c2), y // c2) if c2 > 0 and c1 % c2 == 0
max(x, y * c1) // c2 -> max(x // c2, y * (c1 // c2)) if c2 > 0 and c1 % c2 == 0
x // c1 -> 0 - x if c1 == -1  [ZW]
# symbolic divisors
x // x -> 1
(x * c1) // x -> c1
(x * y) // y -> x
(y * x) // y -> x
(x * c1) // (x * c2) -> c1 // c2 if c2 != 0
~ (x * y) // (x * z) -> y // z
~ (x + y) // x -> y // x + 1
~ (x * z + y) // z -> x + y // z
~ (x * (z * c1) + y) // (z * c1) -> x + y // (z * c1)
(x * z - y) // z -> x + (0 - y) // z
(z * x - y) // z -> x + (0 - y) // z
(y - x * z) // z -> y // z - x
(y - z * x) // z -> y // z - x
(x - x % c1) // c1 -> x // c1 if c1 != 0
"""

FLOORMOD = """
(x * c1) % c2 -> 0 if c2 != 0 and c1 % c2 == 0
(x * c1) % c2 -> (x % (c2 // c1)) * c1 if c1 > 0 and c2 > 0 and c2 % c1 == 0
(x * c1 + y) % c2 -> y % c2 if c2 > 0 and c1 % c2 == 0
(y + x * c1) % c2 -> y % c2 if c2 > 0 and c1 % c2 == 0
# (x c1 + y) % c2 with c1 | c2 and 0 <= y < c1
(x * c1 + y) % c2 -> (x % (c2 // c1)) * c1 + y if c1 > 0 and c2 > 0 and c2 % c1 == 0 and ge(y, 0) and lt(y, c1)
(y + x * c1) % c2 -> (x % (c2 // c1)) * c1 + y if c1 > 0 and c2 > 0 and c2 % c1 == 0 and ge(y, 0) and lt(y, c1)
(x * c1) % c2 -> (x * (c1 % c2)) % c2 if c2 > 0 and (c1 >= c2 or c1 < 0 and c1 % c2 <= -c1)
(x * c1 + y) % c2 -> (x * (c1 % c2) + y) % c2 if c2 > 0 and (c1 >= c2 or c1 < 0 and c1 % c2 <= -c1)
(y + x * c1) % c2 -> (y + x * (c1 % c2)) % c2 if c2 > 0 and (c1 >= c2 or c1 < 0 and c1 % c2 <= -c1)
(x + c1) % c2 -> x % c2 if c2 > 0 and c1 % c2 == 0
(x + c1) % c2 -> (x + c1 % c2) % c2 if c2 > 0 and not 0 <= c1 < c2
(x + y * c1 + z) % c2 -> (x + z) % c2 if c2 > 0 and c1 % c2 == 0
(x * c1 + y + z) % c2 -> (y + z) % c2 if c2 > 0 and c1 % c2 == 0
(x * c1 - y) % c2 -> (0 - y) % c2 if c2 > 0 and c1 % c2 == 0
(y - x * c1) % c2 -> y % c2 if c2 > 0 and c1 % c2 == 0
(x % c1) % c2 -> x % c2 if c1 != 0 and c2 > 0 and c1 % c2 == 0
(x % c1 + y) % c2 -> (x + y) % c2 if c1 != 0 and c2 > 0 and c1 % c2 == 0
(y + x % c1) % c2 -> (y + x) % c2 if c1 != 0 and c2 > 0 and c1 % c2 == 0
(x * c1) % (x * c2) -> x * (c1 % c2) if c2 != 0
# symbolic divisors
x % x -> 0
(x * y) % y -> 0
(y * x) % y -> 0
~ (x * y) % (x * z) -> x * (y % z)
~ (x + y) % x -> y % x
~ (x * z + y) % z -> y % z
(y - x * z) % z -> y % z
(y - z * x) % z -> y % z
"""

MIN = """
min(x, x) -> x  [ZWF]
min(x + c1, x + c2) -> x + min(c1, c2)
min(x + c1, x) -> x + min(c1, 0)
min(x, x + c1) -> x + min(c1, 0)
min(c1 - x, c2 - x) -> min(c1, c2) - x
# rounding up, then not below x
min(((x + c1) // c2) * c2, x) -> x if c2 > 0 and c1 + 1 == c2
min(x, ((x + c1) // c2) * c2) -> x if c2 > 0 and c1 + 1 == c2
~ min(((x + c1) // c2) * c2, max(x, c2)) -> max(x, c2) if c2 > 0 and c1 + 1 == c2 and ge(x, 1)
min((x // c1) * c1, x) -> (x // c1) * c1 if c1 > 0
min(x, (x // c1) * c1) -> (x // c1) * c1 if c1 > 0
# nested
min(max(x, y), min(x, y)) -> min(x, y)  [ZW]
min(max(y, x), min(x, y)) -> min(x, y)  [ZW]
min(min(x, y), max(x, y)) -> min(x, y)  [ZW]
min(min(x, y), max(y, x)) -> min(x, y)  [ZW]
~ min(max(x, y), x) -> x  [ZW]
min(min(x, y), x) -> min(x, y)  [ZW]
min(min(x, y), y) -> min(x, y)  [ZW]
min(x, min(x, y)) -> min(x, y)  [ZW]
min(y, min(x, y)) -> min(x, y)  [ZW]
min(min(x, c1), c2) -> min(x, min(c1, c2))  [ZW]
min(c1, min(x, c2)) -> min(x, min(c1, c2))  [ZW]
min(min(min(x, y), z), y) -> min(min(x, y), z)  [ZW]
~ min(max(x, y), max(x, z)) -> max(min(y, z), x)  [ZW]
~ min(min(x, y), min(x, z)) -> min(min(y, z), x)  [ZW]
min(y + x, z + x) -> min(y, z) + x
min(y + x, x + z) -> min(y, z) + x
min(x + y, z + x) -> min(y, z) + x
min(x + y, x + z) -> min(y, z) + x
~ min(y + x, x) -> min(y, 0) + x
min(x - y, x) -> x - max(y, 0)
min(x, x - y) -> x - max(0, y)
min(y - x, z - x) -> min(y, z) - x
min(x - y, x - z) -> x - max(y, z)
min(x // c1, y // c1) -> min(x, y) // c1 if c1 > 0
min(x // c1, y // c1) -> max(x, y) // c1 if c1 < 0
min(x * c1, y * c1) -> min(x, y) * c1 if c1 > 0
min(x * c1, y * c1) -> max(x, y) * c1 if c1 < 0
min(x * c1, c2) -> min(x, c2 // c1) * c1 if c1 > 0 and c2 % c1 == 0
min(x * c1, c2) -> max(x, c2 // c1) * c1 if c1 < 0 and c2 % c1 == 0
# canonicalization
min(min(x, c1), y) => min(min(x, y), c1)  [ZW]
min(x, min(y, c1)) => min(min(x, y), c1)  [ZW]
min(c1 - x, c2) => c1 - max(x, c1 - c2)
min(x + c1, c2) => min(x, c2 - c1) + c1
"""

CLAMP_MIN = """
# a clamp with its bounds in the wrong order is constant
min(max(x, c1), c2) -> c2 if c1 >= c2  [ZW]
"""

CLAMP_MAX = """
max(min(x, c1), c2) -> c2 if c1 <= c2  [ZW]
"""

EQ = """
x == x -> True  [ZW]
c1 == x => x == c1  [ZW]
x + c1 == c2 -> x == c2 - c1  [ZW]
x - c1 == c2 -> x == c2 + c1  [ZW]
c1 - x == c2 -> x == c1 - c2  [ZW]
x - y == 0 -> x == y  [ZW]
x * y == 0 => (x == 0) | (y == 0)
x + y == x + z -> y == z  [ZW]
y + x == x + z -> y == z  [ZW]
x + y == z + x -> y == z  [ZW]
y + x == z + x -> y == z  [ZW]
~ x + y == x -> y == 0  [ZW]
x - y == x - z -> y == z  [ZW]
x - y == x -> y == 0  [ZW]
x - y == z - y -> x == z  [ZW]
x * c1 == c2 -> x == c2 // c1 if c1 != 0 and c2 % c1 == 0
x * c1 == c2 -> False if c1 != 0 and c2 % c1 != 0
x * c1 == y * c1 -> x == y if c1 != 0
x * c1 == x -> x == 0 if c1 != 1
x == x * c1 -> x == 0 if c1 != 1
# an extreme that one operand attains
max(x, y) == x -> y <= x  [ZW]
max(y, x) == x -> y <= x  [ZW]
x == max(x, y) -> y <= x  [ZW]
x == max(y, x) -> y <= x  [ZW]
min(x, y) == x -> x <= y  [ZW]
min(y, x) == x -> x <= y  [ZW]
x == min(x, y) -> x <= y  [ZW]
x == min(y, x) -> x <= y  [ZW]
# quotients in one period, where bounds decide one of its ends
x // c1 == c2 -> x < (c2 + 1) * c1 if c1 > 0 and ge(x, c1 * c2)
x // c1 == c2 -> c1 * c2 <= x if c1 > 0 and lt(x, (c2 + 1) * c1)
truncdiv(x, c1) == c2 -> x < (c2 + 1) * c1 if c1 > 0 and c2 >= 0 and ge(x, c1 * c2)
truncdiv(x, c1) == c2 -> c1 * c2 <= x if c1 > 0 and c2 > 0 and lt(x, (c2 + 1) * c1)
"""

LT = """
x < x -> False  [ZWF]
# sums with common terms
x + y < x + z -> y < z
y + x < x + z -> y < z
x + y < z + x -> y < z
y + x < z + x -> y < z
y - x < z - x -> y < z
x - y < x - z -> z < y
~ x < x + z -> 0 < z
~ x + z < x -> z < 0
x < x - z -> z < 0
x - z < x -> 0 < z
x - y < 0 -> x < y
0 < x - y -> y < x
x - y < 1 -> x <= y
-1 < x - y -> y <= x
# common factors
x * c1 < y * c1 -> x < y if c1 > 0
x * c1 < y * c1 -> y < x if c1 < 0
# a multiple of c2 below or above a constant
c1 < x * c2 -> c1 // c2 < x if c2 > 0
x * c2 < c1 -> x < (c1 - 1) // c2 + 1 if c2 > 0
x * c2 < c1 -> (0 - c1) // (0 - c2) < x if c2 < 0
c1 < x * c2 -> x < (0 - c1 - 1) // (0 - c2) + 1 if c2 < 0
# x // c < c2 is x < c c2
x // c1 < c2 -> x < c1 * c2 if c1 > 0
c1 < x // c2 -> (c1 + 1) * c2 - 1 < x if c2 > 0
truncdiv(x, c1) < c2 -> x < c1 * c2 if c1 > 0 and c2 > 0
c1 < truncdiv(x, c2) -> (c1 + 1) * c2 - 1 < x if c1 >= 0 and c2 > 0
truncdiv(x, c1) < c2 -> x < (c2 - 1) * c1 + 1 if c1 > 0 and c2 <= 0
c1 < truncdiv(x, c2) -> c1 * c2 < x if c1 < 0 and c2 > 0
# rounding down compared with the number itself
(x // c1) * c1 < x -> 0 < x % c1 if c1 > 0
(x // c1) * c1 < x + y -> 0 < x % c1 + y if c1 > 0
(x // c1) * c1 < x - y -> y < x % c1 if c1 > 0
((x + c2) // c1) * c1 < x -> c2 < (x + c2) % c1 if c1 > 0
((x + c2) // c1) * c1 < x + y -> c2 < (x + c2) % c1 + y if c1 > 0
((x + c2) // c1) * c1 < x - y -> y < (x + c2) % c1 + (0 - c2) if c1 > 0
# canonicalization: min and max become connectives, constants go to one side
min(x, y) < z => (x < z) | (y < z)  [ZW]
max(x, y) < z => (x < z) & (y < z)  [ZW]
z < min(x, y) => (z < x) & (z < y)  [ZW]
z < max(x, y) => (z < x) | (z < y)  [ZW]
x + c1 < c2 => x < c2 - c1
x - c1 < c2 => x < c2 + c1
c1 < x - c2 => c1 + c2 < x
c1 < x + c2 => c1 - c2 < x
c1 < c2 - x => x < c2 - c1
c1 - x < c2 => c1 - c2 < x
c1 < (0 - x) - y => x + y < 0 - c1
(0 - x) - y < c1 => 0 - c1 < x + y
x < c1 - y => x + y < c1
c1 - y < x => c1 < x + y
x + c1 < y => x < y + (0 - c1) if c1 < 0
x < y + c1 => x + (0 - c1) < y if c1 < 0
x < y + 1 -> x <= y
"""

AND = """
# contradictions; what one side says already; x // c and x % c together say what x is
(x < y) & (y < x) -> False  [ZWF]
(x == y) & (x != y) -> False  [ZWF]
(x != y) & (x == y) -> False  [ZWF]
(x <= y) & (y < x) -> False  [ZWF]
(y < x) & (x <= y) -> False  [ZWF]
(c1 < x) & (x < c2) -> False if c2 <= c1 + 1  [ZW]
(x < c2) & (c1 < x) -> False if c2 <= c1 + 1  [ZW]
(c1 < x) & (x <= c2) -> False if c2 <= c1  [ZW]
(x <= c2) & (c1 < x) -> False if c2 <= c1  [ZW]
(c1 <= x) & (x < c2) -> False if c2 <= c1  [ZW]
(x < c2) & (c1 <= x) -> False if c2 <= c1  [ZW]
(c1 <= x) & (x <= c2) -> False if c2 < c1  [ZW]
(x <= c2) & (c1 <= x) -> False if c2 < c1  [ZW]
(x == c1) & (x != c2) -> x == c1 if c1 != c2  [ZW]
(x != c2) & (x == c1) -> x == c1 if c1 != c2  [ZW]
(x == c1) & (x == c2) -> False if c1 != c2  [ZW]
(x < c1) & (x < c2) -> x < min(c1, c2)  [ZW]
(x <= c1) & (x <= c2) -> x <= min(c1, c2)  [ZW]
(c1 < x) & (c2 < x) -> max(c1, c2) < x  [ZW]
(c1 <= x) & (c2 <= x) -> max(c1, c2) <= x  [ZW]
~ (x // c2 == c1) & (x % c2 == c3) -> x == c1 * c2 + c3 if c2 > 0 and 0 <= c3 < c2
x & x -> x  [B]
(x & y) & x -> x & y  [B]
(x & y) & y -> x & y  [B]
x & (x & y) -> x & y  [B]
y & (x & y) -> y & x  [B]
x & (y & z) => (x & y) & z  [B]
~ (x | y) & x -> x  [B]
"""

OR = """
# tautologies; what is in both sides of a choice comes outside
(x < y) | (y < x) -> x != y  [ZW]
(x == y) | (x != y) -> True  [ZWF]
(x != y) | (x == y) -> True  [ZWF]
(x <= y) | (y < x) -> True  [ZW]
(y < x) | (x <= y) -> True  [ZW]
(x < y) | (y <= x) -> True  [ZW]
(y <= x) | (x < y) -> True  [ZW]
(c1 < x) | (x < c2) -> True if c1 < c2  [ZW]
(x < c2) | (c1 < x) -> True if c1 < c2  [ZW]
(c1 <= x) | (x < c2) -> True if c1 <= c2  [ZW]
(x < c2) | (c1 <= x) -> True if c1 <= c2  [ZW]
(c1 < x) | (x <= c2) -> True if c1 <= c2  [ZW]
(x <= c2) | (c1 < x) -> True if c1 <= c2  [ZW]
(c1 <= x) | (x <= c2) -> True if c1 <= c2 + 1  [ZW]
(x <= c2) | (c1 <= x) -> True if c1 <= c2 + 1  [ZW]
(x != c1) | (x != c2) -> True if c1 != c2  [ZW]
(x != c1) | (x == c2) -> x != c1 if c1 != c2  [ZW]
(x == c2) | (x != c1) -> x != c1 if c1 != c2  [ZW]
(x < c1) | (x < c2) -> x < max(c1, c2)  [ZW]
(x <= c1) | (x <= c2) -> x <= max(c1, c2)  [ZW]
(c1 < x) | (c2 < x) -> min(c1, c2) < x  [ZW]
(c1 <= x) | (c2 <= x) -> min(c1, c2) <= x  [ZW]
~ (x < y) | (x == y) -> x <= y  [ZWF]
x | x -> x  [B]
(x | y) | x -> x | y  [B]
(x | y) | y -> x | y  [B]
x | (x | y) -> x | y  [B]
y | (x | y) -> y | x  [B]
x | (y | z) => (x | y) | z  [B]
(x & y) | (x & z) => x & (y | z)  [B]
(x & y) | (z & x) => x & (y | z)  [B]
(y & x) | (x & z) => x & (y | z)  [B]
~ (x & y) | x -> x  [B]
"""

MAX = """
max(x, x) -> x  [ZWF]
max(x + c1, x + c2) -> x + max(c1, c2)
max(x + c1, x) -> x + max(c1, 0)
max(x, x + c1) -> x + max(c1, 0)
max(c1 - x, c2 - x) -> max(c1, c2) - x
# rounding up is at least x
max(((x + c1) // c2) * c2, x) -> ((x + c1) // c2) * c2 if c2 > 0 and c1 + 1 == c2
max(x, ((x + c1) // c2) * c2) -> ((x + c1) // c2) * c2 if c2 > 0 and c1 + 1 == c2
max((x // c1) * c1, x) -> x if c1 > 0
max(x, (x // c1) * c1) -> x if c1 > 0
# nested
max(min(x, y), max(x, y)) -> max(x, y)  [ZW]
max(min(y, x), max(x, y)) -> max(x, y)  [ZW]
max(max(x, y), min(x, y)) -> max(x, y)  [ZW]
max(max(x, y), min(y, x)) -> max(x, y)  [ZW]
~ max(min(x, y), x) -> x  [ZW]
max(max(x, y), x) -> max(x, y)  [ZW]
max(max(x, y), y) -> max(x, y)  [ZW]
max(x, max(x, y)) -> max(x, y)  [ZW]
max(y, max(x, y)) -> max(x, y)  [ZW]
max(max(x, c1), c2) -> max(x, max(c1, c2))  [ZW]
max(c1, max(x, c2)) -> max(x, max(c1, c2))  [ZW]
max(max(max(x, y), z), y) -> max(max(x, y), z)  [ZW]
~ max(min(x, y), min(x, z)) -> min(max(y, z), x)  [ZW]
~ max(max(x, y), max(x, z)) -> max(max(y, z), x)  [ZW]
max(y + x, z + x) -> max(y, z) + x
max(y + x, x + z) -> max(y, z) + x
max(x + y, z + x) -> max(y, z) + x
max(x + y, x + z) -> max(y, z) + x
~ max(y + x, x) -> max(y, 0) + x
max(x - y, x) -> x - min(y, 0)
max(x, x - y) -> x - min(0, y)
max(y - x, z - x) -> max(y, z) - x
max(x - y, x - z) -> x - min(y, z)
max(x // c1, y // c1) -> max(x, y) // c1 if c1 > 0
max(x // c1, y // c1) -> min(x, y) // c1 if c1 < 0
max(x * c1, y * c1) -> max(x, y) * c1 if c1 > 0
max(x * c1, y * c1) -> min(x, y) * c1 if c1 < 0
max(x * c1, c2) -> max(x, c2 // c1) * c1 if c1 > 0 and c2 % c1 == 0
max(x * c1, c2) -> min(x, c2 // c1) * c1 if c1 < 0 and c2 % c1 == 0
# canonicalization
max(max(x, c1), y) => max(max(x, y), c1)  [ZW]
max(x, max(y, c1)) => max(max(x, y), c1)  [ZW]
max(c1 - x, c2) => c1 - min(x, c1 - c2)
max(x + c1, c2) => max(x, c2 - c1) + c1
"""

RULES = {
    "Add": ADD,
    "Sub": SUB,
    "Mul": MUL,
    "Div": TRUNCDIV,
    "Mod": TRUNCMOD,
    "FloorDiv": FLOORDIV,
    "FloorMod": FLOORMOD,
    "Min": MIN + CLAMP_MIN,
    "Max": MAX + CLAMP_MAX,
    "EQ": EQ,
    "LT": LT,
    "And": AND,
    "Or": OR,
}
"""The rules of each operator."""

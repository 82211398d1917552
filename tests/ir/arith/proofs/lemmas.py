"""What the code of ir.arith relies on where it is no table of rules, in the notation of the tables: by module and function.

A quantity that code takes from bounds or modular sets is a condition here; constants are positive where the code says so.
"""

from __future__ import annotations

CANONICAL_DIVISION = """
# _floordiv, _floormod: terms that the divisor divides come out; the rest is bounded by one period
(x * c1 + y) // c1 -> x + y // c1 if c1 > 0
(x * c1 + y) % c1 -> y % c1 if c1 > 0
x // c1 -> c2 if c1 > 0 and ge(x, c1 * c2) and lt(x, c1 * c2 + c1)
x % c1 -> x - c1 * c2 if c1 > 0 and ge(x, c1 * c2) and lt(x, c1 * c2 + c1)
(x + c1) % c2 -> (x + c1 % c2) % c2 if c2 > 0
# _by_carry
(x * c1 + y) // c2 -> x // (c2 // c1) if c1 > 0 and c2 > 0 and c2 % c1 == 0 and ge(y, 0) and lt(y, c1)
# _split_remainder
(x * c1) % (c1 * c2) -> (x % c2) * c1 if c1 > 0 and c2 > 0
(x * c1 + y) % c2 -> (x * c1) % c2 + y if c1 > 0 and c2 > 0 and c2 % c1 == 0 and ge(y, 0) and lt(y, c1)
# _split_div
(x * c1) // (c1 * c2) -> x // c2 if c1 > 0 and c2 > 0
(x // c1) // c2 -> x // (c1 * c2) if c1 > 0 and c2 > 0
((x % c1) // c2) // c3 -> (x % c1) // (c2 * c3) if c1 > 0 and c2 > 0 and c3 > 0
(x % c1) // c2 -> 0 if c1 > 0 and c2 >= c1
# _split_mod
(x // c1) % c2 -> (x % (c1 * c2)) // c1 if c1 > 0 and c2 > 0
(x % c1) % c2 -> x % c2 if c1 > 0 and c2 > 0 and c1 % c2 == 0
(x % c1) % c2 -> x % c1 if c1 > 0 and c2 > 0 and c2 % c1 == 0
# _truncdiv, _truncmod
truncdiv(x * c1 + y, c1) -> x + truncdiv(y, c1) if c1 > 0 and ge(x, 0) and ge(y, 0)
truncmod(x * c1 + y, c1) -> truncmod(y, c1) if c1 > 0 and ge(x, 0) and ge(y, 0)
truncdiv(x, c1) -> 0 if c1 > 0 and ge(x, 1 - c1) and lt(x, c1)
truncmod(x, c1) -> x if c1 > 0 and ge(x, 1 - c1) and lt(x, c1)
truncdiv(x * c1, c1 * c2) -> truncdiv(x, c2) if c1 > 0 and c2 > 0
truncdiv(truncdiv(x, c1), c2) -> truncdiv(x, c1 * c2) if c1 > 0 and c2 > 0
truncdiv(truncmod(x, c1), c2) -> 0 if c1 > 0 and c2 >= c1
truncmod(truncdiv(x, c1), c2) -> truncdiv(truncmod(x, c1 * c2), c1) if c1 > 0 and c2 > 0
truncmod(truncmod(x, c1), c2) -> truncmod(x, c2) if c1 > 0 and c2 > 0 and c1 % c2 == 0
truncmod(x * c1, c1 * c2) -> truncmod(x, c2) * c1 if c1 > 0 and c2 > 0
# _symbolic_division, _symbolic_remainder
(x * y + z) // y -> x if ge(z, 0) and lt(z - y, 0)
(x * y + z) % y -> z if ge(z, 0) and lt(z - y, 0)
"""

CANONICAL_FORM = """
# recombined: neighbours of one index
(x // c1) * c1 + ((x % c1) // c2) * c2 -> (x // c2) * c2 if c1 > 0 and c2 > 0 and c1 % c2 == 0
truncdiv(x, c1) * c1 + truncmod(x, c1) -> x if c1 > 0
"""

CANONICAL_SIMPLIFY = """
# _reduced: a sum that is negative for the same values
x * c1 + c2 < 0 -> x + c2 // c1 < 0 if c1 > 0
x * c1 + y + c2 < 0 -> x + c2 // c1 < 0 if c1 > 0 and ge(y + c2 % c1, 0) and lt(y + c2 % c1, c1)
x * c1 + y < 0 -> x + y // c1 < 0 if c1 > 0
# _comparison
x * c1 + c2 == 0 -> x == (0 - c2) // c1 if c1 != 0 and c2 % c1 == 0
x * c1 + c2 == 0 -> False if c1 != 0 and c2 % c1 != 0
x == y -> x - y == 0  [ZW]
"""

INDEX_SIMPLIFIER = """
# floordiv, floormod beside what canonical division relies on
(x % c1) // c2 -> (x // c2) % (c1 // c2) if c1 > 0 and c2 > 0 and c1 % c2 == 0
(x * c1 + y) % c2 -> (x * (c1 % c2) + y) % c2 if c2 > 0
# recombine
((x * c1 + y) // c1) * (c1 * c2) + (y % c1) * c2 -> (x * c1 + y) * c2 if c1 > 0
# _from_div, _from_mod; LowerFloorDiv
truncdiv(x, c1) -> x // c1 if c1 > 0 and ge(x, 0)
truncmod(x, c1) -> x % c1 if c1 > 0 and ge(x, 0)
x // y -> truncdiv(x, y) if ge(x, 0) and ge(y, 0)  [ZW]
x % y -> truncmod(x, y) if ge(x, 0) and ge(y, 0)  [ZW]
# _from_extreme
min(x, y) -> x if ge(y - x, 0)
max(x, y) -> y if ge(y - x, 0)
"""

REWRITE_SIMPLIFY = """
# compare: all comparisons by way of == and <
x > y -> y < x  [ZWF]
x >= y -> y <= x  [ZWF]
x <= y -> ~(y < x)  [ZW]
x >= y -> ~(x < y)  [ZW]
x != y -> ~(x == y)  [ZWF]
# _not_equal
x != c1 -> c1 < x if ge(x, c1)  [ZW]
x != c1 -> x < c1 if lt(x, c1 + 1)  [ZW]
# negate
(~(x < y)) -> y <= x  [ZW]
(~(x <= y)) -> y < x  [ZW]
(~(x > y)) -> x <= y  [ZW]
(~(x >= y)) -> x < y  [ZW]
(~(x == y)) -> x != y  [ZWF]
(~(x != y)) -> x == y  [ZWF]
(~(x & y)) -> ~x | ~y  [B]
(~(x | y)) -> ~x & ~y  [B]
(~~x) -> x  [B]
"""

SOLVING = """
# bound_deducer, constraint_scope: what is left of a condition on one side
x + y <= z -> x <= z - y
x - y <= z -> x <= z + y
y - x <= z -> y - z <= x
x * c1 <= y -> x <= y // c1 if c1 > 0
y <= x * c1 -> (y + (c1 - 1)) // c1 <= x if c1 > 0
x * c1 <= y -> (0 - y + (0 - c1 - 1)) // (0 - c1) <= x if c1 < 0
x // c1 <= y -> x <= y * c1 + (c1 - 1) if c1 > 0
y <= x // c1 -> y * c1 <= x if c1 > 0
"""

LEMMAS: dict[str, str] = {
    "canonical_division": CANONICAL_DIVISION,
    "canonical_form": CANONICAL_FORM,
    "canonical_simplify": CANONICAL_SIMPLIFY,
    "index_simplifier": INDEX_SIMPLIFIER,
    "rewrite_simplify": REWRITE_SIMPLIFY,
    "bound_deducer": SOLVING,
}
"""By the module that relies on them."""

"""Survivors that no test should kill, by id, and why. ``run.py --show`` lists them.

An equivalent mutant changes nothing that can be observed: it is left out of the score. A hint changes how fast something is, or how
it is worded, and nothing else: it counts as survived.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {
    "3054eb389af1": "where no term is a sum, all are added to an empty sum again, which gives the same sum",
    "e71ce0c3b3f2": "whether two scales are equal does not depend on their order",
    "d633a805f35d": "is_const asks the same of all its arguments",
    "6b6d07e4ca89": "the product of two numbers does not depend on their order, in floating point either",
    "84aa605cabe6": "the union of a box with itself is the box",
}

HINTS: dict[str, str] = {
    "ebdd5643a7ed": "from which size on the reference is reordered; it computes the same",
    "3cdb13b14162": "how long the unscheduled program may take",
    "69160d432763": "which loop of the reference is innermost where extents are symbolic; it computes the same",
    "3c83fe0b895e": "rounds of a trial run whose times are thrown away",
    "d086fc374c7f": "the pause before a measurement that nobody asked for",
    "aa3faca4fffb": "blocks of a GPU's grid at most",
    "00c2f1bc0dde": "the size of a cache where the system does not say it",
    "75878147e115": "how many similar names an error suggests",
    "d207029f3a5a": "how long a prefetched line should stay",
    "6bac81cc010f": "the caret under an empty piece of a line",
    "9f3b833ab176": "trials where nobody says how many",
    "87be73dd3805": "the share of measured candidates in a population",
    "1d4c9640a9e5": "rows per block of a matrix product",
    "00740d781854": "how bad a candidate may be before training stops caring",
    "44330efc4441": "instructions around a body in the analytical estimate",
    "91bdfce544ab": "how much arithmetic counts as cheap",
}

"""A case for every operator, by family: what calls it, on which inputs, which axes may be symbolic.

A new operator is one line in the file of its family.
"""

from . import elementwise, manipulation, network, reduction, special
from .case import BOTH, CASES, ROWS, Case, bools, floats, ints

__all__ = [
    "BOTH",
    "CASES",
    "ROWS",
    "Case",
    "bools",
    "elementwise",
    "floats",
    "ints",
    "manipulation",
    "network",
    "reduction",
    "special",
]

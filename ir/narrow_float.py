"""Facts of floats of at most 16 bits: how a code is made of a sign, an exponent and digits, and what stands for what it does not hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NarrowFloat:
    """The bits of a narrow float: a sign, an exponent, and digits behind the leading one."""

    bits: int
    digits: int
    bias: int
    largest: int
    """The code of the largest number."""
    beyond: int
    """The code of what is larger: infinity, NaN where there is none, the largest number where there is neither."""
    nan: int
    """The code of NaN; that of 0 where there is none."""

    @property
    def stored_bits(self) -> int:
        """The width of what holds a code: bytes at least, whose upper bits mean nothing."""
        return max(self.bits, 8)

    @property
    def has_one_zero(self) -> bool:
        """Whether the code of -0 is NaN."""
        return self.nan == 1 << (self.bits - 1)


NARROW_FLOATS = {
    "float16": NarrowFloat(16, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "float8_e3m4": NarrowFloat(8, 4, 3, 0x6F, 0x70, 0x78),
    "float8_e4m3": NarrowFloat(8, 3, 7, 0x77, 0x78, 0x7C),
    "float8_e4m3fn": NarrowFloat(8, 3, 7, 0x7E, 0x7F, 0x7F),
    "float8_e5m2": NarrowFloat(8, 2, 15, 0x7B, 0x7C, 0x7E),
    "float8_e4m3fnuz": NarrowFloat(8, 3, 8, 0x7F, 0x80, 0x80),
    "float8_e4m3b11fnuz": NarrowFloat(8, 3, 11, 0x7F, 0x80, 0x80),
    "float8_e5m2fnuz": NarrowFloat(8, 2, 16, 0x7F, 0x80, 0x80),
    "float6_e2m3fn": NarrowFloat(6, 3, 1, 0x1F, 0x1F, 0),
    "float6_e3m2fn": NarrowFloat(6, 2, 3, 0x1F, 0x1F, 0),
    "float4_e2m1fn": NarrowFloat(4, 1, 1, 0x7, 0x7, 0),
}
"""By the dtype of an element."""

POWERS_OF_TWO = "float8_e8m0fnu"
"""An exponent and nothing else: the powers of two from 2^-127 to 2^127, and NaN."""

FLOAT8 = frozenset(name for name in NARROW_FLOATS if name.startswith("float8")) | {POWERS_OF_TWO}
"""The dtypes of floats of 8 bits."""

"""Squares of vectors that are turned in registers: how large, by what a machine has."""

from __future__ import annotations


def square_side(bits: int, vector_bits: int, vector_registers: int) -> int:
    """Vectors of a square, and elements of each: a power of two, of which half of the registers hold all; 1 where there is none.

    >>> square_side(32, 512, 32), square_side(8, 512, 32), square_side(64, 192, 16)
    (16, 16, 2)

    Args:
        bits: of an element; of those that are not whole bytes there are no squares.
        vector_bits: of a register.
        vector_registers: how many there are.
    """
    if bits % 8:
        return 1
    most = max(1, min(vector_bits // bits, vector_registers // 2))
    return 1 << (most.bit_length() - 1)

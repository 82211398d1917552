"""The primes of which a loop's extent is made."""

from __future__ import annotations


def prime_factors(number: int) -> list[int]:
    """The different ones, the smallest first.

    >>> prime_factors(360), prime_factors(97), prime_factors(1)
    ([2, 3, 5], [97], [])
    """
    found, divisor = [], 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            found.append(divisor)
            while number % divisor == 0:
                number //= divisor
        divisor += 1
    return [*found, number] if number > 1 else found

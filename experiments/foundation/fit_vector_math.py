"""Fits the polynomial coefficients that ``ir/codegen/llvm/elementary.py`` uses.

Each function is interpolated at Chebyshev nodes in high precision, which is within a small factor of the minimax
polynomial, and the coefficients are rounded to float32; exp's and erf's, whose errors do not matter alike everywhere, are
fitted with weights.  Prints the tables and the relative error of each fit before rounding.  Needs mpmath:
python experiments/foundation/fit_vector_math.py
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def fit(f: Callable[[mp.mpf], mp.mpf], low: float, high: float, degree: int) -> list[mp.mpf]:
    """Coefficients, lowest power first, of the interpolant of ``f`` at the Chebyshev nodes of [low, high]."""
    n = degree + 1
    a, b = mp.mpf(low), mp.mpf(high)
    nodes = [(a + b) / 2 + (b - a) / 2 * mp.cos((2 * k + 1) * mp.pi / (2 * n)) for k in range(n)]
    matrix = mp.matrix(n, n)
    right = mp.matrix(n, 1)
    for i, x in enumerate(nodes):
        for j in range(n):
            matrix[i, j] = x**j
        right[i] = f(x)
    return list(mp.lu_solve(matrix, right))


def fit_weighted(
    f: Callable[[mp.mpf], mp.mpf], weight: Callable[[mp.mpf], mp.mpf], low: float, high: float, degree: int
) -> list[mp.mpf]:
    """Coefficients of a polynomial on [low, high] whose greatest weighted error is about the least possible.

    (Iterated weighted least squares: Lawson, "Contributions to the Theory of Linear Least Maximum Approximation", 1961.)
    """
    angles = (np.arange(2000) + 0.5) / 2000 * np.pi
    points = low + (high - low) * (1 - np.cos(angles)) / 2
    values, weights = (np.array([float(g(mp.mpf(x))) for x in points]) for g in (f, weight))
    basis = np.polynomial.chebyshev.chebvander(2 * (points - low) / (high - low) - 1, degree)
    shares, best, found = np.ones(len(points)), np.inf, np.zeros(degree + 1)
    for _ in range(400):
        root = np.sqrt(shares) * weights
        series = np.linalg.lstsq(basis * root[:, None], values * root, rcond=None)[0]
        errors = np.abs(basis @ series - values) * weights
        if errors.max() < best:
            best, found = errors.max(), series
        shares = shares * (errors + 1e-3 * errors.max())
        shares /= shares.sum()
    power = np.polynomial.Chebyshev(found, domain=[low, high]).convert(kind=np.polynomial.Polynomial)
    return [mp.mpf(c) for c in power.coef]


def show(
    name: str,
    coefficients: list[mp.mpf],
    whole: Callable[[mp.mpf, list[mp.mpf]], mp.mpf],
    exact: Callable[[mp.mpf], mp.mpf],
    low: float,
    high: float,
) -> None:
    """Prints one table and the largest relative error of the whole approximation."""
    rounded = [mp.mpf(float(np.float32(float(c)))) for c in coefficients]
    grid = [mp.mpf(low) + (mp.mpf(high) - mp.mpf(low)) * (k + mp.mpf(1) / 3) / 200 for k in range(200)]
    worst = [max(abs(whole(x, cs) / exact(x) - 1) for x in grid) for cs in (coefficients, rounded)]
    print(f"{name} = ({', '.join(repr(float(c)) for c in coefficients)})")
    print(f"#   relative error {float(worst[0]):.2e}, rounded {float(worst[1]):.2e} (half an ulp is 6.0e-08)")


def poly(cs: list[mp.mpf], x: mp.mpf) -> mp.mpf:
    """Horner's scheme."""
    return mp.polyval(cs[::-1], x)


def main() -> None:
    """Prints all tables."""
    tiny = mp.mpf("1e-25")

    def near(x: mp.mpf) -> mp.mpf:
        return x if abs(x) > tiny else tiny

    # relative to exp(x) - 1, which expm1, tanh and erf make of it
    c = fit_weighted(
        lambda x: (mp.expm1(x) - x) / x**2, lambda x: x * x / abs(mp.expm1(x)), -0.3475, 0.3475, 4
    )
    show("_EXP", c, lambda x, p: x + x * x * poly(p, x), mp.expm1, -0.3475, 0.3475)
    c = fit(lambda x: (mp.mpf(2) ** near(x) - 1) / near(x), -0.5, 0.5, 6)
    show("_EXP2", c, lambda x, p: 1 + x * poly(p, x), lambda x: mp.mpf(2) ** x, -0.5, 0.5)
    c = fit(lambda x: (mp.log1p(near(x)) - near(x) + near(x) ** 2 / 2) / near(x) ** 3, -0.3334, 0.3334, 8)
    show("_LOG", c, lambda x, p: x - x * x / 2 + x**3 * poly(p, x), mp.log1p, -0.3334, 0.3334)
    q = float(mp.pi / 4) + 0.001
    c = fit(lambda z: (mp.sin(mp.sqrt(near(z))) / mp.sqrt(near(z)) - 1) / near(z), 0, q * q, 3)
    show("_SIN", c, lambda x, p: x + x**3 * poly(p, x * x), mp.sin, 0.001, q)
    c = fit(lambda z: (mp.cos(mp.sqrt(near(z))) - 1 + near(z) / 2) / near(z) ** 2, 0, q * q, 3)
    show("_COS", c, lambda x, p: 1 - x * x / 2 + x**4 * poly(p, x * x), mp.cos, 0, q)
    c = fit(lambda z: (mp.atan(mp.sqrt(near(z))) / mp.sqrt(near(z)) - 1) / near(z), 0, 1, 9)
    show("_ATAN", c, lambda x, p: x + x**3 * poly(p, x * x), mp.atan, 0.001, 1)
    c = fit(lambda z: (mp.asin(mp.sqrt(near(z))) / mp.sqrt(near(z)) - 1) / near(z), 0, 0.2501, 5)
    show("_ASIN", c, lambda x, p: x + x**3 * poly(p, x * x), mp.asin, 0.001, 0.5)
    # erf(x) = 1 - exp(-p), p = -log(erfc(x)); of an error of p, exp(-p) / erf(x) arrives in the result
    c = fit_weighted(lambda x: -mp.log(mp.erfc(x)) / x, lambda x: x * mp.erfc(x) / mp.erf(x), 1e-9, 4.0, 8)
    c = [
        (c[k] - (k == 0)) * (-1) ** k for k in range(len(c))
    ]  # as a polynomial of -x, whose 1 is added exactly
    show("_ERF", c, lambda x, p: -mp.expm1(-x - x * poly(p, -x)), mp.erf, 0.001, 4.0)
    c = fit(lambda z: (mp.sinh(mp.sqrt(near(z))) / mp.sqrt(near(z)) - 1) / near(z), 0, 1, 3)
    show("_SINH", c, lambda x, p: x + x**3 * poly(p, x * x), mp.sinh, 0.001, 1)


if __name__ == "__main__":
    main()

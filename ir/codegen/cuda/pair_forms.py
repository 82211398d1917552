"""Two neighbours of a narrow float in one value, as CUDA C++ has them: names of the types, and of what makes and takes them apart."""

from __future__ import annotations

from dataclasses import dataclass

from ... import dtype as dt


@dataclass(frozen=True)
class PairForms:
    """The names that belong to one dtype."""

    type: str
    of_floats: str
    """The function that rounds two numbers of float32: one instruction for both."""
    to_floats: str
    """The function that makes a ``float2`` of a pair."""
    of_values: str
    """The function that joins two values as they lie in memory."""
    low: str
    high: str
    """The functions that take them apart."""
    functions: tuple[str, ...] = ()
    """Those of :mod:`.device_functions` among these names."""


def _half(name: str, type_: str) -> PairForms:
    return PairForms(
        type=type_,
        of_floats=f"__floats2{name}2_rn",
        to_floats=f"__{name}22float2",
        of_values=f"__halves2{name}2",
        low=f"__low2{name}",
        high=f"__high2{name}",
    )


def _float8(dtype: str, kind: str) -> PairForms:
    one, two = f"__nv_fp8_{kind}", f"__nv_fp8x2_{kind}"
    return PairForms(
        type=two,
        of_floats=f"to_{dtype}_pair",
        to_floats="(float2)",
        of_values=f"float8_pair<{two}, {one}>",
        low=f"float8_low<{one}>",
        high=f"float8_high<{one}>",
        functions=(f"to_{dtype}_pair", "float8_pairs"),
    )


PAIRS = {
    "float16": _half("half", "half2"),
    "bfloat16": _half("bfloat16", "__nv_bfloat162"),
    "float8_e4m3fn": _float8("float8_e4m3fn", "e4m3"),
    "float8_e5m2": _float8("float8_e5m2", "e5m2"),
}


def pair_forms(dtype: str) -> PairForms | None:
    """The forms of a vector whose lanes are pairs; None where CUDA has none, or they are of an odd number."""
    lanes = dt.lanes(dtype)
    return PAIRS.get(dt.element_of(dtype)) if lanes > 1 and lanes % 2 == 0 else None

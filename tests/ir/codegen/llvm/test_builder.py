"""Texts of constants."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from ir.codegen.llvm.builder import float_literal


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.5, -65504.0, 65519.0, 65520.0, -1e6, 1e300, math.inf, -math.inf, 0.1]
)
def test_constants_are_rounded_to_their_dtype(value: float) -> None:
    with np.errstate(over="ignore"):
        half, single = np.float16(value), np.float32(value)
    assert float_literal(value, "half") == f"0xH{int(half.view(np.uint16)):04X}"
    assert (
        float_literal(value, "float") == f"0x{struct.unpack('<Q', struct.pack('<d', float(single)))[0]:016X}"
    )
    assert float_literal(value, "double") == f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def test_what_is_not_a_number_stays_that() -> None:
    assert float_literal(math.nan, "half") in ("0xH7E00", "0xHFE00")
    assert float_literal(math.nan, "float") == float_literal(math.nan, "double")

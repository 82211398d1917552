"""Numbers and dtypes as native code has them."""

from __future__ import annotations

import struct

import pytest

from ir.codegen.dynamic.values import NotCallableError, dtype_number, literal


@pytest.mark.parametrize(("value", "kind"), [(0.1, "float"), (0.1, "double"), (-1e-45, "float")])
def test_a_float_is_written_with_the_bits_of_its_type(value: float, kind: str) -> None:
    """LLVM writes a float as the double of the same value, and takes no other digits."""
    expected = struct.unpack("<f", struct.pack("<f", value))[0] if kind == "float" else value
    text = literal(value, kind)
    assert struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0] == expected
    assert literal(7.0, "i64") == "7"


def test_what_is_beyond_a_type_is_infinite() -> None:
    assert [literal(value, "float") for value in (1e39, -1e39)] == [
        literal(value, "float") for value in (float("inf"), float("-inf"))
    ]


def test_dtypes_without_a_form_in_c_are_refused() -> None:
    with pytest.raises(NotCallableError, match="tensors of int4 have no form in C"):
        dtype_number("int4")

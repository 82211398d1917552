"""Containers: what goes in comes out, and bytes that are none are refused whatever was changed."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.codegen.container import MAGIC, ContainerError, pack, unpack

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), plain, max_size=4), st.lists(st.binary(max_size=40), max_size=4))
def test_what_goes_in_comes_out(described, sections) -> None:
    assert unpack(pack(described, sections)) == (described, sections)


def test_numbers_that_json_has_not_are_refused() -> None:
    with pytest.raises(ValueError):
        pack({"secs": float("nan")}, [])


WHOLE = pack({"name": "main", "sizes": [1, 2]}, [b"machine code", b"", b"text"])


def test_no_byte_can_be_changed() -> None:
    for place in range(len(WHOLE)):
        changed = bytearray(WHOLE)
        changed[place] ^= 0x40
        with pytest.raises(ContainerError):
            unpack(bytes(changed))


def test_no_end_can_be_missing() -> None:
    for size in range(len(WHOLE)):
        with pytest.raises(ContainerError):
            unpack(WHOLE[:size])


def _signed(header: object, rest: bytes = b"", size: int | None = None) -> bytes:
    """Bytes of which the digest is right, and the header is whatever somebody made of it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = MAGIC + np.int64(len(text) if size is None else size).tobytes() + text + rest
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    "data",
    [
        _signed({}),
        _signed([1]),
        _signed(b"\xff\xfe"),
        _signed(b"[" * 100_000),
        _signed({"described": {}, "sizes": [5]}, b"four"),
        _signed({"described": {}, "sizes": [-4, 8]}, b"four"),
        _signed({"described": {}, "sizes": "abc"}),
        _signed({"described": {}, "sizes": [1.5]}),
        _signed({"described": {}, "sizes": [1 << 80]}),
        _signed({"described": [], "sizes": []}),
        _signed({"described": {}, "sizes": []}, size=-1),
        _signed({"described": {}, "sizes": []}, size=1 << 62),
        MAGIC + hashlib.sha256(MAGIC).digest(),
    ],
)
def test_headers_of_an_enemy_are_errors(data: bytes) -> None:
    with pytest.raises(ContainerError):
        unpack(data)


def test_another_format_is_named() -> None:
    with pytest.raises(ContainerError, match="format b'9'.*build it again"):
        unpack(MAGIC[:-1] + b"9" + WHOLE[len(MAGIC) :])
    with pytest.raises(ContainerError, match="no built kernel of loopsmith"):
        unpack(b"\x7fELF")

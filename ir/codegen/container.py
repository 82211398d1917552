"""Bytes that hold a description and some sections, as built kernels are kept and sent: nothing in them is run when they are read.

The layout: 8 bytes of magic, the description's size as an int64 (little-endian), the description in JSON with the sizes of the sections
in it, the sections one behind the other, and the SHA-256 of all before it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from .error import CodegenError

MAGIC = b"loopsmK1"
"""How the bytes begin; the last one counts formats."""
_SIZE = struct.Struct("<q")
_DIGEST_BYTES = hashlib.sha256().digest_size


class ContainerError(CodegenError):
    """Bytes are no container, or a damaged one."""


def pack(described: Mapping[str, Any], sections: Sequence[bytes]) -> bytes:
    """One container.

    Args:
        described: plain data, as JSON has it.
        sections: of any content.

    >>> unpack(pack({"name": "main"}, [b"code", b""]))
    ({'name': 'main'}, [b'code', b''])
    """
    header = {"described": described, "sizes": [len(section) for section in sections]}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    body = b"".join([MAGIC, _SIZE.pack(len(text)), text, *sections])
    return body + hashlib.sha256(body).digest()


def unpack(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The description and the sections of a container.

    Raises:
        ContainerError: the bytes are something else, of another format, cut short, or changed.
    """
    if data[: len(MAGIC) - 1] != MAGIC[:-1]:
        raise ContainerError("these bytes are no built kernel of loopsmith")
    if data[: len(MAGIC)] != MAGIC:
        raise ContainerError(
            f"the kernel has format {data[len(MAGIC) - 1 : len(MAGIC)]!r}, and this version reads {MAGIC[-1:]!r}; build it again"
        )
    body = data[:-_DIGEST_BYTES]
    if hashlib.sha256(body).digest() != data[-_DIGEST_BYTES:]:
        raise ContainerError(f"the kernel's {len(data)} bytes were cut short or changed; build it again")
    try:
        begin = len(MAGIC) + _SIZE.size
        (size,) = _SIZE.unpack_from(body, len(MAGIC))
        header = json.loads(body[begin : begin + size])
        described, sizes = header["described"], header["sizes"]
        ends = [begin + size]
        for length in sizes:
            ends.append(ends[-1] + length)
        if size < 0 or min(sizes, default=0) < 0 or ends[-1] != len(body) or not isinstance(described, dict):
            raise ValueError("sizes do not add up")
    except (ValueError, KeyError, TypeError, struct.error, RecursionError) as error:
        raise ContainerError(f"the kernel's description cannot be read: {error}") from error
    return described, [body[start:end] for start, end in pairwise(ends)]

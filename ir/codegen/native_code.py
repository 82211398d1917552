"""Native modules as bytes, for another process or another machine: machine code and a description, see :mod:`.container`."""

from __future__ import annotations

import zlib
from collections.abc import Container, Mapping
from dataclasses import asdict
from typing import Any

from .build import NativeModule
from .container import ContainerError, pack, unpack
from .error import CodegenError
from .llvm.compile import MachineOptions
from .llvm.extent import Extent, is_extent
from .llvm.kernel_context import PackedSite
from .llvm.signature import Parameter, Signature

KIND = "native"
_MOST_TEXT = 1 << 28
"""Bytes of generated assembly that are read back at most: what is compressed may say anything about its size."""


def packed_native(module: NativeModule, provided: Container[str] = ()) -> bytes:
    """A module as bytes.

    Args:
        module: what is packed.
        provided: names of Python functions that whoever unpacks it gives it as ``own_functions``.

    Raises:
        CodegenError: its code calls other Python functions, which stay in this process.
    """
    needed = sorted({site.function for site in module.packed_sites if site.function not in provided})
    if needed:
        raise CodegenError(
            f"the code calls the Python functions {', '.join(needed)}, which another process does not have; replace these calls"
        )
    described = {
        "kind": KIND,
        "signatures": [asdict(item) for item in module.signatures.values()],
        "packed_sites": [asdict(item) for item in module.packed_sites],
        "options": asdict(module.options),
        "externals": list(module.externals),
        "scalar_loops": module.scalar_loops,
        "scratch_bytes": module.scratch_bytes,
    }
    return pack(described, [module.code, zlib.compress(module.llvm_ir.encode(), 1)])


def unpacked_native(data: bytes) -> NativeModule:
    """The module that :func:`packed_native` was given; its code is loaded when it is first called.

    Raises:
        ContainerError: the bytes are something else.
    """
    described, sections = unpack(data)
    try:
        if described["kind"] != KIND:
            raise ValueError(f"they hold code of the kind {described['kind']!r}")
        code, text = sections
        signatures = [_signature(item) for item in described["signatures"]]
        module = NativeModule(
            code,
            {item.name: item for item in signatures},
            [_site(item) for item in described["packed_sites"]],
            MachineOptions(**described["options"]),
            _decompressed(text),
            bool(described["scalar_loops"]),
            [str(item) for item in described["externals"]],
        )
        scratch = described["scratch_bytes"]
        module.scratch_bytes = None if scratch is None else int(scratch)
    except (ValueError, KeyError, TypeError, zlib.error, RecursionError) as error:
        raise ContainerError(f"the bytes are no native module: {error}") from error
    return module


def _decompressed(data: bytes) -> str:
    reader = zlib.decompressobj()
    text = reader.decompress(data, _MOST_TEXT)
    if not reader.eof:
        raise ValueError("the generated assembly is cut short, or too long")
    return text.decode()


def _site(item: Mapping[str, Any]) -> PackedSite:
    arguments = [(str(kind), str(dtype), int(count)) for kind, dtype, count in item["arguments"]]
    return PackedSite(str(item["function"]), arguments)


def _signature(item: Mapping[str, Any]) -> Signature:
    parameters = tuple(_parameter(entry) for entry in item["parameters"])
    return Signature(str(item["name"]), parameters, bool(item["apart"]), str(item["symbol"]))


def _parameter(entry: Mapping[str, Any]) -> Parameter:
    shape, strides = (tuple(_extent(item) for item in entry[key]) for key in ("shape", "strides"))
    kind, name, dtype = (str(entry[key]) for key in ("kind", "name", "dtype"))
    return Parameter(kind, name, dtype, shape, strides, _extent(entry["offset"]), bool(entry["stored"]))


def _extent(value: Any) -> Extent:
    """An extent, whose operations JSON has as lists."""
    made: Extent = tuple(map(_extent, value)) if isinstance(value, list) else value
    if not is_extent(made):
        raise ValueError(f"{value!r} is no extent")
    return made

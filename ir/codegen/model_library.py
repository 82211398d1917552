"""A built model as one shared library: code, weights, description, and entry points for C, which the header declares
(:mod:`.model_header`)."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..error import IRError
from .cuda.model_interface import (
    INVALID_ARGUMENT,
    interface_prefix,
    interface_symbols,
    interface_text,
    native_functions,
    workspace_bytes,
)
from .dynamic.translation import RUNTIME_TEXT, DynamicFunction, translate
from .dynamic.values import NotCallableError
from .llvm.compile import MachineOptions, emit_object, link_shared_library, optimize, target_machine
from .llvm.runtime import SYMBOLS, runtime_object
from .model_driver import quoted_text
from .model_header import (
    ABI_VERSION,
    CONSTANTS_SYMBOL,
    DEVICE_CODE_SYMBOL,
    PREFIX,
    SYMBOL_VERSION,
    DynamicFunctions,
    checked_prefix,
    entry_symbols,
    interface_number,
    public_bytecode,
    write_header,
)

_ALIGNMENT = 64
_MAX_CONSTANT_BYTES = 1_900_000_000
"""Beyond, the code's 32-bit relative addresses no longer reach the weights."""

_NO_MEMORY = b"there is no memory for the workspace\0"


def _layout(constants: Sequence[np.ndarray]) -> tuple[list[int], int]:
    offsets, end = [], 0
    for value in constants:
        end = (end + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        offsets.append(end)
        end += value.nbytes
    return offsets, max(end, 1)


def _description_text(text: bytes, prefix: str) -> str:
    """LLVM assembly of the description."""
    return (
        f"@{CONSTANTS_SYMBOL} = external constant i8\n"
        f'@{prefix}_metadata = constant [{len(text) + 1} x i8] c"{quoted_text(text)}\\00"\n'
    )


_OTHER_ABI = "the program was compiled for another version of the library's binary interface: compile it with the library's own header"
_OTHER_INTERFACE = "the program was compiled with the header of another build, whose functions or arrays are others: use the library's own"


def _versions_text(number: int, prefix: str, refused: int, complaint: str) -> str:
    """LLVM assembly of ``abi_version`` and ``check``.

    Args:
        number: of the interface.
        prefix: of the names.
        refused: the status of a check that fails.
        complaint: how a check says why, ``{0}`` being the address of the words.
    """
    texts = {"@other_abi": _OTHER_ABI, "@other_interface": _OTHER_INTERFACE}
    says = {name: complaint.format(name) for name in texts}
    return "\n".join(
        [
            *(
                f'{name} = internal constant [{len(text) + 1} x i8] c"{quoted_text(text.encode())}\\00"'
                for name, text in texts.items()
            ),
            f"define i32 @{prefix}_abi_version() {{",
            f"  ret i32 {ABI_VERSION}",
            "}",
            f"define i32 @{prefix}_check(i32 %abi, i64 %interface) {{",
            f"  %same.abi = icmp eq i32 %abi, {ABI_VERSION}",
            "  br i1 %same.abi, label %look, label %other.abi",
            "look:",
            f"  %same = icmp eq i64 %interface, {number - 2**64 if number >= 2**63 else number}",
            "  br i1 %same, label %fits, label %other",
            "fits:",
            "  ret i32 0",
            "other.abi:",
            f"  {says['@other_abi']}",
            f"  ret i32 {refused}",
            "other:",
            f"  {says['@other_interface']}",
            f"  ret i32 {refused}",
            "}",
            "",
        ]
    )


def _renamed_runtime_text(prefix: str) -> str:
    """LLVM assembly of the runtime's functions that the header declares, under another prefix than the runtime's own."""
    if prefix == PREFIX:
        return ""
    return (
        f"declare ptr @{PREFIX}_last_error()\n"
        f"declare void @{PREFIX}_set_num_threads(i32)\n"
        f"define ptr @{prefix}_last_error() {{\n"
        f"  %text = call ptr @{PREFIX}_last_error()\n"
        "  ret ptr %text\n"
        "}\n"
        f"define void @{prefix}_set_num_threads(i32 %count) {{\n"
        f"  call void @{PREFIX}_set_num_threads(i32 %count)\n"
        "  ret void\n"
        "}\n"
    )


def _entry_text(metadata: Mapping[str, Any], offsets: Sequence[int], prefix: str) -> str:
    """LLVM assembly of one C entry point per native function of a model for processors."""
    lines = [
        f'@no_memory = internal constant [{len(_NO_MEMORY)} x i8] c"{quoted_text(_NO_MEMORY)}"',
    ]
    pointers = [f"ptr getelementptr (i8, ptr @{CONSTANTS_SYMBOL}, i64 {offset})" for offset in offsets] or [
        "ptr null"
    ]
    lines.append(f"@constant_table = internal constant [{len(pointers)} x ptr] [{', '.join(pointers)}]")
    symbols = entry_symbols(metadata, prefix)
    for name, entry in native_functions(metadata).items():
        lines += [
            f"declare i32 @{entry['symbol']}(ptr, ptr, ptr, ptr, ptr, ptr)",
            f"define i32 @{symbols[name]}(ptr %inputs, ptr %outputs, ptr %workspace) {{",
            "  %absent = icmp eq ptr %workspace, null",
            "  br i1 %absent, label %acquire, label %run",
            "acquire:",
            f"  %own = call ptr @loopsmith_workspace_acquire(i64 {workspace_bytes(entry)})",
            "  %failed = icmp eq ptr %own, null",
            "  br i1 %failed, label %fail, label %run",
            "run:",
            "  %memory = phi ptr [%workspace, %0], [%own, %acquire]",
            f"  %status = call i32 @{entry['symbol']}(ptr %inputs, ptr %outputs, ptr @constant_table, ptr %memory, ptr null, ptr null)",
            "  br i1 %absent, label %release, label %done",
            "release:",
            "  call void @loopsmith_workspace_release(ptr %memory)",
            "  br label %done",
            "done:",
            "  ret i32 %status",
            "fail:",
            "  call void @loopsmith_set_error(ptr @no_memory)",
            "  ret i32 1",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _dynamic_functions(metadata: Mapping[str, Any], prefix: str) -> DynamicFunctions:
    """The functions of bytecode of a model for processors, as C calls them."""
    found: dict[str, DynamicFunction] = {}
    refused: dict[str, str] = {}
    symbols = entry_symbols(metadata, prefix)
    for name in public_bytecode(metadata):
        try:
            found[name] = translate(name, symbols[name], metadata["functions"], metadata["constants"])
        except NotCallableError as error:
            refused[name] = str(error)
    return DynamicFunctions(found, refused)


def _dynamic_text(dynamic: DynamicFunctions, prefix: str) -> str:
    """LLVM assembly of the functions with symbolic shapes, and of what frees their results."""
    functions = dynamic.callable.values()
    declared = dict.fromkeys(line for function in functions for line in function.declarations)
    free = f"define void @{prefix}_free(ptr %data) {{\n  call void @free(ptr %data)\n  ret void\n}}\n"
    texts = [RUNTIME_TEXT, *(f"{line}\n" for line in declared), *(function.body for function in functions)]
    return "".join([*texts, free] if functions else [RUNTIME_TEXT])


def _weights(
    constants: Sequence[np.ndarray], offsets: Sequence[int], size: int
) -> Iterator[bytes | memoryview]:
    """The bytes of all constants at their offsets."""
    end = 0
    for value, offset in zip(constants, offsets, strict=True):
        yield b"\0" * (offset - end)
        yield np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
        end = offset + value.nbytes
    yield b"\0" * (size - end)


def _data_object(symbol: str, parts: Iterable[bytes | memoryview], options: MachineOptions) -> bytes:
    """An object file with bytes under a symbol; the assembler reads them from a file, so that none goes through text."""
    import llvmlite.binding as llvm

    machine = target_machine(options)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "data.bin")
        with file.open("wb") as out:
            for part in parts:
                out.write(part)
            size = out.tell()
        directives = [
            ".section .rodata.loopsmith,\\22a\\22,@progbits",
            f".balign {_ALIGNMENT}",
            f".globl {symbol}",
            f".type {symbol},@object",
            f"{symbol}:",
            f".incbin \\22{file}\\22",
            f".size {symbol}, {size}",
        ]
        module = llvm.parse_assembly("\n".join(f'module asm "{line}"' for line in directives) + "\n")
        module.triple = machine.triple
        return bytes(machine.emit_object(module))


def link_model(
    metadata: Mapping[str, Any],
    constants: Sequence[np.ndarray],
    objects: Sequence[bytes],
    path: str | os.PathLike[str],
    options: MachineOptions = MachineOptions(),
    device_code: Sequence[bytes] = (),
    header: Path | None = None,
    prefix: str | None = None,
) -> bytes:
    """Link a model's code and weights into the shared library ``path``.

    Args:
        metadata: see :mod:`runners.program`; the places of the constants and the prefix are added here. The functions of a model for CUDA
            devices are called through model objects (:mod:`.cuda.model_interface`), those of others directly.
        constants: arrays by number.
        objects: object files with the native functions and kernels.
        device_code: what a device runs, in parts whose sizes the description names.
        header: where to write the C header, beside the library and called as it is; without, none is written.
        prefix: of the names that C sees; by default ``loopsmith``, and for CUDA devices one that is made of the library's name.

    Returns:
        the text of the description, which the library holds.

    Raises:
        IRError: the weights are too large for one library.
        CodegenError: the prefix is no name, there is no linker, or it fails.
    """
    offsets, size = _layout(constants)
    if size > _MAX_CONSTANT_BYTES:
        raise IRError(
            f"the model has {size / 1e9:.1f} GB of weights, a library holds at most {_MAX_CONSTANT_BYTES / 1e9:.1f} GB;"
            " leave the weights as arguments (do not pass params to build)"
        )
    on_device = metadata.get("device") == "cuda"
    chosen = checked_prefix(prefix) if prefix else interface_prefix(path) if on_device else PREFIX
    described = {
        **metadata,
        "prefix": chosen,
        "runtime_prefix": PREFIX if on_device else chosen,
        "constants": [
            {"dtype": value.dtype.name, "shape": list(value.shape), "offset": offset}
            for value, offset in zip(constants, offsets, strict=True)
        ],
    }
    text = json.dumps(described, separators=(",", ":")).encode()
    if on_device:
        entries = interface_text(described, chosen, offsets, size)
        entries += _versions_text(interface_number(described), chosen, INVALID_ARGUMENT, "")
        dynamic = DynamicFunctions()
        called, libraries = [*interface_symbols(described, chosen), *SYMBOLS], ["dl"]
    else:
        entries = _entry_text(described, offsets, chosen) + _renamed_runtime_text(chosen)
        dynamic = _dynamic_functions(described, chosen)
        entries += _dynamic_text(dynamic, chosen)
        number = interface_number(described, dynamic)
        entries += _versions_text(number, chosen, 1, "call void @loopsmith_set_error(ptr {0})")
        runtime = SYMBOLS if chosen == PREFIX else [f"{chosen}_last_error", f"{chosen}_set_num_threads"]
        symbols = entry_symbols(described, chosen)
        of_c = [*native_functions(described), *dynamic.callable]
        called, libraries = [*(symbols[name] for name in of_c), *runtime], []
        called += [f"{chosen}_free"] if dynamic.callable else []
    entry = emit_object(optimize(_description_text(text, chosen) + entries, options), options)
    data = [_data_object(CONSTANTS_SYMBOL, _weights(constants, offsets, size), options)]
    if device_code:
        data.append(_data_object(DEVICE_CODE_SYMBOL, device_code, options))
    export = [
        *(f"{chosen}_{name}" for name in ("metadata", "abi_version", "check")),
        CONSTANTS_SYMBOL,
        *([DEVICE_CODE_SYMBOL] if device_code else ()),
        *called,
        *(item["symbol"] for item in native_functions(metadata).values()),
        *metadata.get("kernels", ()),
    ]
    parts = [*objects, entry, *data, runtime_object(options)]
    link_shared_library(parts, path, export=export, libraries=libraries, version=SYMBOL_VERSION)
    if header is not None:
        write_header(described, header, chosen, dynamic)
    return text

"""A built model as one shared library: code, weights, description, an entry point for C, and the header that declares it."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..error import IRError
from .llvm.compile import MachineOptions, emit_object, link_shared_library, optimize, target_machine
from .llvm.runtime import SYMBOLS, runtime_object

METADATA_SYMBOL = "loopsmith_metadata"
CONSTANTS_SYMBOL = "loopsmith_constants"
"""These two names are what :mod:`runners.program` looks for."""

_ALIGNMENT = 64
_MAX_CONSTANT_BYTES = 1_900_000_000
"""Beyond, the code's 32-bit relative addresses no longer reach the weights."""

_NO_MEMORY = b"there is no memory for the workspace\0"

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
}


def entry_symbol(function: str) -> str:
    """The C name of a model's function: ``loopsmith_main`` for ``main``."""
    return "loopsmith_" + re.sub(r"\W", "_", function)


def _layout(constants: Sequence[np.ndarray]) -> tuple[list[int], int]:
    offsets, end = [], 0
    for value in constants:
        end = (end + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        offsets.append(end)
        end += value.nbytes
    return offsets, max(end, 1)


def _quoted(text: bytes) -> str:
    return "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\{c:02X}" for c in text)


def _entry_text(metadata: Mapping[str, Any], offsets: Sequence[int]) -> str:
    """LLVM assembly of the description and of one C entry point per native function."""
    text = json.dumps(metadata, separators=(",", ":")).encode() + b"\0"
    lines = [
        f"@{CONSTANTS_SYMBOL} = external constant i8",
        f'@{METADATA_SYMBOL} = constant [{len(text)} x i8] c"{_quoted(text)}"',
        "declare ptr @loopsmith_workspace_acquire(i64)",
        "declare void @loopsmith_workspace_release(ptr)",
        "declare void @loopsmith_set_error(ptr)",
        f'@no_memory = internal constant [{len(_NO_MEMORY)} x i8] c"{_quoted(_NO_MEMORY)}"',
    ]
    pointers = [f"ptr getelementptr (i8, ptr @{CONSTANTS_SYMBOL}, i64 {offset})" for offset in offsets] or [
        "ptr null"
    ]
    lines.append(f"@constant_table = internal constant [{len(pointers)} x ptr] [{', '.join(pointers)}]")
    for name, entry in sorted(metadata["functions"].items()):
        if entry["kind"] != "native":
            continue
        lines += [
            f"declare i32 @{entry['symbol']}(ptr, ptr, ptr, ptr, ptr)",
            f"define i32 @{entry_symbol(name)}(ptr %inputs, ptr %outputs, ptr %workspace) {{",
            "  %absent = icmp eq ptr %workspace, null",
            "  br i1 %absent, label %acquire, label %run",
            "acquire:",
            f"  %own = call ptr @loopsmith_workspace_acquire(i64 {max(64, entry['workspace_bytes'])})",
            "  %failed = icmp eq ptr %own, null",
            "  br i1 %failed, label %fail, label %run",
            "run:",
            "  %memory = phi ptr [%workspace, %0], [%own, %acquire]",
            f"  %status = call i32 @{entry['symbol']}(ptr %inputs, ptr %outputs, ptr @constant_table, ptr %memory, ptr null)",
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


def _weights_object(
    constants: Sequence[np.ndarray], offsets: Sequence[int], size: int, options: MachineOptions
) -> bytes:
    """An object file with the bytes of all constants; the assembler reads them from a file, so none goes through text."""
    import llvmlite.binding as llvm

    machine = target_machine(options)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "weights.bin")
        with file.open("wb") as out:
            for value, offset in zip(constants, offsets, strict=True):
                out.write(b"\0" * (offset - out.tell()))
                out.write(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
            out.write(b"\0" * (size - out.tell()))
        directives = [
            ".section .rodata.loopsmith,\\22a\\22,@progbits",
            f".balign {_ALIGNMENT}",
            f".globl {CONSTANTS_SYMBOL}",
            f".type {CONSTANTS_SYMBOL},@object",
            f"{CONSTANTS_SYMBOL}:",
            f".incbin \\22{file}\\22",
            f".size {CONSTANTS_SYMBOL}, {size}",
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
) -> None:
    """Link a model's code and weights into the shared library ``path``.

    Args:
        metadata: see :mod:`runners.program`; the places of the constants are added here.
        constants: arrays by number.
        objects: object files with the native functions and kernels.

    Raises:
        IRError: the weights are too large for one library.
        CodegenError: there is no linker, or it fails.
    """
    offsets, size = _layout(constants)
    if size > _MAX_CONSTANT_BYTES:
        raise IRError(
            f"the model has {size / 1e9:.1f} GB of weights, a library holds at most {_MAX_CONSTANT_BYTES / 1e9:.1f} GB;"
            " leave the weights as arguments (do not pass params to build)"
        )
    described = {
        **metadata,
        "constants": [
            {"dtype": value.dtype.name, "shape": list(value.shape), "offset": offset}
            for value, offset in zip(constants, offsets, strict=True)
        ],
    }
    entry = emit_object(optimize(_entry_text(described, offsets), options), options)
    weights = _weights_object(constants, offsets, size, options)
    native = [name for name, item in metadata["functions"].items() if item["kind"] == "native"]
    export = [
        METADATA_SYMBOL,
        CONSTANTS_SYMBOL,
        *SYMBOLS,
        *(entry_symbol(name) for name in native),
        *(metadata["functions"][name]["symbol"] for name in native),
        *metadata.get("kernels", ()),
    ]
    link_shared_library([*objects, entry, weights, runtime_object(options)], path, export=export)


def _identifier(name: str) -> str:
    cleaned = re.sub(r"\W", "_", name)
    return f"_{cleaned}" if not cleaned or cleaned[0].isdigit() else cleaned


def header_text(metadata: Mapping[str, Any], guard: str) -> str:
    """The C header of a model: one documented function per native function of it."""
    lines = [
        "/* Generated by loopsmith. Link or dlopen the shared library of the same name. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* The description of the model as JSON text. */",
        f"extern const char {METADATA_SYMBOL}[];",
        "/* The text of the last error, empty when there was none. */",
        "const char *loopsmith_last_error(void);",
        "/* Threads of parallel loops; 0 means one per processor. */",
        "void loopsmith_set_num_threads(int32_t count);",
    ]
    for name, entry in sorted(metadata["functions"].items()):
        if entry["kind"] != "native":
            continue
        inputs = [(_identifier(item["name"]), item) for item in entry["inputs"]]
        outputs = [
            (_identifier(item.get("name") or f"output{i}"), item) for i, item in enumerate(entry["outputs"])
        ]
        symbol = entry_symbol(name)
        lines += ["", f"/* Bytes of workspace that {symbol} needs. */"]
        lines.append(f"#define {symbol.upper()}_WORKSPACE_BYTES {max(64, entry['workspace_bytes'])}")
        lines += [
            f"/* Runs {name}. Arrays are row-major; workspace is 64-byte aligned memory of the size above, or NULL.",
            "   Returns 0, or another value after which loopsmith_last_error() tells what went wrong.",
        ]
        for role, items in (("input ", inputs), ("output", outputs)):
            for label, item in items:
                shape = "][".join(map(str, item["shape"]))
                lines.append(f"   {role} {label}: {item['dtype']}{f'[{shape}]' if item['shape'] else ''}")
        lines[-1] += " */"
        lines.append(f"int32_t {symbol}(const void *const *inputs, void *const *outputs, void *workspace);")
        params = [f"const {C_TYPES.get(item['dtype'], 'void')} *{label}" for label, item in inputs]
        params += [f"{C_TYPES.get(item['dtype'], 'void')} *{label}" for label, item in outputs]
        lines += [
            f"static inline int32_t {symbol}_run({', '.join(params) or 'void'}) {{",
            f"  const void *inputs[] = {{{', '.join(label for label, _ in inputs) or '0'}}};",
            f"  void *outputs[] = {{{', '.join(label for label, _ in outputs) or '0'}}};",
            f"  return {symbol}(inputs, outputs, NULL);",
            "}",
        ]
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "#endif", ""]
    return "\n".join(lines)


def write_header(metadata: Mapping[str, Any], path: Path) -> None:
    """Write the C header of a model to ``path``."""
    guard = "LOOPSMITH_" + re.sub(r"\W", "_", path.name).upper()
    path.write_text(header_text(metadata, guard), encoding="utf-8")

"""The C headers of built models: for those of a processor functions on arrays, for those of CUDA devices model objects too.

A header belongs to a library: it has the version of the binary interface and a number that is made of the functions' arguments, and the
functions of it compare both with the library's (``<prefix>_check``) before they hand on any pointer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .c_words import c_word, c_words, in_capitals
from .cuda.model_interface import (
    ARRAY_ALIGNMENT,
    HOST_CODE_FAILED,
    INVALID_ARGUMENT,
    NO_DRIVER,
    NO_HOST_MEMORY,
    WORKSPACE_ALIGNMENT,
    function_symbol,
    native_functions,
    workspace_bytes,
)
from .dynamic.translation import DynamicFunction
from .error import CodegenError
from .llvm.runtime import SYMBOLS
from .llvm.symbols import WORDS

CONSTANTS_SYMBOL = "loopsmith_constants"
DEVICE_CODE_SYMBOL = "loopsmith_device_code"
"""These names are what :mod:`runners.program` looks for."""
ABI_VERSION = 1
"""Version of the binary interface: how functions are called and named beside the model's own. A program that was linked with a library of
another version is refused by the system's loader, which compares :data:`SYMBOL_VERSION`, and by ``<prefix>_check``."""
SYMBOL_VERSION = f"LOOPSMITH_{ABI_VERSION}"
PREFIX = "loopsmith"
"""What the names of a library for processors begin with, unless another prefix is asked for."""
_C_TYPES = {
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
    "float16": "loopsmith_float16",
    "bfloat16": "loopsmith_bfloat16",
}
_NARROW_FLOATS = ("float16", "bfloat16")
_ENTRIES = {
    *(symbol.removeprefix("loopsmith_") for symbol in (CONSTANTS_SYMBOL, DEVICE_CODE_SYMBOL, *SYMBOLS)),
    *("metadata", "check", "abi_version", "free", "tensor", "float16", "bfloat16"),
    *(f"{verb}_{name}" for verb in ("to", "from") for name in _NARROW_FLOATS),
    *("bits_of_float", "float_of_bits"),
}
"""What the word of a function cannot be: a library or its header has those names itself."""
_RUN = "_run"
"""Behind the name of a function, that of its form with one parameter for each array."""
_TAKEN = WORDS | {"model", "stream", "inputs", "outputs", "workspace", "differs", "size_t"}
_TAKEN |= {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_TAKEN |= set("NULL EOF I INFINITY NAN assert errno i386 linux stderr stdin stdout unix".split())
"""What an argument cannot be called in a header: what the header itself speaks of, and macros of C's own headers and of compilers."""


def checked_prefix(prefix: str) -> str:
    """A prefix of names in C.

    Raises:
        CodegenError: it is none.
    """
    if re.fullmatch(r"[A-Za-z]\w*", prefix, re.ASCII) is None:
        raise CodegenError(
            f"the prefix {prefix!r} is no name in C: letters, digits and _, with a letter first, as resnet18"
        )
    return prefix


@dataclass(frozen=True)
class DynamicFunctions:
    """The functions of a model that are bytecode: as C calls them, and why it cannot call the others."""

    callable: Mapping[str, DynamicFunction] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


_NO_DYNAMIC = DynamicFunctions()


def interface_number(metadata: Mapping[str, Any], dynamic: DynamicFunctions = _NO_DYNAMIC) -> int:
    """A number of 64 bits that is made of the functions that C can call and their arrays: another one for other arguments."""
    keys = ("shape", "dtype", "written")
    entries = {
        **native_functions(metadata),
        **{name: _entry(item) for name, item in dynamic.callable.items()},
    }
    functions = [
        [name, *([[item.get(key) for key in keys] for item in entry[side]] for side in ("inputs", "outputs"))]
        for name, entry in entries.items()
    ]
    return int.from_bytes(hashlib.sha256(json.dumps(functions).encode()).digest()[:8], "little")


def _entry(function: DynamicFunction) -> dict[str, Any]:
    """A dynamic function described as native ones are."""
    sides = {"inputs": function.inputs, "outputs": function.outputs}
    return {
        side: [
            {"name": item.name, "dtype": item.dtype, "shape": list(item.shape), "written": item.written}
            for item in arrays
        ]
        for side, arrays in sides.items()
    }


def public_bytecode(metadata: Mapping[str, Any]) -> list[str]:
    """The names of the functions that callers see and that are bytecode."""
    functions = sorted(metadata["functions"].items())
    return [name for name, entry in functions if entry["kind"] == "bytecode" and entry.get("public", True)]


def entry_symbols(metadata: Mapping[str, Any], prefix: str = PREFIX) -> dict[str, str]:
    """The C names of the functions of a model for processors: ``loopsmith_main`` for ``main``."""
    names = [*native_functions(metadata), *public_bytecode(metadata)]
    words = c_words(names, _ENTRIES, endings=("", _RUN))
    return {name: f"{prefix}_{word}" for name, word in words.items()}


def write_header(
    metadata: Mapping[str, Any], path: Path, prefix: str, dynamic: DynamicFunctions = _NO_DYNAMIC
) -> None:
    """Write the C header of a model to ``path``, beside the library of the same name."""
    # By their words alone, c.h of the prefix a_b and b_c.h of the prefix a would be one.
    told_apart = hashlib.sha256(f"{prefix} {path.name}".encode()).hexdigest()[:8].upper()
    guard = f"{prefix.upper()}_{c_word(path.name).upper()}_{told_apart}"
    if metadata.get("device") == "cuda":
        text = device_header(metadata, guard, prefix)
    else:
        text = header_text(metadata, guard, prefix, dynamic)
    path.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class _Argument:
    """An array as a parameter of a C function."""

    label: str
    role: str
    described: Mapping[str, Any]

    @property
    def line(self) -> str:
        """Its line in a comment."""
        shape = "][".join(map(str, self.described["shape"]))
        written = ", which is overwritten" if self.described.get("written") else ""
        return f"   {self.role:<6} {self.label}: {self.described['dtype']}{f'[{shape}]' if shape else ''}{written}"

    @property
    def parameter(self) -> str:
        """Its declaration."""
        constant = "" if self.role == "output" or self.described.get("written") else "const "
        return f"{constant}{_C_TYPES.get(self.described['dtype'], 'void')} *{self.label}"


def _arguments(entry: Mapping[str, Any], prefix: str) -> tuple[list[_Argument], list[_Argument]]:
    """The inputs and outputs of a function, called as C can call them: not as the header calls its functions, types and macros."""
    taken = set(_TAKEN)
    of_header = re.compile(rf"(?i:{PREFIX}|{prefix})(?:_|$)|_[_A-Z]")

    def label(name: str) -> str:
        cleaned = c_word(name)
        cleaned = f"_{cleaned}" if not cleaned or cleaned[0].isdigit() else cleaned
        cleaned = f"array_{cleaned}" if of_header.match(cleaned) else cleaned
        while cleaned in taken:
            cleaned += "_"
        taken.add(cleaned)
        return cleaned

    inputs = [_Argument(label(item["name"]), "input", item) for item in entry["inputs"]]
    outputs = [
        _Argument(label(item.get("name") or f"output{i}"), "output", item)
        for i, item in enumerate(entry["outputs"])
    ]
    return inputs, outputs


def _frame(
    guard: str,
    about: str,
    metadata: Mapping[str, Any],
    body: Iterable[str],
    dynamic: DynamicFunctions = _NO_DYNAMIC,
) -> str:
    opening = ["#ifdef __cplusplus", 'extern "C" {', "#endif"]
    lines = [about, f"#ifndef {guard}", f"#define {guard}", "#include <stddef.h>", "#include <stdint.h>"]
    shared = {
        "narrow_floats.h": _has_narrow_floats(metadata, dynamic),
        "dynamic/tensor.h": bool(dynamic.callable),
    }
    for name in (name for name, is_needed in shared.items() if is_needed):
        lines.append((Path(__file__).parent / name).read_text(encoding="utf-8").rstrip())
    return "\n".join([*lines, *opening, "", *body, "", "#ifdef __cplusplus", "}", "#endif", "#endif", ""])


def _has_narrow_floats(metadata: Mapping[str, Any], dynamic: DynamicFunctions) -> bool:
    entries = [*native_functions(metadata).values(), *map(_entry, dynamic.callable.values())]
    arrays = [item for entry in entries for item in (*entry["inputs"], *entry["outputs"])]
    return any(item["dtype"] in _NARROW_FLOATS for item in arrays)


def _versions(metadata: Mapping[str, Any], prefix: str, dynamic: DynamicFunctions = _NO_DYNAMIC) -> list[str]:
    """What a program compares before it calls anything."""
    macro = prefix.upper()
    return [
        "/* The binary interface and the functions that this header describes. */",
        f"#define {macro}_ABI_VERSION {ABI_VERSION}",
        f"#define {macro}_INTERFACE UINT64_C(0x{interface_number(metadata, dynamic):016x})",
        "/* The version of the binary interface that the library has. */",
        f"int32_t {prefix}_abi_version(void);",
        "/* 0 where the library is as a header with these numbers describes it, and another status where it is not. The functions with one",
        "   parameter for each array ask by themselves; who calls the other ones asks once. */",
        f"int32_t {prefix}_check(int32_t abi_version, uint64_t interface_number);",
    ]


def _checking(prefix: str) -> list[str]:
    """The beginning of a function of the header, whose status is that of the check where that fails."""
    macro = prefix.upper()
    return [
        f"  int32_t differs = {prefix}_check({macro}_ABI_VERSION, {macro}_INTERFACE);",
        "  if (differs != 0)",
        "    return differs;",
    ]


def _tables(inputs: Sequence[_Argument], outputs: Sequence[_Argument]) -> list[str]:
    """Definitions of the tables of arrays, of one entry at least."""
    return [
        f"  const void *const inputs[] = {{{', '.join(item.label for item in inputs) or '0'}}};",
        f"  void *const outputs[] = {{{', '.join(item.label for item in outputs) or '0'}}};",
    ]


def header_text(
    metadata: Mapping[str, Any], guard: str, prefix: str = PREFIX, dynamic: DynamicFunctions = _NO_DYNAMIC
) -> str:
    """The C header of a model for processors: one documented function per function of it that C can call."""
    lines = [
        *_versions(metadata, prefix, dynamic),
        "/* The description of the model as JSON text. */",
        f"extern const char {prefix}_metadata[];",
        "/* The text of the last error, empty when there was none. */",
        f"const char *{prefix}_last_error(void);",
        "/* Threads of parallel loops; 0 means one per processor. */",
        f"void {prefix}_set_num_threads(int32_t count);",
    ]
    symbols = entry_symbols(metadata, prefix)
    macros = in_capitals(symbols.values())
    for name, entry in native_functions(metadata).items():
        inputs, outputs = _arguments(entry, prefix)
        symbol = symbols[name]
        described = "\n".join(
            [
                f"/* Runs {name}. Arrays are row-major; workspace is 64-byte aligned memory of the size above, or NULL.",
                f"   Returns 0, or another value after which {prefix}_last_error() tells what went wrong.",
                *(item.line for item in (*inputs, *outputs)),
            ]
        )
        parameters = ", ".join(item.parameter for item in (*inputs, *outputs)) or "void"
        lines += [
            "",
            f"/* Bytes of workspace that {symbol} needs. */",
            f"#define {macros[symbol]}_WORKSPACE_BYTES {workspace_bytes(entry)}",
            f"{described} */",
            f"int32_t {symbol}(const void *const *inputs, void *const *outputs, void *workspace);",
            f"static inline int32_t {symbol}{_RUN}({parameters}) {{",
            *_tables(inputs, outputs),
            *_checking(prefix),
            f"  return {symbol}(inputs, outputs, NULL);",
            "}",
        ]
    if dynamic.callable:
        lines += [
            "",
            "/* Frees what a function has put into an output. */",
            f"void {prefix}_free(void *data);",
        ]
    for name, function in dynamic.callable.items():
        lines += _dynamic_function(name, symbols[name], macros[symbols[name]], function, prefix)
    for name, reason in dynamic.refused.items():
        lines += ["", f"/* {name} runs in Python only: {reason.replace('*/', '* /')}. */"]
    about = "/* Generated by loopsmith. Link or dlopen the shared library of the same name. */"
    return _frame(guard, about, metadata, lines, dynamic)


def _dynamic_function(
    name: str, symbol: str, macro: str, function: DynamicFunction, prefix: str
) -> list[str]:
    """What the header has of a function whose shapes are known at run time; its macros begin with ``macro``."""
    inputs, outputs = _arguments(_entry(function), prefix)
    taken = {item.label for item in (*inputs, *outputs)}
    parameters, tensors = [], []
    for item, array in zip(inputs, function.inputs, strict=True):
        extents = [str(extent) for extent in array.shape]
        parameters.append(item.parameter)
        if not all(isinstance(extent, int) for extent in array.shape):
            shape = f"{item.label}_shape"
            while shape in taken:
                shape += "_"
            taken.add(shape)
            parameters.append(f"const int64_t *{shape}")
            extents = [f"{shape}[{axis}]" for axis in range(len(extents))]
        dtype = f"LOOPSMITH_{array.dtype.upper()}"
        tensors.append(f"{{(void *){item.label}, {{{', '.join(extents) or '0'}}}, {len(extents)}, {dtype}}}")
    return [
        "",
        f"/* Runs {name}, whose shapes are known when it is called: equal names are equal extents. The data of each output is made by the",
        f"   call, and freed with {prefix}_free; inputs that are written must have no memory in common with others.",
        f"   Returns 0, or another value after which {prefix}_last_error() tells what went wrong and no output has data.",
        *(item.line for item in (*inputs, *outputs)),
        "*/",
        f"#define {macro}_OUTPUTS {len(outputs)}",
        f"int32_t {symbol}(const loopsmith_tensor *inputs, loopsmith_tensor *outputs);",
        f"static inline int32_t {symbol}{_RUN}({', '.join([*parameters, 'loopsmith_tensor *outputs'])}) {{",
        f"  const loopsmith_tensor inputs[] = {{{', '.join(tensors) or '{0, {0}, 0, 0}'}}};",
        *_checking(prefix),
        f"  return {symbol}(inputs, outputs);",
        "}",
    ]


_ABOUT_DEVICES = """\
/* Generated by loopsmith. Link or dlopen the shared library of the same name. At run time it needs the CUDA driver, whose library it
   opens when a model object is made (libcuda.so.1, or what LOOPSMITH_CUDA_DRIVER names).

   {code}

   All functions but last_error return a status: 0; a positive one, which is a CUresult of the driver; or one of the macros below.

   Threads: different objects may be used at the same time. For one object several threads may call launch and launchv at the same time;
   run, runv and destroy must be alone. What uses the workspace of the object, that is launch, run, and launchv with NULL, must be done one
   after the other on the device, as it is on one stream; run works on the default stream. No function changes the calling thread's
   context. */"""

_OBJECTS = """\
#define {macro}_NO_DRIVER ({no_driver}) /* there is no driver, or it is too old */
#define {macro}_INVALID_ARGUMENT ({invalid_argument})
#define {macro}_NO_HOST_MEMORY ({no_host_memory})
#define {macro}_HOST_CODE_FAILED ({host_code_failed}) /* a check of the model's own code on the host failed */

/* A model on a device: its code, constants and a workspace. */
typedef struct {prefix} {prefix};
/* Makes one on the CUDA device of this number, in its primary context, in which the CUDA runtime works, too. After a failure *model is
   NULL. */
int32_t {prefix}_create(int32_t device, {prefix} **model);
/* Waits for the device and frees all that the object has, also where the status is that of a kernel that failed. NULL is ignored. */
int32_t {prefix}_destroy({prefix} *model);
/* The text of the last error of the calling thread, empty when there was none. */
const char *{prefix}_last_error(void);"""


def device_header(metadata: Mapping[str, Any], guard: str, prefix: str) -> str:
    """The C header of a model for CUDA devices.

    Args:
        metadata: description of the model, with ``device_code`` where it has kernels.
        guard: the macro that the header defines.
        prefix: of all names, see :func:`.cuda.model_interface.interface_prefix`.
    """
    code = metadata.get("device_code")
    about = (
        f"The kernels are code for {code['arch']}; the driver compiles their PTX for other devices, if those can run it."
        if code
        else "The model has no kernels."
    )
    macro = prefix.upper()
    lines = [
        *_versions(metadata, prefix),
        _OBJECTS.format(
            macro=macro,
            prefix=prefix,
            no_driver=NO_DRIVER,
            invalid_argument=INVALID_ARGUMENT,
            no_host_memory=NO_HOST_MEMORY,
            host_code_failed=HOST_CODE_FAILED,
        ),
    ]
    native = native_functions(metadata)
    words = c_words(native)
    macros = in_capitals(words.values())
    for name, entry in native.items():
        workspace = function_symbol(macro, "WORKSPACE_BYTES", macros[words[name]])
        lines += _device_function(prefix, name, words[name], workspace, entry)
    for name in sorted(metadata["functions"].keys() - native.keys()):
        lines += ["", f"/* {name} is bytecode, for its shapes are not static: it runs in Python only. */"]
    return _frame(guard, _ABOUT_DEVICES.format(code=about), metadata, lines)


def _device_function(
    prefix: str, name: str, word: str, workspace: str, entry: Mapping[str, Any]
) -> list[str]:
    """What the header has of a function; ``workspace`` is the macro of the bytes that it needs."""
    inputs, outputs = _arguments(entry, prefix)
    arrays = (*inputs, *outputs)
    launch, launchv, run, runv = (
        function_symbol(prefix, verb, word) for verb in ("launch", "launchv", "run", "runv")
    )
    described = "\n".join([f"/* {name}, of row-major arrays:", *(item.line for item in arrays)])
    parameters = "".join(f", {item.parameter}" for item in arrays)
    return [
        "",
        f"{described} */",
        f"#define {workspace} {workspace_bytes(entry)}",
        "/* Starts it on arrays of the device and does not wait; what fails on the device is told by who waits for the stream.",
        f"   Arrays begin at multiples of {ARRAY_ALIGNMENT} bytes; stream is a CUstream or cudaStream_t, NULL for the default stream;",
        f"   workspace is memory of the device, of the size above, at a multiple of {WORKSPACE_ALIGNMENT} bytes; NULL for the object's. */",
        f"int32_t {launchv}({prefix} *model, const void *const *inputs, void *const *outputs, void *workspace, void *stream);",
        f"static inline int32_t {launch}({prefix} *model{parameters}, void *stream) {{",
        *_tables(inputs, outputs),
        *_checking(prefix),
        f"  return {launchv}(model, inputs, outputs, NULL, stream);",
        "}",
        "/* Runs it on arrays of the host: copies them to the device and back on the default stream, and waits. */",
        f"int32_t {runv}({prefix} *model, const void *const *inputs, void *const *outputs);",
        f"static inline int32_t {run}({prefix} *model{parameters}) {{",
        *_tables(inputs, outputs),
        *_checking(prefix),
        f"  return {runv}(model, inputs, outputs);",
        "}",
    ]

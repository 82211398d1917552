"""The C interface of a model for CUDA devices, as LLVM assembly: model objects, and calls of the model's functions.

What it does is in ``model_object.ll`` and ``model_calls.ll`` beside this file; here they get the facts of a model. Names begin with a
prefix that is the library's own, so that one program can use several. A function ``main`` of the library ``layer.so`` is called by

- ``loopsmith_layer_launchv_main(model, inputs, outputs, workspace, stream)``: arrays of the device, without waiting;
- ``loopsmith_layer_runv_main(model, inputs, outputs)``: arrays of the host, which are copied.

The header (:mod:`ir.codegen.model_header`) declares them, and the forms ``launch_main`` and ``run_main`` with one parameter for each array.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, count
from math import prod
from pathlib import Path
from typing import Any

from ... import dtype as dt
from ...target.cuda_device import DRIVER_VARIABLE
from ..c_words import c_word, c_words
from ..model_driver import quoted_text
from .queue import SCRATCH_ALIGNMENT

NO_DRIVER, INVALID_ARGUMENT, NO_HOST_MEMORY, HOST_CODE_FAILED = -1, -2, -3, -4
"""Statuses that are no errors of the driver; those are positive."""
ARRAY_ALIGNMENT = 16
"""Bytes on which arrays of a device begin: a thread reads so many at once."""
WORKSPACE_ALIGNMENT = SCRATCH_ALIGNMENT
_READ, _WRITTEN = 1, 2
_FILES = ("model_object.ll", "model_calls.ll")
_DRIVER: dict[str, tuple[str, ...]] = {
    "cuLaunchKernel": (),  # called through queues; the first of all
    "cuTensorMapEncodeTiled": (),  # likewise; the second, which drivers older than CUDA 12.0 need not have
    "cuInit": ("i32",),
    "cuGetErrorName": ("i32", "ptr"),
    "cuGetErrorString": ("i32", "ptr"),
    "cuDeviceGet": ("ptr", "i32"),
    "cuDeviceGetName": ("ptr", "i32", "i32"),
    "cuDeviceGetAttribute": ("ptr", "i32", "i32"),
    "cuDevicePrimaryCtxRetain": ("ptr", "i32"),
    "cuDevicePrimaryCtxRelease_v2": ("i32",),
    "cuCtxPushCurrent_v2": ("ptr",),
    "cuCtxPopCurrent_v2": ("ptr",),
    "cuCtxSynchronize": (),
    "cuStreamSynchronize": ("ptr",),
    "cuMemAlloc_v2": ("ptr", "i64"),
    "cuMemFree_v2": ("ptr",),
    "cuMemcpyHtoD_v2": ("ptr", "ptr", "i64"),
    "cuMemcpyDtoH_v2": ("ptr", "ptr", "i64"),
    "cuModuleLoadData": ("ptr", "ptr"),
    "cuModuleUnload": ("ptr",),
    "cuModuleGetFunction": ("ptr", "ptr", "ptr"),
    "cuFuncGetAttribute": ("ptr", "i32", "ptr"),
    "cuFuncSetAttribute": ("ptr", "i32", "i32"),
}
"""The driver's functions that are called, with the types of their parameters; addresses of a device are pointers here."""


def interface_prefix(path: str | os.PathLike[str]) -> str:
    """What the names of a library's functions begin with.

    >>> interface_prefix("build/libresnet-50.so.1")
    'loopsmith_resnet_50'
    """
    stem = Path(path).name.split(".")[0]
    return "loopsmith_" + c_word(stem.removeprefix("lib") or stem)


def function_symbol(prefix: str, verb: str, word: str) -> str:
    """The C name of what is done (``launch``, ``launchv``, ``run``, ``runv``) with a function of a model, by its word (:func:`c_words`)."""
    return f"{prefix}_{verb}_{word}"


def native_functions(metadata: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The functions of a model that C can call, by name in order; others are bytecode."""
    return {name: entry for name, entry in sorted(metadata["functions"].items()) if entry["kind"] == "native"}


def interface_symbols(metadata: Mapping[str, Any], prefix: str) -> list[str]:
    """The functions that C sees."""
    calls = [
        function_symbol(prefix, verb, word)
        for word in c_words(native_functions(metadata)).values()
        for verb in ("launchv", "runv")
    ]
    return [*(f"{prefix}_{verb}" for verb in ("create", "destroy", "last_error")), *calls]


def workspace_bytes(entry: Mapping[str, Any]) -> int:
    """Bytes of the device that a function needs besides its arguments."""
    return max(64, int(entry["workspace_bytes"]))


def interface_text(
    metadata: Mapping[str, Any], prefix: str, offsets: Sequence[int], constant_bytes: int
) -> str:
    """LLVM assembly of the interface.

    Args:
        metadata: description of the model, see :mod:`runners.program`, with ``device_code`` where it has kernels.
        prefix: of names, see :func:`interface_prefix`.
        offsets: where constants are in ``loopsmith_constants``, by their numbers.
        constant_bytes: all of them.
    """
    functions = native_functions(metadata)
    words = c_words(functions)
    code = metadata.get("device_code", {"arch": "", "kernels": (), "sizes": ()})
    kernels = code["kernels"]
    places = {name: _places([*entry["inputs"], *entry["outputs"]]) for name, entry in functions.items()}
    workspace = _rounded_up(constant_bytes)
    facts = {
        "PREFIX": prefix,
        "ARCH": code["arch"],
        "DRIVER_VARIABLE": DRIVER_VARIABLE,
        "DRIVER_FUNCTIONS": len(_DRIVER),
        "KERNELS": len(kernels),
        "CONSTANTS": len(offsets),
        "CONSTANT_BYTES": constant_bytes,
        "WORKSPACE_OFFSET": workspace,
        "MEMORY_BYTES": workspace + max(map(workspace_bytes, functions.values()), default=64),
        "COPIES_BYTES": max((places[name][-1] for name in functions), default=0) or 1,
        "CUBIN": "@loopsmith_device_code" if kernels else "null",
        "PTX": f"getelementptr (i8, ptr @loopsmith_device_code, i64 {code['sizes'][0]})" if kernels else "null",
        "ARRAY_ALIGNMENT": ARRAY_ALIGNMENT,
        "WORKSPACE_ALIGNMENT": WORKSPACE_ALIGNMENT,
        "NO_DRIVER": NO_DRIVER,
        "INVALID_ARGUMENT": INVALID_ARGUMENT,
        "NO_HOST_MEMORY": NO_HOST_MEMORY,
        "HOST_CODE_FAILED": HOST_CODE_FAILED,
    }  # fmt: skip
    folder = Path(__file__).parent
    fixed = "".join((folder / name).read_text(encoding="utf-8") for name in _FILES)
    completed = re.sub(r"@([A-Z_]+)@", lambda found: str(facts[found[1]]), fixed)
    parts = [
        f"%model = type {{ [{len(_DRIVER)} x ptr], ptr, ptr, i32, i32, ptr, ptr, ptr, [{len(kernels)} x ptr], [{len(offsets)} x ptr] }}",
        "@loopsmith_device_code = external constant i8" if kernels else "",
        completed,
        _driver_text(),
        _array_text("@kernels", "%kernel", [_kernel_text(item) for item in kernels]),
        _array_text("@offsets", "i64", [f"i64 {offset}" for offset in offsets]),
        *(
            _function_text(prefix, name, words[name], entry, places[name])
            for name, entry in functions.items()
        ),
    ]
    return _with_texts("\n".join(parts)) + "\n"


def _places(arrays: Sequence[Mapping[str, Any]]) -> list[int]:
    """Where arrays have their places one behind the other, and the end."""
    return list(accumulate((_rounded_up(_bytes(item)) for item in arrays), initial=0))


def _rounded_up(n_bytes: int) -> int:
    return (n_bytes + SCRATCH_ALIGNMENT - 1) // SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT


def _bytes(array: Mapping[str, Any]) -> int:
    return dt.bytes_of(array["dtype"]) * prod(array["shape"])


def _driver_text() -> str:
    """The table of names, and two functions for each of the driver's."""
    lines = [_array_text("@driver.names", "ptr", [f'ptr $"{name}"' for name in _DRIVER])]
    for number, (name, types) in enumerate(_DRIVER.items()):
        params = "".join(f", {kind} %a{i}" for i, kind in enumerate(types))
        arguments = params.removeprefix(", ")
        lines += [
            f"define internal i32 @driver.{name}(ptr %model{params}) {{",
            f"  %slot = getelementptr ptr, ptr %model, i64 {number}",
            "  %function = load ptr, ptr %slot, align 8",
            f"  %status = call i32 %function({arguments})",
            "  ret i32 %status",
            "}",
            f"define internal i32 @checked.{name}(ptr %model{params}) {{",
            f"  %status = call i32 @driver.{name}(ptr %model{params})",
            f'  call i32 @noted(ptr %model, i32 %status, ptr $"{name.removesuffix("_v2")}")',
            "  ret i32 %status",
            "}",
        ]
    return "\n".join(lines)


def _kernel_text(kernel: Mapping[str, Any]) -> str:
    known = kernel["dynamic_shared_bytes"]
    return f"%kernel {{ ptr {_text(kernel['name'])}, i64 {-1 if known is None else known} }}"


def _function_text(prefix: str, name: str, word: str, entry: Mapping[str, Any], places: Sequence[int]) -> str:
    """The description of a function, and what C calls."""
    inputs, outputs = entry["inputs"], entry["outputs"]
    described = [
        *(_array(item, place, _READ | (_WRITTEN if item.get("written") else 0)) for item, place in zip(inputs, places)),
        *(_array(item, place, _WRITTEN) for item, place in zip(outputs, places[len(inputs) :])),
    ]  # fmt: skip
    launchv, runv = (function_symbol(prefix, verb, word) for verb in ("launchv", "runv"))
    return "\n".join(
        [
            f"declare i32 @{entry['symbol']}(ptr, ptr, ptr, ptr, ptr, ptr)",
            _array_text(f"@inputs.{word}", "%array", described[: len(inputs)]),
            _array_text(f"@outputs.{word}", "%array", described[len(inputs) :]),
            f"@function.{word} = internal constant %function {{ ptr {_text(name)}, ptr @{entry['symbol']}, i64 {len(inputs)},"
            f" ptr @inputs.{word}, i64 {len(outputs)}, ptr @outputs.{word} }}",
            f"define i32 @{launchv}(ptr %model, ptr %inputs, ptr %outputs, ptr %workspace, ptr %stream) {{",
            f"  %status = call i32 @launch(ptr %model, ptr @function.{word}, ptr %inputs, ptr %outputs, ptr %workspace, ptr %stream)",
            "  ret i32 %status",
            "}",
            f"define i32 @{runv}(ptr %model, ptr %inputs, ptr %outputs) {{",
            f"  %status = call i32 @run(ptr %model, ptr @function.{word}, ptr %inputs, ptr %outputs)",
            "  ret i32 %status",
            "}",
        ]
    )


def _array(item: Mapping[str, Any], place: int, use: int) -> str:
    return f"%array {{ ptr {_text(item['name'])}, i64 {_bytes(item)}, i64 {place}, i32 {use} }}"


def _array_text(symbol: str, kind: str, items: Sequence[str]) -> str:
    return f"{symbol} = internal constant [{len(items)} x {kind}] [{', '.join(items)}]"


def _text(name: str) -> str:
    """The address of a name that messages have; a quote would end it."""
    return '$"' + re.sub(r'["\n]', "'", name) + '"'


def _with_texts(assembly: str) -> str:
    """The assembly with each ``$"..."`` replaced by the address of the text, and the texts behind it."""
    numbers = count()
    symbols: dict[str, str] = {}

    def symbol(found: re.Match[str]) -> str:
        return symbols.setdefault(found[1], f"@text.{next(numbers)}")

    replaced = re.sub(r'\$"([^"\n]*)"', symbol, assembly)
    lines = []
    for text, name in symbols.items():
        data = text.encode() + b"\0"
        lines.append(f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{quoted_text(data)}"')
    return "\n".join([replaced, *lines])

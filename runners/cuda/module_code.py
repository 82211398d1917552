"""CUDA modules as bytes, for another process or another machine: sources, code for the architecture, and the host's functions."""

from __future__ import annotations

from ir.codegen.container import ContainerError, pack, unpack
from ir.codegen.cuda.codegen import CudaSource
from ir.codegen.native_code import packed_native, unpacked_native
from ir.error import IRError
from ir.json_format import load_json, save_json
from ir.module import IRModule
from ir.tir.function import PrimFunc
from ir.tir.kernel_launch import kernel_launch

from .module import CudaModule

KIND = "cuda"


def packed_cuda(module: CudaModule) -> bytes:
    """A module as bytes."""
    images = module.images
    described = {"kind": KIND, "arch": module.arch, "images": list(images)}
    kernels = save_json(IRModule(dict(module.device_source.kernels)))
    sections = [
        module.device_source.text.encode(),
        kernels.encode(),
        packed_native(module.host, module.host.own_functions),
    ]
    return pack(described, [*sections, *images.values()])


def unpacked_cuda(data: bytes) -> CudaModule:
    """The module that :func:`packed_cuda` was given; the driver loads it when it is first called.

    Raises:
        ContainerError: the bytes are something else.
    """
    described, sections = unpack(data)
    try:
        if described["kind"] != KIND:
            raise ValueError(f"they hold code of the kind {described['kind']!r}")
        text, kernels, host, *images = sections
        functions = load_json(kernels.decode())
        named = {var.name_hint: func for var, func in functions.functions.items()}
        if not all(isinstance(func, PrimFunc) for func in named.values()):
            raise ValueError("a kernel is no PrimFunc")
        launches = {name: kernel_launch(func) for name, func in named.items()}
        source = CudaSource(text.decode(), named, launches)
        module = CudaModule(source, unpacked_native(host), str(described["arch"]))
        module.images.update(zip(map(str, described["images"]), images, strict=True))
    except ContainerError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, IRError) as error:
        raise ContainerError(f"the bytes are no CUDA module: {error}") from error
    return module

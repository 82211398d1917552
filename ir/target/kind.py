"""The table of target kinds: what each is called, which device runs it, and which options it takes."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

from .error import TargetError


@dataclass(frozen=True)
class OptionSpec:
    """One option of a kind: ``bool``, ``int``, ``float``, ``str`` or ``list`` (of strings), and its default."""

    type: type
    default: Any = None
    doc: str = ""


@dataclass(frozen=True)
class TargetKind:
    """A kind of target; ``options`` maps option names, as in ``-num-cores``, to what they take."""

    name: str
    device_type: int
    """DLPack's device type: 1 is the CPU, 2 is CUDA."""
    default_keys: tuple[str, ...]
    options: dict[str, OptionSpec] = field(default_factory=dict, hash=False, compare=False)

    @property
    def options_names(self) -> list[str]:
        """The names of the options, sorted."""
        return sorted(self.options)

    def option(self, name: str) -> OptionSpec:
        """The option called ``name``; raises TargetError that lists near names."""
        try:
            return self.options[name]
        except KeyError:
            near = difflib.get_close_matches(name, self.options, n=3)
            hint = (
                f"did you mean -{', -'.join(near)}?" if near else f"it takes: {', '.join(self.options_names)}"
            )
            raise TargetError(f"target kind {self.name!r} has no option -{name}; {hint}") from None


_KINDS: dict[str, TargetKind] = {}

_COMMON = {
    "keys": OptionSpec(list, None, "words by which schedules and legalizations recognise the target"),
    "tag": OptionSpec(str, "", "the tag that the target was made from"),
    "device": OptionSpec(str, None, "a more special device, put in front of the keys"),
    "model": OptionSpec(str, None, "the product's name"),
    "libs": OptionSpec(list, None, "libraries that may be called, such as cublas"),
    "host": OptionSpec(object, None, "the target of code that runs on the host side"),
    "from_device": OptionSpec(int, None, "the device whose facts were filled in"),
}
_CPU = {
    "mcpu": OptionSpec(str, None, "LLVM's name of the cpu"),
    "march": OptionSpec(str, None, "architecture name"),
    "mattr": OptionSpec(list, None, "cpu features in LLVM's +feature,-feature form"),
    "mtriple": OptionSpec(str, None, "LLVM target triple"),
    "mfloat-abi": OptionSpec(str, None, "soft or hard"),
    "mabi": OptionSpec(str, None, "ABI name"),
    "num-cores": OptionSpec(int, None, "cores that a parallel loop may use"),
    "vector-width": OptionSpec(int, None, "bits of a vector register, instead of what the cpu implies"),
    "vector-registers": OptionSpec(int, None, "number of vector registers, instead of what the cpu implies"),
    "l1-cache-bytes": OptionSpec(int, None, "level-1 data cache per core"),
    "l2-cache-bytes": OptionSpec(int, None, "level-2 cache per core"),
    "l3-cache-bytes": OptionSpec(int, None, "last-level cache, shared"),
    "opt-level": OptionSpec(int, None, "LLVM's optimization level"),
    "fast-math": OptionSpec(bool, None, "allow reassociation in floating-point arithmetic"),
    "fast-math-nnan": OptionSpec(bool, None, "assume no NaN"),
    "fast-math-ninf": OptionSpec(bool, None, "assume no infinities"),
    "fast-math-nsz": OptionSpec(bool, None, "ignore the sign of zero"),
    "fast-math-arcp": OptionSpec(bool, None, "use reciprocals"),
    "fast-math-contract": OptionSpec(bool, None, "fuse multiply and add"),
    "fast-math-reassoc": OptionSpec(bool, None, "reassociate"),
    "cl-opt": OptionSpec(list, None, "LLVM command-line options"),
    "jit": OptionSpec(str, None, "LLVM JIT engine"),
    "runtime": OptionSpec(str, None, "runtime library"),
    "system-lib": OptionSpec(bool, None, "register functions in the system library"),
    "interface-api": OptionSpec(str, None, "calling interface of generated code"),
    "unpacked-api": OptionSpec(bool, None, "pass tensors as bare pointers"),
    "executor": OptionSpec(str, None, "graph, aot or vm"),
    "workspace-byte-alignment": OptionSpec(int, None, "alignment of workspaces"),
    "constants-byte-alignment": OptionSpec(int, None, "alignment of constants"),
}
_GPU = {
    "mcpu": OptionSpec(str, None, "compiler's name of the processor"),
    "march": OptionSpec(str, None, "architecture name"),
    "mtriple": OptionSpec(str, None, "LLVM target triple"),
    "arch": OptionSpec(str, None, "compute architecture, such as sm_90"),
    "max_num_threads": OptionSpec(int, 1024, "threads per block"),
    "max_threads_per_block": OptionSpec(int, None, "threads per block"),
    "thread_warp_size": OptionSpec(int, 32, "threads that run in lockstep"),
    "max_shared_memory_per_block": OptionSpec(int, None, "bytes of shared memory per block"),
    "shared_memory_per_block": OptionSpec(int, None, "bytes of shared memory per block, older name"),
    "registers_per_block": OptionSpec(int, None, "32-bit registers per block"),
    "max_local_memory_per_block": OptionSpec(int, None, "bytes of local memory per thread"),
    "max_vthread_extent": OptionSpec(int, None, "limit of virtual threads"),
    "multi_processor_count": OptionSpec(int, None, "number of streaming multiprocessors"),
    "l2_cache_size_bytes": OptionSpec(int, None, "level-2 cache"),
    "max_block_size_x": OptionSpec(int, None, "threads per block along x"),
    "max_block_size_y": OptionSpec(int, None, "threads per block along y"),
    "max_block_size_z": OptionSpec(int, None, "threads per block along z"),
    "texture_spatial_limit": OptionSpec(int, None, "largest texture extent"),
    "system-lib": OptionSpec(bool, None, "register functions in the system library"),
}


def register_kind(
    name: str, device_type: int, default_keys: tuple[str, ...], options: dict[str, OptionSpec] | None = None
) -> TargetKind:
    """Add a kind (or replace one) with ``options`` besides those that every kind takes."""
    kind = _KINDS[name] = TargetKind(name, device_type, default_keys, {**_COMMON, **(options or {})})
    return kind


def get_kind(name: str) -> TargetKind:
    """The kind called ``name``; raises TargetError listing the kinds."""
    try:
        return _KINDS[name]
    except KeyError:
        raise TargetError(
            f"unknown target kind {name!r}; there are: cpu, {', '.join(sorted(_KINDS))}"
        ) from None


def list_kinds() -> list[str]:
    """The names of all kinds."""
    return sorted(_KINDS)


register_kind("llvm", 1, ("cpu",), _CPU)
register_kind("c", 1, ("cpu",), _CPU)
register_kind("cuda", 2, ("cuda", "gpu"), _GPU)
register_kind("nvptx", 2, ("cuda", "gpu"), _GPU)
register_kind(
    "rocm", 10, ("rocm", "gpu"), {**_GPU, "mattr": OptionSpec(list), "thread_warp_size": OptionSpec(int, 64)}
)
register_kind("opencl", 4, ("opencl", "gpu"), {**_GPU, "max_num_threads": OptionSpec(int, 256)})
register_kind("metal", 8, ("metal", "gpu"), {**_GPU, "max_num_threads": OptionSpec(int, 256)})
register_kind(
    "vulkan",
    7,
    ("vulkan", "gpu"),
    {
        **_GPU,
        **{
            f"supports_{what}": OptionSpec(bool)
            for what in ("float16", "float32", "float64", "int8", "int16", "int32", "int64")
        },
    },
)
register_kind("webgpu", 15, ("webgpu", "gpu"), {**_GPU, "max_num_threads": OptionSpec(int, 256)})
register_kind("ext_dev", 12, ())

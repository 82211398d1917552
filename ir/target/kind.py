"""The table of target kinds: what each is called, which device runs it, and which options it takes.

An option either asks for something that is done, or states a fact of the device: facts are asked by rules and checks, and are part
of what a tuning record must agree on. What other compilers take besides is refused by name.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

from ..error import did_you_mean
from .error import TargetError
from .gpu_facts import WARP


@dataclass(frozen=True)
class OptionSpec:
    """One option of a kind: ``bool``, ``int``, ``float``, ``str`` or ``list`` (of strings), and its default."""

    type: type
    default: Any = None
    doc: str = ""
    minimum: int = 1
    """The least value of an ``int``: most are counts and sizes."""
    maximum: int | None = None
    """The largest value of an ``int``, where there is one."""


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
        """The option called ``name``; raises TargetError that lists near names, or says why there is no such option."""
        try:
            return self.options[name]
        except KeyError:
            if name in _REFUSED:
                raise TargetError(
                    f"option -{name} of target kind {self.name!r} is not there: {_REFUSED[name]}"
                ) from None
            near = difflib.get_close_matches(name, self.options, n=3)
            hint = (
                f"did you mean -{', -'.join(near)}?" if near else f"it takes: {', '.join(self.options_names)}"
            )
            raise TargetError(f"target kind {self.name!r} has no option -{name}; {hint}") from None


CUDA_KINDS = ("cuda", "nvptx")
"""Kinds whose ``arch`` is one of CUDA's, such as ``sm_90``."""
_KINDS: dict[str, TargetKind] = {}

_COMMON = {
    "keys": OptionSpec(list, None, "words by which schedules and legalizations recognise the target"),
    "tag": OptionSpec(str, "", "the tag that the target was made from"),
    "device": OptionSpec(str, None, "a more special device, put in front of the keys"),
    "model": OptionSpec(str, None, "the product's name"),
    "host": OptionSpec(object, None, "the target of code that runs on the host side"),
    "from_device": OptionSpec(int, None, "the device whose facts were filled in", minimum=0),
}
_CPU = {
    "mcpu": OptionSpec(str, None, "LLVM's name of the cpu"),
    "mattr": OptionSpec(list, None, "cpu features in LLVM's +feature,-feature form"),
    "mtriple": OptionSpec(str, None, "LLVM target triple"),
    "mabi": OptionSpec(str, None, "LLVM's name of the calling convention, such as lp64d"),
    "num-cores": OptionSpec(int, None, "cores that a parallel loop may use", maximum=1 << 16),
    "vector-width": OptionSpec(int, None, "bits of a vector register, instead of what the cpu implies"),
    "vector-registers": OptionSpec(int, None, "number of vector registers, instead of what the cpu implies"),
    "l1-cache-bytes": OptionSpec(int, None, "level-1 data cache per core"),
    "l2-cache-bytes": OptionSpec(int, None, "level-2 cache per core"),
    "l3-cache-bytes": OptionSpec(int, None, "last-level cache, shared"),
    "opt-level": OptionSpec(int, None, "LLVM's optimization level", minimum=0, maximum=3),
}
_GPU = {
    "arch": OptionSpec(str, None, "compute architecture, such as sm_90"),
    "max_num_threads": OptionSpec(int, 1024, "threads per block"),
    "max_threads_per_block": OptionSpec(int, None, "threads per block"),
    "thread_warp_size": OptionSpec(int, 32, "threads that run in lockstep"),
    "max_shared_memory_per_block": OptionSpec(int, None, "bytes of shared memory per block"),
    "shared_memory_per_block": OptionSpec(int, None, "bytes of shared memory per block, older name"),
    "max_shared_memory_per_block_optin": OptionSpec(
        int, None, "bytes of shared memory per block that a launch can ask for"
    ),
    "shared_memory_per_multiprocessor": OptionSpec(int, None, "bytes of shared memory per multiprocessor"),
    "registers_per_block": OptionSpec(int, None, "32-bit registers per block"),
    "max_local_memory_per_block": OptionSpec(int, None, "bytes of local memory per thread"),
    "max_vthread_extent": OptionSpec(int, None, "limit of virtual threads"),
    "multi_processor_count": OptionSpec(int, None, "number of streaming multiprocessors"),
    "l2_cache_size_bytes": OptionSpec(int, None, "level-2 cache"),
    "clock_mhz": OptionSpec(int, None, "clock of the multiprocessors"),
    "memory_gb_per_s": OptionSpec(int, None, "bandwidth of the device memory"),
    "halves_float32_sums": OptionSpec(
        bool, None, "whether tensor cores take twice as long for sums of float32, as on cards for desktops"
    ),
    "max_block_size_x": OptionSpec(int, None, "threads per block along x"),
    "max_block_size_y": OptionSpec(int, None, "threads per block along y"),
    "max_block_size_z": OptionSpec(int, None, "threads per block along z"),
}

_CUDA = {
    **_GPU,
    "thread_warp_size": OptionSpec(
        int, WARP, "threads that run in lockstep: so many on every CUDA device", minimum=WARP, maximum=WARP
    ),
}

_ONE_ARTEFACT = "a build makes an executable, which export_library writes; there are no other forms"
_ARITHMETIC = "what floating-point arithmetic means is fixed, and nothing relaxes it"
_ALIGNMENT = "workspaces and constants are aligned to 64 bytes"
_REFUSED: dict[str, str] = {
    **dict.fromkeys(("runtime", "system-lib", "interface-api", "unpacked-api", "executor"), _ONE_ARTEFACT),
    **dict.fromkeys(("workspace-byte-alignment", "constants-byte-alignment"), _ALIGNMENT),
    "fast-math": _ARITHMETIC,
    **{f"fast-math-{flag}": _ARITHMETIC for flag in ("nnan", "ninf", "nsz", "arcp", "contract", "reassoc")},
    "cl-opt": "LLVM's command-line options belong to the process and not to a target",
    "jit": "objects are loaded in one way",
    "libs": "no library is called on its own; use FuseOpsByPattern and RunCodegen",
    "march": "-mtriple names the architecture",
    "mfloat-abi": "-mabi and -mattr say how floats are passed",
    **dict.fromkeys(
        ("mcpu", "mtriple", "mattr"), "LLVM makes no code for this kind; a CUDA device is told by -arch"
    ),
    "texture_spatial_limit": "nothing asks for textures",
    **{
        f"supports_{what}": "nothing asks which types a device has"
        for what in ("float16", "float32", "float64", "int8", "int16", "int32", "int64")
    },
}
"""Options that other compilers take, and why there are none here."""


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
        raise unknown_kind(name) from None


_MEANT = {"gpu": "cuda", "nvidia": "cuda", "hip": "rocm", "amdgpu": "rocm", "x86": "cpu", "host": "cpu"}
"""What others call a kind."""


def unknown_kind(name: str) -> TargetError:
    """What is said of a name that no kind has."""
    meant = _MEANT.get(name.lower())
    hint = f"; did you mean {meant!r}?" if meant else did_you_mean(name, ["cpu", *_KINDS])
    return TargetError(f"unknown target kind {name!r}; there are: cpu, {', '.join(sorted(_KINDS))}{hint}")


def list_kinds() -> list[str]:
    """The names of all kinds."""
    return sorted(_KINDS)


register_kind("llvm", 1, ("cpu",), _CPU)
register_kind("c", 1, ("cpu",), _CPU)
register_kind("cuda", 2, ("cuda", "gpu"), _CUDA)
register_kind("nvptx", 2, ("cuda", "gpu"), _CUDA)
register_kind("rocm", 10, ("rocm", "gpu"), {**_GPU, "thread_warp_size": OptionSpec(int, 64)})
register_kind("opencl", 4, ("opencl", "gpu"), {**_GPU, "max_num_threads": OptionSpec(int, 256)})
register_kind("metal", 8, ("metal", "gpu"), {**_GPU, "max_num_threads": OptionSpec(int, 256)})
register_kind("vulkan", 7, ("vulkan", "gpu"), _GPU)
register_kind("webgpu", 15, ("webgpu", "gpu"), {**_GPU, "max_num_threads": OptionSpec(int, 256)})
register_kind("ext_dev", 12, ())

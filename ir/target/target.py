"""Target: what code is generated for, made from a kind name, a command-line-like string, JSON, a dict or a tag."""

from __future__ import annotations

import json
import shlex
import threading
from typing import Any

from .. import dtype as dt
from ..node import Node, field
from .cuda_device import cuda_attributes
from .description import checked, config_of, option_text
from .error import TargetError
from .float_support import has_arithmetic, has_conversion, has_half_extremes
from .gpu_facts import (
    MAX_REGISTERS_OF_THREAD,
    STATIC_SHARED_MEMORY_BYTES,
    MultiprocessorFacts,
    architecture_number,
    multiprocessor_facts,
)
from .host import CpuFacts, available_cores, facts_of_cpu
from .kind import CUDA_KINDS, TargetKind, get_kind, list_kinds
from .tensor_core import (
    TensorCoreShape,
    has_async_copy,
    has_bulk_tensor_copy,
    has_clusters,
    has_load_matrix,
    has_store_matrix,
    has_warpgroup_mma,
    tensor_core_shapes,
)
from .tensor_core_rate import tensor_core_rate

_LARGE_CARD = "sm_80"
"""The architecture whose facts GPU targets have that do not say theirs."""
_LARGE_CARD_L2 = 40 << 20


class _Scope(threading.local):
    def __init__(self) -> None:
        self.stack: list[Target] = []


_SCOPE = _Scope()


class Target(Node, type_key="Target"):
    """A target: a kind with options. Targets compare by value, and are scopes: ``with target:``.

    >>> target = Target("llvm -mcpu=znver4 -num-cores 2")
    >>> target.kind.name, target.attrs["mcpu"], target.num_cores
    ('llvm', 'znver4', 2)
    >>> Target(str(target)) == target
    True

    Args:
        target: a kind name, ``"cpu"`` (the host: llvm with its mcpu and number of cores filled in), a string of options as
            above, JSON text, a dict with the key ``"kind"``, a tag such as ``"nvidia/nvidia-a100"``, or a Target.
        host: likewise, the target of host-side code.

    Raises:
        TargetError: the kind, an option or a value is not acceptable.
    """

    kind_name: str
    tag: str
    keys: tuple[str, ...] = field(kind="leaf")
    attrs: dict[str, Any] = field(kind="leaf")
    host: Target = field(default=None)

    def __init__(self, target: Any, host: Any = None) -> None:
        config = target._config() if isinstance(target, Target) else config_of(target)
        if host is None:
            host = config.pop("host", None)
        else:
            config.pop("host", None)
        kind, tag, keys, attrs = checked(config)
        _set_kind(self, kind.name)
        _set_tag(self, tag)
        _set_keys(self, keys)
        _set_attrs(self, attrs)
        _set_host(self, host if host is None or isinstance(host, Target) else Target(host))

    @classmethod
    def _from_json(cls, values: dict[str, Any]) -> Target:
        config = {
            "kind": values["kind_name"],
            "tag": values["tag"],
            "keys": list(values["keys"]),
            **values["attrs"],
        }
        return cls(config, values.get("host"))

    def _config(self) -> dict[str, Any]:
        """What it was made from."""
        config = {"kind": self.kind_name, "tag": self.tag, "keys": list(self.keys), **self.attrs}
        return config if self.host is None else {**config, "host": self.host}

    def replace(self, **changes: Any) -> Target:
        """A copy with some fields (``attrs``, ``keys``, ``tag``, ``host``) changed."""
        config = self._config()
        config.pop("host", None)
        if "attrs" in changes:
            attrs = changes.pop("attrs")
            config = {name: config[name] for name in ("kind", "tag", "keys")} | attrs
        host = changes.pop("host", self.host)
        unknown = changes.keys() - {"tag", "keys"}
        if unknown:
            raise TargetError(
                f"a target has no field {sorted(unknown)}; its fields are tag, keys, attrs and host"
            )
        return Target({**config, **changes}, host)

    # -- scopes -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Target:
        _SCOPE.stack.append(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        _SCOPE.stack.pop()

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost ``with target:`` in this thread; raises TargetError for none if that is not allowed."""
        if _SCOPE.stack:
            return _SCOPE.stack[-1]
        if allow_none:
            return None
        raise TargetError("no target is in scope; write `with Target(...):` around the code")

    # -- forms --------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> TargetKind:
        """The kind."""
        return get_kind(self.kind_name)

    def export(self) -> dict[str, Any]:
        """The target as a dict that ``Target(...)`` accepts, of plain JSON values."""
        config: dict[str, Any] = {"kind": self.kind_name, "tag": self.tag, "keys": list(self.keys)}
        for name in sorted(self.attrs):
            value = self.attrs[name]
            config[name] = list(value) if isinstance(value, tuple) else value
        if self.host is not None:
            config["host"] = self.host.export()
        return config

    def __str__(self) -> str:
        parts = [self.kind_name]
        if self.keys:
            parts.append(f"-keys={','.join(self.keys)}")
        for name in sorted(self.attrs):
            parts.append(f"-{name}={option_text(self.attrs[name])}")
        if self.tag:
            parts.append(f"-tag={self.tag}")
        if self.host is not None:
            parts.append(f"-host={shlex.quote(str(self.host))}")
        return " ".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _identity(self) -> str:
        return json.dumps(self.export(), sort_keys=True)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Target) and self._identity() == other._identity())

    def __hash__(self) -> int:
        return hash(self._identity())

    # -- host ---------------------------------------------------------------------------------------------------

    def with_host(self, host: Any) -> Target:
        """A copy with another host target."""
        return self.replace(host=Target(host) if host is not None and not isinstance(host, Target) else host)

    def without_host(self) -> Target:
        """A copy without a host target."""
        return self.replace(host=None)

    @staticmethod
    def canon_target(target: Any) -> Target | None:
        """A Target from whatever describes one; None stays None."""
        return target if target is None or isinstance(target, Target) else Target(target)

    @staticmethod
    def canon_target_and_host(target: Any, target_host: Any = None) -> tuple[Target | None, Target | None]:
        """A target that carries its host, and that host."""
        canon = Target.canon_target(target)
        if canon is not None and target_host is not None:
            canon = canon.with_host(target_host)
        return canon, None if canon is None else canon.host

    # -- facts --------------------------------------------------------------------------------------------------

    def get_kind_attr(self, attr_name: str) -> Any:
        """The kind's default of an option."""
        return self.kind.option(attr_name).default

    def get_target_device_type(self) -> int:
        """DLPack's device type."""
        return self.kind.device_type

    @property
    def device_type(self) -> str:
        """What runs its code, as runners call it: ``"cuda"`` or ``"cpu"``."""
        return "cuda" if self.kind_name == "cuda" else "cpu"

    def _fact(self, *names: str) -> int | None:
        for name in names:
            if self.attrs.get(name) is not None:
                return int(self.attrs[name])
        for name in names:
            spec = self.kind.options.get(name)
            if spec is not None and spec.default is not None:
                return int(spec.default)
        return None

    @property
    def is_gpu(self) -> bool:
        """Whether loops are bound to thread axes on it."""
        return "gpu" in self.keys

    @property
    def model(self) -> str:
        """The product's name, ``"unknown"`` if not set."""
        return str(self.attrs.get("model") or "unknown")

    @property
    def mcpu(self) -> str:
        """LLVM's cpu name, "" if not set."""
        return str(self.attrs.get("mcpu") or "")

    @property
    def mattr(self) -> list[str]:
        """LLVM features, each with its sign."""
        return list(self.attrs.get("mattr") or ())

    @property
    def arch(self) -> str:
        """Compute architecture of a GPU, such as ``sm_90``; "" if not set."""
        return str(self.attrs.get("arch") or "")

    @property
    def features(self) -> CpuFacts:
        """Vector and cache facts of a CPU target."""
        return self._cpu_facts()

    def _cpu_facts(self) -> CpuFacts:
        return facts_of_cpu(self.mcpu, str(self.attrs.get("mtriple") or ""), tuple(self.mattr))

    @property
    def num_cores(self) -> int:
        """Cores that a parallel loop may use: ``-num-cores``, or what this process may use."""
        return self._fact("num-cores") or available_cores()

    @property
    def vector_bits(self) -> int:
        """Bits of a vector register (128 for a GPU: the widest single access of a thread)."""
        return self._fact("vector-width") or (128 if self.is_gpu else self._cpu_facts().vector_bits)

    @property
    def vector_registers(self) -> int:
        """Number of vector registers."""
        return self._fact("vector-registers") or (
            MAX_REGISTERS_OF_THREAD if self.is_gpu else self._cpu_facts().vector_registers
        )

    @property
    def l1_cache_bytes(self) -> int:
        """Level-1 data cache of a core."""
        return self._fact("l1-cache-bytes") or self._cpu_facts().l1_cache_bytes

    @property
    def l2_cache_bytes(self) -> int:
        """Level-2 cache: of a core, or of the GPU (where nobody has said so that of a large card)."""
        found = self._fact("l2-cache-bytes", "l2_cache_size_bytes")
        return found or (_LARGE_CARD_L2 if self.is_gpu else self._cpu_facts().l2_cache_bytes)

    @property
    def l3_cache_bytes(self) -> int:
        """Last-level cache, shared by the cores."""
        return self._fact("l3-cache-bytes") or self._cpu_facts().l3_cache_bytes

    @property
    def cache_ways(self) -> tuple[int, int, int]:
        """Places that a line may have in a cache of each level of a CPU target."""
        facts = self._cpu_facts()
        return (facts.l1_cache_ways, facts.l2_cache_ways, facts.l3_cache_ways)

    @property
    def l3_cache_cores(self) -> int:
        """Cores of :attr:`num_cores` that share one last-level cache."""
        return min(self.num_cores, self._cpu_facts().l3_cache_cores or self.num_cores)

    @property
    def cache_line_bytes(self) -> int:
        """Bytes of a cache line."""
        return 128 if self.is_gpu else self._cpu_facts().cache_line_bytes

    @property
    def max_num_threads(self) -> int:
        """Threads of a block."""
        return self._fact("max_threads_per_block", "max_num_threads") or 1

    @property
    def max_threads_per_block(self) -> int:
        """Threads of a block."""
        return self.max_num_threads

    @property
    def max_block_size_x(self) -> int:
        """Threads of a block along x."""
        return self._fact("max_block_size_x") or self.max_num_threads

    @property
    def max_block_size_y(self) -> int:
        """Threads of a block along y."""
        return self._fact("max_block_size_y") or self.max_num_threads

    @property
    def max_block_size_z(self) -> int:
        """Threads of a block along z."""
        return self._fact("max_block_size_z") or 64

    @property
    def max_vthread_extent(self) -> int:
        """Virtual threads of a thread."""
        return self._fact("max_vthread_extent") or 8

    @property
    def max_local_memory_per_block(self) -> int | None:
        """Bytes of local memory of a thread; None where nobody has said so."""
        return self._fact("max_local_memory_per_block")

    @property
    def thread_warp_size(self) -> int:
        """Threads in lockstep."""
        return self._fact("thread_warp_size") or 1

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory of a block whose size the program says."""
        found = self._fact("max_shared_memory_per_block", "shared_memory_per_block")
        return found or STATIC_SHARED_MEMORY_BYTES

    @property
    def max_shared_memory_per_block_optin(self) -> int:
        """Bytes of shared memory that a launch may ask for, for a block: no more than a program may say where that was made less."""
        found = self._fact("max_shared_memory_per_block_optin")
        if found is not None:
            return found
        declared = self.max_shared_memory_per_block
        if not self._cuda_arch or declared < STATIC_SHARED_MEMORY_BYTES:
            return declared
        return max(declared, self.multiprocessor.shared_memory_per_block_optin)

    @property
    def shared_memory_per_multiprocessor(self) -> int:
        """Bytes of shared memory that the blocks of a multiprocessor have together."""
        return self._fact("shared_memory_per_multiprocessor") or self.multiprocessor.shared_memory_bytes

    @property
    def registers_per_block(self) -> int:
        """32-bit registers of a block."""
        return self._fact("registers_per_block") or 65536

    @property
    def multiprocessor(self) -> MultiprocessorFacts:
        """What a multiprocessor has, by the architecture; of kinds and targets that say none, that of a large card."""
        return multiprocessor_facts(self._cuda_arch or _LARGE_CARD)

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        """Major and minor number of a CUDA architecture; None of other targets."""
        return divmod(architecture_number(self._cuda_arch), 10) if self._cuda_arch else None

    @property
    def _cuda_arch(self) -> str:
        """The architecture of a CUDA target, "" of others, whose architectures have other names."""
        return self.arch if self.kind_name in CUDA_KINDS else ""

    def tensor_core_shapes(
        self, dtype_a: str, dtype_acc: str, instruction: str = "mma"
    ) -> tuple[TensorCoreShape, ...]:
        """Shapes (m, n, k) of products that a tensor core computes at once, smallest first; none where there are no such.

        >>> Target("nvidia/nvidia-a100").tensor_core_shapes("float16", "float32")[-1]
        TensorCoreShape(m=16, n=8, k=16)

        Args:
            dtype_a: of both operands; ``"tf32"`` for float32 operands that are rounded to 10 bits of fraction.
            dtype_acc: of what the products are added to.
            instruction: ``"mma"`` of a warp, ``"wmma"`` (the tiles of C++), or ``"wgmma"`` of four warps.
        """
        return tensor_core_shapes(self._cuda_arch, dtype_a, dtype_acc, instruction) if self._cuda_arch else ()

    def computes_with(self, dtype: str) -> bool:
        """Whether there are instructions that add and multiply floats of a dtype.

        >>> Target("nvidia/tesla-t4").computes_with("bfloat16"), Target("nvidia/nvidia-a100").computes_with("bfloat16")
        (False, True)
        """
        if dt.bits(dtype) >= 32:
            return True
        if not self._cuda_arch:
            return dt.element_of(dtype) == "float16"
        return has_arithmetic(dt.element_of(dtype), architecture_number(self._cuda_arch))

    def converts(self, dtype: str) -> bool:
        """Whether code generation rounds numbers to floats of a dtype: on GPUs by instructions, which not all have.

        >>> Target("nvidia/nvidia-a100").converts("float8_e4m3fn"), Target("nvidia/h200").converts("float8_e4m3fn")
        (False, True)
        """
        if dt.bits(dtype) >= 32 or not self._cuda_arch:
            return True
        return has_conversion(dt.element_of(dtype), architecture_number(self._cuda_arch))

    @property
    def has_half_extremes(self) -> bool:
        """Whether there are instructions for the smaller and the larger of two floats of 16 bits."""
        return bool(self._cuda_arch) and has_half_extremes(architecture_number(self._cuda_arch))

    def tensor_core_rate(self, dtype_a: str, dtype_acc: str, instruction: str = "mma") -> float:
        """Multiply-adds of a cycle of a multiprocessor's tensor cores; 0 where there are no such products.

        >>> Target("nvidia/nvidia-t4").tensor_core_rate("int8", "int32")
        1024.0

        Args:
            dtype_a, dtype_acc, instruction: as for :meth:`tensor_core_shapes`.
        """
        if not self._cuda_arch:
            return 0.0
        halves = bool(self.attrs.get("halves_float32_sums"))
        return tensor_core_rate(self._cuda_arch, dtype_a, dtype_acc, instruction, halves)

    @property
    def supports_load_matrix(self) -> bool:
        """Whether a warp loads tiles of operands from shared memory at once (``ldmatrix``)."""
        return bool(self._cuda_arch) and has_load_matrix(self._cuda_arch)

    @property
    def supports_store_matrix(self) -> bool:
        """Whether a warp stores such tiles at once (``stmatrix``)."""
        return bool(self._cuda_arch) and has_store_matrix(self._cuda_arch)

    @property
    def supports_async_copy(self) -> bool:
        """Whether threads need not wait for copies from global to shared memory (``cp.async``)."""
        return bool(self._cuda_arch) and has_async_copy(self._cuda_arch)

    @property
    def supports_bulk_tensor_copy(self) -> bool:
        """Whether one thread copies a box of a tensor (``cp.async.bulk.tensor``)."""
        return bool(self._cuda_arch) and has_bulk_tensor_copy(self._cuda_arch)

    @property
    def supports_warpgroup_mma(self) -> bool:
        """Whether four warps compute a product from shared memory without waiting for it (``wgmma``)."""
        return bool(self._cuda_arch) and has_warpgroup_mma(self._cuda_arch)

    @property
    def supports_clusters(self) -> bool:
        """Whether blocks of a cluster read each other's shared memory."""
        return bool(self._cuda_arch) and has_clusters(self._cuda_arch)

    @property
    def multi_processor_count(self) -> int:
        """Streaming multiprocessors of a GPU; where nobody has said so those of a large card."""
        return self._fact("multi_processor_count") or 108

    @property
    def clock_mhz(self) -> int:
        """Clock of a GPU's multiprocessors."""
        return self._fact("clock_mhz") or 1500

    @property
    def memory_gb_per_s(self) -> int:
        """Bandwidth of a GPU's memory, 10^9 bytes per second."""
        return self._fact("memory_gb_per_s") or 1000

    @staticmethod
    def list_kinds() -> list[str]:
        """The names of all kinds."""
        return list_kinds()

    @staticmethod
    def from_device(device: Any) -> Target:
        """The target of a device of this machine, given as ``"cpu"``, ``"cuda:0"`` or a device object."""
        text = str(device)
        if text.startswith(("cpu", "llvm")):
            return Target("cpu")
        if text.startswith("cuda"):
            index = int("".join(filter(str.isdigit, text)) or 0)
            found = cuda_attributes(index)
            if found is None:
                raise TargetError(f"there is no CUDA device {index} on this machine")
            return Target({"kind": "cuda", **found})
        raise TargetError(f"no target is known for device {text!r}")


_set_kind = Target.kind_name.__set__  # type: ignore[attr-defined]
_set_tag = Target.tag.__set__  # type: ignore[attr-defined]
_set_keys = Target.keys.__set__  # type: ignore[attr-defined]
_set_attrs = Target.attrs.__set__  # type: ignore[attr-defined]
_set_host = Target.host.__set__  # type: ignore[attr-defined]

"""Checks of device programs: no host access to device memory, and the limits of a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ... import dtype as dt
from ...error import IRValueError
from ...module import IRModule
from ...node import Visitor
from ...target.gpu_facts import ACCESS_BYTES, MOST_BLOCKS
from ...target.target import Target
from .. import expr as E
from .. import stmt as S
from ..function import PrimFunc


class _HostAccess(Visitor):
    """Finds accesses of parameters outside of thread axes."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []
        self._inside = 0
        self._local: set[Any] = set()

    def visit_AttrStmt(self, stmt: S.AttrStmt) -> None:
        inside = stmt.attr_key in ("thread_extent", "pipeline_exec_scope", "device_scope")
        self._inside += inside
        self.generic_visit(stmt)
        self._inside -= inside

    def visit_For(self, loop: S.For) -> None:
        inside = loop.kind == S.ForKind.THREAD_BINDING
        self._inside += inside
        self.generic_visit(loop)
        self._inside -= inside

    def _access(self, node: Any, verb: str) -> None:
        if not self._inside:
            self.problems.append(
                f"buffer {node.buffer.name} is {verb} by host code; bind a loop around it to threads"
            )
        self.generic_visit(node)

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        self._access(load, "read")

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self._access(store, "written")


def _is_device(func: PrimFunc) -> bool:
    target = func.attrs.get("target")
    if target is None:
        target = Target.current()
    return target is not None and bool(getattr(target, "is_gpu", False))


def verify_memory(func: PrimFunc | IRModule) -> bool:
    """Whether a function for a GPU target touches memory only inside of thread axes; CPU functions always pass."""
    if isinstance(func, IRModule):
        return all(verify_memory(item) for item in func.functions.values() if isinstance(item, PrimFunc))
    if not _is_device(func):
        return True
    visitor = _HostAccess()
    visitor.visit(func.body)
    return not visitor.problems


_LIMITS = (
    "max_local_memory_per_block",
    "max_shared_memory_per_block",
    "max_dynamic_shared_memory_per_block",
    "max_threads_per_block",
    "max_thread_x",
    "max_thread_y",
    "max_thread_z",
    "max_blocks_x",
    "max_blocks_y",
    "max_blocks_z",
    "max_vthread",
    "max_vector_bytes",
    "max_kernels",
)


def limits_of(target: Target) -> dict[str, int]:
    """What a kernel of a GPU may have, under the names that :func:`verify_gpu_code` knows; local memory only where the target says it."""
    limits = {
        "max_shared_memory_per_block": target.max_shared_memory_per_block_optin,
        "max_dynamic_shared_memory_per_block": target.max_shared_memory_per_block_optin,
        "max_threads_per_block": target.max_threads_per_block,
        "max_vthread": target.max_vthread_extent,
        "max_vector_bytes": ACCESS_BYTES,
        **{f"max_thread_{axis}": getattr(target, f"max_block_size_{axis}") for axis in "xyz"},
        **{f"max_blocks_{axis}": count for axis, count in MOST_BLOCKS.items()},
    }
    if target.max_local_memory_per_block is not None:
        limits["max_local_memory_per_block"] = target.max_local_memory_per_block
    return {name: int(limit) for name, limit in limits.items()}


class _Kernels(Visitor):
    """Adds up, kernel by kernel, what the limits are about."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        super().__init__()
        self._limits = limits
        self.problems: list[str] = []
        self.kernels = 0
        self._depth = 0
        self._reset()

    def _reset(self) -> None:
        self._threads: dict[str, int] = {}
        self._memory = {"local": 0, "shared": 0, "shared.dyn": 0}

    def _check(self, what: str, value: int) -> None:
        limit = self._limits.get(what)
        if limit is not None and value > limit:
            self.problems.append(f"{what}: {value} is more than the limit {limit}")

    def _axis(self, tag: str, extent: Any, body: Any) -> None:
        if not tag or not isinstance(extent, E.IntImm):
            self.visit(body)
            return
        if tag.startswith("vthread"):
            self._check("max_vthread", extent.value)
        if self._depth == 0:
            self._reset()
            self.kernels += 1
        self._depth += 1
        if tag.startswith("blockIdx"):
            self._check(f"max_blocks_{tag[-1]}", extent.value)
        if tag.startswith("threadIdx"):
            known = self._threads.get(tag)
            if known is not None and known != extent.value:
                self.problems.append(f"{tag} has extents {known} and {extent.value} in one kernel")
            self._threads[tag] = extent.value
            self._check(f"max_thread_{tag[-1]}", extent.value)
            total = 1
            for value in self._threads.values():
                total *= value
            self._check("max_threads_per_block", total)
        self.visit(body)
        self._depth -= 1
        if self._depth == 0:
            self._check("max_shared_memory_per_block", self._memory["shared"])
            self._check("max_dynamic_shared_memory_per_block", self._memory["shared.dyn"])
            self._check("max_local_memory_per_block", self._memory["local"])

    def visit_AttrStmt(self, stmt: S.AttrStmt) -> None:
        if stmt.thread is not None:
            tag = "vthread" if stmt.attr_key == "virtual_thread" else stmt.thread.thread_tag
            self._axis(tag, stmt.value, stmt.body)
        else:
            self.visit(stmt.body)

    def visit_For(self, loop: S.For) -> None:
        if loop.kind == S.ForKind.THREAD_BINDING and loop.thread_binding is not None:
            self._axis(loop.thread_binding.thread_tag, loop.extent, loop.body)
            return
        if loop.kind == S.ForKind.VECTORIZED and isinstance(loop.extent, E.IntImm):
            outer, self._vector = self._vector, loop.extent.value
            self.generic_visit(loop)
            self._vector = outer
            return
        self.generic_visit(loop)

    _vector = 1

    def _allocate(self, scope: str, dtype: str, extents: Any) -> None:
        size = dt.bytes_of(dtype)
        for extent in extents:
            if not isinstance(extent, E.IntImm):
                return
            size *= extent.value
        kind = next((kind for kind in reversed(self._memory) if scope.startswith(kind)), None)
        if kind is not None:
            self._memory[kind] += size

    def visit_Allocate(self, stmt: S.Allocate) -> None:
        self._allocate(
            getattr(stmt.buffer_var.type_annotation, "storage_scope", ""), stmt.dtype, stmt.extents
        )
        self._width(stmt.dtype)
        self.visit(stmt.body)

    def visit_Block(self, block: S.Block) -> None:
        for buffer in block.alloc_buffers:
            # rows that begin at strides of their own have gaps between them
            extents = (buffer.shape[0], buffer.strides[0]) if buffer.strides else buffer.shape
            self._allocate(buffer.scope(), buffer.dtype, extents)
        self.generic_visit(block)

    def _width(self, dtype: str) -> None:
        if dt.code(dtype) not in ("void", "handle"):
            self._check("max_vector_bytes", dt.bytes_of(dtype) * self._vector)

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        self._width(load.dtype)
        for index in load.indices:
            self.visit(index)

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self._width(store.value.dtype)
        self.visit(store.value)

    def visit_Buffer(self, buffer: Any) -> None:
        """Declarations cost nothing."""


def gpu_code_problems(func: PrimFunc, constraints: Mapping[str, int]) -> list[str]:
    """What in a GPU function is beyond the limits; see :func:`verify_gpu_code`."""
    limits = {key: int(getattr(value, "value", value)) for key, value in constraints.items()}
    unknown = limits.keys() - set(_LIMITS)
    if unknown:
        raise IRValueError(f"verify_gpu_code has no limit {sorted(unknown)}; there are {', '.join(_LIMITS)}")
    visitor = _Kernels(limits)
    visitor.visit(func.body)
    if "max_kernels" in limits and visitor.kernels > limits["max_kernels"]:
        visitor.problems.append(
            f"max_kernels: {visitor.kernels} is more than the limit {limits['max_kernels']}"
        )
    return visitor.problems


def verify_gpu_code(func: PrimFunc | IRModule, constraints: Mapping[str, int]) -> bool:
    """Whether a GPU function (scheduled or lowered) keeps within limits of its device.

    Args:
        func: a function or a module.
        constraints: limits by name: ``max_threads_per_block``, ``max_shared_memory_per_block`` (what is declared) and
            ``max_dynamic_shared_memory_per_block`` (what a launch asks for, all of it at one time), ``max_local_memory_per_block``,
            ``max_thread_x`` (y, z), ``max_blocks_x`` (y, z), ``max_vthread``, ``max_vector_bytes``, ``max_kernels``.
            :func:`limits_of` has those of a target.
    """
    if isinstance(func, IRModule):
        return all(
            verify_gpu_code(f, constraints) for f in func.functions.values() if isinstance(f, PrimFunc)
        )
    return not gpu_code_problems(func, constraints)

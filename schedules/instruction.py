"""Instructions: the steps of a trace, one kind per primitive, in one table that says how each replays on a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .error import TraceError

if TYPE_CHECKING:
    from .schedule import Schedule

Apply = Callable[["Schedule", Sequence[Any], Sequence[Any], Any], Any]


@dataclass(frozen=True, eq=False)
class InstructionKind:
    """A kind of instruction.

    Attributes:
        name: the name in JSON, such as ``Split``.
        is_pure: whether it changes nothing and may be dropped when its outputs are unused.
        takes_decision: whether it samples.
        apply: replays it: (schedule, inputs, attrs, decision) -> outputs.
    """

    name: str
    apply: Apply
    is_pure: bool = False
    takes_decision: bool = False

    @staticmethod
    def get(name: str) -> InstructionKind:
        """The kind called ``name``; raises TraceError listing what there is."""
        kind = KINDS.get(name)
        if kind is None:
            raise TraceError(f"unknown instruction {name!r}; known are {', '.join(sorted(KINDS))}")
        return kind

    @property
    def is_postproc(self) -> bool:
        """Whether it separates the design-space part of a trace from postprocessing."""
        return self.name == "EnterPostproc"

    def __repr__(self) -> str:
        return f"InstructionKind({self.name})"


@dataclass(frozen=True, eq=False)
class Instruction:
    """One step: its kind, the random variables and numbers it takes, its constant attributes, and what it returns."""

    kind: InstructionKind
    inputs: tuple[Any, ...]
    attrs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    def __repr__(self) -> str:
        return (
            f"{self.kind.name}(inputs={list(self.inputs)}, attrs={list(self.attrs)}) -> {list(self.outputs)}"
        )


def _on_block(method: str) -> Apply:
    """The method called with the block and the attributes."""
    return lambda sch, inputs, attrs, _decision: getattr(sch, method)(inputs[0], *attrs)


def _on_all(method: str) -> Apply:
    """The method called with all inputs, then the attributes."""
    return lambda sch, inputs, attrs, _decision: getattr(sch, method)(*inputs, *attrs)


def _get_block(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.get_block(attrs[0], func_name=attrs[1])


def _split(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.split(inputs[0], list(inputs[1:]), *[bool(item) for item in attrs])


def _cache_read(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.cache_read(inputs[0], attrs[0], attrs[1], _consumers(inputs))


def _cache_write(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.cache_write(inputs[0], attrs[0], attrs[1], _consumers(inputs))


def _consumers(inputs: Sequence[Any]) -> list[Any] | None:
    """The consumer blocks of a copy: a list behind the block (traces of earlier versions list them one by one)."""
    nested = len(inputs) == 2 and isinstance(inputs[1], list | tuple)
    return list(inputs[1] if nested else inputs[1:]) or None


def _annotate(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.annotate(inputs[0], attrs[0], inputs[1])


def _perfect_tile(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.sample_perfect_tile(inputs[0], attrs[0], attrs[1], decision=decision)


def _categorical(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.sample_categorical(attrs[0], attrs[1], decision=decision)


def _compute_location(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.sample_compute_location(inputs[0], decision=decision)


def _transform_layout(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    index, is_write, index_map, pad_value, injective = attrs
    which = ("write" if is_write else "read", index)
    return sch.transform_layout(
        inputs[0], which, index_map, pad_value, assume_injective_transform=bool(injective)
    )


def _reindex(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.reindex(inputs[0], ("write" if attrs[1] else "read", attrs[0]))


def _set_axis_separator(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.set_axis_separator(inputs[0], ("write" if attrs[1] else "read", attrs[0]), attrs[2])


def _loop_partition(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.loop_partition(inputs[0], list(inputs[1:]), bool(attrs[0]))


def _partitioned_tile(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.sample_partitioned_tile(inputs[0], attrs[0], attrs[1], attrs[2], decision=decision)


def _enter_postproc(sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any) -> Any:
    return sch.enter_postproc()


KINDS: dict[str, InstructionKind] = {
    kind.name: kind
    for kind in (
        InstructionKind("GetBlock", _get_block, is_pure=True),
        InstructionKind("GetLoops", _on_block("get_loops"), is_pure=True),
        InstructionKind("GetChildBlocks", _on_block("get_child_blocks"), is_pure=True),
        InstructionKind("GetProducers", _on_block("get_producers"), is_pure=True),
        InstructionKind("GetConsumers", _on_block("get_consumers"), is_pure=True),
        InstructionKind("GetOutputBlocks", _on_block("get_output_blocks"), is_pure=True),
        InstructionKind("SamplePerfectTile", _perfect_tile, is_pure=True, takes_decision=True),
        InstructionKind("SampleCategorical", _categorical, is_pure=True, takes_decision=True),
        InstructionKind("SampleComputeLocation", _compute_location, is_pure=True, takes_decision=True),
        InstructionKind("Split", _split),
        InstructionKind(
            "Fuse", lambda sch, inputs, attrs, _: sch.fuse(*inputs, preserve_unit_iters=bool(attrs[0]))
        ),
        InstructionKind("Reorder", _on_all("reorder")),
        InstructionKind("AddUnitLoop", _on_block("add_unit_loop")),
        InstructionKind("Parallel", _on_block("parallel")),
        InstructionKind("Vectorize", _on_block("vectorize")),
        InstructionKind("Unroll", _on_block("unroll")),
        InstructionKind("Bind", _on_block("bind")),
        InstructionKind("CacheRead", _cache_read),
        InstructionKind("CacheWrite", _cache_write),
        InstructionKind("ComputeAt", _on_all("compute_at")),
        InstructionKind("ReverseComputeAt", _on_all("reverse_compute_at")),
        InstructionKind("ComputeInline", _on_block("compute_inline")),
        InstructionKind("ReverseComputeInline", _on_block("reverse_compute_inline")),
        InstructionKind("DecomposeReduction", _on_all("decompose_reduction")),
        InstructionKind("RFactor", _on_block("rfactor")),
        InstructionKind("Annotate", _annotate),
        InstructionKind("Unannotate", _on_block("unannotate")),
        InstructionKind("TransformLayout", _transform_layout),
        InstructionKind("TransformBlockLayout", _on_block("transform_block_layout")),
        InstructionKind("SetScope", _on_block("set_scope")),
        InstructionKind("StorageAlign", _on_block("storage_align")),
        InstructionKind("SamplePartitionedTile", _partitioned_tile, is_pure=True, takes_decision=True),
        InstructionKind("LoopPartition", _loop_partition),
        InstructionKind("Merge", _on_all("merge")),
        InstructionKind("Blockize", _on_block("blockize")),
        InstructionKind("Tensorize", _on_block("tensorize")),
        InstructionKind("ReIndex", _reindex),
        InstructionKind("ReindexCacheRead", _on_block("reindex_cache_read")),
        InstructionKind("ReindexCacheWrite", _on_block("reindex_cache_write")),
        InstructionKind("CacheInplace", _on_block("cache_inplace")),
        InstructionKind("CacheIndex", _on_block("cache_index")),
        InstructionKind("ReadAt", _on_all("read_at")),
        InstructionKind("WriteAt", _on_all("write_at")),
        InstructionKind("RollingBuffer", _on_block("rolling_buffer")),
        InstructionKind("DecomposePadding", _on_all("decompose_padding")),
        InstructionKind("PadEinsum", _on_block("pad_einsum")),
        InstructionKind("ReorderBlockIterVar", _on_block("reorder_block_iter_var")),
        InstructionKind("SetAxisSeparator", _set_axis_separator),
        InstructionKind("UnsafeSetDType", _on_block("unsafe_set_dtype")),
        InstructionKind("UnsafeHideBufferAccess", _on_block("unsafe_hide_buffer_access")),
        InstructionKind("AnnotateBufferAccess", _on_block("annotate_buffer_access")),
        InstructionKind("EnterPostproc", _enter_postproc),
    )
}
"""Every instruction kind by name; a new primitive adds a line here and a method to Schedule."""


def register_instruction_kind(kind: InstructionKind) -> InstructionKind:
    """Add a kind (for primitives defined outside this package)."""
    if kind.name in KINDS:
        raise TraceError(f"instruction {kind.name!r} is registered already")
    KINDS[kind.name] = kind
    return kind

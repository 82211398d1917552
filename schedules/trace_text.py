"""Traces as Python: every instruction becomes the call that made it, so that the text runs on a schedule called ``sch``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir import tir

from .instruction import Instruction
from .random_variable import BlockRV, ExprRV, LoopRV

_METHOD_NAMES = {"RFactor": "rfactor", "ReIndex": "reindex", "UnsafeSetDType": "unsafe_set_dtype"}

_LISTS = frozenset(
    "GetLoops GetChildBlocks GetProducers GetConsumers GetOutputBlocks Split LoopPartition SamplePerfectTile"
    " SamplePartitionedTile CacheInplace CacheIndex".split()
)
"""Kinds whose method returns a list, even of one."""

_PARAMETERS: dict[str, str] = {
    "GetBlock": "| name func_name",
    "GetLoops": "block |",
    "GetProducers": "block |",
    "GetConsumers": "block |",
    "GetOutputBlocks": "scope_block |",
    "SamplePerfectTile": "loop | n max_innermost_factor",
    "SamplePartitionedTile": "loop | n partition_pos innerpart_factor",
    "SampleCategorical": "| candidates probs",
    "SampleComputeLocation": "block |",
    "AddUnitLoop": "block_or_loop |",
    "Parallel": "loop |",
    "Vectorize": "loop |",
    "Unroll": "loop |",
    "Bind": "loop | thread_axis",
    "ComputeAt": "block loop | preserve_unit_loops index",
    "ReverseComputeAt": "block loop | preserve_unit_loops index",
    "ComputeInline": "block |",
    "ReverseComputeInline": "block |",
    "RollingBuffer": "block | write_buffer_index",
    "DecomposeReduction": "block loop |",
    "RFactor": "loop | factor_axis",
    "DecomposePadding": "block loop |",
    "PadEinsum": "block | padding",
    "Unannotate": "block_or_loop | ann_key",
    "TransformBlockLayout": "block | index_map",
    "SetScope": "block | buffer_index storage_scope",
    "StorageAlign": "block | buffer_index axis factor offset",
    "Blockize": "target | preserve_unit_iters",
    "Tensorize": "block_or_loop | tensor_intrin preserve_unit_iters",
    "ReindexCacheRead": "block | read_buffer_index storage_scope index_map",
    "ReindexCacheWrite": "block | write_buffer_index storage_scope index_map",
    "CacheInplace": "block | read_buffer_index storage_scope",
    "CacheIndex": "block | storage_scope cse_thresh",
    "ReadAt": "loop block | read_buffer_index storage_scope",
    "WriteAt": "loop block | write_buffer_index storage_scope",
    "ReorderBlockIterVar": "block | new_order",
    "UnsafeSetDType": "block | buffer_index dtype",
    "UnsafeHideBufferAccess": "block | buf_type buf_index_array",
    "EnterPostproc": "|",
}
"""Names of the inputs and, behind the bar, of the attributes; other kinds have a function in ``_SPECIAL``."""


def method_name(kind: str) -> str:
    """The schedule's method for an instruction kind: ``GetBlock`` is ``get_block``."""
    found = _METHOD_NAMES.get(kind)
    return found or "".join(f"_{c.lower()}" if c.isupper() else c for c in kind).lstrip("_")


def python_lines(insts: Sequence[Instruction], decisions: Mapping[Instruction, Any]) -> list[str]:
    """One line per instruction; blocks are b0, b1, ..., loops l0, ..., sampled integers v0, ..., numbered together."""
    names: dict[Any, str] = {}
    lines = []
    for inst in insts:
        arguments = _arguments(inst, names)
        if inst in decisions:
            arguments.append(f"decision={_text(decisions[inst], names)}")
        call = f"sch.{method_name(inst.kind.name)}({', '.join(arguments)})"
        for item in inst.outputs:
            prefix = "b" if isinstance(item, BlockRV) else "l" if isinstance(item, LoopRV) else "v"
            names[item] = f"{prefix}{len(names)}"
        outputs = ", ".join(names[item] for item in inst.outputs)
        if len(inst.outputs) == 1 and inst.kind.name in _LISTS:
            outputs += ","
        lines.append(f"{outputs} = {call}" if outputs else call)
    return lines


def _arguments(inst: Instruction, names: Mapping[Any, str]) -> list[str]:
    special = _SPECIAL.get(inst.kind.name)
    if special is not None:
        return special(inst, lambda item: _text(item, names))
    inputs = [_text(item, names) for item in inst.inputs]
    attrs = [_text(item, names) for item in inst.attrs]
    parameters = _PARAMETERS.get(inst.kind.name)
    if parameters is None:
        return inputs + attrs  # a kind from outside this package: by position
    first, second = ([*part.split()] for part in parameters.split("|"))
    return [f"{name}={value}" for name, value in zip([*first, *second], inputs + attrs, strict=True)]


Text = Callable[[Any], str]


def _split(inst: Instruction, text: Text) -> list[str]:
    attrs = zip(("preserve_unit_iters", "disable_predication"), inst.attrs, strict=False)
    factors = ", ".join(text(item) for item in inst.inputs[1:])
    return [
        f"loop={text(inst.inputs[0])}",
        f"factors=[{factors}]",
        *[f"{name}={bool(value)}" for name, value in attrs],
    ]


def _fuse(inst: Instruction, text: Text) -> list[str]:
    return [*[text(item) for item in inst.inputs], f"preserve_unit_iters={bool(inst.attrs[0])}"]


def _all_inputs(inst: Instruction, text: Text) -> list[str]:
    return [text(item) for item in inst.inputs]


def _cache(index_name: str) -> Callable[[Instruction, Text], list[str]]:
    def arguments(inst: Instruction, text: Text) -> list[str]:
        block, consumers = inst.inputs
        result = [
            f"block={text(block)}",
            f"{index_name}={text(inst.attrs[0])}",
            f"storage_scope={text(inst.attrs[1])}",
        ]
        if consumers:
            result.append(f"consumer_blocks=[{', '.join(text(item) for item in consumers)}]")
        return result

    return arguments


def _annotate(inst: Instruction, text: Text) -> list[str]:
    value = inst.inputs[1]
    return [
        f"block_or_loop={text(inst.inputs[0])}",
        f"ann_key={text(inst.attrs[0])}",
        f"ann_val={text(int(value) if isinstance(value, bool) else value)}",
    ]


def _which(index: Any, is_write: Any) -> str:
    return f'buffer=("{"write" if is_write else "read"}", {int(index)})'


def _transform_layout(inst: Instruction, text: Text) -> list[str]:
    index, is_write, index_map, pad_value, injective = inst.attrs
    return [
        f"block={text(inst.inputs[0])}",
        _which(index, is_write),
        f"index_map={text(index_map)}",
        f"pad_value={text(pad_value)}",
        f"assume_injective_transform={bool(injective)}",
    ]


def _set_axis_separator(inst: Instruction, text: Text) -> list[str]:
    return [
        f"block={text(inst.inputs[0])}",
        _which(*inst.attrs[:2]),
        f"axis_separators={text(inst.attrs[2])}",
    ]


def _reindex(inst: Instruction, text: Text) -> list[str]:
    return [f"block={text(inst.inputs[0])}", _which(*inst.attrs)]


def _annotate_buffer_access(inst: Instruction, text: Text) -> list[str]:
    index, kind, ranges = inst.attrs
    variables = ", ".join(var.name for var in ranges.initial_indices)
    pairs = zip(ranges.final_indices[::2], ranges.final_indices[1::2], strict=True)
    body = ", ".join(f"({first}, {last})" for first, last in pairs)
    return [
        f"block={text(inst.inputs[0])}",
        f"buffer_index={text(index)}",
        f"buf_type={text(kind)}",
        f"gen_new_ranges=lambda {variables}: [{body}]",
    ]


_SPECIAL: dict[str, Callable[[Instruction, Text], list[str]]] = {
    "Split": _split,
    "LoopPartition": _split,
    "Fuse": _fuse,
    "Reorder": _all_inputs,
    "Merge": _all_inputs,
    "GetChildBlocks": _all_inputs,
    "CacheRead": _cache("read_buffer_index"),
    "CacheWrite": _cache("write_buffer_index"),
    "Annotate": _annotate,
    "TransformLayout": _transform_layout,
    "SetAxisSeparator": _set_axis_separator,
    "ReIndex": _reindex,
    "AnnotateBufferAccess": _annotate_buffer_access,
}


def _text(item: Any, names: Mapping[Any, str]) -> str:
    if isinstance(item, BlockRV | LoopRV | ExprRV):
        return names[item]
    if isinstance(item, str):
        return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(item, list | tuple):
        return "[" + ", ".join(_text(value, names) for value in item) + "]"
    if isinstance(item, dict):
        return (
            "{"
            + ", ".join(f"{_text(key, names)}: {_text(value, names)}" for key, value in item.items())
            + "}"
        )
    if isinstance(item, tir.IndexMap):
        return _lambda(item)
    if isinstance(item, tir.IntImm | tir.FloatImm | tir.StringImm):
        return _text(item.value, names) if isinstance(item.value, str) else repr(item.value)
    if isinstance(item, tir.PrimExpr):
        return str(
            tir.substitute(
                item, {key: tir.Var(name) for key, name in names.items() if isinstance(key, ExprRV)}
            )
        )
    if isinstance(item, float):
        digits = f"{item:.17g}"  # as the field prints doubles: all digits that distinguish them
        return digits if any(mark in digits for mark in ".en") else f"{digits}.0"
    return repr(item)


def _lambda(index_map: tir.IndexMap) -> str:
    """The map as a lambda over the names of its variables, numbered where they repeat."""
    taken: dict[str, int] = {}
    variables = []
    for var in index_map.initial_indices:
        count = taken[var.name] = taken.get(var.name, -1) + 1
        variables.append(tir.Var(f"{var.name}_{count}" if count else var.name, var.dtype))
    values: dict[Any, Any] = dict(zip(index_map.initial_indices, variables, strict=True))
    finals = [str(tir.substitute(item, values)) for item in index_map.final_indices]
    return f"lambda {', '.join(var.name for var in variables)}: ({', '.join(finals)},)"

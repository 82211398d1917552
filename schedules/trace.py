"""Traces: a schedule as data. A trace lists the instructions and the decisions of its sampling steps; it replays on any
module of the same structure, serializes to JSON, and leaves decisions open to make a sketch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir import tir
from ir.json_format import load_json, save_json
from ir.node import Node

from .error import ScheduleError, TraceError
from .instruction import Instruction, InstructionKind
from .random_variable import BlockRV, ExprRV, LoopRV
from .state import ScheduleState
from .trace_text import python_lines

DecisionProvider = Callable[[Instruction, Sequence[Any], Sequence[Any], Any], Any]


_LOOKS_UP = "GetBlock"
"""The step that finds a block by its name."""


class Trace:
    """Instructions in order, and a decision for each sampling instruction that has one."""

    def __init__(
        self, insts: Sequence[Instruction] = (), decisions: Mapping[Instruction, Any] | None = None
    ) -> None:
        self.insts: list[Instruction] = list(insts)
        self.decisions: dict[Instruction, Any] = dict(decisions or {})

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Add an instruction, with its decision when it samples."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> Instruction | None:
        """Remove and return the last instruction, or None when the trace is empty."""
        if not self.insts:
            return None
        inst = self.insts.pop()
        self.decisions.pop(inst, None)
        return inst

    def get_decision(self, inst: Instruction) -> Any:
        """The decision of a sampling instruction, or None."""
        return self.decisions.get(inst)

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool) -> Trace:
        """A copy in which ``inst`` has another decision."""
        decisions = dict(self.decisions)
        decisions[inst] = decision
        return Trace(self._kept(remove_postproc), decisions)

    def copy(self) -> Trace:
        """A copy that can be appended to on its own."""
        return Trace(self.insts, self.decisions)

    def _kept(self, remove_postproc: bool) -> list[Instruction]:
        if remove_postproc:
            for position, inst in enumerate(self.insts):
                if inst.kind.is_postproc:
                    return self.insts[:position]
        return self.insts

    def apply_to_schedule(
        self, sch: ScheduleState, remove_postproc: bool, decision_provider: DecisionProvider | None = None
    ) -> dict[Any, Any]:
        """Replay on a schedule. ``decision_provider(inst, inputs, attrs, decision)`` may replace decisions.

        Returns:
            The schedule's random variables by this trace's.
        """
        table: dict[Any, Any] = {}
        for inst in self._kept(remove_postproc):
            inputs = [_lookup(item, table) for item in inst.inputs]
            decision = self.decisions.get(inst)
            if decision_provider is not None and inst.kind.takes_decision:
                decision = decision_provider(inst, inputs, inst.attrs, decision)
            attrs = [_lookup(item, table) if isinstance(item, tir.IndexMap) else item for item in inst.attrs]
            outputs = _as_list(inst.kind.apply(sch, inputs, attrs, decision))
            if len(outputs) != len(inst.outputs):
                raise TraceError(
                    f"replaying {inst.kind.name} gave {len(outputs)} results, the trace has {len(inst.outputs)};"
                    " the trace belongs to another program"
                )
            table.update(zip(inst.outputs, outputs, strict=True))
        return table

    def block_names(self) -> list[str]:
        """The names of the blocks that the trace looks up."""
        return [str(inst.attrs[0]) for inst in self.insts if inst.kind.name == _LOOKS_UP and inst.attrs]

    def apply_where_blocks_are(self, sch: ScheduleState, renamed: Mapping[str, str]) -> None:
        """Replay on a schedule of another program: steps on blocks that it does not have are left out.

        Args:
            sch: the schedule.
            renamed: names of blocks in the program, by those in the trace.

        Raises:
            ScheduleError: a step on a block that is there does not apply.
        """
        table: dict[Any, Any] = {}
        missing: set[int] = set()
        for inst in self.insts:
            used: set[int] = set()
            for item in (*inst.inputs, *inst.attrs):
                _mark_used(item, used)
            outputs = None
            if not used & missing:
                is_lookup = inst.kind.name == _LOOKS_UP
                attrs = [
                    _lookup(item, table) if isinstance(item, tir.IndexMap) else item for item in inst.attrs
                ]
                if is_lookup and attrs:
                    attrs[0] = renamed.get(attrs[0], attrs[0])
                inputs = [_lookup(item, table) for item in inst.inputs]
                try:
                    outputs = _as_list(inst.kind.apply(sch, inputs, attrs, self.decisions.get(inst)))
                except ScheduleError:
                    if not is_lookup:
                        raise
            if outputs is None:
                missing.update(id(item) for item in inst.outputs)
            elif len(outputs) != len(inst.outputs):
                raise TraceError(
                    f"replaying {inst.kind.name} gave {len(outputs)} results, not {len(inst.outputs)}"
                )
            else:
                table.update(zip(inst.outputs, outputs, strict=True))

    def simplified(self, remove_postproc: bool) -> Trace:
        """A copy without pure instructions whose outputs nobody uses."""
        insts = self._kept(remove_postproc)
        used: set[Any] = set()
        kept = []
        for inst in reversed(insts):
            if inst.kind.is_pure and not any(id(item) in used for item in inst.outputs):
                continue
            kept.append(inst)
            for item in inst.inputs:
                _mark_used(item, used)
        kept.reverse()
        return Trace(kept, {inst: self.decisions[inst] for inst in kept if inst in self.decisions})

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """``[instructions, decisions]`` of JSON values; :meth:`apply_json_to_schedule` reads them."""
        names: dict[Any, str] = {}
        insts_json, decisions_json = [], []
        for position, inst in enumerate(self._kept(remove_postproc)):
            inputs = [_input_json(item, names) for item in inst.inputs]
            outputs = []
            for item in inst.outputs:
                prefix = "b" if isinstance(item, BlockRV) else "l" if isinstance(item, LoopRV) else "v"
                names[item] = f"{prefix}{len(names)}"
                outputs.append(names[item])
            attrs = [_attr_json(item, names) for item in inst.attrs]
            insts_json.append([inst.kind.name, inputs, attrs, outputs])
            if inst in self.decisions:
                decisions_json.append([position, _value_json(self.decisions[inst])])
        return [insts_json, decisions_json]

    @staticmethod
    def from_json(json_obj: Any) -> Trace:
        """The trace that :meth:`as_json` wrote.

        Raises:
            TraceError: it is none, or it has an instruction that this version does not know; the message names the place.
        """
        try:
            insts_json, decisions_json = json_obj[0], json_obj[1]
            decisions = {int(position): _value_from_json(value) for position, value in decisions_json}
        except (TypeError, ValueError, IndexError, KeyError) as error:
            raise TraceError(f"not a trace: {error}") from error
        table: dict[str, Any] = {}
        trace = Trace()
        for position, entry in enumerate(insts_json):
            try:
                inst = _instruction_from_json(entry, table)
            except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
                raise TraceError(
                    f"instruction {position} of the trace, {str(entry)[:100]}, cannot be read: {error}"
                ) from error
            trace.append(inst, decisions.get(position))
        return trace

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: ScheduleState) -> None:
        """Replay a trace in JSON form on a schedule."""
        Trace.from_json(json_obj).apply_to_schedule(sch, remove_postproc=False)

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """One line of Python per instruction, which runs on a schedule called ``sch`` and with the script dialect as ``T``."""
        return python_lines(self._kept(remove_postproc), self.decisions)

    def __str__(self) -> str:
        return "\n".join(
            ["def apply_trace(sch: Schedule) -> None:", *[f"  {line}" for line in self.as_python()]]
        )

    __repr__ = __str__

    def show(self) -> None:
        """Print the trace as Python."""
        print(self)


def _instruction_from_json(entry: Any, table: dict[str, Any]) -> Instruction:
    """One instruction; ``table`` has the random variables of those before it, and gets its own."""
    name, inputs_json, attrs_json, outputs_json = entry
    kind = InstructionKind.get(name)
    inputs = tuple(_input_from_json(item, table) for item in inputs_json)
    makers = {"b": BlockRV, "l": LoopRV, "v": ExprRV}
    outputs = []
    for item in outputs_json:
        table[item] = makers[item[0]]()
        outputs.append(table[item])
    attrs = tuple(_attr_from_json(item, table) for item in attrs_json)
    return Instruction(kind, inputs, attrs, tuple(outputs))


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _lookup(item: Any, table: Mapping[Any, Any]) -> Any:
    if isinstance(item, BlockRV | LoopRV | ExprRV):
        try:
            return table[item]
        except KeyError:
            raise TraceError(f"{item!r} is used before an instruction defines it") from None
    if isinstance(item, tir.PrimExpr) and not isinstance(item, tir.IntImm | tir.FloatImm | tir.StringImm):
        return tir.substitute(item, lambda var: table.get(var) if isinstance(var, ExprRV) else None)
    if isinstance(item, tir.IndexMap):
        finals = tuple(_lookup(value, table) for value in item.final_indices)
        return tir.IndexMap(item.initial_indices, finals, _lookup(item.inverse_index_map, table))
    if isinstance(item, list | tuple):
        return type(item)(_lookup(value, table) for value in item)
    return item


def _mark_used(item: Any, used: set[Any]) -> None:
    if isinstance(item, BlockRV | LoopRV | ExprRV):
        used.add(id(item))
    elif isinstance(item, tir.PrimExpr):
        tir.post_order_visit(item, lambda node: used.add(id(node)) if isinstance(node, ExprRV) else None)
    elif isinstance(item, list | tuple):
        for value in item:
            _mark_used(value, used)


def _input_json(item: Any, names: Mapping[Any, str]) -> Any:
    if isinstance(item, BlockRV | LoopRV | ExprRV):
        return names[item]
    if item is None:
        return "None"
    if isinstance(item, str):
        return f'"{item}"'
    if isinstance(item, list | tuple):
        return [_input_json(value, names) for value in item]
    if isinstance(item, tir.PrimExpr) and not isinstance(item, tir.IntImm | tir.FloatImm | tir.StringImm):
        # Sampled integers become variables of that name; the reader puts its own in their place.
        named = {key: tir.Var(name, key.dtype) for key, name in names.items() if isinstance(key, ExprRV)}
        return {"expr": save_json(tir.substitute(item, named))}
    return _value_json(item)


def _input_from_json(item: Any, table: Mapping[str, Any]) -> Any:
    if isinstance(item, str):
        if item.startswith('"'):
            return item[1:-1]
        if item == "None":
            return None
        if item in table:
            return table[item]
        raise TraceError(f"{item!r} is used before an instruction defines it")
    if isinstance(item, list):
        return [_input_from_json(value, table) for value in item]
    if isinstance(item, dict) and "expr" in item:
        return tir.substitute(load_json(item["expr"]), lambda var: table.get(var.name))
    return _value_from_json(item)


def _attr_json(item: Any, names: Mapping[Any, str]) -> Any:
    """An attribute; in a layout of a sketch, sampled integers become variables of their names."""
    if not isinstance(item, tir.IndexMap):
        return _value_json(item)
    named = {key: tir.Var(name, key.dtype) for key, name in names.items() if isinstance(key, ExprRV)}
    layout = _lookup(item, named)
    return _value_json(item) if layout == item else {"layout": save_json(layout)}


def _attr_from_json(item: Any, table: Mapping[str, Any]) -> Any:
    if not (isinstance(item, dict) and "layout" in item):
        return _value_from_json(item)
    return _with_sampled(load_json(item["layout"]), table)


def _with_sampled(layout: tir.IndexMap, table: Mapping[str, Any]) -> tir.IndexMap:
    """The layout, and its inverse, with random variables in place of the variables of their names."""
    own = {var.name for var in layout.initial_indices}

    def sampled(value: tir.PrimExpr) -> tir.PrimExpr:
        return tir.substitute(value, lambda var: None if var.name in own else table.get(var.name))

    inverse = layout.inverse_index_map
    return tir.IndexMap(
        layout.initial_indices,
        tuple(map(sampled, layout.final_indices)),
        None if inverse is None else _with_sampled(inverse, table),
    )


def _value_json(value: Any) -> Any:
    if isinstance(value, tir.IntImm | tir.FloatImm | tir.StringImm):
        return value.value
    if isinstance(value, Node):
        return {"ir": save_json(value)}
    if isinstance(value, list | tuple):
        return [_value_json(item) for item in value]
    if isinstance(value, dict):
        entries = {key: _value_json(item) for key, item in value.items()}
        # A map whose keys could be taken for those of the forms above is a list of pairs.
        return (
            {"map": list(map(list, entries.items()))}
            if {"ir", "map", "expr", "layout"} & entries.keys()
            else entries
        )
    return value


def _value_from_json(value: Any) -> Any:
    if isinstance(value, dict):
        if "ir" in value:
            return load_json(value["ir"])
        pairs = value["map"] if "map" in value else value.items()
        return {key: _value_from_json(item) for key, item in pairs}
    if isinstance(value, list):
        return [_value_from_json(item) for item in value]
    return value

"""Runs programs of scalars with the latest arrivals of asynchronous copies that their waits allow."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir import tir

_OPERATORS = {
    tir.Add: operator.add, tir.Sub: operator.sub, tir.Mul: operator.mul, tir.FloorMod: operator.mod,
    tir.FloorDiv: operator.floordiv, tir.Min: min, tir.Max: max, tir.LT: operator.lt, tir.LE: operator.le,
    tir.GE: operator.ge, tir.GT: operator.gt, tir.NE: operator.ne, tir.EQ: operator.eq,
    tir.And: lambda a, b: a and b,
}  # fmt: skip


class LateCopies:
    """A run of a function on its arguments: arrays of one dimension, which it changes, and numbers.

    Knows the attributes of asynchronous stages, with a queue for each, and the instructions that they become, with one for all.
    """

    def __init__(self, func: tir.PrimFunc, arguments: Sequence[Any]) -> None:
        self._memory: dict[tuple[Any, ...], Any] = {}
        self._arrays: dict[Any, np.ndarray] = {}
        self._values: dict[Any, Any] = {}
        self._open: list[tuple[tuple[Any, ...], Any]] = []
        self._queues: dict[Any, list[list[tuple[tuple[Any, ...], Any]]]] = {}
        self._is_async = False
        self.copies = 0
        for param, given in zip(func.params, arguments, strict=True):
            if param in func.buffer_map:
                self._arrays[func.buffer_map[param].data] = given
            else:
                self._values[param] = given
        self._run(func.body)
        for queue in [*self._queues]:
            self._wait(queue, 0)

    def _value(self, node: Any) -> Any:
        if isinstance(node, tir.Var):
            return self._values[node]
        if isinstance(node, tir.IntImm | tir.FloatImm):
            return node.value
        if isinstance(node, tir.BufferLoad):
            return self._loaded(self._place(node.buffer.data, *node.indices))
        return _OPERATORS[type(node)](self._value(node.a), self._value(node.b))

    def _place(self, data: Any, *indices: Any) -> tuple[Any, ...]:
        return (data, *[self._value(index) for index in indices])

    def _loaded(self, place: tuple[Any, ...]) -> Any:
        array = self._arrays.get(place[0])
        return self._memory.get(place, np.nan) if array is None else array[place[1]]

    def _store(self, place: tuple[Any, ...], value: Any) -> None:
        array = self._arrays.get(place[0])
        if array is None:
            self._memory[place] = value
        else:
            array[place[1]] = value

    def _copy(self, place: tuple[Any, ...], value: Any) -> None:
        self.copies += 1
        self._open.append((place, value))

    def _commit(self, queue: Any) -> None:
        self._queues.setdefault(queue, []).append(self._open)
        self._open = []

    def _wait(self, queue: Any, left: int) -> None:
        groups = self._queues.setdefault(queue, [])
        while len(groups) > left:
            for place, value in groups.pop(0):
                self._store(place, value)

    def _call(self, call: tir.Call) -> None:
        match call.op.name:
            case "tir.ptx_cp_async":
                to, to_index, source, index, size, *condition = call.args
                assert size.value == 4
                holds = not condition or self._value(condition[0])
                self._copy(
                    self._place(to, to_index), self._loaded(self._place(source, index)) if holds else 0
                )
            case "tir.ptx_commit_group":
                self._commit(None)
            case "tir.ptx_wait_group":
                self._wait(None, call.args[0].value)

    def _run(self, node: Any) -> None:
        match node:
            case tir.SeqStmt():
                for item in node.seq:
                    self._run(item)
            case tir.BlockRealize():
                if self._value(node.predicate):
                    self._run(node.block.body)
            case tir.IfThenElse():
                if self._value(node.condition):
                    self._run(node.then_case)
            case tir.For():
                first = self._value(node.min)
                for value in range(first, first + self._value(node.extent)):
                    self._values[node.loop_var] = value
                    self._run(node.body)
            case tir.AttrStmt(attr_key="async_scope"):
                self._is_async = True
                self._run(node.body)
                self._is_async = False
            case tir.AttrStmt(attr_key="async_commit_queue_scope"):
                self._run(node.body)
                self._commit(node.value.value)
            case tir.AttrStmt(attr_key="async_wait_queue_scope"):
                self._wait(node.value.value, self._value(node.body.value))
                self._run(node.body.body)
            case tir.AttrStmt(attr_key="thread_extent"):
                assert self._value(node.value) == 1
                self._values[node.node.var] = 0
                self._run(node.body)
            case tir.BufferStore():
                place, value = self._place(node.buffer.data, *node.indices), self._value(node.value)
                (self._copy if self._is_async else self._store)(place, value)
            case tir.Allocate() | tir.DeclBuffer():
                self._run(node.body)
            case tir.Evaluate():
                if isinstance(node.value, tir.Call):
                    self._call(node.value)
            case _:
                raise AssertionError(type(node))

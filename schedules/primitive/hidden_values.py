"""drop_hidden_mask: multiply the values that a mask hides from a row by weights that are 0 there, as they are.

Causal attention adds up ``weight[i, j] * (j <= i ? value[j] : 0)``, in which a value is another one for each row: that is no product of
matrices. The weight of what is hidden is ``exp(-inf - maximum)``, which is 0, so that the mask of the value matters only where
the value is not finite (``[tune-hidden]`` in docs/semantics.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ir import dtype as dt
from ir import structural_equal, tir
from ir.op import Op
from ir.tir.kernel_attributes import ROUNDING_PROGRAM
from ir.tir.stmt_functor import loads_in, substitute

from ..analysis import require, scope_children, why_not_complete, why_not_reduction, written_buffers
from ..annotation import HIDDEN_BY_ZERO
from ..argument import Block
from ..declaration import PrimitiveFamily, primitive
from ..random_variable import BlockRV
from ..rescaling import EXPONENTIALS
from ..stored_value import choice
from ..tree import BlockNode, LeafNode

_NAME = "drop_hidden_mask"


class HiddenValuePrimitives(PrimitiveFamily):
    """Masks that weights make superfluous."""

    @primitive("DropHiddenMask", block=Block())
    def drop_hidden_mask(self, block: BlockRV | str) -> None:
        """Take the mask off a factor of a sum of products where the other factor is 0, or NaN, wherever the mask hides it.

        ``W[i, j] = exp(if_then_else(j <= i, S[i, j], -inf) - m[i])`` and ``O[i] += W[i, j] * if_then_else(j <= i, V[j], 0)``
        becomes ``O[i] += W[i, j] * V[j]``. A value V that is not finite then makes NaN of the rows that it is hidden from: the function's
        attribute ``rounding_program`` holds the program as it is now, by which a check may tell where that is right. The block's annotation
        says that these products may be left out, which :meth:`~.skip_masked.SkipMaskedPrimitives.skip_masked` does.

        Args:
            block: the sum.

        Raises:
            ScheduleError: the block adds up no such products, or it is not seen that the other factor is 0 where the mask hides something.
        """
        node = self._block(block)
        reason = why_not_reduction(node)
        require(reason is None, _NAME, f"block {node.name!r} is no reduction: {reason}")
        store = node.body.leaf if isinstance(node.body, LeafNode) else None
        value = store.value if isinstance(store, tir.BufferStore) else None
        product = value.b if isinstance(value, tir.Add) else None
        require(
            isinstance(product, tir.Mul) and dt.is_float(product.dtype),
            _NAME,
            f"block {node.name!r} adds up no products of floats",
        )
        assert isinstance(store, tir.BufferStore) and isinstance(value, tir.Add)
        assert isinstance(product, tir.Mul)
        for weight, masked in ((product.a, product.b), (product.b, product.a)):
            parts = choice(masked)
            if parts is None or getattr(parts[2], "value", None) != 0:
                continue
            if _vanishes(weight, node, node, parts[0]):
                sides = (weight, parts[1]) if weight is product.a else (parts[1], weight)
                changed = tir.Add(value.a, tir.Mul(*sides))
                node.set_body(LeafNode(tir.BufferStore(store.buffer, changed, store.indices)))
                node.change(annotations={**node.annotations, HIDDEN_BY_ZERO: 1})
                self._keep_as_rounding_program(self._function_of(node))
                return
        require(
            False,
            _NAME,
            f"in block {node.name!r}, no factor of {product} is masked by a condition under which the other one is surely 0",
        )

    def _keep_as_rounding_program(self, name: str) -> None:
        """Say by which program a check may tell where results need be no numbers."""
        program = self._function_with(name, self._roots[name]).without_attr(ROUNDING_PROGRAM)
        self._functions[name] = self._functions[name].with_attr(ROUNDING_PROGRAM, program)


def _vanishes(value: tir.PrimExpr, node: BlockNode, maker: BlockNode, seen: tir.PrimExpr) -> bool:
    """Whether a value is 0 or NaN wherever a condition of a block does not hold: it is an exponential of -infinity there.

    Args:
        value: in variables of the block.
        node: the block.
        maker: computes the value: this block, or one before it.
        seen: the condition, in variables of the block.
    """
    value = _without_casts(value)
    if isinstance(value, tir.BufferLoad):
        writers = [item for item in scope_children(node) if value.buffer in written_buffers(item)]
        made = _stored_at(writers[0], value) if len(writers) == 1 and writers[0] is not node else None
        return made is not None and _vanishes(made, node, writers[0], seen)
    name = value.op.name if isinstance(value, tir.Call) and isinstance(value.op, Op) else ""
    gap = value.args[0] if name in EXPONENTIALS else None  # type: ignore[attr-defined]
    parts = choice(gap.a) if isinstance(gap, tir.Sub) else None
    return (
        parts is not None
        and structural_equal(parts[0], seen)
        and getattr(parts[2], "value", None) == -math.inf
        and (maker is node or _is_still_the_same(seen, node, maker))
    )


def _is_still_the_same(condition: tir.PrimExpr, node: BlockNode, maker: BlockNode) -> bool:
    """Whether a condition is what it was when an earlier block looked at it: what it reads of memory is complete before that."""
    read = {load.buffer for load in loads_in(condition)}
    children = scope_children(node)
    before = children[: children.index(maker)]
    return all(
        any(item is other for other in before) and why_not_complete(item) is None
        for item in children
        if read & written_buffers(item)
    )


def _stored_at(writer: BlockNode, load: tir.BufferLoad) -> tir.PrimExpr | None:
    """What an elementwise block stores where another block loads, in variables of that; None where that is not known."""
    store = writer.body.leaf if isinstance(writer.body, LeafNode) else None
    if not isinstance(store, tir.BufferStore) or why_not_complete(writer) is not None:
        return None
    names: Mapping[Any, Any] = dict(zip(store.indices, load.indices, strict=True))
    variables = {item.var for item in writer.iter_vars}
    if len(names) != len(store.indices) or set(names) != variables:
        return None
    return substitute(store.value, names)


def _without_casts(value: tir.PrimExpr) -> tir.PrimExpr:
    while isinstance(value, tir.Cast) and dt.is_float(value.dtype) and dt.is_float(value.value.dtype):
        value = value.value
    return value

"""tensorize: replace a block by a tensor intrinsic that computes the same on a tile."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from ir import tir
from ir.arith import Analyzer
from ir.error import did_you_mean
from ir.node import Node
from ir.tir import tensor_intrin as _known_intrinsics  # noqa: F401  those that the project brings
from ir.tir.operators import index_number
from ir.tir.stmt_functor import substitute

from ..affine import constant_difference, difference, mentions
from ..analysis import require, source_of, views_around
from ..argument import Argument, BlockOrLoop
from ..bounds import analyzer_of
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..tree import BlockNode, LoopNode, all_blocks, blocks_below, loops_around, tree_of
from .blockize import blockize_loop


class TensorizePrimitives(PrimitiveFamily):
    """Tensor intrinsics."""

    @primitive(
        "Tensorize",
        block_or_loop=BlockOrLoop(),
        tensor_intrin=Argument(),
        preserve_unit_iters=Argument(),
    )
    def tensorize(
        self, block_or_loop: BlockRV | LoopRV | str, tensor_intrin: str, preserve_unit_iters: bool = True
    ) -> None:
        """Replace a block, or the nest under a loop, by a registered tensor intrinsic that computes the same.

        The nest is blockized, its body becomes the intrinsic's implementation, and the intrinsic's buffers are views of the
        block's tiles. The description must match: the same loops and blocks, arithmetic, dtypes and scopes. Where the description's root
        has an init, the intrinsic begins sums itself, and the block must compute them whole.

        Raises:
            ScheduleError: no such intrinsic, or its description does not match; the message says where.
        """
        intrin = tir.TensorIntrin.get(tensor_intrin, allow_missing=True)
        if intrin is None:
            known = tir.TensorIntrin.names()
            near = (
                did_you_mean(tensor_intrin, known)
                or f"; there are {len(known)}, which tir.TensorIntrin.names() lists"
            )
            raise ScheduleError(f"tensorize: no tensor intrinsic {tensor_intrin!r} is registered{near}")
        node: Any = self._node(block_or_loop)
        if isinstance(node, BlockNode):
            block = self._block(block_or_loop)
            require_no_effects([block], "tensorize")
        else:
            loop = self._loop(block_or_loop)
            require_no_effects(blocks_below(loop), "tensorize")
            # The match is tried on a copy first, so that a refusal leaves the program as it was.
            copy = blockize_loop(_detached_copy(loop), preserve_unit_iters)
            _require_apart(copy, loop, intrin, _match(copy, intrin))
            block = blockize_loop(loop, preserve_unit_iters)
        tiles = _match(block, intrin)
        _require_apart(block, block, intrin, tiles)
        _put_implementation(block, intrin, tiles)


def _put_implementation(
    block: BlockNode, intrin: tir.TensorIntrin, tiles: dict[tir.Buffer, tir.BufferRegion]
) -> None:
    """Make the intrinsic's implementation the body of a block whose tiles its buffers stand for."""
    implementation = _root_of(intrin.impl, "implementation")
    renamed = _fresh(intrin.impl)
    matches = []
    for param, desc_param in zip(intrin.impl.params, intrin.desc.params, strict=True):
        view = renamed[intrin.impl.buffer_map[param]]
        matches.append(tir.MatchBufferRegion(view, tiles[intrin.desc.buffer_map[desc_param]]))
    block.set_body(tree_of(substitute(implementation.body, renamed)))
    if _root_of(intrin.desc, "description").init is not None:
        block.change(init=None)
    block.change(
        match_buffers=(*block.match_buffers, *matches),
        alloc_buffers=(
            *block.alloc_buffers,
            *[renamed.get(item, item) for item in implementation.alloc_buffers],
        ),
        annotations={**block.annotations, **implementation.annotations},
    )


def _detached_copy(loop: LoopNode) -> LoopNode:
    """A copy of a nest under copies of the loops around it, alone in a tree of its own."""
    copy = loop.copy({})
    assert isinstance(copy, LoopNode)
    node: Any = copy
    for around in reversed(loops_around(loop)):
        node = LoopNode(around.var, around.extent, node, around.kind, around.min)
    BlockNode("root", (), (), (), (), node)
    return copy


def _root_of(func: tir.PrimFunc, what: str) -> tir.Block:
    require(
        isinstance(func.body, tir.BlockRealize), "tensorize", f"the {what} of the intrinsic has no root block"
    )
    return func.body.block  # type: ignore[attr-defined,no-any-return]


def _fresh(func: tir.PrimFunc) -> dict[Any, Any]:
    """New variables and buffers for everything that a function defines, so that one intrinsic can be used many times."""
    table: dict[Any, Any] = {}
    buffers = list(func.buffer_map.values())

    def visit(node: Any) -> None:
        if isinstance(node, tir.For):
            table[node.loop_var] = tir.Var(node.loop_var.name, node.loop_var.dtype)
        elif isinstance(node, tir.LetStmt):
            table[node.var] = tir.Var(node.var.name, node.var.type_annotation or node.var.dtype)
        elif isinstance(node, tir.Block):
            for item in node.iter_vars:
                table[item.var] = tir.Var(item.var.name, item.var.dtype)
            buffers.extend(node.alloc_buffers)
            buffers.extend(match.buffer for match in node.match_buffers)

    tir.post_order_visit(func.body, visit)
    for buffer in buffers:
        for item in (buffer.elem_offset, *buffer.strides, *buffer.shape):
            if isinstance(item, tir.Var):
                table.setdefault(item, tir.Var(item.name, item.dtype))
        table.setdefault(
            buffer.data, tir.Var(buffer.data.name, buffer.data.type_annotation or buffer.data.dtype)
        )
    for buffer in buffers:
        offset = None if buffer.elem_offset is None else substitute(buffer.elem_offset, table)
        table[buffer] = buffer.replace(
            data=table[buffer.data],
            shape=tuple(substitute(item, table) for item in buffer.shape),
            strides=tuple(substitute(item, table) for item in buffer.strides),
            elem_offset=offset,
        )
    return table


def _match(block: BlockNode, intrin: tir.TensorIntrin) -> dict[tir.Buffer, tir.BufferRegion]:
    """For each buffer of the intrinsic's description, the tile of the block's buffer that it stands for."""
    matcher = _Matcher(block.name)
    root = _root_of(intrin.desc, "description")
    matcher.match(root.body, block.body.stmt())
    if root.init is not None:
        _require_whole_sums(block)
        matcher.match(root.init, block.init)
    inside = _known_inside(block)
    tiles = {}
    for buffer in intrin.desc.buffer_map.values():
        require(
            buffer in matcher.bases,
            "tensorize",
            f"the description of the intrinsic never accesses its buffer {buffer.name}",
        )
        target, base = matcher.bases[buffer]
        require(
            target not in inside,
            "tensorize",
            f"{buffer.name} of the intrinsic would stand for {target.name}, which is known only inside of block {block.name!r}",
        )
        offset = len(target.shape) - len(buffer.shape)
        extents = [tir.const(1, "int32")] * offset + list(buffer.shape)
        ranges = [
            tir.Range.from_min_extent(low, tir.cast(low.dtype, extent))
            for low, extent in zip(base, extents, strict=True)
        ]
        tiles[buffer] = tir.BufferRegion(target, ranges)
    return tiles


def _require_whole_sums(block: BlockNode) -> None:
    """An intrinsic that begins sums itself runs once for each of them."""
    require(
        block.init is not None,
        "tensorize",
        f"the intrinsic begins sums, and block {block.name!r} goes on with some",
    )
    for item in block.iter_vars:
        is_one = isinstance(item.dom.extent, tir.IntImm) and item.dom.extent.value == 1
        require(
            item.iter_type != tir.IterVar.CommReduce or is_one,
            "tensorize",
            f"the intrinsic computes whole sums, and block {block.name!r} adds to one {item.dom.extent} times along {item.var.name}",
        )


def _known_inside(block: BlockNode) -> set[tir.Buffer]:
    """The buffers that blocks inside of a block allocate or match: they are gone with its body."""
    inner = [item for item in all_blocks(block) if item is not block]
    views = [view.buffer for item in inner for view in item.match_buffers]
    return {*views, *(buffer for item in inner for buffer in item.alloc_buffers)}


def _require_apart(
    block: BlockNode,
    place: BlockNode | LoopNode,
    intrin: tir.TensorIntrin,
    tiles: Mapping[tir.Buffer, tir.BufferRegion],
) -> None:
    """An implementation computes what its description does for buffers that lie apart: it may store before it loads.

    Args:
        block: has the tiles.
        place: it, or what it is a copy of, in the program.
        intrin: the intrinsic.
        tiles: what its buffers stand for.
    """
    sources = views_around(place) | {view.buffer: view.source.buffer for view in block.match_buffers}
    analyzer = analyzer_of(variables=block.iter_vars)
    written = _written_by(intrin)
    for one, other in combinations(tiles, 2):
        if one not in written and other not in written:
            continue
        first, second = tiles[one], tiles[other]
        if source_of(first.buffer, sources).data is not source_of(second.buffer, sources).data:
            continue
        require(
            first.buffer is second.buffer and _lie_apart(first, second, analyzer),
            "tensorize",
            f"{one.name} and {other.name} of the intrinsic, of which one is written, would stand for {first} and {second} of block"
            f" {block.name!r}, which may overlap",
        )


def _written_by(intrin: tir.TensorIntrin) -> set[tir.Buffer]:
    """The buffers of an intrinsic's description that it or the implementation writes."""
    found: set[tir.Buffer] = set()
    for func in (intrin.desc, intrin.impl):
        stored = {region.buffer for region in _root_of(func, "function").writes}
        tir.post_order_visit(
            func.body,
            lambda node, stored=stored: (
                stored.add(node.buffer) if isinstance(node, tir.BufferStore) else None
            ),  # type: ignore[misc]
        )
        for param, described in zip(func.params, intrin.desc.params, strict=True):
            if func.buffer_map[param] in stored:
                found.add(intrin.desc.buffer_map[described])
    return found


def _lie_apart(first: tir.BufferRegion, second: tir.BufferRegion, analyzer: Analyzer) -> bool:
    """Whether two regions of one buffer have no element in common: in one dimension one ends before the other begins."""
    return any(
        analyzer.can_prove(one.min + one.extent <= other.min)
        or analyzer.can_prove(other.min + other.extent <= one.min)
        for one, other in zip(first.region, second.region, strict=True)
    )


def fits_description(block: BlockNode, intrin: tir.TensorIntrin) -> bool:
    """Whether a block computes what an intrinsic's description says, of memory of any scope: caches bring it to that of the intrinsic."""
    try:
        _Matcher(block.name, asks_scopes=False).match(
            _root_of(intrin.desc, "description").body, block.body.stmt()
        )
    except ScheduleError:
        return False
    return True


class _Matcher:
    """Compares a description with a program, and finds where each described buffer lies."""

    def __init__(self, name: str, asks_scopes: bool = True) -> None:
        self._name = name
        self._asks_scopes = asks_scopes
        self._vars: dict[Any, Any] = {}
        self._inner: set[Any] = set()
        self.bases: dict[tir.Buffer, tuple[tir.Buffer, list[Any]]] = {}

    def _fail(self, what: str) -> ScheduleError:
        return ScheduleError(
            f"tensorize: block {self._name!r} does not match the intrinsic's description: {what}"
        )

    def _bind(self, desc_var: Any, var: Any) -> None:
        if desc_var.dtype != var.dtype:
            raise self._fail(
                f"variable {var.name} has dtype {var.dtype}, the description's {desc_var.name} has {desc_var.dtype}"
            )
        self._vars[desc_var] = var
        self._inner.add(var)

    def match(self, desc: Any, node: Any) -> None:
        """Compare two nodes; raises ScheduleError at the first difference."""
        if isinstance(desc, tir.Var):
            if self._vars.get(desc, desc) is not node:
                raise self._fail(f"found {node} where the description has {desc.name}")
            return
        if type(desc) is not type(node):
            raise self._fail(f"found {_text(node)} where the description has {_text(desc)}")
        special = getattr(self, f"_match_{type(desc).__name__}", None)
        if special is not None:
            special(desc, node)
        else:
            self._match_fields(desc, node)

    def _match_fields(self, desc: Any, node: Any) -> None:
        for item in type(desc)._fields:
            if not item.compare:
                continue
            self._match_value(getattr(desc, item.name), getattr(node, item.name), desc, node)

    def _match_value(self, expected: Any, found: Any, desc: Any, node: Any) -> None:
        if isinstance(expected, Node):
            self.match(expected, found)
        elif isinstance(expected, tuple):
            if len(expected) != len(found):
                raise self._fail(f"found {_text(node)} where the description has {_text(desc)}")
            for a, b in zip(expected, found, strict=True):
                self._match_value(a, b, desc, node)
        elif expected != found:
            raise self._fail(f"found {_text(node)} where the description has {_text(desc)}")

    def _match_IntImm(self, desc: tir.IntImm, node: tir.IntImm) -> None:
        if desc.value != node.value or desc.dtype != node.dtype:
            raise self._fail(f"found {node} ({node.dtype}) where the description has {desc} ({desc.dtype})")

    def _match_Mul(self, desc: tir.Mul, node: tir.Mul) -> None:
        """A product, whose factors may come in either order: floats round it alike."""
        before = dict(self.bases)
        try:
            self._match_fields(desc, node)
        except ScheduleError:
            self.bases = before
            self.match(desc.a, node.b)
            self.match(desc.b, node.a)

    def _match_For(self, desc: tir.For, node: tir.For) -> None:
        if constant_difference(desc.extent, node.extent) != 0:
            raise self._fail(
                f"loop {node.loop_var.name} has extent {node.extent}, the description's {desc.loop_var.name} has {desc.extent}"
            )
        if constant_difference(desc.min, node.min) != 0:
            raise self._fail(
                f"loop {node.loop_var.name} starts at {node.min}, the description's {desc.loop_var.name} at {desc.min}"
            )
        self._bind(desc.loop_var, node.loop_var)
        self.match(desc.body, node.body)

    def _match_BlockRealize(self, desc: tir.BlockRealize, node: tir.BlockRealize) -> None:
        expected, found = desc.block, node.block
        if len(expected.iter_vars) != len(found.iter_vars):
            raise self._fail(
                f"block {found.name_hint!r} has {len(found.iter_vars)} iteration variables, the description's has"
                f" {len(expected.iter_vars)}"
            )
        for a, b in zip(desc.iter_values, node.iter_values, strict=True):
            self.match(a, b)
        self.match(desc.predicate, node.predicate)
        for item, other in zip(expected.iter_vars, found.iter_vars, strict=True):
            if item.iter_type != other.iter_type:
                raise self._fail(
                    f"variable {other.var.name} of block {found.name_hint!r} is of another kind than described"
                )
            self._bind(item.var, other.var)
        if (expected.init is None) != (found.init is None):
            raise self._fail(f"only one of block {found.name_hint!r} and the description has an init")
        if expected.init is not None:
            self.match(expected.init, found.init)
        self.match(expected.body, found.body)

    def _match_BufferLoad(self, desc: tir.BufferLoad, node: tir.BufferLoad) -> None:
        self._access(desc.buffer, desc.indices, node.buffer, node.indices)
        self._lanes(desc, node)

    def _match_BufferStore(self, desc: tir.BufferStore, node: tir.BufferStore) -> None:
        self._access(desc.buffer, desc.indices, node.buffer, node.indices)
        self.match(desc.value, node.value)
        self._lanes(desc, node)

    def _lanes(self, desc: Any, node: Any) -> None:
        """The predicates of two accesses, which say what lanes of a vector they touch."""
        if (desc.predicate is None) != (node.predicate is None):
            raise self._fail(f"only one of {_text(node)} and the described access is under a predicate")
        if desc.predicate is not None:
            self.match(desc.predicate, node.predicate)

    def _access(self, expected: tir.Buffer, desc_indices: Any, buffer: tir.Buffer, indices: Any) -> None:
        if expected.dtype != buffer.dtype:
            raise self._fail(
                f"buffer {buffer.name} is {buffer.dtype}, the description's {expected.name} is {expected.dtype}"
            )
        if self._asks_scopes and expected.scope() != buffer.scope():
            raise self._fail(
                f"buffer {buffer.name} is in scope {buffer.scope()!r}, the description's {expected.name} in {expected.scope()!r}"
            )
        offset = len(indices) - len(desc_indices)
        if offset < 0:
            raise self._fail(
                f"buffer {buffer.name} has fewer dimensions than the description's {expected.name}"
            )
        base = [
            index
            if position < offset
            else difference(index_number(index), substitute(desc_indices[position - offset], self._vars))
            for position, index in enumerate(indices)
        ]
        for position, item in enumerate(base):
            if mentions(item, self._inner):
                raise self._fail(
                    f"index {indices[position]} of {buffer.name} is not the described one plus an offset"
                )
        known = self.bases.get(expected)
        if known is None:
            self.bases[expected] = (buffer, base)
        elif known[0] is not buffer or any(
            constant_difference(a, b) != 0 for a, b in zip(known[1], base, strict=True)
        ):
            raise self._fail(f"buffer {expected.name} of the description stands for two different tiles")


def _text(node: Any) -> str:
    text = str(node).strip().splitlines()
    return text[-1].strip() if text else type(node).__name__

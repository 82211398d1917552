"""A tile of a product over all of k on Hopper: the tensor copy engine brings the operands, warp groups multiply them.

A tile has 64 rows for each warp group. Its operands come in steps of 128 bytes of k, each step to one of several stages in shared memory.
Barriers with transactions tell when a stage has come and when it may be filled again: one thread begins the copies of a later step as
soon as all warps are done with the stage, while the products of this step are under way (the pipeline of CUTLASS's "sm90" main loops,
without warps that do nothing but copy). Operands that are to be rounded to tf32 are so in shared memory, since the instruction cuts bits
off.

Names tell what is multiplied, as ``wgmma_128x256x4096_f16f16f32_nk_shared_dyn_4``: rows, columns and k; the types of operands and of
sums; how the second operand lies in memory (``nk``, or ``kn`` of elements of 16 bits); the scope of the result; the stages; ``i64``
where the loops of what is replaced are of int64.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ... import dtype as dt
from ...type import PointerType, PrimType
from ..buffer import Buffer, decl_buffer
from ..expr import BufferLoad, IterVar, PrimExpr, Range, Var
from ..function import PrimFunc, TensorIntrin
from ..intrinsic.bulk_copies import TENSOR_MAP_SCOPE, ptx_cp_async_bulk_tensor, tensor_map_encode_tiled
from ..intrinsic.gpu import tvm_storage_sync
from ..intrinsic.memory import address_of
from ..intrinsic.rounding import round_to_tf32
from ..intrinsic.transaction_barriers import (
    create_barriers,
    ptx_arrive_barrier,
    ptx_arrive_barrier_expect_tx,
    ptx_fence_proxy_async,
    ptx_init_barrier_thread_count,
    ptx_wait_barrier,
)
from ..intrinsic.warp_groups import (
    WARP_GROUP,
    ptx_wgmma_commit_group,
    ptx_wgmma_fence,
    ptx_wgmma_mma_async,
    ptx_wgmma_wait_group,
)
from ..operators import cast, const, floordiv, floormod, logical_and
from ..stmt import (
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from .programs import Pair, nest, tile, whole

GROUP_ROWS = 64
"""Rows of the sums of one warp group."""
_ROW = 128
"""Bytes of a row of an operand in shared memory, within which it is swizzled."""
_ATOM = 8
_WARP = 32
_ALIGNMENT = 1024
_MOST_COLUMNS = 256
_MOST_GROUPS = 4
_MOST_STAGES = 8
_DTYPES = {
    "f16": "float16", "bf16": "bfloat16", "tf32": "float32", "s8": "int8", "u8": "uint8",
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "f32": "float32", "s32": "int32",
}  # fmt: skip
"""By what stands in names."""
_PRODUCTS = (
    ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32"), ("s8", "s32"), ("u8", "s32"), ("e4m3", "f32"), ("e5m2", "f32"),
)  # fmt: skip
_SCOPES = {"shared_dyn": "shared.dyn", "shared": "shared", "global": "global"}
_NAME = re.compile(
    r"wgmma_(\d+)x(\d+)x(\d+)_([a-z]+\d+(?:m\d)?)\4(f32|f16|s32)_(nk|kn)_(shared_dyn|shared|global)_(\d+)(_i64)?"
)


@dataclass(frozen=True)
class WarpGroupProduct:
    """A tile of a product over all of k.

    >>> WarpGroupProduct(128, 256, 4096, "float16", "float32", is_transposed=True, scope="shared.dyn", stages=4).name
    'wgmma_128x256x4096_f16f16f32_nk_shared_dyn_4'
    """

    m: int
    n: int
    k: int
    operand: str
    """The dtype of operands; "tf32" for float32 that is rounded."""
    total: str
    """The dtype of sums."""
    is_transposed: bool
    """Whether the second operand lies in memory with k innermost."""
    scope: str
    """Of the result."""
    stages: int
    index: str = "int32"
    """The dtype of the loops of what it stands for."""

    @property
    def name(self) -> str:
        """Of the tensor intrinsic."""
        short = {dtype: name for name, dtype in _DTYPES.items() if name != "tf32"} | {"tf32": "tf32"}
        operand, scopes = short[self.operand], {scope: name for name, scope in _SCOPES.items()}
        order = "nk" if self.is_transposed else "kn"
        wide = "_i64" if self.index == "int64" else ""
        types = f"{operand}{operand}{short[self.total]}"
        return f"wgmma_{self.m}x{self.n}x{self.k}_{types}_{order}_{scopes[self.scope]}_{self.stages}{wide}"

    @property
    def groups(self) -> int:
        """Warp groups of a block."""
        return self.m // GROUP_ROWS

    @property
    def dtype(self) -> str:
        """Of the elements of operands."""
        return "float32" if self.operand == "tf32" else self.operand

    @property
    def width(self) -> int:
        """Bytes of an element of an operand."""
        return dt.bytes_of(self.dtype)

    @property
    def step(self) -> int:
        """Numbers k of a stage."""
        return _ROW // self.width

    @property
    def steps(self) -> int:
        """How many stages are filled."""
        return self.k // self.step

    @property
    def stage_bytes(self) -> int:
        """Of both operands."""
        return (self.m + self.n) * _ROW

    @property
    def shared_bytes(self) -> int:
        """Of all stages."""
        return self.stages * self.stage_bytes

    @property
    def exists(self) -> bool:
        """Whether there are such products."""
        names = {"tf32": "tf32"} | {
            dtype: name for name, dtype in _DTYPES.items() if name not in ("tf32", "f32", "s32")
        }
        total = {"float32": "f32", "float16": "f16", "int32": "s32"}.get(self.total)
        columns = 64 if not self.is_transposed else 16 if self.total == "int32" else 8
        return (
            (names.get(self.operand), total) in _PRODUCTS
            and (self.is_transposed or self.width == 2)
            and self.m % GROUP_ROWS == 0
            and 1 <= self.groups <= _MOST_GROUPS
            and self.n % columns == 0
            and columns <= self.n <= _MOST_COLUMNS
            and self.k % self.step == 0
            and self.k > 0
            and 2 <= self.stages <= _MOST_STAGES
            and self.scope in _SCOPES.values()
            and self.index in ("int32", "int64")
        )

    @staticmethod
    def parse(name: str) -> WarpGroupProduct | None:
        """The one of a name; None where it is none."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        m, n, k, operand, total, order, scope, stages, is_wide = found.groups()
        if operand not in _DTYPES:
            return None
        made = WarpGroupProduct(
            int(m), int(n), int(k), operand if operand == "tf32" else _DTYPES[operand], _DTYPES[total], order == "nk", _SCOPES[scope],
            int(stages), "int64" if is_wide else "int32",
        )  # fmt: skip
        return made if made.exists and made.name == name else None


# -- description ---------------------------------------------------------------------------------------------------
def _buffers(of: WarpGroupProduct) -> tuple[Buffer, Buffer, Buffer]:
    right = (of.n, of.k) if of.is_transposed else (of.k, of.n)
    return (
        tile("a", (of.m, of.k), of.dtype, "global", has_strides=True),
        tile("b", right, of.dtype, "global", has_strides=True),
        tile("c", (of.m, of.n), of.total, of.scope, has_strides=True),
    )


def _function(
    a: Buffer, b: Buffer, c: Buffer, body: Stmt, allocated: tuple[Buffer, ...] = (), begun: Stmt | None = None
) -> PrimFunc:
    block = Block((), [whole(a), whole(b)], [whole(c)], "root", body, begun, allocated)
    return PrimFunc([a, b, c], BlockRealize((), const(True), block))


def _description(of: WarpGroupProduct) -> PrimFunc:
    a, b, c = _buffers(of)
    kinds = (IterVar.DataPar, IterVar.DataPar, IterVar.CommReduce)
    loops = [Var(f"i{axis}", of.index) for axis in range(3)]
    i, j, s = variables = [Var(f"v{axis}", of.index) for axis in range(3)]
    extents = (of.m, of.n, of.k)

    def factor(value: PrimExpr) -> PrimExpr:
        return round_to_tf32(value) if of.operand == "tf32" else cast(of.total, value)

    right = (j, s) if of.is_transposed else (s, j)
    update = BufferStore(c, c[i, j] + factor(a[i, s]) * factor(b[right]), (i, j))
    iter_vars = [
        IterVar(Range.from_min_extent(const(0, of.index), const(extent, of.index)), var, kind)
        for extent, var, kind in zip(extents, variables, kinds, strict=True)
    ]
    reads = [_at(c, i, j), _at(a, i, s), _at(b, *right)]
    block = Block(iter_vars, reads, [_at(c, i, j)], "update", update)
    stmt: Stmt = BlockRealize(loops, const(True), block)
    for loop, extent in reversed(list(zip(loops, extents, strict=True))):
        stmt = For(loop, const(0, of.index), const(extent, of.index), ForKind.SERIAL, stmt)
    begun = nest(
        "init", [("S", of.m), ("S", of.n)], lambda i, j: BufferStore(c, const(0, of.total), (i, j)), of.index
    )
    return _function(a, b, c, stmt, begun=begun)


def _at(buffer: Buffer, *indices: PrimExpr) -> BufferRegion:
    return BufferRegion(buffer, [Range.from_min_extent(index, const(1, index.dtype)) for index in indices])


# -- implementation ------------------------------------------------------------------------------------------------
class _Operand:
    """An operand: its stages in shared memory, the map of its tensor, and how a product reads it.

    Args:
        of: the product.
        buffer: in global memory.
        outer: the extent along m or n.
        is_along_k: whether rows in shared memory run along k.
    """

    def __init__(self, of: WarpGroupProduct, buffer: Buffer, outer: int, is_along_k: bool) -> None:
        self._of, self.buffer, self._is_along_k = of, buffer, is_along_k
        step = of.step
        self._pieces = 1 if is_along_k else outer // step
        rows = outer if is_along_k else step
        self._box = (rows, step)
        self.stages = decl_buffer(
            (of.stages, self._pieces, rows, step),
            of.dtype,
            f"{buffer.name}_stages",
            scope="shared.dyn",
            data_alignment=_ALIGNMENT,
        )
        self.map = Var(f"{buffer.name}_map", PointerType(PrimType("uint8"), TENSOR_MAP_SCOPE))
        self.leading = rows * _ROW

    def encoded(self) -> PrimExpr:
        """The map."""
        shape, strides = self.buffer.shape, (self.buffer.strides[0], const(1))
        return tensor_map_encode_tiled(
            address_of(self.buffer[0, 0]), self._of.dtype, _ROW, *shape, *strides, *self._box
        )

    def copies(self, stage: PrimExpr, step: PrimExpr) -> list[Stmt]:
        """Brings a step to a stage."""
        first = step * self._of.step
        places = (
            [(0, first)]
            if self._is_along_k
            else [(first, piece * self._of.step) for piece in range(self._pieces)]
        )
        return [
            Evaluate(
                ptx_cp_async_bulk_tensor(
                    self._of.dtype, address_of(self.stages[stage, piece, 0, 0]), 0, self.map, stage, *place
                )
            )
            for piece, place in enumerate(places)
        ]

    def read(self, stage: PrimExpr, group: PrimExpr, part: int) -> tuple[PrimExpr, PrimExpr]:
        """The address of a part of a stage that one instruction reads, from 64 rows of a group on, and elements to go from there."""
        within = 32 // self._of.width * part
        if self._is_along_k:
            return address_of(self.stages[stage, 0, group * GROUP_ROWS, 0]), const(within)
        return address_of(self.stages[stage, group, within, 0]), const(0)


class _Program:
    """The implementation of one product."""

    def __init__(self, of: WarpGroupProduct) -> None:
        self._of = of
        a, b, self._c = _buffers(of)
        self._a = _Operand(of, a, of.m, True)
        self._b = _Operand(of, b, of.n, of.is_transposed)
        self._sums = decl_buffer((of.n // 2,), of.total, "sums", scope="local")
        self._group, self._thread = Var("group", "int32"), Var("thread", "int32")

    def function(self) -> PrimFunc:
        """The function of it."""
        operands = (self._a, self._b)
        stages = [item.stages for item in operands]
        body: Stmt = seq([*self._prepare(), self._main_loop(), *self._finish()])
        for item in operands:
            body = LetStmt(item.map, item.encoded(), body)
        loops = (Var("group", "int32"), Var("thread", "int32"))
        axes = [
            IterVar(Range.from_min_extent(const(0), const(extent)), var, IterVar.DataPar)
            for var, extent in ((self._group, self._of.groups), (self._thread, WARP_GROUP))
        ]
        reads = [whole(item) for item in (self._a.buffer, self._b.buffer, *stages)]
        writes = [whole(item) for item in (self._c, *stages)]
        block = Block(axes, reads, writes, "warp_groups", body, alloc_buffers=(self._sums,))
        stmt: Stmt = BlockRealize(loops, const(True), block)
        for var, extent, tag in (
            (loops[1], WARP_GROUP, "threadIdx.x"),
            (loops[0], self._of.groups, "threadIdx.y"),
        ):
            axis = IterVar(None, Var(tag, "int32"), IterVar.ThreadIndex, tag)
            stmt = For(var, 0, extent, ForKind.THREAD_BINDING, stmt, axis)
        return _function(self._a.buffer, self._b.buffer, self._c, stmt, tuple(stages))

    # Barrier s tells that stage s has come, barrier stages + s that all warps are done with it.
    def _if_first(self, *statements: Stmt) -> Stmt:
        """What one thread of the block does."""
        is_first = logical_and(self._group.equal(0), self._thread.equal(0))
        return IfThenElse(is_first, seq(list(statements)))

    def _fill(self, stage: PrimExpr, step: PrimExpr) -> list[Stmt]:
        arrive = Evaluate(ptx_arrive_barrier_expect_tx(stage, self._of.stage_bytes))
        return [arrive, *self._a.copies(stage, step), *self._b.copies(stage, step)]

    def _prepare(self) -> list[Stmt]:
        of = self._of
        s, t = Var("s", "int32"), Var("s", "int32")
        make = [
            Evaluate(ptx_init_barrier_thread_count(s, 1)),
            Evaluate(ptx_init_barrier_thread_count(s + of.stages, of.groups * WARP_GROUP // _WARP)),
        ]
        made = For(s, 0, of.stages, ForKind.SERIAL, seq(make))
        filled = For(t, 0, min(of.stages - 1, of.steps), ForKind.SERIAL, seq(self._fill(t, t)))
        return [
            Evaluate(create_barriers(2 * of.stages)),
            self._if_first(made, Evaluate(ptx_fence_proxy_async())),
            Evaluate(tvm_storage_sync("shared")),
            self._if_first(filled),
            Evaluate(tvm_storage_sync("warp")),
        ]

    def _main_loop(self) -> Stmt:
        of, k = self._of, Var("k", "int32")
        stage, turn = floormod(k, of.stages), floordiv(k, of.stages)
        body = [
            Evaluate(ptx_wait_barrier(stage, floormod(turn, 2))),
            *self._round(stage),
            Evaluate(ptx_wgmma_fence()),
            *[self._multiply(k, stage, part) for part in range(_ROW // 32)],
            Evaluate(ptx_wgmma_commit_group()),
            Evaluate(ptx_wgmma_wait_group(1)),  # the products of the step before are done
        ]
        before = k - 1
        old, old_turn = floormod(before, of.stages), floordiv(before, of.stages)
        is_first_lane = floormod(self._thread, _WARP).equal(0)
        body.append(
            IfThenElse(logical_and(is_first_lane, k > 0), Evaluate(ptx_arrive_barrier(old + of.stages)))
        )
        if of.steps >= of.stages:
            later = k + (of.stages - 1)
            wait = IfThenElse(k > 0, Evaluate(ptx_wait_barrier(old + of.stages, floormod(old_turn, 2))))
            fill = self._if_first(wait, *self._fill(floormod(later, of.stages), later))
            body.append(IfThenElse(later < of.steps, fill))
            body.append(Evaluate(tvm_storage_sync("warp")))  # the lanes of a warp begin products together
        return For(k, 0, of.steps, ForKind.SERIAL, seq(body))

    def _round(self, stage: PrimExpr) -> list[Stmt]:
        """What came is rounded to tf32 in its place: wgmma cuts the bits off that it does not read."""
        if self._of.operand != "tf32":
            return []
        threads = self._of.groups * WARP_GROUP
        number, lanes = self._group * WARP_GROUP + self._thread, 4
        in_row = self._of.step // lanes
        body: list[Stmt] = []
        for operand, rows in ((self._a, self._of.m), (self._b, self._of.n)):
            i, e = Var("i", "int32"), Var("e", "int32")
            row = i * (threads // in_row) + floordiv(number, in_row)
            place = (stage, const(0), row, floormod(number, in_row) * lanes + e)
            store = BufferStore(operand.stages, round_to_tf32(BufferLoad(operand.stages, place)), place)
            vector: Stmt = For(e, 0, lanes, ForKind.VECTORIZED, store)
            turns, rest = divmod(rows * in_row, threads)
            if rest:
                vector, turns = IfThenElse(row < rows, vector), turns + 1
            body.append(For(i, 0, turns, ForKind.UNROLLED, vector))
        return [*body, Evaluate(ptx_fence_proxy_async()), Evaluate(tvm_storage_sync("shared"))]

    def _multiply(self, k: Var, stage: PrimExpr, part: int) -> Stmt:
        of = self._of
        keeps = const(True) if part else k > 0
        left, right = self._a.read(stage, self._group, part), self._b.read(stage, const(0), part)
        operand = of.operand
        call = ptx_wgmma_mma_async(
            of.total, f"m64n{of.n}k{32 // of.width}", "row", "col" if of.is_transposed else "row", operand, operand, of.total,
            *left, *right, address_of(self._sums[0]), 0, keeps, _ROW,
            16, _ATOM * _ROW, self._b.leading if not of.is_transposed else 16, _ATOM * _ROW,
        )  # fmt: skip
        return Evaluate(call)

    def _finish(self) -> list[Stmt]:
        """Waits for all products of the block, whose stages may hold something else then, and writes the sums."""
        j, e = Var("j", "int32"), Var("e", "int32")
        thread = self._thread
        row = (
            self._group * GROUP_ROWS
            + floordiv(thread, _WARP) * 16
            + floordiv(floormod(thread, _WARP), 4)
            + floormod(j, 2) * 8
        )
        column = floordiv(j, 2) * 8 + floormod(thread, 4) * 2 + e
        store: Stmt = BufferStore(self._c, self._sums[j * 2 + e], (row, column))
        pair = For(e, 0, 2, ForKind.VECTORIZED, store)
        return [
            Evaluate(ptx_wgmma_wait_group(0)),
            Evaluate(tvm_storage_sync("shared")),
            For(j, 0, self._of.n // 4, ForKind.UNROLLED, pair),
        ]


def _make(name: str) -> Pair | None:
    found = WarpGroupProduct.parse(name)
    return None if found is None else (_description(found), _Program(found).function())


TensorIntrin.register_family(_make)

"""TIR: the loop-level IR of tensor programs (expressions, statements with blocks, buffers, functions)."""

from ..dtype import bits, lanes
from .buffer import Buffer, decl_buffer
from .expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOpExpr,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CmpExpr,
    CommReducer,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    LogicalExpr,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from .operators import (
    add,
    cast,
    const,
    convert,
    div,
    floordiv,
    floormod,
    logical_and,
    logical_not,
    logical_or,
    multiply,
    power,
    subtract,
    truncdiv,
    truncmod,
)
from .function import PrimFunc, TensorIntrin
from .stmt_functor import (
    StmtExprMutator,
    StmtExprVisitor,
    ir_transform,
    post_order_visit,
    pre_order_visit,
    substitute,
)
from .index_map import IndexMap
from .op import *
from .stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
    While,
    seq,
    stmt_list,
    stmt_seq,
)


def __getattr__(name: str) -> object:
    """Passes, lowering and the interpreter are loaded when they are used: they need the pass infrastructure."""
    if name in ("transform", "lower", "interpreter", "analysis"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

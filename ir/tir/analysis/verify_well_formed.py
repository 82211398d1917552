"""The TIR verifier. Rules, each named in its error:

- ``undefined variable``: every variable is used inside the scope that defines it;
- ``nested redefinition``: no scope defines a variable that an enclosing one has defined (thread axes excepted);
- ``undeclared buffer``: every buffer accessed is a parameter, allocated, matched or declared, or its data pointer is in scope;
- ``index count``, ``index dtype``, ``stored dtype``: accesses fit the buffer;
- ``block iteration variables``: they differ, and their values have their dtypes;
- ``block isolation``: a block with iteration variables does not use loop variables from outside;
- ``loop bounds``: bounds are integers of the loop variable's dtype (nodes see to it that conditions are bool);
- ``call``: calls fit the PrimFuncs of the module that they call (:mod:`.call_fit`);
- ``result``: what a function returns has one dtype, the declared one.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ... import dtype as dt
from ...error import IRError, IRValueError
from ...module import IRModule
from ...node import Node
from ...type import PrimType
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..function import PrimFunc
from .call_fit import misfits
from .scoped import ScopedVisitor

_WINDOW = 20
"""Lines of the program that an error shows at most."""


class WellFormedError(IRValueError):
    """A TIR function breaks a rule of the verifier."""

    def __init__(self, rule: str, message: str, func_name: str, node: Any, statement: Any = None) -> None:
        self._given = (rule, message, func_name, node, statement)
        self.rule, self.node = rule, node
        self.statement = statement
        """The statement that the node belongs to, or None."""
        shown = _window(node)
        super().__init__(
            f"TIR function {func_name} is not well-formed ({rule}): {message}"
            + (f"\nat:\n{shown}" if shown else "")
        )

    def __reduce__(self) -> Any:
        return WellFormedError, self._given  # kernels are scheduled and compiled in other processes


def _window(node: Any) -> str:
    """The offending program text, cut to a few lines, with its place in the source if known."""
    if not isinstance(node, Node):
        return ""
    lines = repr(node).splitlines()
    text = "\n".join("  " + line for line in lines[:_WINDOW])
    if len(lines) > _WINDOW:
        text += f"\n  ... ({len(lines) - _WINDOW} more lines)"
    span = getattr(node, "span", None)
    return f"  # {span}\n{text}" if span is not None else text


class _Verifier(ScopedVisitor):
    remembers: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._defined: dict[Any, int] = {}
        self._ended: set[Any] = set()
        self._buffers: dict[Any, int] = {}
        self._loops: dict[Any, S.For] = {}
        """Loop variables in scope, with the loops."""
        self._hidden: list[set[Any]] = []
        """Loop variables that each enclosing block must not use."""
        self._statement: Any = None
        self._ret_type: Any = None
        self._returns_nothing = False

    def fail(self, rule: str, message: str, node: Any = None) -> None:
        shown = self._statement if node is None else node
        raise WellFormedError(rule, message, self._name, shown, self._statement)

    # ---- scopes -------------------------------------------------------------------------------------------------

    def enter_definition(self, var: E.Var, where: Node) -> None:
        depth = self._defined.get(var, 0)
        if depth and not isinstance(where, S.AttrStmt):
            self.fail("nested redefinition", f"variable {var.name} is defined inside its own scope", where)
        self._defined[var] = depth + 1

    def exit_definition(self, var: E.Var) -> None:
        self._defined[var] -= 1
        self._ended.add(var)

    def enter_buffer(self, buffer: Buffer, where: Node) -> None:
        self._buffers[buffer] = self._buffers.get(buffer, 0) + 1

    def exit_buffer(self, buffer: Buffer) -> None:
        self._buffers[buffer] -= 1

    def use(self, var: E.Var) -> None:
        if not self._defined.get(var):
            why = "is used outside of the scope that defines it" if var in self._ended else "is not defined"
            if self._statement is None:  # the head of the function
                why += f" by a parameter; give one {var.name} itself as an extent, or pass it as a parameter of its own"
            self.fail("undefined variable", f"variable {var.name} ({var.dtype}) {why}")
        for hidden in self._hidden:
            if var in hidden:
                self.fail(
                    "block isolation",
                    f"loop variable {var.name} from outside is used inside a block;"
                    " bind it to one of the block's iteration variables",
                )

    def use_buffer(self, buffer: Buffer, access: Any) -> None:
        if not self._buffers.get(buffer) and not self._defined.get(buffer.data):
            self.fail(
                "undeclared buffer",
                f"buffer {buffer.name} is neither a parameter nor allocated, matched or declared around this access",
                self._statement if isinstance(access, E.BufferLoad) else access,
            )
        indices = access.region if isinstance(access, S.BufferRegion) else access.indices
        if len(indices) != len(buffer.shape):
            self.fail(
                "index count",
                f"buffer {buffer.name} has {len(buffer.shape)} dimensions, the access has {len(indices)} indices",
                access,
            )
        for index in indices:
            value = index.min if isinstance(index, E.Range) else index
            if dt.code(value.dtype) not in ("int", "uint"):
                self.fail(
                    "index dtype",
                    f"an index of buffer {buffer.name} has dtype {value.dtype}, expected integers; cast it, as in"
                    ' T.Cast("int32", ...)',
                    access,
                )

    # ---- statements ---------------------------------------------------------------------------------------------

    def visit(self, node: Any) -> Any:
        if not isinstance(node, S.Stmt):
            method = self._table.get(node.__class__)
            return super().visit(node) if method is None else method(self, node)
        outer, self._statement = self._statement, node
        super().visit(node)
        self._statement = outer
        return None

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        buffer, value = store.buffer, store.value
        lanes = dt.lanes(buffer.dtype) * (dt.lanes(store.indices[-1].dtype) if store.indices else 1)
        expected = dt.with_lanes(buffer.dtype, lanes)
        if value.dtype != expected and not _same_bytes(value.dtype, expected):
            self.fail(
                "stored dtype",
                f"a value of dtype {value.dtype} is stored to buffer {buffer.name} of {expected}",
            )
        super().visit_BufferStore(store)

    def visit_Evaluate(self, stmt: S.Evaluate) -> None:
        value = stmt.value
        if isinstance(value, E.Call) and getattr(value.op, "name", "") == "tir.ret":
            self._check_result(value)
        self.generic_visit(stmt)

    def _check_result(self, call: E.Call) -> None:
        if call.args:
            self._check_result_dtype(call.args[0])
        else:
            self._returns_nothing = True
        if self._returns_nothing and isinstance(self._ret_type, PrimType):
            self.fail(
                "result",
                f"the function returns {self._ret_type.dtype}, but a return in it has no value; give every return one, or none",
            )

    def _check_result_dtype(self, value: Any) -> None:
        if not isinstance(self._ret_type, PrimType):
            self._ret_type = PrimType(value.dtype)
        elif value.dtype != self._ret_type.dtype:
            self.fail(
                "result",
                f"{value} of dtype {value.dtype} is returned, where {self._ret_type.dtype} is declared, or returned elsewhere;"
                f' convert it, as in T.Cast("{self._ret_type.dtype}", ...)',
            )

    def visit_For(self, loop: S.For) -> None:
        var = loop.loop_var
        for what, bound in (("min", loop.min), ("extent", loop.extent)):
            if not dt.is_integral(bound.dtype) or dt.lanes(bound.dtype) != 1:
                self.fail(
                    "loop bounds",
                    f"the {what} of loop {var.name} has dtype {bound.dtype}, expected an integer",
                )
            if bound.dtype != var.dtype and not isinstance(bound, E.IntImm):
                self.fail("loop bounds", f"loop {var.name} has dtype {var.dtype}, its {what} {bound.dtype}")
        self._loops[var] = loop
        super().visit_For(loop)
        del self._loops[var]

    def visit_AttrStmt(self, stmt: S.AttrStmt) -> None:
        if stmt.attr_key.startswith("pragma_") and isinstance(stmt.node, E.Var):
            # the variable names the loop below, which is where it is defined
            self.visit(stmt.value)
            self.visit(stmt.body)
            return
        super().visit_AttrStmt(stmt)

    def visit_BlockRealize(self, realize: S.BlockRealize) -> None:
        block = realize.block
        seen: set[Any] = set()
        for iv, value in zip(block.iter_vars, realize.iter_values, strict=True):
            if iv.var in seen:
                self.fail(
                    "block iteration variables", f"block {block.name_hint} has variable {iv.var.name} twice"
                )
            seen.add(iv.var)
            if value.dtype != iv.var.dtype:
                self.fail(
                    "block iteration variables",
                    f"variable {iv.var.name} of block {block.name_hint} has dtype {iv.var.dtype}, its value {value.dtype}",
                )
            self.visit(value)
        self.visit(realize.predicate)
        outside = set(self._loops) if block.iter_vars else set()
        self._hidden.append(outside)
        loops, self._loops = self._loops, {} if block.iter_vars else dict(self._loops)
        self.visit(block)
        self._loops = loops
        self._hidden.pop()

    def visit_PrimFunc(self, func: PrimFunc) -> None:
        if len(set(func.params)) != len(func.params):
            self.fail("parameters", "a parameter occurs twice", func)
        for param in func.buffer_map:
            if param not in func.params:
                self.fail("parameters", f"buffer_map binds {param.name}, which is no parameter", func)
        self._ret_type = func.ret_type
        super().visit_PrimFunc(func)


def _same_bytes(a: str, b: str) -> bool:
    """bool is stored as a byte."""
    bytes_like = ("bool", "int8", "uint8")
    return dt.element_of(a) in bytes_like and dt.element_of(b) in bytes_like and dt.lanes(a) == dt.lanes(b)


def assert_calls_fit(module: IRModule) -> None:
    """Verify the calls between PrimFuncs of a module; raises WellFormedError naming caller, callee, argument and place."""
    for var, func in module.functions.items():
        if isinstance(func, PrimFunc):
            for misfit in misfits(func, var.name_hint, module):
                raise WellFormedError(
                    "call", misfit.message, var.name_hint, misfit.statement or misfit.call, misfit.statement
                )


def assert_well_formed(obj: PrimFunc | IRModule) -> None:
    """Verify a function, or all PrimFuncs of a module; raises WellFormedError naming the broken rule and the place."""
    if isinstance(obj, IRModule):
        for var in obj.get_global_vars():
            func = obj[var]
            if isinstance(func, PrimFunc):
                _Verifier(var.name_hint).visit(func)
        assert_calls_fit(obj)
        return
    name = str(obj.attrs.get("global_symbol", "")) or "(unnamed)"
    _Verifier(name).visit(obj)


def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """Whether a function (or every PrimFunc of a module) is well-formed.

    Args:
        obj: what to verify.
        assert_mode: raise WellFormedError instead of returning False.
    """
    try:
        assert_well_formed(obj)
    except IRError:
        if assert_mode:
            raise
        return False
    return True

"""SplitCallTIRByPattern: the first operators of a kernel become a call of a library function, when they match patterns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRTypeError, IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...structural import StructuralMatcher
from ...tir.buffer import Buffer
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ...tir.stmt import BlockRealize, SeqStmt, Stmt, seq
from ...transform import ModulePass, PassContext
from ..block_builder import BlockBuilder
from ..expr import Call, Expr, ShapeExpr, Tuple, is_call_to
from ..function import ExternFunc
from ..function_signature import MapCall, reference_to, replace_calls
from ..struct_info import TensorStructInfo, TupleStructInfo
from .grouping import NameTable
from .split_layout_rewrite_preproc import buffers_of


@dataclass(frozen=True)
class MatchResult:
    """What a pattern matched.

    Attributes:
        pattern: the PrimFunc that matched.
        symbol_values: of the pattern's symbolic variables, in the order in which its buffers name them.
        matched_buffers: of the kernel, for the pattern's parameters.
    """

    pattern: PrimFunc
    symbol_values: list[Any]
    matched_buffers: list[Buffer]


CodeGenerator = Callable[[list[MatchResult]], Sequence[Any]]
"""From matches to nothing, or to the library function's source, the number of matches it covers, and its buffers."""


def _parts(func: PrimFunc) -> list[Stmt]:
    """The statements that follow each other in the root block."""
    body = func.body.block.body if isinstance(func.body, BlockRealize) else func.body
    return list(body.seq) if isinstance(body, SeqStmt) else [body]


def _symbols(func: PrimFunc) -> list[TirVar]:
    found: dict[TirVar, None] = {}
    for param in func.params:
        buffer = func.buffer_map.get(param)
        for dim in buffer.shape if buffer is not None else ():
            if isinstance(dim, TirVar):
                found.setdefault(dim)
    return list(found)


def _match(pattern: PrimFunc, parts: Sequence[Stmt]) -> MatchResult | None:
    """Match a pattern with the first of some statements."""
    wanted = _parts(pattern)
    if len(wanted) > len(parts):
        return None
    symbols = _symbols(pattern)
    matcher = StructuralMatcher(symbols)
    if not all(matcher.match(left, right) for left, right in zip(wanted, parts, strict=False)):
        return None
    buffers = [pattern.buffer_map[param] for param in pattern.params if param in pattern.buffer_map]
    matched = [matcher.counterpart(buffer) for buffer in buffers]
    values = [matcher.counterpart(symbol) for symbol in symbols]
    if any(item is None for item in (*matched, *values)):
        return None
    return MatchResult(pattern, values, matched)


def _matches(patterns: Sequence[PrimFunc], parts: Sequence[Stmt]) -> list[MatchResult]:
    """Matches that follow each other from the first statement on."""
    found: list[MatchResult] = []
    place = 0
    while place < len(parts):
        match = next((m for p in patterns if (m := _match(p, parts[place:])) is not None), None)
        if match is None:
            break
        found.append(match)
        place += len(_parts(match.pattern))
    return found


@dataclass
class _Split:
    """A kernel in two: what the library computes, and the rest (None when there is none)."""

    library: ExternFunc
    operands: list[int]
    """Arguments of the kernel that the library function takes."""
    made: Buffer
    rest: PrimFunc | None
    rest_operands: list[int | None]
    """Arguments of the kernel that the rest takes; None is what the library has made."""
    rest_var: GlobalVar | None = None


def _split(func: PrimFunc, name: str, patterns: Sequence[PrimFunc], fcodegen: CodeGenerator) -> _Split | None:
    parts = _parts(func)
    matches = _matches(patterns, parts)
    if not matches:
        return None
    answer = list(fcodegen(matches))
    if not answer:
        return None
    if len(answer) != 3:
        raise IRValueError(
            "SplitCallTIRByPattern: fcodegen must return the source, how many matches it covers and the buffers to pass,"
            f" got {len(answer)} values"
        )
    source, count, passed = str(answer[0]), int(getattr(answer[1], "value", answer[1])), list(answer[2])
    if count == 0:
        return None
    if not 0 < count <= len(matches):
        raise IRValueError(f"SplitCallTIRByPattern: fcodegen covers {count} of {len(matches)} matches")
    place = sum(len(_parts(match.pattern)) for match in matches[:count])
    params = [func.buffer_map.get(param) for param in func.params]
    written = [buffer for part in parts[:place] for buffer in buffers_of(part)[1] if buffer in passed]
    made = list(dict.fromkeys(written))
    operands = [buffer for buffer in passed if buffer not in made]
    if len(made) != 1 or any(buffer not in params for buffer in operands):
        return None  # a library function has one result, and takes what the kernel is given
    symbol = f"{name}_library"
    library = ExternFunc(
        symbol, attrs={"c_source": source.replace("{global_symbol}", symbol), "c_source_fmt": "cu"}
    )
    given = [params.index(buffer) for buffer in operands]
    if place == len(parts):
        return _Split(library, given, made[0], None, [])
    loads = {buffer for part in parts[place:] for kind in buffers_of(part) for buffer in kind}
    kept = [index for index, buffer in enumerate(params) if buffer is None or buffer in loads]
    rest_params: list[Any] = [
        func.params[index] if params[index] is None else params[index] for index in kept
    ]
    rest_operands: list[int | None] = list(kept)
    if made[0] in loads and made[0] not in params:
        rest_params.insert(0, made[0])
        rest_operands.insert(0, None)
    root = func.body.block if isinstance(func.body, BlockRealize) else None
    if root is None:
        return None
    allocated = tuple(buffer for buffer in root.alloc_buffers if buffer in loads and buffer is not made[0])
    body = func.body.replace(block=root.replace(body=seq(*parts[place:]), alloc_buffers=allocated))
    rest = PrimFunc(rest_params, body, func.ret_type, None, func.attrs).without_attr("global_symbol")
    return _Split(library, given, made[0], rest, rest_operands)


def _calls(split: _Split) -> MapCall:
    """What calls of a split kernel become: a call of the library, and one of the rest."""

    def make(builder: BlockBuilder, call: Call) -> Expr:
        if (
            not is_call_to(call, "relax.call_tir")
            or len(call.args) != 2
            or not isinstance(call.args[1], Tuple)
        ):
            return call
        args, info = call.args[1], call.sinfo_args[0]
        operands = Tuple([args.fields[index] for index in split.operands])
        packed = Op.get("relax.call_dps_packed")
        if split.rest_var is None:
            return Call(packed, (split.library, operands), None, [info], call.span, info)
        made = TensorStructInfo(ShapeExpr(split.made.shape), split.made.dtype)
        value = builder.emit(Call(packed, (split.library, operands), None, [made], None, made))
        outputs = len(info.fields) if isinstance(info, TupleStructInfo) else 1
        inputs = split.rest_operands[: len(split.rest_operands) - outputs]
        rest = Tuple([value if index is None else args.fields[index] for index in inputs])
        return call.replace(args=(split.rest_var, rest), struct_info_=info)  # type: ignore[no-any-return]

    return make


@dataclass(frozen=True)
class SplitCallTIRByPattern(ModulePass):
    """Split kernels into the operators that match patterns, which a library computes, and the rest.

    Before::

        z = R.call_tir(cls.matmul_relu, (x, w), out_sinfo=R.Tensor((16, 16), "float32"))

    After::

        lv = R.call_dps_packed("matmul_relu_library", (x, w), out_sinfo=R.Tensor((16, 16), "float32"))
        z = R.call_tir(cls.matmul_relu_rest, (lv,), out_sinfo=R.Tensor((16, 16), "float32"))

    Args:
        patterns: PrimFuncs; their symbolic variables match any expression. Earlier ones are preferred.
        fcodegen: called with the matches that follow each other at a kernel's beginning. It returns an empty list to leave
            the kernel alone, or ``[source, count, buffers]``: the source of a library function (``{global_symbol}`` in it
            becomes its name), how many of the matches it computes, and the kernel's buffers that it takes.
    """

    patterns: Sequence[PrimFunc]
    fcodegen: CodeGenerator

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            if not isinstance(pattern, PrimFunc):
                raise IRTypeError(
                    f"SplitCallTIRByPattern: patterns must be PrimFuncs, got {type(pattern).__name__}"
                )

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with split kernels."""
        names = NameTable(mod)
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        split: dict[str, _Split] = {}
        for var, func in mod.functions.items():
            found = (
                _split(func, var.name_hint, self.patterns, self.fcodegen)
                if isinstance(func, PrimFunc)
                else None
            )
            if found is None:
                continue
            if found.rest is not None:
                found.rest_var = reference_to(names.fresh(f"{var.name_hint}_rest"), found.rest)
                functions[found.rest_var] = found.rest
            if "global_symbol" not in func.attrs:
                del functions[var]
            split[var.name_hint] = found
        if not split:
            return mod
        calls = {name: _calls(found) for name, found in split.items()}
        return replace_calls(mod.replace(functions=functions), calls)


__all__ = ["MatchResult", "SplitCallTIRByPattern"]

"""What the functions of one LLVM module share: attributes, loop metadata, calls of Python, and which loops a schedule shaped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ...expr import GlobalVar
from ...module import IRModule
from ...node import Visitor
from ...tir import expr as E
from ...tir import stmt as S
from ...tir.buffer import Buffer
from .builder import ModuleBuilder


@dataclass
class PackedSite:
    """One call of a registered Python function: how its arguments are to be understood."""

    function: str
    arguments: list[tuple[str, str, int]] = field(default_factory=list)
    """(kind, dtype, elements) per argument; kind is ``int``, ``float``, ``pointer`` or ``string``."""


class KernelContext:
    """What all functions of one LLVM module share."""

    def __init__(self, module: ModuleBuilder, program: IRModule, vector_bits: int) -> None:
        self.module = module
        self.program = program
        width = f'"prefer-vector-width"="{vector_bits}" "min-legal-vector-width"="{vector_bits}"'
        self.attributes = module.attributes(f"nounwind {width}")
        self.outlined_attributes = module.attributes(f"noinline nounwind {width}")
        self.packed_sites: list[PackedSite] = []
        self.shapes = LoopShapes()
        self.wants_vectorizer = False
        """Whether some innermost loop is scalar, so that LLVM's vectorizer has something to do."""
        self._keep_loop: str | None = None

    def keep_loop(self) -> str:
        """Metadata for the branch of a loop that LLVM shall neither unroll nor vectorize."""
        if self._keep_loop is None:
            unroll = self.module.metadata('!{!"llvm.loop.unroll.disable"}')
            vectorize = self.module.metadata('!{!"llvm.loop.vectorize.enable", i1 false}')
            self._keep_loop = f"{unroll}, {vectorize}"
        return self.module.metadata(f"distinct !{{{{self}}, {self._keep_loop}}}")


class LoopShapes(Visitor):
    """Tells loops that a schedule has shaped (vectors or unrolled copies inside) from scalar innermost ones."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.scalar_innermost: set[int] = set()
        self.shaped: set[int] = set()
        self._is_shaped = False
        self._has_loop = False

    def visit_Ramp(self, node: E.Ramp) -> None:
        self._is_shaped = True

    def visit_Buffer(self, node: Buffer) -> None:
        pass

    def visit_Call(self, call: E.Call) -> None:
        if isinstance(call.op, GlobalVar):
            self._has_loop = True  # in the function
        self.generic_visit(call)

    def visit_For(self, loop: S.For) -> None:
        outer_shaped, self._is_shaped = self._is_shaped, loop.kind == S.ForKind.UNROLLED
        self._has_loop = False
        self.visit(loop.body)
        if self._is_shaped:
            self.shaped.add(id(loop))
        elif not self._has_loop:
            self.scalar_innermost.add(id(loop))
        self._is_shaped = self._is_shaped or outer_shaped
        self._has_loop = True


def function_symbol(program: IRModule, var: GlobalVar) -> str:
    """The C symbol of a function of the module."""
    func = program[var]
    return str(func.attrs.get("global_symbol", var.name_hint))

"""What the functions of one LLVM module share: attributes, loop metadata, calls of Python, the codes that kernels return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...module import IRModule
from .builder import ModuleBuilder
from .symbols import symbols_of_functions

#: What a kernel returns.
OK, FAILED, OUT_OF_MEMORY, PYTHON_RAISED = 0, -1, -2, -3


@dataclass
class PackedSite:
    """One call of a registered Python function: how its arguments are to be understood."""

    function: str
    arguments: list[tuple[str, str, int]] = field(default_factory=list)
    """(kind, dtype, elements) per argument; kind is ``int``, ``float``, ``pointer`` or ``string``."""


class KernelContext:
    """What all functions of one LLVM module share."""

    def __init__(
        self,
        module: ModuleBuilder,
        program: IRModule,
        vector_bits: int,
        computes_halves: bool = True,
        repairs_nan: bool = False,
        vector_constraints: Mapping[int, str] | None = None,
        dot_products: Callable[[], Mapping[tuple[str, str], tuple[str, tuple[int, ...]]]] = dict,
        has_matrix_unit: Callable[[], bool] = bool,
    ) -> None:
        self.module = module
        self.program = program
        self.symbols = symbols_of_functions(program)
        """What the functions are called in the object file."""
        self.vector_bits = vector_bits
        """The width of the machine's vectors."""
        self.computes_halves = computes_halves
        """Whether the machine has instructions for float16."""
        self.repairs_nan = repairs_nan
        """Whether :mod:`.nan_repair` is faster than what LLVM makes of extremes that keep NaN."""
        self.vector_constraints = {
            bits: letter for bits, letter in (vector_constraints or {}).items() if bits <= vector_bits
        }
        """The letter of assembly for a vector register of so many bits; none where there is no such register."""
        self.dot_products = dot_products
        """What :func:`.dot_product.instructions` says of the machine, asked when it is wanted."""
        self.has_matrix_unit = has_matrix_unit
        """Whether the machine has one, asked when that is wanted."""
        width = f'"prefer-vector-width"="{vector_bits}" "min-legal-vector-width"="{vector_bits}"'
        self.attributes = module.attributes(f"nounwind {width}")
        self.outlined_attributes = module.attributes(f"noinline nounwind {width}")
        self.packed_sites: list[PackedSite] = []
        self.wants_vectorizer = False
        """Whether some innermost loop is scalar, so that LLVM's vectorizer has something to do."""
        self._keep_loop: str | None = None
        self._rolled_loop: str | None = None

    def rolled_loop(self) -> str:
        """Metadata for the branch of a loop that LLVM shall not unroll, so that its vectorizer finds a loop."""
        if self._rolled_loop is None:
            self._rolled_loop = self.module.metadata('!{!"llvm.loop.unroll.disable"}')
        return self.module.metadata(f"distinct !{{{{self}}, {self._rolled_loop}}}")

    def keep_loop(self) -> str:
        """Metadata for the branch of a loop that LLVM shall neither unroll nor vectorize."""
        if self._keep_loop is None:
            unroll = self.module.metadata('!{!"llvm.loop.unroll.disable"}')
            vectorize = self.module.metadata('!{!"llvm.loop.vectorize.enable", i1 false}')
            self._keep_loop = f"{unroll}, {vectorize}"
        return self.module.metadata(f"distinct !{{{{self}}, {self._keep_loop}}}")

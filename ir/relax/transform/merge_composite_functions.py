"""MergeCompositeFunctions: neighbouring composite functions of one backend become one region for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..analysis.binding import used_vars
from ..bind import copy_with_new_vars
from ..expr import BindingBlock, Call, DataflowBlock, If, SeqExpr, TupleGetItem, Var, VarBinding
from ..expr_functor import ExprMutator
from ..function import Function
from .dead_code_elimination import called_names
from .function_pass import rewrite_functions
from .grouping import Group, GroupRewriter, NameTable


def _dataflow_blocks(seq: SeqExpr) -> Iterator[DataflowBlock]:
    """The dataflow blocks of a sequence, those in branches and local functions included."""
    for block in seq.blocks:
        if isinstance(block, DataflowBlock):
            yield block
        for binding in block.bindings:
            value: Any = binding.value  # type: ignore[attr-defined]
            inner = (value.true_branch, value.false_branch) if isinstance(value, If) else ()
            for part in (value.body,) if isinstance(value, Function) else inner:
                yield from _dataflow_blocks(part)


def _backend_of(mod: IRModule, value: Any) -> str | None:
    """The backend of the composite function that a value calls."""
    if not isinstance(value, Call) or not isinstance(value.op, GlobalVar):
        return None
    func = mod[value.op]
    composite = func.attrs.get("Composite") if isinstance(func, Function) else None
    return None if composite is None else str(composite).split(".")[0]


class _Regions:
    """Groups of one block's bindings that are called together; regions never depend on each other in a circle."""

    def __init__(self, mod: IRModule, block: BindingBlock) -> None:
        self._mod = mod
        self._bindings = [b for b in block.bindings if isinstance(b, VarBinding)]
        self._region: dict[Var, int] = {}
        self._backends: list[str | None] = []
        self._members: list[list[VarBinding]] = []
        self._dependencies: list[set[int]] = []
        """Regions that each region depends on, directly or not."""

    def run(self) -> list[tuple[str, list[VarBinding]]]:
        for binding in self._bindings:
            self._place(binding)
        return [
            (backend, members)
            for backend, members in zip(self._backends, self._members, strict=True)
            if backend is not None and members
        ]

    def _place(self, binding: VarBinding) -> None:
        inputs = {self._region[var] for var in used_vars(binding.value) if var in self._region}
        backend = _backend_of(self._mod, binding.value)
        if backend is None and isinstance(binding.value, TupleGetItem) and len(inputs) == 1:
            # Taking a tuple apart belongs to whoever made it.
            (only,) = inputs
            backend = self._backends[only]
        all_dependencies = set(inputs)
        for item in inputs:
            all_dependencies |= self._dependencies[item]
        candidates = [
            item for item in sorted(inputs) if backend is not None and self._backends[item] == backend
        ]
        home: int | None = None
        for candidate in candidates:
            # Joining must not make the region depend on something that depends on it.
            others = all_dependencies - {candidate}
            if all(candidate not in self._dependencies[other] for other in others):
                home = candidate
                break
        if home is None:
            home = len(self._members)
            self._backends.append(backend)
            self._members.append([])
            self._dependencies.append(set())
        self._members[home].append(binding)
        self._region[binding.var] = home
        self._dependencies[home] |= all_dependencies - {home}
        for other in candidates:
            if other != home and self._can_merge(home, other):
                self._merge(home, other)

    def _can_merge(self, home: int, other: int) -> bool:
        """Regions merge when no third one lies between them."""
        between = {
            item
            for item in range(len(self._members))
            if item not in (home, other)
            and (
                (other in self._dependencies[item] and item in self._dependencies[home])
                or (home in self._dependencies[item] and item in self._dependencies[other])
            )
        }
        return not between

    def _merge(self, home: int, other: int) -> None:
        self._members[home] += self._members[other]
        order = {binding.var: number for number, binding in enumerate(self._bindings)}
        self._members[home].sort(key=lambda binding: order[binding.var])
        for binding in self._members[other]:
            self._region[binding.var] = home
        self._members[other] = []
        self._dependencies[home] = (self._dependencies[home] | self._dependencies[other]) - {home, other}
        for dependencies in self._dependencies:
            if other in dependencies:
                dependencies.discard(other)
                dependencies.add(home)
        self._dependencies[home].discard(home)


class _Inliner(ExprMutator):
    """Composite functions become local functions of their region, each bound where it is first called."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__()
        self._mod = mod
        self._local: dict[str, Var] = {}

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        func = self._mod[call.op] if isinstance(call.op, GlobalVar) else None
        if not isinstance(func, Function) or "Composite" not in func.attrs:
            return call
        name = call.op.name_hint
        if name not in self._local:
            local = copy_with_new_vars(func).without_attr("Primitive")
            self._local[name] = self.builder_.emit(local, "local_func")
        return call.replace(op=self._local[name], struct_info_=call.struct_info)


@dataclass(frozen=True)
class MergeCompositeFunctions(ModulePass):
    """Combine calls of composite functions (made by FuseOpsByPattern) of one backend into functions for its code generator.

    Before::

        lv = cls.fused_conv2d_relu(x, w)       # Composite: "dnnl.conv2d_relu"
        gv = cls.fused_conv2d_relu1(lv, w1)    # Composite: "dnnl.conv2d_relu"

    After::

        gv = cls.fused_conv2d_relu_conv2d_relu1_dnnl(x, w, w1)

    The new function has the attributes ``Codegen`` and ``global_symbol``; the composite functions are local to it.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with regions."""
        result = mod.clone()
        names = NameTable(mod)
        changed = False
        for var, func in list(mod.functions.items()):
            if not isinstance(func, Function) or {"Composite", "Codegen"} & set(func.attrs):
                continue
            groups: list[Group] = []
            for block in _dataflow_blocks(func.body):
                for backend, bindings in _Regions(mod, block).run():
                    labels = [
                        b.value.op.name_hint.removeprefix("fused_")  # type: ignore[attr-defined]
                        for b in bindings
                        if isinstance(b.value, Call)
                    ]
                    name = names.fresh("_".join(["fused", *labels, backend]))
                    attrs = {"Codegen": backend, "global_symbol": name}
                    groups.append(Group(bindings, name, attrs, lift_constants=False))
            if groups:
                changed = True
                result.functions[var] = _RegionRewriter(result, groups, func, names).visit_expr(func)
        if not changed:
            return mod
        before = {var.name_hint for var in mod.functions}
        result = rewrite_functions(
            result, lambda var, func: _Inliner(mod).visit_expr(func) if var.name_hint not in before else func
        )
        composites = {
            var
            for var, func in mod.functions.items()
            if isinstance(func, Function) and "Composite" in func.attrs
        }
        called = called_names(result)  # calls outside of dataflow blocks are not merged
        return result.replace(
            functions={
                var: func
                for var, func in result.functions.items()
                if var not in composites or var.name_hint in called
            }
        )


class _RegionRewriter(GroupRewriter):
    """A region's name is fixed already, for it is its symbol."""

    def _add(self, group: Group, function: Function) -> GlobalVar:
        var = GlobalVar(group.name, function.struct_info_)
        self._result.functions[var] = function
        return var


__all__ = ["MergeCompositeFunctions"]

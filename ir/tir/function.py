"""PrimFunc: a function of TIR, over buffers (through handles) and scalars; and tensor intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ..attrs import DictAttrs, as_attrs
from ..error import IRTypeError, IRValueError
from ..external import external
from ..function import BaseFunc
from ..node import Node, field, post_order_visit
from ..type import TupleType, Type
from .buffer import Buffer
from .expr import Call, PrimExpr, Var
from .intrinsic.declaration import CallEffectKind, effect_of
from .operators import convert
from .stmt import BufferStore, Stmt
from .stmt_functor import substitute

OUTLINED = "tir.outlined"
"""Attribute of functions that lowering makes of parts of others; nothing outside of the module calls them.

``"parallel"``: the first two parameters are a range of iterations, and the runtime's threads share a call. ``"compute"``: the
work of a function whose large buffers are passed to it.
"""


def _params(values: Any) -> tuple[Any, ...]:
    return tuple(values)


def _ret_type(value: Type | None) -> Type:
    return TupleType(()) if value is None else value


class PrimFunc(BaseFunc, type_key="tir.PrimFunc"):
    """A TIR function. A parameter may be a Buffer: it becomes a handle variable bound in ``buffer_map``."""

    params: tuple[Var, ...] = field(defines=True)
    body: Stmt
    ret_type: Type = field(default=None, convert=_ret_type)
    buffer_map: dict[Var, Buffer] = field(default=None, kind="map", defines=True)
    attrs: DictAttrs = field(default=None, convert=as_attrs)

    _compare_order: ClassVar[tuple[str, ...]] = ("params", "buffer_map", "ret_type", "body", "attrs")

    def __init__(
        self,
        params: Any,
        body: Stmt,
        ret_type: Type | None = None,
        buffer_map: Mapping[Var, Buffer] | None = None,
        attrs: Any = None,
        struct_info_: Any = None,
        span: Any = None,
    ) -> None:
        buffers = dict(buffer_map or {})
        handles = []
        for item in params:
            if isinstance(item, Buffer):
                handle = Var(
                    f"{item.name}_handle" if not item.name.endswith("_handle") else item.name, "handle"
                )
                buffers[handle] = item
                item = handle
            if not isinstance(item, Var):
                raise IRTypeError(
                    f"a PrimFunc parameter must be a Var or a Buffer, got {type(item).__name__}"
                )
            handles.append(item)
        _set_params(self, tuple(handles))
        _set_body(self, body)
        _set_ret_type(self, _ret_type(ret_type))
        _set_buffer_map(self, buffers)
        _set_attrs(self, as_attrs(attrs))
        _set_struct_info(self, struct_info_)
        _set_span(self, span)

    @property
    def struct_info(self) -> Any:
        """The function as a Relax function sees it: tensors for buffers, scalars, objects for other handles.

        It is pure when it writes only to buffers that it allocates, and calls nothing that has effects.
        """
        if self.struct_info_ is not None:
            return self.struct_info_
        return external("kernel_struct_info")(self)

    def is_pure(self) -> bool:
        """Whether it writes only to buffers that it allocates, and calls nothing that has effects."""
        outside = {id(buffer.data) for buffer in self.buffer_map.values()} | {
            id(param) for param in self.params
        }
        effects: list[Any] = []

        def look(node: Any) -> None:
            if isinstance(node, BufferStore) and id(node.buffer.data) in outside:
                effects.append(node)
            elif isinstance(node, Call) and getattr(node.op, "name", "") != "tir.ret":
                if effect_of(node) > CallEffectKind.READ_STATE:
                    effects.append(node)

        post_order_visit(self.body, look)
        return not effects

    def with_body(self, new_body: Stmt, span: Any = None) -> PrimFunc:
        """A copy with another body, and another place in the source if one is given."""
        return self.replace(body=new_body, span=self.span if span is None else span)

    def specialize(self, param_map: Mapping[Var, Any]) -> PrimFunc:
        """A copy with parameters replaced: a scalar or symbolic variable by a value, a handle by a Buffer of the shape wanted.

        Variables are the function's own, as in ``func.specialize({func.buffer_map[func.params[0]].shape[0]: 128})``; a name, or
        another variable of this name, is none of them.

        Raises:
            IRValueError: one is no parameter or symbolic shape of this function, or a buffer does not have the wanted shape.
        """
        values: dict[Any, Any] = {}
        for param, value in param_map.items():
            if isinstance(value, Buffer):
                values.update(_match_shapes(self.buffer_map[param], value))
            else:
                values[param] = convert(value)
        unknown = [var for var in values if not self._mentions(var)]
        if unknown:
            advice = "; pass the variable, as in {func.params[0]: 128}, and not its name" * isinstance(
                unknown[0], str
            )
            raise IRValueError(
                f"specialize: {unknown[0]!r} is no parameter or symbolic shape of this function{advice}"
            )
        kept = tuple(param for param in self.params if param not in values)
        return substitute(self.replace(params=kept), values)

    def _mentions(self, var: Any) -> bool:
        found = [param is var for param in self.params]
        for buffer in self.buffer_map.values():
            post_order_visit(buffer, lambda node: found.append(node is var))
        return any(found)


_set_params = PrimFunc.params.__set__  # type: ignore[attr-defined]
_set_body = PrimFunc.body.__set__  # type: ignore[attr-defined]
_set_ret_type = PrimFunc.ret_type.__set__  # type: ignore[attr-defined]
_set_buffer_map = PrimFunc.buffer_map.__set__  # type: ignore[attr-defined]
_set_attrs = BaseFunc.attrs.__set__  # type: ignore[attr-defined]
_set_struct_info = BaseFunc.struct_info_.__set__  # type: ignore[attr-defined]
_set_span = BaseFunc.span.__set__  # type: ignore[union-attr]


def _match_shapes(old: Buffer, new: Buffer) -> dict[Var, PrimExpr]:
    if len(old.shape) != len(new.shape) or old.dtype != new.dtype:
        raise IRValueError(
            f"specialize: buffer {old.name} is {len(old.shape)}-dimensional {old.dtype},"
            f" got {len(new.shape)}-dimensional {new.dtype}"
        )
    values: dict[Var, PrimExpr] = {}
    for before, after in zip((*old.shape, *old.strides), (*new.shape, *new.strides), strict=True):
        if isinstance(before, Var):
            values[before] = after
        elif before is not after and getattr(before, "value", None) != getattr(after, "value", None):
            raise IRValueError(
                f"specialize: buffer {old.name} has extent {before}, which cannot become {after}"
            )
    return values


class TensorIntrin(Node, type_key="tir.TensorIntrin"):
    """A tensor instruction: ``desc`` says in TIR what ``impl`` does; ``tensorize`` swaps one for the other."""

    desc: PrimFunc
    impl: PrimFunc

    registry: ClassVar[dict[str, TensorIntrin]] = {}
    _makers: ClassVar[dict[str, Callable[[], tuple[PrimFunc, PrimFunc]]]] = {}
    """What makes those that nobody has asked for yet."""
    _families: ClassVar[list[Callable[[str], tuple[PrimFunc, PrimFunc] | None]]] = []
    """What makes those whose names tell sizes; None of other names."""

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Register under ``name``; raises IRValueError when it exists and ``override`` is False."""
        if name in TensorIntrin.names() and not override:
            raise IRValueError(
                f"tensor intrinsic {name!r} is registered already; pass override=True to replace it"
            )
        if len(desc.params) != len(impl.params):
            raise IRValueError(
                f"tensor intrinsic {name!r}: desc has {len(desc.params)} parameters, impl {len(impl.params)}"
            )
        intrin = TensorIntrin.registry[name] = TensorIntrin(desc, impl)
        return intrin

    @staticmethod
    def register_made(name: str, make: Callable[[], tuple[PrimFunc, PrimFunc]]) -> str:
        """Register what ``make()`` gives, description and implementation, which is called when somebody asks; the name."""
        if name in TensorIntrin.names():
            raise IRValueError(f"tensor intrinsic {name!r} is registered already")
        TensorIntrin._makers[name] = make
        return name

    @staticmethod
    def register_family(make: Callable[[str], tuple[PrimFunc, PrimFunc] | None]) -> None:
        """Register intrinsics whose names tell sizes: ``make(name)`` gives description and implementation, None for other names."""
        TensorIntrin._families.append(make)

    @staticmethod
    def names() -> list[str]:
        """All that are registered, in order, and those of families that somebody has asked for."""
        return sorted({*TensorIntrin.registry, *TensorIntrin._makers})

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic registered under ``name``."""
        found = TensorIntrin.registry.get(name)
        if found is None and name in TensorIntrin._makers:
            found = TensorIntrin.register(name, *TensorIntrin._makers[name](), override=True)
        for make in TensorIntrin._families if found is None else ():
            pair = make(name)
            if pair is not None:
                found = TensorIntrin.register(name, *pair)
                break
        if found is None and not allow_missing:
            raise IRValueError(f"no tensor intrinsic {name!r}; registered are {TensorIntrin.names()}")
        return found

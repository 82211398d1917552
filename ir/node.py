"""One declaration per node: constructors, visiting, rewriting, equality, hashing and JSON all derive from it.

A node class lists its fields as annotations; the metaclass turns them into slots, a compiled constructor and compiled
walks. Nodes are immutable. A field is described by :func:`field` (or :func:`derived`) where its annotation does not
say enough::

    class Add(PrimExpr, type_key="tir.Add"):
        a: PrimExpr
        b: PrimExpr
        dtype: str = derived("a.dtype")

The annotation tells what a walk does with the field: names of plain values (``str``, ``int``, ``bool``, ``float``,
``bytes``, ``Any``, ``object``) are leaves, ``tuple[...]`` is a sequence of nodes, ``dict[...]`` maps anything to nodes, and everything
else is one node or None.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .error import IRTypeError
from .external import external
from .span import Span

_N = TypeVar("_N")
_A = TypeVar("_A")
_Converter = TypeVar("_Converter", bound=Callable[[Any], Any])
_MISSING: Any = object()
_LAST_FIELDS = ("struct_info_", "span")
"""Optional fields of base classes that come behind a subclass's own."""
_LEAF_NAMES = frozenset("str int bool float bytes Any object None complex Span Callable".split())


@dataclass(frozen=True, slots=True)
class Field:
    """What the metaclass knows of one field of a node class."""

    name: str
    kind: str
    """``leaf``, ``node``, ``seq`` or ``map``."""
    default: Any = _MISSING
    compare: bool = True
    """Whether structural equality and hashing look at it (names and spans are not compared)."""
    defines: bool = False
    """Whether the variables in it are defined here: equality maps them instead of comparing identities."""
    convert: Callable[[Any], Any] | None = None
    """Applied by the constructor to what the caller passes."""
    derived: str | None = None
    """An expression over the other fields that the constructor computes; such a field is no parameter."""


def field(
    *,
    default: Any = _MISSING,
    compare: bool = True,
    defines: bool = False,
    convert: Callable[[Any], Any] | None = None,
    kind: str | None = None,
) -> Any:
    """Describe a node's field; see :class:`Field`."""
    return {"default": default, "compare": compare, "defines": defines, "convert": convert, "kind": kind}


_UNCHANGED: dict[Callable[[Any], Any], set[type]] = {}
"""By converter: the classes whose instances it returns as they are. Constructors do not call it for these."""


def converter(convert: _Converter) -> _Converter:
    """Decorator of a conversion that depends on nothing but the class of what it is given, where it changes nothing."""
    _UNCHANGED[convert] = set()
    return convert


def derived(expression: str, *, compare: bool = False) -> Any:
    """A field that the constructor computes from the others, as ``derived("a.dtype")``."""
    return {"derived": expression, "compare": compare, "kind": "leaf"}


def _kind_of(annotation: str) -> str:
    text = annotation.strip().strip("'\"")
    if text.startswith("tuple["):
        inner = re.findall(r"[A-Za-z_]\w*", text[6:])
        return "leaf" if inner and all(name in _LEAF_NAMES for name in inner) else "seq"
    if text.startswith("dict["):
        return "map"
    names = re.findall(r"[A-Za-z_]\w*", text)
    return "leaf" if all(name in _LEAF_NAMES for name in names) else "node"


TYPE_KEYS: dict[str, type[Node]] = {}
"""Every node class by its type key, for JSON."""


class NodeMeta(type):
    """Compiles the constructor and the walks of a node class from its annotated fields."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        type_key: str | None = None,
        **_: Any,
    ) -> NodeMeta:
        own: list[Field] = []
        for attr, annotation in namespace.get("__annotations__", {}).items():
            if annotation.startswith("ClassVar") or attr.startswith("__"):
                continue
            spec = namespace.pop(attr, _MISSING)
            if isinstance(spec, dict) and "kind" in spec:
                options = dict(spec)
            else:
                options = {"default": spec}
            kind = options.pop("kind", None) or _kind_of(annotation)
            own.append(Field(attr, kind, **options))
        inherited: dict[str, Field] = {}
        for base in reversed(bases):
            for item in getattr(base, "_fields", ()):
                inherited[item.name] = item
        merged = dict(inherited)
        for item in own:
            merged.pop(item.name, None)
            merged[item.name] = item
        for last in _LAST_FIELDS:
            if last in merged:
                merged[last] = merged.pop(last)
        namespace["__slots__"] = tuple(item.name for item in own if item.name not in inherited) + tuple(
            namespace.get("__slots__", ())
        )
        cls: Any = super().__new__(mcs, name, bases, namespace)  # its class-level tables are filled in here
        cls._fields = tuple(merged.values())
        cls._type_key = type_key or name
        if type_key is not None:
            TYPE_KEYS[type_key] = cls
        _compile(cls)
        made: NodeMeta = cls
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, namespace)

    _fields: tuple[Field, ...]
    _type_key: str


def _compile(cls: Any) -> None:
    """Generate ``__init__``, ``_map_children``, ``_visit_children`` and ``_rebuild`` for a node class."""
    fields: tuple[Field, ...] = cls._fields
    env: dict[str, Any] = dict(vars(sys.modules[cls.__module__]))  # what derived expressions refer to
    env |= {"_MISSING": _MISSING, "_new": object.__new__, "_cls": cls}
    env |= {"_Span": Span, "_wrong_span": _wrong_span}
    for item in fields:
        env[f"_set_{item.name}"] = getattr(cls, item.name).__set__
        if item.convert is not None:
            env[f"_conv_{item.name}"] = item.convert
        if item.default is not _MISSING:
            env[f"_def_{item.name}"] = item.default
    params, body = [], []
    plain = [item for item in fields if item.derived is None]
    cls._parameters = tuple([item.name for item in plain])
    for item in plain:
        if item.name == "span":  # the last parameter: what is no place is an argument too many
            body.append(
                "    if span is not None and span.__class__ is not _Span: raise _wrong_span(_cls, span)"
            )
        params.append(item.name if item.default is _MISSING else f"{item.name}=_def_{item.name}")
        if item.convert in _UNCHANGED:
            env[f"_same_{item.name}"] = _UNCHANGED[item.convert]
            body += [
                f"    if {item.name}.__class__ not in _same_{item.name}:",
                f"        given, {item.name} = {item.name}, _conv_{item.name}({item.name})",
                f"        if given is {item.name}: _same_{item.name}.add(given.__class__)",
            ]
        elif item.convert is not None:
            body.append(f"    {item.name} = _conv_{item.name}({item.name})")
        elif item.kind == "seq":
            body.append(f"    if type({item.name}) is not tuple: {item.name} = tuple({item.name})")
    stores = [f"    _set_{item.name}(self, {item.name})" for item in plain]
    stores += [
        f"    {item.name} = {item.derived}; _set_{item.name}(self, {item.name})"
        for item in fields
        if item.derived
    ]
    hook = []
    if "_check" in dir(cls):
        condition = getattr(cls, "_check_if", None)
        hook = [f"    if {condition}: self._check()" if condition else "    self._check()"]
    code = [f"def __init__(self, {', '.join(params)}):", *(body + stores + hook or ["    pass"])]
    # _rebuild skips conversions and checks: it is given what a walk made of already valid children.
    rebuild = [
        f"def _rebuild({', '.join(['self', *[item.name for item in plain]])}):",
        "    self = _new(_cls)",
    ]
    code += [*rebuild, *stores, "    return self"]
    walked = [item for item in plain if item.kind != "leaf"]
    visit = ["def _visit_children(self, f):"]
    for item in walked:
        value = f"self.{item.name}"
        if item.kind == "seq":
            visit.append(f"    for child in {value}: f(child)")
        elif item.kind == "map":
            visit.append(f"    for child in {value}.values(): f(child)")
        else:
            visit += [f"    child = {value}", "    if child is not None: f(child)"]
    code += visit if walked else [*visit, "    pass"]
    code.append("def _map_children(self, f):")
    tests = []
    for item in walked:
        new, old = f"new_{item.name}", f"old_{item.name}"
        code.append(f"    {old} = self.{item.name}")
        if item.kind == "seq":
            code += [
                f"    {new} = {old}",
                f"    for i, child in enumerate({old}):",
                "        mapped = f(child)",
                "        if mapped is not child:",
                f"            {new} = (*{old}[:i], mapped, *[f(rest) for rest in {old}[i + 1:]])",
                "            break",
            ]
        elif item.kind == "map":
            code += [
                f"    {new} = {{key: f(child) for key, child in {old}.items()}}",
                f"    if all({new}[key] is {old}[key] for key in {old}): {new} = {old}",
            ]
        else:
            code.append(f"    {new} = f({old}) if {old} is not None else None")
        tests.append(f"{new} is {old}")
    args = ", ".join(f"new_{item.name}" if item in walked else f"self.{item.name}" for item in plain)
    code.append(
        f"    return self if {' and '.join(tests)} else self._rebuild({args})"
        if walked
        else "    return self"
    )
    exec("\n".join(code), env)
    own = cls.__dict__
    handwritten = "__init__" in own
    inherits = not own.get("__slots__") and getattr(cls.__mro__[1], "_has_handwritten_init", False)
    cls._has_handwritten_init = handwritten or inherits
    if not handwritten and not inherits:
        cls.__init__ = env["__init__"]
    if "_is_leaf" not in own:
        cls._is_leaf = not (walked or "_visit_children" in own or "_map_children" in own)
    for name in ("_rebuild", "_visit_children", "_map_children"):
        if name not in own:
            setattr(cls, name, env[name])


def _wrong_span(cls: type, value: Any) -> IRTypeError:
    return IRTypeError(
        f"{cls.__name__}: a span is a Span, got {type(value).__name__}; is there an argument too many?"
    )


class Node(metaclass=NodeMeta):
    """Base of every IR node; see the module's docstring for how fields are declared."""

    _fields: ClassVar[tuple[Field, ...]]
    _parameters: ClassVar[tuple[str, ...]]
    """Names of the fields that the constructor takes, in order."""
    _type_key: ClassVar[str]
    _is_leaf: ClassVar[bool]
    """Whether there is nothing below a node of the class for a walk to see."""
    is_variable: ClassVar[bool] = False
    """Variables and buffers: structural equality maps them to their counterparts."""
    is_compound: ClassVar[bool] = False
    """Expressions made of others, which programs share; see :class:`Visitor`."""
    compared_by_content: ClassVar[bool] = False
    """Whether variables that nothing defines are equal when their fields are: buffers declared by their first use, of one memory."""
    __slots__ = ("__weakref__", "_answers")

    if TYPE_CHECKING:
        # What the metaclass generates. A constructor converts what it is given, so that its parameters have no one type.
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def _rebuild(self, *fields: Any) -> Any: ...
        def _visit_children(self, f: Callable[[Any], Any]) -> None: ...
        def _map_children(self, f: Callable[[Any], Any]) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        raise IRTypeError(
            f"{type(self).__name__} is immutable; use .replace({name}=...) to make a changed copy"
        )

    def __delattr__(self, name: str) -> None:
        raise IRTypeError(f"{type(self).__name__} is immutable; {name} cannot be deleted")

    def same_as(self, other: object) -> bool:
        """Identity, where ``==`` may mean something else."""
        return self is other

    def replace(self, **changes: Any) -> Any:
        """A copy with some fields changed; the same object when nothing changes."""
        for name, value in changes.items():
            if getattr(self, name, _MISSING) is not value:
                break
        else:
            return self
        names = self._parameters
        values = {name: changes[name] if name in changes else getattr(self, name) for name in names}
        if not changes.keys() <= values.keys():
            unknown = sorted(changes.keys() - values.keys())
            raise IRTypeError(f"{type(self).__name__} has no field {unknown}; its fields are {sorted(names)}")
        return self.__class__(**values)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __reduce__(self) -> Any:
        return (external("load_json"), (external("save_json")(self),))

    def __repr__(self) -> str:
        return str(external("repr_node")(self))

    def script(self, **options: Any) -> str:
        """The node in text form (TVMScript); options are those of :func:`ir.script.printer.script`."""
        return str(external("script")(self, **options))

    def show(self, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
        """Print the text form, as plain text: there are no styles, and the format is the printer's."""
        if style is not None or black_format:
            raise IRTypeError("show prints plain text: leave style and black_format out")
        print(self.script(**options))


def map_children(node: Node, f: Callable[[Any], Any]) -> Any:
    """Apply ``f`` to each child node; the same object when no child changed, else a rebuilt node."""
    return node._map_children(f)  # type: ignore[attr-defined]


def visit_children(node: Node, f: Callable[[Any], Any]) -> None:
    """Call ``f`` on each child node in field order."""
    node._visit_children(f)  # type: ignore[attr-defined]


def children(node: Node) -> Iterator[Node]:
    """The child nodes in field order."""
    found: list[Node] = []
    node._visit_children(found.append)  # type: ignore[attr-defined]
    return iter(found)


def post_order_visit(node: Any, f: Callable[[Any], Any]) -> None:
    """Call ``f`` on every distinct node below and including ``node``, children first, each object once."""
    seen: set[int] = set()

    def walk(item: Any) -> None:
        key = id(item)
        if key in seen:
            return
        seen.add(key)
        item._visit_children(walk)
        f(item)

    walk(node)


def remembered(question: Callable[[_N], _A]) -> Callable[[_N], _A]:
    """Decorator of a question about a node: it is answered once in the node's life, which keeps the answer.

    Nodes never change; passes hand most functions of a module on, and schedules most expressions of a program, so that the same ones are
    asked about again and again. An answer must not hold what the caller may change.
    """

    @wraps(question)
    def ask(node: _N) -> _A:
        try:
            answers = node._answers  # type: ignore[attr-defined]
        except AttributeError:
            answers = {}
            _set_answers(node, answers)
        answer = answers.get(question, _MISSING)
        if answer is _MISSING:
            answer = answers[question] = question(node)
        return answer  # type: ignore[no-any-return]

    return ask


_set_answers: Callable[[Any, dict[Any, Any]], None] = Node._answers.__set__  # type: ignore[attr-defined]


class Visitor:
    """Walks a tree, dispatching on the node's class through a table built once per visitor class.

    A subclass defines ``visit_<ClassName>(self, node)`` for the classes that it cares about (a method for a base class
    serves its subclasses); every other node is walked through by :meth:`generic_visit`.

    An expression may hold one object many times (``y = x * x; y * y``). A visitor that ``remembers`` visits each compound
    object once within one expression, so that work follows the size of the graph and not that of the tree that it unfolds
    to. One that counts, or whose answer depends on where the object stands, does not remember, or visits
    parts that stand under another condition while :meth:`forgetting` what it saw elsewhere.
    """

    remembers: ClassVar[bool] = False
    _tables: ClassVar[dict[type, dict[type, Any]]] = {}
    """By visitor class: the method for each class of node met; None for leaves that it does not care about."""

    def __init__(self) -> None:
        self._table = _dispatch_table(type(self))
        self._remembered: dict[int, tuple[Any, Any]] | None = None

    def visit(self, node: Any) -> Any:
        """Dispatch on the class of ``node``."""
        try:
            method = self._table[node.__class__]
        except KeyError:
            method = _add_to_table(type(self), self._table, node.__class__)
        return None if method is None else method(self, node)

    def method_for(self, node_class: type) -> Callable[[Any, Any], Any] | None:
        """The function that :meth:`visit` calls with the visitor and a node of the class; None where a leaf is passed by."""
        try:
            return self._table[node_class]
        except KeyError:
            return _add_to_table(type(self), self._table, node_class)

    def generic_visit(self, node: Any) -> Any:
        """Visit the children."""
        node._visit_children(self.visit)

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """A scope in which nothing is known of what was visited outside of it, and nothing of it afterwards."""
        outer, self._remembered = self._remembered, {}
        try:
            yield
        finally:
            self._remembered = outer


class Mutator(Visitor):
    """A visitor whose methods return the node to put in place; the same object means that nothing changed."""

    remembers: ClassVar[bool] = True

    def visit(self, node: Any) -> Any:
        """Dispatch on the class of ``node``."""
        try:
            method = self._table[node.__class__]
        except KeyError:
            method = _add_to_table(type(self), self._table, node.__class__)
        return node if method is None else method(self, node)

    def generic_visit(self, node: Any) -> Any:
        """Map the children; the same node when none changed."""
        return node._map_children(self.visit)


def _once(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A visitor's method for compound expressions that answers from memory within the expression it began with."""

    def visit(self: Any, node: Any) -> Any:
        seen = self._remembered
        if seen is None:
            self._remembered = {}
            try:
                return method(self, node)
            finally:
                self._remembered = None
        found = seen.get(id(node))
        if found is None:
            found = seen[id(node)] = (node, method(self, node))  # the node is kept: its identity is the key
        return found[1]

    return visit


def _dispatch_table(cls: type) -> dict[type, Any]:
    table = Visitor._tables.get(cls)
    if table is None:
        table = Visitor._tables[cls] = {}
    return table


def _generic_method(cls: Any, node_class: Any) -> Any:
    inherited = cls.generic_visit in (Visitor.generic_visit, Mutator.generic_visit)
    return None if inherited and node_class._is_leaf else cls.generic_visit


def _add_to_table(cls: type, table: dict[type, Any], node_class: type) -> Any:
    if not hasattr(node_class, "_fields"):
        raise IRTypeError(f"{cls.__name__}: expected an IR node, got {node_class.__name__}")
    for base in node_class.__mro__:
        method = getattr(cls, f"visit_{base.__name__}", None)
        if method is not None and base is not Node:
            break
    else:
        method = _generic_method(cls, node_class)
    if method is not None and cls.remembers and node_class.is_compound:  # type: ignore[attr-defined]
        method = _once(method)
    table[node_class] = method
    return method

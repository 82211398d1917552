"""A workload: a program to be tuned, known by its structural hash."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from ir import IRModule, load_json, post_order_visit, save_json, structural_equal, structural_hash
from ir.tir import Block, IntImm, PrimFunc
from ir.tir.analysis import verify_well_formed

from .damage import FAULTS
from .error import DatabaseError


def entry_function(mod: IRModule) -> tuple[str, PrimFunc]:
    """Name and value of the function that a tuning module is about: its only one, or ``main``.

    Raises:
        DatabaseError: there are several functions and none is called main, or it is no PrimFunc.
    """
    functions = {var.name_hint: func for var, func in mod.functions.items()}
    name = next(iter(functions)) if len(functions) == 1 else "main"
    if name not in functions:
        raise DatabaseError(
            f"a workload has one function, or one called 'main'; this module has {sorted(functions)}"
        )
    func = functions[name]
    if not isinstance(func, PrimFunc):
        raise DatabaseError(
            f"a workload is a PrimFunc, {name!r} is a {type(func).__name__}; extract_tasks makes workloads of a model"
        )
    return name, func


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """What tells one workload from its neighbours at a glance; kept beside the program for explanations."""

    name: str
    """The function's name."""
    blocks: tuple[str, ...]
    """Names of its blocks in program order: the same kernel on other shapes has the same ones."""
    args: tuple[tuple[str, str, tuple[int | str, ...]], ...]
    """(name, dtype, shape) of each argument; a symbolic extent is its name."""

    @staticmethod
    def of(mod: IRModule) -> WorkloadSummary:
        """The summary of a module's entry function."""
        name, func = entry_function(mod)
        blocks: list[str] = []

        def visit(node: Any) -> None:
            if isinstance(node, Block):
                blocks.append(node.name_hint)

        post_order_visit(func.body, visit)
        args: list[tuple[str, str, tuple[int | str, ...]]] = []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is None:
                args.append((param.name, param.dtype, ()))
                continue
            shape = tuple(
                extent.value if isinstance(extent, IntImm) else str(extent) for extent in buffer.shape
            )
            args.append((buffer.name, buffer.dtype, shape))
        return WorkloadSummary(name, tuple(blocks), tuple(args))

    @property
    def described(self) -> str:
        """A name for people: that of the function, or of ``main``, as nameless functions are called, its blocks but the outermost."""
        blocks = [name for name in dict.fromkeys(self.blocks) if name != "root"]
        return " ".join(blocks) if self.name == "main" and blocks else self.name

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(json_obj: dict[str, Any]) -> WorkloadSummary:
        """The summary that ``as_json`` described.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        args = tuple((name, dtype, tuple(shape)) for name, dtype, shape in json_obj["args"])
        found = WorkloadSummary(json_obj["name"], tuple(json_obj["blocks"]), args)
        texts = [found.name, *found.blocks, *(text for name, dtype, _ in args for text in (name, dtype))]
        extents = [extent for _, _, shape in args for extent in shape]
        if not all(isinstance(text, str) for text in texts) or not all(
            type(item) in (int, str) for item in extents
        ):
            raise TypeError(f"names and extents of a workload cannot be {str(json_obj)[:200]}")
        return found


class Workload:
    """A program to be tuned.

    Two workloads are equal when their programs are structurally equal; names of variables do not matter. The program
    of a workload that comes from a file is parsed when ``mod`` is first read.
    """

    __slots__ = ("_json", "_mod", "_source", "_summary", "shash")

    def __init__(self, mod: IRModule | PrimFunc) -> None:
        """A PrimFunc is taken as the ``main`` of a module.

        Raises:
            DatabaseError: the module has no PrimFunc that it is about; see :func:`entry_function`.
        """
        module = as_module(mod)
        entry_function(module)
        self._mod: IRModule | None = module
        self._json: str | None = None
        self._summary: WorkloadSummary | None = None
        self._source = ""
        self.shash: str = structural_key(module)

    @property
    def mod(self) -> IRModule:
        """The IRModule.

        Raises:
            DatabaseError: what storage has is no program.
        """
        if self._mod is None:
            try:
                self._mod = _checked(load_json(self.module_json))
            except FAULTS as error:
                raise DatabaseError(
                    f"{self._source or 'a database'}: the program of workload {self.shash} cannot be read: {error}; update loopsmith if a"
                    " newer one wrote it, else remove it with its records to use the others"
                ) from error
        return self._mod

    @property
    def summary(self) -> WorkloadSummary:
        """Name, blocks and arguments."""
        if self._summary is None:
            self._summary = WorkloadSummary.of(self.mod)
        return self._summary

    @property
    def module_json(self) -> str:
        """The program in the JSON form of ``ir.save_json``."""
        if self._json is None:
            self._json = save_json(self._mod)
        return self._json

    def as_json(self) -> dict[str, Any]:
        """``{"shash", "hashing", "summary", "module"}``; the module's own JSON is nested as a value."""
        return {
            "shash": self.shash,
            "hashing": HASHING,
            "summary": self.summary.as_json(),
            "module": json.loads(self.module_json),
        }

    @staticmethod
    def from_json(json_obj: dict[str, Any], source: str = "") -> Workload:
        """The workload that ``as_json`` described; ``source`` is what errors call its place. The program is parsed when it is needed.

        One that an older version hashed in another way is parsed now, and gets the hash by which it is found today.
        """
        try:
            summary = WorkloadSummary.from_json(json_obj["summary"])
            module, shash = json.dumps(json_obj["module"]), json_obj["shash"]
            if json_obj.get("hashing", 1) != HASHING:
                shash = structural_key(load_json(module))
            return Workload.stored(shash, module, summary, source)
        except (KeyError, TypeError, ValueError) as error:
            raise DatabaseError(f"not a workload: {str(json_obj)[:200]!r} ({error!r})") from error

    @staticmethod
    def stored(shash: str, module_json: str, summary: WorkloadSummary | None, source: str = "") -> Workload:
        """A workload whose hash is known already, as storage returns it; ``source`` is what errors call its place there."""
        workload = Workload.__new__(Workload)
        workload._mod, workload._json, workload._summary, workload.shash = None, module_json, summary, shash
        workload._source = source
        return workload

    def unparsed(self) -> Workload:
        """The workload as storage has it, whose program is parsed for who asks this one: whoever goes through many lets go of each."""
        if self._json is None:
            return self
        return Workload.stored(self.shash, self._json, self._summary, self._source)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Workload):
            return NotImplemented
        if self is other:
            return True
        if self.shash != other.shash:
            return False
        return structural_equal(self.mod, other.mod)

    def __hash__(self) -> int:
        return hash(self.shash)

    def __reduce__(self) -> Any:
        return (Workload.stored, (self.shash, self.module_json, self.summary, self._source))

    def __repr__(self) -> str:
        args = ", ".join(f"{name}: {dtype}{list(shape)}" for name, dtype, shape in self.summary.args)
        return f"Workload({self.summary.name}({args}), shash={self.shash})"


def _checked(module: Any) -> IRModule:
    """A program of a file, if it can be worked with.

    Raises:
        DatabaseError: it is no module with a function that can be tuned.
        Exception: any of :data:`database.damage.FAULTS`: it is made of parts that do not belong together.
    """
    if not isinstance(module, IRModule):
        raise DatabaseError(f"it is a {type(module).__name__}, and no module")
    entry_function(module)
    # Whether a program is right is for who builds it to say; here it has to be one that can be gone through.
    verify_well_formed(module, assert_mode=False)
    WorkloadSummary.from_json(WorkloadSummary.of(module).as_json())
    structural_hash(module)
    return module


def as_module(mod: IRModule | PrimFunc) -> IRModule:
    """An IRModule of its own (modules can be changed, a workload must not) from a module or from a PrimFunc."""
    if isinstance(mod, IRModule):
        return IRModule(mod.functions, mod.attrs, mod.global_infos)
    return IRModule({"main": mod})


HASHING = 2
"""Which structural hash ``shash`` is. 1 unfolded shared parts of a program, 2 looks at each once."""


def structural_key(mod: IRModule) -> str:
    """The structural hash as the text by which storage finds a workload; equal in every process and on every machine."""
    return str(structural_hash(mod))


def has_static_arguments(func: PrimFunc) -> bool:
    """Whether all arguments are tensors of known shape: only such kernels can be measured, and so have records."""
    return all(
        param in func.buffer_map
        and all(isinstance(extent, IntImm) for extent in func.buffer_map[param].shape)
        for param in func.params
    )


def kernel_module(func: PrimFunc) -> IRModule:
    """The module under which a kernel is tuned and looked up: its name does not matter, so it is always ``main``."""
    return IRModule({"main": func.with_attr("global_symbol", "main")})

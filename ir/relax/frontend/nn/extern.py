"""External modules: hand-written C++ or CUDA kernels that are compiled and linked with an exported module."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ir.relax.expr import PrimValue, StringImm
from ir.relax.op.base import call_dps_packed
from ir.tir.expr import PrimExpr

from .error import NNError, NNKeyLookupError, NNTypeError, NNValueError
from .external_library import ExternalLibrary
from .tensor import Tensor, wrap_nested


class ExternModule:
    """Base of external modules.

    ``symbols`` maps the name of each function to one that infers the shapes and dtypes of its results::

        def infer(a, b):
            x, y, _ = a.shape
            _, z, _ = b.shape
            return nn.Tensor.placeholder((x, y, z, 9), dtype="float32")

        ext_mod = nn.SourceModule(symbols={"my_func": infer}, source_code=..., source_format="cpp")

    After :func:`add_extern`, while a method is traced, ``ext_mod["my_func"](a, b)`` emits the call.
    """

    def __init__(self, symbols: dict[str, Callable[..., Any]]) -> None:
        self.symbols = symbols

    def load(self) -> ExternalLibrary:
        """The functions, compiled and ready to be called or registered."""
        raise NNError(f"{type(self).__name__} does not define load; use SourceModule or ObjectModule")

    def __getitem__(self, func_name: str) -> Callable[..., Any]:
        """The function called ``func_name``, to be called on tensors while a method is traced."""
        if func_name not in self.symbols:
            raise NNKeyLookupError(
                f"the external module has no function {func_name!r}; it has {sorted(self.symbols)}"
            )
        infer = self.symbols[func_name]

        def call(*args: Any, **kwargs: Any) -> Any:
            bound = inspect.signature(infer).bind(*args, **kwargs)
            bound.apply_defaults()
            values = list(bound.arguments.values())
            out = infer(*values)
            outputs = out if isinstance(out, list | tuple) else [out]
            if not all(isinstance(item, Tensor) for item in outputs):
                raise NNTypeError(
                    f"the inference function of {func_name!r} must return placeholder tensors, got {out!r}"
                )
            infos = [item._expr.struct_info for item in outputs]
            emitted = call_dps_packed(
                func_name,
                [_argument(func_name, value) for value in values],
                infos if isinstance(out, list | tuple) else infos[0],
            )
            return wrap_nested(emitted, func_name)

        call.__name__ = func_name
        return call


def _argument(func_name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value._expr
    if isinstance(value, int | float | PrimExpr):
        return PrimValue(value)
    if isinstance(value, str):
        return StringImm(value)
    raise NNTypeError(
        f"{func_name}: an argument is a Tensor, a tir.PrimExpr, a number or a str, got {type(value).__name__}"
    )


class ObjectModule(ExternModule):
    """An object file (``.o``) that is linked into the built artefact."""

    def __init__(self, symbols: dict[str, Callable[..., Any]], filepath: Path) -> None:
        path = Path(filepath)
        if not path.is_file():
            raise NNValueError(f"not a file: {path}")
        super().__init__(symbols)
        self.filepath = path

    def load(self) -> ExternalLibrary:
        """The functions of the object file."""
        return ExternalLibrary(self.filepath.read_bytes(), tuple(self.symbols), _default_compiler("cpp"))


class SourceModule(ExternModule):
    """C++ or CUDA source code that is compiled when the module is loaded.

    Functions are in destination-passing style: results are allocated by the caller and come behind the inputs, all as
    ``DLTensor*`` (https://github.com/dmlc/dlpack), and return 0 on success::

        #include <dlpack/dlpack.h>
        #include <tvm/runtime/data_type.h>
        #include <tvm/runtime/packed_func.h>

        namespace {
        int _my_func_impl(DLTensor* a, DLTensor* b, DLTensor* c) { ... }  // c is the output
        }
        TVM_DLL_EXPORT_TYPED_FUNC(my_func, _my_func_impl);

    Args:
        symbols: the shape and dtype inference of each function; see :class:`ExternModule`.
        source_code: the code, or the path of a file that holds it.
        source_format: ``"cpp"`` or ``"cu"``.
        compile_options: flags of the compiler; by default those of :meth:`get_compile_options`.
        compiler: the compiler's command; by default the C++ compiler found, or nvcc.
        output_format: ``"obj"`` (an object file) or ``"wasm"``.
    """

    def __init__(
        self,
        symbols: dict[str, Callable[..., Any]],
        source_code: str | Path,
        source_format: str,
        compile_options: list[str] | None = None,
        compiler: str | None = None,
        output_format: str = "obj",
    ) -> None:
        suffixes = {"cpp": ".cpp", "cu": ".cu"}
        if source_format not in suffixes:
            raise NNValueError(f"source_format is 'cpp' or 'cu', got {source_format!r}")
        outputs = {"obj": ".o", "wasm": ".wasm"}
        if output_format not in outputs:
            raise NNValueError(f"output_format is 'obj' or 'wasm', got {output_format!r}")
        super().__init__(symbols)
        self.source_code = _read_source(source_code)
        self.source_format = source_format
        self.source_suffix = suffixes[source_format]
        self.output_suffix = outputs[output_format]
        self.compiler = compiler or _default_compiler(source_format)
        options = (
            SourceModule.get_compile_options(source_format) if compile_options is None else compile_options
        )
        self.compile_options = list(options)

    @staticmethod
    def tvm_home() -> Path:
        """The folder whose ``include`` and ``3rdparty`` hold the headers of external code.

        The environment variable ``TVM_HOME`` names it.

        Raises:
            NNError: the variable is not set, or the folder has no ``include`` and ``3rdparty``.
        """
        value = os.environ.get("TVM_HOME")
        if not value:
            raise NNError("set the environment variable TVM_HOME to the folder with include/ and 3rdparty/")
        home = Path(value)
        for child in ("include", "3rdparty"):
            if not (home / child).is_dir():
                raise NNError(
                    f"{home} has no folder {child!r}; set TVM_HOME to the one with include/ and 3rdparty/"
                )
        return home

    @staticmethod
    def get_includes(tvm_pkg: list[str] | None = None) -> list[Path]:
        """The include folders below :meth:`tvm_home`, with those of further packages in ``3rdparty``.

        Args:
            tvm_pkg: folders relative to ``3rdparty``.
        """
        home = SourceModule.tvm_home()
        folders = [
            home / "include",
            home / "3rdparty" / "dlpack" / "include",
            home / "3rdparty" / "dmlc-core" / "include",
        ]
        folders += [home / "3rdparty" / package for package in tvm_pkg or []]
        missing = [str(folder) for folder in folders if not folder.exists()]
        if missing:
            raise NNError(f"include folders not found: {', '.join(missing)}")
        return folders

    @staticmethod
    def get_compile_options(source_format: str, tvm_pkg: list[str] | None = None) -> list[str]:
        """The default flags: ``-O3 -std=c++17``, position-independent code, and the include folders.

        Args:
            source_format: ``"cpp"`` or ``"cu"``.
            tvm_pkg: folders relative to ``3rdparty``, whose headers are wanted too.
        """
        flags = ["-I", str(_OWN_INCLUDE)]
        if os.environ.get("TVM_HOME"):
            for folder in SourceModule.get_includes(tvm_pkg):
                flags += ["-I", str(folder)]
        elif tvm_pkg:
            raise NNError(f"packages {tvm_pkg} are looked up below TVM_HOME, which is not set")
        flags += ["-c", "-O3", "-std=c++17"]
        if source_format == "cpp":
            return [*flags, "-fPIC"]
        if source_format == "cu":
            return [*flags, "-arch=native", "-Xcompiler", "-fPIC"]
        raise NNValueError(f"source_format is 'cpp' or 'cu', got {source_format!r}")

    def compile(self, output_path: Path) -> None:
        """Compile the source code into a file; raises NNError with the compiler's messages when it fails."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / f"main{self.source_suffix}"
            source.write_text(self.source_code, encoding="utf-8")
            command = [self.compiler, *self.compile_options, str(source), "-o", str(output_path)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                raise NNError(f"cannot run the compiler {self.compiler!r}: {error}") from error
        if done.returncode:
            raise NNError(
                f"{self.compiler} failed on the external module with {sorted(self.symbols)}:\n{done.stderr}"
            )

    def load(self) -> ExternalLibrary:
        """Compile, and give the functions."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"main{self.output_suffix}"
            self.compile(path)
            return ExternalLibrary(path.read_bytes(), tuple(self.symbols), self.compiler)


_OWN_INCLUDE = Path(__file__).parent / "include"


def _read_source(source_code: str | Path) -> str:
    if isinstance(source_code, Path):
        return source_code.read_text(encoding="utf-8")
    # A short text without line breaks may name a file.
    if "\n" not in source_code and len(source_code) < 4096 and Path(source_code).is_file():
        return Path(source_code).read_text(encoding="utf-8")
    return source_code


def _default_compiler(source_format: str) -> str:
    candidates = ["nvcc"] if source_format == "cu" else [os.environ.get("CXX", ""), "g++", "clang++", "c++"]
    for name in candidates:
        if name and shutil.which(name):
            return name
    looked_for = ", ".join(filter(None, candidates))
    raise NNError(f"no compiler for {source_format!r} sources on {sys.platform}: looked for {looked_for}")

"""Wheels of built models: a library with what runs it, to be installed where there is Python and numpy, and nothing of loopsmith.

A wheel (binary distribution format, PEP 427) has the library, a module with a function for each of the model's, and copies of those modules
of this package that the virtual machine consists of. Equal libraries give equal wheels.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import keyword
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .library_file import read_description
from .program import ExecutableError

_RUNTIME = ("executable", "virtual_machine")
"""The modules from which all that a package needs is imported."""
_INSTEAD = {
    "base_error.py": '"""What errors derive from."""\n\nBaseError = Exception\n',
    "registered.py": (
        '"""There are no registered functions here."""\n\n\n'
        'def registered_function(name):\n    """None."""\n    return None\n'
    ),
}
"""Files of which a package has others, so that it imports nothing of loopsmith where that happens to be installed."""
_DATE = (1980, 1, 1, 0, 0, 0)
_NOTICE = """\
The folder runtime, and the thread pool and entry functions in model.so, are parts of loopsmith, under the Apache License, version 2.0
(http://www.apache.org/licenses/LICENSE-2.0). The licence of the model: {model}.
"""
_MODULE = '''\
"""{title}, compiled by loopsmith. Takes and gives numpy arrays."""

from pathlib import Path
from threading import Lock

from .runtime.executable import load_module
from .runtime.virtual_machine import VirtualMachine

__version__ = "{version}"
_LOADING = Lock()
_MACHINES = []


def machine():
    """The virtual machine with the model, which is loaded when it is first asked for."""
    with _LOADING:
        if not _MACHINES:
            _MACHINES.append(VirtualMachine(load_module(Path(__file__).with_name("model.so"))))
        return _MACHINES[0]


def provenance():
    """What the model was built of: records, versions, licences."""
    return machine().executable.metadata.get("provenance")


def set_num_threads(count):
    """Threads of the model from the next call on; 0 means one per processor."""
    machine().executable.set_num_threads(count)


def _numpy(value):
    if isinstance(value, tuple):
        return tuple(_numpy(item) for item in value)
    return value.numpy() if hasattr(value, "numpy") else value
'''
_FUNCTION = '''

def {word}({parameters}):
    """{described}"""
    return _numpy(machine()[{name!r}]({parameters}))
'''


def package_library(library: Path, folder: Path, *, name: str | None = None, version: str = "1.0.0") -> Path:
    """Make a wheel of a library.

    Args:
        library: a model for processors that ``export_library`` wrote.
        folder: where the wheel is written, under the name that tells its version and platform.
        name: of the package that programs import; by default that of the library's file.
        version: of the package.

    Returns:
        the path of the wheel.

    Raises:
        ExecutableError: the library is damaged or for CUDA devices, the name is none of a package, the version none of Python's, or the
            folder cannot be written.
    """
    description = read_description(library)
    if description.get("device", "cpu") != "cpu":
        raise ExecutableError(
            f"{library} is for CUDA devices, and packages hold models for processors; load it with runners.load_module, or call it from C"
        )
    package = _checked_name(name or re.sub(r"\W", "_", library.name.split(".")[0].removeprefix("lib")))
    if re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", version) is None:
        raise ExecutableError(f"{version!r} is no version of a Python package; write it as 1.0.0")
    data = library.read_bytes()
    tag = f"py3-none-{_platform(description, data)}"
    info = f"{package}-{version}.dist-info"
    files = {
        f"{package}/__init__.py": _module(package, version, description).encode(),
        f"{package}/model.so": data,
        **{f"{package}/runtime/{path}": text.encode() for path, text in _runtime_files().items()},
        f"{info}/METADATA": _metadata(package, version, description).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: loopsmith\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        f"{info}/licenses/NOTICE": _NOTICE.format(model=_licence(description)).encode(),
    }
    wheel = folder / f"{package}-{version}-{tag}.whl"
    if not folder.is_dir():
        raise ExecutableError(f"cannot write {wheel}: there is no folder {folder}; make it first")
    try:
        _write(wheel, files, f"{info}/RECORD")
    except OSError as error:
        raise ExecutableError(f"cannot write {wheel}: {error.strerror}; choose another folder") from error
    return wheel


def _checked_name(name: str) -> str:
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or name.startswith("_"):
        raise ExecutableError(
            f"{name!r} is no name of a package: letters, digits and _, with a letter first, such as resnet18; give one with --name"
        )
    return name.lower()


def _platform(description: Mapping[str, Any], data: bytes) -> str:
    """The tag of the platforms that have what the library needs (PEP 600): the machine, and a C library of at least a version."""
    machine = description["target"].get("machine") or "any"
    needed = [int(found[1]) for found in re.finditer(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", data)]
    # what no older one needs is said as the oldest that the tag exists for
    return f"manylinux_2_{max([*needed, 17])}_{machine}" if needed else f"linux_{machine}"


def _licence(description: Mapping[str, Any]) -> str:
    licences = description.get("provenance", {}).get("licences", {})
    return str(licences.get("model", "not told"))


def _metadata(package: str, version: str, description: Mapping[str, Any]) -> str:
    needs = ["numpy>=2.0", *(["ml_dtypes>=0.5"] if _has_other_dtypes(description) else ())]
    return "\n".join(
        [
            "Metadata-Version: 2.4",
            f"Name: {package}",
            f"Version: {version}",
            f"Summary: {_title(package, description)}, compiled by loopsmith",
            "License-File: NOTICE",
            "Requires-Python: >=3.11",
            *(f"Requires-Dist: {item}" for item in needs),
            "",
        ]
    )


def _has_other_dtypes(description: Any) -> bool:
    """Whether something in a description is of a dtype that numpy does not have."""
    if isinstance(description, Mapping):
        dtype = description.get("dtype")
        if isinstance(dtype, str) and dtype and not hasattr(np, dtype):
            return True
        return any(map(_has_other_dtypes, description.values()))
    return isinstance(description, list) and any(map(_has_other_dtypes, description))


def _title(package: str, description: Mapping[str, Any]) -> str:
    name = description.get("provenance", {}).get("model", {}).get("name", package)
    return re.sub(r'["\\\n]', "'", f"The model {name}")


def _module(package: str, version: str, description: Mapping[str, Any]) -> str:
    """The module that programs import."""
    parts = [_MODULE.format(title=_title(package, description), version=version)]
    taken = _names(parts[0])
    of_function = _names(_FUNCTION.format(word="_", parameters="", described="", name=""))
    for name, entry in sorted(description["functions"].items()):
        if entry.get("public", True):
            word = _word(name, taken)
            parameters: list[str] = []
            for param in entry["params"]:
                parameters.append(_word(str(param["name"]), {*parameters, *of_function}))
            told = ", ".join(_told(param) for param in entry["params"])
            described = re.sub(r'["\\\n]', "'", f"The model's function {name} of {told or 'nothing'}.")
            parts.append(
                _FUNCTION.format(word=word, parameters=", ".join(parameters), described=described, name=name)
            )
            taken.add(word)
    return "".join(parts)


def _names(source: str) -> set[str]:
    """The names that a piece of Python defines or uses, those of Python itself among them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            found.update([*(node.module or "").split(".")[:1], *(item.name for item in node.names)])
    return found


def _word(name: str, taken: set[str]) -> str:
    """A name in Python, which none of those taken is."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    word = f"_{word}" if word[0].isdigit() else word
    while word in taken or keyword.iskeyword(word) or word.startswith("__"):
        word = f"{word.lstrip('_')}_" if word.startswith("__") else f"{word}_"
    return word


def _told(param: Mapping[str, Any]) -> str:
    shape = param.get("shape")
    return f"{param['name']}: {param.get('dtype') or 'a value'}{'' if shape is None else list(shape)}"


def _runtime_files() -> dict[str, str]:
    """The modules of this package that the virtual machine consists of, by their places, and what they import of each other."""
    folder = Path(__file__).parent
    files = {"__init__.py": '"""What runs the model: parts of loopsmith."""\n'}
    left = list(_RUNTIME)
    while left:
        module = left.pop()
        place = f"{module}.py" if (folder / f"{module}.py").is_file() else f"{module}/__init__.py"
        if place in files:
            continue
        files[place] = _INSTEAD.get(place) or (folder / place).read_text(encoding="utf-8")
        left += _imported(files[place])
    return dict(sorted(files.items()))


def _imported(source: str) -> Iterator[str]:
    """Names of the modules beside it that a module imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            yield from [node.module] if node.module else [item.name for item in node.names]


def _write(wheel: Path, files: Mapping[str, bytes], record: str) -> None:
    lines = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
            _add(archive, name, data)
        _add(archive, record, "".join([*lines, f"{record},,\n"]).encode())


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)

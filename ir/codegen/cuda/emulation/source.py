"""The text of CUDA sources: what a C++ compiler does not read as CUDA's compiler does is rewritten, line by line."""

from __future__ import annotations

import re

SOURCE_NAME = "kernels.cu"
"""What compilers call the source in their messages."""

_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:cuda\w*|mma|tensor_cores|device_\w+|vector_\w+|assert|cassert)(?:\.h|\.hpp|\.cuh)?[>\"].*$",
    re.M,
)
_DYNAMIC_SHARED = re.compile(
    r"\bextern\s+__shared__\s+(?:(?:__align__|alignas)\s*\(\s*\d+\s*\)\s*)?"
    r"(?P<type>[A-Za-z_][\w:]*(?:\s+[A-Za-z_][\w:]*)*?)\s+"
    r"(?:(?:__align__|alignas)\s*\(\s*\d+\s*\)\s*)?(?P<name>[A-Za-z_]\w*)\s*\[\s*\]\s*;"
)


def to_cpp(source: str) -> str:
    """C++ for the headers of the emulation, with every line in its place.

    CUDA's headers are left out, as the emulation has their names. The dynamic shared memory of a block is one array of the
    emulation's, to which ``extern __shared__ float data[];`` becomes a pointer.
    """
    without_headers = _INCLUDE.sub("", source)
    return _DYNAMIC_SHARED.sub(_as_pointer, without_headers)


def _as_pointer(found: re.Match[str]) -> str:
    kept_lines = "\n" * found[0].count("\n")
    return (
        f"{found['type']}* const {found['name']} = ({found['type']}*)emulation::dynamic_shared;{kept_lines}"
    )


def declared_kernels(source: str) -> list[str]:
    """Names of the ``__global__`` functions of a source, in its order."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.S)
    text = re.sub(r"\b__(?:launch_bounds|cluster_dims)__\s*\([^()]*\)", " ", text)
    return list(dict.fromkeys(re.findall(r"\b__global__\b[^;{}()]*?\b([A-Za-z_]\w*)\s*\(", text)))

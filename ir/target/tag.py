"""Tags: short names of whole targets, such as ``nvidia/nvidia-a100``."""

from __future__ import annotations

from typing import Any

from .error import TargetError

_TAGS: dict[str, dict[str, Any]] = {}


def register_tag(name: str, config: dict[str, Any], override: bool = False) -> None:
    """Make ``Target(name)`` stand for ``config``; raises TargetError when the tag exists and ``override`` is False."""
    if name in _TAGS and not override:
        raise TargetError(f"target tag {name!r} is registered already; pass override=True to replace it")
    _TAGS[name] = dict(config)


def find_tag(name: str) -> dict[str, Any] | None:
    """The configuration of a tag, or None."""
    return _TAGS.get(name)


def list_tags() -> dict[str, dict[str, Any]]:
    """Every tag with its configuration."""
    return dict(sorted(_TAGS.items()))


for _name, _cpu, _cores in (
    ("aws/cpu/c5.large", "skylake-avx512", 1),
    ("aws/cpu/c5.xlarge", "skylake-avx512", 2),
    ("aws/cpu/c5.2xlarge", "skylake-avx512", 4),
    ("aws/cpu/c5.4xlarge", "skylake-avx512", 8),
    ("aws/cpu/c5.9xlarge", "skylake-avx512", 18),
    ("aws/cpu/c5.12xlarge", "cascadelake", 24),
):
    register_tag(_name, {"kind": "llvm", "keys": ["x86", "cpu"], "mcpu": _cpu, "num-cores": _cores})
register_tag(
    "raspberry-pi/4b-aarch64",
    {
        "kind": "llvm",
        "mtriple": "aarch64-linux-gnu",
        "mcpu": "cortex-a72",
        "mattr": ["+neon"],
        "num-cores": 4,
        "host": {
            "kind": "llvm",
            "mtriple": "aarch64-linux-gnu",
            "mcpu": "cortex-a72",
            "mattr": ["+neon"],
            "num-cores": 4,
        },
    },
)

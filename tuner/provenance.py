"""What a built library tells of where it comes from: the model, the record of each kernel, versions, licences.

Nothing in it depends on when or where the library was built, so that equal builds give equal files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from database import software_versions
from database.meta_schedule_apply_database import AppliedKernel, ApplyReport
from ir import IRModule, structural_hash

RUNTIME_LICENCE = "Apache-2.0"
"""Of what loopsmith puts into every library: the thread pool, workspaces and entry functions."""


def model_hash(mod: IRModule, params: Mapping[str, Any] | None = None) -> str:
    """What names a model in its libraries: SHA-256 of its structure and its weights, ``<hexadecimal digits>``."""
    found = hashlib.sha256(str(structural_hash(mod)).encode())
    for name in sorted(params or {}):
        value = np.ascontiguousarray((params or {})[name])
        found.update(f"{name} {value.dtype} {value.shape} ".encode())
        found.update(value.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def provenance_of(
    model: str, report: ApplyReport, *, lock: str | None = None, about: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The provenance of a library, as plain data.

    Args:
        model: what :func:`model_hash` says.
        report: what was applied to each kernel.
        lock: the checksum of the lock file that the build wrote or used.
        about: what else is known of the model: ``name``, ``licence``.
    """
    known = dict(about or {})
    versions = software_versions()
    return {
        "model": {"hash": model, **({"name": known["name"]} if "name" in known else {})},
        "versions": {name: versions[name] for name in sorted(versions) if name != "python"},
        "licences": {"runtime": RUNTIME_LICENCE, "model": known.get("licence", "not told")},
        "lock": lock,
        "kernels": [_described(item) for item in report.kernels],
    }


def _described(kernel: AppliedKernel) -> dict[str, Any]:
    found: dict[str, Any] = {"name": kernel.name, "source": kernel.source, "workload": kernel.workload}
    if kernel.record is not None:
        found["record"] = kernel.record.digest
        found["seconds"] = kernel.record.secs
        found["verified"] = kernel.record.verified
        found["versions"] = {name: kernel.record.versions[name] for name in sorted(kernel.record.versions)}
    return found

"""Send mutated input to what reads it, and tell what came of it.

    python -m experiments.hostile rpc --seeds 0:200000        to a server and a tracker, which run for it
    python -m experiments.hostile programs --seeds 0:50000    to a reader: programs, kernels, replies, targets,
                                                              locks or libraries
    python -m experiments.hostile jsonl --seeds 0:50000       to databases: records, jsonl, json-databases or sqlite
    python -m experiments.hostile onnx --seeds 0:50000        to the importer of ONNX files
    python -m experiments.hostile npz --seeds 0:50000         to what reads arrays for a model

The exit code is 1 if anything failed: a process that ended or hung, an error that is none of the compiler's, code that was run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from experiments.fuzz.command import seed_range

from . import array_files, children, databases, onnx_files
from .page import publish
from .readers import READERS, tried
from .rpc import campaign

ATTEMPTS = {**databases.ATTEMPTS, **onnx_files.ATTEMPTS, **array_files.ATTEMPTS}
"""What is tried in child processes."""


def main() -> int:
    """Run the command line; its exit code."""
    command = argparse.ArgumentParser(
        "python -m experiments.hostile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("what", choices=["rpc", *READERS, *ATTEMPTS])
    command.add_argument("--seeds", type=seed_range, default=range(1000), help="first:end")
    command.add_argument("--tls", action="store_true", help="rpc: with certificates and tokens")
    command.add_argument("--page", type=Path, help="rpc: write the counts there, beside those of other seeds")
    options = command.parse_args()
    if options.what == "rpc":
        with tempfile.TemporaryDirectory() as folder, campaign(Path(folder), options.tls) as running:
            report = running.run(options.seeds)
            grown = running.target.grown_bytes()
            print(report)
            print(f"memory of the process grew by {grown >> 20} MiB")
            if options.page is not None:
                publish(report, grown, options.seeds, options.tls, options.page)
        return bool(report.failures)
    if options.what in ATTEMPTS:
        outcome = children.tried(options.what, ATTEMPTS[options.what], options.seeds)
        print(outcome)
        return bool(outcome.failures)
    found = tried(options.what, options.seeds)
    print(f"{found.count} inputs, {found.refused} refused, the slowest read in {found.slowest:.2f} s")
    for kind, example in found.failures.items():
        print(f"{kind}: {example}")
    return bool(found.failures)


if __name__ == "__main__":
    sys.exit(main())

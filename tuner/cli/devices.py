"""``loopsmith devices``: what this machine can run kernels on, and how a target names it."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from database import hardware_fingerprint
from ir.target import Target, list_tags
from runners.cuda.context import context
from runners.cuda.driver import device_count

from ..console import Fitted
from .console import note, out, print_json
from .options import JsonOption


def devices(
    tags: Annotated[
        bool, typer.Option("--tags", help="List the targets that have names instead, such as cards.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show this machine's processor and CUDA devices, with the targets that describe them.

    Devices elsewhere are shown by `loopsmith rpc ls`.
    """
    rows = [{"tag": tag, "target": str(Target(tag))} for tag in list_tags()] if tags else _devices()
    if as_json:
        print_json({"tags" if tags else "devices": rows})
        return
    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row.values())
    out.print(Fitted(table))
    if not tags and len(rows) == 1:
        note("no CUDA device was found; code for one can be built all the same: --target nvidia/nvidia-a100")


def _devices() -> list[dict[str, Any]]:
    processor = {
        "device": "cpu",
        "hardware": f"{hardware_fingerprint()['cpu']}, {hardware_fingerprint()['cores']} cores",
        "target": str(Target("cpu")),
    }
    cards = [
        {
            "device": f"cuda:{index}",
            "hardware": context(index).name,
            "target": str(Target.from_device(f"cuda:{index}")),
        }
        for index in range(device_count())
    ]
    return [processor, *cards]

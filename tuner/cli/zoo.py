"""``loopsmith zoo``: the architectures that need no file."""

from __future__ import annotations

from math import prod
from typing import Any

from rich.table import Table

from ..console import Fitted
from ..zoo.architecture import ARCHITECTURES
from .console import note, out, print_json
from .options import JsonOption


def zoo(as_json: JsonOption = False) -> None:
    """List the architectures that --zoo takes, whose weights are random: enough to tune and time them.

    Example: loopsmith tune --zoo resnet18 --trials 256
    """
    rows = [_row(name) for name in ARCHITECTURES.names()]
    if as_json:
        print_json({"architectures": rows})
        return
    table = Table("name", "parameters", "inputs", box=None, pad_edge=False)
    for row in rows:
        inputs = ", ".join(
            f"{name} {item['dtype']}[{', '.join(map(str, item['shape']))}]"
            for name, item in row["inputs"].items()
        )
        table.add_row(row["name"], f"{row['parameters'] / 1e6:.1f} M", inputs)
    out.print(Fitted(table))
    note("for example: loopsmith tune --zoo resnet18 --trials 256; other models come as ONNX files")


def _row(name: str) -> dict[str, Any]:
    entry = ARCHITECTURES[name]
    module = entry.module(entry.full)
    return {
        "name": name,
        "parameters": sum(prod(int(extent) for extent in item.shape) for item in module.parameters()),
        "inputs": {
            key: {"dtype": spec.dtype, "shape": [int(extent) for extent in spec.shape]}
            for key, spec in entry.inputs(entry.full).items()
        },
    }

"""``loopsmith tasks``: what would be tuned."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from ..console import Fitted
from ..model import load_model
from ..task import extract_tasks
from ..tune import contexts_of
from .console import out, print_json
from .options import JsonOption, ModelFile, Shapes, TargetOption, Zoo, checked_target


def tasks(
    model: ModelFile = None,
    zoo: Zoo = None,
    target: TargetOption = "cpu",
    shape: Shapes = [],  # noqa: B006
    as_json: JsonOption = False,
) -> None:
    """List the kernels of a model that would be tuned: how often each runs, its work, and its structures."""
    chosen = checked_target(target)
    loaded = load_model(model, zoo, shape)
    found = extract_tasks(loaded.mod, chosen, loaded.params)
    contexts = {context.task_name: context for context in contexts_of(found, 0)}
    rows: list[dict[str, Any]] = []
    total = sum(task.weight * task.flops for task in found) or 1.0
    for task in found:
        context = contexts.get(task.task_name)
        sketches = context.sketches() if context is not None else []
        rows.append(
            {
                "kernel": task.task_name,
                "weight": task.weight,
                "flops": task.flops,
                "share": task.weight * task.flops / total,
                "structures": len(sketches),
                "candidates": sum(sketch.size() for sketch in sketches) if context is not None else None,
            }
        )
    if as_json:
        print_json({"model": loaded.name, "target": str(chosen), "tasks": rows})
        return
    table = Table(title=f"{loaded.name}: {len(found)} tasks", title_justify="left")
    for name in ("#", "kernel", "weight", "MFLOP", "share", "structures", "candidates"):
        table.add_column(name, justify="left" if name == "kernel" else "right", no_wrap=True)
    for number, row in enumerate(rows):
        candidates = row["candidates"]
        table.add_row(
            str(number),
            row["kernel"],
            str(row["weight"]),
            f"{row['flops'] / 1e6:.2f}",
            f"{row['share']:.1%}",
            str(row["structures"]),
            "symbolic" if candidates is None else f"{candidates:,}",
        )
    out.print(Fitted(table))

"""``loopsmith tasks``: what would be tuned."""

from __future__ import annotations

from rich.table import Table

from ..console import Fitted
from ..model import load_model
from ..task import extract_tasks
from ..tune import contexts_of
from .console import out
from .options import ModelFile, Shapes, TargetOption, Zoo, checked_target


def tasks(model: ModelFile = None, zoo: Zoo = None, target: TargetOption = "cpu", shape: Shapes = []) -> None:  # noqa: B006
    """List the kernels of a model that would be tuned: how often each runs, its work, and its structures."""
    chosen = checked_target(target)
    loaded = load_model(model, zoo, shape)
    found = extract_tasks(loaded.mod, chosen, loaded.params)
    contexts = {context.task_name: context for context in contexts_of(found, 0)}
    table = Table(title=f"{loaded.name}: {len(found)} tasks", title_justify="left")
    for name in ("#", "kernel", "weight", "MFLOP", "share", "structures", "candidates"):
        table.add_column(name, justify="left" if name == "kernel" else "right", no_wrap=True)
    total = sum(task.weight * task.flops for task in found) or 1.0
    for number, task in enumerate(found):
        context = contexts.get(task.task_name)
        sketches = context.sketches() if context is not None else []
        size = sum(sketch.size() for sketch in sketches)
        table.add_row(
            str(number),
            task.task_name,
            str(task.weight),
            f"{task.flops / 1e6:.2f}",
            f"{task.weight * task.flops / total:.1%}",
            str(len(sketches)),
            f"{size:,}" if context is not None else "symbolic",
        )
    out.print(Fitted(table))

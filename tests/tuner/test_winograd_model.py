"""A model whose convolutions a search computes by Winograd's algorithm: checked, kept in a record, and built with folded weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from database import open_database
from database.meta_schedule_apply_database import ApplyReport, MetaScheduleApplyDatabase
from ir.relax.frontend import nn
from ir.relax.pipeline import weight_passes
from ir.target import Target
from ir.transform import Sequential
from runners import VirtualMachine, cpu
from runners.local import LocalRunner
from schedules import Schedule
from schedules.random_variable import BlockRV
from schedules.rule import WinogradConvolution, cpu_rules
from schedules.space import PostOrderApply
from tuner import tune_tasks
from tuner.compile import compile_relax, default_of_builds, prepare
from tuner.task import extract_tasks
from tuner.tune import contexts_of

torch = pytest.importorskip("torch")

IMAGE, CHANNELS, FILTERS = (10, 13), 8, 16


class NoDirectForm(WinogradConvolution):
    """Convolutions are computed by Winograd's algorithm or not at all."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        direct, *others = super().apply(sch, block)
        return others or [direct]


class Block(nn.Module):
    """Convolution, bias, the input beside it, ReLU."""

    def __init__(self) -> None:
        self.first = nn.Conv2D(CHANNELS, FILTERS, 3, padding=1, bias=True)
        self.second = nn.Conv2D(FILTERS, FILTERS, 3, padding=1, bias=True)

    def forward(self, x: Any) -> Any:
        y = nn.op.relu(self.first(x))
        return nn.op.relu(nn.op.add(self.second(y), y))


def model() -> tuple[Any, dict[str, np.ndarray]]:
    mod, params = Block().export_tvm({"forward": {"x": nn.spec.Tensor((1, CHANNELS, *IMAGE), "float32")}})
    rng = np.random.default_rng(0)
    weights = {
        name: (rng.standard_normal([int(extent) for extent in param.shape]) * 0.2).astype("float32")
        for name, param in params
    }
    mod["main"] = mod["forward"].with_attr("global_symbol", "main")
    del mod["forward"]
    return mod, weights


def test_records_of_winograd_candidates_build_a_right_model(tmp_path: Path) -> None:
    mod, weights = model()
    target = Target("cpu")
    rules = [NoDirectForm([4]) if isinstance(rule, WinogradConvolution) else rule for rule in cpu_rules()]
    tasks = contexts_of(extract_tasks(mod, target, weights), 0, PostOrderApply(sch_rules=rules))
    path = tmp_path / "tuning.db"
    tune_tasks(
        tasks=tasks,
        database=path,
        max_trials_global=2 * len(tasks),
        runner=LocalRunner(),
        measure_callbacks=[],
        calibrate="never",
        seed=0,
    )
    store = open_database(path)
    records = [record for record in store.get_all_tuning_records() if record.is_valid()]
    by_winograd = [record for record in records if '"Winograd"' in str(record.trace_json).replace("'", '"')]
    assert len(by_winograd) >= 2 and all(record.verified for record in by_winograd)
    report = ApplyReport()
    built = compile_relax(mod, target, weights, store, report=report)
    assert {item.source for item in report.kernels if "conv2d" in item.name} == {"record"}
    passes = [MetaScheduleApplyDatabase(database=store, fallback=default_of_builds), *weight_passes()]
    with target:
        names = [var.name_hint for var in Sequential(passes)(prepare(mod, target, weights)).functions]
    assert any(name.endswith("_prepacked") for name in names)
    assert not any(name.endswith("_prepack") for name in names), "weights are transformed while building"
    x = np.random.default_rng(1).standard_normal((1, CHANNELS, *IMAGE)).astype("float32")
    found = VirtualMachine(built, cpu())["main"](x).numpy()
    wide = {name: torch.from_numpy(value).double() for name, value in weights.items()}
    conv = torch.nn.functional.conv2d
    y = torch.relu(conv(torch.from_numpy(x).double(), wide["first.weight"], wide["first.bias"], padding=1))
    expected = torch.relu(conv(y, wide["second.weight"], wide["second.bias"], padding=1) + y).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert np.abs(found - expected).max() > 0

"""The commands of ``docs/production.md``, as they stand there, one after the other in one folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
_TEXT = (ROOT / "docs/production.md").read_text(encoding="utf-8")
_ELSEWHERE = ("python -m venv", "app/bin/")
"""Commands that fetch packages: ``tests/runners/test_wheel.py`` installs a wheel into an environment."""


def _write_models(folder: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    weight = onnx.numpy_helper.from_array(np.ones((16, 4), "float32"), "w")
    for name, rows in (("model", 2), ("open", "rows")):
        x, y = (helper.make_tensor_value_info(item, 1, [rows, size]) for item, size in (("x", 16), ("y", 4)))
        nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
        graph = helper.make_graph(nodes, name, [x], [y], [weight])
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / f"{name}.onnx")


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.slow
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    _write_models(tmp_path)
    program, calls = re.findall(r"^```c\n(.*?)^```$", _TEXT, re.M | re.S)
    (tmp_path / "main.c").write_text(program)
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```$", _TEXT, re.M | re.S))
    kept = [line for line in commands.splitlines() if not line.startswith(_ELSEWHERE)]
    script = "\n".join(kept).replace("--trials 200", "--trials 2")
    assert script.count("loopsmith") > 10
    beginning = f'set -eux\nloopsmith() {{ "{sys.executable}" -m tuner.cli.main "$@"; }}\n'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", beginning + script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "pinned the records; no database was opened" in " ".join(done.stdout.split())
    assert "1.000000\n" * 4 + "0.000000\n" * 4 in done.stdout  # of main.c
    assert list(tmp_path.glob("net-1.2.0-py3-none-*.whl"))
    _compiles(calls, tmp_path)


def _compiles(calls: str, folder: Path) -> None:
    """The lines of the second program, in a function."""
    source = f"""
        #include "libopen.h"
        static void use(void *data, int64_t rows, int64_t columns) {{ (void)data, (void)rows, (void)columns; }}
        void call(const float *x);
        void call(const float *x) {{ {calls} }}
    """
    (folder / "calls.c").write_text(source)
    subprocess.run(["cc", "-Wall", "-Werror", "-c", "calls.c"], cwd=folder, check=True, timeout=60)

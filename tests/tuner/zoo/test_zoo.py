"""The zoo: what load returns, that seeds decide, and the models' numbers against plain numpy where that is short."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import runners
from ir import relax
from ir.relax.testing import evaluate
from tuner import zoo


@pytest.mark.parametrize("name", zoo.names())
def test_load_gives_a_module_that_runs(name: str) -> None:
    mod, params, inputs = zoo.load(name, **zoo.small_config(name))
    func: Any = mod["main"]
    assert [param.name_hint for param in func.params] == [*inputs, *params]
    assert func.attrs["num_input"] == len(inputs)
    result = evaluate(mod, *inputs.values(), *params.values())
    for array in result if isinstance(result, tuple) else (result,):
        assert array.dtype == np.float32 and np.isfinite(array).all()
    assert np.std(result[0] if isinstance(result, tuple) else result) > 1e-3, "activations have vanished"


@pytest.mark.parametrize("name", zoo.names())
def test_bound_weights_give_the_same_result(name: str) -> None:
    mod, params, inputs = zoo.load(name, **zoo.small_config(name))
    bound, _, _ = zoo.load(name, bind_params=True, **zoo.small_config(name))
    assert len(bound["main"].params) == len(inputs)
    expected = evaluate(mod, *inputs.values(), *params.values())
    np.testing.assert_array_equal(
        np.concatenate([np.ravel(item) for item in evaluate(bound, *inputs.values())]),
        np.concatenate([np.ravel(item) for item in expected]),
    )


@pytest.mark.parametrize("name", zoo.names())
def test_built_models_compute_the_same(name: str) -> None:
    mod, _, inputs = zoo.load(name, bind_params=True, **zoo.small_config(name))
    expected, built = evaluate(mod, *inputs.values()), runners.VirtualMachine(relax.build(mod), runners.cpu())
    got = built["main"](*inputs.values())
    pairs = zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
    for left, right in pairs:
        np.testing.assert_allclose(np.asarray(left), right, rtol=1e-4, atol=1e-4)


def test_the_seed_decides() -> None:
    config = zoo.small_config("resnet18")
    _, first, inputs = zoo.load("resnet18", seed=1, **config)
    _, same, same_inputs = zoo.load("resnet18", seed=1, **config)
    _, other, _ = zoo.load("resnet18", seed=2, **config)
    for name, array in first.items():
        np.testing.assert_array_equal(array, same[name])
    np.testing.assert_array_equal(inputs["x"], same_inputs["x"])
    assert not np.array_equal(first["conv1.weight"], other["conv1.weight"])


def test_published_sizes() -> None:
    """Shapes only: the weights of the full models are not drawn here."""
    from tuner.zoo.architecture import ARCHITECTURES

    counts = {}
    for name in zoo.names():
        module = ARCHITECTURES[name].module(ARCHITECTURES[name].full)
        counts[name] = sum(int(np.prod(param.shape)) for param in module.parameters())
    # The published numbers of parameters, with one bias per channel where batch normalization had two values.
    assert counts["resnet18"] == 11_689_512 - 4_800
    assert counts["mobilenet_v2"] == 3_504_872 - 17_056
    assert counts["bert_base"] == 109_482_240 - 590_592  # without the pooler
    assert counts["llama_block"] == 4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 11008 + 2 * 4096


def test_settings_are_checked() -> None:
    with pytest.raises(zoo.ZooError, match="mobilenet_v2, resnet18"):
        zoo.load("resnet19")
    with pytest.raises(zoo.ZooError, match=r"no setting depth.*blocks"):
        zoo.load("resnet18", depth=3)


def test_batch_reaches_the_inputs() -> None:
    mod, _, inputs = zoo.load("resnet18", **{**zoo.small_config("resnet18"), "batch": 3})
    assert inputs["x"].shape == (3, 3, 32, 32)
    assert int(mod["main"].ret_struct_info.shape_values[0].value) == 3


def test_no_framework_is_needed() -> None:
    """An installed wheel without torch and onnx has the zoo."""
    code = (
        "import sys\n"
        "for name in ('torch', 'onnx', 'onnxruntime'): sys.modules[name] = None\n"
        "from tuner import zoo\n"
        "zoo.load('resnet18', **zoo.small_config('resnet18'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr

"""A small residual network and a transformer's block on a device, against the evaluator, which shares nothing with the compiler."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import IRModule, relax
from ir.relax.frontend import nn
from ir.relax.testing import evaluate
from ir.transform import PassContext
from tests.runners.cuda.programs import TARGET

pytestmark = [pytest.mark.usefixtures("nvrtc"), pytest.mark.slow]


class _Residual(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        self.first = nn.Conv2D(channels, out, 3, stride, 1, bias=False)
        self.second = nn.Conv2D(out, out, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2D(channels, out, 1, stride, 0, bias=False)

    def forward(self, x):
        y = self.second(nn.op.relu(self.first(x)))
        return nn.op.relu(y + self.shortcut(x))


class SmallResNet(nn.Module):
    """A stem, two residual blocks, and a classifier."""

    def __init__(self) -> None:
        self.stem = nn.Conv2D(3, 8, 3, 2, 1)
        self.narrow, self.wide = _Residual(8, 8, 1), _Residual(8, 16, 2)
        self.classify = nn.Linear(16, 10)

    def forward(self, x):
        x = self.wide(self.narrow(nn.op.relu(self.stem(x))))
        return self.classify(nn.op.sum(x, [2, 3]) * (1 / 16))


class Transformer(nn.Module):
    """Attention and a network of two layers, each behind a normalization."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        heads, size = self.heads, width // self.heads

        def split(value):
            return nn.op.permute_dims(nn.op.reshape(value, (batch, length, heads, size)), [0, 2, 1, 3])

        q, k, v = map(split, nn.op.split(self.qkv(self.before(x)), 3, axis=2))
        scores = nn.op.matmul(q, nn.op.permute_dims(k, [0, 1, 3, 2])) * size**-0.5
        mixed = nn.op.matmul(nn.op.softmax(scores, axis=-1), v)
        joined = nn.op.reshape(nn.op.permute_dims(mixed, [0, 2, 1, 3]), (batch, length, width))
        x = x + self.out(joined)
        return x + self.down(nn.op.gelu(self.up(self.behind(x))))


def _exported(module, shape):
    """The module, its weights, and an input of the shape, in which names of dimensions are 5."""
    mod, params = module.export_tvm({"forward": {"x": nn.spec.Tensor(shape, "float32")}})
    rng = np.random.default_rng(1)
    weights = {
        name: (0.2 * rng.standard_normal([int(dim) for dim in param.shape])).astype("float32")
        for name, param in params
    }
    main = mod["forward"].with_attr("global_symbol", "main")
    functions = {var: func for var, func in mod.functions.items() if var.name_hint != "forward"}
    x = rng.standard_normal([dim if isinstance(dim, int) else 5 for dim in shape]).astype("float32")
    return IRModule({"main": main, **functions}), weights, x


@pytest.mark.parametrize(
    ("module", "shape"),
    [(SmallResNet(), (1, 3, 16, 16)), (Transformer(), (1, 8, 32))],
    ids=["resnet", "transformer"],
)
def test_a_network(module, shape, tmp_path):
    mod, weights, x = _exported(module, shape)
    executable = relax.build(mod, TARGET, params=weights)
    entry = executable.metadata["functions"]["main"]
    assert entry["kind"] == "native" and entry["memory"]["arena_bytes"] < entry["memory"]["total_bytes"]
    found = runners.VirtualMachine(executable, runners.cuda())["main"](x)
    wanted = evaluate(mod, x, *weights.values())
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-3, atol=1e-4)
    loaded = runners.load_module(executable.export_library(tmp_path / "model.so"))
    again = runners.VirtualMachine(loaded, runners.cuda())["main"](x)
    np.testing.assert_array_equal(again.numpy(), found.numpy())


def test_a_transformer_in_a_graph():
    mod, weights, x = _exported(Transformer(), (1, 8, 32))
    with PassContext(config={"relax.backend.use_cuda_graph": True}):
        executable = relax.build(mod, TARGET, params=weights)
    assert any("cuda_graph_capture" in name for name in executable.metadata["functions"])
    vm = runners.VirtualMachine(executable, runners.cuda())
    for factor in (1, -2, 0.5):
        given = (factor * x).astype("float32")
        wanted = evaluate(mod, given, *weights.values())
        np.testing.assert_allclose(vm["main"](given).numpy(), wanted, rtol=1e-3, atol=1e-4)


def test_a_transformer_of_symbolic_length():
    """One build serves all lengths; rows of the scores are computed in one kernel each, whose shared memory does not grow with them."""
    mod, weights, x = _exported(Transformer(), (1, "n", 32))
    vm = runners.VirtualMachine(relax.build(mod, TARGET, params=weights), runners.cuda())
    longer = np.concatenate([x, -x, 0.5 * x], axis=1)
    for given in (x, longer):
        wanted = evaluate(mod, given, *weights.values())
        np.testing.assert_allclose(vm["main"](given).numpy(), wanted, rtol=1e-3, atol=1e-4)

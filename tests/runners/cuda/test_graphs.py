"""CUDA graphs: captured on the first call, replayed afterwards, for each value of the symbolic variables that a function names."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

import ir
import runners
from ir import relax
from ir.relax.testing import evaluate
from ir.relax.transform import RewriteCUDAGraph
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.transform import PassContext
from runners.cuda.context import Stream, context
from runners.cuda.driver import CudaError, driver
from runners.cuda.graph import CudaGraph
from runners.graphs import StaticParts
from tests.runners.cuda.programs import TARGET

ON = {"relax.backend.use_cuda_graph": True}
RNG = np.random.default_rng(0)
CAPTURE = ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch"]

pytestmark = pytest.mark.usefixtures("nvrtc")


@I.ir_module
class Static:
    @R.function
    def main(x: R.Tensor((8, 16), "float32"), w: R.Tensor((16, 16), "float32")) -> R.Tensor(
        (8, 16), "float32"
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(a)
            c = R.matmul(b, w)
            d = R.nn.softmax(c)
            e = R.matmul(d, w)
            R.output(e)
        return e


@I.ir_module
class Symbolic:
    @R.function
    def main(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 16), "float32")) -> R.Tensor(
        ("n", 16), "float32"
    ):
        n = T.int64()
        R.func_attr(
            {
                "num_input": 1,
                "tir_var_upper_bound": {"n": 8},
                "relax.rewrite_cuda_graph.capture_symbolic_vars": ["n"],
            }
        )
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(a)
            c = R.matmul(b, w)
            d = R.nn.softmax(c)
            e = R.matmul(d, w)
            R.output(e)
        return e


@pytest.fixture
def asked(monkeypatch):
    """The driver's functions for graphs, as they are called."""
    found = []
    call = driver().call

    def noted(name, *args):
        if "Graph" in name or "Capture" in name:
            found.append(name)
        return call(name, *args)

    monkeypatch.setattr(driver(), "call", noted)
    return found


def _random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def _built(mod):
    with PassContext(config=ON):
        return relax.build(mod, TARGET)


@pytest.fixture(scope="module")
def static(device_library):
    return _built(Static)


def _run(vm, mod, rows, weight):
    x = _random(rows, 16)
    found = vm["main"](x, weight).numpy()
    np.testing.assert_allclose(found, evaluate(mod, x, weight.numpy()), rtol=1e-5, atol=1e-6)


def test_captured_once_and_replayed(static, asked):
    vm = runners.VirtualMachine(static, runners.cuda(), profile=True)
    weight = runners.array(_random(16, 16), runners.cuda())
    _run(vm, Static, 8, weight)
    assert asked == [name for name in CAPTURE if name in asked] == CAPTURE
    asked.clear()
    for _ in range(3):
        _run(vm, Static, 8, weight)
    assert asked == ["cuGraphLaunch"] * 3
    assert "run_or_capture" in vm.profile("main", _random(8, 16), weight)


def test_weights_in_other_places_are_captured_anew(static, asked):
    vm = runners.VirtualMachine(static, runners.cuda())
    weights = [runners.array(_random(16, 16), runners.cuda()) for _ in range(2)]
    for weight in (weights[0], weights[1], weights[1]):
        _run(vm, Static, 8, weight)
    assert asked == [*CAPTURE, *CAPTURE, "cuGraphLaunch"]


def test_a_graph_for_each_value_of_the_symbolic_variables(asked):
    vm = runners.VirtualMachine(_built(Symbolic), runners.cuda())
    weight = runners.array(_random(16, 16), runners.cuda())
    for rows in (8, 5, 8, 5, 3):
        _run(vm, Symbolic, rows, weight)
    assert asked == [*CAPTURE, *CAPTURE, "cuGraphLaunch", "cuGraphLaunch", *CAPTURE]


def test_threads_and_streams_have_graphs_of_their_own(static):
    vm = runners.VirtualMachine(static, runners.cuda())
    weight = runners.array(_random(16, 16), runners.cuda())
    problems = []

    def work():
        try:
            with context(0).working_on(Stream(context(0))):
                for _ in range(3):
                    _run(vm, Static, 8, weight)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


@I.ir_module
class Recursive:
    @R.function
    def main(x: R.Tensor((8, 16), "float32"), n: R.Tensor((), "int64")) -> R.Tensor((8, 16), "float32"):
        cls = Recursive
        a = R.exp(x)
        b = R.nn.softmax(a)
        c = R.greater(n, R.const(0, "int64"))
        if c:
            less = R.subtract(n, R.const(1, "int64"))
            h: R.Tensor((8, 16), "float32") = cls.main(R.negative(x), less)
            r = R.add(h, b)
        else:
            r = R.add(b, b)
        s = R.multiply(r, a)
        return s


def test_a_function_that_calls_itself_keeps_what_it_computed_before():
    def expected(x, n):
        a = np.exp(x)
        weights = np.exp(a - a.max(-1, keepdims=True))
        b = weights / weights.sum(-1, keepdims=True)
        return ((expected(-x, n - 1) if n else b) + b) * a

    vm, x = runners.VirtualMachine(_built(Recursive), runners.cuda()), _random(8, 16)
    for n in (0, 2, 1, 2):
        np.testing.assert_allclose(vm["main"](x, np.array(n)).numpy(), expected(x, n), rtol=1e-5)


@I.ir_module
class CallsPython:
    @R.function(pure=False)
    def main(x: R.Tensor((8, 16), "float32"), w: R.Tensor((16,), "float32")) -> R.Tensor((8, 16), "float32"):
        R.func_attr({"num_input": 1})
        a = R.exp(x)
        b = R.add(w, w)
        h: R.Tensor((8, 16), "float32") = R.call_packed(
            "test.cuda.graphs.again", x, sinfo_args=R.Tensor((8, 16), "float32")
        )
        c = R.multiply(h, a)
        d = R.add(c, b)
        return d


def test_a_function_that_python_calls_again_before_it_has_returned():
    left = [0]

    def again(x):
        if not left[0]:
            return x
        left[0] -= 1
        return vm["main"](-x.numpy(), other)

    def expected(x, n):
        inner = expected_inner(-x, n - 1) if n else x
        return inner * np.exp(x) + 2 * weight.numpy()

    def expected_inner(x, n):
        inner = expected_inner(-x, n - 1) if n else x
        return inner * np.exp(x) + 2 * other.numpy()

    ir.register_func("test.cuda.graphs.again", again, override=True)
    try:
        vm, x = runners.VirtualMachine(_built(CallsPython), runners.cuda()), _random(8, 16)
        weight, other = (runners.array(_random(16), runners.cuda()) for _ in range(2))
        for n in (0, 2, 2, 1):
            left[0] = n
            np.testing.assert_allclose(vm["main"](x, weight).numpy(), expected(x, n), rtol=1e-5)
    finally:
        ir.remove_global_func("test.cuda.graphs.again")


def test_streams_of_one_thread_have_memory_of_their_own(static):
    vm = runners.VirtualMachine(static, runners.cuda())
    weight = runners.array(_random(16, 16), runners.cuda())
    x = [runners.array(_random(8, 16), runners.cuda()) for _ in range(2)]
    expected = [evaluate(Static, item.numpy(), weight.numpy()) for item in x]
    streams = [Stream(context(0)) for _ in range(2)]
    parts = StaticParts(vm.home)
    places = []
    for stream in (*streams, streams[0]):
        with context(0).working_on(stream):
            places.append(parts.cached_alloc(SimpleNamespace(run=object), 0))
    assert places[0] is places[2] and places[0] is not places[1]
    for at in (0, 1, 0):
        with context(0).working_on(streams[at]):
            found = vm["main"](x[at], weight).numpy()
        np.testing.assert_allclose(found, expected[at], rtol=1e-5, atol=1e-6)


def test_without_the_option_functions_are_native(device_library):
    executable = relax.build(Static, TARGET)
    assert list(executable.metadata["functions"]) == ["main"]
    assert executable.metadata["functions"]["main"]["kind"] == "native"


def test_on_the_processor_marked_parts_run(asked):
    """A module that was rewritten by hand and is built for the processor: memory is kept, and kernels run at each call."""
    mod = relax.transform.LegalizeOps()(Static)
    passes = (
        relax.transform.ToNonDataflow(), relax.transform.RemovePurityChecking(), relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(), RewriteCUDAGraph(),
    )  # fmt: skip
    with PassContext(config=ON):
        for item in passes:
            mod = item(mod)
    vm = runners.VirtualMachine(relax.build(mod, "llvm", pipeline=None), runners.cpu())
    weight = runners.array(_random(16, 16))
    for _ in range(3):
        _run(vm, Static, 8, weight)
    assert asked == []


def test_what_cannot_be_captured_is_an_error_and_leaves_the_stream_usable(device_library):
    of = context(0)
    with pytest.raises(CudaError, match="CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        CudaGraph(of, of.stream.synchronize)
    array = runners.array(np.arange(4, dtype="float32"), runners.cuda())
    np.testing.assert_array_equal(array.numpy(), [0, 1, 2, 3])


def test_a_graph_may_go_before_it_was_done(device_library):
    of = context(0)
    array = runners.empty((1024,), "uint8", runners.cuda())
    graph = CudaGraph(of, lambda: array.data.memory.fill(7))
    graph.launch()
    del graph
    assert (array.numpy() == 7).all()

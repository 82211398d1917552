"""Functions with symbolic shapes as C calls them, against the virtual machine, which interprets the same instructions."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import runners
from ir import relax
from ir.codegen.dynamic.values import MOST_DIMENSIONS, dtype_number
from ir.script import from_source

needs_c = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


class Tensor(ctypes.Structure):
    """The structure of the header."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_int64 * MOST_DIMENSIONS),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    ]

    @staticmethod
    def of(array: np.ndarray) -> Tensor:
        shape = (ctypes.c_int64 * MOST_DIMENSIONS)(*array.shape)
        return Tensor(array.ctypes.data, shape, array.ndim, dtype_number(array.dtype.name))


class Library:
    """A library as C sees it, and its functions in the virtual machine."""

    def __init__(self, source: str, path: Path) -> None:
        module = from_source(f"@I.ir_module\nclass M:\n{textwrap.indent(textwrap.dedent(source), '    ')}")
        relax.build(module, "llvm").export_library(path)
        self.header = path.with_suffix(".h").read_text()
        self.machine = runners.VirtualMachine(runners.load_module(path))
        self.code = ctypes.CDLL(str(path))
        self.code.loopsmith_last_error.restype = ctypes.c_char_p
        self.code.loopsmith_free.argtypes = [ctypes.c_void_p]

    def call(self, *arrays: np.ndarray, outputs: int = 1, name: str = "main") -> list[np.ndarray]:
        """Copies of the outputs.

        Raises:
            RuntimeError: the function returned another status than 0; then no output has data.
        """
        made = (Tensor * max(outputs, 1))()
        for item in made:
            item.data = 1
        inputs = (Tensor * max(len(arrays), 1))(*map(Tensor.of, arrays))
        if self.code[f"loopsmith_{name}"](inputs, made):
            assert not any(item.data for item in made)
            raise RuntimeError(self.code.loopsmith_last_error().decode())
        found = []
        for item in made:
            shape = item.shape[: item.ndim]
            kind = next(
                kind for kind in ("float32", "int64", "int8", "bool") if dtype_number(kind) == item.dtype
            )
            size = int(np.prod(shape, dtype="int64")) * np.dtype(kind).itemsize
            found.append(np.frombuffer(ctypes.string_at(item.data, size), kind).reshape(shape).copy())
            self.code.loopsmith_free(item.data)
        return found

    def check(self, *arrays: np.ndarray, outputs: int = 1, name: str = "main") -> None:
        """C's outputs are those of the virtual machine."""
        expected: Any = self.machine[name](*arrays)
        flat = _flattened(expected)
        found = self.call(*arrays, outputs=outputs, name=name)
        assert len(flat) == len(found)
        for one, other in zip(found, flat, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            np.testing.assert_array_equal(one, other)


def _flattened(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [item for part in value for item in _flattened(part)]
    return [value.numpy()]


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


LAYER = """
    @R.function
    def main(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 8), "float32")):
        y = R.nn.softmax(R.matmul(x, w))
        return R.concat([y, y], axis=0)
"""


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(LAYER, tmp_path_factory.mktemp("layer") / "liblayer.so")


@pytest.mark.parametrize("n", [0, 1, 5, 64])
def test_a_layer_of_any_number_of_rows(n: int, layer: Library) -> None:
    layer.check(floats(n, 16), floats(16, 8))


def test_what_does_not_fit_is_named(layer: Library) -> None:
    with pytest.raises(RuntimeError, match="main: argument x must have extent 16 on axis 1, got 15"):
        layer.call(floats(3, 15), floats(16, 8))
    with pytest.raises(RuntimeError, match="main: argument w must have 2 dimensions"):
        layer.call(floats(3, 16), floats(16))
    with pytest.raises(RuntimeError, match="main: argument x must be float32"):
        layer.call(np.zeros((3, 16), "int64"), floats(16, 8))
    wrong = Tensor.of(floats(3, 16))
    wrong.shape[0] = -1
    inputs = (Tensor * 2)(wrong, Tensor.of(floats(16, 8)))
    assert layer.code.loopsmith_main(inputs, (Tensor * 1)()) == 1
    assert b"argument x has a negative extent on axis 0" in layer.code.loopsmith_last_error()


def test_calls_leave_no_memory_behind(layer: Library) -> None:
    """Neither those that fail nor those that do not."""
    x, w = floats(20_000, 16), floats(16, 8)
    process = psutil.Process()
    for _ in range(3):
        layer.call(x, w)
    before = process.memory_info().rss
    for _ in range(200):
        layer.call(x, w)
        with pytest.raises(RuntimeError):
            layer.call(x, floats(16, 7))
    assert process.memory_info().rss - before < 64 << 20  # each call makes more than 1 MB


MODELS = {
    "views and tuples": (
        """
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            y = R.add(x, R.const(1.0, "float32"))
            z = R.reshape(y, R.shape([n * 4]))
            return (y, (z, x), R.const([1, 2, 3], "int64"))
        """,
        lambda: [floats(6, 4)],
        4,
    ),
    "extents that agree": (
        """
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m", "n"), "float32")):
            return R.add(x, R.permute_dims(y))
        """,
        lambda: [floats(3, 5), floats(5, 3)],
        1,
    ),
    "a branch": (
        """
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
            n = T.int64()
            a = R.add(x, x)
            if c:
                b: R.Tensor((n,), "float32") = R.multiply(a, a)
            else:
                b: R.Tensor((n,), "float32") = a
            return R.add(b, x)
        """,
        lambda: [np.array(True), floats(7)],
        1,
    ),
    "branches in branches": (
        """
        @R.function
        def main(c: R.Tensor((), "bool"), d: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
            n = T.int64()
            a = R.add(x, x)
            if c:
                if d:
                    inner: R.Tensor((n,), "float32") = R.multiply(a, x)
                else:
                    inner: R.Tensor((n,), "float32") = R.subtract(a, a)
                b: R.Tensor((n,), "float32") = R.add(inner, a)
            else:
                b: R.Tensor((n,), "float32") = x
            return (R.exp(b), b, a)
        """,
        lambda: [np.array(True), np.array(False), floats(7)],
        3,
    ),
    "memory that a branch has handed on": (
        """
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            a = R.nn.softmax(x)
            if c:
                b: R.Tensor((n, 4), "float32") = R.cumsum(a, axis=1)
            else:
                b: R.Tensor((n, 4), "float32") = a
            return R.cumsum(R.add(R.cumsum(R.cumsum(x, axis=0), axis=0), b), axis=0)
        """,
        lambda: [np.array(False), floats(7, 4)],
        1,
    ),
    "extents that are data": (
        """
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), s: R.Tensor((2,), "int64")):
            a, b = T.int64(), T.int64()
            shape: R.Shape(ndim=2) = R.tensor_to_shape(s)
            known = R.match_cast(shape, R.Shape([a, b]))
            y = R.reshape(x, R.shape([a, b]))
            return R.add(y, y)
        """,
        lambda: [floats(6, 4), np.array([3, 8])],
        1,
    ),
    "extents that are computed": (
        """
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            y = R.strided_slice(x, axes=[0], begin=[1], end=[n - 1])
            return (R.sum(y, axis=[1]), R.arange(R.prim_value(0), R.prim_value(n), R.prim_value(1), dtype="int64"))
        """,
        lambda: [floats(6, 4)],
        2,
    ),
    "memory for a largest extent": (
        """
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            R.func_attr({"tir_var_upper_bound": {"n": 8}})
            y = R.add(x, x)
            return R.exp(R.multiply(y, y))
        """,
        lambda: [floats(6, 4)],
        1,
    ),
    "a function of its own": (
        """
        @R.function(private=True)
        def twice(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            y: R.Tensor((n,), "float32") = R.add(x, x)
            return y

        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            cls = M
            return cls.twice(cls.twice(x))
        """,
        lambda: [floats(9)],
        1,
    ),
    "eight bits": (
        """
        @R.function
        def main(x: R.Tensor(("n",), "int8")):
            return R.add(x, x)
        """,
        lambda: [np.arange(-128, 128, dtype="int8")],
        1,
    ),
    "the argument itself": (
        """
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            return (x, x)
        """,
        lambda: [floats(5)],
        2,
    ),
    "a shape as a tensor": (
        """
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            return R.shape_to_tensor(R.shape_of(x))
        """,
        lambda: [floats(5, 3)],
        1,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_as_the_virtual_machine_does_it(name: str, tmp_path: Path) -> None:
    source, arrays, outputs = MODELS[name]
    library = Library(source, tmp_path / "libmodel.so")
    library.check(*arrays(), outputs=outputs)
    if name == "a branch":
        library.check(np.array(False), floats(7), outputs=outputs)
    if name == "memory for a largest extent":
        with pytest.raises(RuntimeError, match=r"must be at most 8 \(tir_var_upper_bound\), got 9"):
            library.call(floats(9, 4))
    if name == "extents that are data":
        with pytest.raises(RuntimeError, match=r"has 24 elements and cannot be reshaped to \(a, b\) with 27"):
            library.call(floats(6, 4), np.array([3, 9]))
    if name == "extents that agree":
        with pytest.raises(
            RuntimeError, match="argument y must have extent 3 on axis 1, as the other arguments say, got 4"
        ):
            library.call(floats(3, 5), floats(5, 4))


def test_threads_call_at_the_same_time(layer: Library) -> None:
    """Each call has memory of its own."""
    x, w = floats(33, 16), floats(16, 8)
    wanted = {rows: layer.call(x[:rows], w)[0] for rows in (1, 5, 17, 33)}
    wrong: list[int] = []

    def work(rows: int) -> None:
        for _ in range(30):
            if not np.array_equal(layer.call(x[:rows], w)[0], wanted[rows]):
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (*wanted, *wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_argument_that_is_written(tmp_path: Path) -> None:
    source = """
        @T.prim_func(private=True)
        def count(x: T.handle):
            n = T.int64()
            A = T.match_buffer(x, (n,), "float32")
            for i in range(n):
                with T.block("A"):
                    vi = T.axis.spatial(n, i)
                    A[vi] = A[vi] + T.float32(1)

        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            y = R.call_tir_inplace(M.count, (x,), inplace_indices=[0], out_sinfo=R.Tensor((n,), "float32"))
            return y
    """
    library = Library(source, tmp_path / "libmodel.so")
    x = floats(5)
    before = x.copy()
    (found,) = library.call(x)
    np.testing.assert_array_equal(found, before + 1)
    written = not np.array_equal(x, before)
    assert ("which is overwritten" in library.header) == written
    assert ("const float *x," in library.header) != written


def test_what_c_cannot_call_is_named_with_the_reason(tmp_path: Path) -> None:
    source = """
        @R.function
        def unknown(x: R.Tensor(dtype="float32")):
            return x

        @R.function(pure=False)
        def python(x: R.Tensor(("n",), "float32")):
            y = R.call_packed("tests.twice", x, sinfo_args=(R.Tensor(ndim=1, dtype="float32"),))
            return y

        @R.function
        def deeper(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            if R.less(R.sum(x), R.const(10.0)):
                y: R.Tensor((n,), "float32") = M.deeper(R.add(x, R.const(1.0)))
            else:
                y: R.Tensor((n,), "float32") = x
            return y

        @R.function
        def number(x: R.Tensor(("n",), "float32"), k: R.Prim("int64")):
            return x

        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            return R.add(x, x)
    """
    library = Library(source, tmp_path / "libmodel.so")
    library.check(floats(3))
    assert (
        "/* unknown runs in Python only: the rank or dtype of its argument x is not known. */"
        in library.header
    )
    assert "python runs in Python only: it calls tests.twice, which is a function of Python" in library.header
    assert "number runs in Python only: its argument k is no tensor" in library.header
    assert "deeper runs in Python only: it calls deeper, which calls itself" in library.header
    assert not hasattr(library.code, "loopsmith_unknown")


PROGRAM = """
    #include <stdio.h>
    #include <stdlib.h>
    #include "liblayer.h"
    int main(void) {
      static float x[6 * 16], w[16 * 8];
      for (int i = 0; i < 6 * 16; ++i) x[i] = (float)(i % 7);
      for (int i = 0; i < 16 * 8; ++i) w[i] = (float)(i % 5) / 8;
      for (int64_t rows = 2; rows <= 6; rows += 4) {
        int64_t shape[] = {rows, 16};
        loopsmith_tensor y[LOOPSMITH_MAIN_OUTPUTS];
        if (loopsmith_main_run(x, shape, w, y)) { puts(loopsmith_last_error()); return 1; }
        float sum = 0;
        for (int64_t i = 0; i < y[0].shape[0] * y[0].shape[1]; ++i) sum += ((float *)y[0].data)[i];
        printf("%d %d %d %.3f\\n", (int)y[0].ndim, (int)y[0].shape[0], (int)y[0].shape[1], sum);
        loopsmith_free(y[0].data);
      }
      int64_t wrong[] = {2, 17};
      loopsmith_tensor none[LOOPSMITH_MAIN_OUTPUTS];
      int status = loopsmith_main_run(x, wrong, w, none);
      printf("%d %d\\n", status, none[0].data == NULL);
      puts(loopsmith_last_error());
      return 0;
    }
"""


@needs_c
@pytest.mark.parametrize("compiler", ["cc", "c++"])
def test_a_program_in_c(compiler: str, layer: Library, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip("needs a compiler")
    where = Path(layer.code._name)
    for path in (where, where.with_suffix(".h")):
        shutil.copy(path, tmp_path)
    source = tmp_path / ("main.c" if compiler == "cc" else "main.cpp")
    source.write_text(textwrap.dedent(PROGRAM))
    command = [
        compiler,
        "-Wall",
        "-Wextra",
        "-Werror",
        source.name,
        "-o",
        "main",
        "-L.",
        "-llayer",
        "-Wl,-rpath,.",
    ]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=60)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        "2 4 8 4.000",
        "2 12 8 12.000",
        "1 1",
        "main: argument x must have extent 16 on axis 1, got 17",
    ]


@needs_c
def test_functions_whose_names_differ_in_case_have_macros_of_their_own(tmp_path: Path) -> None:
    """A program makes room for as many outputs as the macro says."""
    source = """
        @R.function
        def step(int64_t: R.Tensor(("n",), "float32")):
            return R.add(int64_t, int64_t)

        @R.function
        def Step(loopsmith_tensor: R.Tensor(("n",), "float32")):
            return (R.add(loopsmith_tensor, loopsmith_tensor), loopsmith_tensor)
    """
    Library(source, tmp_path / "libmodel.so")
    program = """
        #include "libmodel.h"
        int main(void) { return 10 * loopsmith_Step_OUTPUTS + loopsmith_step_OUTPUTS; }
    """
    (tmp_path / "main.c").write_text(textwrap.dedent(program))
    command = ["cc", "-Wall", "-Wextra", "-Werror", "main.c", "-o", "main", "-L.", "-lmodel", "-Wl,-rpath,."]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=60)
    assert subprocess.run(["./main"], cwd=tmp_path, timeout=60).returncode == 21

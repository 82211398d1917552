"""The process of a session: it holds arrays and programs of a client, and answers one task after the other.

It is forked from the template of the server's workers, so that it has their limits, and ends with its connection.
"""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..device import Device, device
from ..error import DeviceError, RunnerError
from ..executable import Executable
from ..ndarray import Array, NDArray, aligned_empty, empty, numpy_dtype
from ..virtual_machine import VirtualMachine
from ..worker import own_connection
from .failures import failure_of
from .frames import receive_message, send_message
from .programs import KernelModule, RegisteredFunctions, described, opened
from .proto import remote_pb2 as pb

NUMBERS_OF_A_PROCESS = 1 << 32
"""Each process counts its arrays and programs from a multiple of this: no number means something else in a later one."""
_MOST_DIMENSIONS = 64
_MOST_REPEATS = 1_000_000
_Program = VirtualMachine | Executable | KernelModule | RegisteredFunctions


def serve(number: int) -> None:
    """Answer the tasks of a session until its server closes the connection.

    Args:
        number: of this process among those of the server.
    """
    connection = own_connection()
    holdings = Holdings(number * NUMBERS_OF_A_PROCESS)
    while True:
        task = receive_message(connection, pb.Task)
        send_message(connection, holdings.answer(task))


class Holdings:
    """Arrays and programs by their numbers.

    Args:
        first: numbers are larger than this.
    """

    def __init__(self, first: int = 0) -> None:
        self._numbers = itertools.count(first + 1)
        self._arrays: dict[int, Any] = {}
        """Arrays, and objects that functions gave."""
        self._known: dict[int, int] = {}
        """The numbers of arrays by their identity: what a function gives may be what it was given."""
        self._programs: dict[int, _Program] = {0: RegisteredFunctions()}
        self._file: IO[bytes] | None = None
        """A program that is coming."""
        self._opened: dict[str, Executable | KernelModule] = {}
        self._used: set[Device] = set()
        """Devices beside the processor that have arrays, or had."""

    def answer(self, task: pb.Task) -> pb.Answer:
        """What comes of a task; an exception is an answer, too."""
        name = task.WhichOneof("task")
        try:
            method: Callable[[Any], pb.Answer] = getattr(self, f"_{name}")
            return method(getattr(task, name))
        except Exception as error:  # whatever a program raises is what came of it
            return failure_of(error)

    # -- programs ----------------------------------------------------------------------
    def _part(self, part: pb.ProgramPart) -> pb.Answer:
        if part.is_first:
            self._file = tempfile.NamedTemporaryFile(prefix="loopsmith-program-")
        if self._file is None:
            raise RunnerError("the first part of a program says so")
        try:
            self._file.write(part.data)
            self._file.flush()
        except OSError as error:
            raise RunnerError(f"the server's workers cannot keep the program: {error.strerror}") from error
        return pb.Answer(nothing=pb.Nothing())

    def _open(self, name: str) -> Executable | KernelModule:
        """The program whose parts have come."""
        if self._file is None:
            raise RunnerError("the parts of a program come before it is loaded")
        with self._file as file:
            self._file = None
            try:
                return opened(Path(file.name))
            except RunnerError as error:
                raise type(error)(str(error).replace(file.name, name)) from error

    def _load(self, request: pb.LoadRequest) -> pb.Answer:
        found = self._opened.get(request.content) or self._open(request.name)
        self._opened[request.content] = found
        program: _Program = found
        if request.device:
            if not isinstance(program, Executable):
                raise RunnerError(f"{request.name} has kernels, which run where their arguments are")
            program = VirtualMachine(program, self._device(request.device), profile=True)
        number = next(self._numbers)
        self._programs[number] = program
        return pb.Answer(program=pb.ProgramInfo(program=number, described=json.dumps(described(found))))

    def _program(self, number: int) -> Any:
        found = self._programs.get(number)
        if found is None and callable(closure := self._arrays.get(number)):
            return {"": closure}
        if found is None:
            raise RunnerError("the program is not there any more; load it again")
        if isinstance(found, Executable):
            raise RunnerError("functions of a model are called by runners.VirtualMachine(module, device)")
        return found

    def _call(self, request: pb.CallRequest) -> pb.Answer:
        function = self._program(request.program)[request.function]
        result = function(*[self._argument(item) for item in request.arguments])
        self._synchronize()
        return pb.Answer(value=self._result(result))

    def _time(self, request: pb.TimeRequest) -> pb.Answer:
        call = request.call
        if not (1 <= request.number and 1 <= request.repeat <= _MOST_REPEATS):
            raise RunnerError(
                f"number is at least 1 and repeat between 1 and {_MOST_REPEATS}, got {request.number} and {request.repeat}"
            )
        evaluate = self._program(call.program).time_evaluator(
            call.function,
            None,
            request.number,
            request.repeat,
            request.min_repeat_ms,
            request.cooldown_interval_ms,
            request.repeats_to_cooldown,
        )
        times = evaluate(*[self._argument(item) for item in call.arguments])
        return pb.Answer(times=pb.Times(secs=times.results))

    def _profile(self, request: pb.CallRequest) -> pb.Answer:
        arguments = [self._argument(item) for item in request.arguments]
        return pb.Answer(table=self._program(request.program).profile(request.function, *arguments))

    # -- arrays ------------------------------------------------------------------------
    def _allocate(self, request: pb.AllocateRequest) -> pb.Answer:
        kind, shape = _checked(request.dtype, request.shape)
        return pb.Answer(array=self._keep(empty(shape, kind, self._device(request.device))))

    def _write(self, part: pb.ArrayPart) -> pb.Answer:
        array = self._array(part.array)
        _require_inside(array, part.begin, len(part.data))
        values, data = np.frombuffer(part.data, np.uint8), array.data
        if isinstance(data, np.ndarray):
            _bytes_of(data)[part.begin : part.begin + values.size] = values
        else:
            data.set_bytes_at(part.begin, values)
            self._synchronize()
        return pb.Answer(nothing=pb.Nothing())

    def _read(self, request: pb.ReadRequest) -> pb.Answer:
        array = self._array(request.array)
        _require_inside(array, request.begin, request.size)
        begin, size, data = request.begin, request.size, array.data
        raw = (
            _bytes_of(data)[begin : begin + size]
            if isinstance(data, np.ndarray)
            else data.bytes_at(begin, size)
        )
        return pb.Answer(part=pb.ArrayPart(array=request.array, begin=begin, data=raw.tobytes()))

    def _copy(self, request: pb.CopyRequest) -> pb.Answer:
        self._array(request.target).copyfrom(self._array(request.source))
        self._synchronize()
        return pb.Answer(nothing=pb.Nothing())

    def _free(self, request: pb.FreeRequest) -> pb.Answer:
        for number in request.arrays:
            self._known.pop(id(self._arrays.pop(number, None)), None)
        for number in request.programs:
            self._programs.pop(number, None)
        return pb.Answer(nothing=pb.Nothing())

    def _array(self, number: int) -> NDArray:
        found = self._object(number)
        if not isinstance(found, NDArray):
            raise RunnerError(f"a {type(found).__name__} has no elements")
        return found

    def _object(self, number: int) -> Any:
        found = self._arrays.get(number)
        if found is None:
            raise RunnerError(
                "the array is not there any more: it was in a process that has ended, or never was this session's"
            )
        return found

    def _keep(self, array: NDArray) -> pb.ArrayInfo:
        """The array under a number, the one that it has if it is here already; a copy of one that others must not write to."""
        number = self._known.get(id(array))
        if number is None:
            number = next(self._numbers)
            kept = self._arrays[number] = array if _is_own(array) else _copied(array)
            self._known[id(kept)] = number
        if array.device.device_type != Device.kDLCPU:
            self._used.add(array.device)
        place = f"{array.device.type}:{array.device.device_id}"
        return pb.ArrayInfo(array=number, dtype=array.dtype, shape=array.shape, device=place)

    def _device(self, text: str) -> Device:
        found = device(text)
        if found.device_type == Device.kDLCPU and found.device_id:
            raise DeviceError(f"there is one processor, cpu(0), and no {found}")
        return found

    def _synchronize(self) -> None:
        """Wait for the devices: what fails on one is told of the task that has started it."""
        for item in self._used:
            item.sync()

    # -- values ------------------------------------------------------------------------
    def _argument(self, value: pb.Value) -> Any:
        name = value.WhichOneof("value")
        if name == "given":
            return self._object(value.given)
        if name == "elements":
            return _array_of(value.elements)
        if name == "tuple":
            return tuple(self._argument(item) for item in value.tuple.items)
        if name == "nothing" or name is None:
            return None
        return getattr(value, name)

    def _result(self, value: Any) -> pb.Value:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, np.ndarray):
            value = NDArray(value)
        if isinstance(value, NDArray):
            return pb.Value(array=self._keep(value))
        if isinstance(value, tuple | list):
            return pb.Value(tuple=pb.Values(items=[self._result(item) for item in value]))
        if value is None:
            return pb.Value(nothing=pb.Nothing())
        if isinstance(value, bool):
            return pb.Value(boolean=value)
        if isinstance(value, int):
            return pb.Value(integer=value)
        if isinstance(value, float):
            return pb.Value(real=value)
        if isinstance(value, str):
            return pb.Value(text=value)
        number = next(self._numbers)
        self._arrays[number] = value
        return pb.Value(object=pb.ObjectInfo(object=number, kind=type(value).__name__))


def _checked(dtype: str, extents: Iterator[int]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """A dtype and a shape that arrays can have."""
    kind, shape = numpy_dtype(dtype), tuple(extents)
    if kind.kind not in "biufcV" or kind.type is np.void:  # those of ml_dtypes are of the kind V
        raise RunnerError(f"arrays have numbers as elements, not {dtype!r}")
    if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise RunnerError(f"a shape has at most {_MOST_DIMENSIONS} extents of 0 or more, got {list(shape)}")
    return kind, shape


def _array_of(elements: pb.Elements) -> Array:
    """A small array that came with a call: nobody may write to it, since nobody could read what was written."""
    kind, shape = _checked(elements.dtype, elements.shape)
    if math.prod(shape) * kind.itemsize != len(elements.data):
        raise RunnerError(f"an argument of {kind.name}{list(shape)} came with {len(elements.data)} bytes")
    found = aligned_empty(shape, kind)
    _bytes_of(found)[...] = np.frombuffer(elements.data, np.uint8)
    found.flags.writeable = False
    return found


def _is_own(array: NDArray) -> bool:
    """Whether an array is kept as it is: dense, and no constant of a model or argument that came with a call."""
    data = array.data
    if isinstance(data, np.ndarray):
        return bool(data.flags.c_contiguous and data.flags.writeable)
    return bool(data.is_dense and not data.is_read_only)


def _copied(array: NDArray) -> NDArray:
    return empty(array.shape, array.dtype, array.device).copyfrom(array)


def _bytes_of(array: Array) -> Array:
    """The bytes of a dense array, in place."""
    return array.reshape(-1).view(np.uint8)


def _require_inside(array: NDArray, begin: int, size: int) -> None:
    if begin + size > array.nbytes:
        raise RunnerError(f"bytes {begin} to {begin + size} of an array of {array.nbytes} bytes")

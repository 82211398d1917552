"""Programs elsewhere: modules that a session has loaded, their functions, and the virtual machine of a model."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from ..arguments import in_order
from ..benchmark import BenchmarkResult, Repeats
from ..device import Device, cpu, cuda
from ..profile import TimedPart
from ..program import ExecutableError
from ..virtual_machine import SavedCall, VirtualMachine
from .programs import MODEL
from .proto import remote_pb2 as pb
from .remote_array import RemoteDevice, RemoteObject, place_of, remote_device
from .remote_calls import RemoteCalls
from .remote_values import Arguments


class RemoteProgram:
    """A program that the session's process has opened, under its number.

    Args:
        calls: of the session.
        content: the name of its bytes.
        name: in messages.
        device: where a model's functions are called; None for kernels, and to look what there is.

    Raises:
        ExecutableError, ContainerError: it is no program, or none of that device.
    """

    def __init__(self, calls: RemoteCalls, content: str, name: str, device: Device | None = None) -> None:
        self.calls, self.content, self.name = calls, content, name
        place = "" if device is None else place_of(device)
        info = calls.ask("Load", pb.LoadRequest(content=content, device=place, name=name)).program
        self.number = int(info.program)
        self.described: dict[str, Any] = json.loads(info.described)
        weakref.finalize(self, calls.forget, "programs", self.number).atexit = False


class RemoteFunction:
    """A function of a program elsewhere. Arrays of the session are passed by their numbers, others are sent with the call; what it gives
    are arrays of the server.

    Args:
        calls: of the session.
        program: its number; 0 for the functions that the server's processes register.
        name: of the function.
        entry: what is known of its parameters.
        kept: must live as long as the function.
    """

    def __init__(
        self, calls: RemoteCalls, program: int, name: str, entry: dict[str, Any], kept: Any = None
    ) -> None:
        self._calls, self._program, self.name, self._kept = calls, program, name, kept
        self._names = [str(param["name"]) for param in entry.get("params", ())]
        self._written = entry.get("written", ())

    def _request(self, args: Sequence[Any]) -> tuple[pb.CallRequest, Arguments]:
        arguments = Arguments(self._calls, self.name)
        values = arguments.messages(args, self._names, self._written)
        return pb.CallRequest(program=self._program, function=self.name, arguments=values), arguments

    def __call__(self, *args: Any, **named: Any) -> Any:
        if named:
            args = in_order(self.name, self._names, args, named)
        request, arguments = self._request(args)
        return arguments.result(self._calls.call("Call", request, request).value)

    def times(self, args: Sequence[Any], repeats: Repeats) -> BenchmarkResult:
        """Times of calls, by the clock of the device."""
        request, _kept = self._request(args)
        message = pb.TimeRequest(call=request, **asdict(repeats))
        return BenchmarkResult(tuple(self._calls.call("Time", message, request).times.secs))

    def profile(self, *args: Any) -> str:
        """A table of the median time of each kernel."""
        request, _kept = self._request(args)
        table: str = self._calls.call("Profile", request, request).table
        return table


class RemoteModule:
    """A program that was loaded by a session: kernels, ``module["main"](a, b, c)``, or a model, of which
    ``runners.VirtualMachine(module, remote.cpu())`` calls the functions.

    Args:
        program: as the session's process has it.
    """

    def __init__(self, program: RemoteProgram) -> None:
        self.program = program
        self.metadata = program.described
        """What the program is, as :func:`runners.rpc.programs.described` says."""

    def __repr__(self) -> str:
        return f"<RemoteModule {self.program.name}: {', '.join(self.function_names)}>"

    @property
    def machine(self) -> type[VirtualMachine]:
        """The kind of virtual machine that calls a model's functions."""
        return RemoteVirtualMachine

    @property
    def function_names(self) -> list[str]:
        """The functions that can be called."""
        return sorted(name for name, entry in self.metadata["functions"].items() if entry["public"])

    def functions(self) -> list[str]:
        """As :attr:`function_names`."""
        return self.function_names

    def __contains__(self, name: object) -> bool:
        return name in self.function_names

    def signature(self, name: str = "main") -> dict[str, Any]:
        """Inputs and outputs of a function as plain data."""
        entry = self._entry(name)
        return {key: entry[key] for key in ("params", "outputs") if entry.get(key) is not None}

    def _entry(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] | None = self.metadata["functions"].get(name)
        if found is None:
            raise ExecutableError(
                f"{self.program.name} has no function {name!r}; it has {', '.join(self.function_names) or 'none'}"
            )
        return found

    def __getitem__(self, name: str) -> RemoteFunction:
        """A kernel; raises ExecutableError where there is none of that name."""
        entry = self._entry(name)
        if self.metadata["kind"] == MODEL:
            raise ExecutableError(
                f"{self.program.name} is a model; runners.VirtualMachine(module, remote.cpu())[{name!r}] calls it"
            )
        return RemoteFunction(self.program.calls, self.program.number, name, entry, self.program)

    def __call__(self, *args: Any) -> Any:
        """Call the kernel of a module that has one; raises ExecutableError where it has several."""
        names = self.function_names
        if len(names) != 1:
            raise ExecutableError(
                f"{self.program.name} has {len(names)} functions; name one, as in module[name](...), of: {', '.join(names)}"
            )
        return self[names[0]](*args)

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> Callable[..., BenchmarkResult]:
        """A function that runs a kernel on its arguments, where they are, and gives a :class:`BenchmarkResult` of that device's clock; see
        :meth:`runners.VirtualMachine.time_evaluator`."""
        require_session(self.program.calls, dev)
        function = self[func_name]
        repeats = Repeats(number, repeat, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)
        return lambda *args: function.times(args, repeats)


class RemoteVirtualMachine(VirtualMachine):
    """Calls the functions of a model elsewhere; ``runners.VirtualMachine`` of a :class:`RemoteModule` is one.

    Raises:
        ExecutableError: the device is not the session's, or the module has no model of that kind of device.
    """

    def __init__(
        self,
        rt_mod: RemoteModule,
        device: Device | Sequence[Device] | None = None,
        profile: bool = False,
    ) -> None:
        module, calls = rt_mod, rt_mod.program.calls
        if module.metadata["kind"] != MODEL:
            raise ExecutableError(
                f"{module.program.name} has kernels, which need no VirtualMachine: module[name](...) calls one"
            )
        devices = [device] if isinstance(device, Device | str) else list(device or ())
        for item in devices:
            require_session(calls, item)
        kind = module.metadata["device"]
        chosen = devices[0] if devices else remote_device(calls, cpu() if kind == "cpu" else cuda())
        assert isinstance(chosen, RemoteDevice)
        program = module.program
        self._program = RemoteProgram(calls, program.content, program.name, chosen.there)
        self._start(module, chosen, profile)

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        """Call a function value that the model returned, where it is."""
        if not isinstance(closure, RemoteObject):
            raise ExecutableError(
                f"a closure is what a function of the model gave, not a {type(closure).__name__}"
            )
        return RemoteFunction(closure.calls, closure.number, "", {}, closure)(*args)

    def __getitem__(self, key: str) -> Callable[..., Any]:
        found = self._functions.get(key) or self._saved.get(key)
        if found is None:
            entry = self.executable._entry(key)
            program = self._program
            found = self._functions[key] = RemoteFunction(program.calls, program.number, key, entry, program)
        return found

    def _times(self, function: Callable[..., Any], args: Sequence[Any], repeats: Repeats) -> BenchmarkResult:
        found, given = _unsaved(function, args)
        return found.times(given, repeats)

    def _profiled(self, function: Callable[..., Any], func_name: str, args: Sequence[Any]) -> str:
        found, given = _unsaved(function, args)
        return found.profile(*given)

    def _parts(self, function: Callable[..., Any], func_name: str, args: Sequence[Any]) -> list[TimedPart]:
        raise ExecutableError(
            f"the parts of {func_name!r} are elsewhere: profile({func_name!r}, ...) gives a table of their times"
        )


def _unsaved(function: Callable[..., Any], args: Sequence[Any]) -> tuple[RemoteFunction, Sequence[Any]]:
    """The function and arguments of a saved call; others are given back."""
    if isinstance(function, SavedCall):
        args, function = function.values, function.function
    assert isinstance(function, RemoteFunction)
    return function, args


def require_session(calls: RemoteCalls, device: object) -> None:
    """Refuse a device that a session has not.

    Raises:
        ExecutableError: it is of this machine, or of another session.
    """
    if device is not None and not (isinstance(device, RemoteDevice) and device.calls is calls):
        raise ExecutableError(
            f"the program is in a session with {calls.place}, and cannot run on {device}; name a device of that session, as remote.cpu()"
        )

"""What a kernel takes of a multiprocessor, read from its cubin, and how many of its blocks a multiprocessor holds at a time.

A cubin is an ELF file. Its section ``.nv.info`` lists attributes of functions by their symbols, ``.nv.info.<kernel>`` those of one
kernel; ``.nv.shared.<kernel>`` and ``.nv.constant<bank>.<kernel>`` are as large as the memory that they stand for. How much of the
stack is spilled registers only ptxas's log tells.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ...target.gpu_facts import MultiprocessorFacts, multiprocessor_facts
from ..error import CodegenError

_ATTRIBUTE_OF_SIZE = 4
"""The form of an attribute whose value has a size of its own; in other forms two bytes are the value."""
_MAX_THREADS, _MIN_STACK_SIZE, _REGISTERS = 0x05, 0x12, 0x2F
"""The attributes that are read: the bound of ``__launch_bounds__``; the stack with that of called functions; registers of a thread."""
_WARPS_OF_LAUNCH = 4
"""A launch must find registers for a multiple of so many warps, also on the one architecture that has two schedulers."""
_FUNCTION_IN_LOG = re.compile(
    r"ptxas info\s*: (?:Compiling entry function '(\S+)'|Function properties for (\S+))"
)
_SPILLS_IN_LOG = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True)
class KernelResources:
    """What a kernel takes."""

    registers: int
    """Of 32 bits, of a thread."""
    static_shared_bytes: int
    """Shared memory of a block whose size the program says."""
    local_bytes: int
    """Stack of a thread: arrays that are not in registers, and spilled registers."""
    spill_store_bytes: int | None
    """That the code of a thread's program writes to spill registers (each instruction once); None where no log told."""
    spill_load_bytes: int | None
    constant_bytes: int
    """Constant memory of its own: parameters with what the launch adds, and numbers that the compiler put there."""
    max_threads: int
    """Threads that a block may have: what ``__launch_bounds__`` says, and for how many there are registers."""


@dataclass(frozen=True)
class Occupancy:
    """Blocks of a kernel that a multiprocessor holds at a time."""

    blocks: int
    """0 where the kernel cannot be launched so."""
    warps: int
    limit: str
    """What there is least of: ``"threads"``, ``"blocks"``, ``"registers"`` or ``"shared memory"``."""


def resource_usage(cubin: bytes, log: str = "") -> dict[str, KernelResources]:
    """What each kernel of a cubin takes, by its name in the cubin.

    Args:
        cubin: the ELF file.
        log: what ptxas said while it made the file (``-v``), which tells of spills.

    Raises:
        CodegenError: the bytes are no cubin.
    """
    try:
        elf = _Elf(cubin)
        facts = multiprocessor_facts(f"sm_{elf.architecture}")
        spills = _spills(log)
        return {kernel: _resources(elf, kernel, facts, spills.get(kernel)) for kernel in elf.kernels}
    except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
        raise CodegenError(f"the {len(cubin)} bytes are no cubin that can be read: {error!r}") from error


def occupancy(
    resources: KernelResources, threads_per_block: int, dynamic_shared_bytes: int, arch: str
) -> Occupancy:
    """How many blocks a multiprocessor of an architecture holds at a time, with all of its shared memory for them.

    Args:
        resources: of the kernel.
        threads_per_block: of the launch.
        dynamic_shared_bytes: of a block, beside what the program says.
        arch: such as ``"sm_80"``.
    """
    facts = multiprocessor_facts(arch)
    warps = math.ceil(threads_per_block / facts.warp_size)
    shared = resources.static_shared_bytes + dynamic_shared_bytes
    if not 0 < threads_per_block <= min(resources.max_threads, facts.max_threads_per_block):
        return Occupancy(0, 0, "threads")
    if shared > facts.shared_memory_per_block_optin:
        return Occupancy(0, 0, "shared memory")
    limits = {
        "threads": facts.threads // facts.warp_size // warps,
        "blocks": facts.blocks,
        "registers": _blocks_by_registers(resources.registers, warps, facts),
        "shared memory": _blocks_by_shared_memory(shared, facts),
    }
    limit = min(limits, key=limits.__getitem__)
    return Occupancy(limits[limit], limits[limit] * warps, limit)


def _blocks_by_registers(registers: int, warps: int, facts: MultiprocessorFacts) -> int:
    """Registers are given to a warp in units, of those that its scheduler has; a launch must find them with its warps rounded up."""
    if registers == 0:
        return facts.blocks
    of_warp = _rounded_up(registers * facts.warp_size, facts.register_unit)
    if of_warp * _rounded_up(warps, _WARPS_OF_LAUNCH) > facts.registers_per_block:
        return 0
    warps_of_scheduler = facts.registers // facts.schedulers // of_warp
    return warps_of_scheduler * facts.schedulers // warps


def _threads_by_registers(registers: int, facts: MultiprocessorFacts) -> int:
    """Threads of a block for which there are registers."""
    counts = range(facts.max_threads_per_block // facts.warp_size, 0, -1)
    warps = next((count for count in counts if _blocks_by_registers(registers, count, facts)), 0)
    return warps * facts.warp_size


def _blocks_by_shared_memory(shared: int, facts: MultiprocessorFacts) -> int:
    """A block takes what it asks for and what the system reserves, in units."""
    of_block = _rounded_up(shared + facts.reserved_shared_memory_bytes, facts.shared_memory_unit)
    return facts.shared_memory_bytes // of_block if of_block else facts.blocks


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _resources(
    elf: _Elf, kernel: str, facts: MultiprocessorFacts, spills: tuple[int, int] | None
) -> KernelResources:
    of_functions = {
        (attribute, struct.unpack("<II", value)[0]): struct.unpack("<II", value)[1]
        for attribute, value in _attributes(elf.section(".nv.info"))
        if attribute in (_MIN_STACK_SIZE, _REGISTERS)
    }
    symbol = elf.kernels[kernel]
    registers = of_functions[_REGISTERS, symbol]
    bounds = [
        math.prod(struct.unpack("<III", value))
        for attribute, value in _attributes(elf.section(f".nv.info.{kernel}"))
        if attribute == _MAX_THREADS
    ]
    stores, loads = spills if spills is not None else (None, None)
    return KernelResources(
        registers=registers,
        static_shared_bytes=max(0, elf.size(f".nv.shared.{kernel}") - elf.reserved_shared_bytes(facts)),
        local_bytes=of_functions.get((_MIN_STACK_SIZE, symbol), 0),
        spill_store_bytes=stores,
        spill_load_bytes=loads,
        constant_bytes=elf.constant_bytes(kernel),
        max_threads=min([_threads_by_registers(registers, facts), *bounds]),
    )


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    """Attributes of a section ``.nv.info``: form, number, and the value or its size."""
    position = 0
    while position + 4 <= len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, position)
        position += 4
        size = value if form == _ATTRIBUTE_OF_SIZE else 0
        yield attribute, info[position : position + size]
        position += size


def _spills(log: str) -> dict[str, tuple[int, int]]:
    """Bytes of spill stores and loads of each function that the log tells of."""
    found: dict[str, tuple[int, int]] = {}
    function = ""
    for line in log.splitlines():
        begun = _FUNCTION_IN_LOG.search(line)
        spills = _SPILLS_IN_LOG.search(line)
        if begun is not None:
            function = begun[1] or begun[2]
        elif spills is not None:
            found[function] = (int(spills[2]), int(spills[3]))
    return found


class _Elf:
    """The sections of a cubin, and its kernels: the functions that have attributes of their own, with their symbols' numbers."""

    def __init__(self, data: bytes) -> None:
        if data[:5] != b"\x7fELF\x02":
            raise CodegenError(
                f"the {len(data)} bytes are no cubin: they do not begin as an ELF file of 64 bits"
            )
        self._data = data
        table = struct.unpack_from("<Q", data, 0x28)[0]
        self.flags = struct.unpack_from("<I", data, 0x30)[0]
        self.abi_version = data[8]
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
        text = self._bytes(headers[names])
        self._headers = {_name(text, header[0]): header for header in headers}
        functions = self._symbols()
        self.kernels = {name: functions[name] for name in functions if f".nv.info.{name}" in self._headers}

    @property
    def architecture(self) -> int:
        """The number of the architecture, such as 90: a byte of the flags, the second one since version 8 of the format."""
        return (self.flags >> 8 if self.abi_version >= 8 else self.flags) & 0xFF

    def reserved_shared_bytes(self, facts: MultiprocessorFacts) -> int:
        """What a section of shared memory begins with for the system: from sm_90 on, what that reserves is in the file."""
        return facts.reserved_shared_memory_bytes if self.architecture >= 90 else 0

    def _bytes(self, header: tuple[int, ...]) -> bytes:
        return self._data[header[4] : header[4] + header[5]]

    def section(self, name: str) -> bytes:
        """The bytes of a section."""
        return self._bytes(self._headers[name])

    def size(self, name: str) -> int:
        """Bytes that a section stands for; 0 where there is none."""
        return self._headers[name][5] if name in self._headers else 0

    def constant_bytes(self, kernel: str) -> int:
        """Bytes of the kernel's own banks of constants."""
        pattern = re.compile(rf"\.nv\.constant\d+\.{re.escape(kernel)}")
        return sum(header[5] for name, header in self._headers.items() if pattern.fullmatch(name))

    def _symbols(self) -> dict[str, int]:
        """Numbers of the symbols, by name."""
        table, names = self.section(".symtab"), self.section(".strtab")
        return {
            _name(names, struct.unpack_from("<I", table, position)[0]): position // 24
            for position in range(0, len(table), 24)
        }


def _name(text: bytes, position: int) -> str:
    return text[position : text.index(b"\0", position)].decode()

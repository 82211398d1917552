"""The assembly of one function while it is written: blocks, checks with messages, and the memory of a call."""

from __future__ import annotations

from collections.abc import Sequence

from ... import dtype as dt
from .values import Heap, NotCallableError, Number, Storage, Tensor, Value, llvm_type

MESSAGE_BYTES = 512
"""What the runtime keeps of an error's text, and so what a message with numbers is written into."""


class CallAssembly:
    """Lines of LLVM assembly, and what they know.

    Args:
        name, symbol: the function in the model, and in C.
        handed_over: numbers of the storages that results take along, which are allocated so that C can free them.
    """

    def __init__(self, name: str, symbol: str, handed_over: frozenset[int]) -> None:
        self.name = name
        self.symbol = symbol
        self.handed_over = handed_over
        self.entry_lines: list[str] = []
        self.lines: list[str] = []
        self.failures: list[str] = []
        self.texts: dict[str, str] = {}
        self.block = "begin"
        self.count = 0
        self.n_storages = 0
        self.is_straight = True
        """Whether what is written is of the function itself and runs in each call, so that memory can be given back behind it."""

    def new_name(self, hint: str = "v") -> str:
        """A name that nothing has yet."""
        self.count += 1
        return f"%{hint}.{self.count}"

    def emit(self, text: str) -> None:
        """Write an instruction."""
        self.lines.append(f"  {text}")

    def assign(self, text: str, hint: str = "v") -> str:
        """Write an instruction with a result; its name."""
        name = self.new_name(hint)
        self.emit(f"{name} = {text}")
        return name

    def open_block(self, label: str) -> None:
        """Begin a block; the one before has ended."""
        self.lines.append(f"{label}:")
        self.block = label

    def require(self, holds: str, message: str, *numbers: str) -> None:
        """Go on where a condition holds; else the call fails with the message, in which each ``{}`` stands for a number (int64)."""
        self.count += 1
        fine, wrong = f"fine.{self.count}", f"wrong.{self.count}"
        written = message.replace("%", "%%").replace("{}", "%lld") if numbers else message
        text = self.texts.setdefault(written, f"@{self.symbol}.text.{len(self.texts)}")
        self.emit(f"br i1 {holds}, label %{fine}, label %{wrong}")
        self.failures.append(f"{wrong}:")
        if numbers:
            given = "".join(f", i64 {number}" for number in numbers)
            self.failures.append(
                f"  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %message, i64 {MESSAGE_BYTES}, ptr {text}{given})"
            )
        self.failures += [
            f"  call void @loopsmith_set_error(ptr {'%message' if numbers else text})",
            "  br label %failed",
        ]
        self.open_block(fine)

    def require_equal(self, found: str, wanted: str, message: str) -> None:
        """As :meth:`require`; the message may tell both, what was found last."""
        if found != wanted:
            numbers = (wanted, found)[2 - message.count("{}") :]
            self.require(self.assign(f"icmp eq i64 {found}, {wanted}"), message, *numbers)

    def product(self, factors: Sequence[str], first: str = "1") -> str:
        """The product of numbers (int64), known where all of them are."""
        product = first
        for factor in factors:
            if product.isdigit() and factor.isdigit():
                product = str(int(product) * int(factor))
            elif product == "1":
                product = factor
            elif factor != "1":
                product = self.assign(f"mul i64 {product}, {factor}")
        return product

    def bytes_of(self, extents: Sequence[str], dtype: str) -> str:
        """Bytes of a dense tensor."""
        return self.product(extents, str(dt.bytes_of(dtype)))

    def heap_slot(self, heap: Value, number: int) -> str:
        """The address of an entry of the table of extents."""
        if not isinstance(heap, Heap):
            raise NotCallableError("an extent is stored in what is no table of extents")
        return self.assign(f"getelementptr i64, ptr {heap.pointer}, i64 {number}")

    def load_extent(self, heap: Value, number: int) -> str:
        """An entry of the table of extents."""
        return self.assign(f"load i64, ptr {self.heap_slot(heap, number)}")

    def allocated(self, function: str, size: str) -> str:
        """Memory of so many bytes from a function; the call fails where there is none."""
        pointer = self.assign(f"call ptr @{function}(i64 {size})", "memory")
        self.require(
            self.assign(f"icmp ne ptr {pointer}, null"),
            f"{self.name}: there is no memory for a tensor of the call",
        )
        return pointer

    def new_storage(self, size: str) -> Storage:
        """Memory that lasts until nothing reaches it, or the call ends, or C frees the result that lies in it."""
        number = self.n_storages
        self.n_storages += 1
        is_result = number in self.handed_over
        pointer = self.allocated(
            "loopsmith_dynamic_allocate" if is_result else "loopsmith_workspace_acquire", size
        )
        self.emit(f"store ptr {pointer}, ptr %slot.{number}")
        return Storage(number, pointer, self.is_straight and not is_result)

    def hold(self, register: int, value: Value, held: bool) -> None:
        """Note that a register reaches the memory of a value, or does so no more."""
        if isinstance(value, tuple):
            for item in value:
                self.hold(register, item, held)
            return
        storage = value if isinstance(value, Storage) else getattr(value, "storage", None)
        if storage is None:
            return
        if held:
            storage.holders.add(register)
            return
        storage.holders.discard(register)
        if storage.ends_early and not storage.holders and self.is_straight:
            self.emit(f"call void @loopsmith_workspace_release(ptr {storage.pointer})")
            self.emit(f"store ptr null, ptr %slot.{storage.number}")

    def integer(self, value: Value) -> str:
        """A whole number; raises NotCallableError for anything else."""
        if not isinstance(value, Number) or dt.is_float(value.dtype):
            raise NotCallableError("a size is no whole number")
        return value.value

    def loaded_number(self, pointer: str, dtype: str) -> Number:
        """A number of a dtype in memory, as kernels take it."""
        if dt.is_float(dtype):
            if dtype not in ("float32", "float64"):
                raise NotCallableError(f"it computes with a number of {dtype}")
            return Number(self.assign(f"load {llvm_type(dtype)}, ptr {pointer}"), dtype)
        bits = 8 * dt.bytes_of(dtype)
        value = self.assign(f"load i{bits}, ptr {pointer}")
        if bits < 64:
            sign = "sext" if dtype.startswith("int") else "zext"
            value = self.assign(f"{sign} i{bits} {value} to i64")
        return Number(value, dtype)

    def truth(self, value: Value) -> str:
        """A condition as LLVM has it; raises NotCallableError for what is none."""
        if isinstance(value, Tensor) and not value.extents and value.dtype == "bool":
            value = self.loaded_number(value.pointer, "bool")
        if not isinstance(value, Number) or dt.is_float(value.dtype):
            raise NotCallableError("a condition is no bool")
        return self.assign(f"icmp ne i64 {value.value}, 0")

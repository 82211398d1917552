"""Random kernels whose threads hand data over in shared memory, in loops and under conditions; they have no barriers."""

from __future__ import annotations

from random import Random

SIZE = 64
"""Elements of each shared buffer."""


class _Writer:
    """Writes one kernel.

    Args:
        rng: decides.
        buffers: how many shared buffers there are.
        scope: that of their memory.
    """

    def __init__(self, rng: Random, buffers: int, scope: str) -> None:
        self.rng = rng
        self.buffers = buffers
        self.scope = scope
        self.columns = rng.choice([4, 8])
        self.threads = self.columns * rng.choice([1, 1, 2])
        self.lines: list[str] = []
        self.names = 0

    def source(self) -> str:
        """The kernel as script: each buffer is written before it is read."""
        head = f"""
@T.prim_func
def main(A: T.Buffer(({self.threads},), "float32"), O: T.Buffer((2, {self.threads}), "float32")):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", {self.columns})
    ty = T.launch_thread("threadIdx.y", {self.threads // self.columns})
"""
        for number in range(self.buffers):
            head += f'    s{number} = T.allocate([{SIZE}], "float32", "{self.scope}")\n'
            head += f'    S{number} = T.Buffer(({SIZE},), data=s{number}, scope="{self.scope}")\n'
        self._line(1, f"for i in range({SIZE // self.threads}):")
        for number in range(self.buffers):
            self._line(2, f"S{number}[i * {self.threads} + {self.thread}] = A[{self.thread}]")
        self._block(1, [])
        return head + "\n".join(self.lines) + "\n"

    @property
    def thread(self) -> str:
        """The number of the thread."""
        return f"(ty * {self.columns} + tx)"

    def _line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def _own(self, loops: list[str]) -> str:
        """An index that no two threads have."""
        loop, thread, threads = self.rng.choice(loops or ["0"]), self.thread, self.threads
        return self.rng.choice(
            [
                thread,
                f"{threads - 1} - {thread}",
                f"({loop} + {self.rng.randrange(2)}) % 2 * {threads} + {thread}",
                f"({loop} + {self.rng.randrange(3)}) % 3 * {threads} + {thread}",
                f"T.bitwise_xor({thread}, {self.rng.choice([1, 2])})",
                f"({thread} + {self.rng.randrange(1, 3)}) % {threads}",
                f"{thread} % 2 * {threads} + {thread} // 2",
                f"{thread} * 2 + {self.rng.randrange(2)}",
            ]
        )

    def _index(self, loops: list[str]) -> str:
        thread = self.thread
        others = [f"{thread} // 2 * 2 + {self.rng.randrange(2)}", str(self.rng.randrange(4)), *loops]
        return self._own(loops) if self.rng.random() < 0.7 else self.rng.choice(others)

    def _condition(self, loops: list[str]) -> str:
        choices = [f"tx < {self.rng.randrange(1, self.columns)}", "tx == 0", "tx % 2 == 0", "bx == 0"]
        choices += [f"{loop} < {self.rng.randrange(1, 3)}" for loop in loops]
        choices += [f"tx < {loop}" for loop in loops]
        return self.rng.choice(choices)

    def _value(self, loops: list[str]) -> str:
        load = f"S{self.rng.randrange(self.buffers)}[{self._index(loops)}]"
        if self.rng.random() < 0.15:
            return f"T.if_then_else({self._condition(loops)}, {load}, T.float32(0))"
        return load

    def _block(self, indent: int, loops: list[str]) -> None:
        for _ in range(self.rng.choice([1, 2, 2, 3])):
            kind = self.rng.random()
            if kind < 0.4 or len(loops) >= 3:
                self._line(
                    indent, f"S{self.rng.randrange(self.buffers)}[{self._own(loops)}] = A[{self.thread}]"
                )
            elif kind < 0.6:
                self._line(indent, f"O[bx, {self.thread}] = O[bx, {self.thread}] + {self._value(loops)}")
            elif kind < 0.7:
                self.names += 1
                self._line(indent, f"v{self.names} = {self._value(loops)}")
                target = f"S{self.rng.randrange(self.buffers)}[{self._own(loops)}]"
                self._line(indent, f"{target} = v{self.names} + T.float32(1)")
            elif kind < 0.85:
                self.names += 1
                self._line(indent, f"for k{self.names} in range({self.rng.randrange(1, 5)}):")
                self._block(indent + 1, [*loops, f"k{self.names}"])
            else:
                self._line(indent, f"if {self._condition(loops)}:")
                self._block(indent + 1, loops)
                if self.rng.random() < 0.35:
                    self._line(indent, "else:")
                    self._block(indent + 1, loops)


def thread_kernel(rng: Random, scope: str = "shared", most_buffers: int = 2) -> str:
    """The script of a random kernel of up to 16 threads in each of two blocks, ``main(A, O)``."""
    return _Writer(rng, rng.randrange(1, most_buffers + 1), scope).source()

"""One decoder block of a Llama-style model (Touvron et al., 2023) over a KV cache.

RMSNorm, rotary embedding (Su et al., 2021), grouped-query attention (Ainslie et al., 2023), SwiGLU (Shazeer, 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ir.relax.frontend import nn

from .architecture import architecture
from .layers import RMSNorm, cos, heads_first, sin


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes of the block; ``past`` is the number of positions in the cache, ``sequence`` that of the new ones."""

    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    intermediate: int = 11008
    sequence: int = 16
    past: int = 112
    theta: float = 10000.0
    eps: float = 1e-5
    batch: int = 1

    @property
    def head_size(self) -> int:
        """Features of one head."""
        return self.hidden // self.heads

    def integers(self, name: str, shape: list[int], rng: np.random.Generator) -> np.ndarray:
        """The positions, which follow those in the cache."""
        return np.broadcast_to(np.arange(self.past, self.past + self.sequence, dtype=np.int64), shape).copy()


def inputs(config: LlamaConfig) -> dict[str, nn.spec.Tensor]:
    """Hidden states, positions, and the caches of keys and values."""
    cache = [config.batch, config.kv_heads, config.past, config.head_size]
    return {
        "x": nn.spec.Tensor([config.batch, config.sequence, config.hidden], "float32"),
        "positions": nn.spec.Tensor([config.batch, config.sequence], "int64"),
        "k_cache": nn.spec.Tensor(cache, "float32"),
        "v_cache": nn.spec.Tensor(cache, "float32"),
    }


def _rotate_half(x: nn.Tensor) -> nn.Tensor:
    first, second = nn.op.split(x, 2, axis=-1)
    return nn.op.concat([-second, first], dim=-1)


@architecture(
    "llama_block",
    full=LlamaConfig(),
    small=LlamaConfig(hidden=32, heads=4, kv_heads=2, intermediate=48, sequence=4, past=6),
    inputs=inputs,
)
class LlamaBlock(nn.Module):
    """The block; ``main`` returns the hidden states and the two extended caches."""

    def __init__(self, config: LlamaConfig) -> None:
        self.config = config
        kv_size = config.kv_heads * config.head_size
        self.norm1 = RMSNorm(config.hidden, config.eps)
        self.q_proj = nn.Linear(config.hidden, config.hidden, bias=False)
        self.k_proj = nn.Linear(config.hidden, kv_size, bias=False)
        self.v_proj = nn.Linear(config.hidden, kv_size, bias=False)
        self.o_proj = nn.Linear(config.hidden, config.hidden, bias=False)
        self.norm2 = RMSNorm(config.hidden, config.eps)
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)

    def main(
        self, x: nn.Tensor, positions: nn.Tensor, k_cache: nn.Tensor, v_cache: nn.Tensor
    ) -> tuple[nn.Tensor, nn.Tensor, nn.Tensor]:
        """``x`` ``[B, S, hidden]``, ``positions`` ``[B, S]``, caches ``[B, kv_heads, past, head_size]``."""
        config = self.config
        normed = self.norm1(x)
        query = heads_first(self.q_proj(normed), config.heads, config.head_size)
        key = heads_first(self.k_proj(normed), config.kv_heads, config.head_size)
        value = heads_first(self.v_proj(normed), config.kv_heads, config.head_size)
        cosine, sine = self._angles(positions)
        query = query * cosine + _rotate_half(query) * sine
        key = key * cosine + _rotate_half(key) * sine
        keys = nn.op.concat([k_cache, key], dim=2)
        values = nn.op.concat([v_cache, value], dim=2)
        attended = nn.op.permute_dims(self._attend(query, keys, values), [0, 2, 1, 3])
        h = x + self.o_proj(nn.op.reshape(attended, x.shape))
        normed = self.norm2(h)
        gated = nn.op.silu(self.gate_proj(normed)) * self.up_proj(normed)
        return h + self.down_proj(gated), keys, values

    def _angles(self, positions: nn.Tensor) -> tuple[nn.Tensor, nn.Tensor]:
        """Cosine and sine of the rotation, ``[B, 1, S, head_size]``."""
        config = self.config
        exponent = np.arange(0, config.head_size, 2, dtype=np.float32) / config.head_size
        frequency = nn.Tensor.from_const((1.0 / np.float32(config.theta) ** exponent).astype(np.float32))
        batch, length = positions.shape
        angles = nn.op.reshape(positions.astype("float32"), [batch, 1, length, 1]) * frequency
        angles = nn.op.concat([angles, angles], dim=-1)
        return cos(angles), sin(angles)

    def _attend(self, query: nn.Tensor, keys: nn.Tensor, values: nn.Tensor) -> nn.Tensor:
        """Causal attention; the heads of a group share keys and values."""
        config = self.config
        batch, heads, _, size = query.shape
        length, group = config.past + config.sequence, config.heads // config.kv_heads

        def spread(x: nn.Tensor) -> nn.Tensor:
            x = nn.op.reshape(x, [batch, config.kv_heads, 1, length, size])
            x = nn.op.broadcast_to(x, [batch, config.kv_heads, group, length, size])
            return nn.op.reshape(x, [batch, heads, length, size])

        scores = nn.op.matmul(query, nn.op.permute_dims(spread(keys), [0, 1, 3, 2])) * config.head_size**-0.5
        hidden = np.triu(np.full((config.sequence, length), -np.inf, np.float32), config.past + 1)
        scores = scores + nn.Tensor.from_const(hidden)
        return nn.op.matmul(nn.op.softmax(scores, axis=-1), spread(values))

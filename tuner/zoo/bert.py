"""BERT-base's embeddings and encoder (Devlin et al., 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ir.relax.frontend import nn

from .architecture import architecture
from .layers import Embedding, LayerNorm, heads_first


@dataclass(frozen=True)
class BertConfig:
    """Sizes of the encoder; inputs are token ids, token types and the attention mask, ``[batch, sequence]`` int64."""

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    intermediate: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    sequence: int = 128
    batch: int = 1

    def integers(self, name: str, shape: list[int], rng: np.random.Generator) -> np.ndarray:
        """An input: ids below the vocabulary, types 0 and 1, a mask that hides the last quarter."""
        if name == "attention_mask":
            mask = np.ones(shape, np.int64)
            mask[:, -shape[1] // 4 :] = 0
            return mask
        return rng.integers(0, self.vocabulary if name == "input_ids" else 2, shape, dtype=np.int64)


def inputs(config: BertConfig) -> dict[str, nn.spec.Tensor]:
    """Token ids, token types, mask."""
    shape = [config.batch, config.sequence]
    return {
        name: nn.spec.Tensor(shape, "int64") for name in ("input_ids", "token_type_ids", "attention_mask")
    }


class EncoderLayer(nn.Module):
    """Self attention and a GELU feed-forward network, each with a shortcut and a normalization behind it."""

    def __init__(self, config: BertConfig) -> None:
        self.heads, self.head_size = config.heads, config.hidden // config.heads
        self.query = nn.Linear(config.hidden, config.hidden)
        self.key = nn.Linear(config.hidden, config.hidden)
        self.value = nn.Linear(config.hidden, config.hidden)
        self.output = nn.Linear(config.hidden, config.hidden)
        self.norm1 = LayerNorm(config.hidden, 1e-12)
        self.up = nn.Linear(config.hidden, config.intermediate)
        self.down = nn.Linear(config.intermediate, config.hidden)
        self.norm2 = LayerNorm(config.hidden, 1e-12)

    def forward(self, x: nn.Tensor, mask: nn.Tensor) -> nn.Tensor:
        """``[B, S, hidden]`` to the same; ``mask`` ``[B, 1, 1, S]`` is added to the scores."""
        query, key, value = (
            heads_first(project(x), self.heads, self.head_size)
            for project in (self.query, self.key, self.value)
        )
        scores = nn.op.matmul(query, nn.op.permute_dims(key, [0, 1, 3, 2])) * (
            1.0 / math.sqrt(self.head_size)
        )
        context = nn.op.matmul(nn.op.softmax(scores + mask, axis=-1), value)
        context = nn.op.reshape(nn.op.permute_dims(context, [0, 2, 1, 3]), x.shape)
        x = self.norm1(x + self.output(context))
        return self.norm2(x + self.down(nn.op.gelu(self.up(x))))


@architecture(
    "bert_base",
    full=BertConfig(),
    small=BertConfig(layers=1, hidden=32, heads=4, intermediate=64, vocabulary=50, positions=32, sequence=16),
    inputs=inputs,
)
class Bert(nn.Module):
    """The encoder; ``main`` returns the hidden states ``[batch, sequence, hidden]``."""

    def __init__(self, config: BertConfig) -> None:
        self.sequence = config.sequence
        self.words = Embedding(config.vocabulary, config.hidden)
        self.position = Embedding(config.positions, config.hidden)
        self.types = Embedding(2, config.hidden)
        self.norm = LayerNorm(config.hidden, 1e-12)
        self.layers = nn.ModuleList([EncoderLayer(config) for _ in range(config.layers)])

    def main(self, input_ids: nn.Tensor, token_type_ids: nn.Tensor, attention_mask: nn.Tensor) -> nn.Tensor:
        """The hidden states."""
        batch, length = input_ids.shape
        positions = nn.Tensor.from_const(np.arange(self.sequence, dtype=np.int64))
        x = self.norm(self.words(input_ids) + self.position(positions) + self.types(token_type_ids))
        mask = nn.op.reshape(attention_mask.astype("float32"), [batch, 1, 1, length])
        mask = (1.0 - mask) * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        return x

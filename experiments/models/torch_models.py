"""PyTorch definitions of the four benchmark architectures, written with plain torch.nn (no torchvision, no transformers).

Each model comes as a frozen configuration (``full`` is the published one, ``small`` a few layers and channels for
tests) and a module built from it. Weights are random; :func:`build` seeds them, so that an export is reproducible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


# ------------------------------------------------------------------------------------------------------ ResNet-18
@dataclass(frozen=True)
class ResNetConfig:
    """Channels and blocks per stage; the input is ``(batch, 3, image_size, image_size)``."""

    stages: tuple[int, ...] = (64, 128, 256, 512)
    blocks: int = 2
    classes: int = 1000
    image_size: int = 224
    batch: int = 1


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut (He et al., 2015)."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.downsample: nn.Module | None = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + shortcut)


class ResNet(nn.Module):
    """ResNet of basic blocks; 18 layers with the default configuration."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        width = config.stages[0]
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        layers: list[nn.Module] = []
        for stage, channels in enumerate(config.stages):
            for block in range(config.blocks):
                layers.append(BasicBlock(width, channels, 2 if stage > 0 and block == 0 else 1))
                width = channels
        self.layers = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width, config.classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.layers(x)), 1))


# ---------------------------------------------------------------------------------------------------- MobileNetV2
@dataclass(frozen=True)
class MobileNetConfig:
    """``settings`` rows are (expansion, channels, repeats, stride) as in the paper (Sandler et al., 2018)."""

    settings: tuple[tuple[int, int, int, int], ...] = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    stem: int = 32
    head: int = 1280
    classes: int = 1000
    image_size: int = 224
    batch: int = 1


def _conv_bn_relu6(
    channels_in: int, channels: int, kernel: int = 3, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    """Expand 1x1, depthwise 3x3, project 1x1, with a shortcut where shapes allow it."""

    def __init__(self, channels_in: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels_in * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers.append(_conv_bn_relu6(channels_in, hidden, 1))
        layers += [
            _conv_bn_relu6(hidden, hidden, 3, stride, hidden),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        ]
        self.conv = nn.Sequential(*layers)
        self.shortcut = stride == 1 and channels_in == channels

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.shortcut else self.conv(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 with width multiplier 1 by default."""

    def __init__(self, config: MobileNetConfig) -> None:
        super().__init__()
        width = config.stem
        layers: list[nn.Module] = [_conv_bn_relu6(3, width, 3, 2)]
        for expansion, channels, repeats, stride in config.settings:
            for index in range(repeats):
                layers.append(InvertedResidual(width, channels, stride if index == 0 else 1, expansion))
                width = channels
        layers.append(_conv_bn_relu6(width, config.head, 1))
        self.features = nn.Sequential(*layers)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(config.head, config.classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        x = nn.functional.adaptive_avg_pool2d(x, (1, 1))
        return self.classifier(self.dropout(torch.flatten(x, 1)))


# ------------------------------------------------------------------------------------------------------ BERT-base
@dataclass(frozen=True)
class BertConfig:
    """Sizes of the encoder; inputs are token ids, token types and the attention mask, ``(batch, sequence)`` int64."""

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    intermediate: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    sequence: int = 128
    batch: int = 1


class BertLayer(nn.Module):
    """Post-norm self attention and a GELU feed-forward network (Devlin et al., 2018)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads, self.head_size = config.heads, config.hidden // config.heads
        self.query = nn.Linear(config.hidden, config.hidden)
        self.key = nn.Linear(config.hidden, config.hidden)
        self.value = nn.Linear(config.hidden, config.hidden)
        self.output = nn.Linear(config.hidden, config.hidden)
        self.norm1 = nn.LayerNorm(config.hidden, eps=1e-12)
        self.up = nn.Linear(config.hidden, config.intermediate)
        self.gelu = nn.GELU()
        self.down = nn.Linear(config.intermediate, config.hidden)
        self.norm2 = nn.LayerNorm(config.hidden, eps=1e-12)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, self.head_size).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.head_size) + mask
        context = torch.matmul(torch.softmax(scores, dim=-1), value)
        context = context.transpose(1, 2).reshape(x.shape)
        x = self.norm1(x + self.output(context))
        return self.norm2(x + self.down(self.gelu(self.up(x))))


class Bert(nn.Module):
    """BERT's embeddings and encoder; returns the hidden states ``(batch, sequence, hidden)``."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.hidden)
        self.position = nn.Embedding(config.positions, config.hidden)
        self.types = nn.Embedding(2, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(config) for _ in range(config.layers))

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor) -> Tensor:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        x = self.norm(self.words(input_ids) + self.position(positions) + self.types(token_type_ids))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        return x


# ---------------------------------------------------------------------------------------------------- Llama block
@dataclass(frozen=True)
class LlamaConfig:
    """One decoder block with a KV cache of ``past`` positions; 7B-class sizes with grouped-query attention."""

    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    intermediate: int = 11008
    sequence: int = 16
    past: int = 112
    theta: float = 10000.0
    eps: float = 1e-5
    batch: int = 1


class RMSNorm(nn.Module):
    """Root mean square normalization (Zhang and Sennrich, 2019)."""

    def __init__(self, hidden: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def _rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class LlamaBlock(nn.Module):
    """RMSNorm, rotary embedding, grouped-query attention over a KV cache, SwiGLU (Touvron et al., 2023).

    Inputs: ``x (batch, sequence, hidden)``, ``positions (batch, sequence)`` int64, and the caches
    ``(batch, kv_heads, past, head_size)``; returns the output and the two extended caches.
    """

    inverse_frequency: Tensor

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.head_size = config.hidden // config.heads
        kv_size = config.kv_heads * self.head_size
        self.norm1 = RMSNorm(config.hidden, config.eps)
        self.q_proj = nn.Linear(config.hidden, config.hidden, bias=False)
        self.k_proj = nn.Linear(config.hidden, kv_size, bias=False)
        self.v_proj = nn.Linear(config.hidden, kv_size, bias=False)
        self.o_proj = nn.Linear(config.hidden, config.hidden, bias=False)
        self.norm2 = RMSNorm(config.hidden, config.eps)
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)
        exponent = torch.arange(0, self.head_size, 2, dtype=torch.float32) / self.head_size
        self.register_buffer("inverse_frequency", 1.0 / config.theta**exponent)

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], heads, self.head_size).transpose(1, 2)

    def forward(
        self, x: Tensor, positions: Tensor, k_cache: Tensor, v_cache: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        config = self.config
        normed = self.norm1(x)
        query = self._heads(self.q_proj(normed), config.heads)
        key = self._heads(self.k_proj(normed), config.kv_heads)
        value = self._heads(self.v_proj(normed), config.kv_heads)
        angles = positions[:, None, :, None].to(torch.float32) * self.inverse_frequency
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        query = query * cos + _rotate_half(query) * sin
        key = key * cos + _rotate_half(key) * sin
        keys = torch.cat((k_cache, key), dim=2)
        values = torch.cat((v_cache, value), dim=2)
        attended = self._attend(query, keys, values)
        h = x + self.o_proj(attended.transpose(1, 2).reshape(x.shape))
        normed = self.norm2(h)
        gated = nn.functional.silu(self.gate_proj(normed)) * self.up_proj(normed)
        return h + self.down_proj(gated), keys, values

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        batch, kv_heads, length, size = keys.shape
        group = self.config.heads // kv_heads
        keys = keys[:, :, None].expand(batch, kv_heads, group, length, size).reshape(batch, -1, length, size)
        values = (
            values[:, :, None].expand(batch, kv_heads, group, length, size).reshape(batch, -1, length, size)
        )
        scores = torch.matmul(query, keys.transpose(-1, -2)) * self.head_size**-0.5
        new = query.shape[2]
        hidden_ahead = torch.ones(new, length, dtype=torch.bool, device=query.device).triu(length - new + 1)
        scores = scores.masked_fill(hidden_ahead, float("-inf"))
        return torch.matmul(torch.softmax(scores, dim=-1), values)


# -------------------------------------------------------------------------------------------------------- registry
Config = ResNetConfig | MobileNetConfig | BertConfig | LlamaConfig

SMALL: dict[str, Config] = {
    "resnet18": ResNetConfig(stages=(8, 16), blocks=1, classes=10, image_size=32),
    "mobilenet_v2": MobileNetConfig(
        settings=((1, 8, 1, 1), (3, 12, 2, 2)), stem=8, head=24, classes=10, image_size=32
    ),
    "bert_base": BertConfig(
        layers=1, hidden=32, heads=4, intermediate=64, vocabulary=50, positions=32, sequence=16
    ),
    "llama_block": LlamaConfig(hidden=32, heads=4, kv_heads=2, intermediate=48, sequence=4, past=6),
}
FULL: dict[str, Config] = {
    "resnet18": ResNetConfig(),
    "mobilenet_v2": MobileNetConfig(),
    "bert_base": BertConfig(),
    "llama_block": LlamaConfig(),
}
_BUILDERS: dict[type, Any] = {
    ResNetConfig: ResNet,
    MobileNetConfig: MobileNetV2,
    BertConfig: Bert,
    LlamaConfig: LlamaBlock,
}


def build(config: Config, seed: int = 0) -> nn.Module:
    """The module for a configuration in inference mode, its weights drawn from ``seed``.

    Batch-norm statistics and affine weights are randomized too: fresh ones (mean 0, variance 1) would hide errors.
    """
    generator_state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    try:
        model: nn.Module = _BUILDERS[type(config)](config)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, std=0.1)
                module.running_mean.normal_(std=0.1)
                module.running_var.uniform_(0.5, 1.5)
            elif isinstance(module, nn.LayerNorm | RMSNorm):
                nn.init.uniform_(module.weight, 0.5, 1.5)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        return model.eval()
    finally:
        torch.random.set_rng_state(generator_state)


def example_inputs(config: Config, seed: int = 0) -> dict[str, Tensor]:
    """Inputs of the right names, shapes and dtypes, drawn from ``seed``."""
    rng = torch.Generator().manual_seed(seed)
    if isinstance(config, ResNetConfig | MobileNetConfig):
        return {"x": torch.randn(config.batch, 3, config.image_size, config.image_size, generator=rng)}
    shape = (config.batch, config.sequence)
    if isinstance(config, BertConfig):
        mask = torch.ones(shape, dtype=torch.int64)
        mask[:, -config.sequence // 4 :] = 0
        return {
            "input_ids": torch.randint(0, config.vocabulary, shape, generator=rng),
            "token_type_ids": torch.randint(0, 2, shape, generator=rng),
            "attention_mask": mask,
        }
    cache = (config.batch, config.kv_heads, config.past, config.hidden // config.heads)
    return {
        "x": torch.randn(*shape, config.hidden, generator=rng),
        "positions": torch.arange(config.past, config.past + config.sequence).repeat(config.batch, 1),
        "k_cache": torch.randn(*cache, generator=rng),
        "v_cache": torch.randn(*cache, generator=rng),
    }

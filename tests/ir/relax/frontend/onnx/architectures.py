"""Small networks in PyTorch, one per idea of the architectures that people deploy, with inputs for each.

They are built as their papers build them, only narrower and shorter; the importer and the compiler see the same operators
in the same combinations as in the full models.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Example = tuple[nn.Module, tuple[Tensor, ...]]


def image(size: int, channels: int = 3, batch: int = 1) -> Tensor:
    return torch.randn(batch, channels, size, size)


class SqueezeExcite(nn.Module):
    """Channels weighted by a small network that sees their means (SENet, EfficientNet)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow = nn.Conv2d(channels, channels // 4, 1)
        self.widen = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.widen(F.silu(self.narrow(mean))))


class InvertedBottleneck(nn.Module):
    """Expansion, depthwise convolution, squeeze-and-excite, projection (EfficientNet)."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.has_residual = inputs == outputs and stride == 1
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
            SqueezeExcite(hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return x + y if self.has_residual else y


def efficientnet() -> Example:
    layers = [
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.SiLU(),
        InvertedBottleneck(8, 8, 1, 3, 1),
        InvertedBottleneck(8, 12, 4, 5, 2),
        InvertedBottleneck(12, 12, 4, 3, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 10),
    ]
    return nn.Sequential(*layers), (image(32),)


class VisionTransformer(nn.Module):
    """Patches, a class token and positions, then PyTorch's own encoder layers (ViT)."""

    def __init__(self, width: int = 48, size: int = 48) -> None:
        super().__init__()
        tokens = (size // 16) ** 2 + 1
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, tokens, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 3, 4 * width, 0, "gelu", batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)[:, 0]


def vision_transformer() -> Example:
    return VisionTransformer(), (image(48),)


class DenseBlock(nn.Module):
    """Every layer sees the results of all before it (DenseNet)."""

    def __init__(self, channels: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(channels + growth * i),
                nn.ReLU(),
                nn.Conv2d(channels + growth * i, growth, 3, padding=1, bias=False),
            )
            for i in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def densenet() -> Example:
    layers = [
        nn.Conv2d(3, 16, 7, 2, 3),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        DenseBlock(16, 8, 3),
        nn.AvgPool2d(2),
        DenseBlock(40, 8, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ]
    return nn.Sequential(*layers), (image(32),)


class UNet(nn.Module):
    """Down by pooling, up by transposed convolutions, with connections across and group normalization (diffusion models)."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = self._stage(3, 8), self._stage(8, 16), self._stage(16, 32)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 4, 2, 1)
        self.merge2, self.merge1 = self._stage(32, 16), self._stage(16, 8)

    @staticmethod
    def _stage(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        bottom = self.bottom(F.max_pool2d(second, 2))
        y = self.merge2(torch.cat([self.up2(bottom), second], 1))
        return self.merge1(torch.cat([self.up1(y), first], 1))


def unet() -> Example:
    return UNet(), (image(32),)


class ChannelShuffle(nn.Module):
    """Half of the channels pass by, then the halves are interleaved (ShuffleNet V2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            nn.Conv2d(half, half, 1), nn.ReLU(), nn.Conv2d(half, half, 3, 1, 1, groups=half)
        )

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, 1)
        y = torch.cat([left, self.branch(right)], 1)
        batch, channels, height, width = y.shape
        y = y.view(batch, 2, channels // 2, height, width).transpose(1, 2)
        return y.reshape(batch, channels, height, width)


def shufflenet() -> Example:
    return nn.Sequential(nn.Conv2d(3, 20, 3, 2, 1), ChannelShuffle(20), ChannelShuffle(20)), (image(24),)


class ConvNeXtBlock(nn.Module):
    """Large depthwise kernel, layer normalization over channels, pointwise network, layer scale (ConvNeXt)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(0.1 * torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.narrow(F.gelu(self.widen(y))) * self.scale
        return x + y.permute(0, 3, 1, 2)


def convnext() -> Example:
    return nn.Sequential(nn.Conv2d(3, 24, 4, 4), ConvNeXtBlock(24), nn.Conv2d(24, 48, 2, 2)), (image(32),)


class CausalTransformer(nn.Module):
    """Token and position embeddings, causal attention with one projection for q, k and v, tanh-GELU (GPT-2)."""

    def __init__(self, vocabulary: int = 100, width: int = 32, heads: int = 4, length: int = 16) -> None:
        super().__init__()
        self.heads = heads
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        batch, length = ids.shape
        x = self.tokens(ids) + self.positions(torch.arange(length))
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, -1))
        x = x + self.narrow(F.gelu(self.widen(self.norm2(x)), approximate="tanh"))
        return self.head(x)


def causal_transformer() -> Example:
    return CausalTransformer(), (torch.randint(0, 100, (1, 16)),)


class SpeechEncoder(nn.Module):
    """Convolutions over time, then an encoder (Whisper)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(20, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        layer = nn.TransformerEncoderLayer(width, 4, 64, 0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(F.gelu(self.second(F.gelu(self.first(x)))).transpose(1, 2))


def speech_encoder() -> Example:
    return SpeechEncoder(), (torch.randn(1, 20, 40),)


class ShiftedWindows(nn.Module):
    """Attention within windows with a bias per position, windows shifted by rolling the image (Swin)."""

    def __init__(self, width: int = 24, window: int = 4, heads: int = 2) -> None:
        super().__init__()
        self.window, self.heads = window, heads
        self.patches, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn(heads, window * window, window * window))

    def attend(self, x: Tensor, shift: int) -> Tensor:
        batch, height, width, channels = x.shape
        rows, columns, side = height // self.window, width // self.window, self.window
        y = torch.roll(self.norm(x), (-shift, -shift), (1, 2)) if shift else self.norm(x)
        y = y.view(batch, rows, side, columns, side, channels).permute(0, 1, 3, 2, 4, 5)
        y = y.reshape(-1, side * side, channels)
        q, k, v = (
            self.qkv(y).view(y.shape[0], -1, 3, self.heads, channels // self.heads).permute(2, 0, 3, 1, 4)
        )
        weights = (q @ k.transpose(-2, -1)) * (channels // self.heads) ** -0.5 + self.bias
        y = self.out((weights.softmax(-1) @ v).transpose(1, 2).reshape(y.shape))
        y = y.view(batch, rows, columns, side, side, channels).permute(0, 1, 3, 2, 4, 5)
        y = y.reshape(batch, height, width, channels)
        return x + (torch.roll(y, (shift, shift), (1, 2)) if shift else y)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).permute(0, 2, 3, 1)
        return self.attend(self.attend(x, 0), 2).mean((1, 2))


def shifted_windows() -> Example:
    return ShiftedWindows(), (image(32),)


class Inception(nn.Module):
    """Parallel branches with factorized kernels and pooling (Inception v3)."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.pooled = nn.Conv2d(16, 8, 1), nn.Conv2d(16, 8, 1)
        self.factorized = nn.Sequential(
            nn.Conv2d(16, 12, (1, 7), padding=(0, 3)), nn.ReLU(), nn.Conv2d(12, 16, (7, 1), padding=(3, 0))
        )

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.pooled(F.avg_pool2d(x, 3, 1, 1))
        return torch.cat([self.plain(x), self.factorized(x), pooled], 1)


def inception() -> Example:
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2), Inception()), (image(35),)


class Autoencoder(nn.Module):
    """Many activations, transposed convolution, bilinear upsampling, two outputs (VAE)."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.LeakyReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ELU(), nn.Flatten()
        )
        self.bottleneck = nn.Linear(8 * 49, 8)
        self.decoder = nn.Sequential(
            nn.Linear(4, 8 * 49),
            nn.Softplus(),
            nn.Unflatten(1, (8, 7, 7)),
            nn.ConvTranspose2d(8, 8, 3, 2, 1, 1),
            nn.PReLU(8),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Conv2d(8, 1, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.bottleneck(self.encoder(x)).chunk(2, 1)
        return self.decoder(mean + torch.exp(0.5 * log_variance)), mean


def autoencoder() -> Example:
    return Autoencoder(), (image(28, channels=1, batch=2),)


class Recommender(nn.Module):
    """Embeddings of categories, dot products of all pairs, a small network (DLRM)."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(50, 8) for _ in range(3))
        self.bottom, self.top = nn.Linear(13, 8), nn.Linear(14, 1)
        self.register_buffer("pairs", torch.tril_indices(4, 4, -1))

    def forward(self, dense: Tensor, categories: Tensor) -> Tensor:
        vectors = [F.relu(self.bottom(dense))]
        vectors += [table(categories[:, i]) for i, table in enumerate(self.embeddings)]
        stacked = torch.stack(vectors, 1)
        products = (stacked @ stacked.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([stacked[:, 0], products], 1)))


def recommender() -> Example:
    return Recommender(), (torch.randn(4, 13), torch.randint(0, 50, (4, 3)))


def super_resolution() -> Example:
    layers = [
        nn.Conv2d(1, 16, 5, padding=2),
        nn.Hardswish(),
        nn.Conv2d(16, 9, 3, padding=1),
        nn.PixelShuffle(3),
    ]
    return nn.Sequential(*layers), (image(14, channels=1),)


def video() -> Example:
    layers = [
        nn.Conv3d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool3d((1, 2, 2)),
        nn.Conv3d(8, 8, 3, (1, 2, 2), 1),
        nn.InstanceNorm3d(8, affine=True),
    ]
    return nn.Sequential(*layers), (torch.randn(1, 3, 4, 16, 16),)


class RelativePositions(nn.Module):
    """Root-mean-square norm, bucketed relative positions, masked attention (T5)."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.tokens, self.buckets = nn.Embedding(50, width), nn.Embedding(16, heads)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.scale = nn.Parameter(torch.ones(width))

    def bucket(self, length: int) -> Tensor:
        distance = torch.arange(length)[None] - torch.arange(length)[:, None]
        far = 4 + (torch.log(distance.abs().float().clamp(min=1) / 4) / math.log(8) * 4).long()
        near = torch.where(distance.abs() < 4, distance.abs(), far.clamp(max=7))
        return near + (distance > 0).long() * 8

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.tokens(ids)
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        batch, length, width = x.shape
        q, k, v = (
            project(normed).view(batch, length, self.heads, -1).transpose(1, 2)
            for project in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose(2, 3) + self.buckets(self.bucket(length)).permute(2, 0, 1)[None]
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        return x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)


def relative_positions() -> Example:
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 8:] = 0
    return RelativePositions(), (torch.randint(0, 50, (2, 12)), mask)


ARCHITECTURES: dict[str, Callable[[], Example]] = {
    make.__name__: make
    for make in (
        efficientnet,
        vision_transformer,
        densenet,
        unet,
        shufflenet,
        convnext,
        causal_transformer,
        speech_encoder,
        shifted_windows,
        inception,
        autoencoder,
        recommender,
        super_resolution,
        video,
        relative_positions,
    )
}

"""Four architectures with random weights, written with the nn library: something to tune without any file.

>>> mod, params, inputs = load("resnet18", image_size=64)  # doctest: +SKIP

``names()`` lists them; a configuration's fields are keywords of :func:`load`. Nothing here needs PyTorch or ONNX.
"""

from .architecture import ZooError, architecture
from .catalog import example_inputs, load, names, small_config

__all__ = ["architecture", "names", "load", "small_config", "example_inputs", "ZooError"]

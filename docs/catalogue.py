"""All functions by family, each with the names that the literature has for it: titles, lists and searches use these.

The families are those of the package's docstring. A function is known as what its own docstring opens with, and as more
where `_KNOWN_AS` says so.
"""

import inspect
import operator
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jaxpool
from jaxpool import morphology

_KNOWN_AS = {
    "lp_pool": "Lp pooling, L2 pooling, power-average pooling",
    "smooth_max_pool": "smooth max pooling, log-sum-exp pooling",
    "mixed_pool": "mixed max-average pooling",
    "median_pool": "median pooling, median filter",
    "quantile_pool": "quantile pooling, percentile filter",
    "max_blur_pool": "max-blur pooling, anti-aliased max pooling",
    "spatial_pyramid_pool": "spatial pyramid pooling (SPP)",
    "global_avg_pool": "global average pooling (GAP)",
}


def function_called(name: str) -> Callable[..., Any]:
    """The function of jaxpool with this name, which may be that of a module and a function in it."""
    return operator.attrgetter(name)(jaxpool)


def _known_as(name: str) -> str:
    opening = (inspect.getdoc(function_called(name)) or "").partition(":")[0].replace(", or ", ", ")
    return _KNOWN_AS.get(name, opening[:1].lower() + opening[1:])


def _families(module: ModuleType) -> dict[str, dict[str, str]]:
    """The lines of a module's docstring that list functions, by their titles."""
    prefix = f"{module.__name__}.".removeprefix("jaxpool.")
    families = {}
    for line in re.split(r"\n(?! )", module.__doc__ or ""):
        title, _, names = line.partition(": ")
        functions = re.findall(r"\w+", names)
        if functions and all(inspect.isfunction(getattr(module, name, None)) for name in functions):
            families[title] = {prefix + name: _known_as(prefix + name) for name in functions}
    return families


# Context managers, with what they are for.
CONTEXTS: dict[str, str] = {
    "portable": "Taylor mode, forward Laplacians, exports to ONNX",
    "compiling_for": "programs for another platform",
}

# What goes in the place of a kernel_size.
KERNELS: dict[str, str] = {
    "bins": "adaptive windows",
    "whole": "one window over whole axes",
    "footprint": "windows of any shape",
}

# Modules with the signatures of another library.
LIBRARIES: dict[str, str] = {
    "torch": "PyTorch",
    "flax": "Flax",
    "haiku": "Haiku",
    "equinox": "Equinox",
    "keras": "Keras",
}

FAMILIES = {title: names for title, names in _families(jaxpool).items() if not names.keys() & (CONTEXTS | KERNELS)}

# Functions with one page for all of them.
MORPHOLOGY = _families(morphology)

# Names in libraries and papers that a reader may know and search for.
OTHER_NAMES: dict[str, str] = {
    "max_pool": "`MaxPool1d`, `MaxPool2d`, `MaxPool3d` in PyTorch; `MaxPooling1D`, `MaxPooling2D`, "
    "`MaxPooling3D` in Keras; `MaxPool` in Haiku",
    "max_pool_with_indices": "`MaxPool2d(…, return_indices=True)` in PyTorch; `max_pool_with_argmax` in TensorFlow",
    "top_k_pool": "`lax.top_k` and `torch.topk` of every window, k-max pooling",
    "max_unpool": "`MaxUnpool1d`, `MaxUnpool2d`, `MaxUnpool3d` in PyTorch; upsampling by indices",
    "avg_pool": "`AvgPool1d`, `AvgPool2d`, `AvgPool3d` in PyTorch; `AveragePooling1D`, `AveragePooling2D`, "
    "`AveragePooling3D` in Keras; `AvgPool` in Haiku",
    "lp_pool": "`LPPool1d`, `LPPool2d`, `LPPool3d` in PyTorch; a pool with a learnable (trainable) exponent",
    "gem_pool": "a pool with a learnable (trainable) exponent",
    "smooth_max_pool": "logsumexp pooling, LSE pooling",
    "blur_pool": "antialiasing, BlurPool",
    "max_blur_pool": "antialiasing, MaxBlurPool",
    "adaptive_max_pool": "`AdaptiveMaxPool1d`, `AdaptiveMaxPool2d`, `AdaptiveMaxPool3d` in PyTorch",
    "adaptive_avg_pool": "`AdaptiveAvgPool1d`, `AdaptiveAvgPool2d`, `AdaptiveAvgPool3d` in PyTorch",
    "global_max_pool": "`AdaptiveMaxPool2d(1)` in PyTorch; `GlobalMaxPooling2D` in Keras",
    "global_avg_pool": "`AdaptiveAvgPool2d(1)` in PyTorch; `GlobalAveragePooling2D` in Keras",
    "fractional_max_pool": "`FractionalMaxPool2d`, `FractionalMaxPool3d` in PyTorch",
    "roi_align": "`torchvision.ops.roi_align`, RoIAlign",
    "roi_pool": "`torchvision.ops.roi_pool`, RoIPool",
}

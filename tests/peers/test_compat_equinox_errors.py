"""Calls that `equinox.nn` refuses, and what `jaxpool.compat.equinox` says of them."""

import re
from typing import Any

import numpy as np
import pytest

from jaxpool.compat import equinox as compat

pytestmark = pytest.mark.usefixtures("for_this_platform")

equinox = pytest.importorskip("equinox")

X = np.zeros((1, 4, 6), np.float32)
REFUSED: dict[str, tuple[str, dict[str, Any], Any, type[Exception], str]] = {
    "kernel": ("MaxPool2d", {"kernel_size": 2.0}, X, TypeError, "kernel_size must be an int, got 2.0"),
    "kernel of 0": ("AvgPool2d", {"kernel_size": 0}, X, ValueError, "kernel_size must be at least 1, got 0"),
    "entries": ("AvgPool2d", {"kernel_size": (2, 2, 2)}, X, ValueError, r"kernel_size \(2, 2, 2\) has 3 entries but 2"),
    "stride": ("MaxPool2d", {"kernel_size": 2, "stride": None}, X, TypeError, "stride must be an int or a sequence"),
    "stride of 0": ("MaxPool2d", {"kernel_size": 2, "stride": (1, 0)}, X, ValueError, "stride must be at least 1"),
    "word": ("MaxPool2d", {"kernel_size": 2, "padding": "SAME"}, X, TypeError, "padding 'SAME' is a word; give an int"),
    "padding": ("AvgPool2d", {"kernel_size": 2, "padding": 3}, X, ValueError, r"padding \(3, 3\) exceeds .*avg_pool"),
    "paddings": (
        "MaxPool2d",
        {"kernel_size": 2, "padding": (1,)},
        X,
        ValueError,
        r"padding \(1,\) has 1 entries; give",
    ),
    "triples": (
        "MaxPool2d",
        {"kernel_size": 2, "padding": ((1, 1, 1),) * 2},
        X,
        ValueError,
        "padding entry .* not a pair",
    ),
    "rank": ("MaxPool2d", {"kernel_size": 2}, X[0], ValueError, r"x must have the axes \(C, H, W\), .* x\[None\]"),
    "batch": ("AvgPool2d", {"kernel_size": 2}, X[None], ValueError, r"x must have the axes .* jax.vmap\(layer\)\(x\)"),
    "list": ("AvgPool2d", {"kernel_size": 2}, X.tolist(), TypeError, "x must be a JAX or NumPy array"),
    "bins": ("AdaptiveAvgPool2d", {"target_shape": (2, 7)}, X, ValueError, "target_shape 7 is more than the 6 cells"),
    "no bins": ("AdaptiveMaxPool2d", {"target_shape": 0}, X, ValueError, "target_shape must be at least 1, got 0"),
    "None": ("AdaptiveMaxPool2d", {"target_shape": (None, 2)}, X, TypeError, "target_shape must be an int, got None"),
    "one": (
        "AdaptiveAvgPool2d",
        {"target_shape": [2]},
        X,
        ValueError,
        r"target_shape \(2,\) has 1 entry",
    ),
    "no cells": ("AdaptiveAvgPool2d", {"target_shape": 1}, X[:, :0], ValueError, "axis 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_both_refuse(name: str) -> None:
    layer, arguments, x, exception, message = REFUSED[name]
    # An assertion is what Equinox makes of a wrong shape.
    with pytest.raises((AssertionError, AttributeError, ArithmeticError, RuntimeError, TypeError, ValueError)):
        getattr(equinox.nn, layer)(**arguments)(x)
    with pytest.raises(exception) as raised:
        getattr(compat, layer)(**arguments)(x)
    assert re.match(f"{layer}: {message}", str(raised.value)), str(raised.value)


def test_complex_numbers_have_no_maximum() -> None:
    for layer in (compat.MaxPool1d(2), compat.AdaptiveMaxPool1d(2)):
        with pytest.raises(TypeError, match=r"^\w+: .* complex numbers are not supported"):
            layer(np.zeros((1, 4), np.complex64))

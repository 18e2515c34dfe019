"""Arrays of other makes, in every argument of every function: taken as an equal array is, or refused in one sentence.

Taken are JAX's and NumPy's own, subclasses such as memory maps, scalars and arrays without axes, any order of bytes,
and whatever has `__jax_array__`, such as the parameters of `flax.nnx`. Masked arrays are refused in every argument, as
their masks would be lost, and so is what only converts to NumPy, in those that take arrays.
"""

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
import jaxpool.morphology
from jaxpool.compat import equinox, flax, haiku, keras, torch
from tests.mistakes.errors import working
from tests.registry.records import RECORDS

_RANDOM = np.random.default_rng(0)


def _floats(*shape: int) -> np.ndarray:
    return _RANDOM.normal(size=shape).astype(np.float32)


# A value for every argument, by its name, where an array or a number means something.
VALUES: dict[str, Any] = {
    "x": _floats(2, 8, 8),
    "values": _floats(2, 8, 8),
    "indices": _RANDOM.permutation(128).reshape(2, 8, 8).astype(np.int32),
    "where": _RANDOM.random((8, 8)) < 0.9,
    "weights": abs(_floats(8, 8)),
    "logits": _floats(8, 8),
    "norm_type": np.array(3.0, np.float32),
    "beta": np.array(2.0, np.float32),
    "alpha": np.array(0.75, np.float32),
    "boxes": np.array([[1.3, 0.7, 5.2, 4.9], [-2.6, 3.1, 2.2, 8.4]], np.float32),
    "samples": np.array([[0.3, 0.9], [0.1, 0.5]], np.float32),
    "key": np.array([1, 2], np.uint32),
    "element": _floats(3, 3),
    "cells": np.eye(3) > 0,
    "kernel_size": np.array([2, 2]),
    "output_size": np.array([2, 2]),
    "stride": np.array(2),
    "padding": np.array(0),
    "dilation": np.array(1),
    "blur_size": np.array([3, 3]),
    "axis": np.array([-2, -1]),
    "k": np.array(2),
    "q": np.array(0.5),
    "eps": np.array(0.25),
    "correction": np.array(0.5),
    "divisor_override": np.array(3.0),
    "sampling_ratio": np.array(2),
    "output_ratio": np.array(0.25),
    "sizes": np.array(2),
    "ceil_mode": np.array(False),
    "count_include_pad": np.array(True),
    "keepdims": np.array(True),
    "aligned": np.array(True),
}
# Arguments that exclude each other, and those that name a choice.
INSTEAD = {"samples": "key", "key": "samples", "output_ratio": "output_size"}
CHOICES = {"rule", "method", "kind", "levels"}


class Parameter:
    """What converts to a JAX array, as `flax.nnx.Param` does."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __jax_array__(self) -> jax.Array:
        return jnp.asarray(self.value)


class Tensor:
    """What converts to a NumPy array alone, as tensors of PyTorch and tables of pandas do."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.value, dtype)


class Subclass(np.ndarray):
    """A subclass, as `np.memmap` is."""


TAKEN: dict[str, Callable[[np.ndarray], Any]] = {
    "JAX": jnp.asarray,
    "scalar": lambda array: array[()],
    "subclass": lambda array: array.view(Subclass),
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "big-endian scalar": lambda array: array.astype(array.dtype.newbyteorder(">"))[()],
    "__jax_array__": Parameter,
}


def _function(name: str) -> Callable[..., Any]:
    return getattr(jaxpool.morphology if name in MORPHOLOGY else jaxpool, name)


MORPHOLOGY = ("dilation", "erosion", "opening", "closing", "white_top_hat", "black_top_hat", "gradient")
FUNCTIONS = (*RECORDS, *MORPHOLOGY, "footprint")


def _names(function: str) -> list[str]:
    return [name for name in inspect.signature(_function(function)).parameters if name not in CHOICES]


def _takes_arrays(function: str, name: str) -> bool:
    annotation = str(inspect.signature(_function(function)).parameters[name].annotation)
    return "ArrayLike" in annotation or annotation == "Element"


def _arguments(function: str, tried: str) -> dict[str, Any]:
    """Arguments that the function needs, and the mask, with an array for the one that is tried."""
    if function in MORPHOLOGY or function == "footprint":
        given = {name: VALUES[name] for name in _names(function) if name in ("x", "element", "cells")}
    else:
        given = {name: VALUES[name] if name in VALUES else value for name, value in working(function).items()}
    if function == "max_unpool":
        given["output_size"] = np.array([16, 16])
    given = {
        name: value.tolist() if isinstance(value, np.ndarray) and not _takes_arrays(function, name) else value
        for name, value in given.items()
    }
    given[tried] = VALUES[tried] if function != "max_unpool" or tried != "output_size" else np.array([16, 16])
    given.pop(INSTEAD.get(tried, ""), None)
    return given


def _call(function: str, arguments: dict[str, Any]) -> Any:
    return _function(function)(**arguments)


@cache
def _expected(function: str, tried: str) -> Any:
    arguments = _arguments(function, tried)
    if not _takes_arrays(function, tried):
        arguments[tried] = arguments[tried].tolist()
    return jax.tree.leaves(_call(function, arguments))


ARRAYS = [(function, name) for function in FUNCTIONS for name in _names(function) if _takes_arrays(function, name)]
NUMBERS = [(function, name) for function in FUNCTIONS for name in _names(function) if not _takes_arrays(function, name)]


@pytest.mark.parametrize("make", TAKEN)
@pytest.mark.parametrize(("function", "name"), ARRAYS)
def test_array_is_taken(function: str, name: str, make: str) -> None:
    arguments = _arguments(function, name)
    arguments[name] = TAKEN[make](arguments[name])
    for given, expected in zip(jax.tree.leaves(_call(function, arguments)), _expected(function, name), strict=True):
        if name == "norm_type":  # that of an array is evaluated in a way of its own
            np.testing.assert_allclose(given, expected, rtol=1e-6)
        else:
            np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("make", TAKEN)
@pytest.mark.parametrize(("function", "name"), NUMBERS)
def test_number_is_taken_or_refused(function: str, name: str, make: str) -> None:
    arguments = _arguments(function, name)
    arguments[name] = TAKEN[make](arguments[name])
    try:
        pooled = jax.tree.leaves(_call(function, arguments))
    except (TypeError, ValueError) as error:
        raised = error
    else:
        for given, expected in zip(pooled, _expected(function, name), strict=True):
            np.testing.assert_array_equal(given, expected)
        return
    assert type(raised) in (TypeError, ValueError)
    assert re.match(rf"{function}: .*\b{name}\b", str(raised))


@pytest.mark.parametrize(("function", "name"), ARRAYS + NUMBERS)
def test_masked_array_is_refused(function: str, name: str) -> None:
    arguments = _arguments(function, name)
    message = rf"^{function}: {name} is a masked array.*where=~np\.ma\.getmaskarray\(x\)$"
    for mask in (True, False):
        arguments[name] = np.ma.array(VALUES[name], mask=mask)
        with pytest.raises(TypeError, match=message):
            _call(function, arguments)


# A footprint may be whatever NumPy takes, lists too, and a key is made, not converted.
@pytest.mark.parametrize(("function", "name"), [row for row in ARRAYS if row[1] not in ("cells", "key")])
def test_what_converts_to_numpy_is_refused(function: str, name: str) -> None:
    arguments = _arguments(function, name)
    arguments[name] = Tensor(VALUES[name])
    with pytest.raises(TypeError, match=rf"^{function}: {name} must be .*, got Tensor; convert .*asarray\({name}\)$"):
        _call(function, arguments)


def test_masked_rows_of_a_footprint() -> None:
    row = np.ma.array([True, True], mask=[True, False])
    with pytest.raises(TypeError, match=r"^footprint: cells is a masked array"):
        jaxpool.footprint([row, row])


# Stand-ins, their names for the array, and their other arguments.
STAND_INS: list[tuple[Callable[..., Any], str, tuple[Any, ...]]] = [
    (flax.max_pool, "inputs", ((2, 2),)),
    (flax.min_pool, "inputs", ((2, 2),)),
    (flax.avg_pool, "inputs", ((2, 2),)),
    (haiku.max_pool, "value", ((2, 2), 2, "VALID")),
    (haiku.avg_pool, "value", ((2, 2), 2, "VALID")),
    (keras.max_pool, "inputs", (2,)),
    (keras.average_pool, "inputs", (2,)),
    (keras.adaptive_max_pool, "inputs", (2,)),
    (keras.adaptive_average_pool, "inputs", (2,)),
    (equinox.MaxPool2d(2), "x", ()),
    (equinox.AvgPool2d(2), "x", ()),
    (torch.max_pool2d, "input", (2,)),
    (torch.avg_pool2d, "input", (2,)),
    (torch.lp_pool2d, "input", (2, 2)),
    (torch.adaptive_avg_pool2d, "input", (2,)),
]


@pytest.mark.parametrize(("pool", "name", "others"), STAND_INS)
@pytest.mark.filterwarnings("ignore:.*under jax.vmap an int:DeprecationWarning")
def test_stand_ins(pool: Callable[..., Any], name: str, others: tuple[Any, ...]) -> None:
    x = VALUES["x"]
    for make in TAKEN.values():
        np.testing.assert_array_equal(pool(make(x), *others), pool(x, *others))
    with pytest.raises(TypeError, match=rf": {name} is a masked array"):
        pool(np.ma.array(x, mask=True), *others)

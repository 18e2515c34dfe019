"""Arrays of other makes, in every argument of every function: taken as an equal array is, or refused in one sentence.

Taken are JAX's and NumPy's own, subclasses such as memory maps, scalars and arrays without axes, any order of bytes,
and whatever has `__jax_array__`, such as the parameters of `flax.nnx`. Masked arrays are refused in every argument, as
their masks would be lost, and so is what only converts to NumPy, in those that take arrays.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
import jaxpool.morphology
from jaxpool.compat import equinox, flax, haiku, keras, torch
from tests.mistakes.errors import working
from tests.reference.jets import CHAINS
from tests.registry.records import RECORDS, one_of_each_kind

_RANDOM = np.random.default_rng(0)


def _floats(*shape: int) -> np.ndarray:
    return _RANDOM.normal(size=shape).astype(np.float32)


# A value for every argument, by its name, where an array or a number means something.
VALUES: dict[str, Any] = {
    "x": _floats(2, 8, 8),
    "values": _floats(2, 4, 4),
    "indices": _RANDOM.permutation(32).reshape(2, 4, 4).astype(np.int32),
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
    "output_size": np.array([4, 4]),
    "blur_size": np.array([3, 3]),
    "axis": np.array([-2, -1]),
    "kernel_size": np.array([2, 2]),
    "padding": np.array(0),
    "dilation": np.array(1),
    "divisor_override": np.array(3.0),
    **{name: np.array(2) for name in ("stride", "k", "sampling_ratio", "sizes")},
    **{name: np.array(0.25) for name in ("q", "eps", "correction", "output_ratio")},
    **{name: np.array(True) for name in ("ceil_mode", "count_include_pad", "keepdims", "aligned")},
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
    "columns first": np.asfortranarray,
    "reversed view": lambda array: np.flip(np.flip(array).copy()),
    "subclass": lambda array: array.view(Subclass),
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "big-endian scalar": lambda array: array.astype(array.dtype.newbyteorder(">"))[()],
    "__jax_array__": Parameter,
}


FUNCTIONS = [
    *one_of_each_kind(RECORDS),
    *(pytest.param(name, marks=() if name == "dilation" else pytest.mark.slow) for name in CHAINS),
    "footprint",
]


class Trial(NamedTuple):
    """A function and an argument of it, which is an array."""

    pool: Callable[..., Any]
    name: str
    needed: dict[str, Any]

    def takes_arrays(self, name: str) -> bool:
        """Whether the argument may be an array of any shape, or only what an array of integers may stand for."""
        annotation = str(inspect.signature(self.pool).parameters[name].annotation)
        return "ArrayLike" in annotation or annotation == "Element"

    def plain(self, name: str) -> Any:
        """The argument without any doubt about its make."""
        if name not in VALUES:
            return self.needed[name]
        return VALUES[name] if self.takes_arrays(name) else VALUES[name].tolist()

    def outcome(self, value: Any) -> list[Any] | str:
        """The results with this value of the argument, or the error that refuses it."""
        others = [name for name in self.needed if name not in (self.name, INSTEAD.get(self.name))]
        try:
            return jax.tree.leaves(self.pool(**{name: self.plain(name) for name in others}, **{self.name: value}))
        except (TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"

    def must_refuse(self, value: Any, message: str) -> None:
        """Check the message for this value of the argument."""
        pattern = f"TypeError: {self.pool.__name__}: {self.name} {message}$"
        outcome = self.outcome(value)
        assert isinstance(outcome, str), pattern
        assert re.match(pattern, outcome), outcome


def _trials(function: str) -> list[Trial]:
    """The function with each of its arguments."""
    pool = getattr(jaxpool.morphology if function in CHAINS else jaxpool, function)
    names = [name for name in inspect.signature(pool).parameters if name not in CHOICES]
    own = {name: VALUES[name] for name in names if name in ("x", "element", "cells")}
    needed = working(function) if function in RECORDS else own
    return [Trial(pool, name, needed) for name in names]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_makes_of_arguments(function: str) -> None:
    for trial in _trials(function):
        value, is_array = VALUES[trial.name], trial.takes_arrays(trial.name)
        expected = trial.outcome(trial.plain(trial.name))
        assert isinstance(expected, list), expected
        for make, convert in TAKEN.items():
            outcome = trial.outcome(convert(value))
            if isinstance(outcome, str):
                assert not is_array, f"{make}: {outcome}"
                assert re.match(rf"(Type|Value)Error: {function}: .*\b{trial.name}\b", outcome), f"{make}: {outcome}"
            else:
                for one, other in zip(outcome, expected, strict=True):
                    # Numbers given as arrays are evaluated in ways of their own; a footprint is no array.
                    if not isinstance(one, jax.Array):
                        assert one == other
                    else:
                        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7, err_msg=f"{trial.name}, {make}")


def test_masked_rows_of_a_footprint() -> None:
    row = np.ma.array([True, True], mask=[True, False])
    with pytest.raises(TypeError, match=r"^footprint: cells is a masked array"):
        jaxpool.footprint([row, row])


# Stand-ins, and their other arguments.
STAND_INS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    *((pool, ((2, 2),)) for pool in (flax.max_pool, flax.min_pool, flax.avg_pool)),
    *((pool, ((2, 2), 2, "VALID")) for pool in (haiku.max_pool, haiku.avg_pool)),
    *((pool, (2,)) for pool in (keras.max_pool, keras.average_pool)),
    *((pool, (2,)) for pool in (keras.adaptive_max_pool, keras.adaptive_average_pool)),
    *((pool, ()) for pool in (equinox.MaxPool2d(2), equinox.AvgPool2d(2), equinox.AdaptiveMaxPool2d(2))),
    *((pool, (2,)) for pool in (torch.max_pool2d, torch.avg_pool2d, torch.adaptive_avg_pool2d)),
    (torch.lp_pool2d, (2, 2)),
]


@pytest.mark.parametrize(("pool", "others"), STAND_INS)
@pytest.mark.filterwarnings("ignore:.*under jax.vmap an int:DeprecationWarning")
def test_stand_ins(pool: Callable[..., Any], others: tuple[Any, ...]) -> None:
    x = VALUES["x"]
    for make in TAKEN.values():
        np.testing.assert_array_equal(pool(make(x), *others), pool(x, *others))
    with pytest.raises(TypeError, match=r": (x|inputs?|value) is a masked array"):
        pool(np.ma.array(x, mask=True), *others)

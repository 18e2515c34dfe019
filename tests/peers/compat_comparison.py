"""What it means for a stand-in to equal the function of a framework that it replaces.

All calls of a table are one program, which runs on distinct integers in random order and on few integers with many
ties. Maxima and minima and their gradients must be equal. Sums of such integers are exact, so that averages may differ
by the rounding of one quotient, and of a second one in 16 bits; gradients of averages add at most 18 quotients, of
cotangents up to 9, each of them rounded.
"""

import inspect
import math
import pkgutil
import re
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.harness.compilation import compiled_fast


class Call(NamedTuple):
    """A function by name, the shape and dtype of its array, and its other arguments."""

    function: str
    shape: tuple[int, ...]
    arguments: dict[str, Any]
    dtype: str = "float32"


Pool = Callable[[Call, jax.Array], jax.Array]


@cache
def imported(name: str) -> Any:
    """A module of a framework. Keras reads both variables when imported, and writes settings into its home."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KERAS_BACKEND", "jax")
        environment.setenv("KERAS_HOME", tempfile.mkdtemp())
        return pytest.importorskip(name)


def pool_of(module: Any, call: Call, x: jax.Array) -> jax.Array:
    """What a function, or a layer of Equinox, gives."""
    pool = getattr(module, call.function)
    return pool(**call.arguments)(x) if call.function.endswith("d") else pool(x, **call.arguments)


def check_calls(
    calls: Sequence[Call],
    theirs: Pool,
    ours: Pool,
    *,
    gradients: bool = True,
    ties: bool = True,
) -> None:
    """Compare values, dtypes and gradients of `ours` with those of `theirs`, for every call, or not those of ties."""
    random = np.random.default_rng(0)
    low = [0 if jnp.issubdtype(call.dtype, jnp.unsignedinteger) else -20 for call in calls]
    distinct = [
        random.permutation(math.prod(call.shape)).reshape(call.shape) + one
        for call, one in zip(calls, low, strict=True)
    ]
    tied = [random.integers(0, 3, call.shape) for call in calls]
    outputs = [result_of(theirs, call) for call in calls]
    cotangents = [random.integers(1, 10, output.shape).astype(output.dtype) for output in outputs]

    @compiled_fast
    def run(arrays: list[jax.Array], cotangents: list[jax.Array]) -> Any:
        found = []
        for call, x, cotangent in zip(calls, arrays, cotangents, strict=True):
            for pool in (theirs, ours):
                if gradients and jnp.issubdtype(call.dtype, jnp.floating):
                    value, pullback = jax.vjp(lambda x, pool=pool, call=call: pool(call, x), x)
                    found.append((value, pullback(cotangent)[0]))
                else:
                    found.append((pool(call, x),))
        return found

    for arrays in (distinct, tied):
        found = run([jnp.asarray(x, call.dtype) for call, x in zip(calls, arrays, strict=True)], cotangents)
        for call, expected, result in zip(calls, found[::2], found[1::2], strict=True):
            whats = ("value", "gradient") if ties or arrays is distinct else ("value",)
            for what, one, other in zip(whats, expected, result, strict=False):
                assert (other.shape, other.dtype) == (one.shape, one.dtype), call
                rtol, atol = tolerances(call, what)
                np.testing.assert_allclose(
                    np.asarray(other, np.float64), np.asarray(one, np.float64), rtol, atol, err_msg=f"{what}, {call}"
                )


def tolerances(call: Call, what: str) -> tuple[float, float]:
    """How far a result may be from that of the framework, relatively and absolutely."""
    if not re.search("avg|average", call.function.lower()):
        return 0, 0
    unit = 2.0**-8 if call.dtype == "bfloat16" else 2.0**-23
    return 2 * unit, 18 * 9 * unit / 2 if what == "gradient" else 0


def result_of(pool: Pool, call: Call) -> jax.ShapeDtypeStruct:
    """The shape and dtype of a call's result."""
    return jax.eval_shape(lambda x: pool(call, x), jax.ShapeDtypeStruct(call.shape, call.dtype))


def original(stand_in: Callable[..., Any]) -> Any:
    """The function or class of the framework that the docstring of a stand-in names."""
    named = re.match(r"As `([\w.]+)`", stand_in.__doc__ or "")
    assert named
    return pkgutil.resolve_name(named[1])


def same_signature(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether two functions or constructors take the same arguments: names, kinds, order and defaults."""

    def plain(function: Callable[..., Any]) -> list[Any]:
        parameters = inspect.signature(function).parameters.values()
        return [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]

    return plain(one) == plain(other)


def check_refused(call: Callable[[], Any], exception: type[Exception], message: str) -> None:
    """Check the error of a wrong call; JAX's own are subclasses."""
    with pytest.raises(exception) as raised:
        call()
    assert raised.type is exception
    assert re.match(message, str(raised.value)), str(raised.value)

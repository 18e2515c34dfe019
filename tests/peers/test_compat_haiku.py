"""`jaxpool.compat.haiku` against Haiku: signatures, inferred sizes, values and gradients, and where Haiku is wrong."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool.compat import haiku as compat
from tests.peers.compat_comparison import (
    Call,
    check_calls,
    original,
    result_of,
    same_signature,
    settings_of_users,
    warned,
)

pytestmark = pytest.mark.usefixtures("for_this_platform")

haiku = pytest.importorskip("haiku")

FUNCTIONS = ("max_pool", "avg_pool")
CLASSES = ("MaxPool", "AvgPool")
INT_WARNING = "ignore:(When running under vmap|.*under jax.vmap an int):DeprecationWarning"


@pytest.fixture(autouse=True)
def _default_settings(_strict_float64: None) -> Iterator[None]:
    with settings_of_users():
        yield


def theirs(call: Call, x: jax.Array) -> jax.Array:
    return getattr(haiku, call.function)(x, **call.arguments)


def ours(call: Call, x: jax.Array) -> jax.Array:
    return getattr(compat, call.function)(x, **call.arguments)


def calls_of(shape: tuple[int, ...], window: Any, strides: Any, dtype: str = "float32", **others: Any) -> list[Call]:
    """Both functions with both paddings."""
    sizes = {"window_shape": window, "strides": strides, **others}
    return [
        Call(function, shape, {**sizes, "padding": padding}, dtype)
        for function, padding in product(FUNCTIONS, ("VALID", "SAME"))
    ]


def crossed(call: Call) -> bool:
    """Whether this is the one padding that goes with the function: "VALID" with maxima, "SAME" with averages."""
    return call.is_average == (call.arguments["padding"] == "SAME")


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_signature(name: str) -> None:
    assert original(getattr(compat, name)) is getattr(haiku, name)
    assert same_signature(getattr(compat, name), getattr(haiku, name))


@pytest.mark.parametrize("name", CLASSES)
def test_signature_of_calls(name: str) -> None:
    assert same_signature(getattr(compat, name).__call__, getattr(haiku, name).__call__)


# Windows and strides for all axes, for the last ones, and of different length.
SIZES: tuple[tuple[tuple[int, ...], Any, Any], ...] = (
    ((7, 2), (3, 1), (2, 1)),
    ((2, 7, 2), (3, 1), (1, 4, 1)),
    ((6,), (4,), (3,)),
    ((5, 6, 2), (2, 3, 1), (2, 2, 1)),
    ((2, 5, 6, 2), (1, 2, 3, 1), (1, 1, 2, 1)),
    ((2, 5, 6, 2), [3, 2, 1], 1),
    ((3, 5, 6, 2), (2, 2, 2, 2), (1, 2, 2, 1)),
    ((2, 2, 5, 6, 1), (2, 2, 1), (1, 2, 2, 1)),
    ((3, 4, 2, 2), (3, 2, 2, 1), (2, 1, 2, 1)),
)


def test_values_and_gradients() -> None:
    calls = [call for sizes in SIZES for call in calls_of(*sizes)]
    for gradients in (True, False):
        # Gradients of one function with either padding, because they take most of the time.
        check_calls([call for call in calls if crossed(call) == gradients], theirs, ours, gradients=gradients)


@pytest.mark.filterwarnings(INT_WARNING)
def test_values_with_ints() -> None:
    """An int with every channel axis, on arrays of one to five axes."""
    calls = [call for channel in (-1, 1, 0, None) for call in calls_of((2, 5, 3), 2, 2, channel_axis=channel)]
    calls += [call for channel in (-1, -3, 2, None) for call in calls_of((2, 3, 4, 2), 2, 1, channel_axis=channel)]
    calls += calls_of((2, 2, 2, 3, 1), 2, (1, 2, 1, 2, 1)) + calls_of((2, 2, 5, 1), (1, 3, 1), 2)
    calls += calls_of((5, 2), 3, 2) + calls_of((4,), 2, 2, channel_axis=None)
    # Which axes an int is for does not depend on the function.
    check_calls(list(filter(crossed, calls)), theirs, ours, gradients=False)


def test_other_dtypes_and_sizes_that_jaxpool_refuses() -> None:
    calls = [call for dtype in ("bfloat16", "int32", "uint8") for call in calls_of((2, 4, 5, 1), (2, 3, 1), 1, dtype)]
    calls += [call for call in calls_of((2, 3, 1), (2, 1), 1, "bool") if call.function == "max_pool"]
    calls += calls_of((2, 3, 1), (4, 1), 1) + calls_of((2, 0, 1), (2, 1), 1) + calls_of((0, 3, 1), (2, 1), 1)
    check_calls(calls, theirs, ours, gradients=False)
    numbers = [[1.0, 4.0], [3.0, 2.0]]
    for function in FUNCTIONS:
        one, other = (getattr(library, function)(numbers, (2, 1), 1, "VALID") for library in (haiku, compat))
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("float64", [False, True])
def test_dtypes_of_averages(float64: bool) -> None:
    with jax.enable_x64(float64):
        for dtype in ("int8", "uint32", "int32", "bfloat16", "float32", "complex64"):
            for call in calls_of((2, 3, 1), (2, 1), 1, dtype)[2:]:
                assert result_of(ours, call).dtype == result_of(theirs, call).dtype, call


@pytest.mark.parametrize(("window", "strides"), [(2, 2), (2, (1, 2, 1)), ((1, 2, 1), 2), (1, 1), ((1, 2, 1), 1)])
def test_warnings(window: Any, strides: Any) -> None:
    for call in calls_of((2, 3, 1), window, strides):
        expected = warned(partial(result_of, theirs, call))
        assert warned(partial(result_of, ours, call)) == expected
        assert bool(expected) == (2 in (window, strides))


@pytest.mark.parametrize("name", CLASSES)
def test_classes_inside_and_outside_of_transform(name: str) -> None:
    x = jnp.arange(24.0).reshape(1, 4, 6, 1)
    arguments = ((2, 2, 1), (2, 3, 1), "SAME")
    original = haiku.transform(lambda x: getattr(haiku, name)(*arguments)(x))
    expected = original.apply(original.init(None, x), None, x)
    layer = getattr(compat, name)(*arguments)
    np.testing.assert_array_equal(layer(x), expected)
    inside = haiku.transform(lambda x: haiku.Sequential([getattr(compat, name)(*arguments, name="here")])(x))
    assert inside.init(None, x) == {}
    np.testing.assert_array_equal(inside.apply({}, None, x), expected)
    np.testing.assert_array_equal(jax.jit(layer)(x), expected)


@pytest.mark.parametrize("name", CLASSES)
def test_attributes(name: str) -> None:
    made = []
    haiku.transform(lambda: made.append(getattr(haiku, name)(2, [1, 2, 1], "SAME", channel_axis=1))).init(None)
    layer = getattr(compat, name)(2, [1, 2, 1], "SAME", channel_axis=1)
    for attribute in ("window_shape", "strides", "padding", "channel_axis", "name"):
        assert getattr(layer, attribute) == getattr(made[0], attribute)
    assert getattr(compat, name)(2, 1, "SAME", name="layer").name == "layer"


def test_where_haiku_is_wrong() -> None:
    """Faults of the original, as listed in the docstring of the module, each with the right result."""
    nan = jnp.zeros((8192, 1)).at[5].set(jnp.nan)
    np.testing.assert_array_equal(compat.max_pool(nan, (2, 1), (2, 1), "VALID")[2], jnp.nan)
    low, tangent = jnp.full((3, 1), -jnp.inf), jnp.arange(1.0, 4.0)[:, None]

    def pool(x: jax.Array) -> jax.Array:
        return compat.max_pool(x, (3, 1), (2, 1), "SAME")

    np.testing.assert_array_equal(jax.grad(lambda x: pool(x).sum())(low).ravel(), [1, 1, 0])
    np.testing.assert_array_equal(jax.jvp(pool, (low,), (tangent,))[1].ravel(), [1, 2])
    for padding in ("VALID", "SAME"):
        half = jnp.repeat(jnp.arange(2.0, dtype=jnp.bfloat16), 480)[:, None]
        assert compat.avg_pool(half, (960, 1), (960, 1), padding).item() == 0.5
        assert compat.avg_pool(jnp.full((4, 1), 200, jnp.uint8), (4, 1), (4, 1), padding).item() == 200
        assert compat.avg_pool(jnp.full((7, 1), 3.0), (7, 1), (7, 1), padding).item() == 3


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "padding": ({"padding": "same"}, ValueError, "padding 'same' is unknown; use 'VALID' or 'SAME'; jaxpool.* numbers"),
    "pairs": ({"padding": ((0, 0),)}, ValueError, r"padding \(\(0, 0\),\) is unknown; use 'VALID' or 'SAME'"),
    "too many axes": (
        {"strides": (1,) * 5},
        ValueError,
        "strides .* has 5 entries but value has 4 axes",
    ),
    "no window": ({"window_shape": ()}, ValueError, r"window_shape \(\) is empty"),
    "window of 0": ({"window_shape": 0}, ValueError, "window_shape must be at least 1, got 0"),
    "float window": ({"window_shape": 2.0}, TypeError, "window_shape must be an int, got 2.0"),
    "float strides": ({"strides": (2.0, 1)}, TypeError, "strides must be an int, got 2.0"),
    "no strides": ({"strides": None}, TypeError, "strides must be an int or a sequence of ints, got None"),
    "channels": ({"window_shape": 2, "channel_axis": 4}, ValueError, "channel_axis 4 is out of range for value with 4"),
    "first axis": ({"strides": 2, "channel_axis": -4}, ValueError, "channel_axis -4 is out of range .*; give None"),
    "channel": ({"strides": 2, "channel_axis": 1.0}, TypeError, "channel_axis must be an int, got 1.0"),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_call(name: str, function: str) -> None:
    wrong, exception, message = WRONG[name]
    right = {"value": np.zeros((1, 4, 4, 1), np.float32), "window_shape": (2, 2, 1), "strides": 1, "padding": "SAME"}
    with pytest.raises(exception) as raised:
        getattr(compat, function)(**{**right, **wrong})
    assert re.match(f"{function}: {message}", str(raised.value)), str(raised.value)


def test_complex_numbers_have_no_maximum() -> None:
    with pytest.raises(TypeError, match=r"^max_pool: .* complex numbers are not supported"):
        compat.max_pool(np.zeros((4, 1), np.complex64), (2, 1), 1, "SAME")
